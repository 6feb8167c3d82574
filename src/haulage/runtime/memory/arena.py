"""Large blocks, and slabs for small ones, cut from memory that grows by need.

Two ways to grow stand below: `Virtual`, ranges of addresses behind which memory is put page by
page, so that free space next to other free space is as good as new, and `Segments`, allocations of
the driver's, where a device has no such thing. Freed memory stays until `trim`.
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from typing import Protocol

from haulage._core.extents import Extents
from haulage._core.memory import QUANTUM
from haulage.errors import DeviceError, OutOfMemory

# Per cent of what is in use that may be held before free memory moves to where it is needed.
# Without this a third and more of it ends in pieces that nothing fits into, where sizes vary; with
# less, memory moves all the time (docs/performance-notes.md).
SLACK = 125

# Segments for what is asked: up to 1 MiB, up to 10 MiB; more gets one of its own. These are the
# figures of PyTorch's allocator.
_SEGMENTS = ((1 << 20, 2 << 20), (10 << 20, 20 << 20))
_SEGMENT_STEP = 2 << 20

# What is reserved at once where addresses are scarce: at most this, and of a limit of the process's
# this part.
_SMALL_RANGE, _LIMIT_SHARE = 256 << 20, 64

# No processor has so many.
_ADDRESSES = 1 << 60


class Space(Protocol):
    """Where an arena gets its memory."""

    reserved: int
    # Whether the host has the device's addresses; False: it has none; None: see `host_address`.
    on_host: bool | None

    def grow(self, nbytes: int, free: Extents) -> None:
        """Put memory into `free`, so that `nbytes` in one piece are there.

        Raises:
            OutOfMemory: the device has no room; nothing is changed.
        """
        ...

    def missing(self, nbytes: int, free: Extents) -> int:
        """Bytes that `grow` would add."""
        ...

    def shrink(self, free: Extents, enough: int) -> int:
        """Give memory in `free` back to the device, `enough` bytes of it or all that can be; how
        much that was."""
        ...

    def host_address(self, address: int) -> int:
        """The host's address of a byte of the device's; 0 if it has none."""
        ...

    def repair(self) -> None:
        """Make it whole again where `grow` or `shrink` was cut short in the middle."""
        ...

    def ranges(self) -> list[tuple[int, int]]:
        """(address, bytes) of what is held."""
        ...


class Arena:
    """Blocks of any size out of a space; best fit, neighbours that are free become one.

    Not safe for several threads at once; `Heap` sees to that.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.free_extents = Extents()

    @property
    def reserved(self) -> int:
        """Bytes held of the device."""
        return self.space.reserved

    @property
    def free_bytes(self) -> int:
        """Bytes of these that no block has."""
        return self.free_extents.nbytes

    @property
    def largest_free(self) -> int:
        """The most of these that are in one piece."""
        return self.free_extents.largest

    def allocate(self, nbytes: int) -> int:
        """The address of `nbytes`, a multiple of `QUANTUM`.

        Raises:
            OutOfMemory: the device has no room; nothing is changed.
        """
        self.provide(nbytes)
        address = self.free_extents.take(nbytes)
        assert address is not None
        return address

    def provide(self, nbytes: int) -> None:
        """See that `nbytes` in one piece are free, a multiple of `QUANTUM`.

        Raises:
            OutOfMemory: the device has no room; nothing is changed.
        """
        if self.largest_free < nbytes:
            self._make_way(nbytes)
            self.space.grow(nbytes, self.free_extents)

    def free(self, address: int, nbytes: int) -> None:
        """Take back what `allocate` gave."""
        self.free_extents.add(address, nbytes)

    def repair(self) -> None:
        """Make it whole again where something was cut short in the middle."""
        self.space.repair()

    def _make_way(self, nbytes: int) -> None:
        """Give free memory back, in pieces too small for `nbytes`, where much more than what is in
        use would be held with what has to be added."""
        missing = self.space.missing(nbytes, self.free_extents)
        in_use = self.reserved - self.free_bytes + nbytes
        excess = self.reserved + missing - in_use * SLACK // 100
        if excess > 0:
            self.trim(min(excess, missing))

    def trim(self, enough: int = 1 << 62) -> int:
        """Give free memory back to the device, until `enough` bytes are; how much that was."""
        return self.space.shrink(self.free_extents, enough)


