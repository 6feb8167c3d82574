"""Which values the lanes of a warp have in common: more than a block has.

Threads of a warp follow one another, so what is made of the higher bits of a thread's number is the
same in all lanes of a warp: `threadIdx.x // 32`, `threadIdx.x < 64`. So are a lane's answer that
all asked for and the result of a vote.
"""

from collections.abc import Set
from dataclasses import dataclass
from math import prod

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import wave_barriers
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.targets.cpu import WAVE_BARRIER, WAVE_SIZE
from haulage.targets.cpu_lanes import EXCHANGES

_PLAIN = frozenset(("add", "sub", "mul", "shl", "or", "and", "sext", "zext", "trunc"))
_CASTS = frozenset(("sext", "zext", "trunc"))
# Comparisons with a multiple of the warp's size, and with one less than that.
_BELOW = frozenset(("ult", "uge", "slt", "sge"))
_ABOVE = frozenset(("ugt", "ule", "sgt", "sle"))


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

    def common(self, function: Function) -> frozenset[str]:
        """Values made of a thread's index that all lanes of a warp have in common nevertheless."""
        return _Alignment(function, self).common if self.follow_x else frozenset()


_INDEX = ("%threadIdx.x", "%threadIdx.y", "%threadIdx.z")


def warps_of(function: Function, block: tuple[int, int, int], size: int) -> Warps | None:
    """The warps that a body's threads exchange values in or wait for, or None if they don't;
    `size` is that of the kernel's warps. Those that wait for wavefronts go by these."""
    found = {
        function.blocks[label].body[index].callee for label, index, _ in wave_barriers(function)
    }
    if not found:
        return None
    return Warps(WAVE_SIZE if WAVE_BARRIER in found else size, block)


def answers_alike(item: Instruction, varying: Set[str]) -> bool:
    """Whether all lanes that come to the exchange `item` get one answer from it."""
    callee = item.callee or ""
    if callee not in EXCHANGES:
        return False
    given = arguments(item)
    if callee.startswith("haulage.shuffle."):
        return ".lane." in callee and given[-2][1] not in varying
    asked = [given[-2], *([given[1]] if callee.startswith("haulage.match.") else [])]
    return not any(value in varying for _, value in asked)


def arguments(call: Instruction) -> list[tuple[str, str]]:
    """(type, value) of each argument of a call with scalar arguments."""
    text = call.text[call.text.index("(") + 1 : call.text.rindex(")")]
    parts: list[str] = []
    depth = 0
    for part in text.split(", "):
        if depth:
            parts[-1] += ", " + part
        else:
            parts.append(part)
        depth += part.count("(") - part.count(")")
    return [_typed(part) for part in parts]


def _typed(argument: str) -> tuple[str, str]:
    kind, value = argument.split(" ", 1)
    # What stands between the two are notes: `i32 noundef %x`.
    local = value.rsplit(" ", 1)[-1]
    return kind, local if local.startswith("%") or "(" not in value else value


class _Alignment:
    """Finds values by their lanes' part: none, or the lane's number plus a multiple of the size."""

    def __init__(self, function: Function, warps: Warps) -> None:
        self._size = warps.size
        size_x = warps.block[0]
        names = {parameter.name for parameter in function.parameters}
        self._plain = names - warps.thread_index()
        self._multiples = {"%blockDim.x"} if size_x % warps.size == 0 else set()
        self._counting = {"%threadIdx.x"}
        found: set[str] = set()
        successors = {label: block.successors for label, block in function.blocks.items()}
        for label in control_flow.reverse_postorder(successors, function.entry):
            for item in function.blocks[label].body:
                if item.result is None or not item.uses:
                    continue
                if self._drops_lane(item):
                    found.add(item.result)
                    self._plain.add(item.result)
                elif item.opcode in _PLAIN:
                    self._sort(item)
        self.common = frozenset(found)

    def _sort(self, item: Instruction) -> None:
        assert item.result is not None
        left, right = _sides(item)
        if all(operand in self._plain for operand in item.uses):
            self._plain.add(item.result)
            if self._is_multiple(item, left, right):
                self._multiples.add(item.result)
        elif item.opcode in _CASTS:
            if item.uses[0] in self._counting and not item.type.startswith(("i1", "i8")):
                self._counting.add(item.result)
        elif item.opcode == "add" or (item.opcode == "or" and " disjoint " in item.text):
            for counting, other in ((left, right), (right, left)):
                if counting in self._counting and self._multiple(other):
                    self._counting.add(item.result)

    def _is_multiple(self, item: Instruction, left: str, right: str) -> bool:
        if item.opcode in _CASTS:
            return left in self._multiples and not item.type.startswith(("i1", "i8"))
        if item.opcode in ("mul", "and"):
            return self._multiple(left) or self._multiple(right)
        if item.opcode == "shl":
            return self._multiple(left) or (right.isdigit() and 1 << int(right) >= self._size)
        return self._multiple(left) and self._multiple(right)

    def _multiple(self, value: str) -> bool:
        number = _number(value)
        return value in self._multiples if number is None else number % self._size == 0

    def _drops_lane(self, item: Instruction) -> bool:
        """Whether the result is made of the part of a number that all lanes have in common."""
        left, right = _sides(item)
        number = _number(right)
        if left not in self._counting or number is None:
            return False
        if item.opcode in ("lshr", "ashr"):
            return 1 << number >= self._size
        if item.opcode in ("udiv", "and"):
            return number % self._size == 0
        if item.opcode == "icmp":
            kind = item.text.split(" icmp ", 1)[1].replace("samesign ", "").split(" ", 1)[0]
            if kind in _BELOW:
                return number % self._size == 0
            return kind in _ABOVE and (number + 1) % self._size == 0
        return False


def _sides(item: Instruction) -> tuple[str, str]:
    """The two operands of an instruction as its text has them; the second of a cast is empty."""
    if item.opcode in _CASTS:
        return item.uses[0], ""
    first, _, last = item.text.partition(", ")
    return first.rsplit(" ", 1)[-1], last.split(",", 1)[0].strip()


def _number(value: str) -> int | None:
    return int(value) if value.lstrip("-").isdigit() else None
