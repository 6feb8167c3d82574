"""The driver's things, under numba's long name for their module."""

import sys

from haulage.api import (
    BaseCUDAMemoryManager,
    Context,
    Event,
    GetIpcHandleMixin,
    HostOnlyCUDAMemoryManager,
    IpcHandle,
    ManagedMemory,
    MappedMemory,
    MemoryInfo,
    MemoryPointer,
    PinnedMemory,
    Stream,
    event_elapsed_time,
    profile_start,
    profile_stop,
    profiling,
    runtime,
    set_memory_manager,
)
from haulage.compat import cuda_numbers as enums
from haulage.compat.absent import absent
from haulage.compat.driver_calls import Driver, driver
from haulage.compat.driver_module import DriverModule
from haulage.compat.errors import DeadMemoryError, LinkerError
from haulage.compat.nvidia import Linker, launch_kernel
from haulage.compat.nvidia import have_nvjitlink as _have_nvjitlink
from haulage.compat.raw_memory import (
    device_ctypes_pointer,
    device_extents,
    device_memory_depends,
    device_memory_size,
    device_memset,
    device_pointer,
    device_to_device,
    device_to_host,
    host_memory_extents,
    host_memory_size,
    host_pointer,
    host_to_device,
    is_device_memory,
    memory_size_from_info,
    require_device_memory,
)
from haulage.errors import DeviceError as CudaAPIError
from haulage.errors import DeviceError as CudaDriverError
from haulage.errors import DeviceNotFound as CudaSupportError
from haulage.runtime.device import Device
from haulage.runtime.plugins.managers import DriverMemoryManager as NumbaCUDAMemoryManager
from haulage.runtime.plugins.managers import PendingDeallocations as _PendingDeallocs
from haulage.runtime.plugins.pointers import AutoFreePointer, OwnedPointer

__all__ = [
    "AutoFreePointer",
    "BaseCUDAMemoryManager",
    "Context",
    "CudaAPIError",
    "CudaDriverError",
    "CudaSupportError",
    "DeadMemoryError",
    "Device",
    "Driver",
    "Event",
    "GetIpcHandleMixin",
    "HostOnlyCUDAMemoryManager",
    "IpcHandle",
    "Linker",
    "LinkerError",
    "ManagedMemory",
    "ManagedOwnedPointer",
    "MappedMemory",
    "MappedOwnedPointer",
    "MemoryInfo",
    "MemoryPointer",
    "NumbaCUDAMemoryManager",
    "OwnedPointer",
    "PinnedMemory",
    "SUPPORTS_IPC",
    "Stream",
    "USE_NV_BINDING",
    "_PendingDeallocs",
    "_have_nvjitlink",
    "device_ctypes_pointer",
    "device_extents",
    "device_memory_depends",
    "device_memory_size",
    "device_memset",
    "device_pointer",
    "device_to_device",
    "device_to_host",
    "driver",
    "enums",
    "event_elapsed_time",
    "get_version",
    "host_memory_extents",
    "host_memory_size",
    "host_pointer",
    "host_to_device",
    "is_device_memory",
    "launch_kernel",
    "memory_size_from_info",
    "profile_start",
    "profile_stop",
    "profiling",
    "require_device_memory",
    "set_memory_manager",
]

# NVIDIA's own Python binding of its driver is not used.
USE_NV_BINDING = False
SUPPORTS_IPC = sys.platform.startswith("linux")
MappedOwnedPointer = ManagedOwnedPointer = OwnedPointer
get_version = runtime.get_version

sys.modules[__name__].__class__ = DriverModule

__getattr__ = absent(
    __name__, "it is a part of NVIDIA's driver; driver.driver answers what Haulage can"
)
