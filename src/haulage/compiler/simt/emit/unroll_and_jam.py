"""Runs a region for a few threads at once, instruction by instruction, where all of them take the
same path through loops of their own.

A thread that sums its row of a matrix waits in each iteration for the sum of the one before. The
rows of its neighbours do not depend on that: `JAMMED` of them, side by side, take hardly longer
than one. This is unrolling of the work-item loop with the copies jammed into one body (Allen and
Kennedy, "Optimizing Compilers for Modern Architectures", 2001, chapter 8), which needs no analysis
of dependences here, as threads may run in any order between two barriers.
"""

from dataclasses import replace

from haulage.compiler.simt.analysis import control_flow, induction
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction, value_name
from haulage.compiler.simt.loops.loop_order import JAMMED, MOST_JAMMED
from haulage.compiler.simt.regions.parallel_regions import Region, Regions
from haulage.compiler.simt.vectorize.builder import elementwise

_SUFFIX = ".jam"


def is_worth_it(body: Body, regions: Regions, region: Region) -> bool:
    """Whether each iteration of one of a region's inner loops has to wait for a sum of the one
    before, and nothing in the region is done one thread after the other."""
    if body.may_fail or body.private or regions.masked:
        return False
    blocks = [regions.function.blocks[label] for label in region.labels]
    items = [item for block in blocks for item in block.instructions()]
    if len(items) > MOST_JAMMED or any(item.stays or item.opcode == "fence" for item in items):
        return False
    if any(item.opcode == "call" and elementwise(item.callee) is None for item in items):
        return False
    loops = kept_loops(regions.function, region)
    return any(_carries(regions.function, loop) for loop in loops)


def kept_loops(function: Function, region: Region) -> list[control_flow.Loop]:
    """The innermost of a region's loops that LLVM does not unroll."""
    found: list[control_flow.Loop] = []
    for loop in control_flow.Graph(function.within(region.labels), region.entry).loops:
        inner = any(each.labels < loop.labels for each in found)
        if not inner and induction.trip_count(function, loop) is None:
            found.append(loop)
    return found


def _carries(function: Function, loop: control_flow.Loop) -> bool:
    """Whether a loop carries a value from iteration to iteration that is no induction variable."""
    stepping = induction.recurrences(function, loop)
    return any(phi.result not in stepping for phi in function.blocks[loop.header].phis)


def is_in(module: str) -> bool:
    """Whether the text of a module has a function for a few threads."""
    return f"{_SUFFIX}(" in module


def jammed(function: Function, axis: str) -> Function | None:
    """The function of a region for one of `JAMMED` threads that are neighbours along an axis, as
    one that runs all of them; None if they need not take the same path."""
    own = {f"%threadIdx.{axis}": "i32", "%thread": "i64"}
    # What can differ between threads that take the same path: also the memory that is each one's.
    allocated = [item.result for item in function.instructions() if item.opcode == "alloca"]
    varying = function.made_from([*own, *filter(None, allocated)])
    if any(
        not varying.isdisjoint(block.terminator.uses)
        for block in function.blocks.values()
        if isinstance(block.terminator, Instruction)
    ):
        return None
    copies = [{name: value_name(name, f"jam.{k}") for name in varying} for k in range(1, JAMMED)]

    def of_all(items: list[Instruction]) -> list[Instruction]:
        made: list[Instruction] = []
        for item in items:
            made.append(item)
            if item.result in varying or not varying.isdisjoint(item.uses):
                made += [item.renamed(names) for names in copies]
        return made

    blocks = {
        label: Block(label, of_all(block.phis), of_all(block.body), block.terminator)
        for label, block in function.blocks.items()
    }
    blocks[function.entry].body[:0] = [
        Builder.binary("add", kind, name, str(k), name=names[name])
        for k, names in enumerate(copies, 1)
        for name, kind in own.items()
    ]
    return replace(function, name=function.name + _SUFFIX, blocks=blocks)
