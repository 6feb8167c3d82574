"""How values change from one thread to the next along each axis of the block.

The derivative of a value by an axis is a number of bytes or units (0 where the axis has no
influence), `UNKNOWN` if it is the same everywhere but not known here (the stride of an array), or
`IRREGULAR`. Forms are taken as if nothing wrapped: this serves to choose among orders of threads
that are all right, not to prove anything.
"""

from collections.abc import Iterable, Mapping, Set

from haulage.compiler.mathematics.definitions import PURE
from haulage.compiler.simt.analysis import AXES, induction
from haulage.compiler.simt.analysis.affine import AffineForms
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


def by_thread(private: Iterable[Storage] = ()) -> dict[str, Strides]:
    """The strides of what differs from thread to thread by itself: its indices, and the addresses
    of its own memory, which lies behind its neighbour's."""
    known: dict[str, Strides] = {room.name: (room.nbytes,) * 3 for room in private}
    for position, axis in enumerate(AXES):
        x, y, z = (int(position == other) for other in range(3))
        known[f"%threadIdx.{axis}"] = x, y, z
    return known


def by_iteration(analyses: Analyses, loop: Loop) -> dict[str, Strides]:
    """The strides, along all axes alike, of what changes from iteration to iteration of a loop."""
    function = analyses.function
    known = {phi.result: SCATTERED for phi in function.blocks[loop.header].phis if phi.result}
    for name, recurrence in induction.recurrences(function, loop).items():
        stride = UNKNOWN if recurrence.step is None else recurrence.step
        known[name] = stride, stride, stride
    return known


class StrideAnalysis:
    """The strides of the values of a function, or of its blocks `labels`.

    `known` are those to begin with; values that are made elsewhere are the same everywhere. Without
    `wraparound` what Numba adds to an index that is negative is taken for 0, as it mostly is.
    """

    def __init__(
        self,
        analyses: Analyses,
        known: Mapping[str, Strides] | None = None,
        labels: Set[str] | None = None,
        *,
        wraparound: bool = True,
    ) -> None:
        self._known = dict(by_thread() if known is None else known)
        items = {
            name: item
            for name, (label, item) in analyses.definitions.items()
            if name not in self._known and (labels is None or label in labels)
        }
        self._forms = AffineForms(items, wraparound=wraparound)
        # Those that are no sum of others, phis among them.
        self._waiting = {
            name: item
            for name, item in items.items()
            if any(each.value == name for each in self._forms.of(_result(item)).symbols)
        }
        changed = True
        while changed:
            changed = False
            for name, item in self._waiting.items():
                found, before = self._derive(item), self._known.get(name)
                # Each value changes at most twice along each axis, so that this ends.
                if found is not None and before is not None:
                    found = _joined(before, found)
                if found is not None and found != before:
                    self._known[name] = found
                    changed = True

    def of(self, operand: Operand | None) -> Strides:
        """The strides of a value, of a constant, or of no address."""
        return COMMON if operand is None else self._of(operand) or COMMON

    def of_result(self, item: Instruction) -> Strides:
        """The strides of what an instruction makes."""
        return self.of(_result(item))

    def _of(self, operand: Operand) -> Strides | None:
        """The strides of an operand; None while nothing is known of a symbol in it."""
        total = COMMON
        for monomial, factor in self._forms.of(operand).monomials.items():
            factors: list[Strides] = []
            for each in monomial:
                strides = self._known.get(each.value)
                if strides is None and each.value in self._waiting:
                    return None
                factors.append(COMMON if strides is None else strides)
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
            known = [each for each in operands if each is not None]
            joined = known[0] if known else None
            for each in known:
                joined = _joined(joined or each, each)
            return joined
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


def _result(item: Instruction) -> Operand:
    assert item.result is not None
    return Operand(item.type, item.result)


def _joined(one: Strides, other: Strides) -> Strides:
    """The strides of what is one value or another."""
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
