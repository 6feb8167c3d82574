"""Values that are linear in the thread's indices, exactly.

The linear form of a value is a constant, a number for each of threadIdx.x, .y and .z, and uniform
values with a factor each. It is the value as a signed number in mathematics, without wrapping: an
operation counts only if LLVM says that it does not wrap (`nsw` and the like), or if it cannot.

Where that is of use, a uniform value times such a form is part of one too: `2 * d * t`.
"""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass

from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.model import Instruction

_PAIR = re.compile(r'(%"[^"]*"|%[-\w$.]+|-?\d+), (%"[^"]*"|%[-\w$.]+|-?\d+)(?:, !.*)?$')
_CAST = re.compile(r"= \w+ (?:nneg |nsw |nuw )*(i\d+) ")
_CONSTANT = re.compile(r"-?\d+")

# What can be worked out anywhere: it neither fails nor depends on when. A shift by too much would
# be poison, so its amount has to be a constant.
_ANYWHERE = frozenset(("add", "sub", "mul", "and", "or", "xor", "sext", "zext", "trunc"))
_SHIFTS = frozenset(("shl", "lshr", "ashr"))
_MOST_DEPTH = 40

# So that sums of a few 64-bit values times factors stay in 128 bits.
_LARGEST_FACTOR = 1 << 40
_LARGEST_CONSTANT = 1 << 100
_MOST_TERMS = 16


@dataclass(frozen=True)
class Term:
    """A uniform value of an integer type, taken as signed or unsigned."""

    value: str
    type: str
    signed: bool


@dataclass(frozen=True)
class Linear:
    """`constant` + the sum of `steps` times the thread's indices + that of factors times terms +
    that of `products`, each a term times a form of a constant and indices."""

    constant: int
    steps: tuple[int, int, int]
    terms: tuple[tuple[Term, int], ...] = ()
    products: "tuple[tuple[Term, Linear], ...]" = ()

    def plus(self, other: "Linear", factor: int = 1) -> "Linear":
        """The sum of this and `factor` times another."""
        x, y, z = (a + factor * b for a, b in zip(self.steps, other.steps, strict=True))
        terms = dict(self.terms)
        for term, times in other.terms:
            terms[term] = terms.get(term, 0) + factor * times
        left = tuple((term, times) for term, times in terms.items() if times)
        products = dict(self.products)
        for term, form in other.products:
            products[term] = products.get(term, ZERO).plus(form, factor)
        scaled = tuple((term, form) for term, form in products.items() if form != ZERO)
        return Linear(self.constant + factor * other.constant, (x, y, z), left, scaled)


ZERO = Linear(0, (0, 0, 0))


