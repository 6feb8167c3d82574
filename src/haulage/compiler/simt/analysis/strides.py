"""How values change from one thread to the next along each axis of the block.

The derivative of a value by an axis is a number of bytes or units (0 where the axis has no
influence), `UNKNOWN` if it is the same everywhere but not known here (the stride of an array), or
`IRREGULAR`. Forms are taken as if nothing wrapped: this serves to choose among orders of threads
that are all right, not to prove anything.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from haulage.compiler.simt.analysis.affine import AffineForms, forms
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.axes import AXES
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


class StrideAnalysis:
    """The strides of the values of a function, or of its blocks `labels`.

    `known` are those to begin with; values that are made elsewhere are the same everywhere.
    """

    def __init__(
        self,
        analyses: Analyses,
        known: Mapping[str, Strides] | None = None,
        labels: Set[str] | None = None,
    ) -> None:
        self._known = dict(by_thread() if known is None else known)
        definitions = analyses.definitions.items()
        items = {
            name: item
            for name, (label, item) in definitions
            if name not in self._known and (labels is None or label in labels)
        }
        self._forms = analyses.get(forms) if labels is None else AffineForms(items)
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
                if found is not None and found != before:
                    # Each axis becomes irregular at most once, so that this ends.
                    self._known[name] = found if before is None else _same([before, found])
                    changed = changed or self._known[name] != before

    def of(self, operand: Operand | None) -> Strides:
        """The strides of a value, of a constant, or of no address."""
        return COMMON if operand is None else self._of(operand) or COMMON

    def of_result(self, item: Instruction) -> Strides:
        """The strides of what an instruction makes."""
        return self.of(_result(item))

    def _of(self, operand: Operand) -> Strides | None:
        """The strides of an operand; None while nothing is known of a symbol in it."""
        total = COMMON
        form = self._forms.of(operand)
        for monomial, factor in form.monomials.items():
            moving = []
            for each in monomial:
                strides = self._known.get(each.value)
                if strides is None and each.value in self._waiting:
                    return None
                if strides is not None and strides != COMMON:
                    moving.append(strides)
            if len(moving) > 1:
                total = _sum(total, _irregular(moving))
            elif moving:
                total = _sum(total, _scaled(moving[0], factor if len(monomial) == 1 else None))
        return total

    def _derive(self, item: Instruction) -> Strides | None:
        """The strides of a result that is no sum; None while nothing is known of an operand."""
        operands = [self._of(each) for each in item.operands]
        known = [each for each in operands if each is not None]
        if item.is_phi:
            return _same(known) if known else None
        if len(known) < len(operands):
            return None
        if item.opcode in ("call", "atomicrmw", "cmpxchg"):
            return SCATTERED
        return _irregular(known)


def _result(item: Instruction) -> Operand:
    assert item.result is not None
    return Operand(item.type, item.result)


def _same(all_strides: Sequence[Strides]) -> Strides:
    """The strides that some have in common, axis by axis."""
    x, y, z = (
        along[0] if len(set(along)) == 1 else IRREGULAR for along in zip(*all_strides, strict=True)
    )
    return x, y, z


def _irregular(all_strides: Sequence[Strides]) -> Strides:
    """The strides of what is made of values with some: the same along an axis if these are."""
    x, y, z = (IRREGULAR if any(along) else 0 for along in zip(COMMON, *all_strides, strict=True))
    return x, y, z


def _sum(left: Strides, right: Strides) -> Strides:
    x, y, z = (_added(one, other) for one, other in zip(left, right, strict=True))
    return x, y, z


def _added(left: Stride, right: Stride) -> Stride:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return IRREGULAR if IRREGULAR in (left, right) else UNKNOWN


def _scaled(strides: Strides, factor: int | None) -> Strides:
    """The strides times a number, or times one that is not known."""
    x, y, z = (
        stride
        if stride in (0, IRREGULAR)
        else stride * factor
        if isinstance(stride, int) and factor is not None
        else UNKNOWN
        for stride in strides
    )
    return x, y, z
