"""Kernels with a barrier of the whole grid: how their blocks wait, and the entry that runs them.

All blocks have to come to such a barrier before one goes on. So a block is suspended there with all
that belongs to it, and the driver goes over the blocks again once all are there.

A block function needs no coroutine for that, even if its threads are: it is a machine of few
states, which leaves its state in a frame and returns, and goes on there when it is called again,
with its arguments in registers as always. What lives over a barrier of the grid is in memory that
each block has:

    %frame    the state to begin in, other words, the address of more memory of the block or null
              (at byte `OWNED_AT`), and from byte 64 on slots. No address in it is kept in memory,
              so it is `noalias`
    %storage  shared arrays and the threads' own. Slots may hold addresses in it

`i32 @haulage.block(..., ptr noalias %frame, ptr %storage)` gives `WAITS` plus the fault number of
the barrier where the block waits, `WAITS` plus `YIELDS` if its threads wait for writes of other
blocks (`spin_loops.py`), or what it ended with, a fault or 0. `ptr @haulage.frame.make()` gives
memory for a frame and the storage behind it, whose offset `i64 @haulage.frame.bytes()` says.

`i64 haulage_entry(ptr launch, i64 first, i64 last)` is as in `entry.py`, but goes only as far as
the next barrier. The word at byte 28 of `launch` is a mode plus the offset (a multiple of 8) of
three addresses: those of a frame and of an outcome for each block, and of dynamic shared memory for
all of them, each block's at a multiple of its alignment.
"""

from collections.abc import Iterable, Sequence
from math import prod

from haulage.compiler.numbers import BITS
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit import entry
from haulage.compiler.simt.emit.block_function import (
    BLOCK_PARAMETERS,
    clear_warps,
    heap_free,
    place_private,
    private_align,
    private_layout,
    room_bytes,
    user_parameters,
)
from haulage.compiler.simt.ir.builder import Builder, Typed
from haulage.compiler.simt.ir.model import Function, Instruction, Operand
from haulage.targets.base import DYNAMIC_SHARED_ALIGN

# What the modes of the entry do with each block: begin or resume it, drop what is left of it, or
# resume it if it gave way to others.
RESUME, DROP, GO_ON = 0, 1, 2

WAITS = 1 << 30
# What a block comes to, plus `WAITS`, that gave way to others.
YIELDS = 1 << BITS

# What a thread keeps besides its own arrays while it waits; more than frames of kernels have.
_THREAD_BYTES = 512

_ALIGN = 64
_BYTES_FUNCTION = "haulage.frame.bytes"
_MAKE_FRAME = "haulage.frame.make"


def block_bytes(body: Body, block: tuple[int, int, int]) -> int:
    """Bytes that a block may take while it waits, without its dynamic shared memory."""
    threads = prod(block)
    return room_bytes(body, threads) + threads * _THREAD_BYTES


# ---- frames -------------------------------------------------------------------------------------

_CLEARED = 64
OWNED_AT = 56
_FRAME_TYPE = "%haulage.frame"


