"""Within which limits the integers of a function are.

Intervals with widening and narrowing, as in Cousot and Cousot, "Abstract Interpretation" (POPL
1977); LLVM's counterparts are ConstantRange and LazyValueInfo.
"""

import itertools
from collections.abc import Callable, Container, Iterable, Mapping

from haulage.compiler.mathematics.definitions import PREFIX
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Function, Instruction, Operand, Parameter
from haulage.compiler.simt.ir.types import bits_of, declared_range
from haulage.forks import cached_property

# The least and the greatest number that a value can be.
Range = tuple[int, int]

# Times that all ranges are worked out again from one another, to narrow what was widened.
_NARROWINGS = 2
_MOST_BITS = 128


class ValueRanges:
    """The ranges of a function's integer parameters and results, as signed numbers.

    They hold for all that is not poison: what has `nsw` is taken not to wrap. They are worked out
    when one is asked for first.
    """

    def __init__(self, analyses: Analyses) -> None:
        self._analyses = analyses

    @cached_property
    def _known(self) -> dict[str, Range]:
        known = _solve(self._analyses)
        # They keep these ranges, and could not be freed without a collection of garbage.
        del self._analyses
        return known

    def of(self, operand: Operand) -> Range:
        """The range of an integer value or constant."""
        return _range(operand, self._known)

    def is_nonnegative(self, value: str) -> bool:
        """Whether a value, by its name, or a constant cannot be below 0."""
        if not value.startswith("%"):
            return value.isdigit()
        return self._known.get(value, (-1, 0))[0] >= 0


