"""Versions of a kernel's code by which axis of its arrays has unit stride.

The type of an array that is neither contiguous by rows nor by columns leaves all its strides to the
launch, so that no access is known to lie beside another one: each is a gather. A version has one
stride of such arrays as a constant, that of the last or of the first axis: the size of an element.
It is for launches in which that holds, however the other axes lie: views of some rows and columns
have it as contiguous arrays do.

A version is written as one letter for each array whose type leaves the strides open, in the order
of the arguments. The general code, for all strides, is `GENERAL`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from haulage.compiler.access.model import named
from haulage.compiler.arrays import ArrayArgument
from haulage.compiler.definitions import definition_start

if TYPE_CHECKING:
    from haulage.compiler.frontend import Lowered

# The axis of an array with unit stride: the last one, the first one, or none that counts.
LAST, FIRST, NO_AXIS = "l", "f", "-"
GENERAL = ""

_WORDS = {LAST: "last", FIRST: "first"}
_LETTERS = {word: letter for letter, word in _WORDS.items()}


def version(units: Sequence[str]) -> str:
    """The version for arrays with unit strides along these axes."""
    return GENERAL if all(unit == NO_AXIS for unit in units) else "".join(units)


def suits(made: str, units: Sequence[str]) -> bool:
    """Whether code of a version is right for arrays with unit strides along these axes."""
    return made == GENERAL or all(
        letter in (NO_AXIS, unit) for letter, unit in zip(made, units, strict=True)
    )


def told(lowered: "Lowered", made: str) -> dict[str, str]:
    """The axis, 'last' or 'first', that has unit stride in a version, by the array's name."""
    if made == GENERAL:
        return {}
    names = _open(lowered)
    return {
        name: _WORDS[letter] for name, letter in zip(names, made, strict=True) if letter != NO_AXIS
    }


def asked(lowered: "Lowered", axes: str | Mapping[str, str]) -> str:
    """The version that is asked for: an axis for all arrays, or for some by their names.

    Raises:
        ValueError: an axis is neither 'last' nor 'first', or a name is that of no array whose
            strides the types leave open.
    """
    names = _open(lowered)
    given = dict.fromkeys(names, axes) if isinstance(axes, str) else dict(axes)
    for axis in (axes,) if isinstance(axes, str) else given.values():
        if axis not in _LETTERS:
            raise ValueError(f"unit_strides: an axis is 'last' or 'first', got {axis!r}")
    for name in given:
        if name not in names:
            raise ValueError(
                f"unit_strides: {name!r} is no array of {lowered.signature} whose strides its type "
                f"leaves open; these are: {', '.join(names) or 'none'}"
            )
    return version([_LETTERS[given[name]] if name in given else NO_AXIS for name in names])


def with_constants(lowered: "Lowered", made: str) -> str:
    """The module's text, in which the kernel has the strides of a version as constants."""
    text = lowered.llvm
    if made == GENERAL:
        return text
    start = definition_start(text, lowered.entry)
    body = text.index("{\n", start)
    end = text.index("\n}", body)
    names = _parameters(text[start:body])[-len(lowered.arguments) :]
    known: dict[str, str] = {}
    for array, letter in zip(_arrays(lowered), made, strict=True):
        if letter != NO_AXIS:
            stride = array.strides[-1 if letter == LAST else 0]
            known[names[stride]] = str(array.nbytes)
    used = re.sub(_NAME, lambda found: known.get(found[0], found[0]), text[body:end])
    return text[:body] + used + text[end:]


_NAME = re.compile(r'%"[^"]*"|%[-\w.$]+')


def _parameters(head: str) -> list[str]:
    """The names of a function's parameters, whose first line is given."""
    return [found[0] for found in _NAME.finditer(head, head.index("("))]


def _arrays(lowered: "Lowered") -> list[ArrayArgument]:
    return [array for array in lowered.arrays if not array.contiguous]


def _open(lowered: "Lowered") -> list[str]:
    """The names of the arrays whose strides the types leave open."""
    memory = lowered.memory
    paths = {addresses[0]: path for path, addresses in memory.addresses.items()}
    return [named(memory.names, paths[array.data]) for array in _arrays(lowered)]
