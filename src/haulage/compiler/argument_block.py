"""How the arguments of a launch lie in their block of bytes: as in a C struct."""

import re
import struct
from collections.abc import Sequence

_SIZES = {"ptr": 8, "double": 8, "float": 4, "half": 2}
# Integers, as `struct` reads them.
_FORMATS = {"i8": "=b", "i16": "=h", "i32": "=i", "i64": "=q"}


def size_of(kind: str) -> int:
    """Bytes that an argument of an LLVM scalar type takes, which is its alignment too.

    Raises:
        ValueError: it is no scalar type.
    """
    if kind in _SIZES:
        return _SIZES[kind]
    if re.fullmatch(r"i(8|16|32|64)", kind):
        return int(kind[1:]) // 8
    raise ValueError(f"an argument of LLVM type {kind} cannot be passed to a kernel")


def argument_offsets(kinds: tuple[str, ...]) -> tuple[list[int], int]:
    """The offset of each argument in the packed block, and the block's size in bytes."""
    offsets: list[int] = []
    end = 0
    for kind in kinds:
        size = size_of(kind)
        end = -(-end // size) * size
        offsets.append(end)
        end += size
    return offsets, end


class Integers:
    """The integers among the arguments of a kernel.

    Args:
        kinds: the LLVM types of its arguments.
        parameters: the parameters of its function, of which the last ones are these.
    """

    def __init__(self, kinds: tuple[str, ...], parameters: Sequence[str]) -> None:
        names = parameters[len(parameters) - len(kinds) :]
        offsets, _ = argument_offsets(kinds)
        self._fields = [
            (name, _FORMATS[kind], offset)
            for name, kind, offset in zip(names, kinds, offsets, strict=True)
            if kind in _FORMATS
        ]

    def read(self, packed: bytes, start: int = 0) -> dict[str, int]:
        """Their values, as signed numbers by their parameters' names, in the block of arguments
        that begins at the byte `start`."""
        return {
            name: struct.unpack_from(form, packed, start + offset)[0]
            for name, form, offset in self._fields
        }
