"""Sets of bytes of a storage, as runs."""

from collections.abc import Iterable, Iterator

from haulage._core.coherence import RangesBase

Run = tuple[int, int]


class Ranges(RangesBase):
    """Bytes of a storage, as runs (start, stop) that lie in order, do not touch, and are not empty.

    They are never changed; `a | b`, `a & b` and `a - b` are others.
    """

    __slots__ = ()

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, start: int, stop: int) -> "Ranges":
        """The bytes from `start` on before `stop`."""
        return cls(((start, stop),)) if start < stop else cls()

    @classmethod
    def union(cls, runs: Iterable[Run]) -> "Ranges":
        """The bytes of all runs, in any order; they may overlap but are not empty."""
        merged: list[Run] = []
        for start, stop in sorted(runs):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(stop, merged[-1][1])
            else:
                merged.append((start, stop))
        return cls(tuple(merged))

    @property
    def nbytes(self) -> int:
        """How many bytes they are."""
        if len(self.runs) == 1:
            ((start, stop),) = self.runs
            return stop - start
        return sum(stop - start for start, stop in self.runs)

    def covers(self, other: "Ranges") -> bool:
        """Whether all bytes of `other` are among these."""
        mine, theirs = self.runs, other.runs
        if not theirs or mine == theirs:
            return True
        if len(mine) == 1:
            return mine[0][0] <= theirs[0][0] and theirs[-1][1] <= mine[0][1]
        return not other - self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self.runs == other.runs

    def __hash__(self) -> int:
        return hash(self.runs)

    def __repr__(self) -> str:
        return f"Ranges({self.runs})"

    def blocks(self, size: int, stop: int) -> "Ranges":
        """The blocks of `size` bytes that these bytes are in, before `stop`."""
        return Ranges.union(
            (first // size * size, min(-(-last // size) * size, stop)) for first, last in self.runs
        )

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
        if not self.runs:
            return other
        if self.covers(other):
            return self
        return Ranges.union((*self.runs, *other.runs))

    def __and__(self, other: "Ranges") -> "Ranges":
        if not self.runs or self.runs == other.runs:
            return self
        if not other.runs:
            return other
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
            return _NOTHING
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


_NOTHING = Ranges()
