"""Proves that no two threads of a launch access a common byte of an array.

What is added to the array's address is a sum of products: numbers that the launch knows times the
indices of the thread and the block, and times the iterations of loops. These are its digits, if
each number is larger than all that the smaller ones come to; then threads that differ in an index
differ in a digit, in whatever iterations they are. Digits are limited by the conditions on the way
to an access: of `row * n + column` the column is one where `column < n`. Where a kernel takes a
number apart by divisions, `i // n` and `i % n`, these are digits of `i`.

That numbers are the digits of a mixed radix is how LLVM and Polly find out that accesses of
linearised arrays are those of different elements (Grosser et al., "Optimistic Delinearization of
Parametrically Sized Arrays", ICS 2015); here it is decided with the numbers of one launch. What it
does not prove is checked as the kernel runs.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf

import numpy as np

from haulage.compiler.bounds.enumerated import evaluated, states
from haulage.compiler.bounds.inequalities import Inequalities, Value, is_iteration, operand_of
from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.affine import Form, Symbol, symbol
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Operand, value_name
from haulage.compiler.simt.ir.types import bits_of

_MOST_ROUNDS = 4
_MOST_NUMBERS = 1 << 20
_MOST_ACCESSES = 64
# By what one of two values is chosen: how the first one then compares with the second.
_CHOICES = {"llvm.smin": "slt", "llvm.smax": "sgt", "llvm.umin": "ult", "llvm.umax": "ugt"}
_ORDERS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
OF_THREAD = tuple(f"%threadIdx.{axis}" for axis in AXES)
OF_BLOCK = tuple(f"%blockIdx.{axis}" for axis in AXES)

Limits = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Sum:
    """A constant, and what indices and iterations, by their names, are multiplied by."""

    constant: int
    factors: Mapping[str, int]

    def at(self, limits: Limits) -> "Sum":
        """With the numbers in place of what is only one number."""
        fixed = {n for n in self.factors if n in limits and limits[n][0] == limits[n][1]}
        constant = self.constant + sum(int(self.factors[n] * limits[n][0]) for n in fixed)
        return Sum(constant, {n: f for n, f in self.factors.items() if n not in fixed})

    def minus(self, other: "Sum") -> "Sum":
        """What it is more than another one."""
        factors = dict(self.factors)
        for name, factor in other.factors.items():
            factors[name] = factors.get(name, 0) - factor
        constant = self.constant - other.constant
        return Sum(constant, {name: factor for name, factor in factors.items() if factor})


@dataclass(frozen=True)
class Digit:
    """What of a sum, which is not below 0, is left modulo `high`, divided by `low`."""

    whole: Sum
    low: int
    high: float


@dataclass(frozen=True)
class Access:
    """What is added to the array's address, the bytes of the access, and the block it is in."""

    offset: Sum
    nbytes: int
    label: str


@dataclass(frozen=True)
class Known:
    """A value as a form in iterations, which it is if all of `unless_wrapped` are not below 0 and
    none of the counters of loops `counters` wraps."""

    form: Form
    unless_wrapped: tuple["Known", ...] = ()
    counters: frozenset[Symbol] = frozenset()


