"""Loop fission: where a kernel's body is split into regions, each a loop of its own over threads.

That is at its barriers (pocl: Jääskeläinen et al., "pocl: A Performance-Portable OpenCL
Implementation", 2015), and at the headers of loops that all threads are in together, which turns
those loops outside the loop over the threads.
"""

import itertools
from collections.abc import Mapping

from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.barriers import (
    BARRIERS,
    BLOCK_BARRIERS,
    GRID_BARRIERS,
    WAVE_BARRIERS,
    barriers,
    place_of,
)
from haulage.compiler.simt.analysis.exits import early_exits, missed_ends
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.warps import Warps
from haulage.compiler.simt.ir.model import Function, RegionEnd
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
