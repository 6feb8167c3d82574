"""Loop fission: where a kernel's body is split into regions, each a loop of its own over threads.

That is at its barriers (pocl: Jääskeläinen et al., "pocl: A Performance-Portable OpenCL
Implementation", 2015), at the headers of loops that all threads are in together, which turns those
loops outside the loop over the threads, and around atomic operations.
"""

import itertools
from collections.abc import Mapping, Set

from haulage.compiler.simt.analysis import exit_codes, uniformity
from haulage.compiler.simt.analysis.barriers import (
    BARRIERS,
    block_barriers,
    grid_barriers,
    place_of,
    wave_barriers,
)
from haulage.compiler.simt.analysis.early_exit import early_exits
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.warps import Warps
from haulage.compiler.simt.ir.model import Function, Instruction, RegionEnd
from haulage.targets.cpu import BARRIER, GRID_BARRIER

# Why a region ends at a barrier, if not for the sake of a warp.
_REASONS = {BARRIER: "barrier", GRID_BARRIER: "grid"}
# A loop of its own over the threads, and what it keeps in slots for the others, costs about as much
# as so many instructions that are not widened.
_WORTH = 6


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
    found = [place for label, _, place in grid_barriers(function) if label in divergent(exits)]
    found += [
        place for label, _, place in wave_barriers(function) if label in divergent(exits, warps)
    ]
    missed = analyses.get(exit_codes.missed_ends)
    for label, _, place in block_barriers(function):
        arms = analyses.get(early_exits) if exits else {}
        gone = frozenset(each for each in exits if not arms[each].ends & missed[label])
        if label in divergent(gone):
            found.append(place)
    return found


def divergent_loops(analyses: Analyses, flow: Uniformity) -> set[str]:
    """Headers of the loops that threads do not go round together, or leave at different times."""
    return {
        loop.header
        for loop in analyses.loops
        if loop.header in flow.divergent or loop.labels & flow.exiting
    }


def around_atomics(
    function: Function, flow: Uniformity, held: Set[str]
) -> dict[str, tuple[int, int]]:
    """For each block that is worth it: the indices of its body to split it at, in front of the
    first of its atomic operations and behind the last.

    LLVM must not widen an atomic operation, and one keeps the whole loop over the threads around it
    scalar; in a region of its own it does not. All threads have to come to it together, with no
    lock held, which they may in blocks of `held` (`locks.py`).
    """
    found: dict[str, tuple[int, int]] = {}
    for block in function.blocks.values():
        atomics = [index for index, item in enumerate(block.body) if _is_atomic(item)]
        if not atomics or block.label in flow.divergent | held:
            continue
        first, last = atomics[0], atomics[-1]
        rest = [*block.body[:first], *block.body[last + 1 :]]
        # What is uniform is not worked out for each thread anyway.
        if sum(item.result is None or item.result in flow.varying for item in rest) >= _WORTH:
            found[block.label] = first, last + 1
    return found


def _is_atomic(item: Instruction) -> bool:
    return item.opcode in ("atomicrmw", "cmpxchg")


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
