"""Free ranges of addresses, by place and by size."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence


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
        touching: tuple[int, ...] = ()
        before = None if address in self.walls else self._starts.get(address)
        if before is not None:
            touching = (before,)
            start = before
        after = None if stop in self.walls else self._sizes.get(stop)
        if after is not None:
            touching += (stop,)
            stop += after
        self._replace(touching, ((start, stop - start),))

    def take(self, nbytes: int) -> int | None:
        """Take `nbytes` out of the range that fits best, of several the lowest; None if none does.

        Best fit in the order of addresses: Wilson et al., "Dynamic storage allocation: a survey and
        critical review", 1995, section 3.4.
        """
        at = bisect_left(self._ordered, (nbytes, 0))
        if at == len(self._ordered):
            return None
        size, address = self._ordered[at]
        self._replace((address,), ((address + nbytes, size - nbytes),) if size > nbytes else ())
        return address

    def cut(self, address: int, nbytes: int, start: int | None = None) -> None:
        """Take out a part of one of the ranges, of the one from `start` on; None: from `address`.

        Raises:
            KeyError: there is none.
        """
        first = address if start is None else start
        stop = first + self._sizes[first]
        left = ((first, address - first), (address + nbytes, stop - address - nbytes))
        self._replace([first], [piece for piece in left if piece[1]])

    def ending_at(self, address: int, across: bool = False) -> int:
        """Bytes of the range that ends before `address`; 0 if none does, or there is a wall, unless
        that does not matter."""
        start = None if address in self.walls and not across else self._starts.get(address)
        return 0 if start is None else address - start

    def drain(self) -> list[tuple[int, int]]:
        """Take all out."""
        all_of_them = list(self._sizes.items())
        self._sizes, self._starts, self._ordered, self.nbytes = {}, {}, [], 0
        return all_of_them

    def repair(self) -> None:
        """Make it whole again where a change was cut short: by `_sizes`, which changes at once."""
        self._sizes = {address: nbytes for address, nbytes in self._sizes.items() if nbytes}
        self._starts = {address + nbytes: address for address, nbytes in self._sizes.items()}
        self._ordered = sorted((nbytes, address) for address, nbytes in self._sizes.items())
        self.nbytes = sum(self._sizes.values())

    def _replace(self, old: Sequence[int], new: Sequence[tuple[int, int]]) -> None:
        """Take out the ranges at the addresses `old` and put in others."""
        sizes, starts, ordered = self._sizes, self._starts, self._ordered
        changes, more = {}, 0
        for address in old:
            nbytes = sizes[address]
            changes[address] = 0
            more -= nbytes
            del starts[address + nbytes]
            del ordered[bisect_left(ordered, (nbytes, address))]
        for address, nbytes in new:
            changes[address] = nbytes
            more += nbytes
            starts[address + nbytes] = address
            insort(ordered, (nbytes, address))
        # One call, which Ctrl-C cannot come into: else a range of all addresses could be lost.
        sizes.update(changes)
        for address in old:
            if not changes[address]:
                del sizes[address]
        self.nbytes += more
