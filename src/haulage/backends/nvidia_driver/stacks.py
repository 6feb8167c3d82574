"""Stacks of kernels' threads. Of functions that call themselves the driver does not know how much
of it they take: they have what the context's limit says, 1 KB if nobody asked for more."""

from haulage.backends.base import Properties
from haulage.backends.gpu_driver.calls import Calls

# The driver has a stack for each thread that can be there at one time: so much of all memory.
_SHARE = 16
_STACK_SIZE = 0  # CU_LIMIT_STACK_SIZE
_LEAST, _MOST = 1 << 10, 32 << 10


def bytes_for(properties: Properties) -> int:
    """How large a stack is for each thread of a device, where kernels need deep ones."""
    figures = properties.figures
    threads = properties.multiprocessors * figures["MAX_THREADS_PER_MULTIPROCESSOR"]
    share = properties.total_memory // _SHARE // threads
    return max(_LEAST, min(_MOST, 1 << share.bit_length() >> 1))


def deepen(calls: Calls, properties: Properties) -> None:
    """See that threads of the current device have such stacks; larger ones stay."""
    wanted = bytes_for(properties)
    if calls("CtxGetLimit", _STACK_SIZE) < wanted:
        asked = f"stacks of {wanted} bytes for each thread of a kernel that calls itself"
        calls("CtxSetLimit", _STACK_SIZE, wanted, asked=asked)
