"""Two recorded traces of allocations and frees, and how they were made.

A trace is a text file, compressed by gzip: a line `+N` allocates N bytes, a line `-K` frees what
the K-th allocation (from 0) gave. Each has 12 000 such operations, with at most 3.2 GiB live.
`python -m benchmarks.memory.traces` writes them anew; they are kept as files so that all who
compare allocators replay the same.
"""

import gzip
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "traces"
OPERATIONS = 12_000
MOST_LIVE = int(3.2 * 2**30)

# (bytes, -1) allocates, (0, k) frees the k-th allocation.
Operation = tuple[int, int]


def read(name: str) -> list[Operation]:
    """The operations of a recorded trace, one of `NAMES`."""
    lines = gzip.decompress((FOLDER / f"{name}.gz").read_bytes()).decode("ascii").split()
    return [(int(line), -1) if line[0] == "+" else (0, int(line[1:])) for line in lines]


def text(operations: list[Operation]) -> str:
    """The lines of a trace's file."""
    return "".join(f"+{size}\n" if size else f"-{which}\n" for size, which in operations)


def log_uniform(seed: int = 1) -> list[Operation]:
    """Sizes from 256 B to 128 MiB, each order of magnitude as often; any live one may go next.

    As in a program that holds arrays of all kinds for any length of time.
    """
    rng = random.Random(seed)
    made = _Recorder()
    while made.room():
        size = int(256 * 2 ** (19 * rng.random()))
        while made.live and (made.in_use + size > MOST_LIVE or rng.random() < 0.45):
            made.free(sorted(made.live)[int(len(made.live) * rng.random())])
        made.allocate(size)
    return made.done()


def drifting_batches(seed: int = 2) -> list[Operation]:
    """Batches of arrays that each are a little larger than those of the batch before.

    As where inputs get longer: twelve layers' arrays, the largest 64 times the smallest, all grow
    together by 1.5 % a batch, until they are twice as large. While a batch comes, arrays of the one
    before go in any order to make room, the rest of them behind it; a twentieth live on for one to
    three batches more.
    """
    rng = random.Random(seed)
    made = _Recorder()
    before: list[int] = []
    kept: list[tuple[int, int]] = []
    for batch in itertools.count():
        if not made.room():
            return made.done()
        scale = 6 * 2 ** (20 + made.share())
        for one in [one for one in kept if one[0] <= batch]:
            made.free(one[1])
            kept.remove(one)
        mine: list[int] = []
        filled = 0
        while made.room():
            size = int(scale * 2 ** (6 * (len(mine) % 12 / 11 - 0.5)))
            filled += size
            while before and made.in_use + size > MOST_LIVE:
                which = before.pop(int(len(before) * rng.random()))
                if rng.random() < 0.05:
                    kept.append((batch + 1 + int(3 * rng.random()), which))
                else:
                    made.free(which)
            if filled > 0.7 * MOST_LIVE or made.in_use + size > MOST_LIVE:
                break
            mine.append(made.allocate(size))
        for which in before:
            made.free(which)
        before = mine
    raise AssertionError("batches are counted without end")


class _Recorder:
    """Operations so far, and what is live."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.live: dict[int, int] = {}
        self.in_use = 0
        self._count = 0

    def room(self) -> bool:
        return len(self.operations) < OPERATIONS

    def share(self) -> float:
        """How much of the trace is made: 0 to 1."""
        return len(self.operations) / OPERATIONS

    def allocate(self, size: int) -> int:
        self.operations.append((size, -1))
        which, self._count = self._count, self._count + 1
        self.live[which] = size
        self.in_use += size
        return which

    def free(self, which: int) -> None:
        self.operations.append((0, which))
        self.in_use -= self.live.pop(which)

    def done(self) -> list[Operation]:
        return self.operations[:OPERATIONS]


NAMES = {"log-uniform": log_uniform, "drifting-batches": drifting_batches}


def _compressed(operations: list[Operation]) -> bytes:
    return gzip.compress(text(operations).encode("ascii"), mtime=0)


def write() -> Iterator[Path]:
    """Make the files anew."""
    for name, make in NAMES.items():
        path = FOLDER / f"{name}.gz"
        path.write_bytes(_compressed(make()))
        yield path


if __name__ == "__main__":
    for path in write():
        print(f"written: {path}, {path.stat().st_size} bytes")
