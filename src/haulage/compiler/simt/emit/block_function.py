"""What all strategies share: the block function's parameters, storage and metadata.

The block function runs one block: `i32 @haulage.block(blockIdx, gridDim, dynamic shared memory,
the user's arguments, private storage)` returns 0, or the fault that stopped a thread.
"""

import re
from collections.abc import Sequence

from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.kernel import Body, Storage
from haulage.compiler.simt.ir.builder import Builder, MetadataPairs, Typed
from haulage.targets.base import REGISTER_RANGES
from haulage.targets.cpu import HIDDEN_NAMES, WAVE_SIZE
from haulage.targets.cpu_lanes import CLEARED, WARP_ROOM

# Private arrays that together take more than this live on the heap, not on the stack of the thread
# that runs the block.
STACK_LIMIT = 64 * 1024

_RETURN_POINTER = 1

# Of the driver (`_core/pool_guard.c`): an alignment, bytes, and whether what runs these blocks owns
# the memory, which is freed if they crash; what outlives a phase of a grid is not owned.
HEAP_DECLARATIONS = """
declare noalias ptr @haulage_alloc(i64, i64, i1)
declare void @haulage_free(ptr)
"""
# What the C library's allocator aligns to.
HEAP_ALIGN = "16"


def _ranged(name: str) -> str:
    low, high = REGISTER_RANGES[name]
    return f"i32 range(i32 {low}, {high})"


BLOCK_PARAMETERS: tuple[Typed, ...] = (
    *((_ranged(f"blockIdx.{axis}"), f"%blockIdx.{axis}") for axis in AXES),
    *((_ranged(f"gridDim.{axis}"), f"%gridDim.{axis}") for axis in AXES),
    ("ptr", "%dynamicShared"),
    ("i64", "%dynamicSharedBytes"),
)


def user_parameters(body: Body, *, attributes: bool = True) -> list[Typed]:
    """The user's own parameters of the body, without the hidden ones."""
    parameters = body.function.parameters[_RETURN_POINTER + len(HIDDEN_NAMES) :]
    if attributes:
        return [(parameter.type, parameter.name) for parameter in parameters]
    return [(parameter.type.split(" ", 1)[0], parameter.name) for parameter in parameters]


def block_parameters(body: Body) -> list[Typed]:
    """The parameters of a block function that runs to its end at once."""
    return [*BLOCK_PARAMETERS, *user_parameters(body), ("ptr noalias", "%privateMemory")]


# ---- storage ------------------------------------------------------------------------------------


def allocate_shared(builder: Builder, body: Body, threads: int) -> None:
    """Make the block's shared arrays, and the storage of its warps, which begins with 0."""
    for array in body.shared:
        builder.allocate(f"[{array.nbytes} x i8]", array.align, array.name)
    clear_warps(builder, body, threads)


def clear_warps(builder: Builder, body: Body, threads: int) -> None:
    """Clear what of the storage of a block's warps begins with 0."""
    if not any(array.name == f"%{WARP_ROOM}" for array in body.shared):
        return
    lanes = _aligned(threads, WAVE_SIZE)
    for number, (offset, nbytes) in enumerate(CLEARED):
        at = builder.element("i8", f"%{WARP_ROOM}", str(offset), "inbounds", name=f"%warp.{number}")
        clear(builder, at, 0, lanes * nbytes)


def clear(builder: Builder, address: str, value: int, nbytes: int) -> None:
    """Set all of `nbytes` bytes to a value."""
    arguments = ("ptr", address), ("i8", str(value)), ("i64", str(nbytes)), ("i1", "false")
    builder.call("void", "llvm.memset.p0.i64", arguments)