class LinearForms:
    """Linear forms of the values that a region of a function begins with.

    `items` are the function's instructions by result, `varying` what is not uniform, `at_hand` the
    values that are there when the region begins, `known` those that are not negative; with
    `products` forms may have some.
    """

    def __init__(
        self,
        items: Mapping[str, Instruction],
        varying: Set[str],
        at_hand: Set[str],
        ranges: ValueRanges,
        *,
        products: bool = False,
    ) -> None:
        self._products = products
        self.items = items
        self.varying = varying
        self.at_hand = at_hand
        self.ranges = ranges
        self._forms: dict[str, Linear | None] = {}
        self._free: dict[str, bool] = {}

    def is_free(self, value: str, depth: int = 0) -> bool:
        """Whether a uniform value, or a constant, can be worked out where the region begins."""
        if not value.startswith("%") or value in self.at_hand:
            return True
        if value not in self._free:
            item = self.items.get(value)
            self._free[value] = (
                item is not None
                and value not in self.varying
                and depth < _MOST_DEPTH
                and can_move(item)
                and all(self.is_free(name, depth + 1) for name in item.uses)
            )
        return self._free[value]

    def of(self, value: str, kind: str, depth: int = 0) -> Linear | None:
        """The form of a value or constant of an integer type; None if there is none."""
        if not value.startswith("%"):
            return Linear(int(value), (0, 0, 0)) if _CONSTANT.fullmatch(value) else None
        if value not in self._forms:
            form = self._derive(value, kind, depth) if depth < _MOST_DEPTH else None
            self._forms[value] = None if form is None or _is_large(form) else form
        return self._forms[value]

    def _derive(self, value: str, kind: str, depth: int) -> Linear | None:
        for position, axis in enumerate(AXES):
            if value == f"%threadIdx.{axis}":
                x, y, z = (int(position == other) for other in range(3))
                return Linear(0, (x, y, z))
        if value not in self.varying:
            return _term(value, kind, True) if self.is_free(value) else None
        item = self.items.get(value)
        if item is None:
            return None
        if item.opcode in ("sext", "zext", "trunc"):
            return self._of_cast(item, depth)
        pair = _PAIR.search(item.text)
        if pair is None or not self._is_exact(item, pair[1], pair[2]):
            return None
        if item.opcode == "xor":
            inner = self.of(pair[1], kind, depth + 1) if pair[2] == "-1" else None
            return None if inner is None else Linear(-1, (0, 0, 0)).plus(inner, -1)
        left, right = self.of(pair[1], kind, depth + 1), self.of(pair[2], kind, depth + 1)
        if left is None or right is None:
            return None
        if item.opcode in ("add", "or"):
            return left.plus(right)
        if item.opcode == "sub":
            return left.plus(right, -1)
        if item.opcode == "mul" and _CONSTANT.fullmatch(pair[2]):
            return ZERO.plus(left, int(pair[2]))
        if item.opcode == "mul" and self._products:
            return _product(left, right) or _product(right, left)
        if item.opcode == "shl" and _CONSTANT.fullmatch(pair[2]):
            return ZERO.plus(left, 1 << int(pair[2]))
        return None

    def _is_exact(self, item: Instruction, left: str, right: str) -> bool:
        if item.opcode == "xor":
            return True
        if item.opcode == "or":
            return " disjoint " in item.text
        if item.opcode in ("add", "sub", "mul", "shl"):
            return " nsw " in item.text
        return False

    def _of_cast(self, item: Instruction, depth: int) -> Linear | None:
        found = _CAST.search(item.text)
        if found is None or not item.uses:
            return None
        source = item.uses[0]
        exact = (
            item.opcode == "sext"
            or (
                item.opcode == "zext"
                and (" nneg " in item.text or self.ranges.is_nonnegative(source))
            )
            or (item.opcode == "trunc" and " nsw " in item.text)
        )
        return self.of(source, found[1], depth + 1) if exact else None

    def are_equal(self, one: Linear, other: Linear) -> bool:
        """Whether two forms show that they are the same number."""
        return self._spread(one.plus(other, -1)) == ZERO

    def _spread(self, form: Linear) -> Linear:
        """A form with a sum of a value and a constant for its term, where a term is one."""
        for term, factor in form.terms:
            item = self.items.get(term.value)
            pair = _PAIR.search(item.text) if item is not None and item.opcode == "add" else None
            if item is None or pair is None or " nsw " not in item.text or not term.signed:
                continue
            if pair[1].startswith("%") and _CONSTANT.fullmatch(pair[2]):
                sum_of = _term(pair[1], term.type, True).plus(Linear(int(pair[2]), (0, 0, 0)))
                left = form.plus(_term(term.value, term.type, True), -factor)
                return self._spread(left.plus(sum_of, factor))
        return form

    def as_unsigned(self, value: str, kind: str) -> Linear | None:
        """The form of a value taken as unsigned: where it is uniform, or not negative anyway."""
        if self.ranges.is_nonnegative(value):
            return self.of(value, kind)
        if value.startswith("%") and value not in self.varying and self.is_free(value):
            return _term(value, kind, False)
        return None


def _product(one: Linear, other: Linear) -> Linear | None:
    """The product of two forms, if one is no more than a uniform value, the other without any."""
    if len(one.terms) != 1 or one.constant or any(one.steps) or one.products:
        return None
    if other.terms or other.products:
        return None
    ((term, factor),) = one.terms
    return Linear(0, (0, 0, 0), (), ((term, ZERO.plus(other, factor)),))


def _is_large(form: Linear) -> bool:
    if any(
        max(map(abs, (scaled.constant, *scaled.steps))) > _LARGEST_FACTOR
        for _, scaled in form.products
    ):
        return True
    factors = [*form.steps, *(factor for _, factor in form.terms)]
    return (
        abs(form.constant) > _LARGEST_CONSTANT
        or max(map(abs, factors)) > _LARGEST_FACTOR
        or len(form.terms) + len(form.products) > _MOST_TERMS
    )


def _term(value: str, kind: str, signed: bool) -> Linear:
    return Linear(0, (0, 0, 0), ((Term(value, kind, signed), 1),))


def can_move(item: Instruction) -> bool:
    """Whether an instruction may be carried out anywhere, without the promises that it makes."""
    if item.opcode in _ANYWHERE or item.opcode in ("icmp", "select"):
        return not item.type.startswith(("float", "double", "half", "<", "{", "["))
    pair = _PAIR.search(item.text)
    return item.opcode in _SHIFTS and pair is not None and pair[2].isdigit()
