"""How values change from one thread to the next along each axis of the block, and what instructions
cost by that.

The derivative of a value by an axis is a number of bytes or units (0 where the axis has no
influence), `UNKNOWN` if it is the same everywhere but not known here (the stride of an array), or
`IRREGULAR`. Forms are taken as if nothing wrapped: this serves to choose among orders of threads
that are all right, not to prove anything.

Costs are cycles of a thread, by a rough measure, alone and on vectors. What an access costs is read
from its strides, as in Kennedy and McKinley, "Optimizing for Parallelism and Data Locality" (ICS
1992), and LLVM's LoopCacheAnalysis.
"""

from collections.abc import Iterable, Mapping, Set
from functools import reduce

from haulage.compiler.mathematics.definitions import PURE, is_mathematics
from haulage.compiler.simt.analysis import AXES, induction
from haulage.compiler.simt.analysis.affine import index_forms
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.compiler.simt.ir.types import size_of

UNKNOWN = "unknown"
IRREGULAR = "irregular"

Stride = int | str
# By x, y and z.
Strides = tuple[Stride, Stride, Stride]

COMMON: Strides = (0, 0, 0)
SCATTERED: Strides = (IRREGULAR, IRREGULAR, IRREGULAR)


def size_of_access(item: Instruction) -> int | None:
    """Bytes that a load or store is about; None if its type is no scalar."""
    return size_of(item.accessed_type)


class StrideAnalysis:
    """The strides of the values of a function, or of its blocks `labels`, found when one is asked
    for.

    `known` are those to begin with; values that are made elsewhere are the same everywhere. Without
    `wraparound` what Numba adds to an index that is negative is taken for 0, as it mostly is.
    """

    def __init__(
        self,
        analyses: Analyses,
        known: Mapping[str, Strides],
        labels: Set[str] | None = None,
        *,
        wraparound: bool = True,
    ) -> None:
        # None while nothing is known of a value.
        self._known: dict[str, Strides | None] = {**known}
        self._labels = labels
        self._definitions = analyses.definitions
        self._forms = analyses.get(index_forms, wraparound=wraparound)

    def of(self, operand: Operand | None) -> Strides:
        """The strides of a value, of a constant, or of no address."""
        if operand is None:
            return COMMON
        self._settle(operand)
        return self._of(operand) or COMMON

    def _settle(self, operand: Operand) -> None:
        """Work out the strides of all that an operand is made from."""
        waiting = self._unknown(operand)
        changed = True
        while changed:
            changed = False
            for item in waiting:
                assert item.result is not None
                found, before = self._derive(item), self._known[item.result]
                # Each value changes at most twice along each axis, so that this ends.
                if found is not None and before is not None:
                    found = _joined(before, found)
                if found != before:
                    self._known[item.result] = found
                    changed = True

    def _unknown(self, operand: Operand) -> list[Instruction]:
        """What makes the symbols of a form, and those of what they are made from, and is new here;
        operands come first."""
        found: list[Instruction] = []
        stack: list[Operand | Instruction] = [operand]
        while stack:
            top = stack.pop()
            if isinstance(top, Instruction):
                found.append(top)
                continue
            for symbol in self._forms.of(top).symbols:
                if symbol.value in self._known:
                    continue
                label, item = self._definitions.get(symbol.value, ("", None))
                if item is None or (self._labels is not None and label not in self._labels):
                    self._known[symbol.value] = COMMON
                else:
                    self._known[symbol.value] = None
                    stack += (item, *item.operands)
        return found

    def _of(self, operand: Operand) -> Strides | None:
        """The strides of an operand; None while nothing is known of a symbol in it."""
        total = COMMON
        for monomial, factor in self._forms.of(operand).monomials.items():
            factors: list[Strides] = []
            for each in monomial:
                strides = self._known[each.value]
                if strides is None:
                    return None
                factors.append(strides)
            if any(strides != COMMON for strides in factors):
                x, y, z = (
                    _added(sum_, _product([each[axis] for each in factors], factor))
                    for axis, sum_ in enumerate(total)
                )
                total = x, y, z
        return total

    def _derive(self, item: Instruction) -> Strides | None:
        """The strides of a result that is no sum; None while nothing is known of an operand."""
        operands = [self._of(each) for each in item.operands]
        if item.is_phi:
            return reduce(_joined, filter(None, operands), None)
        if None in operands:
            return None
        is_pure = item.opcode != "call" or (item.callee or "").startswith(PURE)
        if item.opcode in ("atomicrmw", "cmpxchg") or not is_pure:
            return SCATTERED
        x, y, z = (
            IRREGULAR if any(each and each[axis] != 0 for each in operands) else 0
            for axis in range(3)
        )
        return x, y, z


def by_thread(
    analyses: Analyses, private: Iterable[Storage] = (), *, wraparound: bool = True
) -> StrideAnalysis:
    """From thread to thread, whose indices differ, and the addresses of whose own memory, as it
    lies behind its neighbour's."""
    known: dict[str, Strides] = {room.name: (room.nbytes,) * 3 for room in private}
    for position, axis in enumerate(AXES):
        x, y, z = (int(position == other) for other in range(3))
        known[f"%threadIdx.{axis}"] = x, y, z
    return StrideAnalysis(analyses, known, wraparound=wraparound)


