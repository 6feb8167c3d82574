"""Remainders by what can only be a power of two are masks.

`h = 1; while h < n: ... t % h ...; h *= 2`: LLVM makes a shift of `t // h` there, but keeps the
remainder, as it does not see that `h` is not negative. It need not see that: the one power of two
that is negative, the least of all numbers, leaves what it divides as it is, and so does its mask.
"""

import re
from collections.abc import Set

from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Function, Instruction, value_name

_VALUE = r'%"[^"]*"|%[-\w$.]+|-?\d+'
_PAIR = re.compile(rf"\bi\d+ ({_VALUE}), ({_VALUE})(?:, !.*)?$")
_CHOICE = re.compile(rf"select i1 [^,]+, i\d+ ({_VALUE}), i\d+ ({_VALUE})(?:, !.*)?$")
_REMAINDERS = frozenset(("srem", "urem"))


def mask_remainders(function: Function, varying: Set[str]) -> None:
    """Replace the remainders of numbers that are not negative, and are in `varying`, by powers of
    two that all threads have in common."""
    found = [
        item
        for block in function.blocks.values()
        for item in block.body
        if item.opcode in _REMAINDERS and item.result in varying
    ]
    if not any(_divisor(item).startswith("%") for item in found):
        return
    ranges = ValueRanges(function)
    powers = powers_of_two(function, ranges)
    for block in function.blocks.values():
        body: list[Instruction] = []
        for item in block.body:
            pair = _PAIR.search(item.text)
            if (
                item.opcode in _REMAINDERS
                and item.result in varying
                and pair is not None
                and pair[2] in powers
                and pair[2] not in varying
                and ranges.is_nonnegative(pair[1])
            ):
                body += _masked(item, pair[1], pair[2])
            else:
                body.append(item)
        block.body = body


def powers_of_two(function: Function, ranges: ValueRanges) -> frozenset[str]:
    """Names of the results that are a power of two, as an unsigned number, or 0.

    `known` are those that are not negative. What goes round a loop is taken for a power until
    something shows that it may not be.
    """
    items = {
        item.result: item
        for block in function.blocks.values()
        for item in block.instructions()
        if item.result and re.fullmatch(r"i\d+", item.type)
    }
    supposed = set(items)
    changed = True
    while changed:
        kept = {name for name in supposed if _holds(items[name], supposed, ranges)}
        changed = kept != supposed
        supposed = kept
    return frozenset(supposed)


def _divisor(item: Instruction) -> str:
    pair = _PAIR.search(item.text)
    return pair[2] if pair is not None else ""


def _masked(item: Instruction, dividend: str, divisor: str) -> list[Instruction]:
    assert item.result is not None
    mask = value_name(item.result, "mask")
    return [
        build.binary(mask, "add", item.type, divisor, "-1"),
        build.binary(item.result, "and", item.type, dividend, mask),
    ]


def _holds(item: Instruction, supposed: Set[str], ranges: ValueRanges) -> bool:
    def is_power(value: str) -> bool:
        if value.startswith("%"):
            return value in supposed
        return value.isdigit() and int(value).bit_count() == 1

    if item.is_phi:
        return all(is_power(value) for value, _ in item.incoming)
    if item.opcode in ("zext", "trunc", "freeze"):
        return bool(item.uses) and is_power(item.uses[0])
    if item.opcode == "select":
        choice = _CHOICE.search(item.text)
        return choice is not None and is_power(choice[1]) and is_power(choice[2])
    pair = _PAIR.search(item.text)
    if pair is None or not is_power(pair[1]):
        return False
    if item.opcode in ("shl", "lshr"):
        return True
    # Of the one power that is negative these make another number.
    if item.opcode == "ashr":
        return ranges.is_nonnegative(pair[1])
    if item.opcode == "sdiv":
        return ranges.is_nonnegative(pair[1]) and is_power(pair[2]) and pair[2].isdigit()
    return item.opcode in ("udiv", "mul") and is_power(pair[2])
