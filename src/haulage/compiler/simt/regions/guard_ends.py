"""Where to cut behind work that is done under a guard, so that the guard can be a loop's bound.

Behind a barrier, `if t < d:` lets the loop over the threads go over the first d threads only, if
the others have nothing more to do before the next cut. Where they do have, all threads come to it
together, and a cut there makes it a region of its own.
"""

from collections.abc import Set

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BARRIERS
from haulage.compiler.simt.analysis.guards import has_effect
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.compiler.simt.regions.guard_starts import begins_behind_barrier


def behind_guards(function: Function, flow: Uniformity, starts: Set[str]) -> list[str]:
    """Labels of the blocks to cut at: the arms of a comparison that follows a barrier, or a cut at
    one of the blocks `starts`, meet there.

    One arm is empty, so the block has no value that differs by the way by which it is come to.
    """
    successors = {label: block.successors for label, block in function.blocks.items()}
    meeting = control_flow.immediate_postdominators(successors)
    items = {name: item for name, (_, item) in function.definitions().items()}
    found: dict[str, None] = {}
    for label, block in function.blocks.items():
        meets = meeting.get(label, control_flow.EXIT)
        if label in flow.divergent or len(block.successors) != 2 or meets == control_flow.EXIT:
            continue
        if meets in flow.divergent or meets not in block.successors or meets == label:
            continue
        place = function.blocks[meets]
        begins = begins_behind_barrier(block) or label in starts
        if place.phis or _waits_at_once(place) or not begins:
            continue
        if _is_comparison(block, items, flow):
            found[meets] = None
    return list(found)


def _waits_at_once(block: Block) -> bool:
    effects = [item for item in block.body if has_effect(item)]
    return bool(effects) and effects[0].callee in BARRIERS


def _is_comparison(block: Block, items: dict[str, Instruction], flow: Uniformity) -> bool:
    end = block.terminator
    if not isinstance(end, Instruction) or not end.uses:
        return False
    made = items.get(end.uses[0])
    return made is not None and made.opcode == "icmp" and made.result in flow.varying
