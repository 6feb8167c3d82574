"""What both ways of running a block share: the block function's parameters, rooms and metadata.

The block function runs one block: `i32 @haulage.block(blockIdx, gridDim, dynamic shared memory,
the user's arguments, private room)` gives 0, or the fault that stopped a thread.
"""

import re
from collections.abc import Sequence

from haulage.compiler.simt.analysis.kernel import Body, Storage
from haulage.targets.base import REGISTER_RANGES
from haulage.targets.cpu import HIDDEN_NAMES, WAVE_SIZE
from haulage.targets.cpu_lanes import CLEARED, WARP_ROOM

# Rooms of one thread's own memory that together take more than this live on the heap, not on the
# stack of the thread that runs the block.
STACK_LIMIT = 64 * 1024

_RETURN_POINTER = 1

ROOM_DECLARATION = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"

Typed = tuple[str, str]


def _ranged(name: str) -> str:
    low, high = REGISTER_RANGES[name]
    return f"i32 range(i32 {low}, {high})"


BLOCK_PARAMETERS: tuple[Typed, ...] = (
    *((_ranged(f"blockIdx.{axis}"), f"%blockIdx.{axis}") for axis in "xyz"),
    *((_ranged(f"gridDim.{axis}"), f"%gridDim.{axis}") for axis in "xyz"),
    ("ptr", "%dynamicShared"),
    ("i64", "%dynamicSharedBytes"),
)


def parameter_list(parameters: Sequence[Typed]) -> str:
    """Parameters as a definition writes them."""
    return ", ".join(f"{kind} {name}" for kind, name in parameters)


def argument_list(arguments: Sequence[Typed]) -> str:
    """Arguments as a call writes them."""
    return parameter_list(arguments)


def user_parameters(body: Body, *, attributes: bool = True) -> list[Typed]:
    """The user's own parameters of the body, without the hidden ones."""
    parameters = body.function.parameters[_RETURN_POINTER + len(HIDDEN_NAMES) :]
    if attributes:
        return [(parameter.type, parameter.name) for parameter in parameters]
    return [(parameter.type.split(" ", 1)[0], parameter.name) for parameter in parameters]


def block_parameters(body: Body) -> list[Typed]:
    """The parameters of a block function that runs to its end at once."""
    return [*BLOCK_PARAMETERS, *user_parameters(body), ("ptr noalias", "%private.room")]


def open_block(parameters: Sequence[Typed]) -> list[str]:
    """The first lines of a block function that runs to its end at once."""
    return [
        f"define internal i32 @haulage.block({parameter_list(parameters)}) noinline {{",
        "block.start:",
    ]


def shared_rooms(body: Body, threads: int) -> list[str]:
    """Lines that make the block's shared arrays, and the room of its warps, which begins with 0."""
    return [
        *(
            f"  {room.name} = alloca [{room.nbytes} x i8], align {room.align}"
            for room in body.shared
        ),
        *cleared_rooms(body, threads),
    ]


def cleared_rooms(body: Body, threads: int) -> list[str]:
    """Lines that clear what of the room of a block's warps begins with 0."""
    lines: list[str] = []
    if any(room.name == f"%{WARP_ROOM}" for room in body.shared):
        lanes = _stride(threads, WAVE_SIZE)
        for number, (offset, nbytes) in enumerate(CLEARED):
            lines += [
                f"  %warp.{number} = getelementptr inbounds i8, ptr %{WARP_ROOM}, i64 {offset}",
                f"  call void @llvm.memset.p0.i64(ptr %warp.{number}, i8 0, "
                f"i64 {lanes * nbytes}, i1 false)",
            ]
    return lines


