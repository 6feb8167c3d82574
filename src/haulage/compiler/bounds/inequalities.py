"""Linear inequalities that hold in a kernel, and what follows from them.

All are forms (`simt/analysis/affine.py`) that are not below 0. They come from the conditions on the
way to a block, from the ranges of values, from what operations give (`i % n` is below `n`), and
from loops: a phi that changes by the same number in each iteration is its first value and so many
times that number, so all those of a loop are counted by one symbol, its iteration.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from haulage.compiler.bounds.enumerated import State, evaluated, is_evaluated
from haulage.compiler.simt.analysis import AXES, induction
from haulage.compiler.simt.analysis.affine import (
    AffineForms,
    Form,
    Symbol,
    is_speculatable,
    number,
    symbol,
)
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.induction import OPPOSITE, Test, conjuncts
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.value_ranges import ValueRanges, whole
from haulage.compiler.simt.ir.model import Instruction, Operand, value_name
from haulage.compiler.simt.ir.types import bits_of

# What one of two values is.
_CHOICES = frozenset(("llvm.smin", "llvm.smax", "llvm.umin", "llvm.umax"))
_MOST_DEPTH = 100


@dataclass(frozen=True)
class Value:
    """A number as a form, which it is if all of `unless_wrapped` are not below 0."""

    form: Form
    unless_wrapped: tuple[Form, ...] = ()


@dataclass(frozen=True)
class Counted:
    """A phi of a loop's header: what it is in the iteration that the symbol `count` says."""

    value: Value
    loop: Loop
    count: Symbol


def is_iteration(each: Symbol) -> bool:
    """Whether a symbol counts the iterations of a loop, from 0."""
    return each.value.endswith('/iteration"')


def operand_of(each: Symbol) -> Operand:
    """The value that a symbol is."""
    return Operand(each.type, each.value)


