"""Which values are uniform, the same in all threads of a block, and which blocks are divergent.

The rule of sync dependence as in Karrenberg and Hack, "Improving Performance of OpenCL on CPUs"
(CC 2012), and LLVM's `UniformityInfo`: a value varies if something it is made from does, or if
different ones are merged where threads that diverged meet. A load from one address gives all
threads one value, unless the memory may be written between the same two barriers
(`memory_dependence.py`).
"""

from collections.abc import Iterable, Set
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
    blocks, users = analyses.function.blocks, analyses.users
    leaving = {label: analyses.get(early_exits)[label].labels for label in exits}
    # Between barriers of warps one warp runs after another.
    settled_by = BARRIERS if within else BLOCK_WIDE
    index = within.thread_index() if within else THREAD_INDEX
    uniform = analyses.get(warps.warp_uniform, within) if within else frozenset()
    branches = {block.terminator: label for label, block in blocks.items()}
    varying: set[str] = set()
    divergent: set[str] = set()
    exiting: set[str] = set()
    branching: dict[str, None] = {}

    def becomes_uniform(item: Instruction) -> bool:
        """Whether collectives give all lanes of a warp one value, or the index is divided away."""
        return item.result in uniform or (
            within is not None and warps.is_uniform_collective(item, varying)
        )

    def vary(names: Iterable[str | None]) -> None:
        """Add values, and what is made from them."""
        waiting = [*names]
        while waiting:
            name = waiting.pop()
            if name is None or name in varying:
                continue
            varying.add(name)
            for item in users.get(name, ()):
                if item in branches:
                    branching[branches[item]] = None
                elif not becomes_uniform(item):
                    waiting.append(item.result)

    vary((*index, *private, *analyses.get(memory_dependence.clobbered_loads, settled_by)))
    vary(
        item.result
        for item in analyses.items.values()
        if _varies_by_itself(item) and not becomes_uniform(item)
    )
    handled: set[str] = set()
    while branching:
        label, _ = branching.popitem()
        block = blocks[label]
        if label in handled or len(block.successors) < 2:
            continue
        handled.add(label)
        if label in leaving:
            exiting.add(label)
            influenced = leaving[label]
        else:
            stop = analyses.postdominators.get(label, control_flow.EXIT)
            influenced = frozenset(
                control_flow.reachable_until(analyses.successors, block.successors, stop)
            )
            if stop != control_flow.EXIT:
                vary(_merged(analyses, blocks[stop], influenced | {label}))
        divergent |= influenced
        for each in influenced:
            vary(_merged(analyses, blocks[each], blocks.keys()))
        if label in influenced:
            # Threads leave this loop at different times: nothing in it is in step.
            vary(item.result for each in influenced for item in blocks[each].instructions())
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


def _varies_by_itself(item: Instruction) -> bool:
    # What an unknown function gives may differ from call to call.
    is_unknown = item.opcode == "call" and not (item.callee or "").startswith(PURE)
    return is_unknown or item.stays
