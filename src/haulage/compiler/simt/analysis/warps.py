"""Which values the lanes of a warp have in common: more than a block has.

Threads of a warp follow one another, so what is made of the higher bits of a thread's number is the
same in all lanes of a warp: `threadIdx.x // 32`, `threadIdx.x < 64`. So are a lane's answer that
all asked for and the result of a vote.
"""

import itertools
from collections.abc import Set
from dataclasses import dataclass
from math import prod

from haulage.compiler.simt.analysis.affine import THREAD, Form, forms
from haulage.compiler.simt.analysis.barriers import WAVE_BARRIERS, barriers
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Function, Instruction, Operand
from haulage.targets.cpu import WAVE_BARRIER, WAVE_SIZE
from haulage.targets.cpu_lanes import COLLECTIVES

# The number of a thread's lane, by which the writers of regions give it its elements.
LANE = "%thread"
# Comparisons with a multiple of the warp's size, and with one less than that.
_BELOW = frozenset(("ult", "uge", "slt", "sge"))
_ABOVE = frozenset(("ugt", "ule", "sgt", "sle"))
_INDEX = ("%threadIdx.x", "%threadIdx.y", "%threadIdx.z")


@dataclass(frozen=True)
class Warps:
    """Warps of `size` lanes in blocks of `block` threads (x, y, z)."""

    size: int
    block: tuple[int, int, int]

    @property
    def follow_x(self) -> bool:
        """Whether the lanes of each warp differ in x only, and x is the lane's number plus a
        multiple of the warp's size."""
        return self.block[0] % self.size == 0 or self.block[1:] == (1, 1)

    @property
    def threads(self) -> int:
        return prod(self.block)

    @property
    def count(self) -> int:
        """Warps of a block; the last one may have fewer threads than lanes."""
        return -(-self.threads // self.size)

    def thread_index(self) -> frozenset[str]:
        """The parts of a thread's index that differ between lanes."""
        return frozenset(("%threadIdx.x",) if self.follow_x else _INDEX)


def warps_of(function: Function, block: tuple[int, int, int], size: int) -> Warps | None:
    """The warps that a body's threads exchange values in or wait for, or None if they don't;
    `size` is that of the kernel's warps. Those that wait for wavefronts go by these."""
    found = {
        function.blocks[label].body[index].callee
        for label, index, _ in barriers(function, WAVE_BARRIERS)
    }
    if not found:
        return None
    return Warps(WAVE_SIZE if WAVE_BARRIER in found else size, block)


def is_uniform_collective(item: Instruction, varying: Set[str]) -> bool:
    """Whether all lanes that come to the collective `item` get one answer from it."""
    callee = item.callee or ""
    if callee not in COLLECTIVES:
        return False
    asked = item.operands[-2].text
    if callee.startswith("haulage.shuffle."):
        return ".lane." in callee and asked not in varying
    mask = item.operands[1].text if callee.startswith("haulage.match.") else ""
    return asked not in varying and mask not in varying


def warp_uniform(analyses: Analyses, warps: Warps) -> frozenset[str]:
    """Values made of a thread's index that all lanes of a warp have in common nevertheless."""
    return LaneForms(analyses, warps).common


class LaneForms:
    """Which of a function's integers are the lane's number plus what the lanes of a warp have in
    common, a multiple of the warp's size. `common` are the values that such a number is made to
    without the part that lanes differ in."""

    def __init__(self, analyses: Analyses, warps: Warps) -> None:
        self._size = warps.size
        self._forms = analyses.get(forms)
        self._factors = {"%blockDim.x": warps.block[0]}
        self._common = {each.name for each in analyses.function.parameters}
        self._common -= {*warps.thread_index(), LANE}
        items = (analyses.function.blocks[label].body for label in analyses.order)
        found: set[str] = set()
        for item in itertools.chain(*items) if warps.follow_x else ():
            if item.result and self._drops_lane(item):
                found.add(item.result)
                self._common.add(item.result)
        self.common = frozenset(found)

    def is_common(self, operand: Operand) -> bool:
        """Whether a value is made of what all lanes have in common."""
        return all(each.value in self._common for each in self._forms.of(operand).symbols)

    def is_aligned(self, operand: Operand) -> bool:
        """Whether a value is the lane's number plus a common multiple of the warp's size."""
        form = self._forms.of(operand)
        rest = form.plus(Form({(THREAD[0],): 1}), -1)
        return form.exact and all(
            all(each.value in self._common for each in monomial)
            and factor * prod(self._factors.get(each.value, 1) for each in monomial) % self._size
            == 0
            for monomial, factor in rest.monomials.items()
        )

    def _drops_lane(self, item: Instruction) -> bool:
        """Whether the result is made of the part of a number that all lanes have in common."""
        if len(item.operands) != 2 or (number := item.operands[1].number) is None:
            return False
        if item.opcode in ("lshr", "ashr"):
            drops = 1 << number >= self._size
        elif item.opcode == "icmp" and item.predicate in _ABOVE:
            drops = (number + 1) % self._size == 0
        elif item.opcode in ("udiv", "and") or item.predicate in _BELOW:
            drops = number % self._size == 0
        else:
            return False
        return drops and self.is_aligned(item.operands[0])