class Inequalities:
    """What is known of the values of a kernel at its blocks, for blocks of `sizes` threads.

    Symbols that `is_given` are known when a launch begins.
    """

    def __init__(self, analyses: Analyses, sizes: tuple[int, int, int]) -> None:
        self.analyses = analyses
        self._ranges = analyses.get(ValueRanges)
        self._forms = AffineForms(analyses.items, ranges=self._ranges)
        self._parameters = {each.name for each in analyses.function.parameters}
        self._sizes = dict(zip(AXES, sizes, strict=True))
        self._given: dict[str, bool] = {}
        self._counted: dict[str, Counted | None] = {}
        self._at: dict[str, tuple[Form, ...]] = {}
        self._loops = {loop.header: loop for loop in analyses.loops}
        self._place = {label: place for place, label in enumerate(analyses.order)}

    # ---- values -----------------------------------------------------------------------------

    def value(self, operand: Operand) -> Value:
        """The number that an operand is, as a signed one."""
        form = self._forms.of(operand)
        wrapping = () if form.exact else tuple(self._unless_wrapped(operand))
        return Value(Form(form.monomials), wrapping)

    def _unless_wrapped(
        self, operand: Operand, depth: int = 0, *, unsigned: bool = False
    ) -> Iterator[Form]:
        """What is not below 0 if no operation wraps that a form is the sum of; `unsigned`: the form
        is to be the number without a sign."""
        form, item = self._forms.of(operand), self.analyses.items.get(operand.text)
        # Then it is the sum of numbers without a sign.
        adds = unsigned and item is not None and "nuw" in item.flags and not form.exact
        if unsigned and not adds:
            yield Form(form.monomials)
        if form.exact or item is None or depth > _MOST_DEPTH:
            return
        adds = adds or item.opcode == "zext"
        for each in item.operands:
            if bits_of(each.type) or each.type == "ptr":
                yield from self._unless_wrapped(each, depth + 1, unsigned=adds)
        if not adds and "nsw" not in item.flags and item.opcode not in ("sext", "getelementptr"):
            least, greatest = whole(bits_of(item.type) or 0)
            yield Form(form.plus(number(-least)).monomials)
            yield number(greatest).plus(Form(form.monomials), -1)

    def is_given(self, each: Symbol) -> bool:
        """Whether a symbol's value is known when the launch begins."""
        return self._is_given(each.value)

    def _is_given(self, name: str, depth: int = 0) -> bool:
        if not name.startswith("%"):
            return True
        if name not in self._given:
            item = self.analyses.items.get(name)
            if item is None:
                known = name in self._parameters and not name.startswith(
                    ("%threadIdx", "%blockIdx")
                )
            else:
                known = (
                    depth < _MOST_DEPTH
                    and is_speculatable(item)
                    and all(self._is_given(used, depth + 1) for used in item.uses)
                )
            self._given[name] = known
        return self._given[name]

    def is_nonnegative(self, each: Symbol) -> bool:
        """Whether a symbol's value is never below 0."""
        return is_iteration(each) or self._ranges.is_nonnegative(each.value)

    def rank(self, each: Symbol) -> int:
        """In which order symbols are made; what others may be made from comes first."""
        if is_iteration(each):
            return self._place[self.loop_of(each).header] + 1
        label, _ = self.analyses.definitions.get(each.value, ("", None))
        return self._place.get(label, -1) + 1

    def range_of(self, form: Form) -> tuple[int, int]:
        """Between which numbers a form is, by the ranges of its symbols."""
        least = most = 0
        for monomial, factor in form.monomials.items():
            ends = [factor]
            for each in monomial:
                ends = [end * other for end in ends for other in self._ranges.of(operand_of(each))]
            least, most = least + min(ends), most + max(ends)
        return least, most

    def alternatives(self, each: Symbol) -> tuple[Value, Value] | None:
        """The two values that a symbol is one of."""
        item = self.analyses.items.get(each.value)
        if item is None or bits_of(item.type) in (None, 1):
            return None
        if item.opcode == "select":
            return self.value(item.operands[1]), self.value(item.operands[2])
        callee = (item.callee or "").rpartition(".")[0]
        if callee not in (*_CHOICES, "llvm.usub.sat"):
            return None
        one, other = (self.value(each) for each in item.operands[:2])
        if callee in _CHOICES:
            return one, other
        if not all(self._ranges.is_nonnegative(each.text) for each in item.operands[:2]):
            return None
        wrapping = (*one.unless_wrapped, *other.unless_wrapped)
        return Value(one.form.plus(other.form, -1), wrapping), Value(number(0))

    def choices(self, each: Symbol) -> Iterator[tuple[Test, Value]]:
        """The values that a symbol is chosen from, each with the test by which it is."""
        item = self.analyses.items.get(each.value)
        if item is not None and item.opcode == "select" and bits_of(item.type) not in (None, 1):
            condition, *values = item.operands
            for outcome, value in zip((True, False), values, strict=True):
                yield (condition.text, outcome), self.value(value)

    # ---- what holds at a block --------------------------------------------------------------

    def at(self, label: str) -> tuple[Form, ...]:
        """What the conditions on the way to a block say."""
        if label not in self._at:
            above = self.analyses.dominators[label]
            found: list[Form] = [] if above == label else [*self.at(above)]
            # What is said when a loop begins is about values that it does not change.
            inside = self._loops[label].labels if label in self._loops else ()
            before = [each for each in self.analyses.predecessors[label] if each not in inside]
            if len(before) == 1:
                found += self._of_edge(before[0], label)
            self._at[label] = tuple(found)
        return self._at[label]

    def _of_edge(self, source: str, target: str) -> Iterator[Form]:
        """What the branch says that leads from one block to another."""
        block = self.analyses.function.blocks[source]
        condition, targets = block.condition, block.successors
        if condition is not None and targets[0] != targets[1]:
            for test in conjuncts(self.analyses.items, (condition, target == targets[0])):
                yield from self.said(test)

    def said(self, test: Test) -> Iterator[Form]:
        """What a test says, if it is one of whole numbers."""
        item = self.analyses.items.get(test[0])
        if item is None or item.opcode != "icmp" or bits_of(item.operands[0].type) in (None, 1):
            return
        order = item.predicate[-2:] if test[1] else OPPOSITE[item.predicate[-2:]]
        unsigned = item.predicate[0] == "u" and "samesign" not in item.flags
        left, right = item.operands
        low, high = (left, right) if order[0] == "l" else (right, left)
        if order == "ne":
            for one, other in ((left, right), (right, left)):
                # What is not negative and not 0 is above it.
                if other.number == 0 and self._ranges.is_nonnegative(one.text):
                    yield from self._not_below(one, other, 1)
            return
        if order == "eq":
            yield from self._not_below(left, right)
            yield from self._not_below(right, left)
            return
        if unsigned:
            if not self._ranges.is_nonnegative(high.text):
                return
            yield from self._not_below(low, Operand(low.type, "0"))
        yield from self._not_below(high, low, int(order[1] == "t"))

    def _not_below(self, high: Operand, low: Operand, by: int = 0) -> Iterator[Form]:
        one, other = self.value(high), self.value(low)
        if not (one.unless_wrapped or other.unless_wrapped):
            yield one.form.plus(other.form, -1).plus(number(-by))

    # ---- what holds of a value --------------------------------------------------------------

    def of(self, each: Symbol, values: State) -> Iterator[Form]:
        """What is known of a symbol where some values are these numbers."""
        itself = Form({(each,): 1})
        if is_iteration(each):
            yield itself
            return
        kind, _, axis = each.value.partition(".")
        if kind == "%threadIdx":
            yield itself
            yield number(self._sizes[axis] - 1).plus(itself, -1)
            return
        if kind == "%blockIdx":
            yield itself
            yield symbol(f"%gridDim.{axis}", "i32").plus(number(-1)).plus(itself, -1)
            return
        item = self.analyses.items.get(each.value)
        if item is not None:
            yield from self._of_operation(item, itself, values)
        low, high = self._ranges.of(operand_of(each))
        least, greatest = whole(bits_of(each.type) or 0)
        if low > least:
            yield itself.plus(number(-low))
        if high < greatest:
            yield number(high).plus(itself, -1)

    def _most(self, operand: Operand, values: State) -> int:
        """The greatest number that an operand can be, or -1 if it can be below 0."""
        value = evaluated(self.analyses, operand, values)
        low, high = self._ranges.of(operand) if value is None else (value, value)
        return high if low >= 0 else -1

    def _of_operation(self, item: Instruction, itself: Form, values: State) -> Iterator[Form]:
        """What the operation says whose result a symbol is."""
        operands = item.operands
        callee = (item.callee or "").rpartition(".")[0]
        if callee in _CHOICES:
            sign = 1 if callee.endswith("min") else -1
            chosen = [self.value(each) for each in operands[:2]]
            unsigned = callee.startswith("llvm.u")
            if unsigned and not all(
                self._ranges.is_nonnegative(each.text) for each in operands[:2]
            ):
                return
            for each in chosen:
                if not each.unless_wrapped:
                    yield each.form.plus(itself, -1) if sign > 0 else itself.plus(each.form, -1)
            return
        if len(operands) != 2 or not all(bits_of(each.type) for each in operands):
            return
        left, right = (self.value(each) for each in operands)
        if left.unless_wrapped or right.unless_wrapped:
            return
        amount = evaluated(self.analyses, operands[1], values)
        most = [self._most(each, values) for each in operands]
        if item.opcode in ("or", "xor") and min(most) >= 0:
            yield number((1 << max(most).bit_length()) - 1).plus(itself, -1)
        from_0 = self._ranges.is_nonnegative(operands[0].text)
        if item.opcode in ("urem", "srem") and self._ranges.is_nonnegative(operands[1].text):
            yield right.form.plus(number(-1)).plus(itself, -1)
            if from_0:
                yield left.form.plus(itself, -1)
                yield itself
        elif item.opcode in ("lshr", "ashr", "udiv", "sdiv") and amount is not None and amount > 0:
            divisor = 1 << amount if item.opcode in ("lshr", "ashr") else amount
            if item.opcode == "ashr" or from_0:
                scaled = itself.times(number(divisor))
                yield left.form.plus(scaled, -1)
                yield scaled.plus(number(divisor - 1)).plus(left.form, -1)
        elif item.opcode == "and" and from_0:
            yield left.form.plus(itself, -1)

    # ---- loops ------------------------------------------------------------------------------

    def counted(self, each: Symbol) -> Counted | None:
        """A phi that changes by the same number in each iteration of its loop."""
        if each.value not in self._counted:
            self._counted[each.value] = self._count(each.value)
        return self._counted[each.value]

    def _count(self, name: str) -> Counted | None:
        label, phi = self.analyses.definitions.get(name, ("", None))
        loop = self._loops.get(label)
        if phi is None or loop is None or not phi.is_phi or bits_of(phi.type) is None:
            return None
        start = induction.entering(phi, loop, first=True)
        following = induction.entering(phi, loop, first=False)
        if start is None or following is None:
            return None
        itself = symbol(name, phi.type)
        step = self._forms.of(following).plus(itself, -1)
        if any(self._is_made_in(loop, each.value) for each in step.symbols):
            return None
        count = Symbol(value_name(label, "iteration"), "i64")
        times = Form({(count,): 1}).times(Form(step.monomials))
        begin = self.value(start)
        form = begin.form.plus(times)
        wrapping = list(begin.unless_wrapped)
        for following_form in self._unless_wrapped(following):
            wrapping.append(following_form.replaced({Symbol(name, phi.type): form}))
        return Counted(Value(form, tuple(wrapping)), loop, count)

    def loop_with(self, name: str, depth: int = 0) -> Loop | None:
        """The loop whose phis a value is one of, or is made from."""
        label, item = self.analyses.definitions.get(name, ("", None))
        if item is None or depth > _MOST_DEPTH:
            return None
        if item.is_phi and label in self._loops:
            return self._loops[label]
        if item.is_phi:
            return self.loop_with(item.operands[0].text, depth + 1)
        if not is_evaluated(item):
            return None
        found = (self.loop_with(used, depth + 1) for used in item.uses)
        return next((loop for loop in found if loop is not None), None)

    def loop_of(self, count: Symbol) -> Loop:
        """The loop whose iteration a symbol is."""
        return next(
            loop
            for header, loop in self._loops.items()
            if value_name(header, "iteration") == count.value
        )

    def _is_made_in(self, loop: Loop, name: str) -> bool:
        return self.analyses.definitions.get(name, ("", None))[0] in loop.labels

    def repeated(self, loop: Loop) -> Iterator[tuple[Form, bool]]:
        """What holds at the end of an iteration of a loop if another one follows, of its phis as
        they are in that iteration, and whether the loop is left where it does not hold any more,
        by counting up to one number; then it has to hold at first."""
        blocks = self.analyses.function.blocks
        latches = [
            label for label in self.analyses.predecessors[loop.header] if label in loop.labels
        ]
        for label in loop.labels:
            block = blocks[label]
            condition, targets = block.condition, block.successors
            if condition is None or len(loop.labels.intersection(targets)) != 1:
                continue
            if not all(self.analyses.dominates(label, latch) for latch in latches):
                continue
            goes_on = targets[0] in loop.labels
            for test in conjuncts(self.analyses.items, (condition, goes_on)):
                for form in self.said(test):
                    yield form, False
                yield from ((form, True) for form in self._unequal(test))

    def rounded_up(self, loop: Loop, form: Form) -> tuple[Form, Form] | None:
        """(d, s) if an inequality says that a phi which counts down to 1 from d / s, rounded up, is
        more than 1: then s times the next iteration is below d, as long as d is not below 0."""
        (each, *others), phis = form.symbols or (None,), self.analyses.items
        if others or each is None or form.monomials != {(each,): 1, (): -2}:
            return None
        counted, phi = self.counted(each), phis.get(each.value)
        if counted is None or counted.loop is not loop or phi is None:
            return None
        start = induction.entering(phi, loop, first=True)
        if start is None or counted.value.form.monomials.get((counted.count,)) != -1:
            return None
        found = induction.rounded_up(self.analyses, start.text)
        return found if found and found[0].exact and found[1].exact else None

    def _unequal(self, test: Test) -> Iterator[Form]:
        """What a test that two numbers differ says of a counter which comes nearer by steps that
        lead to the other number."""
        item = self.analyses.items.get(test[0])
        if item is None or item.opcode != "icmp" or item.predicate != ("ne" if test[1] else "eq"):
            return
        for one, other in (item.operands, item.operands[::-1]):
            left, right = self.value(one), self.value(other)
            if not (left.unless_wrapped or right.unless_wrapped):
                yield right.form.plus(left.form, -1).plus(number(-1))
