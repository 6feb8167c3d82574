"""The words of numba.roc, on any device: `from haulage import roc`.

Names only; what they mean is in `haulage.api` (the host's side) and `haulage.lang` (the kernel's).
Events, pinned arrays and `synchronize`, which numba.roc never had, mean here what they mean in
`haulage.cuda`.
"""

from haulage.api import (
    DeviceNDArray,
    Event,
    Stream,
    deregister,
    device_array,
    device_array_like,
    event,
    event_elapsed_time,
    is_available,
    pinned_array,
    pinned_array_like,
    register,
    stream,
    synchronize,
)
from haulage.api import gpus as agents
from haulage.kernel import roc_jit as jit
from haulage.lang.atomic import atomic
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
from haulage.lang.sync import CLK_GLOBAL_MEM_FENCE, CLK_LOCAL_MEM_FENCE, barrier, mem_fence
from haulage.roc.arguments import to_device

__all__ = [
    "DeviceNDArray",
    "Event",
    "Stream",
    "to_device",
    "device_array",
    "device_array_like",
    "pinned_array",
    "pinned_array_like",
    "register",
    "deregister",
    "stream",
    "event",
    "event_elapsed_time",
    "synchronize",
    "is_available",
    "agents",
    "jit",
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
    "mem_fence",
    "CLK_LOCAL_MEM_FENCE",
    "CLK_GLOBAL_MEM_FENCE",
    "atomic",
]