def _aligned(nbytes: int, align: int) -> int:
    return -(-nbytes // align) * align


def private_stride(array: Storage) -> int:
    """Bytes from one thread's array to that of the next."""
    return _aligned(array.nbytes, array.align)


def private_layout(body: Body, threads: int) -> tuple[list[int], int]:
    """Offsets of the private arrays, all threads of one array together, and the bytes in all."""
    offsets: list[int] = []
    total = 0
    for array in body.private:
        total = _aligned(total, max(64, array.align))
        offsets.append(total)
        total += private_stride(array) * threads
    return offsets, total


def private_align(body: Body) -> int:
    """What the address of the threads' own memory has to be a multiple of."""
    return max((array.align for array in body.private), default=1)


def room_bytes(body: Body, threads: int) -> int:
    """Bytes of a block's shared arrays and its threads' own."""
    _, total = private_layout(body, threads)
    return total + sum(map(private_stride, body.shared))


def heap_bytes(body: Body, threads: int) -> int:
    """Bytes of private memory that a block function must be given; 0 if it makes its own."""
    _, total = private_layout(body, threads)
    return total if total > STACK_LIMIT else 0


def heap_allocate(builder: Builder, align: str, nbytes: str, *, owned: bool) -> str:
    """Memory of the heap; `owned` as `HEAP_DECLARATIONS` says."""
    arguments = ("i64", align), ("i64", nbytes), ("i1", str(owned).lower())
    return builder.call("ptr", "haulage_alloc", arguments)


def heap_free(builder: Builder, address: str) -> None:
    """Give memory of the heap back."""
    builder.call("void", "haulage_free", [("ptr", address)])


def allocate_private(builder: Builder, body: Body, threads: int) -> None:
    """Make the private arrays of all threads of the block, or find them in what is given."""
    if heap_bytes(body, threads):
        place_private(builder, body, threads, "%privateMemory")
        return
    for number, array in enumerate(body.private):
        kind = f"[{private_stride(array) * threads} x i8]"
        builder.allocate(kind, max(64, array.align), f"%private.{number}")


def place_private(builder: Builder, body: Body, threads: int, base: str) -> None:
    """Find the private arrays in memory at `base`, as `private_layout` says."""
    offsets, _ = private_layout(body, threads)
    for number, offset in enumerate(offsets):
        builder.element("i8", base, str(offset), "inbounds", name=f"%private.{number}")


def thread_arguments(
    builder: Builder, body: Body, block: tuple[int, int, int], index: Sequence[str], linear: str
) -> list[Typed]:
    """What the function of a thread, or of a region of it, is called with first, by the thread's
    index (x, y, z) and its linear index in the block, an i64."""
    private: list[Typed] = []
    for number, array in enumerate(body.private):
        name, stride = f"private.own.{number}", str(private_stride(array))
        offset = builder.binary("mul", "i64", linear, stride, "nuw", "nsw", name=f"{name}.offset")
        own = builder.element("i8", f"%private.{number}", offset, "inbounds", name=name)
        private.append(("ptr", own))
    return [
        ("ptr", "%ret"),
        *(("i32", value) for value in index),
        *(("i32", f"%blockIdx.{axis}") for axis in AXES),
        *(("i32", str(size)) for size in block),
        *(("i32", f"%gridDim.{axis}") for axis in AXES),
        ("ptr", "%dynamicShared"),
        ("i64", "%dynamicSharedBytes"),
        *user_parameters(body, attributes=False),
        *(("ptr", array.name) for array in body.shared),
        *private,
    ]


# ---- metadata -----------------------------------------------------------------------------------


class Metadata:
    """Metadata for LLVM's loop vectoriser, numbered after what the module has; each method returns
    what to attach to an instruction.

    The threads of a block may run in any order between two barriers, so no iteration of a
    work-item loop depends on another: their accesses are one group that the loop declares parallel
    (LLVM's `llvm.loop.parallel_accesses`), unless `parallel` is false.
    """

    def __init__(self, module_text: str, *, parallel: bool = True) -> None:
        self.is_parallel = parallel
        used = [int(number) for number in re.findall(r"^!(\d+) = ", module_text, re.MULTILINE)]
        self._first = max(used, default=-1) + 1
        self._lines: list[str] = []
        self._group = self._add("distinct !{}")
        self._parallel = self._add(f'!{{!"llvm.loop.parallel_accesses", {self._group}}}')
        self._no_unroll = self._add('!{!"llvm.loop.unroll.disable"}')

    def _add(self, text: str) -> str:
        node = f"!{self._first + len(self._lines)}"
        self._lines.append(f"{node} = {text}")
        return node

    def _loop(self, *properties: str) -> MetadataPairs:
        """What to attach to a loop's last branch."""
        own = f"!{self._first + len(self._lines)}"
        return (("llvm.loop", self._add(f"distinct !{{{', '.join((own, *properties))}}}")),)

    def access(self) -> MetadataPairs:
        """For a call whose accesses belong to the work-item loop around it."""
        return (("llvm.access.group", self._group),) if self.is_parallel else ()

    def thread_loop(self, trips: int, *, masked: bool = False) -> MetadataPairs:
        """For a loop over `trips` threads; `masked` if the last of them are better masked than run
        one after the other."""
        # A loop of 16 iterations would be unrolled whole before the vectoriser sees it.
        properties = [self._parallel, self._no_unroll] if trips > 1 else [self._parallel]
        if masked:
            properties.append(self._add('!{!"llvm.loop.vectorize.predicate.enable", i1 true}'))
        return self._loop(*properties)

    def lane_loop(self, lanes: int) -> MetadataPairs:
        """For a loop over the lanes of a warp. Widened it has few iterations left, which are to be
        unrolled, so that what lanes keep from loop to loop can stay in registers."""
        if not self.is_parallel:
            return self.thread_loop(lanes)
        done = self._add('!{!"llvm.loop.isvectorized", i32 1}')
        then = self._add(f'!{{!"llvm.loop.vectorize.followup_vectorized", {done}}}')
        return self._loop(self._parallel, self._no_unroll, then)

    def text(self) -> str:
        """The definitions of all nodes."""
        return "\n".join(self._lines)
