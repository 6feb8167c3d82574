"""Parameters of the kernels of a SPIR-V module: how many bytes each has, and which the driver adds.

The module says both: its types, and the names of parameters, which LLVM writes for those of its
functions.
"""

import struct
from dataclasses import dataclass

MAGIC = 0x07230203
_HEADER = 5
_OP_NAME, _OP_ENTRY_POINT, _OP_EXECUTION_MODE, _OP_TYPE_INT, _OP_TYPE_FLOAT = 5, 15, 16, 21, 22
_OP_TYPE_POINTER, _OP_FUNCTION, _OP_FUNCTION_PARAMETER = 32, 54, 55
_KERNEL, _WORKGROUP, _SUBGROUP_SIZE = 6, 4, 35

# Parameters behind those of a program, by their names in LLVM's module.
CHANNEL, MODULE, GRID_COUNTER = "haulage_channel", "haulage_module", "haulage_grid_counter"
BLOCK_X, BLOCK_Y = "haulage_block_x", "haulage_block_y"
DYNAMIC_SHARED, DYNAMIC_SHARED_BYTES = "haulage_dynamic_shared", "haulage_dynamic_shared_bytes"
_ADDED = (
    *(CHANNEL, MODULE, GRID_COUNTER, BLOCK_X, BLOCK_Y),
    *(DYNAMIC_SHARED, DYNAMIC_SHARED_BYTES),
)


@dataclass(frozen=True)
class Parameters:
    """Of a kernel: the places, as (offset, bytes), of the program's arguments in the block of them,
    and the names of what the driver adds behind, with their bytes (0: shared memory). Where threads
    are told apart by `lanes`, or by the block's sizes among the parameters, a block is launched as
    one row of threads: OpenCL makes sub-groups of the threads of a row."""

    given: tuple[tuple[int, int], ...]
    added: tuple[tuple[str, int], ...]
    lanes: int = 0

    @property
    def is_row(self) -> bool:
        """Whether a block is launched as one row of threads."""
        return bool(self.lanes) or any(name in (BLOCK_X, BLOCK_Y) for name, _ in self.added)


def laid_out(sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(offset, bytes) of arguments, each at a multiple of its size, as in a C struct."""
    places, at = [], 0
    for size in sizes:
        at = -(-at // size) * size
        places.append((at, size))
        at += size
    return tuple(places)


def kernels(code: bytes) -> dict[str, Parameters]:
    """The parameters of a module's kernels, by the kernels' names.

    Raises:
        ValueError: it is no SPIR-V, or has a parameter that is no scalar.
    """
    if len(code) < 4 * _HEADER or len(code) % 4:
        raise ValueError(f"{len(code)} bytes are no SPIR-V module")
    words = struct.unpack(f"<{len(code) // 4}I", code)
    if words[0] != MAGIC:
        raise ValueError(f"{len(code)} bytes that begin with {code[:16]!r} are no SPIR-V module")
    names: dict[int, str] = {}
    entries: dict[int, str] = {}
    lanes: dict[int, int] = {}
    sizes: dict[int, int] = {}
    parameters: dict[int, list[tuple[int, int]]] = {}
    function = 0
    at = _HEADER
    while at < len(words):
        count, what = words[at] >> 16, words[at] & 0xFFFF
        if not count or at + count > len(words):
            raise ValueError(f"the SPIR-V module is cut off, or broken, at word {at}")
        operands = words[at + 1 : at + count]
        at += count
        if what == _OP_NAME:
            names[operands[0]] = _text(operands[1:])
        elif what == _OP_ENTRY_POINT and operands[0] == _KERNEL:
            entries[operands[1]] = _text(operands[2:])
        elif what == _OP_EXECUTION_MODE and operands[1] == _SUBGROUP_SIZE:
            lanes[operands[0]] = operands[2]
        elif what in (_OP_TYPE_INT, _OP_TYPE_FLOAT):
            sizes[operands[0]] = operands[1] // 8
        elif what == _OP_TYPE_POINTER:
            sizes[operands[0]] = 0 if operands[1] == _WORKGROUP else 8
        elif what == _OP_FUNCTION:
            function = operands[1]
            parameters[function] = []
        elif what == _OP_FUNCTION_PARAMETER:
            parameters[function].append((operands[0], operands[1]))
    found = {}
    for entry, name in entries.items():
        listed = [(names.get(i, ""), sizes.get(kind)) for kind, i in parameters[entry]]
        found[name] = _of(name, listed, lanes.get(entry, 0))
    return found


def _of(kernel: str, parameters: list[tuple[str, int | None]], lanes: int) -> Parameters:
    given, added = [], []
    for name, size in parameters:
        if size is None:
            raise ValueError(f"parameter {name} of kernel {kernel} is no number and no pointer")
        if name in _ADDED:
            added.append((name, size))
        elif added or not size:
            raise ValueError(f"parameter {name} of kernel {kernel} is none that Haulage knows")
        else:
            given.append(size)
    return Parameters(laid_out(tuple(given)), tuple(added), lanes)


def _text(words: tuple[int, ...]) -> str:
    return struct.pack(f"<{len(words)}I", *words).partition(b"\0")[0].decode()
