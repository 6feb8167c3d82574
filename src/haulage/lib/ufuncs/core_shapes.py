"""The layout of a generalised ufunc, such as `(m,n),(n,p)->(m,p)`, and sizes for its letters.

The notation is NumPy's, see "Generalized universal function API" in its documentation.
"""

import re
from dataclasses import dataclass

from haulage.runtime.geometry.layout import Ints

Core = tuple[str, ...]

_GROUP = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*,?\s*)?\)"
_LIST = rf"{_GROUP}(?:\s*,\s*{_GROUP})*"
_LAYOUT = re.compile(rf"\s*({_LIST})\s*->\s*({_LIST})\s*")


@dataclass(frozen=True)
class CoreShapes:
    """What the function works on: a tuple of names for each input and each output.

    A name that is a number stands for that size.
    """

    text: str
    inputs: tuple[Core, ...]
    outputs: tuple[Core, ...]

    def sizes(self, name: str, inputs: list[Ints], outputs: list[Ints | None]) -> dict[str, int]:
        """The size of each name, from the shapes of the arguments.

        An output that was not given is None.

        Raises:
            ValueError: an argument has too few axes, or a name would have two sizes, or none.
        """
        found: dict[str, tuple[int, str]] = {}
        groups = (("input", self.inputs, inputs), ("output", self.outputs, outputs))
        for what, cores, shapes in groups:
            for number, (core, shape) in enumerate(zip(cores, shapes, strict=True)):
                if shape is None:
                    continue
                here = f"{what} {number}"
                if len(shape) < len(core):
                    raise ValueError(
                        f"{name}: {here} of shape {shape} has too few axes for the core "
                        f"dimensions ({','.join(core)}) of {self.text}"
                    )
                for letter, size in zip(core, shape[len(shape) - len(core) :], strict=True):
                    wanted = (int(letter), "the layout") if letter.isdecimal() else (size, here)
                    known, place = found.setdefault(letter, wanted)
                    if known != size:
                        raise ValueError(
                            f"{name}: core dimension {letter!r} of {self.text} is {size} in "
                            f"{here} of shape {shape}, and {known} in {place}"
                        )
        for letter in {letter for core in self.outputs for letter in core} - set(found):
            if not letter.isdecimal():
                raise ValueError(
                    f"{name}: no input tells core dimension {letter!r} of {self.text}; give out="
                )
            found[letter] = (int(letter), "the layout")
        return {letter: size for letter, (size, _) in found.items()}


def parse(text: str) -> CoreShapes:
    """Read a layout.

    Raises:
        TypeError: it is no string.
        ValueError: it is no layout.
    """
    if not isinstance(text, str):
        raise TypeError(f"layout {text!r}: expected a string such as '(m,n),(n,p)->(m,p)'")
    match = _LAYOUT.fullmatch(text)
    if match is None:
        raise ValueError(f"layout {text!r}: expected something like '(m,n),(n,p)->(m,p)'")
    inputs, outputs = (
        tuple(tuple(re.findall(r"\w+", group)) for group in re.findall(_GROUP, side))
        for side in match.groups()
    )
    return CoreShapes(text, inputs, outputs)
