"""Makes the words of `words.py`. The table of definitions is read with the first kernel."""

from typing import Any

from haulage.lang.libdevice.function import KINDS, Defined


def libdevice(name: str, signature: str, parameters: str) -> Defined:
    """The word for libdevice's function `__nv_<name>`; see `Defined` for its signature.

    `parameters` are C's names; those of pointers, which lead to the last results, begin with `*`.
    """
    letters, results = signature.split(">")

    def definition() -> Any:
        from haulage.lang.libdevice import table

        return table.definition(name, letters)

    names = parameters.split()
    given = [each for each in names if not each.startswith("*")]
    pairs = zip(given, letters, strict=True)
    listed = ", ".join(f"{parameter}: {KINDS[letter]}" for parameter, letter in pairs)
    returned = ", ".join(KINDS[letter] for letter in results)
    doc = f"`{name}({listed})` of libdevice; gives {returned}."
    return Defined(name, signature, definition, doc, names, f"__nv_{name}")
