"""Which values are the same in all threads of a block, and which blocks all threads reach together.

The rule of sync dependence as in Karrenberg and Hack, "Improving Performance of OpenCL on CPUs"
(CC 2012): a value varies if something it is made from does, or if it is merged where threads that
went different ways meet. A load from one address gives all threads one value, unless the memory
may be written between the same two barriers (`memory_dependence.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import PREFIX
from haulage.compiler.simt.analysis import control_flow, memory_dependence, warps
from haulage.compiler.simt.analysis.barriers import BARRIERS, BLOCK_WIDE
from haulage.compiler.simt.analysis.early_exit import Arm
from haulage.compiler.simt.analysis.warps import Warps
from haulage.compiler.simt.ir.model import Function, Instruction

THREAD_INDEX = frozenset(("%threadIdx.x", "%threadIdx.y", "%threadIdx.z"))


@dataclass(frozen=True)
class Uniformity:
    """`varying`: names of values that can differ; `divergent`: labels that only some threads of a
    block may be at, at one time; `exiting`: those whose branch threads leave by
    that were not counted."""

    varying: frozenset[str]
    divergent: frozenset[str]
    exiting: frozenset[str] = frozenset()

    @property
    def masks(self) -> bool:
        """Whether a state has to be kept for each thread: some may have left."""
        return bool(self.exiting)


def analyse(
    function: Function,
    private: frozenset[str],
    arms: Mapping[str, Arm] | None = None,
    within: Warps | None = None,
) -> Uniformity:
    """Find the varying values and divergent blocks of a function, of a block's threads or of those
    of a warp (`within`).

    `private` are the names of the memory that each thread has of its own. With `arms` this is about
    the threads that are still there: those that leave for good by them (`early_exit.py`) part
    nobody.
    """
    arms = arms or {}
    exiting: set[str] = set()
    successors = {label: block.successors for label, block in function.blocks.items()}
    meeting = control_flow.immediate_postdominators(successors)
    # Between barriers of warps one warp runs after another.
    settled_by = BARRIERS if within else BLOCK_WIDE
    index = within.thread_index() if within else THREAD_INDEX
    common = within.common(function) if within else frozenset()
    varying = {*index, *private, *memory_dependence.unsettled_loads(function, settled_by)}
    divergent: set[str] = set()
    handled: set[str] = set()
    changed = True
    while changed:
        changed = _spread(function, varying, common, within is not None)
        for label, block in function.blocks.items():
            if label in handled or not _branches_on(block.terminator, varying):
                continue
            handled.add(label)
            changed = True
            if label in arms:
                exiting.add(label)
                divergent |= arms[label].labels
                for place in arms[label].labels:
                    varying |= {phi.result for phi in function.blocks[place].phis if phi.result}
                continue
            stop = meeting.get(label, control_flow.EXIT)
            influenced = control_flow.reachable_until(successors, block.successors, stop)
            divergent |= influenced
            merged = influenced | ({stop} if stop != control_flow.EXIT else set())
            for place in merged:
                varying |= {phi.result for phi in function.blocks[place].phis if phi.result}
            if label in influenced:
                # Threads leave this loop at different times: nothing in it is in step.
                for place in influenced:
                    block_values = function.blocks[place].instructions()
                    varying |= {item.result for item in block_values if item.result}
    return Uniformity(frozenset(varying), frozenset(divergent), frozenset(exiting))


def _branches_on(terminator: object, varying: set[str]) -> bool:
    return (
        isinstance(terminator, Instruction)
        and len(terminator.targets) > 1
        and any(operand in varying for operand in terminator.uses)
    )


def _spread(function: Function, varying: set[str], common: frozenset[str], lanes: bool) -> bool:
    """Add what is made from varying values, until nothing more is found; whether any was."""
    found_any = False
    found = True
    while found:
        found = False
        for block in function.blocks.values():
            for item in block.instructions():
                if not item.result or item.result in varying or item.result in common:
                    continue
                if _varies(item, varying) and not (lanes and warps.answers_alike(item, varying)):
                    varying.add(item.result)
                    found = found_any = True
    return found_any


def _varies(item: Instruction, varying: set[str]) -> bool:
    if item.opcode == "call" and not (item.callee or "").startswith(("llvm.", PREFIX)):
        # What an unknown function gives may differ from call to call.
        return True
    if item.stays:
        return True
    return any(operand in varying for operand in item.uses)
