"""Memory of devices and of the host, as the driver gives it."""

from collections.abc import Callable
from typing import Any

from haulage.backends.base import (
    ATTACH_HOST,
    DEVICE,
    MANAGED,
    PINNED,
    WRITE_COMBINED,
)
from haulage.backends.gpu_driver.calls import OUT_OF_MEMORY
from haulage.backends.nvidia_driver.calls import Calls, bindings, room
from haulage.errors import DeviceError, OutOfMemory

# Of cuMemHostAlloc and cuMemHostRegister.
_PORTABLE, _MAPPED, _WRITE_COMBINED = 1, 2, 4
# Of cuMemAllocManaged.
_GLOBAL, _HOST = 1, 2

# More cannot even be asked for.
_MOST = (1 << 64) - 1

# What pointer attributes tell of a kind of memory.
_TYPE, _ON_DEVICE, _DEVICE_NUMBER = 2, 3, 9


class Memory:
    """The driver's memory. Safe to use from any thread."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._driver = bindings()
        self._enquiries = tuple(
            self._driver.CUpointer_attribute(number)
            for number in (_TYPE, _ON_DEVICE, _DEVICE_NUMBER)
        )

    def alloc(self, nbytes: int, kind: str, flags: int) -> tuple[int, int]:
        """(device pointer, host pointer or 0) of new memory; see `Backend.alloc`."""
        driver = self._driver
        if kind == DEVICE:
            return int(self._take(nbytes, kind, driver.cuMemAlloc, nbytes)), 0
        if kind == MANAGED:
            attached = _HOST if flags & ATTACH_HOST else _GLOBAL
            address = int(self._take(nbytes, kind, driver.cuMemAllocManaged, nbytes, attached))
            return address, address
        # All contexts of the process may use it, and kernels may: with one space of addresses the
        # driver sees to that in any case, but for the address of write-combined memory.
        wanted = _PORTABLE | _MAPPED | (_WRITE_COMBINED if flags & WRITE_COMBINED else 0)
        host = int(self._take(nbytes, kind, driver.cuMemHostAlloc, nbytes, wanted))
        try:
            return int(self._calls(driver.cuMemHostGetDevicePointer, host, 0)), host
        except DeviceError:
            self._calls(driver.cuMemFreeHost, host)
            raise

    def pinned(self, nbytes: int) -> tuple[int, int]:
        """Memory of the host; its addresses for devices and for the host."""
        return self.alloc(nbytes, PINNED, 0)

    def _take(self, nbytes: int, kind: str, function: Callable[..., Any], *args: Any) -> Any:
        if nbytes > _MOST:
            raise OutOfMemory(no_room(nbytes, kind))
        status, *given = function(*args)
        if status:
            if int(status) == OUT_OF_MEMORY:
                raise OutOfMemory(no_room(nbytes, kind))
            raise self._calls.failed(function.__name__, args, int(status))
        return given[0]

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Give back what `alloc` gave."""
        if kind in (DEVICE, MANAGED):
            self._calls(self._driver.cuMemFree, device_ptr)
        else:
            self._calls(self._driver.cuMemFreeHost, host_ptr)

    def register(self, host_ptr: int, nbytes: int) -> int:
        """Pin memory of the host; its address for the device."""
        driver = self._driver
        self._calls(driver.cuMemHostRegister, host_ptr, nbytes, _PORTABLE | _MAPPED)
        try:
            return int(self._calls(driver.cuMemHostGetDevicePointer, host_ptr, 0))
        except DeviceError:
            self._calls(driver.cuMemHostUnregister, host_ptr)
            raise

    def unregister(self, host_ptr: int) -> None:
        """Undo `register`."""
        self._calls(self._driver.cuMemHostUnregister, host_ptr)

    def on_device(self, start: int, stop: int) -> int:
        """The address by which kernels reach the bytes from `start` to `stop`; 0: they do not.

        That is the same one but for some pinned memory of the host; pageable memory has none.
        """
        first = self._attributes(start)[1]
        last = self._attributes(stop - 1)[1]
        return first if first and last - first == stop - 1 - start else 0

    def check(self, address: int, nbytes: int) -> None:
        """Raise DeviceError where the driver knows no memory at `address`."""
        for at in (address, address + nbytes - 1):
            if not 0 <= at < 1 << 64 or not self._attributes(at)[1]:
                raise DeviceError(
                    1,
                    f"{nbytes} bytes at {address:#x} are no memory that the NVIDIA driver knows: "
                    f"nothing is allocated at {at:#x}",
                )

    def _attributes(self, address: int) -> tuple[int, int, int]:
        driver, wanted = self._driver, self._enquiries
        kind, at, device = self._calls(driver.cuPointerGetAttributes, len(wanted), wanted, address)
        return int(kind or 0), int(at or 0), device


def no_room(nbytes: int, kind: str) -> str:
    """What an OutOfMemory says."""
    if kind in (DEVICE, MANAGED):
        return f"the NVIDIA device has no room for {nbytes:,} bytes of {kind} memory: {room()}"
    return f"the host has no room for {nbytes:,} bytes of {kind} memory"
