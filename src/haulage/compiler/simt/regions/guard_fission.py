"""Splits in front of guards and behind what they guard, so that a guard bounds a region's loop.

In a loop with a barrier, what follows the barrier is the loop's next iteration or what stands
behind the loop: `while d > 0: ... syncthreads(); d //= 2` and then `if t == 0:`. Each path may
begin with a guard of its own. A split in front of it makes it the start of a region, and the branch
between the paths a region in which nothing is done that differs from thread to thread.

Behind a barrier, `if t < d:` lets the work-item loop go over the first d threads only, if the
others have nothing more to do before the next split. Where they do have, all threads meet behind
the guarded work, and a split there makes it a region of its own.
"""

from collections.abc import Mapping, Set

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BARRIERS
from haulage.compiler.simt.analysis.guards import has_effect
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Block, Function, Instruction


def places(analyses: Analyses, flow: Uniformity, held: Set[str]) -> list[str]:
    """Labels of the blocks to split in front of, but those in `held`."""
    starts = [label for label in _starts(analyses.function, flow) if label not in held]
    ends = [label for label in _ends(analyses, flow, frozenset(starts)) if label not in held]
    return [*starts, *ends]


def _starts(function: Function, flow: Uniformity) -> dict[str, None]:
    """Blocks that end in a divergent branch, and are come to by uniform branches, with nothing done
    on the way, from a barrier or from where threads that diverged behind it meet."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    for block in function.blocks.values():
        merges = any(phi.result in flow.varying for phi in block.phis)
        if not ((merges or begins_behind_barrier(block)) and _is_uniform(block, flow)):
            continue
        waiting = list(block.successors)
        while waiting:
            label = waiting.pop()
            if label in seen or label in flow.divergent:
                continue
            seen.add(label)
            place = function.blocks[label]
            if any(map(has_effect, place.body)):
                continue
            if len(place.successors) < 2 or _is_uniform(place, flow):
                waiting += place.successors
            elif not any(phi.result in flow.varying for phi in place.phis):
                found[label] = None
    return found


def _is_uniform(block: Block, flow: Uniformity) -> bool:
    """Whether a block ends in a branch with several targets, of which all threads take the same."""
    end = block.terminator
    return (
        block.label not in flow.divergent
        and block.label not in flow.exiting
        and isinstance(end, Instruction)
        and len(block.successors) > 1
        and flow.varying.isdisjoint(end.uses)
    )


def _ends(analyses: Analyses, flow: Uniformity, starts: Set[str]) -> dict[str, None]:
    """Blocks in which the arms of a comparison meet that follows a barrier, or a split in front of
    one of `starts`. One arm is empty, so the block has no phi of the two."""
    function, postdominators = analyses.function, analyses.postdominators
    found: dict[str, None] = {}
    for label, block in function.blocks.items():
        meeting = postdominators.get(label, control_flow.EXIT)
        if (
            label not in flow.divergent
            and len(block.successors) == 2
            and meeting not in (control_flow.EXIT, label)
            and meeting in block.successors
            and meeting not in flow.divergent
            and not function.blocks[meeting].phis
            and not waits_at_once(function.blocks[meeting])
            and (label in starts or begins_behind_barrier(block))
            and _is_comparison(block.condition, analyses.items, flow.varying)
        ):
            found[meeting] = None
    return found


def _is_comparison(
    condition: str | None, items: Mapping[str, Instruction], varying: Set[str]
) -> bool:
    item = items.get(condition or "")
    return item is not None and item.opcode == "icmp" and condition in varying


def begins_behind_barrier(block: Block) -> bool:
    """Whether a block has a barrier and does nothing behind it that others can see."""
    places = [index for index, item in enumerate(block.body) if item.callee in BARRIERS]
    return bool(places) and not any(map(has_effect, block.body[places[-1] + 1 :]))


def waits_at_once(block: Block) -> bool:
    """Whether the first thing that a block does is to wait."""
    effect = next(filter(has_effect, block.body), None)
    return effect is not None and effect.callee in BARRIERS
