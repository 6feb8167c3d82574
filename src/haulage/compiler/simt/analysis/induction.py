"""How the values of a loop change from iteration to iteration, and how many iterations it makes.

LLVM's ScalarEvolution calls these add recurrences and trip counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from haulage.compiler.simt.analysis.affine import AffineForms, Form, forms, number, symbol
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Function, Instruction, Operand

OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}

# A condition and the outcome that it has.
Test = tuple[str, bool]


def conjuncts(items: Mapping[str, Instruction], test: Test) -> list[Test]:
    """The tests that all hold if one does, which is their conjunction."""
    condition, outcome = test
    item = items.get(condition)
    if item is None or item.type != "i1":
        return [test]
    opcode, parts = item.opcode, item.operands
    if opcode == "select":
        # `select a, b, false` is a conjunction, `select a, true, b` a disjunction.
        first, one, other = parts
        ending, parts = (other, (first, one)) if outcome else (one, (first, other))
        opcode = ("and" if outcome else "or") if ending.number == (not outcome) else ""
    if opcode == "xor" and parts[1].number == 1:
        return conjuncts(items, (parts[0].text, not outcome))
    if opcode != ("and" if outcome else "or"):
        return [test]
    return [leaf for part in parts for leaf in conjuncts(items, (part.text, outcome))]


@dataclass(frozen=True)
class Recurrence:
    """What a phi of a loop's header is in the next iteration: `following`, by which number it is
    more, None if that is the same in each but not known here."""

    following: str
    step: int | None


def recurrences(function: Function, loop: Loop) -> Mapping[str, Recurrence]:
    """The phis of a loop's header that change by the same number in each iteration."""
    items = {
        item.result: item
        for label in loop.labels
        for item in function.blocks[label].instructions()
        if item.result is not None
    }
    forms = AffineForms(items)
    found: dict[str, Recurrence] = {}
    for phi in function.blocks[loop.header].phis:
        following = entering(phi, loop, first=False)
        if following is None or following.text not in items or phi.result is None:
            continue
        change = forms.of(following).plus(symbol(phi.result, phi.type), -1)
        if not any(each.value in items for each in change.symbols):
            step = None if change.symbols else change.constant
            found[phi.result] = Recurrence(following.text, step)
    return found


