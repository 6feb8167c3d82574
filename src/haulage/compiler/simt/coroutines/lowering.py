"""Writes a body as a block function that runs every thread as an LLVM coroutine.

This takes any placement of barriers. The threads run in turn, each until its next barrier or its
end; when all that have not ended wait, the next round begins. If some wait at a barrier that misses
others which have ended (`exit_codes.py`), those can never go on: that is the barrier's fault.
Barriers of wavefronts and warps are passed in between (`wavefronts.py`), and threads that wait for
a write of another one run by turns there (`yields.py`).

Where all threads of the block wait for the grid, the block does (`cooperative_grid.py`).
"""

from collections.abc import Sequence
from math import prod

from haulage.compiler.simt.analysis import exit_codes
from haulage.compiler.simt.analysis.barriers import (
    BARRIERS,
    WAVE_BARRIERS,
    grid_barriers,
    in_order,
    lanes_of,
    place_of,
    wave_barriers,
)
from haulage.compiler.simt.analysis.exit_codes import is_observable, return_code
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.coroutines import cooperative_grid, intrinsics, roll, wavefronts, yields
from haulage.compiler.simt.emit.block_function import (
    argument_list,
    block_parameters,
    open_block,
    parameter_list,
    private_pointers,
    private_rooms,
    shared_rooms,
    user_parameters,
)
from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Block, Instruction
from haulage.compiler.simt.loops.block_atomics import expanded
from haulage.targets.cpu import BARRIER, GRID_BARRIER, YIELD

# A thread's state: positive at a barrier (its fault number, at one of a wavefront with
# `wavefronts.MARK`, at one of the grid with `GRID_MARK`) or where it gave way (`yields.YIELDED`),
# zero when it ended, negative when a fault ended it (minus the fault's number).
GRID_MARK = 1 << 29
MOST = 2**31 - 1


def write(body: Body, block: tuple[int, int, int], cooperative: bool) -> str:
    """LLVM text of `@haulage.block` and its thread coroutine for one block size (x, y, z);
    `cooperative` if it may be suspended as a whole, as `cooperative_grid.py` says."""
    kept = roll.of(body.function, body.has_ends)
    return "\n\n".join(
        [
            *([kept.table()] if kept else []),
            _thread_function(body, prod(block), cooperative, kept),
            *([wavefronts.FUNCTION] if wave_barriers(body.function) else []),
            _block_function(body, block, cooperative, kept is not None),
        ]
    )


def _thread_function(body: Body, threads: int, cooperative: bool, kept: roll.Roll | None) -> str:
    parameters = [
        *((parameter.type, parameter.name) for parameter in body.function.parameters),
        *(("ptr", room.name) for room in body.shared),
        *(("ptr", room.name) for room in body.private),
        ("ptr", "%frames"),
        ("i64", "%frame.number"),
        ("ptr", "%state"),
        *([("ptr", "%mask")] if wave_barriers(body.function) else []),
        *([("ptr", "%roll")] if kept else []),
    ]
    lines = [
        f"define internal ptr @haulage.thread({parameter_list(parameters)}) presplitcoroutine {{",
        "coroutine.start:",
        *intrinsics.begin_one_of(threads, owned=not cooperative),
        *(kept.begin() if kept else []),
        f"  br label {body.function.entry}",
    ]
    last_label = {label: label for label in body.function.blocks}
    texts: dict[str, list[str]] = {}
    ranks = {label: rank for rank, label in enumerate(in_order(body.function))}
    for label, block in body.function.blocks.items():
        texts[label], last_label[label] = _block_lines(body, block, ranks.get(label, 0), kept)
    for label, block in body.function.blocks.items():
        lines.append(f"{label[1:]}:")
        for phi in block.phis:
            sources = tuple((value, last_label[source]) for value, source in phi.incoming)
            lines.append("  " + build.phi(phi.result or "", phi.type, sources).text)
        lines += texts[label]
    lines += intrinsics.end(owned=False)
    return "\n".join(lines)


