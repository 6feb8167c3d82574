"""The counters of each device and of all: they are always on, as each is a few additions."""

from haulage._core.memory import Counter

# Of all devices and kinds.
total = Counter()

_of_devices: dict[object, Counter] = {}


def of_device(device: object) -> Counter:
    """That of all kinds of memory on a device."""
    return _of_devices.setdefault(device, Counter())


def peak_of_all() -> int:
    """The most bytes in use on all devices; their peaks may have been reset one by one."""
    return min(total.peak, sum(counter.peak for counter in tuple(_of_devices.values())))