def trip_count(function: Function, loop: Loop) -> int | None:
    """How many iterations a loop with one exit makes, or one less, if that can be read from it."""
    exits = _exits(function, loop)
    for phi in function.blocks[loop.header].phis:
        if phi.result in exits and {each.text for each in phi.operands} <= {"true", "false"}:
            # LLVM's way to count to two.
            return 1
    items = (item for label in loop.labels for item in function.blocks[label].body)
    condition = next((item for item in items if item.result in exits), None)
    if len(exits) != 1 or condition is None or condition.opcode != "icmp":
        return None
    counter, bound = condition.operands
    stepping = recurrences(function, loop)
    for phi in function.blocks[loop.header].phis:
        recurrence, start = stepping.get(phi.result or ""), entering(phi, loop, first=True)
        if recurrence is None or not recurrence.step or start is None or start.number is None:
            continue
        if bound.number is not None and counter.text in (phi.result, recurrence.following):
            return max(1, (bound.number - start.number) // recurrence.step)
    return None


def is_counted(analyses: Analyses, loop: Loop) -> bool:
    """Whether a loop's one exit compares a counter with what the loop does not change, so that the
    trip count is known when it begins."""
    exits, stepping = _exits(analyses.function, loop), recurrences(analyses.function, loop)
    condition = analyses.items.get(exits[0] or "") if len(exits) == 1 else None
    if condition is None or condition.opcode != "icmp":
        return False
    made = {name for name, (label, _) in analyses.definitions.items() if label in loop.labels}
    return made.intersection(condition.uses) <= stepping.keys() | {
        each.following for each in stepping.values()
    }


def _exits(function: Function, loop: Loop) -> list[str | None]:
    """The conditions by which threads leave a loop, None for an end that is no branch."""
    blocks = map(function.blocks.__getitem__, loop.labels)
    return [block.condition for block in blocks if not loop.labels.issuperset(block.successors)]


def entering(phi: Instruction, loop: Loop, *, first: bool) -> Operand | None:
    """What a phi of the loop's header is in the first iteration, or in later ones, if that is one
    value."""
    sources = zip(phi.operands, phi.sources, strict=True)
    values = {value for value, label in sources if (label in loop.labels) != first}
    return values.pop() if len(values) == 1 else None


# ---- loops over a range -------------------------------------------------------------------------


@dataclass(frozen=True)
class RangeLoop:
    """A loop that is made for `start`, `start + step` and so on below `end`, 64-bit signed numbers,
    which its phi `index` is. If it counts its iterations down, `counting` are the names of the phi
    that does, of what follows it and of the condition, which are used for nothing else."""

    index: str
    start: Operand
    step: Form
    end: Form
    counting: frozenset[str] = frozenset()


def range_loop(
    analyses: Analyses, loop: Loop, entered: Iterable[Test], repeated: Test
) -> RangeLoop | None:
    """The range of a loop that is entered if the tests `entered` hold, and goes on while `repeated`
    does.

    A `while` loop compares its index with the end. Numba counts the iterations of
    `range(start, end, step)` when the loop begins: (end - start) / step, rounded up.
    """
    known, stepping = analyses.get(forms), recurrences(analyses.function, loop)
    phis = [phi for phi in analyses.function.blocks[loop.header].phis if phi.result in stepping]
    starts = {phi.result or "": entering(phi, loop, first=True) for phi in phis}
    integers = {name: start for name, start in starts.items() if start and start.type == "i64"}
    goes_on = _below_0(analyses, repeated)
    tests = [part for test in entered for part in conjuncts(analyses.items, test)]
    asked = [_below_0(analyses, test) for test in tests]
    if goes_on is None:
        return None
    count = next((name for name in integers if _are_equal(goes_on, _left(name))), None)
    trips = None if count is None else integers[count]
    counting = frozenset({count, stepping[count].following, repeated[0]} if count else ())
    users = [item for name in counting for item in analyses.users[name]]
    if any(item.opcode != "br" and item.result not in counting for item in users):
        return None
    quotient = None if trips is None else rounded_up(analyses, trips.text)
    for name, start in integers.items():
        following = stepping[name].following
        step = known.of(Operand("i64", following)).plus(symbol(name, "i64"), -1)
        if quotient is not None and _are_equal(quotient[1], step):
            end = known.of(start).plus(quotient[0])
        elif count is None and following in analyses.items[repeated[0]].uses:
            end = symbol(name, "i64").plus(step).plus(goes_on, -1)
        else:
            continue
        some = known.of(start).plus(end, -1)
        follows = [_are_equal(form, some) for form in asked]
        if any(follows) and all(
            follow or (trips is not None and _is_any(analyses, test, trips))
            for test, follow in zip(tests, follows, strict=True)
        ):
            return RangeLoop(name, start, step, end, counting)
    return None


def _left(count: str) -> Form:
    """What is below 0 if a phi that counts down is not the last iteration's."""
    return number(1).plus(symbol(count, "i64"), -1)


def _are_equal(one: Form | None, other: Form) -> bool:
    return one is not None and not one.plus(other, -1).monomials


def _is_any(analyses: Analyses, test: Test, trips: Operand) -> bool:
    """Whether a test says of an unsigned number that it is not 0."""
    item = analyses.items.get(test[0])
    if item and item.predicate == ("ne" if test[1] else "eq"):
        return item.operands[0] == trips and item.operands[1].number == 0
    return _are_equal(_below_0(analyses, test), number(0).plus(analyses.get(forms).of(trips), -1))


def _below_0(analyses: Analyses, test: Test) -> Form | None:
    """What a test says to be below 0, by a comparison of signed numbers."""
    item = analyses.items.get(test[0])
    if item is None or item.opcode != "icmp" or item.operands[0].type != "i64":
        return None
    order = item.predicate[-2:] if test[1] else OPPOSITE[item.predicate[-2:]]
    if order in ("eq", "ne") or (item.predicate[0] == "u" and "samesign" not in item.flags):
        return None
    low, high = item.operands if order[0] == "l" else item.operands[::-1]
    difference = analyses.get(forms).of(low).plus(analyses.get(forms).of(high), -1)
    if order[1] == "t":
        return difference
    # LLVM writes 0 < a as 1 <= a, too; what follows another end may be no number of 64 bits.
    is_known = low.number is not None or high.number is not None
    return difference.plus(number(-1)) if is_known else None


def rounded_up(analyses: Analyses, trips: str) -> tuple[Form, Form] | None:
    """(dividend, divisor) of a quotient of numbers above 0 that is rounded up, as Numba makes it;
    None if a value is none."""
    known, items = analyses.get(forms), analyses.items
    item = items.get(trips)
    if item is None or len(item.operands) != 2:
        return None
    if item.opcode == "lshr" and item.operands[1].number is not None:
        divisor = 1 << item.operands[1].number
        return known.of(item.operands[0]).plus(number(1 - divisor)), number(divisor)
    quotient, more = (items.get(each.text) for each in item.operands)
    if more is not None and more.opcode == "udiv":
        quotient, more = more, quotient
    if item.opcode != "add" or quotient is None or quotient.opcode != "udiv" or more is None:
        return None
    asked = items.get(more.operands[0].text) if more.opcode == "zext" else None
    if asked is None or asked.predicate != "ne" or asked.operands[1].number != 0:
        return None
    left = items.get(asked.operands[0].text)
    if left is None or left.opcode != "urem" or left.operands != quotient.operands:
        return None
    return known.of(quotient.operands[0]), known.of(quotient.operands[1])
