"""The copy of a storage at one place: its memory, what of it is current, who works on it."""

from typing import Any

import numpy as np

from haulage.errors import OutOfMemory
from haulage.runtime import eviction
from haulage.runtime.arrays import transfer
from haulage.runtime.device import Device
from haulage.runtime.memory import Block, owners
from haulage.runtime.ranges import Ranges
from haulage.runtime.stream import Stream

# So many arrays over parts of a copy are kept for the next launches.
_MOST_ARRAYS = 64


class Site:
    """What is known of a place.

    Attributes:
        valid: the bytes that are current there.
        acquired: those that somebody acquired there and no other place was written since.
        mark: the line that wrote there last.
    """

    __slots__ = ("acquired", "mark", "valid")

    def __init__(self, valid: Ranges) -> None:
        self.valid = valid
        self.acquired = Ranges()
        self.mark: owners.Mark = ()

    def is_overtaken(self, part: Ranges) -> None:
        """Another place was written: these bytes are out of date here."""
        if self.valid or self.acquired:
            self.valid -= part
            self.acquired -= part


class Copy(Site):
    """The copy of a storage on a device.

    Attributes:
        block: its memory.
        writers: the streams that wrote what is current.
        arrays: what its users make of the block, kept for the next ones.
        used: when it was acquired last, by `eviction.now`.
        writing: the bytes that were acquired to be written, and not released since.
        seen: acquired to be read since the last write, which may turn out to have been written.
    """

    __slots__ = ("arrays", "block", "seen", "used", "writers", "writing")

    def __init__(self, block: Block) -> None:
        super().__init__(Ranges())
        self.block = block
        self.writers: tuple[Stream, ...] = ()
        self.arrays: dict[Any, Any] = {}
        self.used = 0
        self.writing = Ranges()
        self.seen = False

    def keep(self, key: Any, array: Any) -> None:
        """Keep an array for the next one who asks by `key`."""
        if len(self.arrays) >= _MOST_ARRAYS:
            self.arrays.clear()
        self.arrays[key] = array

    def is_in_use(self) -> bool:
        """Whether anybody may use it without acquiring it once more."""
        block = self.block
        if self.writing or block.closed or block.exported:
            return True
        del block
        # In this order: who has an array may make a view and let it go, but not the other way.
        if any(eviction.is_referenced(self.arrays, key) for key in tuple(self.arrays)):
            return True
        return eviction.references(self, "block") > eviction.ALONE + len(self.arrays)

    def is_used(self, mode: str, stream: Stream, part: Ranges) -> None:
        """Note that bytes were acquired for work that is handed to `stream` from now on."""
        self.block.use(stream)
        self.used = eviction.now()
        if mode == "r":
            self.seen = True
        else:
            self.writing |= part
            self.acquired |= part

    def users(self) -> tuple[Stream, ...]:
        """The streams that may still read or write it. (Blocks do not note the default stream.)"""
        return self.block.users()


def host_room(device: Device, nbytes: int) -> np.ndarray | None:
    """Memory of the host for bytes of a device; None if it has none left either."""
    if not device.properties.host_memory_is_device_memory:
        try:
            # Copies from and to it are faster.
            return transfer.pinned_array(device, (nbytes,), (1,), np.dtype(np.uint8))
        except OutOfMemory:
            pass  # pageable memory does as well
    try:
        return np.empty(nbytes, np.uint8)
    except MemoryError:
        return None
