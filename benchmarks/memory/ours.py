"""Haulage's own lists and arena, over pages or segments that are counted but hold no bytes."""

import haulage.platforms  # noqa: F401  (it makes the devices known)
from haulage._core.memory import Allocation
from haulage.runtime.devices.registry import current_device
from haulage.runtime.memory.arena import Arena, Segments, Space, Virtual
from haulage.runtime.memory.heap import Heap

_PAGE = 2 << 20
_GAP = 1 << 30


class Pages:
    """A driver's virtual memory, as far as an arena sees it; `calls` counts what it was asked."""

    def __init__(self) -> None:
        self.mapped: dict[int, None] = {}
        self.calls = 0
        self._next = 1 << 40

    def reserve(self, nbytes: int) -> int:
        """Addresses that nothing else has."""
        self.calls += 1
        address, self._next = self._next, self._next + nbytes + _GAP
        return address

    def limit(self) -> None:
        """There are as many addresses as anybody wants."""

    def map(self, address: int, nbytes: int) -> None:
        """Memory behind pages that have none."""
        self.calls += 1
        for page in range(address, address + nbytes, _PAGE):
            assert page not in self.mapped, "a page was mapped twice"
            self.mapped[page] = None

    def unmap(self, address: int, nbytes: int) -> None:
        """Its end."""
        self.calls += 1
        for page in range(address, address + nbytes, _PAGE):
            del self.mapped[page]


class Ours:
    """Blocks of the heap of one kind of memory, all of one stream."""

    def __init__(self, space: Space) -> None:
        self._heap = Heap(current_device(), "device", 0, Arena(space))
        # Without a stream, which is always idle.
        self._pool = self._heap.pool_of(None)
        self._live: set[Allocation] = set()

    def __del__(self) -> None:
        # They count as the device's in use, too.
        for block in self._live:
            self._pool.give(block, False)

    @property
    def reserved(self) -> int:
        """Bytes that the heap holds of the driver."""
        return self._heap.reserved

    def allocate(self, nbytes: int) -> Allocation:
        """A block."""
        block = Allocation()
        block.nbytes = nbytes
        if not self._pool.take_if_free(block):
            self._heap.provide(self._pool, block)
        self._live.add(block)
        return block

    def free(self, block: Allocation) -> None:
        """Give it back, as a stream does that has more work to do."""
        self._live.remove(block)
        self._pool.give(block, False)


def virtual() -> Ours:
    """Where a device has virtual memory."""
    return Ours(Virtual(Pages(), _PAGE, 1 << 36, False))


def segmented() -> Ours:
    """Where it has none."""
    pages = Pages()

    def allocate(nbytes: int) -> tuple[int, int]:
        return pages.reserve(nbytes), 0

    return Ours(Segments(allocate, lambda address, host: None))