def whole(bits: int) -> Range:
    """Every signed number of so many bits."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _solve(analyses: Analyses) -> dict[str, Range]:
    function = analyses.function
    known = {each.name: found for each in function.parameters if (found := _of_parameter(each))}
    items = {
        item.result: item
        for label in analyses.order
        for item in function.blocks[label].instructions()
        if item.result and bits_of(item.type)
    }
    pending, is_widened = set(items), False
    while pending:
        # In order, as most values then have their range at once.
        for name, item in items.items():
            if name not in pending:
                continue
            pending.discard(name)
            made, before = _made(item, known, items), known.get(name)
            if before is not None:
                grown = _union(before, made)
                made = _widened(before, grown, bits_of(item.type) or 0) if item.is_phi else grown
                is_widened |= made != before
            if made != before:
                known[name] = made
                users = analyses.users.get(name, ())
                pending.update(each.result for each in users if each.result in items)
    for _ in range(_NARROWINGS if is_widened else 0):
        for name, item in items.items():
            if name in known:
                made = _made(item, known, items)
                known[name] = _counted(item, function, items) or made if item.is_phi else made
    return known


def _counted(
    phi: Instruction, function: Function, items: Mapping[str, Instruction]
) -> Range | None:
    """The range of a phi that counts up from a constant, and whose loop goes on unless the next
    number is another constant."""
    ways = tuple(zip(phi.operands, phi.sources, strict=True))
    if len(ways) != 2:
        return None
    for (first, _), (later, label) in itertools.permutations(ways):
        following, block = items.get(later.text), function.blocks[label]
        asked, start = items.get(block.condition or ""), first.number
        if following is None or asked is None or start is None:
            continue
        step, end = following.operands[-1].number or 0, asked.operands[-1].number
        counts = following.opcode == "add" and following.operands[0].text == phi.result
        asks = asked.opcode == "icmp" and asked.operands[0].text == later.text
        if not (counts and asks and asked.predicate == "eq" and end is not None):
            continue
        ends, goes_on = (function.blocks[target].phis for target in block.successors)
        if (
            phi in goes_on
            and phi not in ends
            and 0 < step <= end - start
            and not (end - start) % step
        ):
            return start, end - step
    return None


def _of_parameter(parameter: Parameter) -> Range | None:
    """The range of an integer parameter, by its attribute `range` if it has one."""
    kind, _, attributes = parameter.type.partition(" ")
    bits = bits_of(kind)
    return None if bits is None else declared_range(attributes) or whole(bits)


def _range(operand: Operand, known: dict[str, Range]) -> Range:
    bits = bits_of(operand.type)
    assert bits is not None, operand
    if operand.number is not None:
        # LLVM writes -1 of an i1 as true, whose number is 1.
        number = operand.number if bits > 1 else -operand.number
        return number, number
    return known.get(operand.text) or whole(bits)


def _made(item: Instruction, known: dict[str, Range], items: Container[str]) -> Range:
    """The range of a result; of a phi by those of its operands that have one: what is made later on
    the way around a loop has none at first."""
    bits = bits_of(item.type)
    assert bits is not None
    low, high = declared_range(item.convention) or whole(bits)
    operands = item.operands[1:] if item.opcode == "select" else item.operands
    if item.is_phi:
        operands = tuple(each for each in operands if each.text in known or each.text not in items)
    if not operands or any(bits_of(each.type) is None for each in operands):
        return low, high
    ranges = [_range(each, known) for each in operands]
    if item.opcode in ("phi", "select"):
        return _union(*ranges)
    if item.opcode == "zext":
        source = bits_of(operands[0].type) or 0
        return ranges[0] if ranges[0][0] >= 0 else (0, (1 << source) - 1)
    if item.opcode == "lshr" and ranges[0][0] < 0 < ranges[1][0]:
        return 0, (1 << max(bits - ranges[1][0], 0)) - 1
    made = _unlimited(item, ranges)
    if made is not None and (item.convention or "nsw" in item.flags):
        made = max(made[0], low), min(made[1], high)
    return made if made is not None and low <= made[0] <= made[1] <= high else (low, high)


def _unlimited(item: Instruction, ranges: list[Range]) -> Range | None:
    """The range of a result, were integers not limited; None if it may be any."""
    opcode = item.opcode
    if item.callee is not None:
        # As in `llvm.smax.i64`, and in the calls that divisions become.
        name = item.callee.removeprefix("llvm.").removeprefix(PREFIX).removeprefix("near_")
        opcode = name.partition(".")[0]
    if opcode in ("sext", "trunc"):
        return ranges[0]
    rule = _RULES.get(opcode)
    return rule(*ranges) if rule is not None and len(ranges) == 2 else None


def _union(*ranges: Range) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _widened(before: Range, made: Range, bits: int) -> Range:
    """Both, with what grew made as large as it can be; a number that is not negative stays so."""
    least, greatest = whole(bits)
    low = before[0] if made[0] >= before[0] else 0 if made[0] >= 0 else least
    return low, before[1] if made[1] <= before[1] else greatest


def _hull(numbers: Iterable[int]) -> Range:
    found = [*numbers]
    return min(found), max(found)


def _product(left: Range, right: Range) -> Range:
    return _hull(one * other for one in left for other in right)


def _amounts(right: Range) -> Range:
    """By how many bits may be shifted: as many as a type has would be poison."""
    return max(right[0], 0), min(right[1], _MOST_BITS) if right[1] >= 0 else _MOST_BITS


def _shifted(left: Range, right: Range) -> Range:
    least, most = _amounts(right)
    return _product(left, (1 << least, 1 << most))


def _shifted_back(left: Range, right: Range) -> Range:
    return _hull(number >> amount for number in left for amount in _amounts(right))


def _common_bits(left: Range, right: Range) -> Range | None:
    highest = [high for low, high in (left, right) if low >= 0]
    return (0, min(highest)) if highest else None


def _joined_bits(left: Range, right: Range) -> Range:
    return 0, (1 << max(left[1], right[1]).bit_length()) - 1


def _quotient(left: Range, right: Range) -> Range:
    size = max(-left[0], left[1])
    return (0 if left[0] >= 0 and right[0] >= 0 else -size), size


def _remainder(left: Range, right: Range) -> Range:
    size = max(-right[0], right[1])
    return max(min(left[0], 0), -size), min(max(left[1], 0), size)


def _unsigned_remainder(left: Range, right: Range) -> Range | None:
    if left[0] >= 0:
        return 0, left[1]
    return (0, right[1]) if right[0] >= 0 else None


_Rule = Callable[[Range, Range], Range | None]


def _of_nonnegative(rule: _Rule) -> _Rule:
    """A rule that holds where neither number is below 0."""
    return lambda left, right: rule(left, right) if min(left[0], right[0]) >= 0 else None


def _smaller(left: Range, right: Range) -> Range:
    return min(left[0], right[0]), min(left[1], right[1])


def _larger(left: Range, right: Range) -> Range:
    return max(left[0], right[0]), max(left[1], right[1])


_RULES: dict[str, _Rule] = {
    "add": lambda left, right: (left[0] + right[0], left[1] + right[1]),
    "sub": lambda left, right: (left[0] - right[1], left[1] - right[0]),
    "mul": _product,
    "shl": _shifted,
    "ashr": _shifted_back,
    "lshr": lambda left, right: _shifted_back(left, right) if left[0] >= 0 else None,
    "and": _common_bits,
    "or": _of_nonnegative(_joined_bits),
    "xor": _of_nonnegative(_joined_bits),
    "sdiv": _quotient,
    "udiv": lambda left, _: (0, left[1]) if left[0] >= 0 else None,
    "srem": _remainder,
    "urem": _unsigned_remainder,
    "smin": _smaller,
    "smax": _larger,
    "umin": _of_nonnegative(_smaller),
    "umax": _of_nonnegative(_larger),
}
