"""How values change from one thread to the next along each axis of the block.

The derivative of a value by an axis is a number of bytes or units (0 where the axis has no
influence), `UNKNOWN` if it is the same everywhere but not known here (the stride of an array), or
`IRREGULAR`. Casts are taken as if nothing wrapped: this serves to choose among orders of threads
that are all right, not to prove anything.
"""

import re
from collections.abc import Iterable, Mapping

from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.model import Function, Instruction

UNKNOWN = "unknown"
IRREGULAR = "irregular"

Stride = int | str
# By x, y and z.
Strides = tuple[Stride, Stride, Stride]

COMMON: Strides = (0, 0, 0)
SCATTERED: Strides = (IRREGULAR, IRREGULAR, IRREGULAR)

_VALUE = r'%"[^"]*"|%[-\w$.]+|-?\d+'
_PAIR = re.compile(rf"({_VALUE}), ({_VALUE})(?:, !.*)?$")
_ELEMENT = re.compile(
    r"getelementptr (?:(?:inbounds|nuw|nusw) )*(?P<type>\S.*?), "
    rf"ptr (?P<base>{_VALUE}), i\d+ (?P<index>{_VALUE})(?:, !.*)?$"
)
_SIZES = {"float": 4, "double": 8, "half": 2, "ptr": 8}
_KEEPING = frozenset(("sext", "zext", "trunc", "freeze"))
_STORED = re.compile(r"store (?:volatile |atomic )*(\S+) ")


def size_of(kind: str) -> int | None:
    """Bytes of a scalar LLVM type, or of an array of one; None for others."""
    if kind in _SIZES:
        return _SIZES[kind]
    if re.fullmatch(r"i\d+", kind):
        return max(1, int(kind[1:]) // 8)
    array = re.fullmatch(r"\[(\d+) x (.+)\]", kind)
    if array is None:
        return None
    element = size_of(array[2])
    return None if element is None else int(array[1]) * element


def size_of_access(item: Instruction) -> int | None:
    """Bytes that a load or store is about; None if its type is no scalar."""
    found = _STORED.search(item.text)
    return size_of(item.type if item.opcode == "load" or found is None else found[1])


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
        function: Function,
        known: Mapping[str, Strides] | None = None,
        labels: Iterable[str] | None = None,
    ) -> None:
        given = by_thread() if known is None else known
        self._known: dict[str, Strides] = dict(given)
        blocks = [function.blocks[label] for label in (labels or function.blocks)]
        items = [item for block in blocks for item in block.instructions()]
        made = [item for item in items if item.result is not None and item.result not in given]
        self._waiting = {item.result for item in made}
        changed = True
        while changed:
            changed = False
            for item in made:
                found = self._derive(item)
                assert item.result is not None
                if found is not None and found != self._known.get(item.result):
                    before = self._known.get(item.result)
                    # Each value changes at most twice, so that this ends.
                    self._known[item.result] = found if before is None else SCATTERED
                    changed = before != SCATTERED or changed

    def of(self, value: str) -> Strides:
        """The strides of a value or a constant."""
        return self._known.get(value, COMMON)

    def _derive(self, item: Instruction) -> Strides | None:
        """The strides of a result; None while nothing is known of an operand."""
        if item.is_phi:
            known = {self.of(value) for value, _ in item.incoming if self._is_known(value)}
            return None if not known else known.pop() if len(known) == 1 else SCATTERED
        if not all(map(self._is_known, item.uses)):
            return None
        if item.opcode not in ("call", "load", "atomicrmw", "cmpxchg") and all(
            self.of(name) == COMMON for name in item.uses
        ):
            return COMMON
        if item.opcode == "load":
            return COMMON if all(self.of(name) == COMMON for name in item.uses) else SCATTERED
        if item.opcode in _KEEPING:
            return self.of(item.uses[0])
        if item.opcode == "getelementptr":
            return self._of_address(item)
        return self._of_pair(item)

    def _is_known(self, value: str) -> bool:
        return value in self._known or value not in self._waiting

    def _of_address(self, item: Instruction) -> Strides:
        found = _ELEMENT.search(item.text)
        size = size_of(found["type"]) if found else None
        if found is None or size is None:
            return SCATTERED
        return _sum(self.of(found["base"]), _scaled(self.of(found["index"]), size))

    def _of_pair(self, item: Instruction) -> Strides:
        pair = _PAIR.search(item.text)
        if pair is None:
            return SCATTERED
        left, right = pair[1], pair[2]
        if item.opcode == "add" or (item.opcode == "or" and " disjoint " in item.text):
            return _sum(self.of(left), self.of(right))
        if item.opcode == "sub":
            return _sum(self.of(left), _scaled(self.of(right), -1))
        if item.opcode == "mul":
            factor, other = (left, right) if self.of(left) == COMMON else (right, left)
            if self.of(factor) == COMMON:
                return _scaled(self.of(other), _number(factor))
        if item.opcode == "shl" and self.of(right) == COMMON:
            bits = _number(right)
            return _scaled(self.of(left), None if bits is None else 1 << bits)
        return SCATTERED


def _number(text: str) -> int | None:
    return None if text.startswith("%") else int(text)


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
