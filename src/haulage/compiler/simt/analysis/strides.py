"""How values change from one thread to the next along each axis of the block.

The derivative of a value by an axis is a number of bytes or units (0 where the axis has no
influence), `UNKNOWN` if it is the same everywhere but not known here (the stride of an array), or
`IRREGULAR`. Forms are taken as if nothing wrapped: this serves to choose among orders of threads
that are all right, not to prove anything.
"""

from collections.abc import Iterable, Mapping, Set
from functools import reduce

from haulage.compiler.mathematics.definitions import PURE
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
