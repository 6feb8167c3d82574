"""The devices and which one is current, under numba's long name for their module."""

from haulage.api import close as reset
from haulage.api import current_context as get_context
from haulage.api import gpus, require_context

__all__ = ["gpus", "get_context", "require_context", "reset"]

_DeviceList = type(gpus)
