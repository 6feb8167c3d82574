"""Devices that are full."""

import contextlib
import gc

from haulage import memory


@contextlib.contextmanager
def room_for(device, nbytes):
    """The device has room for so many bytes more."""
    gc.collect()
    memory.limit(memory.stats(device).in_use + nbytes, device)
    try:
        yield
    finally:
        memory.limit(None, device)