def _block_lines(
    body: Body, block: Block, rank: int, kept: roll.Roll | None
) -> tuple[list[str], str]:
    """The block's lines behind its phis, and the label that they end in; `rank` is the block's
    among those with barriers."""
    lines: list[str] = []
    current = block.label
    barriers = 0
    told = kept is None
    for item in block.body:
        if item.callee == YIELD:
            barriers += 1
            stem = block.label[1:].strip('"') + f".yield.{barriers}"
            lines += yields.give_way(stem)
            current = f'%"{stem}"'
            continue
        if item.callee not in BARRIERS:
            lines += ["  " + each.text for each in expanded(item)]
            if kept and not told and is_observable(body.function, item):
                lines += kept.did(f"{block.label[1:].strip(chr(34))}.did.{barriers}")
                told = True
            continue
        barriers += 1
        stem = block.label[1:].strip('"') + f".barrier.{barriers}"
        mark = GRID_MARK if item.callee == GRID_BARRIER else 0
        if item.callee in WAVE_BARRIERS:
            mark = wavefronts.MARK
            rank_at = f'%"{stem}.rank"'
            lines += [
                f"  store i64 {lanes_of(item)}, ptr %mask",
                f"  {rank_at} = getelementptr inbounds i8, ptr %mask, i64 8",
                f"  store i64 {rank * wavefronts.MOST_IN_BLOCK + barriers}, ptr {rank_at}",
            ]
        if kept and item.callee == BARRIER:
            lines += kept.wait(stem, block.label)
            told = False
        lines += [
            f"  store i32 {mark + place_of(item)}, ptr %state",
            *intrinsics.suspend(stem, stem),
            f'"{stem}":',
        ]
        current = f'%"{stem}"'
    code = return_code(block)
    if code is None:
        assert isinstance(block.terminator, Instruction)
        lines += kept.step(block) if kept else []
        lines.append("  " + block.terminator.text)
    else:
        stem = block.label[1:].strip('"')
        if kept:
            lines += kept.leave(stem, code)
            code, counted = exit_codes.fault_of(code, f'%"{stem}.fault"')
            lines += [f"  {item.text}" for item in counted]
        lines += [
            f'  %"{stem}.state" = sub i32 0, {code}',
            f'  store i32 %"{stem}.state", ptr %state',
            "  br label %coroutine.final",
        ]
    return lines, current


def _block_function(
    body: Body, block: tuple[int, int, int], cooperative: bool, rolled: bool
) -> str:
    threads = prod(block)
    wavewise = bool(wave_barriers(body.function))
    gridwise = bool(grid_barriers(body.function))
    yielding = yields.are_in(body.function)
    # Whether the block may be dropped where it is suspended.
    drops = gridwise or (yielding and cooperative)
    result = "%outcome.now" if drops else "%result"
    # In turn: the threads run, waves settle, those that gave way go on; then they are counted.
    stages = [
        *([wavefronts.FIRST] if wavewise else []),
        *([yields.FIRST] if yielding else []),
        "count",
    ]
    ran = ["start", "next", *([yields.AGAIN] if yielding else [])]
    settled = [wavefronts.LAST] if wavewise else ran
    idle = _idle(cooperative)
    return "\n".join(
        [
            *(
                cooperative_grid.open_block(body, threads)
                if cooperative
                else open_block(block_parameters(body))
            ),
            "  %ret = alloca ptr",
            f"  %handles = alloca [{threads} x ptr], align 64",
            f"  %states = alloca [{threads} x i32], align 64",
            "  %frames = alloca ptr",
            *([f"  %masks = alloca [{threads} x {wavefronts.WAIT}], align 64"] if wavewise else []),
            *(roll.OPEN if rolled else []),
            *shared_rooms(body, threads),
            *private_rooms(body, threads),
            "  br label %start",
            *_start(body, block, wavewise, rolled, stages[0]),
            *(wavefronts.settle(threads, ran, stages[1]) if wavewise else []),
            *(yields.rounds(threads, settled, stages[0], idle) if yielding else []),
            *_count(threads, [yields.LAST] if yielding else settled, gridwise),
            *_judge(wavewise, gridwise, rolled),
            *(_round_of_the_living(threads, gridwise) if gridwise or rolled else _round(threads)),
            "next:",
            f"  br label %{stages[0]}",
            *_finish(wavewise, gridwise),
            *_free(drops),
            *(
                cooperative_grid.close_block(body, threads, result)
                if cooperative
                else [f"  ret i32 {result}", "}"]
            ),
        ]
    )


def _idle(cooperative: bool) -> list[str]:
    """Lines in which a block gives way as a whole; from there control goes to `yields.AGAIN`."""
    if cooperative:
        return cooperative_grid.wait(
            "yields", str(cooperative_grid.YIELDS), yields.AGAIN, "grid.gone"
        )
    return yields.pause()


