"""Addresses without memory, and memory without addresses, as CUDA's driver has them."""

from typing import Any

from haulage.backends.base import DEVICE
from haulage.backends.gpu_driver import ranges
from haulage.backends.gpu_driver.calls import OUT_OF_MEMORY
from haulage.backends.nvidia_driver.calls import Calls, bindings
from haulage.backends.nvidia_driver.memory import no_room

# The driver's numbers: pinned memory of a device; file descriptors to share it by; read and write.
_PINNED, _ON_DEVICE, _FILE, _READ_WRITE = 1, 1, 1, 3
_MINIMUM = 0
_INVALID_VALUE = 1


class Chunks(ranges.Chunks):
    """cuMemCreate, cuMemMap and the like."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._driver = bindings()

    def least(self, device: int) -> int:
        """2 MiB, where the device has virtual memory."""
        driver = self._driver
        if not self._has(device, "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"):
            return 0
        option = driver.CUmemAllocationGranularity_flags(_MINIMUM)
        wanted = self._wanted(device, self.is_shared(device))
        nbytes: int = self._calls(driver.cuMemGetAllocationGranularity, wanted, option)
        return nbytes

    def is_shared(self, device: int) -> bool:
        """Whether the driver names chunks by file descriptors."""
        return self._has(device, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED")

    def _has(self, device: int, name: str) -> bool:
        attribute = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        handle = self._calls(self._driver.cuDeviceGet, device)
        return bool(self._calls(self._driver.cuDeviceGetAttribute, attribute, handle))

    def total(self, device: int) -> int:
        """Bytes of memory of a device."""
        handle = self._calls(self._driver.cuDeviceGet, device)
        nbytes: int = self._calls(self._driver.cuDeviceTotalMem, handle)
        return nbytes

    def reserve(self, nbytes: int, alignment: int) -> int:
        """cuMemAddressReserve."""
        status, address = self._driver.cuMemAddressReserve(nbytes, alignment, 0, 0)
        if int(status) in (OUT_OF_MEMORY, _INVALID_VALUE):
            return 0
        if status:
            raise self._calls.failed("cuMemAddressReserve", (nbytes,), int(status))
        return int(address)

    def release(self, address: int, nbytes: int) -> None:
        """cuMemAddressFree."""
        self._calls(self._driver.cuMemAddressFree, address, nbytes)

    def create(self, device: int, nbytes: int, shared: bool) -> int:
        """cuMemCreate."""
        status, handle = self._driver.cuMemCreate(nbytes, self._wanted(device, shared), 0)
        if int(status) == OUT_OF_MEMORY:
            return 0
        if status:
            raise self._calls.failed("cuMemCreate", (nbytes,), int(status))
        return int(handle)

    def drop(self, chunk: int) -> None:
        """cuMemRelease."""
        self._calls(self._driver.cuMemRelease, chunk)

    def put(self, address: int, nbytes: int, chunk: int) -> None:
        """cuMemMap."""
        self._calls(self._driver.cuMemMap, address, nbytes, 0, chunk, 0)

    def take(self, address: int, nbytes: int) -> None:
        """cuMemUnmap."""
        self._calls(self._driver.cuMemUnmap, address, nbytes)

    def let(self, address: int, nbytes: int, devices: list[int]) -> None:
        """cuMemSetAccess."""
        allowed = [self._access(each) for each in devices]
        self._calls(self._driver.cuMemSetAccess, address, nbytes, allowed, len(allowed))

    def file_of(self, address: int) -> int:
        """cuMemExportToShareableHandle."""
        driver = self._driver
        chunk = self._calls(driver.cuMemRetainAllocationHandle, address)
        try:
            kind = driver.CUmemAllocationHandleType(_FILE)
            return int(self._calls(driver.cuMemExportToShareableHandle, chunk, kind, 0))
        finally:
            self._calls(driver.cuMemRelease, chunk)

    def from_file(self, file: int) -> int:
        """cuMemImportFromShareableHandle."""
        kind = self._driver.CUmemAllocationHandleType(_FILE)
        return int(self._calls(self._driver.cuMemImportFromShareableHandle, file, kind))

    def no_room(self, nbytes: int) -> str:
        """With what is free."""
        return no_room(nbytes, DEVICE)

    def no_addresses(self, nbytes: int) -> str:
        """With how many were asked for."""
        return f"the NVIDIA driver has no {nbytes:,} addresses left to reserve"

    def _wanted(self, device: int, shared: bool) -> Any:
        driver = self._driver
        wanted = driver.CUmemAllocationProp()
        wanted.type = driver.CUmemAllocationType(_PINNED)
        wanted.location = self._location(device)
        if shared:
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
