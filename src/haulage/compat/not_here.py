"""Why names and modules of Numba's are not there, for the errors of programs that ask for them."""

from functools import cache
from pathlib import Path


def why(path: str) -> str:
    """The reason, and what to do, for the end of a sentence; '' where none is on the list.

    Args:
        path: Numba's full name, such as `numba.cuda.LinkableCode`. What is below a module that is
            on the list has the reason of that module.
    """
    reasons = _reasons()
    while path.count(".") >= 2:
        # The list has names of numba.cuda itself without these words in front.
        for known in (path, path.split(".", 2)[2]):
            if known in reasons:
                return reasons[known]
        path = path.rpartition(".")[0]
    return ""


@cache
def _reasons() -> dict[str, str]:
    import tomllib

    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {
        name: reason["why"] for reason in tomllib.loads(text)["reasons"] for name in reason["names"]
    }
