"""Writes what a kernel with a barrier of the whole grid has instead of the usual entry and block.

All blocks have to come to such a barrier before one goes on. So a block is suspended there with all
that belongs to it, and the driver goes over the blocks again once all are there. The block function
of a cut kernel keeps that in a frame (`frames.py`). Where threads are coroutines it is one too:

    ptr @haulage.block(blockIdx, gridDim, dynamic shared memory, the user's arguments, outcome)

`outcome` points to an i32: `WAITS` plus the fault number of the barrier that the block waits at, or
plus `YIELDS` if its threads wait for writes of other blocks (`yields.py`), or what the block ended
with, a fault or 0.

`i64 haulage_entry(ptr launch, i64 first, i64 last)` is as in `entry.py`, but goes only as far as
the next barrier. The word at byte 28 of `launch` is a mode plus the offset (a multiple of 8) of
three addresses: those of a frame or coroutine and of an outcome for each block, and of dynamic
shared memory for all of them, each block's at a multiple of its alignment.
"""

from math import prod

from haulage.compiler.numbers import BITS
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.coroutines import intrinsics
from haulage.compiler.simt.coroutines.frames import WAITS
from haulage.compiler.simt.emit import entry
from haulage.compiler.simt.emit.block_function import (
    BLOCK_PARAMETERS,
    heap_bytes,
    parameter_list,
    private_align,
    room_bytes,
    user_parameters,
)
from haulage.compiler.simt.emit.grid_loop import block_indices
from haulage.targets.base import DYNAMIC_SHARED_ALIGN

# What the modes of the entry do with each block: begin it, resume it, drop what is left of it, or
# resume it if it gave way to others.
BEGIN, RESUME, DROP, GO_ON = 0, 1, 2, 3

# What a block comes to, plus `WAITS`, that gave way to others.
YIELDS = 1 << BITS

# What a thread keeps besides its own arrays while it waits; more than frames of kernels have.
_FRAME_BYTES = 512


def block_bytes(body: Body, block: tuple[int, int, int]) -> int:
    """Bytes that a block may take while it waits, without its dynamic shared memory."""
    threads = prod(block)
    return room_bytes(body, threads) + threads * _FRAME_BYTES


def open_block(body: Body, threads: int) -> list[str]:
    """The first lines of the block function, up to where its rooms are made."""
    parameters = [*BLOCK_PARAMETERS, *user_parameters(body), ("ptr", "%outcome")]
    lines = [
        f"define internal ptr @haulage.block({parameter_list(parameters)}) noinline "
        "presplitcoroutine {",
        "block.start:",
        *intrinsics.begin(),
    ]
    nbytes = heap_bytes(body, threads)
    if nbytes:
        align = max(64, private_align(body))
        lines.append(
            f"  %private.room = call ptr @haulage_alloc(i64 {align}, i64 {nbytes}, i1 false)"
        )
    return lines


def wait(stem: str, place: str, woken: str, dropped: str = "coroutine.cleanup") -> list[str]:
    """Lines in which the block waits for the grid at the barrier of fault number `place`."""
    return [
        f"  %{stem}.outcome = or i32 {place}, {WAITS}",
        f"  store i32 %{stem}.outcome, ptr %outcome",
        *intrinsics.suspend(stem, woken, dropped),
    ]


def close_block(body: Body, threads: int, result: str) -> list[str]:
    """The last lines of the block function, which ends with the i32 `result`."""
    freed = ["  call void @haulage_free(ptr %private.room)"] if heap_bytes(body, threads) else []
    return [
        f"  store i32 {result}, ptr %outcome",
        "  br label %coroutine.final",
        *intrinsics.end(*freed),
    ]


