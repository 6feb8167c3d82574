"""Memory of devices, of the host, and shared: `cl_intel_unified_shared_memory`."""

import ctypes
import threading
from typing import Any

from haulage.backends.base import DEVICE, MANAGED, WRITE_COMBINED
from haulage.backends.cpu_driver import processor
from haulage.backends.gpu_driver import memory
from haulage.backends.gpu_driver.memory import UNKNOWN, Known
from haulage.backends.opencl_driver.calls import NO_ROOM, Calls
from haulage.backends.opencl_driver.contexts import Contexts
from haulage.backends.opencl_driver.devices import GLOBAL_MEM_SIZE, PROCESSOR, Device
from haulage.errors import OutOfMemory, Unsupported

_ALLOC_TYPE, _UNKNOWN = 0x419A, 0x4196
_BASE, _SIZE = 0x419B, 0x419C
_ALLOC_FLAGS, _WRITE_COMBINED = 0x4195, 1
# What memory is aligned to that `Backend.alloc` gives, and to what drivers align it at the most.
_ALIGNMENT = 256
_MOST_ALIGNMENT = 128


class Memory(memory.Memory):
    """Allocations of all devices. Safe to use from any thread."""

    _calls: Calls
    _contexts: Contexts

    def __init__(self, calls: Calls, contexts: Contexts) -> None:
        super().__init__(calls, contexts)
        self._lock = threading.Lock()
        # By the address that was given: what the driver gave, its bytes, and whose memory it is.
        self._given: dict[int, tuple[int, int, Device]] = {}
        self._used: dict[int, int] = {}  # bytes, by the device's context

    def info(self) -> tuple[int, int]:
        """(free, total) bytes. OpenCL does not tell what is free: on the processor it is what the
        system has, else what this process has not taken."""
        device = self._contexts.here()
        total = self._calls.number("clGetDeviceInfo", device.handle, GLOBAL_MEM_SIZE)
        if device.kind == PROCESSOR:
            return min(processor.memory()[0], total), total
        return max(total - self._used.get(device.context, 0), 0), total

    def alloc(self, nbytes: int, kind: str, flags: int) -> tuple[int, int]:
        """See `Backend.alloc`."""
        device = self._contexts.here()
        which = {DEVICE: "clDeviceMemAllocINTEL", MANAGED: "clSharedMemAllocINTEL"}
        name = which.get(kind, "clHostMemAllocINTEL")
        properties: Any = None
        if flags & WRITE_COMBINED:
            properties = (ctypes.c_uint64 * 3)(_ALLOC_FLAGS, _WRITE_COMBINED, 0)
        of = (device.context,) if name == "clHostMemAllocINTEL" else (device.context, device.handle)
        free, total = self.info()
        # Some drivers promise what there is not.
        if nbytes > total:
            raise self._no_room(nbytes, kind, free, total)
        status = ctypes.c_int32()
        # The driver aligns to 128 bytes at the most.
        asked = nbytes + _ALIGNMENT - _MOST_ALIGNMENT
        at = ctypes.byref(status)
        given = device.functions[name](*of, properties, asked, _MOST_ALIGNMENT, at) or 0
        if status.value in NO_ROOM or (not given and not status.value):
            raise self._no_room(nbytes, kind, free, total)
        self._calls.check(status.value, name, nbytes)
        address = -(-given // _ALIGNMENT) * _ALIGNMENT
        with self._lock:
            self._given[address] = given, asked, device
            self._used[device.context] = self._used.get(device.context, 0) + asked
        return address, 0 if kind == DEVICE else address

    def _no_room(self, nbytes: int, kind: str, free: int, total: int) -> OutOfMemory:
        return OutOfMemory(
            f"the OpenCL device has no room for {nbytes:,} bytes of {kind} memory: about {free:,} "
            f"of {total:,} bytes are free"
        )

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Give back what `alloc` gave."""
        with self._lock:
            given, nbytes, device = self._given.pop(device_ptr)
            self._used[device.context] -= nbytes
        status = device.functions["clMemFreeINTEL"](device.context, given)
        self._calls.check(status, "clMemFreeINTEL", given)

    def register(self, host_ptr: int, nbytes: int) -> int:
        """Memory of the host as kernels reach it, where they reach all of it."""
        device = self._contexts.here()
        if not device.reaches_all:
            raise Unsupported(
                f"{device.name} reaches no memory that OpenCL has not allocated, and OpenCL cannot "
                "pin such memory: use pinned_array or mapped_array, or a copy"
            )
        return host_ptr

    def known(self, address: int) -> Known:
        """All memory, where kernels reach that; else what OpenCL has allocated."""
        device = self._contexts.here()
        reached = device.reaches_all or self._allocation(device, address) is not None
        return Known(False, address, 0) if reached and address else UNKNOWN

    def on_device(self, start: int, stop: int) -> int:
        """The address by which kernels reach the bytes from `start` to `stop`; 0: they do not."""
        device = self._contexts.here()
        if device.reaches_all:
            return start
        whole = self._allocation(device, start)
        return start if whole is not None and stop <= sum(whole) else 0

    def _allocation(self, device: Device, address: int) -> tuple[int, int] | None:
        """(address, bytes) of the allocation that has an address; None: there is none."""
        if not 0 < address < 1 << 64 or self._asked(device, address, _ALLOC_TYPE) == _UNKNOWN:
            return None
        return self._asked(device, address, _BASE), self._asked(device, address, _SIZE)

    def _asked(self, device: Device, address: int, what: int) -> int:
        name = "clGetMemAllocInfoINTEL"
        cell = ctypes.c_uint64()
        size = 4 if what == _ALLOC_TYPE else 8
        at = ctypes.addressof(cell)
        status = device.functions[name](device.context, address, what, size, at, None)
        self._calls.check(status, name, address, what)
        return cell.value
