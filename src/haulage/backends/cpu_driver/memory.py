"""Host memory that the CPU device owns, and host memory that was registered with it."""

import ctypes
import mmap
import threading

import numpy as np

from haulage.backends.cpu_driver import room
from haulage.backends.cpu_driver.units import Units
from haulage.errors import DeviceError

PAGE = mmap.PAGESIZE


class Memory:
    """All allocations and registrations of the device, by address. Safe to use from any thread.

    Each allocation owns whole pages, so that it can be shared with other processes: see `units`.
    """

    def __init__(self) -> None:
        self.units = Units()
        self._lock = threading.RLock()
        self._allocated: dict[int, tuple[np.ndarray, str, int]] = {}
        self._registered: dict[int, int] = {}

    # ---- allocations ------------------------------------------------------------------------

    def alloc(self, nbytes: int, kind: str) -> int:
        """The address of `nbytes` of new memory, not initialised, where a page begins.

        Raises:
            OutOfMemory: says how much was asked and how much is free.
        """
        room.check(nbytes, kind)
        try:
            storage = np.empty((nbytes + 2 * PAGE - 1) & -PAGE, np.uint8)
        except (MemoryError, ValueError) as error:  # ValueError: larger than an address can be
            raise room.none(nbytes, kind) from error
        # The fastest way to learn it.
        start = ctypes.addressof(ctypes.c_uint8.from_buffer(storage.data))
        address = (start + PAGE - 1) & -PAGE
        with self._lock:
            self._allocated[address] = (storage, kind, nbytes)
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
            self.units.vacate(address, entry[2])
            del self._allocated[address]

    def size(self, address: int) -> int:
        """The bytes of the allocation that starts at `address`; 0 if none does."""
        entry = self._allocated.get(address)
        return 0 if entry is None else entry[2]

    def sizes(self) -> dict[int, int]:
        """All allocations: address -> bytes."""
        # A signal's handler may allocate meanwhile, in the thread that has the lock.
        return {address: entry[2] for address, entry in tuple(self._allocated.items())}

    # ---- registrations ------------------------------------------------------------------------

    def register(self, address: int, nbytes: int) -> None:
        """Note host memory of the caller as known to the device.

        Raises:
            DeviceError: the range overlaps one that is registered already.
        """
        with self._lock:
            for start, length in tuple(self._registered.items()):
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

    def renew(self) -> None:
        """After a fork, in the child: a new lock, and all memory its own, as it is now."""
        self._lock = threading.RLock()
        self.units.renew()
