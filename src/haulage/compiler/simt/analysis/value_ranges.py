"""Within which limits the integers of a function are, as far as their making shows."""

import re
from collections.abc import Callable

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Function, Instruction

Range = tuple[int, int]

_RANGE = re.compile(r"range\(i\d+ (-?\d+), (-?\d+)\)")
_TYPE = re.compile(r"i(\d+)\b")
_VALUE = r'%"[^"]*"|%[-\w$.]+|-?\d+'
_PAIR = re.compile(rf"\bi(\d+) ({_VALUE}), ({_VALUE})(?:, !.*)?$")
_CAST = re.compile(rf"\bi(\d+) ({_VALUE}) to i\d+")
_CHOICE = re.compile(rf"select i1 [^,]+, i\d+ ({_VALUE}), i\d+ ({_VALUE})(?:, !.*)?$")
_CALL = re.compile(rf"@llvm\.([su]m(?:in|ax))\.i(\d+)\(i\d+ ({_VALUE}), i\d+ ({_VALUE})\)")


def whole(bits: int) -> Range:
    """Every signed number of so many bits."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def integer_ranges(function: Function) -> dict[str, Range]:
    """(least, greatest) of the parameters and results that are integers, as signed numbers.

    What goes round a loop may be any number of its type.
    """
    known: dict[str, Range] = {}
    for parameter in function.parameters:
        kind = _TYPE.match(parameter.type)
        if kind is not None:
            said = _RANGE.search(parameter.type)
            limits = (int(said[1]), int(said[2]) - 1) if said is not None else (0, -1)
            known[parameter.name] = limits if limits[0] <= limits[1] else whole(int(kind[1]))
    successors = {label: block.successors for label, block in function.blocks.items()}
    for label in control_flow.reverse_postorder(successors, function.entry):
        for item in function.blocks[label].instructions():
            kind = _TYPE.fullmatch(item.type)
            if kind is None or item.result is None:
                continue
            low, high = whole(int(kind[1]))
            made = _made(item, known)
            fits = made is not None and low <= made[0] and made[1] <= high
            known[item.result] = made if made is not None and fits else (low, high)
    return known


def range_of(value: str, bits: int, known: dict[str, Range]) -> Range:
    """The range of a value, or of a constant."""
    if not value.startswith("%"):
        return int(value), int(value)
    return known.get(value, whole(bits))


def _made(item: Instruction, known: dict[str, Range]) -> Range | None:
    """The range of an instruction's result, were there no limit to it; None if it may be any."""
    if item.is_phi:
        bits = int(item.type[1:])
        sources = [value for value, _ in item.incoming]
        if any(value.startswith("%") and value not in known for value in sources):
            return None
        if not all(re.fullmatch(_VALUE, value) for value in sources):
            return None
        return _union(*(range_of(value, bits, known) for value in sources))
    if cast := _CAST.search(item.text):
        return _of_cast(item.opcode, range_of(cast[2], int(cast[1]), known), int(cast[1]))
    if choice := _CHOICE.search(item.text):
        bits = int(item.type[1:])
        return _union(*(range_of(choice[n], bits, known) for n in (1, 2)))
    if call := _CALL.search(item.text):
        left, right = (range_of(call[n], int(call[2]), known) for n in (3, 4))
        return _of_choice(call[1], left, right)
    rule = _RULES.get(item.opcode)
    pair = _PAIR.search(item.text)
    if rule is None or pair is None:
        return None
    return rule(*(range_of(pair[n], int(pair[1]), known) for n in (2, 3)))


def _union(*ranges: Range) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _of_cast(opcode: str, source: Range, bits: int) -> Range | None:
    if opcode == "zext":
        return source if source[0] >= 0 else (0, (1 << bits) - 1)
    return source if opcode in ("sext", "trunc") else None


def _of_choice(word: str, left: Range, right: Range) -> Range | None:
    if word[0] == "u" and min(left[0], right[0]) < 0:
        return None
    choose = min if word.endswith("min") else max
    return choose(left[0], right[0]), choose(left[1], right[1])


def _sum(left: Range, right: Range) -> Range:
    return left[0] + right[0], left[1] + right[1]


def _difference(left: Range, right: Range) -> Range:
    return left[0] - right[1], left[1] - right[0]


def _product(left: Range, right: Range) -> Range:
    products = [one * other for one in left for other in right]
    return min(products), max(products)


def _shifted(left: Range, right: Range) -> Range | None:
    return _product(left, (1 << right[0], 1 << right[0])) if right[0] == right[1] >= 0 else None


def _shifted_back(left: Range, right: Range) -> Range | None:
    if right[0] != right[1] or right[0] < 0:
        return None
    return left[0] >> right[0], left[1] >> right[0]


def _shifted_back_unsigned(left: Range, right: Range) -> Range | None:
    return _shifted_back(left, right) if left[0] >= 0 else None


def _common_bits(left: Range, right: Range) -> Range | None:
    highest = [high for low, high in (left, right) if low >= 0]
    return (0, min(highest)) if highest else None


def _joined_bits(left: Range, right: Range) -> Range | None:
    if min(left[0], right[0]) < 0:
        return None
    return 0, (1 << max(left[1], right[1]).bit_length()) - 1


def _quotient(left: Range, right: Range) -> Range:
    size = max(-left[0], left[1])
    return (0 if left[0] >= 0 and right[0] >= 0 else -size), size


def _unsigned_quotient(left: Range, right: Range) -> Range | None:
    return (0, left[1]) if left[0] >= 0 else None


def _rest(left: Range, right: Range) -> Range:
    size = max(-right[0], right[1])
    return max(min(left[0], 0), -size), min(max(left[1], 0), size)


def _unsigned_rest(left: Range, right: Range) -> Range | None:
    if left[0] >= 0:
        return 0, left[1]
    return (0, right[1]) if right[0] >= 0 else None


_RULES: dict[str, Callable[[Range, Range], Range | None]] = {
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "shl": _shifted,
    "ashr": _shifted_back,
    "lshr": _shifted_back_unsigned,
    "and": _common_bits,
    "or": _joined_bits,
    "xor": _joined_bits,
    "sdiv": _quotient,
    "udiv": _unsigned_quotient,
    "srem": _rest,
    "urem": _unsigned_rest,
}
