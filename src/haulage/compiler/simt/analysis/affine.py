"""Affine forms of integers and addresses in the thread's indices, the block's and other values.

A form is a sum of products of symbols with integer factors: `16 * b + t`, but `2 * d * t` too,
which is affine in `t` with a parameter. A symbol is a value that is not looked into: an index, a
parameter, what was loaded, a phi.

The counterparts are LLVM's ScalarEvolution and, for what differs by a step from thread to thread,
Sampaio et al., "Divergence Analysis" (TOPLAS 2013); products as in Grosser et al., "Optimistic
Delinearization of Parametrically Sized Arrays" (ICS 2015).
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.compiler.simt.ir.types import bits_of, size_of

_WIDENING = frozenset(("sext", "zext"))
_CASTS = _WIDENING | {"trunc", "freeze"}
_MOST_DEPTH = 100
_MOST_MONOMIALS = 32

# What can be evaluated anywhere: it neither fails nor depends on when. A shift by too much would be
# poison, so its amount has to be a constant.
# fmt: off
_SPECULATABLE = frozenset((
    "add", "sub", "mul", "and", "or", "xor", "sext", "zext", "trunc", "icmp", "select",
))
# fmt: on
_SHIFTS = frozenset(("shl", "lshr", "ashr"))

# So that sums of a few 64-bit values times factors stay in 128 bits.
_LARGEST_FACTOR = 1 << 40
_LARGEST_CONSTANT = 1 << 100
_MOST_TERMS = 16


class Symbol(NamedTuple):
    """A value as a signed number, or an unsigned one, of its type."""

    value: str
    type: str
    signed: bool = True


THREAD = tuple(Symbol(f"%threadIdx.{axis}", "i32") for axis in AXES)

# A product of symbols in their order; () is 1.
Monomial = tuple[Symbol, ...]


@dataclass(slots=True)
class Form:
    """A sum of monomials with factors other than 0, which nobody changes. If `exact`, the value as
    a signed number is that sum; otherwise only if nothing wraps on the way."""

    monomials: Mapping[Monomial, int]
    exact: bool = True

    def plus(self, other: "Form", factor: int = 1) -> "Form":
        """The sum of this and `factor` times another."""
        found = dict(self.monomials)
        for monomial, times in other.monomials.items():
            _add(found, monomial, factor * times)
        return Form(found, self.exact and other.exact)

    def times(self, other: "Form") -> "Form":
        """The product of this and another."""
        found: dict[Monomial, int] = {}
        for one, factor in self.monomials.items():
            for another, times in other.monomials.items():
                _add(found, tuple(sorted(one + another)), factor * times)
        return Form(found, self.exact and other.exact)

    def replaced(self, forms: "Mapping[Symbol, Form]") -> "Form":
        """The form with other forms in place of some symbols."""
        if forms.keys().isdisjoint(self.symbols):
            return self
        total = number(0)
        for monomial, factor in self.monomials.items():
            product = number(factor)
            for each in monomial:
                product = product.times(forms.get(each) or Form({(each,): 1}))
            total = total.plus(product)
        return Form(total.monomials, self.exact)

    @property
    def symbols(self) -> set[Symbol]:
        return set().union(*self.monomials)

    @property
    def constant(self) -> int:
        return self.monomials.get((), 0)

    @property
    def steps(self) -> tuple[int, int, int]:
        """The factors of the thread's indices by themselves."""
        x, y, z = (self.monomials.get((index,), 0) for index in THREAD)
        return x, y, z

    @property
    def products(self) -> "tuple[tuple[Symbol, Form], ...]":
        """(symbol, form) for each symbol that is multiplied by one of the thread's indices; the
        form is of indices and a constant."""
        found: dict[Symbol, dict[Monomial, int]] = {}
        for monomial, factor in self.monomials.items():
            others = [symbol for symbol in monomial if symbol not in THREAD]
            if len(monomial) == 2 and len(others) == 1:
                indices = tuple(symbol for symbol in monomial if symbol in THREAD)
                found.setdefault(others[0], {})[indices] = factor
        for symbol, monomials in found.items():
            if (symbol,) in self.monomials:
                monomials[()] = self.monomials[symbol,]
        return tuple((symbol, Form(monomials)) for symbol, monomials in found.items())

    @property
    def terms(self) -> tuple[tuple[Symbol, int], ...]:
        """The symbols other than the thread's indices with their factors, but those in products."""
        multiplied = {symbol for symbol, _ in self.products}
        return tuple(
            (monomial[0], factor)
            for monomial, factor in self.monomials.items()
            if len(monomial) == 1 and monomial[0] not in multiplied and monomial[0] not in THREAD
        )


