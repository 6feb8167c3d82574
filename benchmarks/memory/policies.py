"""Models of how allocators keep memory for reuse: their policies, not the real libraries.

Each has `allocate(nbytes)`, which returns a token, `free(token)` and `reserved`, the bytes that it
has taken from the driver. None gives memory back: what a program needs at its peak is the question.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, Protocol

KIB, MIB = 2**10, 2**20


class Policy(Protocol):
    """What a trace is replayed on."""

    reserved: int

    def allocate(self, nbytes: int) -> Any:
        """A token for a block of `nbytes` (> 0) or more."""
        ...

    def free(self, token: Any) -> None:
        """Give the block back."""
        ...


class Classes:
    """A list of free blocks for each size that `rounded` gives, and no splitting.

    With sizes to 256 bytes it is a cache of exact sizes. With 8 classes per doubling it wastes at
    most an eighth of each block; the pools of PyCUDA and PyOpenCL take their classes from the
    leading bits of a size in this way. With powers of two it rounds as the buddy system, which
    would merge as well.
    """

    def __init__(self, rounded: Callable[[int], int]) -> None:
        self._rounded = rounded
        self._free: dict[int, int] = {}
        self.reserved = 0

    def allocate(self, nbytes: int) -> int:
        """The class of the block."""
        size = self._rounded(nbytes)
        if self._free.get(size):
            self._free[size] -= 1
        else:
            self.reserved += size
        return size

    def free(self, token: int) -> None:
        """Put the block into the list of its class."""
        self._free[token] = self._free.get(token, 0) + 1


def exact(nbytes: int) -> int:
    """Whole 256 bytes."""
    return -(-nbytes // 256) * 256


def eighths(nbytes: int) -> int:
    """The next of 8 sizes per doubling, from 256 bytes on."""
    step = max(256, 1 << max(0, (nbytes - 1).bit_length() - 4))
    return -(-nbytes // step) * step


def power_of_two(nbytes: int) -> int:
    """The next power of two, from 256 bytes on."""
    return max(256, 1 << (nbytes - 1).bit_length())


class _Extents:
    """Free pieces of segments: best fit, lowest address first, neighbours of a segment merged."""

    def __init__(self) -> None:
        self._by_size: list[tuple[int, int]] = []
        self._sizes: dict[int, int] = {}
        self._starts: dict[int, int] = {}  # end -> start

    def take(self, nbytes: int) -> tuple[int, int] | None:
        """(start, bytes) of the smallest that has `nbytes`, taken out; None: there is none."""
        at = bisect_left(self._by_size, (nbytes, -1))
        if at == len(self._by_size):
            return None
        size, start = self._by_size[at]
        self._remove(start, size)
        return start, size

    def add(self, start: int, size: int) -> None:
        """Put a piece back."""
        before = self._starts.get(start)
        if before is not None:
            self._remove(before, start - before)
            start, size = before, size + start - before
        after = self._sizes.get(start + size)
        if after is not None:
            self._remove(start + size, after)
            size += after
        insort(self._by_size, (size, start))
        self._sizes[start] = size
        self._starts[start + size] = start

    def last(self, end: int) -> int:
        """Free bytes in front of the address `end`; they are taken out."""
        start = self._starts.get(end)
        if start is None:
            return 0
        self._remove(start, end - start)
        return end - start

    def _remove(self, start: int, size: int) -> None:
        del self._by_size[bisect_left(self._by_size, (size, start))]
        del self._sizes[start], self._starts[start + size]


class Segments:
    """Best fit within segments that the driver gives one by one, which never merge.

    `rounded` gives the size of a block, `segment` that of the segment for a block that no free
    piece can hold, and `rest` the smallest rest that is split off.
    """

    def __init__(
        self,
        rounded: Callable[[int], int],
        segment: Callable[[int], int],
        rest: int,
    ) -> None:
        self._rounded, self._segment, self._rest = rounded, segment, rest
        self._extents = _Extents()
        self._next = 0
        self.reserved = 0

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """(address, bytes) of the block."""
        size = self._rounded(nbytes)
        found = self._extents.take(size)
        if found is None:
            # A gap between addresses keeps segments from merging.
            found = self._next, self._segment(size)
            self._next += found[1] + MIB
            self.reserved += found[1]
        start, there = found
        if there - size < self._rest:
            return start, there
        self._extents.add(start + size, there - size)
        return start, size

    def free(self, token: tuple[int, int]) -> None:
        """Merge the block with its free neighbours."""
        self._extents.add(*token)


class Parted:
    """One policy up to a size, another above."""

    def __init__(self, small: Policy, large: Policy, limit: int) -> None:
        self._small, self._large, self._limit = small, large, limit

    @property
    def reserved(self) -> int:
        """Bytes of both."""
        return self._small.reserved + self._large.reserved

    def allocate(self, nbytes: int) -> tuple[Policy, Any]:
        """A token of the one that is responsible."""
        chosen = self._small if nbytes <= self._limit else self._large
        return chosen, chosen.allocate(nbytes)

    def free(self, token: tuple[Policy, Any]) -> None:
        """Give the block back to the one that it is from."""
        token[0].free(token[1])


class Growing:
    """Best fit in one range of addresses, with memory put behind it page by page as it grows."""

    def __init__(self, page: int = 2 * MIB) -> None:
        self._extents = _Extents()
        self._page = page
        self.reserved = 0

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """(address, bytes) of the block."""
        size = -(-nbytes // 512) * 512
        found = self._extents.take(size)
        if found is None:
            free = self._extents.last(self.reserved)
            more = -(-(size - free) // self._page) * self._page
            found = self.reserved - free, free + more
            self.reserved += more
        start, there = found
        if there > size:
            self._extents.add(start + size, there - size)
        return start, size

    def free(self, token: tuple[int, int]) -> None:
        """Merge the block with its free neighbours."""
        self._extents.add(*token)


def cupy() -> Policy:
    """CuPy's `MemoryPool`: whole 512 bytes; a segment is what was asked for (cupy/cuda/memory.pyx,
    `SingleDeviceMemoryPool._malloc` and `_alloc`)."""
    return Segments(_whole_512, _whole_512, 512)


def pytorch() -> Policy:
    """PyTorch's caching allocator: segments of 2 MiB for blocks up to 1 MiB, of 20 MiB for those
    below 10 MiB, else whole 2 MiB (c10/cuda/CUDACachingAllocator.cpp: kSmallSize, kSmallBuffer,
    kLargeBuffer, kMinLargeAlloc, kRoundLarge; rests as in `should_split`)."""
    small = Segments(_whole_512, lambda size: 2 * MIB, 512)
    return Parted(small, Segments(_whole_512, _large_segment, MIB + 1), MIB)


def _whole_512(nbytes: int) -> int:
    return -(-nbytes // 512) * 512


def _large_segment(size: int) -> int:
    return 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB


# What they are called, and how they are made.
POLICIES: dict[str, tuple[str, Callable[[], Policy]]] = {
    "exact": ("a cache of exact sizes", lambda: Classes(exact)),
    "eighths": ("a cache of 8 classes per doubling", lambda: Classes(eighths)),
    "powers": ("a cache of powers of two", lambda: Classes(power_of_two)),
    "cupy": ("best fit, segments as requested (as CuPy)", cupy),
    "pytorch": ("best fit, segments of 2 and 20 MiB (as PyTorch)", pytorch),
    "growing": ("best fit in one growing range (as PyTorch's expandable segments)", Growing),
}
