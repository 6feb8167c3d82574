"""The argument block of a launch: the bytes that a kernel finds its arguments in.

Each argument has one field of it, each entry of a tuple one of its own: arrays the bytes that
`pack_array` gives, records an address, numbers themselves.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from haulage._core.packing import Packer
from haulage.errors import LaunchError
from haulage.runtime.arrays.keys import ARRAY, ENUM, OTHER, SCALAR, TUPLE, Key

_FORMATS = {
    **dict(zip(("i1", "i2", "i4", "i8"), "bhiq", strict=True)),
    **dict(zip(("u1", "u2", "u4", "u8"), "BHIQ", strict=True)),
    **dict(zip(("f2", "f4", "f8"), "efd", strict=True)),
    **{"b1": "B", "c8": "ff", "c16": "dd", "M8": "q", "m8": "q"},
}


def array_format(axes: int) -> str:
    """The words of the field of an array, as `pack_array` gives it: the fourth is the size of an
    element, the fifth the address, and the shape and the strides in bytes come after that."""
    return f"PPqqP{2 * axes}q"


# In `array_format` the address is the fifth word.
_ADDRESS = slice(32, 40)


def around_address(packed: bytes) -> tuple[bytes, bytes]:
    """What is before and behind the address in the field of an array."""
    return packed[: _ADDRESS.start], packed[_ADDRESS.stop :]


def flat(keys: Sequence[Key]) -> Iterator[Key]:
    """Keys, those of a tuple's entries instead of the tuple's."""
    for key in keys:
        if key[0] == TUPLE:
            yield from flat(key[1])
        elif key[0] == ENUM:
            yield from flat(key[2:])
        else:
            yield key


def formats(keys: Sequence[Key]) -> list[str]:
    """What `struct` calls the fields of a signature with these keys, each aligned to its size."""
    return [_format(key) for key in flat(keys)]


def _format(key: Key) -> str:
    if key[0] == ARRAY:
        return array_format(key[2])
    if key[0] == SCALAR:
        kind, size = key[1].kind, key[1].itemsize
        return _FORMATS[f"{kind}{size}"]
    return "" if key[0] == OTHER else "P"  # an address, or a pointer to nothing


def offsets(keys: Sequence[Key]) -> list[int]:
    """Where the fields of a signature with these keys begin in its argument block."""
    return [field.start for field in places(keys)]


def places(keys: Sequence[Key]) -> list[slice]:
    """Where the fields of a signature with these keys are in its argument block, in bytes."""
    return [slice(at, at + nbytes) for _, at, nbytes in _layout(tuple(formats(keys)))]


class Block:
    """Makes argument blocks of one signature.

    Attributes:
        packer: makes a block of one value for each field, or None if one does not fit as it is:
            `converted` is then to be asked.
        conversions: (number of a field, function that its value has to go through before that).

    Args:
        header: bytes before each block, a multiple of 16.
        declared: the keys of the signature that the code was made for.
        given: those of the arguments.
    """

    __slots__ = ("_fields", "_header", "conversions", "packer")

    def __init__(self, header: bytes, declared: tuple[Key, ...], given: tuple[Key, ...]) -> None:
        self._header = header
        self._fields = list(zip(flat(declared), formats(declared), strict=True))
        own = list(flat(given))
        same = tuple(key == each for (key, _), each in zip(self._fields, own, strict=True))
        self.packer = _packer(header, tuple(form for _, form in self._fields), same)
        self.conversions = [
            (number, convert)
            for number, ((key, _), each) in enumerate(zip(self._fields, own, strict=True))
            if (convert := _conversion(key, each)) is not None
        ]

    def converted(self, values: Sequence[Any]) -> bytes:
        """The block of values some of which do not fit as they are.

        Raises:
            LaunchError: a number is outside the range of its declared type, and an int also of the
                type with the same bits and the other sign: masks are written as 0xFFFFFFFF.
        """
        fitting = [
            _reinterpreted(form, _NUMBERS[key[1].kind](value))
            if key[0] == SCALAR and key[1].kind in _NUMBERS
            else value
            for (key, form), value in zip(self._fields, values, strict=True)
        ]
        made = self.packer(fitting)
        if made is not None:
            return made
        for (_, form), value in zip(self._fields, fitting, strict=True):
            try:
                struct.pack(_as_bytes(form), value)
            except (struct.error, OverflowError) as error:
                raise misfit(error) from error
        # A float of 64 bits that 32 bits have no number for, which `struct` makes infinite.
        raise misfit(OverflowError("float too large for float32"))


def misfit(error: Exception) -> LaunchError:
    """The error for a number that `struct` does not take."""
    return LaunchError(f"an argument does not fit its declared type: {error}")


_NUMBERS: dict[str, Callable[[Any], Any]] = {"i": int, "u": int, "f": float}


@lru_cache(maxsize=1024)
def _layout(forms: tuple[str, ...]) -> tuple[tuple[str, int, int], ...]:
    """Of each field what `Packer` takes: each value is aligned to its size, as in C."""
    fields, before = [], "@"
    for form in forms:
        one = _as_bytes(form)
        before += one
        nbytes = struct.calcsize(f"@{one}")
        fields.append((_KINDS.get(form, "s"), struct.calcsize(before) - nbytes, nbytes))
    return tuple(fields)


# What `Packer` calls the formats of numbers.
_KINDS = {
    **dict.fromkeys(("ff", "dd"), "c"),
    **dict.fromkeys("bhilq", "i"),
    **dict.fromkeys("BHILQP", "u"),
    **dict.fromkeys("efd", "f"),
}


def _packer(header: bytes, forms: tuple[str, ...], same: tuple[bool, ...]) -> Packer:
    return Packer(header, [(*each, own) for each, own in zip(_layout(forms), same, strict=True)])


def _as_bytes(form: str) -> str:
    """A field of several words, or of none, is given as bytes."""
    return form if len(form) == 1 else f"0{form[:1] or 's'}{struct.calcsize(form)}s"


def _conversion(declared: Key, given: Key) -> Callable[[Any], Any] | None:
    if declared[0] == OTHER:
        return _no_value
    if declared[0] == SCALAR and declared[1].kind == "b" and given != declared:
        return bool
    return None


def _no_value(value: Any) -> NoReturn:
    raise LaunchError(f"no value of a launch has the declared type; got {value!r}")


def _reinterpreted(letter: str, value: Any) -> Any:
    """An int with its highest bit set as one of the other sign, where `letter` declares that."""
    if not isinstance(value, int) or not re.fullmatch("[bhilqBHILQ]", letter):
        return value
    bits = 8 * struct.calcsize(letter)
    if letter.islower() and 1 << (bits - 1) <= value < 1 << bits:
        return value - (1 << bits)
    return value + (1 << bits) if letter.isupper() and -(1 << (bits - 1)) <= value < 0 else value
