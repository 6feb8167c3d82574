"""Memory of devices and of the host, as the HIP runtime gives it."""

import ctypes
from collections.abc import Callable
from typing import Any

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.amd_driver.contexts import Contexts
from haulage.backends.amd_driver.figures import attribute
from haulage.backends.base import (
    ATTACH_HOST,
    COHERENT,
    DEVICE,
    MANAGED,
    MAPPED,
    NON_COHERENT,
    PINNED,
    WRITE_COMBINED,
)
from haulage.backends.gpu_driver.calls import OUT_OF_MEMORY
from haulage.errors import DeviceError, OutOfMemory, Unsupported

# Of hipHostMalloc and hipHostRegister.
_PORTABLE, _MAPPED, _WRITE_COMBINED = 1, 2, 4
_COHERENT, _NON_COHERENT = 0x40000000, 0x80000000
# Of hipMallocManaged.
_GLOBAL, _HOST = 1, 2

# More cannot even be asked for.
_MOST = (1 << 64) - 1

_INVALID_VALUE, _INVALID_POINTER = 1, 17
# What the attributes of a pointer say of memory that the runtime does not know, since ROCm 6; in 5
# the same number stands for memory of the host.
_UNREGISTERED = 0
_RENUMBERED = (6, 0)
_PEER_ACCESS_NOT_ENABLED = 705


class _Attributes(ctypes.Structure):
    """hipPointerAttribute_t: in all versions these come first; the numbers of types differ."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("on_device", ctypes.c_void_p),
        ("on_host", ctypes.c_void_p),
        ("rest", ctypes.c_char * 232),
    )


class Memory:
    """The runtime's memory. Safe to use from any thread."""

    def __init__(self, calls: Calls, contexts: Contexts) -> None:
        self._calls = calls
        self._contexts = contexts
        self._managed: dict[int, bool] = {}

    def alloc(self, nbytes: int, kind: str, flags: int) -> tuple[int, int]:
        """(device pointer, host pointer or 0) of new memory; see `Backend.alloc`."""
        if kind == DEVICE:
            return self._take(nbytes, kind, "hipMalloc"), 0
        if kind == MANAGED:
            self._check_managed()
            attached = _HOST if flags & ATTACH_HOST else _GLOBAL
            address = self._take(nbytes, kind, "hipMallocManaged", attached)
            return address, address
        wanted = _PORTABLE | _MAPPED | (_WRITE_COMBINED if flags & WRITE_COMBINED else 0)
        # What kernels and the host write to at one time is coherent unless a program wants the
        # caches; of pinned memory the runtime decides, by HIP_HOST_COHERENT.
        if flags & NON_COHERENT:
            wanted |= _NON_COHERENT
        elif kind == MAPPED or flags & COHERENT:
            wanted |= _COHERENT
        host = self._take(nbytes, kind, "hipHostMalloc", wanted)
        try:
            return self._calls.handle("hipHostGetDevicePointer", host, 0), host
        except DeviceError:
            self._calls("hipHostFree", host)
            raise

    def pinned(self, nbytes: int) -> tuple[int, int]:
        """Memory of the host; its addresses for devices and for the host."""
        return self.alloc(nbytes, PINNED, 0)

    def coherent(self, nbytes: int) -> tuple[int, int]:
        """Memory of the host in which it sees at once what kernels write, and they what it does."""
        return self.alloc(nbytes, PINNED, COHERENT)

    def _take(self, nbytes: int, kind: str, function: str, *args: Any) -> int:
        if nbytes > _MOST:
            raise OutOfMemory(self.no_room(nbytes, kind))
        cell = ctypes.c_void_p()
        status = self._calls.status(function, ctypes.byref(cell), nbytes, *args)
        if status == OUT_OF_MEMORY:
            raise OutOfMemory(self.no_room(nbytes, kind))
        if status:
            raise self._calls.failed(function, (nbytes, *args), status)
        return cell.value or 0

    def _check_managed(self) -> None:
        """Raise Unsupported where the device has no managed memory: the runtime would give pinned
        memory of the host in its place, which does not move."""
        device = self._contexts.device()
        if device not in self._managed:
            self._managed[device] = bool(attribute(self._calls, device, "MANAGED_MEMORY"))
        if not self._managed[device]:
            raise Unsupported(
                f"AMD device {device} has no managed memory with this driver: use mapped arrays, "
                "or copies"
            )

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Give back what `alloc` gave."""
        if kind in (DEVICE, MANAGED):
            self._calls("hipFree", device_ptr)
        else:
            self._calls("hipHostFree", host_ptr)

    def register(self, host_ptr: int, nbytes: int) -> int:
        """Pin memory of the host; its address for the device."""
        self._calls("hipHostRegister", host_ptr, nbytes, _PORTABLE | _MAPPED)
        try:
            return self._calls.handle("hipHostGetDevicePointer", host_ptr, 0)
        except DeviceError:
            self._calls("hipHostUnregister", host_ptr)
            raise

    def unregister(self, host_ptr: int) -> None:
        """Undo `register`."""
        self._calls("hipHostUnregister", host_ptr)

    def on_device(self, start: int, stop: int) -> int:
        """The address by which kernels reach the bytes from `start` to `stop`; 0: they do not.

        That is the same one but for some pinned memory of the host; pageable memory has none.
        """
        first = self._on_device(start)
        if not first:
            return 0
        last = self._on_device(stop - 1)
        return first if last - first == stop - 1 - start else 0

    def check(
        self, address: int, nbytes: int, device: int, reaches: Callable[[int, int], bool]
    ) -> None:
        """Raise DeviceError where `device` reaches no memory at `address`.

        `reaches` tells whether Haulage let one device reach the memory of another; what others have
        let cannot be asked for.
        """
        for at in (address, address + nbytes - 1):
            found = self._known(at) if 0 <= at < 1 << 64 else None
            if found is None:
                raise DeviceError(
                    1,
                    f"{nbytes} bytes at {address:#x} are no memory that the HIP runtime knows: "
                    f"nothing is allocated at {at:#x}",
                )
            of_a_device = found.type == (2 if self._calls.version >= _RENUMBERED else 1)
            if of_a_device and found.device != device and not reaches(device, found.device):
                raise DeviceError(
                    _PEER_ACCESS_NOT_ENABLED,
                    f"{nbytes} bytes at {address:#x} are memory of amd:{found.device}, which the "
                    f"current device does not reach: call enable_peer_access({found.device}) of "
                    "the current context first, or copy them",
                )

    def _on_device(self, address: int) -> int:
        found = self._known(address)
        return 0 if found is None else found.on_device or 0

    def _known(self, address: int) -> _Attributes | None:
        """What the runtime knows of an address; None: nothing."""
        told = _Attributes()
        status = self._calls.status("hipPointerGetAttributes", ctypes.byref(told), address)
        if status in (_INVALID_VALUE, _INVALID_POINTER):
            return None  # pageable memory, in ROCm 5
        if status:
            raise self._calls.failed("hipPointerGetAttributes", (address,), status)
        if self._calls.version >= _RENUMBERED and told.type == _UNREGISTERED:
            return None
        return told if told.on_device else None

    def no_room(self, nbytes: int, kind: str) -> str:
        """What an OutOfMemory says."""
        if kind in (DEVICE, MANAGED):
            free = self._calls.room()
            return f"the AMD device has no room for {nbytes:,} bytes of {kind} memory: {free}"
        return f"the host has no room for {nbytes:,} bytes of {kind} memory"
