"""The code of `numba.cuda.cudadrv.driver`: the calls of CUDA's driver that Haulage can answer.

They write their results where NVIDIA's C functions do, through pointers of ctypes. A call that
needs handles of NVIDIA's (modules, functions, primary contexts) is an AttributeError that says so.
"""

import ctypes
import sys
from types import ModuleType
from typing import Any

from haulage.api import (
    current_context,
    get_current_device,
    list_devices,
    runtime,
    synchronize,
)
from haulage.errors import DeviceNotFound
from haulage.runtime import memory
from haulage.runtime.context import Context
from haulage.runtime.devices.device import Device, number_of
from haulage.runtime.devices.stream_arguments import external_stream
from haulage.runtime.exchange import ipc
from haulage.runtime.memory import Block
from haulage.runtime.plugins import choice

# NVIDIA's own Python binding of its driver is not used.
USE_NV_BINDING = False
SUPPORTS_IPC = sys.platform.startswith("linux")


class DriverModule(ModuleType):
    """The class of that module: `driver._memory_manager = None` gives Haulage's own memory back."""

    @property
    def _memory_manager(self) -> Any:
        return choice.chosen()

    @_memory_manager.setter
    def _memory_manager(self, plugin: Any) -> None:
        choice.choose(plugin)


class Driver:
    """The driver of the current device, asked in words of CUDA's driver."""

    pid = None

    @property
    def is_available(self) -> bool:
        """Whether there is a device."""
        return self.initialization_error is None

    @property
    def initialization_error(self) -> str | None:
        """Why there is no device; None if there is one."""
        try:
            get_current_device()
        except DeviceNotFound as error:
            return str(error)
        return None

    @property
    def is_initialized(self) -> bool:
        """Whether it can be called, which it always can."""
        return True

    def ensure_initialized(self) -> None:
        """DeviceNotFound if there is no device."""
        get_current_device()

    def get_device_count(self) -> int:
        """How many devices there are of the current one's kind."""
        return len(list_devices())

    def get_device(self, devnum: int = 0) -> Device:
        """The device of that number.

        Raises:
            DeviceNotFound: there is none.
        """
        return current_context(devnum).device

    def get_active_context(self) -> Context:
        """The context of the current device."""
        return current_context()

    def get_version(self) -> tuple[int, int]:
        """(major, minor) of the CUDA whose words the device takes."""
        return runtime.get_version()

    # ---- with CUDA's names ------------------------------------------------------------------

    def cuInit(self, flags: int = 0) -> None:
        """DeviceNotFound if there is no device."""
        get_current_device()

    def cuDriverGetVersion(self, version: Any) -> None:
        """Writes 1000 major + 10 minor, as CUDA does."""
        major, minor = self.get_version()
        _target(version).value = 1000 * major + 10 * minor

    def cuDeviceGetCount(self, count: Any) -> None:
        """Writes how many devices there are."""
        _target(count).value = self.get_device_count()

    def cuMemGetInfo(self, free: Any, total: Any) -> None:
        """Writes free and total bytes of the current device's memory."""
        _target(free).value, _target(total).value = get_current_device().memory_info()

    def cuMemAlloc(self, pointer: Any, size: int) -> None:
        """Writes the address of new memory of the current device; it stays until `cuMemFree`.

        Raises:
            OutOfMemory: the device has no room.
        """
        block = memory.allocate_of_driver(get_current_device(), size)
        block.exposed = True  # it outlives a reset of the context
        _allocated[block.device_ptr] = block
        _target(pointer).value = block.device_ptr

    def cuMemFree(self, pointer: Any) -> None:
        """Gives memory of `cuMemAlloc` back, after the work that uses it.

        Raises:
            ValueError: `cuMemAlloc` did not give that address.
        """
        block = _allocated.pop(number_of(pointer), None)
        if block is None:
            raise ValueError(f"cuMemFree({pointer!r}): expected an address of cuMemAlloc")
        block.device.synchronize()

    def cuIpcGetMemHandle(self, handle: Any, pointer: Any) -> None:
        """Writes the 64 bytes by which other processes open an allocation.

        Args:
            handle: a ctypes array of 64 bytes, by reference.
            pointer: the first address of the allocation.

        Raises:
            ValueError: there is no such allocation.
        """
        device, address = get_current_device(), number_of(pointer)
        block = memory.holding(device, address, 0)
        if block is None:
            raise ValueError(f"cuIpcGetMemHandle({pointer!r}): {device} has not allocated it")
        made = bytes(ipc.export(block, address, block.nbytes))
        ctypes.memmove(_target(handle), made, len(made))

    def cuCtxSynchronize(self) -> None:
        """Waits for all work of the current device."""
        synchronize()

    def cuStreamCreate(self, stream: Any, flags: int = 0) -> None:
        """Writes the handle of a new stream of the current device."""
        if flags:
            raise ValueError(f"cuStreamCreate(flags={flags}): expected 0, a blocking stream")
        device = get_current_device()
        device.activate()
        _target(stream).value = device.backend.stream_create(0)

    def cuStreamDestroy(self, stream: Any) -> None:
        """Gives a stream of `cuStreamCreate` back."""
        device = get_current_device()
        device.activate()
        device.backend.stream_destroy(number_of(stream))

    def cuStreamSynchronize(self, stream: Any) -> None:
        """Waits for the work of a stream."""
        external_stream(get_current_device(), number_of(stream)).synchronize()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"the driver of {get_current_device()} has no call {name!r}: it is NVIDIA's own; "
            f"Haulage answers {', '.join(known for known in dir(Driver) if known[0] != '_')}",
            name=name,
        )

    def __repr__(self) -> str:
        return f"<driver of {get_current_device()}>"


# Address -> the block of memory there, of `cuMemAlloc`.
_allocated: dict[int, Block] = {}


def _target(pointer: Any) -> Any:
    # What `ctypes.byref` makes tells its object so; `ctypes.pointer`'s has `contents`.
    return pointer._obj if hasattr(pointer, "_obj") else getattr(pointer, "contents", pointer)


driver = Driver()
