"""For which loops that wait (`spin_loops.py`) the threads of a block have to run by turns.

Where they run one after the other, from one barrier to the next, a thread may wait for another
block, which goes on meanwhile, but not for another thread of its own. That does not happen

- with locks that each thread frees again behind taking them:

      while cuda.atomic.cas(lock, 0, 0, 1) != 0:
          pass
      total[0] += x[i]
      cuda.atomic.exch(lock, 0, 0)

  Here each finds the lock free. At a region's end in between the first would wait for the others,
  and these for its lock: so no region ends where a lock may be held.
- if one thread of the block waits, and the same one does all that others wait for, such as the
  first one of each block that waits for blocks before it.
"""

from collections.abc import Mapping, Set
from math import prod

from haulage.compiler.simt.analysis import AXES, control_flow
from haulage.compiler.simt.analysis.barriers import BARRIERS, BLOCK_WIDE
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.guards import blocks_of_index
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import (
    ANYWHERE,
    READING,
    Segments,
    UnderlyingObjects,
    are_congruent,
    is_idempotent,
    may_alias,
)
from haulage.compiler.simt.ir.model import Block, Instruction
from haulage.targets.cpu import YIELD


def held(analyses: Analyses) -> frozenset[str]:
    """Labels of the blocks at whose start a thread may hold a lock: a loop that waits is before
    them and a write to what it waits for behind them, with no barrier of the block in between."""
    objects, segments = analyses.get(UnderlyingObjects), analyses.get(Segments, BLOCK_WIDE)
    found: set[str] = set()
    for loop in _waiting(analyses):
        awaited = _awaited(analyses, loop)
        exits = {to for label in loop.labels for to in analyses.successors[label]} - loop.labels
        writing = [
            segment
            for segment, items in segments.items.items()
            if any(may_alias(objects.written_by(item), awaited) for item in items)
        ]
        behind = control_flow.reachable_until(segments.after, (segments.first[to] for to in exits))
        found |= behind & control_flow.reachable_until(segments.before, writing)
    return frozenset(label for label, first in segments.first.items() if first in found)


def are_contended(analyses: Analyses, block: tuple[int, int, int]) -> bool:
    """Whether a thread may wait for another one of its block, of this size (x, y, z)."""
    if prod(block) == 1:
        return False
    axes = [f"%threadIdx.{axis}" for axis, size in zip(AXES, block, strict=True) if size > 1]
    of_one_thread = [
        labels
        for (axis, number), labels in analyses.get(blocks_of_index).items()
        if [axis] == axes and number is not None
    ]
    return not all(
        _is_of_one_thread(analyses, loop, of_one_thread) or _is_own_lock(analyses, loop)
        for loop in _waiting(analyses)
    )


def _waiting(analyses: Analyses) -> list[Loop]:
    """The innermost loops around the places where threads let others go on."""
    loops = [
        analyses.innermost_loop(label)
        for label, block in analyses.function.blocks.items()
        if any(item.callee == YIELD for item in block.body)
    ]
    return list(dict.fromkeys(loop for loop in loops if loop is not None))


def _awaited(analyses: Analyses, loop: Loop) -> set[str]:
    """The objects that are read in a loop and written by threads."""
    objects = analyses.get(UnderlyingObjects)
    read = {each for item in _reads(analyses, loop) for each in objects.at(item.operands[0])}
    written = {
        each for item in analyses.function.instructions() for each in objects.written_by(item)
    }
    return read if ANYWHERE in read | written else read & written


def _reads(analyses: Analyses, loop: Loop) -> list[Instruction]:
    return [
        item
        for label in loop.labels
        for item in analyses.function.blocks[label].body
        if item.opcode in READING
    ]


# ---- locks -----------------------------------------------------------------------------------


def _is_own_lock(analyses: Analyses, loop: Loop) -> bool:
    """Whether a loop waits for a lock that is freed by the thread that took it, and only then, with
    no barrier in between."""
    objects = analyses.get(UnderlyingObjects)
    addresses = [item.operands[0] for item in _reads(analyses, loop)]
    places = objects.at(addresses[0]) if addresses else {ANYWHERE}
    if ANYWHERE in places or not are_congruent(analyses, addresses):
        return False
    # Where a thread tries to take the lock, and goes on without it; and where it frees it.
    fails: dict[str, str] = {}
    releases: set[str] = set()
    free: set[int | None] = set()
    for label, block in analyses.function.blocks.items():
        for item in block.body:
            if not may_alias(objects.written_by(item) or objects.read_by(item), places):
                continue
            if item.address is None or label in fails or label in releases:
                return False
            if not are_congruent(analyses, (item.address, addresses[0])):
                return False
            number, failure = _meaning(block, item)
            free.add(number)
            if failure is None:
                releases.add(label)
            else:
                fails[label] = failure
    is_lock = len(free) == 1 and None not in free
    return is_lock and _is_released_when_held(analyses, fails, releases)


def _meaning(block: Block, item: Instruction) -> tuple[int | None, str | None]:
    """(the number of a free lock, as an access looks for it or writes it; where control goes if the
    lock was not free, or None if the access frees it)."""
    stored = item.operands[0].number if item.opcode == "store" else None
    if item.opcode == "atomicrmw" and item.predicate == "xchg":
        stored = item.operands[1].number
    test = next((each for each in block.body if each.result == block.condition), None)
    if test is not None and block.condition is not None and item.result in test.uses:
        then, otherwise = block.successors
        if item.opcode == "cmpxchg" and test.opcode == "extractvalue" and test.indices == (1,):
            return item.operands[1].number, otherwise
        if stored is not None and test.predicate in ("eq", "ne"):
            return test.operands[1].number, otherwise if test.predicate == "eq" else then
    return stored, None


def _is_released_when_held(
    analyses: Analyses, fails: Mapping[str, str], releases: Set[str]
) -> bool:
    """Whether a thread comes to none of the blocks `releases` but by a success of those in `fails`,
    each time, and to no barrier in between."""
    blocks, successors = analyses.function.blocks, analyses.successors
    free = {**successors, **{label: (failure,) for label, failure in fails.items()}}
    locked = {**successors, **dict.fromkeys((*fails, *releases), ())}
    starts = {to for label in releases for to in successors[label]}
    without = control_flow.reachable_until(free, {analyses.function.entry} | starts)
    successes = {to for label in fails for to in successors[label]} - set(fails.values())
    inside = control_flow.reachable_until(locked, successes)
    waits = any(item.callee in BARRIERS for label in inside for item in blocks[label].body)
    return not waits and not without & releases


# ---- one thread ------------------------------------------------------------------------------


def _is_of_one_thread(analyses: Analyses, loop: Loop, of_one_thread: list[set[str]]) -> bool:
    """Whether one thread is in a loop, and it alone writes what it waits for there. What nobody
    seems to write another thread may have by another name."""
    objects, awaited = analyses.get(UnderlyingObjects), _awaited(analyses, loop)
    writers = {
        label
        for label, block in analyses.function.blocks.items()
        for item in block.body
        if may_alias(objects.written_by(item), awaited) and not is_idempotent(item, analyses.items)
    }
    return bool(writers) and any({loop.header} | writers <= labels for labels in of_one_thread)
