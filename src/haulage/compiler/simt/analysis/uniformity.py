"""Which values are uniform, the same in all threads of a block, and which blocks are divergent.

The rule of sync dependence as in Karrenberg and Hack, "Improving Performance of OpenCL on CPUs"
(CC 2012), and LLVM's `UniformityInfo`: a value varies if something it is made from does, or if
different ones are merged where threads that diverged meet. A load from one address gives all
threads one value, unless the memory may be written between the same two barriers
(`memory_dependence.py`).
"""

from collections.abc import Set
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import PURE
from haulage.compiler.simt.analysis import control_flow, memory_dependence, warps
from haulage.compiler.simt.analysis.barriers import BARRIERS, BLOCK_WIDE
from haulage.compiler.simt.analysis.exits import early_exits
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.warps import Warps
from haulage.compiler.simt.ir.model import Block, Instruction

THREAD_INDEX = frozenset(("%threadIdx.x", "%threadIdx.y", "%threadIdx.z"))


@dataclass(frozen=True)
class Uniformity:
    """`varying`: names of values that can differ; `divergent`: labels that only some threads of a
    block may be at, at one time; `exiting`: those with the branch of an early exit, whose threads
    were not counted."""

    varying: frozenset[str]
    divergent: frozenset[str]
    exiting: frozenset[str] = frozenset()

    @property
    def masks(self) -> bool:
        """Whether a state has to be kept for each thread: some may have left."""
        return bool(self.exiting)


def analyse(
    analyses: Analyses,
    private: frozenset[str],
    exits: frozenset[str] = frozenset(),
    within: Warps | None = None,
) -> Uniformity:
    """The uniformity of a function, of the threads of a block or of those of a warp (`within`).

    `private` are the names of the memory that each thread has of its own. With `exits`, labels of
    early exits (`exits.py`), this is about the threads that have not left by them.
    """
    blocks = analyses.function.blocks
    leaving = {label: analyses.get(early_exits)[label].labels for label in exits}
    # Between barriers of warps one warp runs after another.
    settled_by = BARRIERS if within else BLOCK_WIDE
    index = within.thread_index() if within else THREAD_INDEX
    uniform = analyses.get(warps.warp_uniform, within) if within else frozenset()
    clobbered = analyses.get(memory_dependence.clobbered_loads, settled_by)
    varying = {*index, *private, *clobbered}
    divergent: set[str] = set()
    exiting: set[str] = set()
    handled: set[str] = set()
    changed = True
    while changed:
        changed = _spread(analyses, varying, uniform, within is not None)
        for label, block in blocks.items():
            if label in handled or not _branches_on(block, varying):
                continue
            handled.add(label)
            changed = True
            if label in leaving:
                exiting.add(label)
                influenced = leaving[label]
            else:
                stop = analyses.postdominators.get(label, control_flow.EXIT)
                influenced = frozenset(
                    control_flow.reachable_until(analyses.successors, block.successors, stop)
                )
                if stop != control_flow.EXIT:
                    varying |= _merged(analyses, blocks[stop], influenced | {label})
            divergent |= influenced
            for each in influenced:
                varying |= _merged(analyses, blocks[each], blocks.keys())
            if label in influenced:
                # Threads leave this loop at different times: nothing in it is in step.
                varying |= {
                    item.result
                    for each in influenced
                    for item in blocks[each].instructions()
                    if item.result
                }
    return Uniformity(frozenset(varying), frozenset(divergent), frozenset(exiting))


def divergent_loops(analyses: Analyses, flow: Uniformity) -> set[str]:
    """Headers of the loops that threads do not go round together, or leave at different times."""
    return {
        loop.header
        for loop in analyses.loops
        if loop.header in flow.divergent or loop.labels & flow.exiting
    }


def _merged(analyses: Analyses, block: Block, apart: Set[str]) -> set[str]:
    """The phis of a block to which threads bring different values out of the blocks `apart`."""
    found = set()
    for phi in block.phis:
        brought = [
            operand
            for operand, label in zip(phi.operands, phi.sources, strict=True)
            if label in apart
        ]
        if phi.result and not memory_dependence.are_congruent(analyses, brought):
            found.add(phi.result)
    return found


def _branches_on(block: Block, varying: set[str]) -> bool:
    end = block.terminator
    return (
        isinstance(end, Instruction)
        and len(end.targets) > 1
        and any(operand in varying for operand in end.uses)
    )


def _spread(analyses: Analyses, varying: set[str], uniform: frozenset[str], lanes: bool) -> bool:
    """Add what is made from varying values; whether there was anything. For `lanes` of a warp,
    collectives may give all of them one answer."""
    before = len(varying)
    waiting = list(analyses.items.values())
    while waiting:
        again: list[Instruction] = []
        for item in waiting:
            if item.result in varying or item.result in uniform:
                continue
            if _varies(item, varying) and not (
                lanes and warps.is_uniform_collective(item, varying)
            ):
                assert item.result is not None
                varying.add(item.result)
                again += analyses.users.get(item.result, ())
        waiting = [item for item in again if item.result]
    return len(varying) > before


def _varies(item: Instruction, varying: set[str]) -> bool:
    if item.opcode == "call" and not (item.callee or "").startswith(PURE):
        # What an unknown function gives may differ from call to call.
        return True
    return item.stays or any(operand in varying for operand in item.uses)
