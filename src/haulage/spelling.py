"""Names that are near to one that is not there."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint behind a message, ". Did you mean 'x'?", or "" if no known name is near to `name`.

    Names that begin with an underscore are not proposed.
    """
    # Loaded for errors only.
    import difflib

    public = {each.lower(): each for each in known if not each.startswith("_")}
    found = difflib.get_close_matches(name.lower(), public, n=1, cutoff=0.6)
    return f". Did you mean {public[found[0]]!r}?" if found else ""
