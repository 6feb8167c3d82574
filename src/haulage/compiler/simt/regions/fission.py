"""Loop fission: where a kernel's body is split into regions, each a loop of its own over threads.

That is at its barriers (pocl: Jääskeläinen et al., "pocl: A Performance-Portable OpenCL
Implementation", 2015), at the headers of loops that all threads are in together, which turns those
loops outside the loop over the threads, and in front of guards and behind what they guard.
"""

import itertools
from collections.abc import Mapping, Set

from haulage.compiler.simt.analysis import control_flow, uniformity
from haulage.compiler.simt.analysis.barriers import (
    BARRIERS,
    BLOCK_BARRIERS,
    GRID_BARRIERS,
    WAVE_BARRIERS,
    barriers,
    place_of,
)
from haulage.compiler.simt.analysis.exits import early_exits, missed_ends
from haulage.compiler.simt.analysis.guards import has_effect, single_thread_blocks
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity, Warps
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd
from haulage.targets.cpu import BARRIER, GRID_BARRIER

# Why a region ends at a barrier, if not for the sake of a warp.
_REASONS = {BARRIER: "barrier", GRID_BARRIER: "grid"}


def divergent_barriers(
    analyses: Analyses,
    private: frozenset[str],
    exits: frozenset[str],
    warps: Warps | None = None,
) -> list[int]:
    """Fault numbers of the barriers that, as far as can be seen, not all threads may reach.

    A barrier of the grid, or of a wavefront or one of the `warps`, does not count those that left
    by `exits`, labels of early exits. One of the block counts those that left by an end which it
    misses threads at.
    """

    def divergent(gone: frozenset[str], within: Warps | None = None) -> frozenset[str]:
        return analyses.get(uniformity.analyse, private, gone, within).divergent

    function = analyses.function
    found = [
        place for label, _, place in barriers(function, GRID_BARRIERS) if label in divergent(exits)
    ]
    found += [
        place
        for label, _, place in barriers(function, WAVE_BARRIERS)
        if label in divergent(exits, warps)
    ]
    missed = analyses.get(missed_ends)
    for label, _, place in barriers(function, BLOCK_BARRIERS):
        arms = analyses.get(early_exits) if exits else {}
        gone = frozenset(each for each in exits if not arms[each].ends & missed[label])
        if label in divergent(gone):
            found.append(place)
    return found


def split(
    function: Function,
    loop_headers: list[str],
    around: Mapping[str, tuple[int, ...]] | None = None,
) -> Function:
    """A copy of `function` whose regions end at its barriers, behind the phis of `loop_headers`,
    and in the blocks `around` in front of some places of their bodies."""
    result = function.copy()
    numbers = itertools.count(1)
    for header, places in (around or {}).items():
        for index in sorted(set(places), reverse=True):
            label = f"%apart.{next(numbers)}"
            result.split(header, index, label, RegionEnd(label, "apart"))
    for header in loop_headers:
        label = f"%after.loop.{next(numbers)}"
        result.split(header, 0, label, RegionEnd(label, "loop"))
    waiting = list(result.blocks)
    while waiting:
        block = result.blocks[waiting.pop()]
        for index, item in enumerate(block.body):
            if item.callee in BARRIERS:
                label = f"%after.barrier.{next(numbers)}"
                del block.body[index]
                reason = _REASONS.get(item.callee or "", "warp")
                result.split(block.label, index, label, RegionEnd(label, reason, place_of(item)))
                waiting.append(label)
                break
    return result


# ---- guards -------------------------------------------------------------------------------------


def guard_places(analyses: Analyses, flow: Uniformity, held: Set[str]) -> list[str]:
    """Labels of the blocks to split in front of, but those in `held`, so that a guard bounds a
    region's loop.

    In a loop with a barrier, what follows the barrier is the loop's next iteration or what stands
    behind the loop: `while d > 0: ... syncthreads(); d //= 2` and then `if t == 0:`. Each path may
    begin with a guard of its own. A split in front of it makes it the start of a region, and the
    branch between the paths a region in which nothing is done that differs from thread to thread.

    Behind a barrier, `if t < d:` lets the work-item loop go over the first d threads only, if the
    others have nothing more to do before the next split. Where they do have, all threads meet
    behind the guarded work, and a split there makes it a region of its own.
    """
    starts = [label for label in _starts(analyses.function, flow) if label not in held]
    ends = [label for label in _ends(analyses, flow, frozenset(starts)) if label not in held]
    return [*starts, *ends]


def with_guards_apart(analyses: Analyses, flow: Uniformity) -> tuple[Function, list[str]]:
    """A function in which the guards of single threads (`if t == 0:`) that follow what all threads
    do begin blocks of their own; and the labels of these, and of where threads meet behind them.

    A halo is loaded by such guards, one after the other. They are masked for all threads, unless
    each is a region. In a loop without a barrier they are left alone.
    """
    blocks, apart = analyses.function.blocks, analyses.function.copy()
    rare, looped = single_thread_blocks(analyses), _looped_without_barrier(analyses)
    found: dict[str, None] = {}
    for label in control_flow.reverse_postorder(analyses.successors, analyses.function.entry):
        meeting = _meeting(analyses, flow, label)
        if meeting is None or label in rare | looped or rare.isdisjoint(blocks[label].successors):
            continue
        if any(map(has_effect, blocks[label].body)):
            start = f"{label}.guard"
            apart.split(label, len(blocks[label].body), start, Builder.jump(start))
            found[start] = None
        elif label not in found:
            continue
        if not waits_at_once(blocks[meeting]):
            found[meeting] = None
    return apart, [*found]


def _looped_without_barrier(analyses: Analyses) -> set[str]:
    """The blocks that are in a loop without a barrier."""
    waiting = {label for label, _, _ in barriers(analyses.function)}
    loops = [loop.labels for loop in analyses.loops if waiting.isdisjoint(loop.labels)]
    return {label for labels in loops for label in labels}


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
    found: dict[str, None] = {}
    for label, block in analyses.function.blocks.items():
        meeting = _meeting(analyses, flow, label)
        if (
            meeting is not None
            and not waits_at_once(analyses.function.blocks[meeting])
            and (label in starts or begins_behind_barrier(block))
            and _is_comparison(block.condition, analyses.items, flow.varying)
        ):
            found[meeting] = None
    return found


def _meeting(analyses: Analyses, flow: Uniformity, label: str) -> str | None:
    """The block in which the two arms of a branch meet, of which one is empty, if all threads come
    to the branch."""
    blocks = analyses.function.blocks
    meeting = analyses.postdominators.get(label, control_flow.EXIT)
    if (
        label not in flow.divergent
        and len(blocks[label].successors) == 2
        and meeting not in (control_flow.EXIT, label)
        and meeting in blocks[label].successors
        and meeting not in flow.divergent
        and not blocks[meeting].phis
    ):
        return meeting
    return None


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
