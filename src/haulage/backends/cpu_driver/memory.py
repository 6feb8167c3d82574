"""Host memory that the CPU device owns, and host memory that was registered with it."""

import threading

import numpy as np

from haulage.backends.cpu_driver import processor
from haulage.errors import DeviceError, OutOfMemory

ALIGNMENT = 256

# The system hands out large memory before it has it and kills a process that then uses it; from
# this size on it is asked first what is really free. Below, asking costs more than it tells.
CHECKED_FROM = 16 << 20


class Memory:
    """All allocations and registrations of the device, by address. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._allocated: dict[int, tuple[np.ndarray, str]] = {}
        self._registered: dict[int, int] = {}

    def alloc(self, nbytes: int, kind: str) -> int:
        """The address of `nbytes` of new memory, not initialised, aligned to 256 bytes.

        Raises:
            OutOfMemory: says how much was asked and how much is free.
        """
        if nbytes >= CHECKED_FROM and nbytes > processor.memory()[0]:
            raise _out_of_memory(nbytes, kind)
        try:
            storage = np.empty(nbytes + ALIGNMENT, np.uint8)
        except (MemoryError, ValueError) as error:  # ValueError: larger than an address can be
            raise _out_of_memory(nbytes, kind) from error
        start: int = storage.__array_interface__["data"][0]
        address = -(-start // ALIGNMENT) * ALIGNMENT
        with self._lock:
            self._allocated[address] = (storage, kind)
        return address

    def free(self, address: int, kind: str) -> None:
        """Give back what `alloc` returned.

        Raises:
            DeviceError: no memory of that kind was allocated at the address, or it was freed.
        """
        with self._lock:
            entry = self._allocated.get(address)
            if entry is None:
                raise DeviceError(f"free of {address:#x}: no {kind} memory is allocated there")
            if entry[1] != kind:
                raise DeviceError(
                    f"free of {address:#x} as {kind} memory, but it was allocated as {entry[1]}"
                )
            del self._allocated[address]

    def register(self, address: int, nbytes: int) -> None:
        """Note host memory of the caller as known to the device.

        Raises:
            DeviceError: the range overlaps one that is registered already.
        """
        with self._lock:
            for start, length in self._registered.items():
                if start < address + nbytes and address < start + length:
                    raise DeviceError(
                        f"register of {nbytes} bytes at {address:#x}: {length} bytes at "
                        f"{start:#x} are registered already; unregister them first"
                    )
            self._registered[address] = nbytes

    def unregister(self, address: int) -> None:
        """Forget a registration.

        Raises:
            DeviceError: no registration starts at the address.
        """
        with self._lock:
            if self._registered.pop(address, None) is None:
                raise DeviceError(f"unregister of {address:#x}: nothing is registered there")

    def renew_lock(self) -> None:
        """After a fork, in the child: the lock may have been held by a thread that is gone."""
        self._lock = threading.RLock()


def _out_of_memory(nbytes: int, kind: str) -> OutOfMemory:
    free, total = processor.memory()
    return OutOfMemory(
        f"the cpu device has no room for {nbytes:,} bytes of {kind} memory: "
        f"{free:,} of {total:,} bytes are free"
    )
