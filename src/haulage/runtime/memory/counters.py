"""Counters of memory: always on, so each is a few additions.

They are in plain memory, so that machine code can count too. In Python only `pool.Pool` counts.
"""

from array import array

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
