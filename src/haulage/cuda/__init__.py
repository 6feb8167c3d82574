"""The words of numba.cuda, on any device: `from haulage import cuda`.

Names only; what they mean is in `haulage.api` (the host's side) and `haulage.lang` (the kernel's).
"""

from haulage.api import (
    DeviceNDArray,
    Event,
    Stream,
    default_stream,
    detect,
    device_array,
    device_array_like,
    event,
    event_elapsed_time,
    get_current_device,
    gpus,
    is_available,
    is_cuda_array,
    list_devices,
    pinned,
    pinned_array,
    pinned_array_like,
    stream,
    synchronize,
    to_device,
)
from haulage.kernel import cuda_jit as jit
from haulage.lang.atomic import atomic
from haulage.lang.index import blockDim, blockIdx, grid, gridDim, gridsize, threadIdx
from haulage.lang.memory import local, shared
from haulage.lang.sync import syncthreads, threadfence, threadfence_block, threadfence_system
from haulage.lib.reduce import Reduce
from haulage.lib.reduce import Reduce as reduce

__all__ = [
    "DeviceNDArray",
    "Event",
    "Stream",
    "to_device",
    "device_array",
    "device_array_like",
    "pinned_array",
    "pinned_array_like",
    "pinned",
    "stream",
    "default_stream",
    "event",
    "event_elapsed_time",
    "synchronize",
    "is_cuda_array",
    "is_available",
    "detect",
    "get_current_device",
    "list_devices",
    "gpus",
    "jit",
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "grid",
    "gridsize",
    "shared",
    "local",
    "syncthreads",
    "threadfence",
    "threadfence_block",
    "threadfence_system",
    "atomic",
    "Reduce",
    "reduce",
]
