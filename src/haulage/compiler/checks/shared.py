"""Proves that accesses of shared memory race with no others, and read what was written.

Between two barriers of the block its threads run in any order. Where a barrier, or the kernel's
beginning, leads to accesses without another barrier in between, these are in one interval. They do
not race if all only read, all are atomic, or no two threads access a common byte (`private.py`).
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from haulage.compiler.bounds.enumerated import exits
from haulage.compiler.checks.calls import ATOMIC, READ, WRITE, Call
from haulage.compiler.checks.launch_values import OF_THREAD, Access, Launch, Sum
from haulage.compiler.checks.private import are_private
from haulage.compiler.simt.analysis.barriers import BLOCK_WIDE
from haulage.compiler.simt.analysis.exits import stopping
from haulage.compiler.simt.analysis.manager import Analyses

_THREADS = frozenset(OF_THREAD)


@dataclass(frozen=True)
class SharedArray:
    """A shared array: the value that is its address, its bytes, and the calls for its accesses."""

    base: str
    nbytes: int
    calls: tuple[Call, ...]


def intervals(analyses: Analyses, calls: Iterable[Call]) -> list[frozenset[Call]]:
    """The calls of each interval."""
    by_item = {id(call.item): call for call in calls}
    blocks = analyses.function.blocks
    starts = [(analyses.function.entry, 0)]
    for label, block in blocks.items():
        starts += [
            (label, at + 1) for at, item in enumerate(block.body) if item.callee in BLOCK_WIDE
        ]
    found = []
    for start in starts:
        inside: set[Call] = set()
        waiting, seen = [start], set[str]()
        while waiting:
            label, first = waiting.pop()
            for item in blocks[label].body[first:]:
                if item.callee in BLOCK_WIDE:
                    break
                if id(item) in by_item:
                    inside.add(by_item[id(item)])
            else:
                for target in blocks[label].successors:
                    if target not in seen:
                        seen.add(target)
                        waiting.append((target, 0))
        found.append(frozenset(inside))
    return found


class Prover:
    """Proofs for the shared arrays of a kernel, with the numbers of one launch."""

    def __init__(self, launch: Launch, analyses: Analyses, arrays: Sequence[SharedArray]) -> None:
        self._launch, self._analyses, self._arrays = launch, analyses, arrays
        self._stops = analyses.get(stopping)

    def proven(self, *, races: bool, unwritten: bool) -> frozenset[Call]:
        """The calls that are not needed to find races, or reads of what nobody wrote."""
        every = intervals(self._analyses, [call for each in self._arrays for call in each.calls])
        found: set[Call] = set()
        for array in self._arrays:
            offsets = {
                call: self._launch.offset(call.item.operands[1], array.base, call.label)
                for call in array.calls
            }
            safe = self._without_races(array, offsets, every) if races else set(array.calls)
            reads = {call for call in array.calls if call.item.callee != WRITE}
            known = reads
            if unwritten:
                known = {call for call in reads if self._is_written(call, array, offsets)}
            found |= safe & known
            if not unwritten or reads <= found:
                # Nobody asks what the writes wrote.
                found |= safe - reads
        return frozenset(found)

    def _without_races(
        self,
        array: SharedArray,
        offsets: dict[Call, Sum | None],
        every: Sequence[frozenset[Call]],
    ) -> set[Call]:
        safe = set(array.calls)
        for interval in every:
            inside = [call for call in array.calls if call in interval]
            kinds = {call.item.callee for call in inside}
            if kinds <= {READ} or kinds == {ATOMIC}:
                continue
            accesses = [
                (Access(offset, call.nbytes, call.label), call.item.callee != READ)
                for call in inside
                if (offset := offsets[call]) is not None
            ]
            if len(accesses) < len(inside) or not are_private(self._launch, accesses, OF_THREAD):
                safe -= set(inside)
        return safe

    def _is_written(self, read: Call, array: SharedArray, offsets: dict[Call, Sum | None]) -> bool:
        """Whether all that a call may read was written before, by threads that all did so."""
        written = np.zeros(array.nbytes, bool)
        groups: dict[tuple[int, frozenset[tuple[str, int]], int], list[Call]] = {}
        for call in array.calls:
            offset = offsets[call]
            if call.item.callee == WRITE and offset is not None:
                key = offset.constant, frozenset(offset.factors.items()), call.nbytes
                groups.setdefault(key, []).append(call)
        for (constant, factors, nbytes), writes in groups.items():
            whole = Sum(constant, dict(factors))
            trips = {name: self._trips(name, writes) for name in whole.factors.keys() - _THREADS}
            if None not in trips.values() and self._all_pass(writes, read):
                found = self._launch.numbers(whole, {n: t - 1 for n, t in trips.items() if t})
                _mark(written, found, nbytes)
        offset = offsets[read]
        needed = np.ones(array.nbytes, bool)
        numbers = None if offset is None else self._launch.numbers(offset, read.label)
        if numbers is not None:
            needed[:] = False
            if numbers.size and (numbers.min() < 0 or numbers.max() + read.nbytes > array.nbytes):
                return False
            _mark(needed, numbers, read.nbytes)
        return not (needed & ~written).any()

    def _trips(self, name: str, writes: Sequence[Call]) -> int | None:
        """How many iterations the loop has that a symbol counts, with some writes in each of them;
        None: who knows, or not in each."""
        found = self._launch.trips(name)
        if found is None:
            return None
        loop, trips = found
        latches = [
            label for label in self._analyses.predecessors[loop.header] if label in loop.labels
        ]
        ends = exits(self._analyses, loop)
        if len(ends) != 1 or not self._come_before(writes, latches):
            return None
        return trips if self._come_before(writes, ends) else trips - 1

    def _come_before(self, writes: Sequence[Call], labels: Sequence[str]) -> bool:
        """Whether each of some writes is in front of the ends of all of some blocks."""
        return all(self._analyses.dominates(call.label, each) for call in writes for each in labels)

    def _all_pass(self, writes: Sequence[Call], read: Call) -> bool:
        """Whether no thread comes to a call, or to its end, without one of some writes before."""
        blocks = self._analyses.function.blocks
        ends = {id(call.item) for call in writes}
        waiting, seen = [self._analyses.function.entry], {self._analyses.function.entry}
        while waiting:
            block = blocks[waiting.pop()]
            if block.label in self._stops:
                continue
            for item in block.body:
                if item is read.item:
                    return False
                if id(item) in ends:
                    break
            else:
                if not block.successors:
                    return False
                fresh: Set[str] = set(block.successors) - seen
                seen |= fresh
                waiting += fresh
        return True


def _mark(among: np.ndarray, numbers: np.ndarray | None, nbytes: int) -> None:
    """Set the bytes of accesses at some offsets."""
    if numbers is None:
        return
    for byte in range(nbytes):
        inside = numbers + byte
        among[inside[(inside >= 0) & (inside < among.size)]] = True
