"""The words of numba.roc, on any device: `from haulage import roc`.

Names only; what they mean is in `haulage.api` (the host's side) and `haulage.lang` (the kernel's).
What numba.roc never had (events, pinned arrays, `synchronize` and so on) means here what it means
in `haulage.cuda`.
"""

from haulage.api import (
    DeviceNDArray,
    DeviceRecord,
    Event,
    Graph,
    In,
    InOut,
    ManagedNDArray,
    MappedNDArray,
    Out,
    Stream,
    as_cuda_array,
    close,
    coarsegrain_array,
    current_context,
    default_stream,
    defer_cleanup,
    deregister,
    detect,
    device_array,
    device_array_like,
    empty,
    empty_like,
    event,
    event_elapsed_time,
    external_stream,
    finegrain_array,
    from_cuda_array_interface,
    from_dlpack,
    full,
    full_like,
    get_current_device,
    graph,
    is_available,
    is_cuda_array,
    legacy_default_stream,
    list_devices,
    managed_array,
    mapped,
    mapped_array,
    mapped_array_like,
    ones,
    ones_like,
    open_ipc_array,
    per_thread_default_stream,
    pinned,
    pinned_array,
    pinned_array_like,
    pinned_zeros,
    profile_start,
    profile_stop,
    profiling,
    register,
    select_device,
    stream,
    synchronize,
    zeros,
    zeros_like,
)
from haulage.api import current_context as get_context
from haulage.api import gpus as agents
from haulage.compat.submodules import submodules_of as _submodules_of
from haulage.kernel import roc_jit as jit
from haulage.lang.atomic import atomic
from haulage.lang.clock import clock, clock64, globaltimer
from haulage.lang.index import (
    get_global_id,
    get_global_size,
    get_group_id,
    get_local_id,
    get_local_size,
    get_num_groups,
    get_work_dim,
)
from haulage.lang.memory import local, shared
from haulage.lang.sync import (
    CLK_GLOBAL_MEM_FENCE,
    CLK_LOCAL_MEM_FENCE,
    barrier,
    mem_fence,
    wavebarrier,
)
from haulage.lang.warp import activelanepermute_wavewidth, ds_bpermute, ds_permute
from haulage.roc.arguments import to_device

__all__ = [
    # arrays on the device
    "to_device",
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
    "DeviceNDArray",
    "DeviceRecord",
    # memory that host and device share, or that copies like
    "pinned_array",
    "pinned_array_like",
    "pinned_zeros",
    "pinned",
    "mapped_array",
    "mapped_array_like",
    "mapped",
    "managed_array",
    "MappedNDArray",
    "ManagedNDArray",
    "register",
    "deregister",
    "coarsegrain_array",
    "finegrain_array",
    # arrays of other libraries and processes
    "is_cuda_array",
    "as_cuda_array",
    "from_cuda_array_interface",
    "from_dlpack",
    "open_ipc_array",
    # arguments of kernels
    "In",
    "Out",
    "InOut",
    # streams and events
    "stream",
    "default_stream",
    "legacy_default_stream",
    "per_thread_default_stream",
    "external_stream",
    "Stream",
    "event",
    "event_elapsed_time",
    "Event",
    "graph",
    "Graph",
    "synchronize",
    "defer_cleanup",
    # devices
    "is_available",
    "detect",
    "agents",
    "list_devices",
    "get_context",
    "get_current_device",
    "select_device",
    "current_context",
    "close",
    "profile_start",
    "profile_stop",
    "profiling",
    "test",
    # kernels
    "jit",
    "vectorize",
    "guvectorize",
    "get_global_id",
    "get_global_size",
    "get_local_id",
    "get_local_size",
    "get_group_id",
    "get_num_groups",
    "get_work_dim",
    "shared",
    "local",
    "barrier",
    "wavebarrier",
    "mem_fence",
    "clock",
    "clock64",
    "globaltimer",
    "ds_permute",
    "ds_bpermute",
    "activelanepermute_wavewidth",
    "CLK_LOCAL_MEM_FENCE",
    "CLK_GLOBAL_MEM_FENCE",
    "atomic",
    "Reduce",
    "reduce",
]

# What few programs name is imported when it is named.
_NAMES = {
    "Reduce": "haulage.lib.reduce.Reduce",
    "guvectorize": "haulage.lib.ufuncs.roc_guvectorize",
    "reduce": "haulage.lib.reduce.Reduce",
    "test": "haulage.roc.testing.test",
    "vectorize": "haulage.lib.ufuncs.roc_vectorize",
}

__getattr__, __dir__ = _submodules_of(
    __name__, names=_NAMES, offered=[*__all__, "cg", "hsadrv", "random"]
)
