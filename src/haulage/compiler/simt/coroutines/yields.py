"""Writes how coroutines go on that have let others go first (`spin_loops.py`).

When all threads of a block have run as far as they come, those that gave way run again, in turn,
until none does any more; what is left has ended or is at a barrier. If none of them came any
further in such a round, only another block can help, or a thread that runs on another core: then
the core is given away, or in a grid whose blocks are suspended the whole block gives way.
"""

from collections.abc import Sequence

from haulage.compiler.simt.coroutines import wavefronts
from haulage.compiler.simt.ir.model import Function
from haulage.compiler.simt.ir.reader import read_instruction
from haulage.targets.cpu import PAUSE, YIELD

# The state of a thread that gave way; see `lowering.py`.
YIELDED = wavefronts.BEYOND

FIRST, AGAIN, LAST = "yields", "yields.again", "yields.done"

DECLARATIONS = f"declare i32 @{PAUSE}()"

# What is left of a call where no thread has to give way: that memory is read anew.
_NO_YIELD = 'fence syncscope("singlethread") seq_cst'


def are_in(function: Function) -> bool:
    """Whether threads of a function give way somewhere."""
    return any(item.callee == YIELD for block in function.blocks.values() for item in block.body)


def without(function: Function) -> Function:
    """A function whose threads do not give way."""
    made = function.copy()
    for block in made.blocks.values():
        block.body = [
            read_instruction(_NO_YIELD) if item.callee == YIELD else item for item in block.body
        ]
    return made


def rounds(threads: int, sources: Sequence[str], again: str, idle: Sequence[str]) -> list[str]:
    """Lines from the label `FIRST`, where control comes from `sources`, to the end of `LAST`, from
    where it goes to `count`. After a round of those that gave way it goes to `again`, from `AGAIN`.
    The lines `idle` are run in between if none came any further. If a thread has failed by then,
    nobody is waited for any more."""

    def phi(value: str) -> str:
        return ", ".join(f"[ {value}, %{source} ]" for source in sources)

    return [
        f"{FIRST}:",
        f"  %yield = phi i64 {phi('0')}, [ %yield.after, %yields.on ]",
        f"  %yield.any = phi i1 {phi('false')}, [ %yield.any.now, %yields.on ]",
        f"  %yield.moved = phi i1 {phi('false')}, [ %yield.moved.now, %yields.on ]",
        f"  %yield.least = phi i32 {phi('0')}, [ %yield.least.now, %yields.on ]",
        "  %yield.at = getelementptr inbounds i32, ptr %states, i64 %yield",
        "  %yield.state = load i32, ptr %yield.at",
        "  %yield.least.now = call i32 @llvm.smin.i32(i32 %yield.least, i32 %yield.state)",
        f"  %yield.gave.way = icmp eq i32 %yield.state, {YIELDED}",
        "  %yield.any.now = or i1 %yield.any, %yield.gave.way",
        "  br i1 %yield.gave.way, label %yields.wake, label %yields.on",
        "yields.wake:",
        "  %yield.handle.at = getelementptr inbounds ptr, ptr %handles, i64 %yield",
        "  %yield.handle = load ptr, ptr %yield.handle.at",
        "  call void @llvm.coro.resume(ptr %yield.handle)",
        "  %yield.state.then = load i32, ptr %yield.at",
        f"  %yield.came.on = icmp ne i32 %yield.state.then, {YIELDED}",
        "  %yield.moved.then = or i1 %yield.moved, %yield.came.on",
        "  br label %yields.on",
        "yields.on:",
        f"  %yield.moved.now = phi i1 [ %yield.moved, %{FIRST} ], "
        "[ %yield.moved.then, %yields.wake ]",
        "  %yield.after = add nuw nsw i64 %yield, 1",
        f"  %yield.more = icmp ult i64 %yield.after, {threads}",
        f"  br i1 %yield.more, label %{FIRST}, label %yields.ran",
        "yields.ran:",
        "  br i1 %yield.any.now, label %yields.some, label %" + LAST,
        "yields.some:",
        f"  br i1 %yield.moved.now, label %{AGAIN}, label %yields.stuck",
        "yields.stuck:",
        "  %yield.failed = icmp slt i32 %yield.least.now, 0",
        f"  br i1 %yield.failed, label %{LAST}, label %yields.idle",
        "yields.idle:",
        *idle,
        f"{AGAIN}:",
        f"  br label %{again}",
        f"{LAST}:",
        "  br label %count",
    ]
