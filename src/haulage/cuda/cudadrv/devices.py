"""The devices and which one is current, under numba's long name for their module."""

from haulage.api import close as reset
from haulage.api import current_context as get_context
from haulage.api import gpus

__all__ = ["gpus", "get_context", "reset"]