class Forms:
    """The forms of a kernel's values in indices, iterations and what a launch knows."""

    def __init__(self, inequalities: Inequalities) -> None:
        self.inequalities, self.analyses = inequalities, inequalities.analyses
        self._of: dict[str, Known] = {}
        self._at: dict[str, list[Known]] = {}
        self._repeated: dict[str, list[Known]] = {}
        self._states: dict[str, list[dict[str, int]]] = {}

    def of(self, operand: Operand) -> Known:
        """The form of a value, with iterations in place of the counters of loops."""
        if operand.text not in self._of:
            self._of[operand.text] = self._counted_value(self.inequalities.value(operand))
        return self._of[operand.text]

    def at(self, label: str) -> list[Known]:
        """What is not below 0 in a block."""
        if label not in self._at:
            self._at[label] = [self._counted(form) for form in self.inequalities.at(label)]
        return self._at[label]

    def repeated(self, count: Symbol) -> list[Known]:
        """What is not below 0 at the end of an iteration, if another one follows."""
        if count.value not in self._repeated:
            found = self.inequalities.repeated(self.inequalities.loop_of(count))
            self._repeated[count.value] = [self._counted(form) for form, _ in found]
        return self._repeated[count.value]

    def trips(self, count: Symbol) -> int | None:
        """How many iterations a loop has at most, if these are few and the same for all threads."""
        return len(self._states_of(self.inequalities.loop_of(count))) or None

    def counters(self) -> Iterator[tuple[Symbol, str, tuple[Known, ...]]]:
        """The counters of loops that may wrap: each with its loop's header, and with what is not
        below 0 as long as it has not done so."""
        for loop in self.analyses.loops:
            for phi in self.analyses.function.blocks[loop.header].phis:
                each = Symbol(phi.result or "", phi.type)
                counted = self.inequalities.counted(each)
                if counted is not None and counted.value.unless_wrapped:
                    yield each, loop.header, self._counted_value(counted.value).unless_wrapped

    def _states_of(self, loop: Loop) -> list[dict[str, int]]:
        if loop.header not in self._states:
            self._states[loop.header] = states(self.analyses, loop, {})
        return self._states[loop.header]

    def _counted_value(self, value: Value) -> Known:
        known = self._counted(value.form)
        unless = tuple(self._counted(each) for each in value.unless_wrapped)
        return Known(known.form, unless, known.counters)

    def _counted(self, form: Form) -> Known:
        counters = set[Symbol]()
        for _ in range(_MOST_ROUNDS):
            known = {each: self._count(each) for each in form.symbols}
            counted = {each: found for each, found in known.items() if found is not None}
            if not counted:
                break
            counters |= counted.keys()
            form = Form(form.replaced(counted).monomials)
        return Known(form, (), frozenset(counters))

    def _count(self, each: Symbol) -> Form | None:
        """What a loop's counter is in an iteration."""
        counted = self.inequalities.counted(each)
        if counted is not None:
            return counted.value.form
        loop = self.inequalities.loop_with(each.value)
        if loop is None or is_iteration(each):
            return None
        values = [state.get(each.value) for state in self._states_of(loop)]
        if len(values) < 2 or values[0] is None or values[1] is None:
            return None
        first, step = values[0], values[1] - values[0]
        if values != [first + number * step for number in range(len(values))]:
            return None
        count = symbol(value_name(loop.header, "iteration"), "i64")
        return Form({(): first}).plus(count, step) if first else count.times(Form({(): step}))


