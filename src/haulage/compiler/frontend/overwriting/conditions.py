"""What branches ask of the element that a thread is about to write, and how that turns out.

The element is any one of the array. So its index along each axis is 0 or more and less than the
array's size there, and nothing else is known of it.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numba.core import ir, types

from haulage.compiler.access.terms import Sum, Symbol, number, symbol
from haulage.compiler.frontend.overwriting.values import Values

# A condition on launches: (axis of the array, number that has to be that size or more).
Bound = tuple[int, Sum]
# What a condition of a branch is, if these conditions on launches are met.
Answer = tuple[bool, frozenset[Bound]]

_LESS = {
    # Whether the sides change places, and whether the answer is turned round.
    operator.lt: (False, False),
    operator.gt: (True, False),
    operator.ge: (False, True),
    operator.le: (True, True),
}
# Indices are smaller by far than where 64 bits end, so that this much can be added to them.
_NEAR = 1 << 20


@dataclass(frozen=True)
class Element:
    """An element of the array at `path`: for each axis the numbers that are known to be an index.

    Those are the index itself; and in loops that come to it by steps what they begin with, which is
    no more. `free` are those of a thread's numbers that are 0 for the thread that is looked at, as
    they do not matter to the element.
    """

    path: tuple[int, ...]
    indices: tuple[tuple[Sum, ...], ...]
    free: frozenset[Symbol]


class Branches:
    """What the branches of a function ask of one element.

    `bounds` are those conditions on launches by which the answers to some are known.
    """

    def __init__(self, values: Values, element: Element) -> None:
        self._values = values
        self._element = element
        self.bounds: dict[Bound, None] = {}
        self._answers: dict[int, tuple[Answer, ...]] = {}
        for label, block in values.blocks.items():
            end = block.body[-1]
            if isinstance(end, ir.Branch):
                self._answers[label] = tuple(self._of(end.cond, label))

    def answer(self, label: int, taken: frozenset[Bound]) -> bool | None:
        """What the condition is by which control leaves the block `label`, if the conditions
        `taken` are met; None if that is not known."""
        for answer, bounds in self._answers[label]:
            if bounds <= taken:
                return answer
        return None

    def _of(self, variable: Any, label: int) -> list[Answer]:
        """The answers to a condition in the block `label`."""
        found = self._values.made(variable)
        if found is None or not isinstance(found[1], ir.Expr):
            return []
        at, value = found
        if value.op == "call" and self._values.python(value.func) is bool and len(value.args) == 1:
            return self._of(value.args[0], label) if self._are_bool(*value.args) else []
        if value.op == "unary" and value.fn is operator.not_:
            answers = self._of(value.value, label) if self._are_bool(value.value) else []
            return [(not answer, bounds) for answer, bounds in answers]
        if value.op not in ("binop", "inplace_binop"):
            return []
        if value.fn in (operator.and_, operator.or_):
            return self._of_both(value, label) if self._are_bool(value.lhs, value.rhs) else []
        labels = (label, at.label)
        if value.fn in (operator.eq, operator.ne):
            equal = self._are_equal(value.lhs, value.rhs, labels)
            return [] if equal is None else [(equal == (value.fn is operator.eq), frozenset())]
        if value.fn in _LESS:
            swapped, turned = _LESS[value.fn]
            left, right = (value.rhs, value.lhs) if swapped else (value.lhs, value.rhs)
            return [
                (answer != turned, bounds) for answer, bounds in self._less(left, right, labels)
            ]
        return []

    def _are_bool(self, *variables: Any) -> bool:
        return all(
            isinstance(self._values.typemap.get(each.name), types.Boolean) for each in variables
        )

    def _of_both(self, value: Any, label: int) -> list[Answer]:
        left, right = self._of(value.lhs, label), self._of(value.rhs, label)
        # True of one decides `or`, False decides `and`.
        deciding = value.fn is operator.or_
        return [
            *(each for each in (*left, *right) if each[0] == deciding),
            *(
                (not deciding, mine | others)
                for answer, mine in left
                for other, others in right
                if deciding not in (answer, other)
            ),
        ]

    def _are_equal(self, left: Any, right: Any, labels: tuple[int, int]) -> bool | None:
        numbers = self._number(left, labels), self._number(right, labels)
        if numbers[0] is None or numbers[1] is None:
            return None
        apart = (numbers[0] - numbers[1]).constant()
        return None if apart is None else apart == 0

    def _less(self, left: Any, right: Any, labels: tuple[int, int]) -> Iterator[Answer]:
        less, more = self._number(left, labels), self._number(right, labels)
        if less is None or more is None:
            return
        for axis, indices in enumerate(self._element.indices):
            for index in indices:
                if (apart := self._apart(less, index, left)) is not None:
                    # index + apart < more
                    bound = more - number(apart)
                    if (told := bound.constant()) is not None and told <= 0:
                        yield False, frozenset()
                    yield from self._if_enough(axis, bound, True)
                if (apart := self._apart(more, index, right)) is not None:
                    # less < index + apart
                    bound = less - number(apart)
                    if (told := bound.constant()) is not None and told < 0:
                        yield True, frozenset()
                    yield from self._if_enough(axis, bound + number(1), False)

    def _number(self, variable: Any, labels: tuple[int, int]) -> Sum | None:
        """What is compared in one block and asked for in another."""
        found = self._values.number(variable)
        if found is None:
            return None
        if not all(self._values.loops.are_around(found, label) for label in labels):
            return None
        # Below 0 it would be a large number.
        if not self._values.typemap[variable.name].signed and any(n < 0 for _, n in found.products):
            return None
        return found.without(self._element.free)

    def _apart(self, value: Sum, index: Sum, variable: Any) -> int | None:
        """How much more a number is than an index, if that is always the same."""
        apart = (value - index).constant()
        if apart == 0:
            return 0
        kind = self._values.typemap[variable.name]
        return apart if apart is not None and kind.signed and abs(apart) < _NEAR else None

    def _if_enough(self, axis: int, bound: Sum, answer: bool) -> Iterator[Answer]:
        """An answer that holds if a number is the array's size along an axis, or more."""
        more = (bound - symbol("shape", self._element.path, axis)).constant()
        if more is not None:
            if more >= 0:
                yield answer, frozenset()
        elif bound.is_of_launch():
            self.bounds[axis, bound] = None
            yield answer, frozenset([(axis, bound)])
