"""The words of numba.cuda, on any device: `from haulage import cuda`.

Names only; what they mean is in `haulage.api` (the host's side) and `haulage.lang` (the kernel's).
What few programs name is imported when it is named: `_elsewhere` lists it.
"""

from haulage.api import (
    BaseCUDAMemoryManager,
    DeviceNDArray,
    DeviceRecord,
    Event,
    GetIpcHandleMixin,
    Graph,
    HostOnlyCUDAMemoryManager,
    In,
    InOut,
    IpcHandle,
    ManagedMemory,
    ManagedNDArray,
    MappedMemory,
    MappedNDArray,
    MemoryInfo,
    MemoryPointer,
    Out,
    PinnedMemory,
    Stream,
    as_cuda_array,
    close,
    cuda_error,
    current_context,
    default_stream,
    defer_cleanup,
    detect,
    device_array,
    device_array_like,
    empty,
    empty_like,
    event,
    event_elapsed_time,
    external_stream,
    from_cuda_array_interface,
    from_dlpack,
    full,
    full_like,
    get_current_device,
    gpus,
    graph,
    is_available,
    is_bfloat16_supported,
    is_cuda_array,
    is_float16_supported,
    is_fp8_supported,
    is_supported_version,
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
    require_context,
    runtime,
    select_device,
    set_memory_manager,
    stream,
    synchronize,
    to_device,
    zeros,
    zeros_like,
)
from haulage.compat.submodules import submodules_of
from haulage.cuda import _elsewhere
from haulage.cuda import cg as cg
from haulage.errors import DeviceNotFound as CudaSupportError
from haulage.errors import KernelError as KernelRuntimeError
from haulage.kernel import cuda_jit as jit
from haulage.kernel import declare_device
from haulage.kernel.ptx import (
    compile,
    compile_all,
    compile_for_current_device,
    compile_ptx,
    compile_ptx_for_current_device,
)
from haulage.lang import vectors as _vectors
from haulage.lang.atomic import atomic
from haulage.lang.bits import brev, clz, ffs, popc, selp
from haulage.lang.cached import ldca, ldcg, ldcs, ldcv, ldlu, stcg, stcs, stwb, stwt
from haulage.lang.clock import clock, clock64, globaltimer
from haulage.lang.half import fp16
from haulage.lang.index import blockDim, blockIdx, grid, gridDim, gridsize, threadIdx
from haulage.lang.math import cbrt, fma
from haulage.lang.memory import const, local, shared
from haulage.lang.sync import (
    nanosleep,
    syncthreads,
    syncthreads_and,
    syncthreads_count,
    syncthreads_or,
    threadfence,
    threadfence_block,
    threadfence_system,
)
from haulage.lang.vectors import *  # noqa: F403
from haulage.lang.warp import (
    activemask,
    all_sync,
    any_sync,
    ballot_sync,
    eq_sync,
    laneid,
    lanemask_lt,
    match_all_sync,
    match_any_sync,
    shfl_down_sync,
    shfl_sync,
    shfl_up_sync,
    shfl_xor_sync,
    syncwarp,
    warpsize,
)

# As `typing` has it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from haulage.cuda import cudadrv as cudadrv
    from haulage.cuda import libdevice as libdevice
    from haulage.cuda import random as random
    from haulage.cuda.cudadrv import devicearray as devicearray
    from haulage.cuda.cudadrv import devices as devices
    from haulage.cuda.cudadrv import driver as driver
    from haulage.lib.reduce import Reduce
    from haulage.lib.reduce import Reduce as reduce
    from haulage.lib.ufuncs import cuda_guvectorize as guvectorize
    from haulage.lib.ufuncs import cuda_vectorize as vectorize

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
    # arrays of other libraries and processes
    "is_cuda_array",
    "as_cuda_array",
    "from_cuda_array_interface",
    "from_dlpack",
    "open_ipc_array",
    "IpcHandle",
    # memory managers of others, and what they give
    "set_memory_manager",
    "BaseCUDAMemoryManager",
    "HostOnlyCUDAMemoryManager",
    "GetIpcHandleMixin",
    "MemoryPointer",
    "MappedMemory",
    "PinnedMemory",
    "ManagedMemory",
    "MemoryInfo",
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
    "CudaSupportError",
    "KernelRuntimeError",
    "require_context",
    "runtime",
    "is_supported_version",
    "is_float16_supported",
    "is_bfloat16_supported",
    "is_fp8_supported",
    # kernels
    "jit",
    "declare_device",
    "compile",
    "compile_all",
    "compile_for_current_device",
    "compile_ptx",
    "compile_ptx_for_current_device",
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "grid",
    "gridsize",
    "shared",
    "local",
    "const",
    "syncthreads",
    "syncthreads_count",
    "syncthreads_and",
    "syncthreads_or",
    "threadfence",
    "threadfence_block",
    "threadfence_system",
    "laneid",
    "warpsize",
    "syncwarp",
    "shfl_sync",
    "shfl_up_sync",
    "shfl_down_sync",
    "shfl_xor_sync",
    "all_sync",
    "any_sync",
    "eq_sync",
    "ballot_sync",
    "match_any_sync",
    "match_all_sync",
    "activemask",
    "lanemask_lt",
    "atomic",
    "popc",
    "clz",
    "ffs",
    "brev",
    "selp",
    "fma",
    "cbrt",
    "fp16",
    "nanosleep",
    "clock",
    "clock64",
    "globaltimer",
    "ldca",
    "ldcg",
    "ldcs",
    "ldlu",
    "ldcv",
    "stcg",
    "stcs",
    "stwb",
    "stwt",
    "Reduce",
    "reduce",
    "vectorize",
    "guvectorize",
]
__all__ += _vectors.__all__

# As numba.cuda and numba-cuda tell which of them this is, and whether Numba is there.
implementation = "Haulage"
HAS_NUMBA = True

__getattr__, __dir__ = submodules_of(__name__, _elsewhere.MODULES, _elsewhere.NAMES)