class Launch:
    """A kernel with the numbers of one launch.

    Args:
        forms: of the kernel's values.
        values: the integers among its parameters, by their names.
        grid, block: the sizes.
    """

    def __init__(
        self,
        forms: Forms,
        values: Mapping[str, int],
        grid: Sequence[int],
        block: Sequence[int],
    ) -> None:
        self._forms, self._analyses = forms, forms.analyses
        sizes = {
            f"%{of}.{axis}": size
            for of, each in (("blockDim", block), ("gridDim", grid))
            for axis, size in zip(AXES, each, strict=True)
        }
        self._values = {**values, **sizes}
        indices = zip((*OF_THREAD, *OF_BLOCK), (*block, *grid), strict=True)
        self._ends = {name: size - 1 for name, size in indices}
        self._counts: dict[str, Symbol] = {}
        self._digits: dict[str, Digit] = {}
        self._numbers: dict[str, int | None] = {}
        self._at: dict[str, tuple[list[Sum], Limits]] = {}
        self._wrapping = frozenset[Symbol]()
        self._find_wrapping()

    def _find_wrapping(self) -> None:
        """Find the counters of loops that may wrap. That none does is what the limits of iterations
        are drawn from: the first that did would do so within them."""
        while True:
            found = {
                each
                for each, header, unless in self._forms.counters()
                if each not in self._wrapping
                and not all(self._is_nonnegative(known, header) for known in unless)
            }
            if not found:
                return
            self._wrapping |= found
            for of_these in (self._at, self._counts, self._digits):
                of_these.clear()

    # ---- numbers --------------------------------------------------------------------------------

    def offset(self, pointer: Operand, base: str, label: str) -> Sum | None:
        """What is added to the address `base` to make another one that is used in a block; None if
        that is not known."""
        found = self._value(pointer, label)
        if found is None or found.factors.get(base) != 1:
            return None
        others = {name: factor for name, factor in found.factors.items() if name != base}
        return Sum(found.constant, others) if all(map(self._is_named, others)) else None

    def _is_named(self, name: str) -> bool:
        """Whether something is an index, an iteration, or a digit."""
        return name in self._ends or name in self._counts or name in self._digits

    def _value(self, operand: Operand, label: str | None) -> Sum | None:
        """What an operand is in a block, or wherever it is made; None: that is not known, or it may
        wrap."""
        known = self._forms.of(operand)
        found = self._sum(known, label)
        for each in known.unless_wrapped if found is not None else ():
            if label is None or not self._is_nonnegative(each, label):
                return None
        return found

    def _sum(self, known: Known, label: str | None) -> Sum | None:
        """A form with the launch's numbers; None if there are products of what is none."""
        if known.counters & self._wrapping:
            return None
        constant, factors = 0, dict[str, int]()
        for monomial, times in known.form.monomials.items():
            left = []
            for each in monomial:
                number = self._number(each)
                if number is None:
                    left.append(each)
                else:
                    times *= number
            if len(left) > 1:
                return None
            chosen = self._chosen(left[0], label) if left and times and label else None
            if chosen is not None:
                value = self._value(chosen, label)
                if value is None:
                    return None
                constant += times * value.constant
                for name, factor in value.factors.items():
                    factors[name] = factors.get(name, 0) + times * factor
            elif not left:
                constant += times
            elif times:
                name, scale = self._digit(left[0], label) or (left[0].value, 1)
                times *= scale
                if is_iteration(left[0]):
                    self._counts[name] = left[0]
                factors[name] = factors.get(name, 0) + times
        return Sum(constant, {name: factor for name, factor in factors.items() if factor})

    def _number(self, each: Symbol) -> int | None:
        if is_iteration(each) or each.value in self._ends or each.type == "ptr":
            return None
        if each.value not in self._numbers:
            self._numbers[each.value] = evaluated(self._analyses, operand_of(each), self._values)
        return self._numbers[each.value]

    def _chosen(self, each: Symbol, label: str) -> Operand | None:
        """Which of two values a symbol is in a block, if it is one of them and always the same: as
        what Numba adds to an index if it is below 0."""
        item = self._analyses.items.get(each.value)
        if item is None or bits_of(item.type) in (None, 1):
            return None
        if item.opcode == "select":
            made = self._analyses.items.get(item.operands[0].text)
            if made is None or made.opcode != "icmp":
                return None
            test, values = made.predicate, item.operands[1:]
            unsigned = test[0] == "u" and "samesign" not in made.flags
            left, right = made.operands
        else:
            test = _CHOICES.get((item.callee or "").rpartition(".")[0], "")
            if not test:
                return None
            left, right = values = item.operands[:2]
            unsigned = test[0] == "u"
        holds = self._holds(test[-2:], left, right, label, unsigned=unsigned)
        return None if holds is None else values[0 if holds else 1]

    def _holds(
        self, order: str, left: Operand, right: Operand, label: str, *, unsigned: bool
    ) -> bool | None:
        """How a comparison comes out for all threads that come to a block; None: that is not known,
        or not alike for all."""
        one, other = self._value(left, label), self._value(right, label)
        if one is None or other is None:
            return None
        if unsigned and min(self._range(each, label)[0] for each in (one, other)) < 0:
            return None
        low, high = self._range(one.minus(other), label)
        if order in ("eq", "ne"):
            if low <= 0 <= high and low < high:
                return None
            return (low == high == 0) == (order == "eq")
        outcomes = {_ORDERS[order](end, 0) for end in (low, high)}
        return outcomes.pop() if len(outcomes) == 1 else None

    def _digit(self, each: Symbol, label: str | None) -> tuple[str, int] | None:
        """The name of the digit that a quotient or a remainder is, and how often it is that."""
        item = self._analyses.items.get(each.value)
        if item is None or item.opcode not in _DIVISIONS or len(item.operands) != 2:
            return None
        number = evaluated(self._analyses, item.operands[1], self._values)
        if number is None or (number < 0 and item.opcode != "and"):
            return None
        low, high, scale = _DIVISIONS[item.opcode](number)
        whole = self._value(item.operands[0], label) if low else None
        if whole is None or not whole.factors or not all(map(self._is_named, whole.factors)):
            return None
        # Indices and iterations are not below 0.
        if min(whole.constant, *whole.factors.values()) < 0 and not (
            self._analyses.get(ValueRanges).is_nonnegative(item.operands[0].text)
        ):
            return None
        (name, factor), *others = whole.factors.items()
        digit = Digit(whole, 1, inf)
        if name in self._digits and factor == 1 and not others and not whole.constant:
            digit = self._digits[name]
        for end in (low, high):
            if inf not in (digit.high, end) and digit.high // digit.low % end:
                return None
        digit = Digit(digit.whole, digit.low * low, min(digit.high, digit.low * high))
        for known, other in self._digits.items():
            if other == digit:
                return known, scale
        made = f"digit {len(self._digits)}"
        self._digits[made] = digit
        return made, scale

    def difference(
        self, left: Operand, right: Operand, label: str
    ) -> tuple[Sum, dict[str, float]] | None:
        """What a value is more than another one in a block, as a sum of indices and iterations, and
        the greatest that these are; None if it is no such sum. None of them is below 0."""
        one, other = self._value(left, label), self._value(right, label)
        if one is None or other is None:
            return None
        whole = one.minus(other)
        limits = self._known_at(label)[1]
        ends: dict[str, float] = dict(self._ends)
        ends |= {name: limits[name][1] for name in whole.factors if name in self._counts}
        is_known = all(ends.get(name, inf) < inf for name in whole.factors)
        return (whole, ends) if is_known else None

    # ---- conditions -----------------------------------------------------------------------------

    def _known_at(self, label: str) -> tuple[list[Sum], Limits]:
        """What is not below 0 in a block, and between which numbers indices and iterations are."""
        if (
            label not in self._at
            or not (self._counts.keys() | self._digits.keys()) <= self._at[label][1].keys()
        ):
            found = [self._sum(known, None) for known in self._forms.at(label)]
            known = [each for each in found if each is not None]
            limits: Limits = {name: (0, end) for name, end in self._ends.items()}
            for _ in range(_MOST_ROUNDS):
                for name in (*self._counts, *self._digits):
                    limits.setdefault(name, (0, inf))
                for each in known:
                    _limit(limits, each)
                for name, count in tuple(self._counts.items()):
                    self._limit_iterations(limits, name, count)
            for name in self._digits:
                limits.setdefault(name, (0, inf))
            fixed = [each.at(limits) for each in known]
            for name, digit in self._digits.items():
                most = digit.high - 1
                if digit.high == inf:
                    most = digit.whole.constant + _most(digit.whole.factors, fixed, limits)
                limits[name] = 0, min(limits[name][1], most // digit.low)
            self._at[label] = [each.at(limits) for each in known if each.factors], limits
        return self._at[label]

    def _limit_iterations(self, limits: Limits, name: str, count: Symbol) -> None:
        """Draw from what holds where a loop goes on how many iterations it has."""
        trips = self._forms.trips(count)
        if trips is not None:
            limits[name] = limits[name][0], min(limits[name][1], trips - 1)
        loop = self._forms.inequalities.loop_of(count)
        for form in self._forms.repeated(count):
            found = self._sum(form, None)
            if found is not None and found.factors.get(name, 0) < 0:
                # It held in the iteration before, if there was one.
                before = Sum(found.constant - found.factors[name], found.factors)
                then = {
                    other: ends if other == name or self._lasts(other, loop) else (0, inf)
                    for other, ends in limits.items()
                }
                _limit(then, before, only=name, least=0)
                limits[name] = then[name]

    def _lasts(self, name: str, loop: Loop) -> bool:
        """Whether something is one number in all iterations of a loop."""
        if name in self._digits:
            return all(self._lasts(each, loop) for each in self._digits[name].whole.factors)
        if name not in self._counts:
            return name in self._ends
        other = self._forms.inequalities.loop_of(self._counts[name])
        return other.header != loop.header and loop.header in other.labels

    def trips(self, name: str) -> tuple[Loop, int] | None:
        """The loop whose iterations something counts, and how many these are, if that is known."""
        if name not in self._counts:
            return None
        trips = self._forms.trips(self._counts[name])
        loop = self._forms.inequalities.loop_of(self._counts[name])
        return None if trips is None else (loop, trips)

    def numbers(self, whole: Sum, at: str | Mapping[str, int]) -> np.ndarray | None:
        """All that a sum can be in the block `at`, more if conditions limit several of its parts
        together; or for all threads of a block, and iterations up to those of `at`. None: that is
        not known, or very many."""
        if isinstance(at, str):
            limits = self._known_at(at)[1]
        else:
            limits = {name: (0, end) for name, end in (*self._ends.items(), *at.items())}
        found = np.array([whole.constant], np.int64)
        for name, factor in whole.factors.items():
            low, high = limits.get(name, (0, inf))
            if high == inf or low == -inf or found.size * (high - low + 1) > _MOST_NUMBERS:
                return None
            steps = factor * np.arange(int(low), int(high) + 1, dtype=np.int64)
            found = (found[:, None] + steps).ravel()
        return found

    def extent(self, access: Access) -> tuple[float, float]:
        """What is added to the array's address for the first byte that some thread accesses, at
        least, and for the byte behind the last one, at most."""
        least, most = self._range(access.offset, access.label)
        return least, most + access.nbytes

    def _range(self, whole: Sum, label: str) -> "_Ends":
        """Between which numbers a sum is in a block."""
        known, limits = self._known_at(label)
        here = whole.at(limits)
        low, high = _ends(here.factors, known, limits)
        return here.constant + low, here.constant + high

    def _is_nonnegative(self, known: Known, label: str) -> bool:
        found = self._sum(known, label)
        return found is not None and self._range(found, label)[0] >= 0

    # ---- the proof ------------------------------------------------------------------------------

    def separates(self, accesses: Sequence[Access], indices: Iterable[str]) -> bool:
        """Whether threads that differ in some of `indices` never access a common byte."""
        here = [_Here(each, *self._known_at(each.label)) for each in accesses]
        wanted = [
            name
            for name in indices
            if len({each.limits[name] for each in here}) > 1 or not here[0].is_fixed(name)
        ]
        digits = {name for each in here for name in each.offset.factors if name in self._digits}
        whole = [self._digits[name].whole for name in digits]
        covered = {name for each in whole for name in each.factors if name in wanted}
        if not all(self._is_taken_apart(each, digits, accesses, covered) for each in whole):
            return False
        wanted = [*(name for name in wanted if name not in covered), *digits]
        for name in (*wanted, *covered):
            factors = {each.offset.factors.get(name, 0) for each in here}
            if len(factors) != 1 or (0 in factors) != (name in covered):
                return False
        loops = {
            abs(factor)
            for each in here
            for name, factor in each.offset.factors.items()
            if name not in wanted
        }
        radices = {abs(here[0].offset.factors[name]): name for name in wanted}
        if len(radices) < len(wanted) or loops & radices.keys():
            return False
        for each in here:
            each.begin(sorted(loops, reverse=True))
        for radix in sorted(loops | radices.keys()):
            low, high = min(each.low for each in here), max(each.high for each in here)
            if radix <= high - low:
                return False
            for each in here:
                each.add(radix)
            if radix in radices and min(each.low for each in here) < 0:
                return False
        return min(each.low for each in here) >= 0

    def are_apart(self, one: Access, other: Access) -> bool:
        """Whether two accesses never are of a common byte, whatever threads make them: one digit
        is never the same."""
        here = [_Here(each, *self._known_at(each.label)) for each in (one, other)]
        radices = {abs(factor) for each in here for factor in each.offset.factors.values()}
        for radix in (1, *radices):
            first, second = (each.parts(radix) for each in here)
            if first and second and any(map(_are_disjoint, first, second)):
                return True
        return False

    def _is_taken_apart(
        self, whole: Sum, names: Set[str], accesses: Sequence[Access], indices: Set[str]
    ) -> bool:
        """Whether some digits are all those of a sum, which is another one for threads that differ
        in those of `indices` that are in it."""
        digits = sorted(
            (each for name in names if (each := self._digits[name]).whole == whole),
            key=lambda each: each.low,
        )
        ends = [1, *(each.high for each in digits)]
        most = max(
            whole.constant + _most(whole.factors, *self._known_at(each.label)) for each in accesses
        )
        if ends[:-1] != [each.low for each in digits] or ends[-1] <= most:
            return False
        parts = [Access(whole, 1, each.label) for each in accesses]
        return self.separates(parts, [name for name in indices if name in whole.factors])


_Ends = tuple[float, float]


def _are_disjoint(one: _Ends, other: _Ends) -> bool:
    return one[1] < other[0] or other[1] < one[0]


class _Here:
    """An access, and what the sum of its smaller digits comes to."""

    def __init__(self, access: Access, known: list[Sum], limits: Limits) -> None:
        self._known, self.limits, self._nbytes = known, limits, access.nbytes
        self.offset = access.offset.at(limits)
        self._added: dict[str, int] = {}
        self._more: dict[int, int] = {}
        self._constant = 0
        self.low: float = 0
        self.high: float = 0

    def is_fixed(self, name: str) -> bool:
        """Whether an index is one number only for the threads that make the access."""
        low, high = self.limits[name]
        return low == high

    def parts(self, radix: int) -> tuple[_Ends, _Ends] | None:
        """Between which numbers the offset is, divided by a radix, and the rest, with the bytes of
        the access; None if that is as large as the radix."""
        whole, rest = divmod(self.offset.constant, radix)
        factors = self.offset.factors
        high = _ends({n: f for n, f in factors.items() if f % radix == 0}, self._known, self.limits)
        low = _ends({n: f for n, f in factors.items() if f % radix}, self._known, self.limits)
        if radix == 1:
            return (high[0] + whole, high[1] + whole + self._nbytes - 1), (0, 0)
        rests = rest + low[0], rest + low[1] + self._nbytes - 1
        if rests[0] < 0 or rests[1] >= radix:
            return None
        return (whole + high[0] / radix, whole + high[1] / radix), rests

    def begin(self, loops: Sequence[int]) -> None:
        """Begin with the constant, without what iterations may add as well."""
        rest = self.offset.constant
        for radix in loops:
            self._more[radix], rest = divmod(rest, radix)
        self._constant = rest
        self.low, self.high = rest, rest + self._nbytes - 1

    def add(self, radix: int) -> None:
        """Add the digits with a radix."""
        more = self._more.get(radix, 0) * radix
        self._constant += more
        low, high = self.low + more, self.high + more
        for name, factor in self.offset.factors.items():
            if abs(factor) == radix:
                ends = [factor * end if end else 0 for end in self.limits[name]]
                low, high = low + min(ends), high + max(ends)
                self._added[name] = factor
        most = _most(self._added, self._known, self.limits)
        self.low, self.high = low, min(high, most + self._constant + self._nbytes - 1)


def _most(factors: Mapping[str, int], known: Sequence[Sum], limits: Limits) -> float:
    """What a sum comes to at most, as conditions say of some of its parts together."""
    left, most = dict(factors), 0.0
    for each in known:
        if not each.factors or not each.factors.keys() <= left.keys():
            continue
        name = next(iter(each.factors))
        ratio = -left[name] / each.factors[name]
        if ratio > 0 and all(left[n] == -f * ratio for n, f in each.factors.items()):
            most += each.constant * ratio
            left = {n: f for n, f in left.items() if n not in each.factors}
    ends = [
        [f * end if end else 0 for end in limits.get(name, (-inf, inf))] for name, f in left.items()
    ]
    return most + sum(map(max, ends))


def _ends(factors: Mapping[str, int], known: Sequence[Sum], limits: Limits) -> _Ends:
    """Between which numbers a sum is, as conditions say of some of its parts together."""
    below = {name: -factor for name, factor in factors.items()}
    return -_most(below, known, limits), _most(factors, known, limits)


def _masked(number: int) -> tuple[int, float, int]:
    """What a mask leaves, if it is of bits that lie side by side."""
    low = number & -number
    high = number + low
    return (0, 0, 0) if high & (high - 1) else (low, high or inf, low)


# By opcode, for its second operand: which digit of the first one it gives, from which number on and
# up to which, and how often the result is that.
_DIVISIONS: dict[str, Callable[[int], tuple[int, float, int]]] = {
    "udiv": lambda number: (number, inf, 1),
    "sdiv": lambda number: (number, inf, 1),
    "lshr": lambda number: (1 << number, inf, 1),
    "ashr": lambda number: (1 << number, inf, 1),
    "urem": lambda number: (int(number > 0), number, 1),
    "srem": lambda number: (int(number > 0), number, 1),
    "and": _masked,
}


def _limit(limits: Limits, known: Sum, only: str = "", least: float = -inf) -> None:
    """Draw from what is not below 0 the limits of what is in it."""
    for name, factor in known.factors.items():
        if name not in limits or (only and name != only):
            continue
        others: float = known.constant
        for other, times in known.factors.items():
            if other != name:
                ends = limits.get(other, (-inf, inf))
                others += max(times * end if end else 0 for end in ends)
        if others == inf:
            continue
        low, high = limits[name]
        if factor < 0:
            high = min(high, max(others // -factor, least))
        else:
            low = max(low, -(others // factor))
        limits[name] = low, high


def are_private(
    launch: Launch, accesses: Sequence[tuple[Access, bool]], indices: Sequence[str]
) -> bool:
    """Whether no two threads that differ in some of `indices` access a common byte which one of
    them writes; each access is told with whether it is a write."""
    # Most often all are of one place for each thread.
    if launch.separates([each for each, _ in accesses], indices):
        return True
    if len(accesses) > _MOST_ACCESSES:
        return False
    for number, (one, writes) in enumerate(accesses):
        for other, too in accesses[number:]:
            if (writes or too) and not (
                launch.separates([one, other], indices) or launch.are_apart(one, other)
            ):
                return False
    return True
