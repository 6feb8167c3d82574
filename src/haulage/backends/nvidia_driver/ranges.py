"""Reserved addresses, and the device's memory that is put behind parts of them.

The driver takes memory away only as it was put there, in whole pieces. So memory is put there
granule by granule, and any granules can go again.
"""

import threading
from typing import Any

from haulage.backends.base import DEVICE
from haulage.backends.nvidia_driver.calls import OUT_OF_MEMORY, Calls, bindings
from haulage.backends.nvidia_driver.contexts import Contexts
from haulage.backends.nvidia_driver.memory import no_room
from haulage.errors import OutOfMemory

# The driver's numbers: pinned memory of a device; file descriptors to share it by; read and write.
_PINNED, _ON_DEVICE, _FILE, _READ_WRITE = 1, 1, 1, 3
_MINIMUM = 0
_INVALID_VALUE = 1

# Each granule takes some calls of the driver, so that few large ones are put there sooner.
_LARGE = 16 << 20
# Of a device's memory, a granule is this part at the most.
_PART = 512


class Ranges:
    """Reserved ranges of all devices. Safe to use from any thread."""

    def __init__(self, calls: Calls, contexts: Contexts, devices: int) -> None:
        self._calls = calls
        self._driver = bindings()
        self._contexts = contexts
        self._lock = threading.Lock()
        self._granule = self._find_granule(devices)
        # The parts that have memory, with their device; and who else may use a device's memory.
        self._mapped: dict[int, tuple[int, int]] = {}
        self._peers: dict[int, list[int]] = {}

    def _find_granule(self, devices: int) -> int:
        driver, names = self._driver, self._driver.CUdevice_attribute
        found, smallest = 0, 1 << 60
        self.is_shared = True
        for device in range(devices):
            handle = self._calls(driver.cuDeviceGet, device)

            def has(attribute: Any, handle: Any = handle) -> bool:
                return bool(self._calls(driver.cuDeviceGetAttribute, attribute, handle))

            if not has(names.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED):
                return 0
            self.is_shared = self.is_shared and has(
                names.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
            )
            option = driver.CUmemAllocationGranularity_flags(_MINIMUM)
            least = self._calls(driver.cuMemGetAllocationGranularity, self._wanted(device), option)
            found = max(found, least)
            smallest = min(smallest, self._calls(driver.cuDeviceTotalMem, handle))
        while found and 2 * found <= min(_LARGE, smallest // _PART):
            found *= 2
        return found

    def granularity(self) -> int:
        """Bytes of a granule; 0 where devices have no such memory."""
        return self._granule

    def reserve(self, nbytes: int) -> int:
        """Addresses, without memory."""
        reserve = self._driver.cuMemAddressReserve
        status, address = reserve(nbytes, self._granule, 0, 0)
        if int(status) in (OUT_OF_MEMORY, _INVALID_VALUE):
            raise OutOfMemory(f"the NVIDIA driver has no {nbytes:,} addresses left to reserve")
        if status:
            raise self._calls.failed(reserve.__name__, (nbytes,), int(status))
        return int(address)

    def release(self, address: int, nbytes: int) -> None:
        """Give the addresses back."""
        self._calls(self._driver.cuMemAddressFree, address, nbytes)

    def map(self, address: int, nbytes: int) -> None:
        """Put memory of the current device behind addresses."""
        device, driver = self._contexts.device(), self._driver
        wanted = self._wanted(device)
        done = address
        try:
            while done < address + nbytes:
                status, handle = driver.cuMemCreate(self._granule, wanted, 0)
                if int(status) == OUT_OF_MEMORY:
                    raise OutOfMemory(no_room(nbytes, DEVICE))
                if status:
                    raise self._calls.failed("cuMemCreate", (self._granule,), int(status))
                try:
                    self._calls(driver.cuMemMap, done, self._granule, 0, handle, 0)
                finally:
                    # The memory lives as long as it is mapped.
                    self._calls(driver.cuMemRelease, handle)
                done += self._granule
            with self._lock:
                self._let(device, address, nbytes)
                self._mapped[address] = nbytes, device
        except BaseException:
            self._unmap(address, done - address)
            raise

    def _let(self, device: int, address: int, nbytes: int) -> None:
        """Let the device, and its peers, use memory that is mapped."""
        allowed = [self._access(each) for each in (device, *self._peers.get(device, ()))]
        self._calls(self._driver.cuMemSetAccess, address, nbytes, allowed, len(allowed))

    def unmap(self, address: int, nbytes: int) -> None:
        """Take the memory away."""
        with self._lock:
            for start, (size, device) in list(self._mapped.items()):
                low, high = max(start, address), min(start + size, address + nbytes)
                if low < high:
                    del self._mapped[start]
                    if start < low:
                        self._mapped[start] = low - start, device
                    if high < start + size:
                        self._mapped[high] = start + size - high, device
        self._unmap(address, nbytes)

    def _unmap(self, address: int, nbytes: int) -> None:
        for at in range(address, address + nbytes, self._granule):
            self._calls(self._driver.cuMemUnmap, at, self._granule)

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
            peers = self._peers.setdefault(peer, [])
            if device not in peers:
                peers.append(device)
                for address, (nbytes, of) in self._mapped.items():
                    if of == peer:
                        self._let(peer, address, nbytes)

    def _wanted(self, device: int) -> Any:
        driver = self._driver
        wanted = driver.CUmemAllocationProp()
        wanted.type = driver.CUmemAllocationType(_PINNED)
        wanted.location = self._location(device)
        if self.is_shared:
            wanted.requestedHandleTypes = driver.CUmemAllocationHandleType(_FILE)
        return wanted

    def _access(self, device: int) -> Any:
        access = self._driver.CUmemAccessDesc()
        access.location = self._location(device)
        access.flags = self._driver.CUmemAccess_flags(_READ_WRITE)
        return access

    def _location(self, device: int) -> Any:
        location = self._driver.CUmemLocation()
        location.type = self._driver.CUmemLocationType(_ON_DEVICE)
        location.id = device
        return location
