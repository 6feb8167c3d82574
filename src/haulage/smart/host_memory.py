"""Which memory of the host a SmartArray's copy there is in."""

from typing import Any

import numpy as np

from haulage.runtime import memory
from haulage.runtime.arrays import transfer
from haulage.runtime.arrays.host_arrays import (
    HostVisibleNDArray,
    ManagedNDArray,
    MappedNDArray,
)
from haulage.runtime.device import current_device
from haulage.runtime.memory import Block

# Names for it, besides 'host'.
KINDS = ("pinned", "mapped", "managed")

# What is to be known of an address, as no dtype asks for more.
MOST_ALIGNED = 64

_BYTES = np.dtype(np.uint8)


def make(nbytes: int, where: Any, now: bool) -> tuple[np.ndarray | None, Block | None]:
    """(the bytes on the host, the block that they are in if the current device reaches it too).

    Ordinary memory is made `now` or, None, when it is needed.

    Raises:
        OutOfMemory: there is none left.
    """
    if where == "pinned":
        return transfer.pinned_array(current_device(), (nbytes,), (1,), _BYTES), None
    if where in KINDS:
        kind = MappedNDArray if where == "mapped" else ManagedNDArray
        made: HostVisibleNDArray = kind(nbytes, 1, _BYTES)
        return made.view(np.ndarray), made.block
    return (memory.on_host(np.empty, nbytes, np.uint8) if now else None), None


def bytes_of(array: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array as an array of bytes with one axis."""
    if not array.nbytes:
        return np.empty(0, np.uint8)
    plain = np.asarray(array)
    return (plain if plain.flags.c_contiguous else plain.T).reshape(-1).view(np.uint8)
