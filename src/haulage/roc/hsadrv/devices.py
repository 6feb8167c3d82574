"""The devices and their contexts, under numba's long name for their module."""

from haulage.api import close as reset
from haulage.api import current_context as get_context
from haulage.api import gpus as cus
from haulage.api import require_context
from haulage.runtime.context import Context
from haulage.runtime.device import Device, find

__all__ = [
    "cus",
    "get_all_contexts",
    "get_context",
    "get_cpu_context",
    "get_gpu",
    "get_num_gpus",
    "require_context",
    "reset",
]


def get_gpu(i: int) -> Device:
    """The device of this number, of the current one's kind."""
    return cus[i]


def get_num_gpus() -> int:
    """How many devices there are of the current one's kind."""
    return len(cus)


def get_all_contexts() -> list[Context]:
    """The contexts of these devices."""
    return [Context(each) for each in cus]


def get_cpu_context() -> Context:
    """The context of the CPU device."""
    return Context(find("cpu"))
