"""Whole numbers that a kernel works out, as sums of products of what a launch or a thread gives.

What a number is made of are tuples whose first entry says what they are. Those of a launch are
`("shape", path, axis)` of an array, `("scalar", path, bits, signed)`, `("block", axis)` for the
threads of a block and `("grid", axis)` for the blocks of a grid; `path` is the number of a
parameter, followed by places within tuples. Those of a thread are `("thread", axis)`,
`("at block", axis)` and `("count", loop, name)` for the variable of a loop.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Symbol = tuple[Any, ...]

OF_LAUNCHES = frozenset(("shape", "scalar", "block", "grid"))

# Larger values may be others in the arithmetic of the kernel.
MOST = 1 << 48


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of products: `products` are pairs of the symbols of one and how often it counts."""

    products: tuple[tuple[tuple[Symbol, ...], int], ...] = ()

    @staticmethod
    def of(products: Iterable[tuple[tuple[Symbol, ...], int]]) -> "Sum":
        """The sum of products that come in any order, and more than once."""
        found: dict[tuple[Symbol, ...], int] = {}
        for symbols, count in products:
            symbols = tuple(sorted(symbols, key=repr))
            found[symbols] = found.get(symbols, 0) + count
        return Sum(tuple(sorted(((key, n) for key, n in found.items() if n), key=repr)))

    def __add__(self, other: "Sum") -> "Sum":
        return Sum.of((*self.products, *other.products))

    def __sub__(self, other: "Sum") -> "Sum":
        return Sum.of((*self.products, *((symbols, -n) for symbols, n in other.products)))

    def __mul__(self, other: "Sum") -> "Sum":
        return Sum.of(
            (mine + others, n * m) for mine, n in self.products for others, m in other.products
        )

    def symbols(self) -> Iterator[Symbol]:
        """All that it is made of."""
        for symbols, _ in self.products:
            yield from symbols

    def constant(self) -> int | None:
        """The number that it is whatever its symbols are; None if it depends on them."""
        if not self.products:
            return 0
        symbols, count = self.products[0]
        return count if len(self.products) == 1 and not symbols else None

    def is_small(self) -> bool:
        """Whether its constants are so small that the kernel's arithmetic has the same ones."""
        return all(abs(count) <= MOST for _, count in self.products)

    def is_of_launch(self) -> bool:
        """Whether it is the same for all threads and known when they are launched."""
        return all(symbol[0] in OF_LAUNCHES for symbol in self.symbols())

    def without(self, zero: frozenset[Symbol]) -> "Sum":
        """What it is where these symbols are 0."""
        return Sum(tuple(each for each in self.products if zero.isdisjoint(each[0])))

    def value(self, value_of: Callable[[Symbol], int]) -> int:
        """What it is for values of its symbols."""
        total = 0
        for symbols, count in self.products:
            for symbol in symbols:
                count *= value_of(symbol)
            total += count
        return total

    def text(self, name_of: Callable[[Symbol], str]) -> str:
        """It as Python writes it, such as `2*n - 1`."""
        written = ""
        # A number that stands alone comes last.
        for symbols, count in sorted(self.products, key=lambda each: not each[0]):
            factors = [name_of(symbol) for symbol in symbols]
            if abs(count) != 1 or not factors:
                factors.insert(0, str(abs(count)))
            sign = (" - " if count < 0 else " + ") if written else ("-" if count < 0 else "")
            written += sign + "*".join(factors)
        return written or "0"


def number(value: int) -> Sum:
    """A constant."""
    return Sum.of([((), value)])


def symbol(*parts: Any) -> Sum:
    """One symbol alone."""
    return Sum((((parts,), 1),))


def place(axis: int) -> Sum:
    """A thread's place in the grid along an axis."""
    return symbol("at block", axis) * symbol("block", axis) + symbol("thread", axis)


def threads(axis: int) -> Sum:
    """How many threads the grid has along an axis."""
    return symbol("grid", axis) * symbol("block", axis)
