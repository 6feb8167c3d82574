"""Where the arguments of a kernel are in the block of them: the note of a code object says so. What
else it says is of no use to launches, and read by `targets.amd_metadata`."""

import struct
from typing import Any, NamedTuple

from haulage.backends import message_pack

# The name of the argument that the back end adds to those of a cooperative launch: the address of
# 32 bits in memory of the device, 0 at first, and of no other launch that runs at the same time.
GRID_COUNTER = "haulage_grid_counter"

_NOTES = 4
_METADATA = 32
_OWNER = b"AMDGPU\0"

_program_header = struct.Struct("<IIQQQQQQ")
_note = struct.Struct("<III")


class Places(NamedTuple):
    """Where a kernel's arguments are in the block of them, those left out that the runtime adds;
    and where the address of the counter is, by which its blocks wait for one another, or None."""

    arguments: tuple[int, ...]
    counter: int | None


def places(code: bytes) -> dict[str, Places]:
    """Those of the kernels of a code object.

    Raises:
        ValueError: the code object has no such note.
    """
    found = {}
    for kernel in _metadata(code)["amdhsa.kernels"]:
        given = [
            argument
            for argument in kernel.get(".args", ())
            if not argument[".value_kind"].startswith("hidden_")
        ]
        counters = [each[".offset"] for each in given if each.get(".name") == GRID_COUNTER]
        offsets = tuple(each[".offset"] for each in given)
        found[kernel[".name"]] = Places(offsets, counters[0] if counters else None)
    return found


def _metadata(code: bytes) -> Any:
    (table,) = struct.unpack_from("<Q", code, 32)
    (count,) = struct.unpack_from("<H", code, 56)
    for number in range(count):
        entry = _program_header.unpack_from(code, table + number * _program_header.size)
        kind, at, nbytes = entry[0], entry[2], entry[5]
        end = at + nbytes
        while kind == _NOTES and at < end:
            owner_bytes, data_bytes, what = _note.unpack_from(code, at)
            at += _note.size
            owner = code[at : at + owner_bytes]
            at += owner_bytes + 3 & -4
            if owner == _OWNER and what == _METADATA:
                return message_pack.read(code[at : at + data_bytes])
            at += data_bytes + 3 & -4
    raise ValueError("the code object has no metadata")
