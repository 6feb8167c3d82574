"""Branches at which threads leave for good, while the others go on together.

`if i >= n: return` in front of a loop makes the threads diverge, but those that go on are still in
step: the loop is one that they all make together. The same holds for a loop that threads leave one
by one, if what they do behind it is short and ends the kernel. A barrier of a wavefront or of the
grid does not wait for those that have left, nor does one of the block if their end is not one that
it misses threads at (`exit_codes.py`), so the others reach it together as well. Threads that have
left are masked out of later regions by a state that is kept for each thread.
"""

from dataclasses import dataclass

from haulage.compiler.simt.analysis import control_flow, exit_codes
from haulage.compiler.simt.analysis.barriers import PATIENT_BARRIERS, barriers
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.single_thread import single_thread_blocks


@dataclass(frozen=True)
class EarlyExit:
    """Where threads go that leave: the blocks that they still run, and the ends they come to."""

    labels: frozenset[str]
    ends: int


def early_exits(analyses: Analyses) -> dict[str, EarlyExit]:
    """For each block whose branch lets threads leave: where these go.

    They run it to the end of the kernel, so there may be no barrier and no loop there. A
    branch counts only if a loop, or a barrier that goes on without them, is behind its other arm,
    or if it stands in a loop itself; for others nothing would be won, nor if threads with one
    index only are left for the loop.
    """
    function, successors = analyses.function, analyses.successors
    headers = {loop.header for loop in analyses.loops}
    obstacles = headers | {label for label, _, _ in barriers(function)}
    worth = (headers - analyses.get(single_thread_blocks)) | {
        label for label, _, _ in barriers(function, PATIENT_BARRIERS)
    }
    missed = analyses.get(exit_codes.missed_ends)
    found: dict[str, EarlyExit] = {}
    for label, targets in successors.items():
        if len(targets) != 2 or targets[0] == targets[1]:
            continue
        stop = analyses.postdominators.get(label, control_flow.EXIT)
        for leaving, staying in (targets, targets[::-1]):
            last = control_flow.reachable_until(successors, [leaving])
            if label in last or last & obstacles:
                continue
            others = control_flow.reachable_until(successors, [staying], stop) - last
            reached = exit_codes.ends_in(analyses, last | {label}, label)
            released = {place for place, those in missed.items() if not those & reached}
            if others & (worth | released):
                found[label] = EarlyExit(frozenset(last), reached)
                break
    return found
