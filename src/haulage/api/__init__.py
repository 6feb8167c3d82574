"""The host's side of both vocabularies: picks the default device and stream, then calls down."""

from haulage.api.arrays import (
    device_array,
    device_array_like,
    empty,
    empty_like,
    full,
    full_like,
    is_cuda_array,
    ones,
    ones_like,
    to_device,
    to_device_of,
    zeros,
    zeros_like,
)
from haulage.api.devices import (
    close,
    cuda_error,
    current_context,
    detect,
    get_current_device,
    gpus,
    is_available,
    is_bfloat16_supported,
    is_float16_supported,
    is_fp8_supported,
    is_supported_version,
    list_devices,
    profile_start,
    profile_stop,
    profiling,
    require_context,
    runtime,
    select_device,
)
from haulage.api.host_memory import (
    coarsegrain_array,
    deregister,
    finegrain_array,
    managed_array,
    mapped,
    mapped_array,
    mapped_array_like,
    pinned,
    pinned_array,
    pinned_array_like,
    pinned_zeros,
    register,
)
from haulage.api.ipc import IpcArrayHandle, IpcHandle, open_ipc_array
from haulage.api.streams import (
    default_stream,
    defer_cleanup,
    event,
    external_stream,
    graph,
    legacy_default_stream,
    per_thread_default_stream,
    stream,
    synchronize,
)
from haulage.runtime.arrays.array import DeviceNDArray, DeviceRecord
from haulage.runtime.arrays.host_arrays import ManagedNDArray, MappedNDArray
from haulage.runtime.context import Context
from haulage.runtime.devices.event import Event, event_elapsed_time
from haulage.runtime.devices.graph import Graph
from haulage.runtime.devices.stream import Stream
from haulage.runtime.exchange.foreign import as_cuda_array, from_cuda_array_interface, from_dlpack
from haulage.runtime.launch.hints import ArgHint, In, InOut, Out, wrap_arg
from haulage.runtime.memory import MemoryInfo
from haulage.runtime.plugins.choice import set_memory_manager
from haulage.runtime.plugins.managers import (
    BaseCUDAMemoryManager,
    GetIpcHandleMixin,
    HostOnlyCUDAMemoryManager,
)
from haulage.runtime.plugins.pointers import (
    ManagedMemory,
    MappedMemory,
    MemoryPointer,
    PinnedMemory,
)

__all__ = [
    # arrays
    "to_device",
    "to_device_of",
    "device_array",
    "device_array_like",
    "empty",
    "empty_like",
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "full",
    "full_like",
    "is_cuda_array",
    "as_cuda_array",
    "from_cuda_array_interface",
    "from_dlpack",
    "open_ipc_array",
    # host memory
    "pinned_array",
    "pinned_array_like",
    "pinned_zeros",
    "pinned",
    "register",
    "deregister",
    "mapped_array",
    "mapped_array_like",
    "mapped",
    "managed_array",
    "coarsegrain_array",
    "finegrain_array",
    # arguments of kernels
    "In",
    "Out",
    "InOut",
    "ArgHint",
    "wrap_arg",
    # streams and events
    "stream",
    "default_stream",
    "legacy_default_stream",
    "per_thread_default_stream",
    "external_stream",
    "event",
    "event_elapsed_time",
    "graph",
    "synchronize",
    "defer_cleanup",
    # devices
    "is_available",
    "detect",
    "gpus",
    "list_devices",
    "get_current_device",
    "select_device",
    "current_context",
    "close",
    "profile_start",
    "profile_stop",
    "profiling",
    "cuda_error",
    "require_context",
    "runtime",
    "is_supported_version",
    "is_float16_supported",
    "is_bfloat16_supported",
    "is_fp8_supported",
    # classes
    "DeviceNDArray",
    "DeviceRecord",
    "MappedNDArray",
    "ManagedNDArray",
    "IpcHandle",
    "IpcArrayHandle",
    "Stream",
    "Event",
    "Graph",
    "Context",
    "MemoryInfo",
    # memory managers of others
    "set_memory_manager",
    "BaseCUDAMemoryManager",
    "HostOnlyCUDAMemoryManager",
    "GetIpcHandleMixin",
    "MemoryPointer",
    "MappedMemory",
    "PinnedMemory",
    "ManagedMemory",
]
