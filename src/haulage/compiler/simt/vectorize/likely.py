"""Addresses that go up by a step in all but odd cases.

Numba adds an array's length to an index that is negative. So `x[i]` is an address that steps with
`i`, and a choice by the sign of `i`, which is almost always the same in all lanes. Such an access
is tried as one of neighbours first.
"""

from collections.abc import Mapping

from haulage.compiler.simt.ir.model import Instruction
from haulage.compiler.simt.vectorize.operations import BYTES, parse
from haulage.compiler.simt.vectorize.shapes import Shape, Shapes


class LikelySteps:
    """Steps of addresses whose shape is None; `items` are the instructions by their results."""

    def __init__(self, shapes: Shapes, items: Mapping[str, Instruction]) -> None:
        self._shapes = shapes
        self._items = items

    def of(self, value: str, label: str) -> Shape:
        """The step that the block `label` will most often find, or None."""
        if not value.startswith("%"):
            return 0
        known = self._shapes.at(value, label)
        item = self._items.get(value)
        if known is not None or item is None or self._shapes.leaves_split(value, label):
            return known
        operation = parse(item)
        if operation is None:
            return None
        operands = [text for _, text in operation.operands]
        if item.opcode == "select" and self._is_sign(operands[0], label):
            return self._sum([(operands[1], 0), (operands[2], 0)], label)
        if item.opcode == "getelementptr" and operation.element in BYTES and len(operands) == 2:
            return self._sum([(operands[0], 1), (operands[1], BYTES[operation.element])], label)
        if item.opcode == "add":
            return self._sum([(operands[0], 1), (operands[1], 1)], label)
        return None

    def _sum(self, parts: list[tuple[str, int]], label: str) -> Shape:
        """The sum of the operands' steps, each times its factor; None if one has none, or has one
        and the factor 0."""
        total = 0
        for value, factor in parts:
            step = self.of(value, label)
            if step is None or (step and not factor):
                return None
            total += step * factor
        return total

    def _is_sign(self, condition: str, label: str) -> bool:
        item = self._items.get(condition)
        operation = parse(item) if item is not None and item.opcode == "icmp" else None
        if operation is None or not operation.words.startswith("icmp slt"):
            return False
        (_, value), (_, bound) = operation.operands
        return bound == "0" and self.of(value, label) is not None