def _add(monomials: dict[Monomial, int], monomial: Monomial, factor: int) -> None:
    if total := monomials.get(monomial, 0) + factor:
        monomials[monomial] = total
    else:
        monomials.pop(monomial, None)


def number(value: int) -> Form:
    """The form of a constant."""
    return Form({(): value} if value else {})


def symbol(value: str, kind: str, *, signed: bool = True) -> Form:
    """The form of a value that is not looked into."""
    return Form({(Symbol(value, kind, signed),): 1})


class AffineForms:
    """The forms of the values that `items` make, instructions by their results.

    All other values are symbols; with `varying`, so are all that are not in it. `ranges` tell which
    casts keep a number. Without `wraparound` what Numba adds to an index that is negative is taken
    for 0, as LLVM may yet find. `modular` forms hold modulo the sizes of the types, whatever wraps
    on the way: a cast to a wider type is a symbol if it may be of another number than its form.
    """

    def __init__(
        self,
        items: Mapping[str, Instruction],
        *,
        varying: Set[str] | None = None,
        ranges: ValueRanges | None = None,
        wraparound: bool = True,
        modular: bool = False,
    ) -> None:
        self._items = items
        self._varying = varying
        self._ranges = ranges
        self._wraparound = wraparound
        self._modular = modular
        self._known: dict[str, Form] = {}
        self._depth = 0

    def of(self, operand: Operand) -> Form:
        """The form of a value or constant."""
        if operand.number is not None and operand.type != "i1":
            return number(operand.number)
        name = operand.text
        if name not in self._known:
            self._known[name] = symbol(name, operand.type)
            item = self._items.get(name)
            looked_into = self._varying is None or name in self._varying
            if item is not None and looked_into and self._depth < _MOST_DEPTH:
                self._depth += 1
                form = self._of_item(item)
                self._depth -= 1
                if form is not None and len(form.monomials) <= _MOST_MONOMIALS:
                    self._known[name] = form
        return self._known[name]

    def _of_item(self, item: Instruction) -> Form | None:
        combined = self._combined(item)
        if combined is None or (combined.exact and self._is_exact(item)):
            return combined
        return Form(combined.monomials, exact=False)

    def _combined(self, item: Instruction) -> Form | None:
        opcode, operands = item.opcode, item.operands
        if opcode in _CASTS:
            form = self.of(operands[0])
            keeps = opcode not in _WIDENING or (form.exact and self._is_exact(item))
            return form if keeps or not self._modular else None
        if opcode == "select" and not self._wraparound and bits_of(item.type) != 1:
            return number(0) if 0 in (operands[1].number, operands[2].number) else None
        if opcode == "getelementptr":
            size = size_of(item.source_type)
            if size is None or len(operands) != 2:
                return None
            return self.of(operands[0]).plus(self.of(operands[1]), size)
        if bits_of(item.type) is None or len(operands) != 2:
            return None
        amount = operands[1].number
        if opcode == "add" or (opcode == "or" and "disjoint" in item.flags):
            return self.of(operands[0]).plus(self.of(operands[1]))
        if opcode == "sub":
            return self.of(operands[0]).plus(self.of(operands[1]), -1)
        if opcode == "mul":
            return self.of(operands[0]).times(self.of(operands[1]))
        if opcode == "shl" and amount is not None:
            return self.of(operands[0]).times(number(1 << amount))
        if opcode == "xor" and amount == -1:
            return number(-1).plus(self.of(operands[0]), -1)
        return None

    def _is_exact(self, item: Instruction) -> bool:
        """Whether an operation never wraps, and a cast keeps the number."""
        if item.opcode == "zext":
            source = item.operands[0].text
            kept = self._ranges is not None and self._ranges.is_nonnegative(source)
            return kept or "nneg" in item.flags
        return item.opcode in ("sext", "or", "xor") or "nsw" in item.flags


