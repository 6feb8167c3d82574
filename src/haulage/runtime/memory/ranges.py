"""Ranges of addresses that do not overlap."""

from bisect import bisect_left, insort
from threading import Lock


class Ranges:
    """A set of ranges, in order; safe for threads."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}
        self._lock = Lock()

    def add(self, start: int, size: int) -> tuple[int, int] | None:
        """Add `size` (> 0) addresses from `start` on.

        Returns:
            (start, size) of a range that has some of them, and nothing is added; else None.
        """
        with self._lock:
            place = bisect_left(self._starts, start)
            if place < len(self._starts) and self._starts[place] < start + size:
                other = self._starts[place]
                return other, self._sizes[other]
            if place:
                other = self._starts[place - 1]
                if other + self._sizes[other] > start:
                    return other, self._sizes[other]
            insort(self._starts, start)
            self._sizes[start] = size
            return None

    def remove(self, start: int) -> None:
        """Take the range from `start` on away."""
        with self._lock:
            del self._sizes[start]
            del self._starts[bisect_left(self._starts, start)]