def write_entry(body: Body, *, framed: bool) -> str:
    """LLVM text of the entry; `framed` if blocks have frames, else they are coroutines."""
    run = _run_framed(body) if framed else _run_coroutine(body)
    free = (
        "  call void @haulage_free(ptr {})" if framed else "  call void @llvm.coro.destroy(ptr {})"
    )
    lines = [
        *entry.begin(),
        "  %mode.at = getelementptr inbounds i8, ptr %launch, i64 28",
        "  %mode.word = load i32, ptr %mode.at",
        "  %mode = and i32 %mode.word, 7",
        "  %room.offset = and i32 %mode.word, -8",
        "  %room.at = getelementptr inbounds i8, ptr %launch, i32 %room.offset",
    ]
    for number, name in enumerate(("handles", "outcomes", "shared")):
        lines += [
            f"  %{name}.at = getelementptr inbounds i8, ptr %room.at, i64 {8 * number}",
            f"  %{name} = load ptr, ptr %{name}.at",
        ]
    lines += [
        *intrinsics.up_to_multiple(
            "%dynamicSharedBytes", str(DYNAMIC_SHARED_ALIGN), "%dynamic.stride"
        ),
        *entry.load_arguments(body),
        "  br label %blocks",
        "blocks:",
        "  %block = phi i64 [ %first, %start ], [ %block.after, %next ]",
        "  %fault = phi i32 [ 0, %start ], [ %fault.now, %next ]",
        *block_indices(),
        "  %handle.at = getelementptr inbounds ptr, ptr %handles, i64 %block",
        "  %outcome.at = getelementptr inbounds i32, ptr %outcomes, i64 %block",
        "  %dynamic.offset = mul i64 %block, %dynamic.stride",
        "  %dynamicShared = getelementptr inbounds i8, ptr %shared, i64 %dynamic.offset",
        "  switch i32 %mode, label %drop [",
        f"    i32 {BEGIN}, label %begin",
        f"    i32 {RESUME}, label %resume",
        f"    i32 {GO_ON}, label %go.on",
        "  ]",
        "go.on:",
        "  %before = load i32, ptr %outcome.at",
        f"  %gave.way = icmp uge i32 %before, {WAITS | YIELDS}",
        "  br i1 %gave.way, label %resume, label %next",
        *run,
        f"  %waits = icmp uge i32 %outcome, {WAITS}",
        "  br i1 %waits, label %next, label %ended",
        "ended:",
        "  store ptr null, ptr %handle.at",
        free.format("%handle"),
        "  %fault.worse = call i32 @llvm.umax.i32(i32 %fault, i32 %outcome)",
        "  br label %next",
        "drop:",
        "  %left = load ptr, ptr %handle.at",
        "  %none.left = icmp eq ptr %left, null",
        "  br i1 %none.left, label %next, label %dropped",
        "dropped:",
        "  store ptr null, ptr %handle.at",
        free.format("%left"),
        "  br label %next",
        "next:",
        "  %fault.now = phi i32 [ %fault, %ran ], [ %fault.worse, %ended ], [ %fault, %drop ], "
        "[ %fault, %dropped ], [ %fault, %go.on ]",
        "  %block.after = add nuw nsw i64 %block, 1",
        "  %more = icmp ult i64 %block.after, %last",
        "  br i1 %more, label %blocks, label %end",
        "end:",
        "  %result = zext i32 %fault.now to i64",
        "  ret i64 %result",
        "}",
    ]
    return "\n".join(lines)


def _run_coroutine(body: Body) -> list[str]:
    """Lines that begin or resume a block that is a coroutine, up to its `%handle` and `%outcome`
    in the block `ran`."""
    return [
        "begin:",
        f"  %begun = call ptr @haulage.block({entry.block_arguments(body, '%outcome.at')})",
        "  store ptr %begun, ptr %handle.at",
        "  br label %ran",
        "resume:",
        "  %waiter = load ptr, ptr %handle.at",
        "  call void @llvm.coro.resume(ptr %waiter)",
        "  br label %ran",
        "ran:",
        "  %handle = phi ptr [ %begun, %begin ], [ %waiter, %resume ]",
        "  %outcome = load i32, ptr %outcome.at",
    ]


def _run_framed(body: Body) -> list[str]:
    """`_run_coroutine` for a block that has a frame."""
    return [
        "begin:",
        "  %begun = call ptr @haulage.frame.make()",
        "  store ptr %begun, ptr %handle.at",
        "  br label %ran",
        "resume:",
        "  %waiter = load ptr, ptr %handle.at",
        "  br label %ran",
        "ran:",
        "  %handle = phi ptr [ %begun, %begin ], [ %waiter, %resume ]",
        "  %frame.bytes = call i64 @haulage.frame.bytes()",
        "  %rooms = getelementptr i8, ptr %handle, i64 %frame.bytes",
        f"  %outcome = call i32 @haulage.block({entry.block_arguments(body, '%handle', '%rooms')})",
        "  store i32 %outcome, ptr %outcome.at",
    ]