def _stride(nbytes: int, align: int) -> int:
    return -(-nbytes // align) * align


def private_layout(body: Body, threads: int) -> tuple[list[int], int]:
    """Offsets of the private rooms, all threads of one room together, and the bytes in all."""
    offsets: list[int] = []
    total = 0
    for room in body.private:
        total = _stride(total, max(64, room.align))
        offsets.append(total)
        total += _stride(room.nbytes, room.align) * threads
    return offsets, total


def private_align(body: Body) -> int:
    """What the address of the threads' own memory has to be a multiple of."""
    return max((room.align for room in body.private), default=1)


def room_bytes(body: Body, threads: int) -> int:
    """Bytes of a block's shared arrays and its threads' own."""
    _, total = private_layout(body, threads)
    return total + sum(_stride(room.nbytes, room.align) for room in body.shared)


def heap_bytes(body: Body, threads: int) -> int:
    """Bytes of private memory that a block function must be given; 0 if it makes its own."""
    _, total = private_layout(body, threads)
    return total if total > STACK_LIMIT else 0


def private_rooms(body: Body, threads: int) -> list[str]:
    """Lines that make the private rooms, for all threads of the block."""
    if heap_bytes(body, threads):
        return private_places(body, threads, "%private.room")
    lines: list[str] = []
    for number, room in enumerate(body.private):
        nbytes = _stride(room.nbytes, room.align) * threads
        lines.append(f"  %private.{number} = alloca [{nbytes} x i8], align {max(64, room.align)}")
    return lines


def private_places(body: Body, threads: int, base: str) -> list[str]:
    """Lines that find the private rooms in memory at `base`, as `private_layout` says."""
    offsets, _ = private_layout(body, threads)
    return [
        f"  %private.{number} = getelementptr inbounds i8, ptr {base}, i64 {offset}"
        for number, offset in enumerate(offsets)
    ]


def private_stride(room: Storage) -> int:
    """Bytes from one thread's room to that of the next."""
    return _stride(room.nbytes, room.align)


def private_pointers(body: Body, thread: str, suffix: str) -> tuple[list[str], list[str]]:
    """Lines that find one thread's rooms by its linear number, and the names of their addresses."""
    lines: list[str] = []
    names: list[str] = []
    for number, room in enumerate(body.private):
        name = f"%private.own.{number}{suffix}"
        stride = private_stride(room)
        lines += [
            f"  {name}.offset = mul nuw nsw i64 {thread}, {stride}",
            f"  {name} = getelementptr inbounds i8, ptr %private.{number}, i64 {name}.offset",
        ]
        names.append(name)
    return lines, names


class Metadata:
    """Notes for LLVM's loop vectoriser, numbered after those that the module has.

    The threads of a block may run in any order between two barriers, so no iteration of a thread
    loop depends on another: their accesses are one group that the loop declares parallel, unless
    `parallel` is false.
    """

    def __init__(self, module_text: str, *, parallel: bool = True) -> None:
        self.is_parallel = parallel
        used = [int(number) for number in re.findall(r"^!(\d+) = ", module_text, re.MULTILINE)]
        self._first = max(used, default=-1) + 1
        self._lines: list[str] = []
        self._group = self._add("distinct !{}")
        self._parallel = self._add(f'!{{!"llvm.loop.parallel_accesses", !{self._group}}}')
        self._no_unroll = self._add('!{!"llvm.loop.unroll.disable"}')

    def _add(self, text: str) -> int:
        number = self._first + len(self._lines)
        self._lines.append(f"!{number} = {text}")
        return number

    def access(self) -> str:
        """The note of a call whose accesses belong to the thread loop around it."""
        return f", !llvm.access.group !{self._group}" if self.is_parallel else ""

    def thread_loop(self, trips: int, *, widened: bool = True) -> str:
        """The note of a loop over `trips` threads, which LLVM may widen or not."""
        # A loop of 16 turns would be unrolled whole before the vectoriser sees it.
        notes = [self._parallel, self._no_unroll] if trips > 1 else [self._parallel]
        if not widened:
            notes.append(self._add('!{!"llvm.loop.vectorize.width", i32 1}'))
        number = self._first + len(self._lines)
        listed = ", ".join(f"!{note}" for note in notes)
        self._add(f"distinct !{{!{number}, {listed}}}")
        return f", !llvm.loop !{number}"

    def kept_loop(self) -> str:
        """The note of a loop around others that LLVM is not to unroll."""
        number = self._first + len(self._lines)
        self._add(f"distinct !{{!{number}, !{self._no_unroll}}}")
        return f", !llvm.loop !{number}"

    def loop_not_widened(self) -> str:
        """The note of a loop that is left to one turn after the other."""
        single = self._add('!{!"llvm.loop.vectorize.width", i32 1}')
        self._add(f"distinct !{{!{single + 1}, !{single}}}")
        return f", !llvm.loop !{single + 1}"

    def lane_loop(self, lanes: int) -> str:
        """The note of a loop over the lanes of a warp. Widened it has few turns left, which are to
        be unrolled, so that what lanes keep from loop to loop can stay in registers."""
        if not self.is_parallel:
            return self.thread_loop(lanes)
        done = self._add('!{!"llvm.loop.isvectorized", i32 1}')
        then = self._add(f'!{{!"llvm.loop.vectorize.followup_vectorized", !{done}}}')
        listed = ", ".join(f"!{note}" for note in (self._parallel, self._no_unroll, then))
        self._add(f"distinct !{{!{then + 1}, {listed}}}")
        return f", !llvm.loop !{then + 1}"

    def text(self) -> str:
        """The definitions of all notes."""
        return "\n".join(self._lines)
