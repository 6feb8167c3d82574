"""Where to cut in front of a guard that comes behind a branch which all threads take together.

In a loop with a barrier, what follows the barrier is the loop's next turn or what stands behind
the loop: `while d > 0: ... syncthreads(); d //= 2` and then `if t == 0:`. Each way may begin with a
guard of its own. A cut in front of it makes it the start of a region, and the branch between the
ways a region in which nothing is done that differs from thread to thread.
"""

from haulage.compiler.simt.analysis.barriers import BARRIERS
from haulage.compiler.simt.analysis.guards import has_effect
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Block, Function, Instruction


def behind_branches(function: Function, flow: Uniformity) -> list[str]:
    """Labels of the blocks to cut at: they end in a branch that parts the threads, and are come to
    from a barrier by branches that do not, with nothing done on the way."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    for block in function.blocks.values():
        if begins_behind_barrier(block) and _is_taken_together(block, flow):
            waiting = list(block.successors)
            while waiting:
                label = waiting.pop()
                if label in seen or label in flow.divergent:
                    continue
                seen.add(label)
                place = function.blocks[label]
                if any(map(has_effect, place.body)):
                    continue
                if len(place.successors) < 2 or _is_taken_together(place, flow):
                    waiting += place.successors
                elif not any(phi.result in flow.varying for phi in place.phis):
                    found[label] = None
    return list(found)


def begins_behind_barrier(block: Block) -> bool:
    """Whether a block has a barrier and does nothing behind it that others can see."""
    places = [index for index, item in enumerate(block.body) if item.callee in BARRIERS]
    return bool(places) and not any(map(has_effect, block.body[places[-1] + 1 :]))


def _is_taken_together(block: Block, flow: Uniformity) -> bool:
    """Whether a block ends in a branch with several ways, of which all threads take the same."""
    end = block.terminator
    return (
        block.label not in flow.divergent
        and block.label not in flow.exiting
        and isinstance(end, Instruction)
        and len(block.successors) > 1
        and not any(operand in flow.varying for operand in end.uses)
    )