class Frame:
    """The frame of one block function, with the names of what was put in it."""

    def __init__(self, body: Body, threads: int) -> None:
        self._body = body
        self._threads = threads
        self._types = [f"[{_CLEARED} x i8]"]
        # Of the storage too, which begins at a multiple of it.
        self._align = max(_ALIGN, private_align(body), *(array.align for array in body.shared))

    def parameters(self) -> list[Typed]:
        """The parameters of the block function."""
        align = f"align {self._align}"
        memory = [(f"ptr noalias {align}", "%frame"), (f"ptr {align}", "%storage")]
        return [*BLOCK_PARAMETERS, *user_parameters(self._body), *memory]

    def fixed(self, b: Builder, words: Sequence[str]) -> None:
        """Find an i32 for each of the names `words`, at most 13, and all arrays of the block and
        its threads."""
        for number, name in enumerate(words, 1):
            b.at("i8", "%frame", 4 * number, name)
        place_private(b, self._body, self._threads, "%storage")
        for array, offset in zip(self._body.shared, self._shared_layout()[0], strict=True):
            b.at("i8", "%storage", offset, array.name)

    def _shared_layout(self) -> tuple[list[int], int]:
        """Offsets of the shared arrays in the storage, and its bytes in all."""
        offsets: list[int] = []
        _, end = private_layout(self._body, self._threads)
        for array in self._body.shared:
            offsets.append(-(-end // array.align) * array.align)
            end = offsets[-1] + array.nbytes
        return offsets, end

    def place(self, b: Builder, name: str, kind: str) -> None:
        """Find memory in the frame for a value of the type `kind`, as `name`."""
        self._types.append(kind)
        indices = Operand("i32", "0"), Operand("i32", str(len(self._types) - 1))
        operands = (Operand("ptr", "%frame"), *indices)
        flags = ("inbounds",)
        b.add(
            Instruction(
                "getelementptr", "ptr", name, operands, flags=flags, source_type=_FRAME_TYPE
            )
        )

    def resume(self, b: Builder, states: Iterable[tuple[int, str]]) -> None:
        """Go to the label of the state that is due, or on here if the block has just begun."""
        b.switch("i32", b.load("i32", "%frame", name="due"), "%begin", list(states))
        b.block("%begin")
        clear_warps(b, self._body, self._threads)

    def wait(self, b: Builder, state: int, place: int | str) -> None:
        """Wait for the grid at the barrier of fault number `place`, and go on in `state`."""
        b.store("i32", str(state), "%frame")
        if isinstance(place, int):
            b.ret("i32", str(WAITS | place))
        else:
            b.ret("i32", b.binary("or", "i32", place, str(WAITS)))

    def text(self) -> str:
        """LLVM text of the frame's type and of the functions that make a frame with its storage and
        say where that begins."""
        align = self._align
        _, storage = self._shared_layout()
        return f"""{_FRAME_TYPE} = type {{ {", ".join(self._types)} }}

define internal i64 @{_BYTES_FUNCTION}() alwaysinline {{
  %end = getelementptr {_FRAME_TYPE}, ptr null, i32 1
  %size = ptrtoint ptr %end to i64
  %over = add i64 %size, {align - 1}
  %bytes = and i64 %over, {-align}
  ret i64 %bytes
}}

define internal ptr @{_MAKE_FRAME}() {{
  %frame.bytes = call i64 @{_BYTES_FUNCTION}()
  %bytes = add i64 %frame.bytes, {-(-storage // align) * align}
  %frame = call ptr @haulage_alloc(i64 {align}, i64 %bytes, i1 false)
  call void @llvm.memset.p0.i64(ptr %frame, i8 0, i64 {_CLEARED}, i1 false)
  ret ptr %frame
}}"""


# ---- the entry ----------------------------------------------------------------------------------


def write_entry(body: Body) -> Function:
    """The entry, for a block function with a frame."""
    b = entry.open_entry()
    word = b.load("i32", b.at("i8", "%launch", 28))
    mode = b.binary("and", "i32", word, "7", name="mode")
    offset = b.cast("zext", "i32", b.binary("and", "i32", word, "-8"), "i64")
    given = b.at("i8", "%launch", offset)
    frames, outcomes, shared = (b.load("ptr", b.at("ptr", given, number)) for number in range(3))
    stride = b.round_up("%dynamicSharedBytes", str(DYNAMIC_SHARED_ALIGN))
    entry.load_arguments(b, body)
    with b.repeat("blocks", "%end") as loop:
        block = loop.carry("i64", "%first", "block")
        fault = loop.carry("i32", "0", "fault")
        index = entry.block_indices(b, block)
        frame_at, outcome_at = b.at("ptr", frames, block), b.at("i32", outcomes, block)
        b.at("i8", shared, b.binary("mul", "i64", block, stride), "%dynamicShared")
        b.switch("i32", mode, "%resume", [(DROP, "%drop"), (GO_ON, "%go.on")])
        chosen = b.current

        b.block("%go.on")
        before = b.load("i32", outcome_at)
        b.branch(b.compare("uge", "i32", before, str(WAITS | YIELDS)), "%resume", "%next")

        b.block("%resume")
        is_new = b.compare("eq", "ptr", b.load("ptr", frame_at), "null")
        with b.when(is_new, "begin"):
            b.store("ptr", b.call("ptr", _MAKE_FRAME, []), frame_at)
        frame = b.load("ptr", frame_at, name="frame")
        storage = b.at("i8", frame, b.call("i64", _BYTES_FUNCTION, []))
        arguments = entry.block_arguments(body, index)
        arguments += [("ptr", frame), ("ptr", storage)]
        outcome = b.call("i32", "haulage.block", arguments, "outcome")
        b.store("i32", outcome, outcome_at)
        resumed = b.current
        b.branch(b.compare("uge", "i32", outcome, str(WAITS)), "%next", "%drop")

        b.block("%drop")
        result = b.phi("i32", [("0", chosen), (outcome, resumed)])
        left = b.load("ptr", frame_at)
        with b.when(b.compare("ne", "ptr", left, "null"), "free"):
            b.store("ptr", "null", frame_at)
            heap_free(b, b.load("ptr", b.at("i8", left, OWNED_AT)))
            heap_free(b, left)
        dropped = b.current
        b.jump("%next")

        b.block("%next")
        results = [(result, dropped), ("0", resumed), ("0", "%go.on")]
        fault = loop.set(fault, b.extremum("umax", "i32", fault, b.phi("i32", results)))
        after = loop.set(block, b.binary("add", "i64", block, "1", "nuw", "nsw"))
        loop.more = b.compare("ult", "i64", after, "%last")
    entry.close_entry(b, fault)
    return b.function