def _start(
    body: Body, block: tuple[int, int, int], wavewise: bool, rolled: bool, then: str
) -> list[str]:
    """Lines that run every thread to its first barrier, and go on to `then`."""
    private, pointers = private_pointers(body, "%thread", "")
    arguments = argument_list(
        [
            ("ptr", "%ret"),
            *(("i32", f"%{axis}") for axis in "xyz"),
            *(("i32", f"%blockIdx.{axis}") for axis in "xyz"),
            *(("i32", str(size)) for size in block),
            *(("i32", f"%gridDim.{axis}") for axis in "xyz"),
            ("ptr", "%dynamicShared"),
            ("i64", "%dynamicSharedBytes"),
            *user_parameters(body, attributes=False),
            *(("ptr", room.name) for room in body.shared),
            *(("ptr", pointer) for pointer in pointers),
            ("ptr", "%frames"),
            ("i64", "%thread"),
            ("ptr", "%state.start"),
            *([("ptr", "%mask.start")] if wavewise else []),
            *([("ptr", "%roll")] if rolled else []),
        ]
    )
    return [
        "start:",
        "  %thread = phi i64 [ 0, %block.start ], [ %thread.after, %start ]",
        "  %linear = trunc i64 %thread to i32",
        f"  %x = urem i32 %linear, {block[0]}",
        f"  %rows = udiv i32 %linear, {block[0]}",
        f"  %y = urem i32 %rows, {block[1]}",
        f"  %z = udiv i32 %rows, {block[1]}",
        "  %state.start = getelementptr inbounds i32, ptr %states, i64 %thread",
        *(
            [f"  %mask.start = getelementptr inbounds {wavefronts.WAIT}, ptr %masks, i64 %thread"]
            if wavewise
            else []
        ),
        *private,
        f"  %handle = call ptr @haulage.thread({arguments})",
        "  %handle.at = getelementptr inbounds ptr, ptr %handles, i64 %thread",
        "  store ptr %handle, ptr %handle.at",
        "  %thread.after = add nuw nsw i64 %thread, 1",
        f"  %thread.more = icmp ult i64 %thread.after, {prod(block)}",
        f"  br i1 %thread.more, label %start, label %{then}",
    ]


def _count(threads: int, before: Sequence[str], gridwise: bool) -> list[str]:
    """Lines that see how the threads stand; waiting is the largest state, a fault the smallest.
    Control comes from the labels `before`."""
    from_zero, from_top = (
        ", ".join(f"[ {value}, %{label} ]" for label in before) for value in (0, MOST)
    )
    least = [
        f"  %or.ended = select i1 %has.ended, i32 {MOST}, i32 %state",
        "  %least.now = call i32 @llvm.smin.i32(i32 %least, i32 %or.ended)",
    ]
    return [
        "count:",
        f"  %c = phi i64 {from_zero}, [ %c.after, %count ]",
        f"  %waiting = phi i32 {from_zero}, [ %waiting.now, %count ]",
        f"  %failed = phi i32 {from_zero}, [ %failed.now, %count ]",
        f"  %ended = phi i32 {from_zero}, [ %ended.now, %count ]",
        *([f"  %least = phi i32 {from_top}, [ %least.now, %count ]"] if gridwise else []),
        "  %state.at = getelementptr inbounds i32, ptr %states, i64 %c",
        "  %state = load i32, ptr %state.at",
        "  %waiting.now = call i32 @llvm.smax.i32(i32 %waiting, i32 %state)",
        "  %failed.now = call i32 @llvm.smin.i32(i32 %failed, i32 %state)",
        "  %has.ended = icmp sle i32 %state, 0",
        *(least if gridwise else []),
        "  %one.more = zext i1 %has.ended to i32",
        "  %ended.now = add i32 %ended, %one.more",
        "  %c.after = add nuw nsw i64 %c, 1",
        f"  %c.more = icmp ult i64 %c.after, {threads}",
        "  br i1 %c.more, label %count, label %judge",
    ]


def _judge(wavewise: bool, gridwise: bool, rolled: bool) -> list[str]:
    """Lines that go on to another round if no thread is missed, else to the end."""
    go_on = "%all.here" if wavewise else "%none.missed"
    return [
        "judge:",
        *(roll.JUDGE if rolled else ["  %none.missed = icmp eq i32 %ended.now, 0"]),
        *(wavefronts.JUDGE if wavewise else []),
        *(_grid_barrier() if gridwise else []),
        f"  br i1 {go_on}, label %round, label %finish",
    ]


