"""Memory of devices and of the host, as the driver gives it."""

from collections.abc import Callable
from typing import Any, NamedTuple

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

# Pointer attributes: the kind of memory, its address for kernels of the current device (0: they do
# not reach it), whether it is managed, whose it is; and what the current device may do with it,
# which cuPointerGetAttributes does not tell.
_TYPE, _ON_DEVICE, _IS_MANAGED, _DEVICE_NUMBER = 2, 3, 8, 9
_ACCESS = 16
_OF_A_DEVICE = 2
_PEER_ACCESS_NOT_ENABLED = 705

# Whether Haulage let one device reach the memory of another; what others have let the driver tells.
Reaches = Callable[[int, int], bool]


class Memory:
    """The driver's memory. Safe to use from any thread."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._driver = bindings()
        self._enquiries = tuple(
            self._driver.CUpointer_attribute(number)
            for number in (_TYPE, _ON_DEVICE, _IS_MANAGED, _DEVICE_NUMBER)
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

    def on_device(self, start: int, stop: int, device: int, reaches: Reaches) -> int:
        """The address by which kernels of `device`, which is current, reach the bytes from `start`
        to `stop`; 0: they do not.

        That is the same one but for some pinned memory of the host; pageable memory has none.

        Raises:
            DeviceError: it is another device's, and out of reach.
        """
        first, last = self._attributes(start), self._attributes(stop - 1)
        if not self._is_reached(start, first, device, reaches):
            raise _out_of_reach(start, stop - start, first.device)
        together = last.address - first.address == stop - 1 - start
        return first.address if first.address and together else 0

    def devices_of(self, target: int, source: int) -> tuple[int, int] | None:
        """Whose memory both are, if it is that of two devices."""
        to, of = self._attributes(target), self._attributes(source)
        if to.is_of_a_device and of.is_of_a_device and to.device != of.device:
            return to.device, of.device
        return None

    def check(self, address: int, nbytes: int, device: int, reaches: Reaches) -> None:
        """Raise DeviceError where `device`, which is current, reaches no memory at `address`."""
        for at in (address, address + nbytes - 1):
            found = self._attributes(at) if 0 <= at < 1 << 64 else _UNKNOWN
            if not self._is_reached(at, found, device, reaches):
                raise _out_of_reach(address, nbytes, found.device)
            if not (found.address or found.is_of_a_device):
                raise DeviceError(
                    1,
                    f"{nbytes} bytes at {address:#x} are no memory that the NVIDIA driver knows: "
                    f"nothing is allocated at {at:#x}",
                )

    def _attributes(self, address: int) -> "_Known":
        driver, wanted = self._driver, self._enquiries
        kind, at, managed, device = self._calls(
            driver.cuPointerGetAttributes, len(wanted), wanted, address
        )
        kind = int(kind or 0)
        is_of_a_device = kind == _OF_A_DEVICE and not managed
        # Of pageable memory, which has no kind, devices that take page faults have an address.
        return _Known(is_of_a_device, int(at or 0) if kind else 0, device)

    def _is_reached(self, address: int, known: "_Known", device: int, reaches: Reaches) -> bool:
        """Whether `device`, which is current, reaches memory, if that is another device's."""
        if not known.is_of_a_device or known.device == device:
            return True
        if reaches(device, known.device):
            return True
        driver = self._driver
        status, access = driver.cuPointerGetAttribute(driver.CUpointer_attribute(_ACCESS), address)
        return bool(known.address if status else int(access))


class _Known(NamedTuple):
    """What the driver knows of an address; `address` is that for kernels, 0 for none."""

    is_of_a_device: bool
    address: int
    device: int


_UNKNOWN = _Known(False, 0, 0)


def _out_of_reach(address: int, nbytes: int, device: int) -> DeviceError:
    return DeviceError(
        _PEER_ACCESS_NOT_ENABLED,
        f"{nbytes} bytes at {address:#x} are memory of nvidia:{device}, which the current device "
        f"does not reach: call enable_peer_access({device}) of the current context first, or copy "
        "them",
    )


def no_room(nbytes: int, kind: str) -> str:
    """What an OutOfMemory says."""
    if kind in (DEVICE, MANAGED):
        return f"the NVIDIA device has no room for {nbytes:,} bytes of {kind} memory: {room()}"
    return f"the host has no room for {nbytes:,} bytes of {kind} memory"
