"""Where the arguments of a kernel are in the block of them: the note of a code object says so. What
else it says is of no use to launches, and read by `targets.amd_metadata`."""

import struct
from typing import Any

from haulage.backends import message_pack

_NOTES = 4
_METADATA = 32
_OWNER = b"AMDGPU\0"

_program_header = struct.Struct("<IIQQQQQQ")
_note = struct.Struct("<III")


def argument_offsets(code: bytes) -> dict[str, tuple[int, ...]]:
    """For each kernel of a code object where its arguments are in the block of them; those that the
    runtime adds are left out.

    Raises:
        ValueError: the code object has no such note.
    """
    return {
        kernel[".name"]: tuple(
            argument[".offset"]
            for argument in kernel.get(".args", ())
            if not argument[".value_kind"].startswith("hidden_")
        )
        for kernel in _metadata(code)["amdhsa.kernels"]
    }


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
