"""Proves that threads do not stop at a branch, by what a launch is tested for.

A claim is a form that is to be not below 0. The symbols in it that are not known when the launch
begins are eliminated one after the other, the one made last first: an inequality in which it has
the same sign is taken off as often as it takes (Fourier's method). What is left is a number, or a
test for the launch. There may be several ways to a claim, each with tests of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from haulage.compiler.bounds.enumerated import evaluated, states
from haulage.compiler.bounds.inequalities import Inequalities, Value, is_iteration, operand_of
from haulage.compiler.simt.analysis.affine import Form, Monomial, Symbol, number
from haulage.compiler.simt.analysis.exits import stopping
from haulage.compiler.simt.analysis.induction import OPPOSITE, Test, entering
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Operand
from haulage.compiler.simt.ir.types import bits_of


class LaunchTest(NamedTuple):
    """That a sum of monomials, with factors that have no common divisor, and a constant is not
    below 0."""

    factors: frozenset[tuple[Monomial, int]]
    constant: int


# Ways to prove something, each with all that a launch has to be tested for; without any it cannot
# be proven, and one that needs no test proves it.
Ways = tuple[frozenset[LaunchTest], ...]

PROVEN: Ways = (frozenset(),)
UNPROVEN: Ways = ()

# So many ways to one claim are kept, the shortest ones.
_MOST_WAYS = 3
_MOST_TESTS = 6
# Eliminations behind one another, and tries for one branch.
_MOST_DEPTH = 20
_MOST_TRIES = 1000
_MOST_MONOMIALS = 24
# Loops around one another whose counters are gone through.
_MOST_LOOPS = 3


class Place(NamedTuple):
    """A block, and what some values are there."""

    label: str
    values: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Proof:
    """That no thread stops at the branch that ends the block `label`, but goes on in `target`, in
    launches that pass all tests of one of `ways`."""

    label: str
    target: str
    ways: Ways


def proofs(analyses: Analyses, sizes: tuple[int, int, int]) -> list[Proof]:
    """What can be proven of a kernel's branches to a fault, for blocks of `sizes` threads."""
    stops = analyses.get(stopping)
    prover = _Prover(Inequalities(analyses, sizes))
    found: list[Proof] = []
    for label in analyses.order:
        block = analyses.function.blocks[label]
        targets = [target for target in block.successors if target not in stops]
        if block.condition is None or len(targets) != 1 or label in stops:
            continue
        outcome = targets[0] == block.successors[0]
        ways = prover.branch((block.condition, outcome), label)
        if ways:
            found.append(Proof(label, targets[0], ways))
    return found


