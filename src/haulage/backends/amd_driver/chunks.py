"""Addresses without memory, and memory without addresses, as the HIP runtime has them since ROCm 6
where devices say so. Structures that tell of it had another layout before."""

import ctypes
import sys

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.amd_driver.figures import attribute
from haulage.backends.amd_driver.memory import Memory
from haulage.backends.base import DEVICE
from haulage.backends.gpu_driver import ranges
from haulage.backends.gpu_driver.calls import OUT_OF_MEMORY

# The runtime's numbers: pinned memory of a device; file descriptors to share it by; read and write.
_PINNED, _ON_DEVICE, _FILE, _READ_WRITE = 1, 1, 1, 3
_MINIMUM = 0
_INVALID_VALUE = 1

_SINCE = (6, 0)
_FILES_THEMSELVES = (7, 1)


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Wanted(ctypes.Structure):
    """hipMemAllocationProp, with room for what may come behind."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_type", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
        ("rest", ctypes.c_ubyte * 64),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Chunks(ranges.Chunks):
    """hipMemCreate, hipMemMap and the like."""

    def __init__(self, calls: Calls, memory: Memory) -> None:
        self._calls = calls
        self._memory = memory

    def least(self, device: int) -> int:
        """2 MiB, where the device has virtual memory."""
        has = "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"
        if self._calls.version < _SINCE or not attribute(self._calls, device, has):
            return 0
        wanted = ctypes.byref(self._wanted(device, self.is_shared(device)))
        return self._calls.size("hipMemGetAllocationGranularity", wanted, _MINIMUM)

    def is_shared(self, device: int) -> bool:
        """The runtime names chunks by file descriptors on Linux."""
        return sys.platform.startswith("linux")

    def total(self, device: int) -> int:
        """Bytes of memory of a device."""
        return self._calls.size("hipDeviceTotalMem", device)

    def reserve(self, nbytes: int, alignment: int) -> int:
        """hipMemAddressReserve."""
        cell = ctypes.c_void_p()
        asked = ctypes.byref(cell), nbytes, alignment, None, 0
        status = self._calls.status("hipMemAddressReserve", *asked)
        if status in (OUT_OF_MEMORY, _INVALID_VALUE):
            return 0
        if status:
            raise self._calls.failed("hipMemAddressReserve", (nbytes,), status)
        return cell.value or 0

    def release(self, address: int, nbytes: int) -> None:
        """hipMemAddressFree."""
        self._calls("hipMemAddressFree", address, nbytes)

    def create(self, device: int, nbytes: int, shared: bool) -> int:
        """hipMemCreate."""
        cell, wanted = ctypes.c_void_p(), self._wanted(device, shared)
        asked = ctypes.byref(cell), nbytes, ctypes.byref(wanted), 0
        status = self._calls.status("hipMemCreate", *asked)
        if status == OUT_OF_MEMORY:
            return 0
        if status:
            raise self._calls.failed("hipMemCreate", (nbytes,), status)
        return cell.value or 0

    def drop(self, chunk: int) -> None:
        """hipMemRelease."""
        self._calls("hipMemRelease", chunk)

    def put(self, address: int, nbytes: int, chunk: int) -> None:
        """hipMemMap."""
        self._calls("hipMemMap", address, nbytes, 0, chunk, 0)

    def take(self, address: int, nbytes: int) -> None:
        """hipMemUnmap."""
        self._calls("hipMemUnmap", address, nbytes)

    def let(self, address: int, nbytes: int, devices: list[int]) -> None:
        """hipMemSetAccess."""
        allowed = (_Access * len(devices))()
        for access, device in zip(allowed, devices, strict=True):
            access.location.type, access.location.id = _ON_DEVICE, device
            access.flags = _READ_WRITE
        self._calls("hipMemSetAccess", address, nbytes, ctypes.addressof(allowed), len(devices))

    def file_of(self, address: int) -> int:
        """hipMemExportToShareableHandle."""
        chunk = self._calls.handle("hipMemRetainAllocationHandle", address)
        try:
            return self._calls.number("hipMemExportToShareableHandle", chunk, _FILE, 0)
        finally:
            self._calls("hipMemRelease", chunk)

    def from_file(self, file: int) -> int:
        """hipMemImportFromShareableHandle, which takes the descriptor since ROCm 7.1, and before
        that the address of one."""
        cell = ctypes.c_int(file)
        given = file if self._calls.version >= _FILES_THEMSELVES else ctypes.addressof(cell)
        return self._calls.handle("hipMemImportFromShareableHandle", given, _FILE)

    def no_room(self, nbytes: int) -> str:
        """With what is free."""
        return self._memory.no_room(nbytes, DEVICE)

    def no_addresses(self, nbytes: int) -> str:
        """With how many were asked for."""
        return f"the HIP runtime has no {nbytes:,} addresses left to reserve"

    def _wanted(self, device: int, shared: bool) -> _Wanted:
        wanted = _Wanted(type=_PINNED, handle_type=_FILE if shared else 0)
        wanted.location.type, wanted.location.id = _ON_DEVICE, device
        return wanted
