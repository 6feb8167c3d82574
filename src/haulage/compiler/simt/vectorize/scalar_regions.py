"""Which regions are not vectorised, as their threads access memory far apart and do little else.

With `tile[2 * d * t] += tile[2 * d * t + d]` each access is a gather or a scatter on vectors. These
take longer than so many accesses one by one, and pay only if enough arithmetic comes with them, or
if threads would wait for branches that were predicted wrongly. Gathers alone, as where a tile is
read by rows, ask for less than scatters. With small
matrices, one for each thread, LLVM moreover finds what of one thread lies side by side.
"""

import itertools
from collections.abc import Iterable

from haulage.compiler.mathematics.definitions import is_division, is_mathematics
from haulage.compiler.simt.analysis.guards import Guard
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.memory_dependence import UnderlyingObjects
from haulage.compiler.simt.analysis.strides import COMMON, by_thread, size_of_access
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.compiler.simt.regions.iteration_ranges import IterationRanges
from haulage.compiler.simt.regions.parallel_regions import Region, Regions

# So much arithmetic has to come with an access of threads that are apart.
_ARITHMETIC_PER = {"load": 2, "store": 10}
# Accesses up to so many elements apart are wide ones and permutations.
_NEAR = 4

_ADDRESSES = frozenset(("getelementptr", "sext", "zext", "trunc", "phi", "load"))
_CHOICES = frozenset(("and", "or", "xor", "select"))
# Instructions that others are as long as.
_DIVISION = 8
_MATHEMATICS = 40


def _work(item: Instruction) -> int:
    """How much arithmetic an instruction is, in additions that a vector does as one."""
    if item.opcode in _ADDRESSES:
        return 0
    if is_mathematics(item.callee) and not is_division(item.callee):
        return _MATHEMATICS
    return _DIVISION if item.opcode in ("fdiv", "frem") else 1


def scattered(
    body: Body, regions: Regions, ranges: IterationRanges, position: int
) -> frozenset[int]:
    """The numbers of these regions. `position` is that of the innermost axis of the block."""
    if regions.masked:
        return frozenset()
    search = _Search(body, regions, position)
    return frozenset(
        region.number
        for region in regions.regions
        if search.is_scattered(region, (*ranges.of_kernel, *ranges.of_regions[region.number]))
    )


class _Search:
    def __init__(self, body: Body, regions: Regions, position: int) -> None:
        analyses = regions.analyses
        self._regions = regions
        self._position = position
        self._shared = {room.name for room in body.shared}
        self._roots = analyses.get(UnderlyingObjects)
        self._items = analyses.items
        self._strides = analyses.get(by_thread, body.private)

    def is_scattered(self, region: Region, guards: Iterable[Guard]) -> bool:
        regions, settled = self._regions, {guard.condition for guard in guards}
        blocks = [regions.function.blocks[label] for label in region.labels]
        if not any(map(self._is_apart, itertools.chain(*(block.body for block in blocks)))):
            return False
        # What other regions are given lies side by side.
        slots = [regions.slots[name] for name in region.loaded]
        slots += regions.stored(regions.made_in(region), region.exits)
        near = sum(slot.varying for slot in slots)
        needed = arithmetic = 0
        in_shared = True
        for block in blocks:
            for item in block.body:
                if item.opcode in ("load", "store"):
                    if not self._is_apart(item):
                        near += self._strides.of(item.address) != COMMON
                        continue
                    in_shared = in_shared and self._roots.of(item.uses[-1]) <= self._shared
                    needed += _ARITHMETIC_PER[item.opcode]
                elif item.result and self._strides.of_result(item) != COMMON:
                    arithmetic += _work(item)
            end = block.terminator
            asked = end.operands if isinstance(end, Instruction) and end.opcode != "ret" else ()
            if not all(self._is_settled(each, settled) for each in asked):
                return False
        return arithmetic < needed and not (near and not in_shared)

    def _is_apart(self, item: Instruction) -> bool:
        """Whether neighbouring threads access what is far apart, or at places that are unknown."""
        if item.opcode not in ("load", "store"):
            return False
        stride = self._strides.of(item.address)[self._position]
        size = size_of_access(item)
        return not isinstance(stride, int) or size is None or abs(stride) > _NEAR * size

    def _is_settled(self, condition: Operand, settled: set[str]) -> bool:
        """Whether all threads that are there have one outcome of a condition."""
        if condition.text in settled or self._strides.of(condition) == COMMON:
            return True
        item = self._items.get(condition.text)
        return (
            item is not None
            and item.opcode in _CHOICES
            and all(self._is_settled(each, settled) for each in item.operands)
        )
