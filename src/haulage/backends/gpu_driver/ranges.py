"""Reserved addresses, and the device's memory that is put behind parts of them.

The driver takes memory away only as it was put there, in whole pieces. So memory is put there
granule by granule, and any granules can go again.
"""

import threading

from haulage.backends.base import DEVICE
from haulage.backends.gpu_driver.calls import OUT_OF_MEMORY, Calls
from haulage.backends.gpu_driver.contexts import Contexts
from haulage.backends.gpu_driver.memory import taken
from haulage.errors import OutOfMemory
from haulage.interruption import on_error

# Each granule takes some calls of the driver, so that few large ones are put there sooner.
_LARGE = 16 << 20
# Of a device's memory, a granule is this part at the most.
_PART = 512

_INVALID_VALUE = 1


class Ranges:
    """Reserved ranges of all devices. Safe to use from any thread."""

    def __init__(self, calls: Calls, contexts: Contexts, devices: int) -> None:
        self._calls = calls
        self._contexts = contexts
        self._lock = threading.Lock()
        self._granule = self._find_granule(devices)
        self._is_shared = bool(self._granule) and all(
            map(calls.names_chunks_by_files, range(devices))
        )
        # The parts that have memory, with their device.
        self._mapped: dict[int, tuple[int, int]] = {}

    def _find_granule(self, devices: int) -> int:
        least = [self._least(device) for device in range(devices)]
        if not least or not min(least):
            return 0
        found = max(least)
        smallest = min(self._calls("DeviceTotalMem", device) for device in range(devices))
        while 2 * found <= min(_LARGE, smallest // _PART):
            found *= 2
        return found

    def _least(self, device: int) -> int:
        """Bytes that chunks of a device are multiples of; 0: it has no such memory."""
        has = "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"
        if not (self._calls.has_ranges and self._calls.attribute(device, has)):
            return 0
        is_shared = self._calls.names_chunks_by_files(device)
        return int(self._calls("MemGetAllocationGranularity", device, is_shared))

    def granularity(self) -> int:
        """Bytes of a granule; 0 where devices have no such memory."""
        return self._granule

    def reserve(self, nbytes: int) -> int:
        """Addresses, without memory."""
        asked = nbytes, self._granule, 0, 0
        status, address = self._calls.ask("MemAddressReserve", *asked)
        if status in (OUT_OF_MEMORY, _INVALID_VALUE):
            raise OutOfMemory(
                f"{self._calls.driver_words} has no {nbytes:,} addresses left to reserve"
            )
        self._calls.check(status, "MemAddressReserve", *asked)
        return int(address)

    def release(self, address: int, nbytes: int) -> None:
        """Give the addresses back."""
        self._calls("MemAddressFree", address, nbytes)

    def map(self, address: int, nbytes: int) -> None:
        """Put memory of the current device behind addresses."""
        device = self._contexts.device()
        asked = self._granule, device, self._is_shared
        done = address
        with on_error(lambda: self.take(address, done - address, self._granule)):
            while done < address + nbytes:
                chunk = taken(self._calls, nbytes, DEVICE, "MemCreate", *asked)
                # The memory lives without its handle as long as it is mapped.
                try:
                    self._calls("MemMap", done, self._granule, 0, chunk, 0)
                    done += self._granule
                finally:
                    self._calls("MemRelease", chunk)
            with self._lock:
                self._let(device, address, nbytes)
                self._mapped[address] = nbytes, device

    def _let(self, device: int, address: int, nbytes: int) -> None:
        """Let the device, and its peers, use memory that is mapped."""
        peers = self._contexts.peers.get(device, ())
        self._calls("MemSetAccess", address, nbytes, [device, *peers])

    def unmap(self, address: int, nbytes: int) -> None:
        """Take the memory away. Where the driver refuses, what it has not taken is still there."""
        with self._lock:
            parts = [
                (max(start, address), min(start + size, address + nbytes))
                for start, (size, _) in self._mapped.items()
                if start < address + nbytes and address < start + size
            ]
        for low, high in parts:
            done = low
            try:
                while done < high:
                    self._calls("MemUnmap", done, self._granule)
                    done += self._granule
            finally:
                with self._lock:
                    self._forget(low, done)

    def _forget(self, low: int, high: int) -> None:
        """There is no memory any more from `low` to `high`, which lie in one piece."""
        for start, (size, device) in list(self._mapped.items()):
            if start <= low < high <= start + size:
                del self._mapped[start]
                if start < low:
                    self._mapped[start] = low - start, device
                if high < start + size:
                    self._mapped[high] = start + size - high, device

    def take(self, address: int, nbytes: int, granule: int) -> None:
        """Take memory away that was put there in granules of a size."""
        for at in range(address, address + nbytes, granule):
            self._calls("MemUnmap", at, granule)

    def file_of(self, address: int) -> int:
        """A new file descriptor for the granule behind an address."""
        chunk = self._calls("MemRetainAllocationHandle", address)
        try:
            return int(self._calls("MemExportToShareableHandle", chunk))
        finally:
            self._calls("MemRelease", chunk)

    def granules(self, start: int, stop: int) -> tuple[int, int] | None:
        """(address, bytes) of the granules that the bytes from `start` to `stop` are in; None if
        they are in no range."""
        with self._lock:
            for address, (size, _) in self._mapped.items():
                if address <= start < address + size:
                    low = start & -self._granule
                    return low, (stop + self._granule - 1 & -self._granule) - low
        return None

    def allow_here(self, address: int, nbytes: int) -> None:
        """Let the current device use memory of another process that is mapped."""
        with self._lock:
            self._let(self._contexts.device(), address, nbytes)

    def allow(self, device: int, peer: int) -> None:
        """Let kernels of `device` use memory of `peer` that is mapped, now and later."""
        with self._lock:
            peers = self._contexts.peers.setdefault(peer, [])
            if device not in peers:
                peers.append(device)
                for address, (nbytes, of) in self._mapped.items():
                    if of == peer:
                        self._let(peer, address, nbytes)
