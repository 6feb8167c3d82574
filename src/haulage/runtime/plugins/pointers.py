"""Memory that a memory manager gives: where it is, and what gives it back."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsInt

import numpy as np

from haulage.backends.base import DEVICE, MANAGED, MAPPED, PINNED
from haulage.runtime import memory
from haulage.runtime.arrays import transfer
from haulage.runtime.arrays.strided import Span
from haulage.runtime.handle import Handle, number_of

if TYPE_CHECKING:
    from haulage.runtime.context import Context

Finalizer = Callable[[], object]


class MemoryPointer(Span):
    """Memory of a device at an address that the caller names, for instance that of another library.

    It can be the `gpu_data` of a `DeviceNDArray`. The memory is used as the program says: an
    address that is none ends the process, as it does on a GPU.

    Args:
        context: the `Context` of the device.
        pointer: the address, an int or a ctypes integer.
        size: bytes.
        owner: is kept alive as long as the memory is used.
        finalizer: is called once, when the last array, view or pointer over it is gone and the
            work that uses it is done; never at the end of the process.
    """

    _kind = DEVICE

    def __init__(
        self,
        context: "Context",
        pointer: SupportsInt | Any,
        size: int,
        owner: Any = None,
        finalizer: Finalizer | None = None,
    ) -> None:
        address = number_of(pointer)
        device = context.device
        host_visible = self._kind != DEVICE or device.properties.host_memory_is_device_memory
        block = memory.adopt(
            device,
            address,
            address if host_visible else 0,
            size,
            partial(_finish, finalizer, owner),
            self._kind,
        )
        super().__init__(block, address, size)
        self.context = context
        self.is_managed = finalizer is not None

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self._kind == DEVICE:
            raise AttributeError(f"{self!r} is memory of the device; copy it with device_to_host")
        return np.asarray(transfer.host_bytes(self.block)).__array_interface__


class AutoFreePointer(MemoryPointer):
    """A `MemoryPointer`, by the name that numba has for one whose views keep it alive; all do."""


class MappedMemory(MemoryPointer):
    """Memory of the host that the device reaches as well, at the same address."""

    _kind = MAPPED

    @property
    def host_pointer(self) -> Handle:
        """The host's address."""
        return self.device_pointer


class PinnedMemory(MappedMemory):
    """Memory of the host that copies from and to the device can use without waiting."""

    _kind = PINNED


class ManagedMemory(MappedMemory):
    """Memory that moves to the host or to the device that touches it."""

    _kind = MANAGED


class OwnedPointer(Span):
    """A pointer that keeps `memptr` alive; `view` is the part of it that is meant."""

    def __init__(self, memptr: Span, view: Span | None = None) -> None:
        part = memptr if view is None else view
        super().__init__(memptr.block, part.device_pointer, part.size)


def _finish(finalizer: Finalizer | None, owner: Any) -> None:
    # `owner` is an argument so that it lives until now.
    if finalizer is not None:
        finalizer()
