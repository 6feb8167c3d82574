"""Writes the function that the CPU device calls: it runs a range of blocks of one launch.

`i64 haulage_entry(ptr launch, i64 first, i64 last)` runs blocks [first, last) in the order of their
numbers and gives the largest of their faults, 0 for none. `launch` points to the
grid's and the block's sizes (three 32-bit numbers each), the bytes of dynamic shared memory, and
from byte 32 on to the kernel's arguments, packed as C would.
"""

from collections.abc import Sequence

from haulage.compiler.argument_block import argument_offsets
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit.block_function import (
    argument_list,
    heap_bytes,
    private_align,
    user_parameters,
)
from haulage.compiler.simt.emit.grid_loop import rows
from haulage.compiler.simt.emit.privatized_entry import close_totals, open_totals
from haulage.compiler.simt.loops.block_coalescing import WIDTH, Run
from haulage.compiler.simt.loops.privatization import Total
from haulage.targets.base import DYNAMIC_SHARED_ALIGN

ENTRY = "haulage_entry"
ARGUMENTS_AT = 32

# What the C library's allocator gives.
_HEAP_ALIGN = 16


def begin() -> list[str]:
    """The entry's first lines, which read the sizes of the grid and of dynamic shared memory."""
    lines = [
        "declare i32 @llvm.umax.i32(i32, i32)",
        "declare i64 @llvm.umin.i64(i64, i64)",
        "declare i32 @llvm.smax.i32(i32, i32)",
        "declare i32 @llvm.smin.i32(i32, i32)",
        "declare i64 @llvm.smax.i64(i64, i64)",
        "declare i64 @llvm.smin.i64(i64, i64)",
        f"define i64 @{ENTRY}(ptr noalias readonly %launch, i64 %first, i64 %last) {{",
        "start:",
    ]
    for number, axis in enumerate("xyz"):
        lines += [
            f"  %gridDim.{axis}.at = getelementptr inbounds i8, ptr %launch, i64 {4 * number}",
            f"  %gridDim.{axis} = load i32, ptr %gridDim.{axis}.at",
        ]
    lines += [
        "  %dynamic.at = getelementptr inbounds i8, ptr %launch, i64 24",
        "  %dynamic.bytes = load i32, ptr %dynamic.at",
        "  %dynamicSharedBytes = zext i32 %dynamic.bytes to i64",
    ]
    return lines


def load_arguments(body: Body, made: Sequence[str] = ()) -> list[str]:
    """Lines that read the user's arguments but those named `made`, and what `block_rows`
    needs."""
    user = [each for each in user_parameters(body, attributes=False) if each[1] not in made]
    offsets, _ = argument_offsets(tuple(kind for kind, _ in user))
    lines = []
    for (kind, name), offset in zip(user, offsets, strict=True):
        at = '%"' + name[1:].strip('"') + '.at"'
        lines += [
            f"  {at} = getelementptr inbounds i8, ptr %launch, i64 {ARGUMENTS_AT + offset}",
            f"  {name} = load {kind}, ptr {at}",
        ]
    return [
        *lines,
        *(f"  %wide.{axis} = zext i32 %gridDim.{axis} to i64" for axis in "xyz"),
    ]


def block_arguments(body: Body, *last: str) -> str:
    """What the block function is called with; `last` are the pointers at the end."""
    return argument_list(
        [
            *(("i32", f"%blockIdx.{axis}") for axis in "xyz"),
            *(("i32", f"%gridDim.{axis}") for axis in "xyz"),
            ("ptr", "%dynamicShared"),
            ("i64", "%dynamicSharedBytes"),
            *user_parameters(body, attributes=False),
            *(("ptr", pointer) for pointer in last),
        ]
    )


def write(
    body: Body, threads: int, order: str, totals: Sequence[Total] = (), run: Run | None = None
) -> str:
    """LLVM text of the entry for blocks of `threads` threads, with copies of `totals`, for a block
    function that is given a block, or a `run` of them.

    The blocks of a launch are numbered along the axes as `order` names them, fastest last, so that
    blocks that follow one another read neighbouring memory if the threads do.
    """
    copies, label = open_totals(totals, threads, "start")
    lines = [
        *begin(),
        f"  %dynamicShared = alloca i8, i64 %dynamicSharedBytes, align {DYNAMIC_SHARED_ALIGN}",
        *load_arguments(body, [total.room for total in totals]),
        *copies,
    ]
    room = heap_bytes(body, threads)
    before, behind = rows(order, label, run)
    arguments = block_arguments(body, "%private.room")
    if run is not None:
        arguments += f", i32 {WIDTH}"
    lines += [
        *_private_room(body, room),
        *before,
        f"  %this = call i32 @haulage.block({arguments})",
        "  %fault.now = call i32 @llvm.umax.i32(i32 %fault, i32 %this)",
        *behind,
        "end:",
        *close_totals(totals, "end"),
        *_private_room_end(room),
        "  %result = zext i32 %fault.now to i64",
        "  ret i64 %result",
        "}",
    ]
    return "\n".join(lines)


def _private_room(body: Body, nbytes: int) -> list[str]:
    """Lines that make `%private.room`, the threads' own memory if it is too much for the stack."""
    if not nbytes:
        return ["  %private.room = freeze ptr null"]
    align = max(private_align(body), _HEAP_ALIGN)
    return [f"  %private.room = call ptr @haulage_alloc(i64 {align}, i64 {nbytes}, i1 true)"]


def _private_room_end(nbytes: int) -> list[str]:
    return ["  call void @haulage_free(ptr %private.room)"] if nbytes else []