def rounded(nbytes: int, grain: int = QUANTUM) -> int:
    """The next multiple of `grain`."""
    return -(-nbytes // grain) * grain


class Segments:
    """Allocations of a driver: 2 MiB for small requests, 20 MiB for larger ones, their own size
    for the largest.

    Args:
        allocate: of bytes: (device's address, host's address or 0). Raises OutOfMemory.
        release: of these two.
    """

    def __init__(
        self, allocate: Callable[[int], tuple[int, int]], release: Callable[[int, int], object]
    ) -> None:
        self.reserved = 0
        self.on_host: bool | None = None
        self._allocate = allocate
        self._release = release
        self._segments: dict[int, tuple[int, int]] = {}  # address -> (bytes, host's address)
        self._starts: list[int] = []  # their addresses, in order

    def grow(self, nbytes: int, free: Extents) -> None:
        """A new segment; one of just the size that is needed where the usual one does not fit."""
        for size in dict.fromkeys((self.missing(nbytes, free), nbytes)):
            try:
                address, host = self._allocate(size)
                break
            except OutOfMemory:
                if size == nbytes:
                    raise
        one = False if not host else True if host == address else None
        self.on_host = one if not self._segments or one is self.on_host else None
        if address not in self._segments:
            insort(self._starts, address)
        self._segments[address] = size, host
        self.reserved += size
        free.walls |= {address, address + size}
        free.add(address, size)

    def missing(self, nbytes: int, free: Extents) -> int:
        """The usual size of a segment for it."""
        usual = next((size for most, size in _SEGMENTS if nbytes <= most), None)
        return usual or rounded(nbytes, _SEGMENT_STEP)

    def shrink(self, free: Extents, enough: int) -> int:
        """Free segments of which all is free."""
        released = 0
        for address, nbytes in list(free):
            if released >= enough:
                break
            if address not in self._segments or self._segments[address][0] != nbytes:
                continue
            host = self._segments[address][1]
            # Nobody may get what the driver has back, whatever comes in between or goes wrong.
            free.cut(address, nbytes)
            self._forget(address, nbytes, free)
            released += nbytes
            self._release(address, host)
        return released

    def _forget(self, address: int, nbytes: int, free: Extents) -> None:
        del self._segments[address]
        del self._starts[bisect_right(self._starts, address) - 1]
        self.reserved -= nbytes
        # A segment that later has these addresses inside is one piece there.
        if address + nbytes not in self._segments:
            free.walls.discard(address + nbytes)
        at = bisect_right(self._starts, address) - 1
        before = self._starts[at] if at >= 0 else None
        if before is None or before + self._segments[before][0] != address:
            free.walls.discard(address)

    def host_address(self, address: int) -> int:
        """By the segment that it is in."""
        starts = self._starts
        at = bisect_right(starts, address) - 1
        start = starts[at] if at >= 0 else address
        size, host = self._segments.get(start, (0, 0))
        if not start <= address < start + size:
            raise ValueError(f"{address:#x} is in no segment")
        return host + address - start if host else 0

    def repair(self) -> None:
        """By the table of segments."""
        self._starts = sorted(self._segments)
        self.reserved = sum(size for size, _ in self._segments.values())

    def ranges(self) -> list[tuple[int, int]]:
        """The segments."""
        return sorted((address, size) for address, (size, _) in self._segments.items())


class Pages(Protocol):
    """What a `Virtual` space asks of a back end; as `backends.base` has it."""

    def reserve(self, nbytes: int) -> int:
        """Addresses without memory."""
        ...

    def map(self, address: int, nbytes: int) -> None:
        """Memory behind a part of them."""
        ...

    def unmap(self, address: int, nbytes: int) -> None:
        """None any more."""
        ...

    def release(self, address: int, nbytes: int) -> None:
        """The addresses of a reservation, or of its end, are others' again; only where there is a
        limit."""
        ...

    def limit(self) -> int | None:
        """How many addresses the process may have, as others need some of them; None: no limit."""
        ...


class Virtual:
    """Ranges of addresses with memory behind the parts that are in use.

    Args:
        pages: what reserves addresses and puts memory behind them.
        granularity: bytes of the smallest part that can have memory.
        range_bytes: how much is reserved at once.
        on_host: whether the host's addresses are the same ones.

    Raises:
        OutOfMemory: there are no addresses to reserve.
    """

    def __init__(self, pages: Pages, granularity: int, range_bytes: int, on_host: bool) -> None:
        self.reserved = 0
        self._pages = pages
        self._granularity = granularity
        self._range_bytes = rounded(range_bytes, granularity)
        self.on_host: bool | None = on_host
        self._empty = Extents()  # reserved, without memory
        self._ranges: list[tuple[int, int]] = []
        self._add_range(self._granularity)

    def grow(self, nbytes: int, free: Extents) -> None:
        """Memory behind the addresses where the least of it is needed: behind free memory, if there
        is some at the end of what is mapped."""
        place = self._best_place(nbytes, free)
        if place is None:
            self._add_range(nbytes)
            place = self._best_place(nbytes, free)
            assert place is not None
        address, missing = place
        self._empty.cut(address, missing)
        try:
            self._pages.map(address, missing)
        except DeviceError:
            self._empty.add(address, missing)
            raise
        self.reserved += missing
        free.walls |= self._empty.walls
        free.add(address, missing)

    def missing(self, nbytes: int, free: Extents) -> int:
        """What is not free already at the best place."""
        place = self._best_place(nbytes, free)
        return rounded(nbytes, self._granularity) if place is None else place[1]

    def _best_place(self, nbytes: int, free: Extents) -> tuple[int, int] | None:
        best: tuple[int, int] | None = None
        for address, size in self._empty:
            missing = rounded(nbytes - free.ending_at(address), self._granularity)
            if missing <= size and (best is None or missing < best[1]):
                best = address, missing
        return best

    def _add_range(self, nbytes: int) -> None:
        if nbytes >= _ADDRESSES:
            raise OutOfMemory(f"{nbytes:,} bytes are more than a program can address")
        least = rounded(nbytes, self._granularity)
        limit = self._pages.limit()
        usual = self._range_bytes
        if limit is not None:
            usual = min(usual, _SMALL_RANGE, rounded(limit // _LIMIT_SHARE, self._granularity))
        size = max(usual, least)
        while True:
            try:
                address = self._pages.reserve(size)
                break
            except DeviceError:
                # The system may have other limits for them.
                if size <= max(_SMALL_RANGE, least):
                    raise
                size = max(_SMALL_RANGE, least)
        self._ranges.append((address, size))
        self._empty.walls |= {address, address + size}
        self._empty.add(address, size)

    def shrink(self, free: Extents, enough: int) -> int:
        """Take the memory from whole pages that are free, the last ones first."""
        released = 0
        for address, nbytes in reversed(list(free)):
            if released >= enough:
                break
            start = rounded(address, self._granularity)
            whole = (address + nbytes) // self._granularity * self._granularity - start
            if whole <= 0:
                continue
            if whole > enough - released:
                keep = (whole - (enough - released)) // self._granularity * self._granularity
                start, whole = start + keep, whole - keep
            # In neither table between these: whatever comes in, no address is mapped twice, or
            # given out when its memory is gone. A call that fails has given it back all the same.
            free.cut(start, whole, address)
            failure = None
            try:
                self._pages.unmap(start, whole)
            except DeviceError as error:
                failure = error
            self._empty.add(start, whole)
            self.reserved -= whole
            released += whole
            if failure is not None:
                raise failure
        if self._pages.limit() is not None:
            self._release_ends()
        return released

    def _release_ends(self) -> None:
        """Give the addresses back of ranges, or of their ends, without any memory."""
        for start, size in tuple(self._ranges):
            unused = self._empty.ending_at(start + size, across=True)
            if not unused:
                continue
            end = start + size - unused
            self._ranges.remove((start, size))
            if unused < size:
                self._ranges.append((start, size - unused))
                self._empty.walls.add(end)
            self._empty.cut(end, unused)
            self._pages.release(end, unused)

    def repair(self) -> None:
        """By the tables of ranges, and of addresses without memory."""
        for address, nbytes in tuple(self._empty):
            if not any(start <= address < start + size for start, size in self._ranges):
                self._empty.cut(address, nbytes)
        self.reserved = sum(size for _, size in self._ranges) - self._empty.nbytes

    def host_address(self, address: int) -> int:
        """The same one, or none."""
        return address if self.on_host else 0

    def ranges(self) -> list[tuple[int, int]]:
        """What has memory, in runs."""
        held = []
        for start, size in sorted(self._ranges):
            at, end = start, start + size
            for empty, nbytes in self._empty:
                if start <= empty < end:
                    if empty > at:
                        held.append((at, empty - at))
                    at = empty + nbytes
            if end > at:
                held.append((at, end - at))
        return held