def forms(analyses: Analyses) -> AffineForms:
    """The forms of all values of a function, which hold modulo the sizes of their types."""
    return AffineForms(analyses.items, ranges=analyses.get(ValueRanges), modular=True)


def index_forms(analyses: Analyses, *, wraparound: bool) -> AffineForms:
    """The forms of all values of a function, were nothing to wrap."""
    return AffineForms(analyses.items, wraparound=wraparound)


class AvailableForms:
    """Exact forms in the thread's indices, at most one in each product, and in uniform values that
    can be evaluated where a region begins.

    `items` are the function's instructions by result, `varying` what is not uniform, `available`
    the values that are there when the region begins.
    """

    def __init__(
        self,
        items: Mapping[str, Instruction],
        varying: Set[str],
        available: Set[str],
        ranges: ValueRanges,
    ) -> None:
        self.items = items
        self.varying = varying
        self.ranges = ranges
        self._available = available
        self._forms = AffineForms(items, varying=varying, ranges=ranges)
        self._expanded = AffineForms(items, ranges=ranges)
        self._can_evaluate: dict[str, bool] = {}

    def can_evaluate(self, value: str, depth: int = 0) -> bool:
        """Whether a uniform value, or a constant, can be evaluated where the region begins."""
        if not value.startswith("%") or value in self._available:
            return True
        if value not in self._can_evaluate:
            item = self.items.get(value)
            self._can_evaluate[value] = (
                item is not None
                and value not in self.varying
                and depth < _MOST_DEPTH
                and is_speculatable(item)
                and all(self.can_evaluate(name, depth + 1) for name in item.uses)
            )
        return self._can_evaluate[value]

    def of(self, operand: Operand) -> Form | None:
        """The form of an integer value or constant; None if there is none."""
        form = self._forms.of(operand)
        return form if form.exact and self._is_available(form) and not _is_large(form) else None

    def _is_available(self, form: Form) -> bool:
        for monomial in form.monomials:
            uniform = [symbol for symbol in monomial if symbol not in THREAD]
            if len(uniform) > 1 or len(monomial) - len(uniform) > 1:
                return False
            if any(each.value in self.varying or each.value[0] != "%" for each in uniform):
                return False
            if not all(self.can_evaluate(each.value) for each in uniform):
                return False
        return True

    def as_unsigned(self, operand: Operand) -> Form | None:
        """The form of a value taken as unsigned: where it is uniform, or not negative anyway."""
        value = operand.text
        if self.ranges.is_nonnegative(value):
            return self.of(operand)
        if operand.is_local and value not in self.varying and self.can_evaluate(value):
            return symbol(value, operand.type, signed=False)
        return None

    def are_equal(self, one: Form, other: Form) -> bool:
        """Whether two forms show that they are the same number."""
        difference = one.plus(other, -1)
        inside = {
            each: self._expanded.of(Operand(each.type, each.value))
            for each in difference.symbols
            if each.signed
        }
        exact = {each: form for each, form in inside.items() if form.exact}
        return not difference.replaced(exact).monomials


def _is_large(form: Form) -> bool:
    factors = [factor for monomial, factor in form.monomials.items() if monomial]
    return (
        abs(form.constant) > _LARGEST_CONSTANT
        or max(map(abs, factors), default=0) > _LARGEST_FACTOR
        or len(form.terms) + len(form.products) > _MOST_TERMS
    )


def is_speculatable(item: Instruction) -> bool:
    """Whether an instruction may be carried out anywhere, without the promises that it makes."""
    if item.opcode in _SHIFTS:
        return item.operands[1].number is not None
    return item.opcode in _SPECULATABLE and (bits_of(item.type) is not None or item.type == "ptr")
