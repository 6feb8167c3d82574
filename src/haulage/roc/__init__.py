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
from haulage.roc.arguments import to_device

# ---- the kernel's words -----------------------------------------------------------------------
# (from haulage.kernel and haulage.lang)

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
]