def by_iteration(analyses: Analyses, loop: Loop) -> StrideAnalysis:
    """From one iteration of a loop to the next, along all axes alike."""
    function = analyses.function
    known = {phi.result: SCATTERED for phi in function.blocks[loop.header].phis if phi.result}
    for name, recurrence in induction.recurrences(function, loop).items():
        stride = UNKNOWN if recurrence.step is None else recurrence.step
        known[name] = stride, stride, stride
    return StrideAnalysis(analyses, known, loop.labels, wraparound=False)


def _joined(one: Strides | None, other: Strides) -> Strides:
    """The strides of what is one value or another."""
    if one is None or one == other:
        return other
    x, y, z = (left if left == right else IRREGULAR for left, right in zip(one, other, strict=True))
    return x, y, z


def _added(left: Stride, right: Stride) -> Stride:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return IRREGULAR if IRREGULAR in (left, right) else UNKNOWN


def _product(strides: list[Stride], factor: int) -> Stride:
    """The stride along one axis of a product of values with these, times a number."""
    moving = [each for each in strides if each != 0]
    if len(moving) > 1 or IRREGULAR in moving:
        return IRREGULAR
    if not moving:
        return 0
    known = len(strides) == 1 and isinstance(moving[0], int)
    return int(moving[0]) * factor if known else UNKNOWN


# ---- what instructions cost ----------------------------------------------------------------------

# Iterations of a loop whose trip count is not known.
ITERATIONS = 8
ARITHMETIC_COST = 0.25
MATHEMATICS_COST = 16.0
ACCESS_COST = 0.5
_COMMON_LOAD = 0.05
# An instruction on a vector of this many bytes takes longer than one on a number.
VECTOR_BYTES = 64
WORD_BYTES = 8
_ON_VECTORS = 2.0
# A lane's part of a gather from a row for each of them, and from anywhere; there is none of small
# elements. Accesses so many elements apart become wide ones and permutations.
_GATHER = 2.0
_SCATTERED = 6.0
_SMALLEST_GATHERED = 4
_NEAR = 4
# What it costs that each access is in another row, and takes a part of what the cache fetches.
_FETCH = 2.0

# When an instruction's result can be used.
_LATENCIES = {"load": 5.0} | dict.fromkeys(("phi", "getelementptr", "zext", "sext", "trunc"), 0.0)
_FLOAT_LATENCY = 4.0
_MATHEMATICS_LATENCY = 40.0


def is_access(item: Instruction) -> bool:
    """Whether it is a load or a store."""
    return item.opcode in ("load", "store")


def cost_alone(item: Instruction) -> float:
    """What it costs by itself."""
    if is_access(item):
        return ACCESS_COST
    return MATHEMATICS_COST if is_mathematics(item.callee) else ARITHMETIC_COST


def cost_wide(item: Instruction, threads: int) -> float:
    """The part of a thread, of so many, of an instruction on vectors of neighbours."""
    kinds = [each.type for each in item.operands] + [item.type]
    size = max((size_of(kind) or 0 for kind in kinds if kind != "ptr"), default=0) or WORD_BYTES
    return _ON_VECTORS * cost_alone(item) / max(1, min(threads, VECTOR_BYTES // size))


def cost_in_turn(item: Instruction, stride: Stride) -> float:
    """What it costs a thread, or an iteration, if the next one accesses what is a stride apart."""
    if not is_access(item):
        return cost_alone(item)
    return (
        _COMMON_LOAD
        if stride == 0 and item.opcode == "load"
        else ACCESS_COST + cost_of_fetch(item, stride)
    )


def cost_of_fetch(item: Instruction, stride: Stride) -> float:
    """What an access costs more if the next one is in another row of an array."""
    part = (size_of_access(item) or WORD_BYTES) / WORD_BYTES if stride == UNKNOWN else 0.0
    return part * (_FETCH if item.opcode == "load" else 2 * _FETCH)


def latency_of(item: Instruction) -> float:
    """After how long its result can be used."""
    if is_mathematics(item.callee):
        return _MATHEMATICS_LATENCY
    is_float = item.type in ("float", "double", "half") and item.opcode != "select"
    return _LATENCIES.get(item.opcode, _FLOAT_LATENCY if is_float else 1.0)


class ThreadCosts:
    """What instructions cost with a loop over threads around them, innermost along one axis."""

    def __init__(self, analyses: Analyses, private: tuple[Storage, ...] = ()) -> None:
        self._strict = analyses.get(by_thread, private)
        self._likely = analyses.get(by_thread, private, wraparound=False)

    def in_turn(self, item: Instruction, position: int) -> float:
        """The part of a thread whose neighbours follow it one by one."""
        return cost_in_turn(item, self._likely.of(item.address)[position])

    def on_vectors(
        self, item: Instruction, position: int, threads: int, *, by_llvm: bool = True
    ) -> float:
        """The part of a thread, of so many, on vectors of neighbours, as LLVM's loop vectoriser
        makes them or our own, which asks whether an index is negative."""
        if not is_access(item):
            return cost_wide(item, threads)
        size = size_of_access(item) or WORD_BYTES
        stride = self._strict.of(item.address)[position]
        likely = self._likely.of(item.address)[position]
        if stride == size:
            return cost_wide(item, threads)
        if stride == 0:
            return _COMMON_LOAD if item.opcode == "load" else ACCESS_COST
        is_near = isinstance(stride, int) and abs(stride) <= _NEAR * size
        if is_near if by_llvm else likely in (0, size):
            return 2 * cost_wide(item, threads)
        gathers = likely != IRREGULAR and size >= _SMALLEST_GATHERED
        return (_GATHER if gathers else _SCATTERED) + cost_of_fetch(item, likely)
