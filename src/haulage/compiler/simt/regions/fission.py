"""Where a kernel's body is cut: at its barriers, and at the headers of loops that all threads are
in together, which turns those loops outside the loop over the threads.
"""

import itertools
from collections.abc import Mapping

from haulage.compiler.simt.analysis import control_flow, exit_codes, uniformity
from haulage.compiler.simt.analysis.barriers import (
    BARRIERS,
    block_barriers,
    grid_barriers,
    place_of,
    wave_barriers,
)
from haulage.compiler.simt.analysis.early_exit import Arm
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Function, RegionEnd
from haulage.targets.cpu import BARRIER, GRID_BARRIER

# Why control is cut at a barrier, if not for the sake of a warp.
_REASONS = {BARRIER: "barrier", GRID_BARRIER: "grid"}


def divergent_barriers(
    function: Function,
    private: frozenset[str],
    arms: Mapping[str, Arm],
    present: Uniformity,
    of_warp: Uniformity | None = None,
) -> list[int]:
    """Fault numbers of the barriers that, as far as can be seen, not all threads may reach.

    A barrier of a wavefront or of the grid counts only those that are still there: `present` is
    what `uniformity.analyse` finds without those that leave by `arms`, and `of_warp` the same for
    the threads of a warp, if these differ. One of the block counts those too that came to an end
    which it misses threads at.
    """
    found = [place for label, _, place in grid_barriers(function) if label in present.divergent]
    parted = (of_warp or present).divergent
    found += [place for label, _, place in wave_barriers(function) if label in parted]
    known: dict[int, Uniformity] = {}
    missed = exit_codes.missed(function)
    for label, _, place in block_barriers(function):
        those = missed[label]
        if those not in known:
            gone = {source: arm for source, arm in arms.items() if not arm.ends & those}
            known[those] = uniformity.analyse(function, private, gone)
        if label in known[those].divergent:
            found.append(place)
    return found


def parted_loops(function: Function, flow: Uniformity) -> set[str]:
    """Headers of the loops that threads do not go round together, or leave at different times."""
    successors = {label: block.successors for label, block in function.blocks.items()}
    return {
        loop.header
        for loop in control_flow.natural_loops(successors, function.entry)
        if loop.header in flow.divergent or loop.labels & flow.exiting
    }


def cut(
    function: Function,
    loop_headers: list[str],
    around: Mapping[str, tuple[int, ...]] | None = None,
) -> Function:
    """A copy of `function` cut at its barriers and behind the phis of `loop_headers`, and in the
    blocks `around` in front of some places of their bodies (`atomic_fission.py`)."""
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
