"""What is done where there is no room: all that waits to be given back is, and then once more."""

import gc
from collections.abc import Callable
from typing import TypeVar

from haulage.runtime import finalize
from haulage.runtime.device import Device
from haulage.runtime.memory import pending

_Answer = TypeVar("_Answer")


def with_room(device: Device, ask: Callable[[], _Answer]) -> _Answer:
    """`ask()`; if it raises a MemoryError, again after what waits on `device` was given back.

    Not if the error has an attribute `is_final` that is true.
    """
    try:
        return ask()
    except MemoryError as error:
        if getattr(error, "is_final", False):
            raise
        gc.collect()
        finalize.drain(deferred=True)
        pending.flush(device)
        return ask()
