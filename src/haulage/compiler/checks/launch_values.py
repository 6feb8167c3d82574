"""Values of a kernel as sums of indices and iterations, with the numbers of one launch.

A value is a form (`bounds/inequalities.py`) in what the launch knows, the indices of threads and
blocks, and the iterations of loops. It is that sum unless an operation wraps on the way, which is
shown not to happen from what is not below 0 where the value is used: the conditions on the way
there, and the ends of indices and iterations. Quotients and remainders of such sums are digits of
them.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
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
# By what one of two values is chosen: how the first one then compares with the second.
_CHOICES = {"llvm.smin": "slt", "llvm.smax": "sgt", "llvm.umin": "ult", "llvm.umax": "ugt"}
_ORDERS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
OF_THREAD = tuple(f"%threadIdx.{axis}" for axis in AXES)
OF_BLOCK = tuple(f"%blockIdx.{axis}" for axis in AXES)

Ends = tuple[float, float]
Limits = dict[str, Ends]


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

    Attributes:
        digits: what quotients and remainders were found to be, by the names that sums have them by.
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
        self.digits: dict[str, Digit] = {}
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
            for of_these in (self._at, self._counts, self.digits):
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
        return name in self._ends or name in self._counts or name in self.digits

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
        if name in self.digits and factor == 1 and not others and not whole.constant:
            digit = self.digits[name]
        for end in (low, high):
            if inf not in (digit.high, end) and digit.high // digit.low % end:
                return None
        digit = Digit(digit.whole, digit.low * low, min(digit.high, digit.low * high))
        for known, other in self.digits.items():
            if other == digit:
                return known, scale
        made = f"digit {len(self.digits)}"
        self.digits[made] = digit
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
        limits = self.known_at(label)[1]
        ends: dict[str, float] = dict(self._ends)
        ends |= {name: limits[name][1] for name in whole.factors if name in self._counts}
        is_known = all(ends.get(name, inf) < inf for name in whole.factors)
        return (whole, ends) if is_known else None

    # ---- conditions -----------------------------------------------------------------------------

    def known_at(self, label: str) -> tuple[list[Sum], Limits]:
        """What is not below 0 in a block, and between which numbers indices and iterations are."""
        if (
            label not in self._at
            or not (self._counts.keys() | self.digits.keys()) <= self._at[label][1].keys()
        ):
            found = [self._sum(known, None) for known in self._forms.at(label)]
            known = [each for each in found if each is not None]
            limits: Limits = {name: (0, end) for name, end in self._ends.items()}
            for _ in range(_MOST_ROUNDS):
                for name in (*self._counts, *self.digits):
                    limits.setdefault(name, (0, inf))
                for each in known:
                    _limit(limits, each)
                for name, count in tuple(self._counts.items()):
                    self._limit_iterations(limits, name, count)
            for name in self.digits:
                limits.setdefault(name, (0, inf))
            fixed = [each.at(limits) for each in known]
            for name, digit in self.digits.items():
                most = digit.high - 1
                if digit.high == inf:
                    most = digit.whole.constant + most_of(digit.whole.factors, fixed, limits)
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
        if name in self.digits:
            return all(self._lasts(each, loop) for each in self.digits[name].whole.factors)
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
            limits = self.known_at(at)[1]
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

    def _range(self, whole: Sum, label: str) -> Ends:
        """Between which numbers a sum is in a block."""
        known, limits = self.known_at(label)
        here = whole.at(limits)
        low, high = ends_of(here.factors, known, limits)
        return here.constant + low, here.constant + high

    def _is_nonnegative(self, known: Known, label: str) -> bool:
        found = self._sum(known, label)
        return found is not None and self._range(found, label)[0] >= 0


def most_of(factors: Mapping[str, int], known: Sequence[Sum], limits: Limits) -> float:
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


def ends_of(factors: Mapping[str, int], known: Sequence[Sum], limits: Limits) -> Ends:
    """Between which numbers a sum is, as conditions say of some of its parts together."""
    below = {name: -factor for name, factor in factors.items()}
    return -most_of(below, known, limits), most_of(factors, known, limits)


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
