"""Which values the lanes of a warp have in common: more than a block has.

Threads of a warp follow one another, so what is made of the higher bits of a thread's number is the
same in all lanes of a warp: `threadIdx.x // 32`, `threadIdx.x < 64`. So are a lane's answer that
all asked for and the result of a vote.
"""

from collections.abc import Set
from dataclasses import dataclass
from math import prod

from haulage.compiler.simt.analysis.barriers import wave_barriers
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Function, Instruction, Operand
from haulage.targets.cpu import WAVE_BARRIER, WAVE_SIZE
from haulage.targets.cpu_lanes import EXCHANGES

_CASTS = frozenset(("sext", "zext", "trunc"))
_ARITHMETIC = frozenset(("add", "sub", "mul", "shl", "or", "and")) | _CASTS
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
        function.blocks[label].body[index].callee for label, index, _ in wave_barriers(function)
    }
    if not found:
        return None
    return Warps(WAVE_SIZE if WAVE_BARRIER in found else size, block)


def is_uniform_exchange(item: Instruction, varying: Set[str]) -> bool:
    """Whether all lanes that come to the exchange `item` get one answer from it."""
    callee = item.callee or ""
    if callee not in EXCHANGES:
        return False
    asked = item.operands[-2].text
    if callee.startswith("haulage.shuffle."):
        return ".lane." in callee and asked not in varying
    mask = item.operands[1].text if callee.startswith("haulage.match.") else ""
    return asked not in varying and mask not in varying


def warp_uniform(analyses: Analyses, warps: Warps) -> frozenset[str]:
    """Values made of a thread's index that all lanes of a warp have in common nevertheless."""
    return _Alignment(analyses, warps).uniform if warps.follow_x else frozenset()


class _Alignment:
    """Sorts values by their part that lanes differ in: none, or the lane's number plus a multiple
    of the warp's size."""

    def __init__(self, analyses: Analyses, warps: Warps) -> None:
        self._size = warps.size
        names = {parameter.name for parameter in analyses.function.parameters}
        # The same in all lanes; multiples of the size among them; those with the lane's number.
        self._plain = names - warps.thread_index()
        self._multiples = {"%blockDim.x"} if warps.block[0] % warps.size == 0 else set()
        self._counting = {"%threadIdx.x"}
        found: set[str] = set()
        for label in analyses.order:
            for item in analyses.function.blocks[label].body:
                if item.result is None or not item.uses:
                    continue
                if self._drops_lane(item):
                    found.add(item.result)
                    self._plain.add(item.result)
                elif item.opcode in _ARITHMETIC:
                    self._sort(item, item.result)
        self.uniform = frozenset(found)

    def _sort(self, item: Instruction, result: str) -> None:
        first, last = item.operands[0], item.operands[-1]
        if all(operand in self._plain for operand in item.uses):
            self._plain.add(result)
            if self._makes_multiple(item):
                self._multiples.add(result)
        elif item.opcode in _CASTS:
            if first.text in self._counting and item.type not in ("i1", "i8"):
                self._counting.add(result)
        elif item.opcode == "add" or (item.opcode == "or" and "disjoint" in item.flags):
            for counting, other in ((first, last), (last, first)):
                if counting.text in self._counting and self._is_multiple(other):
                    self._counting.add(result)

    def _makes_multiple(self, item: Instruction) -> bool:
        parts = [self._is_multiple(operand) for operand in item.operands]
        if item.opcode in _CASTS:
            return parts[0] and item.type not in ("i1", "i8")
        if item.opcode in ("mul", "and"):
            return any(parts)
        if item.opcode == "shl":
            shift = item.operands[1].number
            return parts[0] or (shift is not None and 1 << shift >= self._size)
        return all(parts)

    def _is_multiple(self, operand: Operand) -> bool:
        number = operand.number
        return operand.text in self._multiples if number is None else number % self._size == 0

    def _drops_lane(self, item: Instruction) -> bool:
        """Whether the result is made of the part of a number that all lanes have in common."""
        number = item.operands[-1].number
        if item.operands[0].text not in self._counting or number is None:
            return False
        if item.opcode in ("lshr", "ashr"):
            return 1 << number >= self._size
        if item.opcode in ("udiv", "and"):
            return number % self._size == 0
        if item.opcode == "icmp":
            if item.predicate in _BELOW:
                return number % self._size == 0
            return item.predicate in _ABOVE and (number + 1) % self._size == 0
        return False
