"""Which integers of a function cannot be negative, as far as their making shows."""

import re

from haulage.compiler.mathematics.definitions import PREFIX
from haulage.compiler.simt.ir.model import Function, Instruction

_PAIR = re.compile(r'(%"[^"]*"|%[-\w$.]+|-?\d+), (%"[^"]*"|%[-\w$.]+|-?\d+)(?:, !.*)?$')
_DIVIDED = re.compile(
    rf"@{re.escape(PREFIX)}(?:near_)?(?P<word>[su](?:div|rem))\.i\d+"
    r'\(i\d+ (%"[^"]*"|%[-\w$.]+|-?\d+), i\d+ (%"[^"]*"|%[-\w$.]+|-?\d+)\)$'
)
_RANGE = re.compile(r"range\(i\d+ (-?\d+), (-?\d+)\)")
_SELECT = re.compile(r"= select i1 \S+, i\d+ (\S+), i\d+ (\S+?)(?:,|$)")


def nonnegative(function: Function) -> frozenset[str]:
    """Names of the parameters and results that are not negative as signed numbers (or poison).

    What goes round a loop is taken for such until something shows that it may not be.
    """
    known = {name.name for name in function.parameters if _in_range(name.type)}
    items = [
        item
        for block in function.blocks.values()
        for item in block.instructions()
        if item.result and item.type.startswith("i")
    ]
    supposed = known | {item.result for item in items if item.result}
    changed = True
    while changed:
        changed = False
        for item in items:
            if item.result in supposed and not _holds(item, supposed):
                supposed.discard(item.result)
                changed = True
    return frozenset(supposed)


def is_nonnegative(value: str, known: frozenset[str] | set[str]) -> bool:
    """Whether a value, or a constant, is none that can be negative."""
    return value in known if value.startswith("%") else value.isdigit()


def _in_range(kind: str) -> bool:
    found = _RANGE.search(kind)
    return found is not None and 0 <= int(found[1]) < int(found[2])


def _holds(item: Instruction, known: set[str]) -> bool:
    if item.is_phi:
        return all(is_nonnegative(value, known) for value, _ in item.incoming)
    if item.opcode == "zext":
        return True
    if item.opcode in ("sext", "ashr"):
        return bool(item.uses) and item.uses[0] in known
    if item.opcode == "select":
        found = _SELECT.search(item.text)
        return found is not None and all(is_nonnegative(found[n], known) for n in (1, 2))
    found = _DIVIDED.search(item.text)
    pair = found or _PAIR.search(item.text)
    if pair is None:
        return False
    opcode = found["word"] if found else item.opcode
    left, right = (is_nonnegative(each, known) for each in pair.groups()[-2:])
    if item.opcode in ("add", "mul"):
        return " nsw " in item.text and left and right
    if item.opcode == "shl":
        return " nsw " in item.text and left
    if item.opcode == "lshr":
        return left or (pair[2].isdigit() and int(pair[2]) > 0)
    if item.opcode == "and":
        return left or right
    if item.opcode in ("or", "xor"):
        return left and right
    if opcode in ("udiv", "srem"):
        return left
    return opcode == "sdiv" and left and right
