"""Free ranges of addresses, by place and by size."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator


class Extents:
    """Ranges (address, bytes) that do not overlap; ranges that touch become one.

    They do not across a *wall*, an address where memory begins that was given apart.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._sizes: dict[int, int] = {}  # by address
        self._starts: dict[int, int] = {}  # by the address behind
        self._ordered: list[tuple[int, int]] = []  # (bytes, address)
        self.walls: set[int] = set()

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

    def cut(self, address: int, nbytes: int) -> None:
        """Take out a part of one of the ranges."""
        start, size = self.around(address)
        self._remove(start)
        if address > start:
            self._insert(start, address - start)
        rest = start + size - address - nbytes
        if rest:
            self._insert(address + nbytes, rest)

    def around(self, address: int) -> tuple[int, int]:
        """(address, bytes) of the range that `address` lies in.

        Raises:
            KeyError: it lies in none.
        """
        if address in self._sizes:
            return address, self._sizes[address]
        starts = sorted(self._sizes)
        at = bisect_right(starts, address) - 1
        if at < 0 or address >= starts[at] + self._sizes[starts[at]]:
            raise KeyError(address)
        return starts[at], self._sizes[starts[at]]

    def ending_at(self, address: int) -> int:
        """Bytes of the range that ends before `address`; 0 if none does, or there is a wall."""
        start = None if address in self.walls else self._starts.get(address)
        return 0 if start is None else address - start

    def drain(self) -> list[tuple[int, int]]:
        """Take all out."""
        all_of_them = list(self._sizes.items())
        for address, _ in all_of_them:
            self._remove(address)
        return all_of_them

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
