"""The memory of one stream in a heap: lists of free blocks by class, and counters.

Counters are always on, so each is a few additions. They are in plain memory, so that machine code
can count too; in Python only `Pool` counts.
"""

from array import array
from typing import TYPE_CHECKING, Protocol

from haulage.runtime.memory import classes
from haulage.runtime.memory.extents import Extents

if TYPE_CHECKING:
    from haulage.runtime.memory.heap import Heap


IN_USE, PEAK, ALLOCATIONS = 0, 1, 2


class Counter:
    """Bytes in use, most bytes since the last `reset_peak`, and blocks given out so far."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells = array("q", (0, 0, 0))

    @property
    def in_use(self) -> int:
        """Bytes in use."""
        return self.cells[IN_USE]

    @property
    def peak(self) -> int:
        """The most bytes that were in use."""
        return self.cells[PEAK]

    @property
    def allocations(self) -> int:
        """How many blocks were given out."""
        return self.cells[ALLOCATIONS]

    def reset_peak(self) -> None:
        """Let the peak be what is in use now."""
        cells = self.cells
        cells[PEAK] = cells[IN_USE]


# Of all devices and kinds.
total = Counter()

_of_devices: dict[object, Counter] = {}


def of_device(device: object) -> Counter:
    """That of all kinds of memory on a device."""
    return _of_devices.setdefault(device, Counter())


def peak_of_all() -> int:
    """The most bytes in use on all devices; their peaks may have been reset one by one."""
    return min(total.peak, sum(counter.peak for counter in tuple(_of_devices.values())))


class Allocation(Protocol):
    """Memory that was handed out: a `Block`, or the `Deallocation` of one."""

    nbytes: int
    device_ptr: int
    returned: bool


class Pool:
    """What the blocks of one stream come from and go back to.

    `stream` is the stream's handle; None for memory that the host writes to: its blocks come back
    once no stream uses them, and serve any. `counters` count its blocks, those of the heap, of the
    device, and all.
    """

    __slots__ = (
        "counter",
        "counters",
        "direct",
        "figures",
        "free",
        "heap",
        "held",
        "parked",
        "stream",
    )

    def __init__(self, heap: "Heap", stream: int | None) -> None:
        self.heap = heap
        self.stream = stream
        self.counter = Counter()
        self.counters = (self.counter, heap.counter, of_device(heap.device), total)
        self.figures = tuple(counter.cells for counter in self.counters)
        self.held = 0  # bytes of slabs and large blocks, be they free or not
        self.direct = 0  # bytes of blocks that came from the driver one by one
        # Addresses of free blocks, by class.
        self.free: list[list[int]] = [[] for _ in classes.SIZES]
        # Large blocks that work of the stream may still use.
        self.parked = Extents(heap.arena.free_extents.walls)

    def take_into(self, block: Allocation, cells: list[int]) -> bool:
        """Let `block` have the last one of some free addresses, and count it; False: there is none.

        There is no call in it, so neither another thread nor a signal's handler comes in between:
        no memory is lost or given twice, whatever the handler raises. The same for `take_back`.
        """
        of_pool, of_heap, of_device, of_all = self.figures
        nbytes = block.nbytes
        if not cells:
            return False
        block.device_ptr = cells[-1]
        del cells[-1]
        block.returned = False
        of_pool[ALLOCATIONS] += 1
        of_heap[ALLOCATIONS] += 1
        of_device[ALLOCATIONS] += 1
        of_all[ALLOCATIONS] += 1
        of_pool[IN_USE] = in_use = of_pool[IN_USE] + nbytes
        if in_use > of_pool[PEAK]:
            of_pool[PEAK] = in_use
        of_heap[IN_USE] = in_use = of_heap[IN_USE] + nbytes
        if in_use > of_heap[PEAK]:
            of_heap[PEAK] = in_use
        of_device[IN_USE] = in_use = of_device[IN_USE] + nbytes
        if in_use > of_device[PEAK]:
            of_device[PEAK] = in_use
        of_all[IN_USE] = in_use = of_all[IN_USE] + nbytes
        if in_use > of_all[PEAK]:
            of_all[PEAK] = in_use
        return True

    def take_back(self, block: Allocation, cells: list[int]) -> bool:
        """Put the address of `block` to the free ones, and count it no more; False: it was done."""
        of_pool, of_heap, of_device, of_all = self.figures
        nbytes = block.nbytes
        if block.returned:
            return False
        block.returned = True
        cells += (block.device_ptr,)
        of_pool[IN_USE] -= nbytes
        of_heap[IN_USE] -= nbytes
        of_device[IN_USE] -= nbytes
        of_all[IN_USE] -= nbytes
        return True

    @property
    def reserved(self) -> int:
        """Bytes held of the device for the stream."""
        return self.held + self.parked.nbytes + self.direct

    def is_idle(self) -> bool:
        """Whether no work can use its free blocks: in its stream, or in the default one, whose use
        of a block is not noted."""
        if self.stream is None:
            return True
        device = self.heap.device
        if device.capturing:
            return False  # drivers must not be asked for streams that are recorded
        device.activate()
        is_done = device.backend.stream_query
        return is_done(self.stream) and (not self.stream or is_done(0))
