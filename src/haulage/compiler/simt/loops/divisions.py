"""Divisions of whole numbers that differ from thread to thread become calls of our mathematics.

No processor that we know of divides vectors of whole numbers, so LLVM takes one lane after another
for them, under a condition even with a branch for each. By way of doubles (`mathematics.divisions`)
they are widened like all else, and what all threads divide by is made a double once. The quotients
are exact, so they are the same as those of the ways in which divisions stay as they are.
"""

import re
from collections.abc import Set

from haulage.compiler.mathematics.definitions import DIVISIONS, PREFIX, declaration
from haulage.compiler.mathematics.divisions import NEAR
from haulage.compiler.mathematics.ir import SUFFIXES
from haulage.compiler.simt.analysis.value_ranges import Range, integer_ranges, range_of
from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.targets.base import Target

_VALUE = r'%"[^"]*"|%[-\w$.]+|-?\d+'
_PARTS = re.compile(
    rf"(?P<result>{_VALUE}) = (?P<word>[us](?:div|rem)) (?:exact )?(?P<type>i32|i64) "
    rf"(?P<left>{_VALUE}), (?P<right>%.*?)(?:, !.*)?$"
)


def widen(function: Function, varying: Set[str], target: Target) -> list[str]:
    """Replace the divisions in a function by anything but constants whose results are in
    `varying`; the declarations of what is called now."""
    items = [item for block in function.blocks.values() for item in block.body]
    if not any(item.opcode in DIVISIONS and item.result in varying for item in items):
        return []
    ranges = integer_ranges(function)
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


def _call(
    item: Instruction, ranges: dict[str, Range], target: Target
) -> tuple[Instruction, str] | None:
    """The call that an instruction becomes, and what it needs declared."""
    parts = _PARTS.match(item.text)
    if parts is None or not target.has_fused:
        # Without a rounding of its own for whole numbers a processor is no faster by doubles.
        return None
    word, kind = parts["word"], parts["type"]
    low, high = range_of(parts["left"], int(kind[1:]), ranges)
    name = f"near_{word}"
    if kind == "i64" and not (low > -NEAR and high < NEAR and (low >= 0 or word[0] == "s")):
        if word[0] == "u" or "+avx512dq" not in target.features.split(","):
            return None
        name = word
    called = f"{PREFIX}{name}.{SUFFIXES[kind]}"
    left, right = parts["left"], parts["right"]
    assert item.result is not None
    made = build.call(item.result, kind, called, [(kind, left), (kind, right)])
    return made, declaration(name, kind)
