"""Memory that a memory manager gives: where it is, and what gives it back."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsInt

import numpy as np

from haulage import forks
from haulage.backends.base import DEVICE, MANAGED, MAPPED, PINNED
from haulage.checks import whole_number
from haulage.runtime import memory
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.buffers.span import Span
from haulage.runtime.devices.device import Device, Handle, number_of
from haulage.runtime.memory import Block
from haulage.runtime.process import finalize

if TYPE_CHECKING:
    from haulage.runtime.context import Context

Finalizer = Callable[[], object]

# What `__init__` keeps in a pointer; a plug-in may keep more there.
_OWN_ATTRIBUTES = {"context", "is_managed", "_owners", "_counting"}


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
            work that uses it is done; never at the end of the process. What it raises is reported
            as what a `__del__` raises, through `sys.unraisablehook`.

    Raises:
        TypeError: an argument is none of these.
        ValueError: `size` is negative.
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
        address = _address(pointer)
        device = getattr(context, "device", None)
        if not isinstance(device, Device):
            raise TypeError(f"{type(self).__name__}(context={context!r}): expected a Context")
        size = whole_number(size, f"{type(self).__name__}: size", 0)
        if finalizer is not None and not callable(finalizer):
            raise TypeError(
                f"{type(self).__name__}(finalizer={finalizer!r}): expected a function without "
                "arguments, or None"
            )
        host_visible = self._kind != DEVICE or device.properties.host_memory_is_device_memory
        block = memory.adopt(
            device,
            address,
            address if host_visible else 0,
            size,
            partial(_finish, finalizer, owner, f"{size} bytes at {address:#x} of {device}"),
            self._kind,
        )
        super().__init__(block, address, size)
        self.context = context
        self.is_managed = finalizer is not None

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self._kind == DEVICE:
            raise AttributeError(f"{self!r} is memory of the device; copy it with device_to_host")
        return np.asarray(pinned_memory.host_bytes(self.block)).__array_interface__


class AutoFreePointer(MemoryPointer):
    """A `MemoryPointer` that a memory manager may keep: only those that `own()` it count.

    So a manager can have a dict of what it has given, and the memory is still given back when the
    last array over it goes. One that nobody has owned lives as a `MemoryPointer` does.
    """

    def __init__(
        self,
        context: "Context",
        pointer: SupportsInt | Any,
        size: int,
        owner: Any = None,
        finalizer: Finalizer | None = None,
    ) -> None:
        super().__init__(context, pointer, size, owner, finalizer)
        self._owners = 0
        self._counting = forks.lock()

    def own(self) -> "OwnedPointer":
        """A pointer to the memory that keeps it."""
        return OwnedPointer(self)

    def _owned_block(self) -> Block:
        whole = self.block
        whole.use()
        with self._counting:
            self._owners += 1
        return memory.adopt(
            whole.device, whole.device_ptr, whole.host_ptr, whole.nbytes, self._disown, whole.kind
        )

    def _disown(self) -> None:
        with self._counting:
            self._owners -= 1
            is_last = not self._owners
        if is_last:
            self.block.close()


class MappedMemory(AutoFreePointer):
    """Memory of the host that the device reaches as well, at the same address unless the device's
    driver was asked for another one."""

    _kind = MAPPED

    @property
    def host_pointer(self) -> Handle:
        """The host's address."""
        return Handle(self.block.host_ptr)


class PinnedMemory(MappedMemory):
    """Memory of the host that copies from and to the device can use without waiting."""

    _kind = PINNED

    def own(self) -> Any:
        """Itself: it keeps the memory alive already."""
        return self


class ManagedMemory(MappedMemory):
    """Memory that moves to the host or to the device that touches it."""

    _kind = MANAGED


class OwnedPointer(Span):
    """A pointer that keeps `memptr` alive; `view` is the part of it that is meant."""

    def __init__(self, memptr: Span, view: Span | None = None) -> None:
        part = memptr if view is None else view
        block = memptr._owned_block() if isinstance(memptr, AutoFreePointer) else memptr.block
        super().__init__(block, part.device_pointer, part.size)


def block_of(given: Span) -> Block:
    """The block for an array over all of `given`, which keeps alive what `given` keeps."""
    block = given.block
    is_all = given.device_pointer == block.device_ptr and given.size == block.nbytes
    if is_all and _keeps_nothing_else(given):
        return block
    offset = given.device_pointer - block.device_ptr
    host_ptr = block.host_ptr + offset if block.host_ptr else 0
    kept = partial(id, given)
    return memory.adopt(block.device, given.device_pointer, host_ptr, given.size, kept, block.kind)


def _keeps_nothing_else(given: Span) -> bool:
    is_ours = type(given).__module__ in (__name__, Span.__module__)
    return is_ours and getattr(given, "__dict__", {}).keys() <= _OWN_ATTRIBUTES


def _address(pointer: Any) -> int:
    try:
        return number_of(pointer)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"pointer {pointer!r}: expected an address, as an int or a ctypes integer"
        ) from error


def _finish(finalizer: Finalizer | None, owner: Any, what: str) -> None:
    # `owner` is an argument so that it lives until now.
    if finalizer is not None:
        finalize.call_unraisable(finalizer, name=f"the finalizer of {what}")
