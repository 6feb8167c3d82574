"""Versions of a kernel's code by what a launch finds in its arguments.

The type of an array that is neither contiguous by rows nor by columns leaves all its strides to the
launch, so that no access is known to lie beside another one: each is a gather. A version has one
stride of such arrays as a constant, that of the last or of the first axis: the size of an element.
It is for launches in which that holds, however the other axes lie: views of some rows and columns
have it as contiguous arrays do.

The type of a signed integer leaves its sign to the launch. An index that is made of it may be
negative then, which in Python counts from the end: each access is at one of two addresses, and so a
gather too. A version has such integers within 0 .. `END` - 1, with which the usual arithmetic of
indices does not overflow 64 bits either, so that LLVM and the value ranges see how each index goes.

A version is written as one letter for each argument that is left open so, in their order: what it
takes for granted of that one. The general code, for all launches, is `GENERAL`.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from haulage.compiler.access.model import named
from haulage.compiler.arguments import ArrayArgument, IntegerArgument
from haulage.compiler.definitions import definition_start

if TYPE_CHECKING:
    from haulage.compiler.frontend import Lowered

# What a launch finds in an argument: an array whose last, or first, axis has unit stride; an
# integer that is not negative, and below `END`; or nothing that there are versions for.
LAST, FIRST, NONNEGATIVE, NOTHING = "l", "f", "n", "-"
GENERAL = ""
END = 1 << 31
# Smaller integers may be others in the kernel than in the launch, as 200 is -56 in 8 bits.
LEAST_BITS = 32

_WORDS = {LAST: "last", FIRST: "first"}
_LETTERS = {word: letter for letter, word in _WORDS.items()}


def version(found: Sequence[str]) -> str:
    """The version for launches that find this in the arguments which are left open."""
    return GENERAL if all(letter == NOTHING for letter in found) else "".join(found)


def suits(made: str, found: str) -> bool:
    """Whether code of a version is right for launches for which another one is made."""
    return made == GENERAL or (
        found != GENERAL
        and all(letter in (NOTHING, own) for letter, own in zip(made, found, strict=True))
    )


def unit_strides(lowered: "Lowered", made: str) -> dict[str, str]:
    """The axis, 'last' or 'first', that has unit stride in a version, by the array's name."""
    return {name: _WORDS[letter] for name, _, letter in _letters(lowered, made) if letter in _WORDS}


def nonnegative(lowered: "Lowered", made: str) -> tuple[str, ...]:
    """The names of the integers that are not negative in a version."""
    return tuple(name for name, _, letter in _letters(lowered, made) if letter == NONNEGATIVE)


def asked(
    lowered: "Lowered",
    axes: str | Mapping[str, str] | None = None,
    integers: bool | Iterable[str] = False,
) -> str:
    """The version that is asked for.

    Args:
        lowered: of the kernel.
        axes: with unit stride, of all arrays whose strides are open, or of some by their names.
        integers: that are not negative: all, or those with these names.

    Raises:
        ValueError: an axis is neither 'last' nor 'first', or a name is that of no array whose
            strides the types leave open, or of no integer.
    """
    arrays = [name for name, of in _open(lowered) if isinstance(of, ArrayArgument)]
    numbers = [name for name, of in _open(lowered) if isinstance(of, IntegerArgument)]
    strides = dict.fromkeys(arrays, axes) if isinstance(axes, str) else dict(axes or {})
    for axis in (axes,) if isinstance(axes, str) else strides.values():
        if axis not in _LETTERS:
            raise ValueError(f"unit_strides: an axis is 'last' or 'first', got {axis!r}")
    for name in strides:
        if name not in arrays:
            raise ValueError(
                f"unit_strides: {name!r} is no array of {lowered.signature} whose strides its type "
                f"leaves open; these are: {', '.join(arrays) or 'none'}"
            )
    chosen = (numbers if integers else []) if isinstance(integers, bool) else list(integers)
    for name in chosen:
        if name not in numbers:
            raise ValueError(
                f"nonnegative: {name!r} is no signed integer of {LEAST_BITS} bits or more of "
                f"{lowered.signature}; these are: {', '.join(numbers) or 'none'}"
            )
    wanted = {name: _LETTERS[axis] for name, axis in strides.items()}
    wanted.update(dict.fromkeys(chosen, NONNEGATIVE))
    return version([wanted.get(name, NOTHING) for name, _ in _open(lowered)])


def specialised(lowered: "Lowered", made: str, disjoint: Container[str] = ()) -> str:
    """The module's text, in which the kernel is told what holds in a version, and in all of them:
    that sizes of arrays are not negative; and that the arrays at the addresses `disjoint`, which
    are parameters of the kernel, overlap no others that it accesses."""
    text = lowered.llvm
    start = definition_start(text, lowered.entry)
    body = text.index("{\n", start)
    end = text.index("\n}", body)
    head = text[start:body]
    names = [found[0] for found in _NAME.finditer(head, head.index("("))]
    arguments = names[-len(lowered.arguments) :] if lowered.arguments else []
    constants: dict[str, str] = {}
    # By the parameter, its type and the end of its range.
    ranges: dict[str, tuple[str, int]] = {}
    for array in lowered.arrays:
        for size in (array.count, *array.shape):
            ranges[arguments[size]] = "i64", (1 << 63) // max(array.nbytes, 1)
    for _, of, letter in _letters(lowered, made):
        if isinstance(of, IntegerArgument):
            if letter == NONNEGATIVE:
                ranges[arguments[of.number]] = f"i{of.bits}", END
        elif letter != NOTHING:
            constants[arguments[of.strides[-1 if letter == LAST else 0]]] = str(of.nbytes)
    head = _NAME.sub(
        lambda found: f"noalias {found[0]}" if found[0] in disjoint else _limited(found[0], ranges),
        head,
    )
    used = _NAME.sub(lambda found: constants.get(found[0], found[0]), text[body:end])
    return text[:start] + head + used + text[end:]


_NAME = re.compile(r'%"[^"]*"|%[-\w.$]+')


def _limited(parameter: str, ranges: Mapping[str, tuple[str, int]]) -> str:
    if parameter not in ranges:
        return parameter
    kind, end = ranges[parameter]
    # The end is one of the type's numbers, as signed ones: behind the greatest comes the least.
    half = 1 << (int(kind[1:]) - 1)
    return f"range({kind} 0, {end - 2 * half if end == half else end}) {parameter}"


def _open(lowered: "Lowered") -> list[tuple[str, ArrayArgument | IntegerArgument]]:
    """The arguments that the types leave open, with their names."""
    return [
        (named(lowered.memory.names, each.path), each)
        for each in lowered.known
        if (not each.contiguous if isinstance(each, ArrayArgument) else each.bits >= LEAST_BITS)
    ]


def _letters(
    lowered: "Lowered", made: str
) -> list[tuple[str, ArrayArgument | IntegerArgument, str]]:
    """The arguments that a version takes something for granted of: name, argument, what."""
    if made == GENERAL:
        return []
    return [(*one, letter) for one, letter in zip(_open(lowered), made, strict=True)]