def _finish(wavewise: bool, gridwise: bool) -> list[str]:
    """Lines that work out what the block ends with. What stopped a thread comes first: a barrier
    missed because of it is only its echo."""
    waiting = "%waiting.place" if wavewise else "%waiting.now"
    bare = [f"  %waiting.bare = and i32 {waiting}, {GRID_MARK - 1}"] if gridwise else []
    missed = "%waiting.bare" if gridwise else waiting
    return [
        "finish:",
        "  %any.failed = icmp slt i32 %failed.now, 0",
        "  %fault = sub i32 0, %failed.now",
        *bare,
        f"  %result = select i1 %any.failed, i32 %fault, i32 {missed}",
        "  br label %free",
    ]


def _free(drops: bool) -> list[str]:
    """Lines that free the frames of all coroutines, which own nothing else, also of a block that
    is dropped where it is suspended."""
    gone = ["grid.gone:", "  br label %free"]
    outcome = [
        "  %drop = phi i1 [ false, %finish ], [ true, %grid.gone ]",
        "  %outcome.now = phi i32 [ %result, %finish ], [ 0, %grid.gone ]",
    ]
    leave = ["  br i1 %drop, label %coroutine.cleanup, label %grid.end", "grid.end:"]
    return [
        *(gone if drops else []),
        "free:",
        *(outcome if drops else []),
        "  %frames.left = load ptr, ptr %frames",
        "  call void @haulage_free(ptr %frames.left)",
        *(leave if drops else []),
    ]


def _round(threads: int) -> list[str]:
    """Lines that resume every thread, and go on to `next`."""
    return [
        "round:",
        "  %r = phi i64 [ 0, %judge ], [ %r.after, %round ]",
        "  %waiter.at = getelementptr inbounds ptr, ptr %handles, i64 %r",
        "  %waiter = load ptr, ptr %waiter.at",
        "  call void @llvm.coro.resume(ptr %waiter)",
        "  %r.after = add nuw nsw i64 %r, 1",
        f"  %r.more = icmp ult i64 %r.after, {threads}",
        "  br i1 %r.more, label %round, label %next",
    ]


def _round_of_the_living(threads: int, gridwise: bool) -> list[str]:
    """`_round` for kernels in which some threads may have ended and the others go on."""
    begun = "[ 0, %block.only ], [ 0, %grid.on ]" if gridwise else "[ 0, %judge ]"
    return [
        "round:",
        f"  %r = phi i64 {begun}, [ %r.after, %round.on ]",
        "  %r.state.at = getelementptr inbounds i32, ptr %states, i64 %r",
        "  %r.state = load i32, ptr %r.state.at",
        "  %r.lives = icmp sgt i32 %r.state, 0",
        "  br i1 %r.lives, label %wake, label %round.on",
        "wake:",
        "  %waiter.at = getelementptr inbounds ptr, ptr %handles, i64 %r",
        "  %waiter = load ptr, ptr %waiter.at",
        "  call void @llvm.coro.resume(ptr %waiter)",
        "  br label %round.on",
        "round.on:",
        "  %r.after = add nuw nsw i64 %r, 1",
        f"  %r.more = icmp ult i64 %r.after, {threads}",
        "  br i1 %r.more, label %round, label %next",
    ]


def _grid_barrier() -> list[str]:
    """Lines behind those of `judge`: do all threads that have not ended wait for the grid? If only
    some do, the block can never go on. Control goes to `block.only` if none does."""
    return [
        f"  %for.grid = icmp sge i32 %waiting.now, {GRID_MARK}",
        "  br i1 %for.grid, label %some.for.grid, label %block.only",
        "some.for.grid:",
        f"  %none.before.grid = icmp sge i32 %least.now, {GRID_MARK}",
        f"  %none.for.lanes = icmp slt i32 %waiting.now, {wavefronts.MARK}",
        "  %all.for.grid = and i1 %none.before.grid, %none.for.lanes",
        f"  %grid.place = and i32 %waiting.now, {GRID_MARK - 1}",
        "  br i1 %all.for.grid, label %for.all, label %finish",
        "for.all:",
        *cooperative_grid.wait("grid", "%grid.place", "grid.on", "grid.gone"),
        "grid.on:",
        "  br label %round",
        "block.only:",
    ]