class _Prover:
    def __init__(self, known: Inequalities) -> None:
        self._known = known
        self._tries = self._depth = 0
        self._claims: dict[tuple[frozenset[tuple[Monomial, int]], Place], Ways] = {}

    def branch(self, test: Test, label: str) -> Ways:
        """The ways to prove a test at the end of a block."""
        self._tries = _MOST_TRIES
        return self._test(test, Place(label))

    # ---- tests ------------------------------------------------------------------------------

    def _test(self, test: Test, place: Place) -> Ways:
        condition, outcome = test
        items = self._known.analyses.items
        if condition in ("true", "false"):
            return PROVEN if (condition == "true") == outcome else UNPROVEN
        item = items.get(condition)
        if item is None or item.type != "i1":
            return UNPROVEN
        if item.opcode == "xor" and item.operands[1].number == 1:
            return self._test((item.operands[0].text, not outcome), place)
        if item.opcode == "icmp" and bits_of(item.operands[0].type) not in (None, 1):
            order = item.predicate[-2:] if outcome else OPPOSITE[item.predicate[-2:]]
            unsigned = item.predicate[0] == "u" and "samesign" not in item.flags
            left, right = item.operands
            return self._comparison(order, unsigned, left, right, place)
        parts = [(each.text, outcome) for each in item.operands]
        if item.opcode == "select":
            first, one, other = item.operands
            if other.number == 0 or one.number == 1:
                is_all = other.number == 0
                parts = [(first.text, outcome), ((one if is_all else other).text, outcome)]
                return self._joined(parts, place, every=is_all == outcome)
            return UNPROVEN
        if item.opcode in ("and", "or"):
            return self._joined(parts, place, every=(item.opcode == "and") == outcome)
        return UNPROVEN

    def _joined(self, tests: list[Test], place: Place, *, every: bool) -> Ways:
        one, other = (self._test(test, place) for test in tests)
        return _both(one, other) if every else _either(one, other)

    def _comparison(
        self, order: str, unsigned: bool, left: Operand, right: Operand, place: Place
    ) -> Ways:
        if order == "eq":
            return _both(
                self._not_below(left, right, 0, place), self._not_below(right, left, 0, place)
            )
        if order == "ne":
            return _either(
                self._not_below(left, right, 1, place), self._not_below(right, left, 1, place)
            )
        low, high = (left, right) if order[0] == "l" else (right, left)
        ways = self._not_below(high, low, int(order[1] == "t"), place)
        if unsigned and ways:
            ways = _both(ways, self._not_below(low, Operand(low.type, "0"), 0, place))
        return ways

    def _not_below(self, high: Operand, low: Operand, by: int, place: Place) -> Ways:
        """The ways to prove that one operand is another one plus a number, or more."""
        one, other = self._known.value(high), self._known.value(low)
        claim = one.form.plus(other.form, -1).plus(number(-by))
        claims = [claim, *one.unless_wrapped, *other.unless_wrapped]
        return self._all(claims, place)

    # ---- claims -----------------------------------------------------------------------------

    def _all(self, claims: list[Form], place: Place) -> Ways:
        ways = PROVEN
        for claim in claims:
            ways = _both(ways, self._claim(claim, place))
            if not ways:
                break
        return ways

    def _claim(self, claim: Form, place: Place) -> Ways:
        """The ways to prove that a form is not below 0 at a block."""
        claim = self._at_values(claim, place)
        if claim.monomials.keys() <= {()}:
            return PROVEN if claim.constant >= 0 else UNPROVEN
        key = frozenset(claim.monomials.items()), place
        if key in self._claims:
            return self._claims[key]
        self._tries -= 1
        if self._tries < 0 or self._depth > _MOST_DEPTH or len(claim.monomials) > _MOST_MONOMIALS:
            return UNPROVEN
        unknown = [each for each in claim.symbols if not self._known.is_given(each)]
        if not unknown:
            ways = self._given(claim)
        else:
            # Against a circle: what is being proven proves nothing.
            self._claims[key] = UNPROVEN
            first = max(unknown, key=lambda each: (self._known.rank(each), each))
            self._depth += 1
            ways = self._enumerated(claim, first, place)
            if ways != PROVEN:
                ways = _either(ways, self._eliminated(claim, first, place))
            self._depth -= 1
        if self._tries >= 0:
            self._claims[key] = ways
        else:
            self._claims.pop(key, None)
        return ways

    def _at_values(self, form: Form, place: Place) -> Form:
        """A form with the values that are known at a place."""
        if not place.values or not form.monomials.keys() - {()}:
            return form
        values = dict(place.values)
        forms: dict[Symbol, Form] = {}
        for each in form.symbols:
            value = evaluated(self._known.analyses, operand_of(each), values)
            if value is not None:
                forms[each] = number(value)
        return Form(form.replaced(forms).monomials)

    def _given(self, claim: Form) -> Ways:
        """A claim about what is known when the launch begins is a test, unless it always holds or
        never does."""
        divisor = gcd(*(factor for monomial, factor in claim.monomials.items() if monomial))
        factors = {each: factor // divisor for each, factor in claim.monomials.items()}
        constant = factors.pop((), 0)
        least, most = self._known.range_of(claim)
        if least >= 0 or most < 0:
            return PROVEN if least >= 0 else UNPROVEN
        return (frozenset([LaunchTest(frozenset(factors.items()), constant)]),)

    def _eliminated(self, claim: Form, each: Symbol, place: Place) -> Ways:
        known = self._known
        split = _coefficient(claim, each)
        if split is None:
            return UNPROVEN
        factor, rest = split
        counted = known.counted(each)
        if counted is not None:
            return self._all(_with_value(counted.value, factor, rest), place)
        if is_iteration(each):
            return self._over_iterations(claim, each, factor, rest, place)
        ways = UNPROVEN
        sign = self._sign(factor)
        if sign:
            for inequality in self._inequalities(each, place):
                left = _without(factor, rest, inequality, each, sign)
                if left is not None:
                    ways = _either(ways, self._claim(left, place))
                if ways == PROVEN:
                    return ways
        for condition, value in known.choices(each):
            decided = self._test(condition, place)
            if decided:
                found = self._all(_with_value(value, factor, rest), place)
                ways = _either(ways, _both(decided, found))
        both = None if ways == PROVEN else known.alternatives(each)
        if both is not None:
            parts = [self._all(_with_value(each, factor, rest), place) for each in both]
            ways = _either(ways, _both(*parts))
        return ways

    def _enumerated(self, claim: Form, each: Symbol, place: Place) -> Ways:
        """The ways to prove a claim for each of the few numbers that a loop's counters are."""
        done = dict(place.values)
        ways = UNPROVEN
        for state in self._states(each, done):
            here = Place(place.label, (*place.values, *sorted(state.items())))
            if any(
                form.monomials.keys() <= {()} and form.constant < 0
                for form in (self._at_values(each, here) for each in self._known.at(place.label))
            ):
                # No thread comes here in this iteration.
                found = PROVEN
            else:
                found = self._claim(claim, here)
            ways = found if ways == UNPROVEN else _both(ways, found)
            if not found:
                return UNPROVEN
        return ways

    def _states(self, each: Symbol, done: dict[str, int]) -> list[dict[str, int]]:
        """What the counters are of a loop that a symbol is made from, or of the loop that this one
        begins with the numbers of."""
        analyses = self._known.analyses
        loop = self._known.loop_with(each.value)
        if evaluated(analyses, operand_of(each), done) is not None:
            return []
        for _ in range(_MOST_LOOPS):
            if loop is None:
                break
            found = states(analyses, loop, done)
            if found and not found[0].keys() <= done.keys():
                return found
            phis = analyses.function.blocks[loop.header].phis
            starts = [entering(phi, loop, first=True) for phi in phis]
            outer = [self._known.loop_with(start.text) for start in starts if start is not None]
            loop = next((one for one in outer if one is not None and one is not loop), None)
        return []

    def _inequalities(self, each: Symbol, place: Place) -> Iterator[Form]:
        for form in self._known.at(place.label):
            here = self._at_values(form, place)
            if each in here.symbols:
                yield here
        for form in self._known.of(each, dict(place.values)):
            here = self._at_values(form, place)
            if each in here.symbols:
                yield here

    def _over_iterations(
        self,
        claim: Form,
        count: Symbol,
        factor: Form,
        rest: Form,
        place: Place,
    ) -> Ways:
        """The ways to prove a claim for all iterations of a loop."""
        sign = self._sign(factor)
        if sign == 0:
            return UNPROVEN
        first = self._claim(rest, place)
        if sign > 0 or not first:
            return first
        ways = UNPROVEN
        loop = self._known.loop_of(count)
        # On the way to this block.
        for form in (self._at_values(each, place) for each in self._known.at(place.label)):
            counted = self._by_iterations(form, count)
            if counted is not None:
                ways = _either(ways, self._with(counted, count, factor, rest, [], place))
                if ways == PROVEN:
                    return ways
        # At the end of the iteration before, unless this is the first one.
        for form, is_nearing in self._known.repeated(loop):
            rounded = self._known.rounded_up(loop, form)
            if rounded is not None:
                dividend, divisor = rounded
                times = Form({(count,): 1}).times(divisor)
                below = dividend.plus(number(-1)).plus(times, -1)
                found = self._with(Value(below), count, factor, rest, [dividend], place)
                ways = _either(ways, _both(first, found))
            counted = self._by_iterations(form, count)
            split = None if counted is None else _coefficient(counted.form, count)
            if counted is None or split is None:
                continue
            begins = []
            if is_nearing:
                if split[0].monomials != {(): -1}:
                    continue
                begins = [split[1].plus(number(1))]
            before = Value(counted.form.plus(split[0], -1), counted.unless_wrapped)
            found = self._with(before, count, factor, rest, begins, place)
            ways = _either(ways, _both(first, found))
            if ways == PROVEN:
                return ways
        return ways

    def _by_iterations(self, form: Form, count: Symbol) -> Value | None:
        """An inequality about phis of a loop as one about its iteration; None if it is about
        anything else that the loop makes."""
        loop = self._known.loop_of(count)
        forms: dict[Symbol, Form] = {}
        wrapping: list[Form] = []
        for each in form.symbols:
            if self._known.analyses.definitions.get(each.value, ("", None))[0] not in loop.labels:
                continue
            counted = self._known.counted(each)
            if counted is None or counted.count != count:
                return None
            forms[each] = counted.value.form
            wrapping += counted.value.unless_wrapped
        if not forms:
            return None
        return Value(Form(form.replaced(forms).monomials), tuple(wrapping))

    def _with(
        self,
        inequality: Value,
        count: Symbol,
        factor: Form,
        rest: Form,
        others: list[Form],
        place: Place,
    ) -> Ways:
        """The ways to prove a claim that falls with the iteration by an inequality that bounds
        it, which holds if the forms `others` are not below 0."""
        left = _without(factor, rest, inequality.form, count, -1)
        if left is None:
            return UNPROVEN
        return self._all([left, *inequality.unless_wrapped, *others], place)

    def _sign(self, factor: Form) -> int:
        """1 or -1 for a form that is not below 0, or not above it; 0 if that is not known."""
        signs = {
            1 if times > 0 else -1
            for monomial, times in factor.monomials.items()
            if all(map(self._known.is_nonnegative, monomial))
        }
        unknown = any(
            not all(map(self._known.is_nonnegative, monomial)) for monomial in factor.monomials
        )
        return 0 if unknown or len(signs) != 1 else signs.pop()


def _with_value(value: Value, factor: Form, rest: Form) -> list[Form]:
    """A claim that has a factor times a value, and what says that the value did not wrap."""
    return [rest.plus(factor.times(value.form)), *value.unless_wrapped]


def _without(factor: Form, rest: Form, inequality: Form, each: Symbol, sign: int) -> Form | None:
    """What is left of `factor` times a symbol and `rest`, times a number above 0, if an inequality
    is taken off as often as it takes for the symbol to be gone; None if that is no number of times.
    `sign` is that of the factor."""
    found = _coefficient(inequality, each)
    if found is None:
        return None
    if found[0].monomials == factor.monomials:
        return Form(rest.plus(found[1], -1).monomials)
    if found[0].monomials.keys() != {()} or found[0].constant * sign < 0:
        return None
    taken = found[1].times(factor.times(number(sign)))
    return Form(rest.times(number(abs(found[0].constant))).plus(taken, -1).monomials)


def _coefficient(form: Form, each: Symbol) -> tuple[Form, Form] | None:
    """(what a symbol is multiplied by in a form, the rest); None if it stands in a power."""
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, times in form.monomials.items():
        count = monomial.count(each)
        if count > 1:
            return None
        if count:
            place = monomial.index(each)
            factor[monomial[:place] + monomial[place + 1 :]] = times
        else:
            rest[monomial] = times
    return Form(factor), Form(rest)


def _either(one: Ways, other: Ways) -> Ways:
    return _shortest({*one, *other})


def _both(one: Ways, other: Ways) -> Ways:
    if one == PROVEN or other == PROVEN:
        return other if one == PROVEN else one
    return _shortest({_merged(mine | theirs) for mine in one for theirs in other})


def _merged(way: frozenset[LaunchTest]) -> frozenset[LaunchTest]:
    """The tests of a way, of which those about the same sum are one."""
    least: dict[frozenset[tuple[Monomial, int]], int] = {}
    for factors, constant in way:
        least[factors] = min(constant, least.get(factors, constant))
    return frozenset(LaunchTest(*each) for each in least.items())


def _shortest(ways: Iterable[frozenset[LaunchTest]]) -> Ways:
    kept: list[frozenset[LaunchTest]] = []
    for way in sorted((way for way in ways if len(way) <= _MOST_TESTS), key=_order):
        if not any(_is_implied(other, way) for other in kept):
            kept = [other for other in kept if not _is_implied(way, other)]
            kept.append(way)
    return tuple(kept[:_MOST_WAYS])


def _is_implied(way: frozenset[LaunchTest], by: frozenset[LaunchTest]) -> bool:
    """Whether launches that pass the tests of one way pass those of another."""
    given = dict(by)
    return all(given.get(factors, constant + 1) <= constant for factors, constant in way)


def _order(way: frozenset[LaunchTest]) -> tuple[int, int, str]:
    return len(way), sum(len(test.factors) for test in way), str(sorted(map(_listed, way)))


def _listed(test: LaunchTest) -> tuple[list[tuple[Monomial, int]], int]:
    return sorted(test.factors), test.constant
