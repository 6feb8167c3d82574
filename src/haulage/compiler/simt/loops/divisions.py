"""Divisions of whole numbers that differ from thread to thread become calls of our mathematics.

No processor that we know of divides vectors of whole numbers, so LLVM takes one lane after another
for them, under a condition even with a branch for each. By way of doubles (`mathematics.divisions`)
they are widened like all else, and what all threads divide by is made a double once. The quotients
are exact, so they are the same as those of the ways in which divisions stay as they are.
"""

from collections.abc import Set

from haulage.compiler.mathematics.definitions import DIVISIONS, PREFIX, declaration
from haulage.compiler.mathematics.divisions import NEAR
from haulage.compiler.mathematics.ir import SUFFIXES
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.targets.base import Target


def widen(function: Function, varying: Set[str], target: Target) -> list[str]:
    """Replace the divisions in a function by anything but constants whose results are in
    `varying`; the declarations of what is called now."""
    items = [item for block in function.blocks.values() for item in block.body]
    if not any(item.opcode in DIVISIONS and item.result in varying for item in items):
        return []
    ranges = ValueRanges(function)
    declared: dict[str, None] = {}
    for block in function.blocks.values():
        for place, item in enumerate(block.body):
            if item.opcode not in DIVISIONS or item.result not in varying:
                continue
            call = _call(item, ranges, target)
            if call is not None:
                block.body[place], declaring = call
                declared[declaring] = None
    return list(declared)


def _call(item: Instruction, ranges: ValueRanges, target: Target) -> tuple[Instruction, str] | None:
    """The call that an instruction becomes, and what it needs declared."""
    left, right = item.operands
    if right.number is not None or item.type not in ("i32", "i64") or not target.has_fused:
        # Without a rounding of its own for whole numbers a processor is no faster by doubles.
        return None
    low, high = ranges.of(left)
    name = f"near_{item.opcode}"
    signed = item.opcode[0] == "s"
    if item.type == "i64" and not (low > -NEAR and high < NEAR and (low >= 0 or signed)):
        if not signed or "+avx512dq" not in target.features.split(","):
            return None
        name = item.opcode
    called = f"{PREFIX}{name}.{SUFFIXES[item.type]}"
    arguments = [(each.type, each.text) for each in item.operands]
    assert item.result is not None
    return build.call(item.result, item.type, called, arguments), declaration(name, item.type)
