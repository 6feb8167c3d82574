"""Free ranges of addresses, by place and by size."""

from bisect import bisect_left, insort
from collections.abc import Iterator


class Extents:
    """Ranges (address, bytes) that do not overlap; ranges that touch become one.

    They do not across a *wall*, an address where memory begins that was given apart.

    Args:
        walls: a set of such addresses that others have too; None: one of its own.
    """

    def __init__(self, walls: set[int] | None = None) -> None:
        self.nbytes = 0
        self._sizes: dict[int, int] = {}  # by address; the others follow from it
        self._starts: dict[int, int] = {}  # by the address behind
        self._ordered: list[tuple[int, int]] = []  # (bytes, address)
        self.walls: set[int] = set() if walls is None else walls

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(address, bytes) of each, in the order of addresses."""
        return iter(sorted(self._sizes.items()))

    @property
    def largest(self) -> int:
        """Bytes of the largest range."""
        return self._ordered[-1][0] if self._ordered else 0

    def add(self, address: int, nbytes: int) -> None:
        """Put a range in, which becomes one with those that it touches."""
        start, stop = address, address + nbytes
        before = None if address in self.walls else self._starts.get(address)
        if before is not None:
            self._remove(before)
            start = before
        after = None if stop in self.walls else self._sizes.get(stop)
        if after is not None:
            self._remove(stop)
            stop += after
        self._insert(start, stop - start)

    def take(self, nbytes: int) -> int | None:
        """Take `nbytes` out of the range that fits best, of several the lowest; None if none does.

        Best fit in the order of addresses: Wilson et al., "Dynamic storage allocation: a survey and
        critical review", 1995, section 3.4.
        """
        at = bisect_left(self._ordered, (nbytes, 0))
        if at == len(self._ordered):
            return None
        size, address = self._ordered[at]
        self._remove(address)
        if size > nbytes:
            self._insert(address + nbytes, size - nbytes)
        return address

    def cut(self, address: int, nbytes: int, start: int | None = None) -> None:
        """Take out a part of one of the ranges, of the one from `start` on; None: from `address`.

        Raises:
            KeyError: there is none.
        """
        first = address if start is None else start
        size = self._sizes[first]
        self._remove(first)
        if address > first:
            self._insert(first, address - first)
        rest = first + size - address - nbytes
        if rest:
            self._insert(address + nbytes, rest)

    def ending_at(self, address: int, across: bool = False) -> int:
        """Bytes of the range that ends before `address`; 0 if none does, or there is a wall, unless
        that does not matter."""
        start = None if address in self.walls and not across else self._starts.get(address)
        return 0 if start is None else address - start

    def drain(self) -> list[tuple[int, int]]:
        """Take all out."""
        all_of_them = list(self._sizes.items())
        for address, _ in all_of_them:
            self._remove(address)
        return all_of_them

    def repair(self) -> None:
        """Make it whole again where something was cut short in the middle.

        A range is out of `_sizes` before a part of it is in again, so that none is there twice; at
        worst one is lost.
        """
        self._starts = {address + nbytes: address for address, nbytes in self._sizes.items()}
        self._ordered = sorted((nbytes, address) for address, nbytes in self._sizes.items())
        self.nbytes = sum(self._sizes.values())

    def _insert(self, address: int, nbytes: int) -> None:
        self._sizes[address] = nbytes
        self._starts[address + nbytes] = address
        insort(self._ordered, (nbytes, address))
        self.nbytes += nbytes

    def _remove(self, address: int) -> None:
        nbytes = self._sizes.pop(address)
        del self._starts[address + nbytes]
        del self._ordered[bisect_left(self._ordered, (nbytes, address))]
        self.nbytes -= nbytes
