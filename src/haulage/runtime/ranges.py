"""Sets of bytes of a storage, as runs."""

from collections.abc import Iterator
from dataclasses import dataclass

Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Bytes of a storage, as runs (start, stop) that lie in order, do not touch, and are not empty.

    They are changed by making others: `a | b`, `a & b` and `a - b`.
    """

    runs: tuple[Run, ...] = ()

    @classmethod
    def of(cls, start: int, stop: int) -> "Ranges":
        """The bytes from `start` on before `stop`."""
        return cls(((start, stop),)) if start < stop else cls()

    @property
    def nbytes(self) -> int:
        """How many bytes they are."""
        return sum(stop - start for start, stop in self.runs)

    def covers(self, other: "Ranges") -> bool:
        """Whether all bytes of `other` are among these."""
        return self.runs == other.runs or not other - self

    def joined(self, most: int, within: "Ranges") -> "Ranges":
        """These bytes and as few more as give at most `most` runs; where `within` has too few of
        those between them, more runs."""
        gaps = [
            (self.runs[i + 1][0] - self.runs[i][1], i)
            for i in range(len(self.runs) - 1)
            if within.covers(Ranges.of(self.runs[i][1], self.runs[i + 1][0]))
        ]
        joins = {i for _, i in sorted(gaps)[: max(len(self.runs) - most, 0)]}
        found: list[Run] = []
        for i, (start, stop) in enumerate(self.runs):
            if i - 1 in joins:
                found[-1] = found[-1][0], stop
            else:
                found.append((start, stop))
        return Ranges(tuple(found))

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __or__(self, other: "Ranges") -> "Ranges":
        if not self.runs or self.runs == other.runs:
            return other
        if not other.runs:
            return self
        merged: list[Run] = []
        for start, stop in sorted((*self.runs, *other.runs)):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(stop, merged[-1][1])
            else:
                merged.append((start, stop))
        return Ranges(tuple(merged))

    def __and__(self, other: "Ranges") -> "Ranges":
        if self.runs == other.runs:
            return self
        found: list[Run] = []
        mine, theirs = list(self.runs), list(other.runs)
        i = j = 0
        while i < len(mine) and j < len(theirs):
            start, stop = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if start < stop:
                found.append((start, stop))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return Ranges(tuple(found))

    def __sub__(self, other: "Ranges") -> "Ranges":
        if not self.runs or not other.runs:
            return self
        if self.runs == other.runs:
            return Ranges()
        left: list[Run] = []
        theirs = other.runs
        at = 0
        for start, stop in self.runs:
            while at < len(theirs) and theirs[at][1] <= start:
                at += 1
            look = at
            while look < len(theirs) and theirs[look][0] < stop:
                if start < theirs[look][0]:
                    left.append((start, theirs[look][0]))
                start = max(start, theirs[look][1])
                look += 1
            if start < stop:
                left.append((start, stop))
        return Ranges(tuple(left))
