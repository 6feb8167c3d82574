"""How the arguments of a launch lie in their block of bytes: as in a C struct."""

import re

_SIZES = {"ptr": 8, "double": 8, "float": 4, "half": 2}


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
