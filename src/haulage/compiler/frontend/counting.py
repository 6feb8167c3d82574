"""Counts the ways of threads through functions, by a statement of Numba's IR in each.

They are put in as soon as there is an IR: there each block is one of the bytecode, whose
instructions have the lines that Python's tracing tells of; behind it blocks are merged, copied and
left out.
"""

from typing import Any

from numba.core import ir, typeinfer
from numba.core.bytecode import _FIXED_OFFSET
from numba.core.targetconfig import ConfigStack

from haulage.compiler.checks.counters import COUNT, COUNTERS, is_counted
from haulage.compiler.checks.flow import OUTSIDE, Flow
from haulage.compiler.frontend.refusals import is_library
from haulage.targets.cpu_ir import declare


class Count(ir.Stmt):
    """A thread adds one to the counter with this number."""

    def __init__(self, number: int, loc: Any) -> None:
        self.number = number
        self.loc = loc

    def __str__(self) -> str:
        return f"count {self.number}"


def _untyped(statement: Any, inference: Any) -> None:
    """What Numba's type inference does about it: nothing."""


typeinfer.typeinfer_extensions[Count] = _untyped


def lower(builder: Any, statement: Count) -> None:
    """Generate the call that counts."""
    from llvmlite import ir as llvm

    i64 = llvm.IntType(64)
    function = declare(builder.module, COUNT, llvm.FunctionType(llvm.VoidType(), [i64]))
    builder.call(function, [llvm.Constant(i64, statement.number)])
    COUNTERS.compiled(statement.number)


def count(function_ir: Any, is_kernel: bool) -> None:
    """Put the statements into the IR of a function or of a kernel, if the function that is being
    compiled is to be counted, and this one is the program's."""
    code = function_ir.func_id.code
    asked = getattr(ConfigStack.top_or_none(), "counts", False)
    if not asked or is_library(function_ir) or not is_counted(code):
        return
    counted = COUNTERS.of(code, is_kernel)
    numbers = {way: counted.start + place for place, way in enumerate(counted.flow.counted)}
    blocks = function_ir.blocks
    starts = _starts(blocks, counted.flow)
    before: dict[int, int] = {}
    for block in blocks.values():
        for target in set(block.terminator.get_targets()):
            before[target] = before.get(target, 0) + 1
    _behind_arguments(blocks[min(blocks)], numbers[OUTSIDE, 0])
    for label in sorted(blocks):
        end = blocks[label].terminator
        if not isinstance(end, ir.Branch) or end.truebr == end.falsebr:
            continue
        for name in ("truebr", "falsebr"):
            target = getattr(end, name)
            made = Count(numbers[starts[label], starts[target]], end.loc)
            if before[target] == 1:
                blocks[target].prepend(made)
                continue
            between = ir.Block(blocks[target].scope, end.loc)
            between.append(made)
            between.append(ir.Jump(target, end.loc))
            new = max(blocks) + 1
            blocks[new] = between
            setattr(end, name, new)


def _starts(blocks: Any, flow: Flow) -> dict[int, int]:
    """Where the blocks of an IR start in the bytecode, by their labels.

    Numba has blocks of its own that only jump: all ways back to the beginning of a loop lead over
    one. They count as where they lead to.
    """

    def start(label: int) -> int:
        place = flow.block_at(max(label - _FIXED_OFFSET, 0))
        return start(blocks[label].terminator.target) if place is None else place

    return {label: start(label) for label in blocks}


def _behind_arguments(block: Any, number: int) -> None:
    place = next(
        place
        for place, statement in enumerate(block.body)
        if not (isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Arg))
    )
    block.body.insert(place, Count(number, block.loc))
