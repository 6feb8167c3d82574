"""The classes that plug-ins derive from, as numba.cuda names them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from haulage.backends.base import (
    ATTACH_HOST,
    DEVICE,
    MANAGED,
    MAPPED,
    PINNED,
    PORTABLE,
    WRITE_COMBINED,
)
from haulage.interruption import on_error
from haulage.runtime import memory
from haulage.runtime.buffers.span import Span
from haulage.runtime.devices.device import number_of
from haulage.runtime.exchange import ipc
from haulage.runtime.memory import Block, MemoryInfo, pin
from haulage.runtime.plugins.pointers import MappedMemory, PinnedMemory
from haulage.runtime.process import finalize

if TYPE_CHECKING:
    from haulage.runtime.context import Context

# The version of the interface that plug-ins have to be written for.
INTERFACE_VERSION = 1


class PendingDeallocations:
    """What waits to be given back to a device.

    Haulage gives memory back when its last reference goes, not in batches as numba does; so only
    what work still uses waits, and what `defer_cleanup` or `disable` hold back.

    Args:
        context: the `Context` of the device; with None nothing waits, as there is no device.
    """

    def __init__(self, context: "Context | None") -> None:
        self._context = context

    def __len__(self) -> int:
        return 0 if self._context is None else memory.pending_count(self._context.device)

    def add_item(self, dtor: Callable[[Any], object], handle: Any, size: int = 0) -> None:
        """Call `dtor(handle)`: now, or where `is_disabled` once it is no more.

        Args:
            dtor: gives something back.
            handle: what it gives back.
            size: its bytes, by which numba finds out when to end a batch; there are none here.
        """
        finalize.give_back(dtor, handle)

    def clear(self) -> None:
        """Give back what waits, after the work that uses it; nothing while `is_disabled`."""
        if self._context is not None:
            memory.flush(self._context.device)

    def disable(self) -> AbstractContextManager[None]:
        """`with deallocations.disable():` gives nothing back before its end."""
        return finalize.defer_cleanup()

    @property
    def is_disabled(self) -> bool:
        """Whether a `disable` or `defer_cleanup` holds."""
        return finalize.deferring()


class BaseCUDAMemoryManager(ABC):
    """A plug-in that gives all memory of a device.

    One is made for each device, when its memory is first asked for: `Plugin(context=context)`; then
    `initialize()` is called.

    Attributes:
        context: the `Context` of the device.
    """

    def __init__(self, context: "Context") -> None:
        self.context = context

    @abstractmethod
    def memalloc(self, size: int) -> Span:
        """`size` bytes on the device, as a `MemoryPointer`."""

    @abstractmethod
    def memhostalloc(self, size: int, mapped: bool, portable: bool, wc: bool) -> Span:
        """`size` bytes of pinned host memory, as a `MappedMemory` if `mapped`, else `PinnedMemory`.

        Args:
            size: bytes.
            mapped: the device reaches it as well.
            portable: it is pinned for all devices.
            wc: write-combined.
        """

    @abstractmethod
    def mempin(self, owner: Any, pointer: Any, size: int, mapped: bool) -> Span:
        """Host memory that is there already, pinned until what this gives goes.

        Args:
            owner: the object whose memory it is.
            pointer: its address.
            size: bytes.
            mapped: the device reaches it as well.
        """

    @abstractmethod
    def initialize(self) -> None:
        """Get ready; called before all others."""

    @abstractmethod
    def get_ipc_handle(self, memory: Span) -> Any:
        """What other processes open `memory` by, an `IpcHandle`."""

    @abstractmethod
    def get_memory_info(self) -> MemoryInfo:
        """Free and total bytes; NotImplementedError if that is not known."""

    @abstractmethod
    def reset(self) -> None:
        """All memory was given back; called by `cuda.close()` and `Context.reset()`."""

    @abstractmethod
    def defer_cleanup(self) -> AbstractContextManager[None]:
        """A context manager inside which the plug-in gives nothing back to the driver."""

    @property
    @abstractmethod
    def interface_version(self) -> int:
        """The version of this interface that the plug-in is written for: 1."""


class HostOnlyCUDAMemoryManager(BaseCUDAMemoryManager):
    """A plug-in that gives memory on the device; that of the host comes from the driver.

    A subclass whose `reset` or `defer_cleanup` does something calls that of `super()` too.

    Attributes:
        allocations: a dict for what the plug-in keeps of its allocations; `reset` empties it.
        deallocations: what waits to be given back, as `Context.deallocations`.
    """

    def __init__(self, context: "Context") -> None:
        super().__init__(context)
        self.allocations: dict[Any, Any] = {}
        self.deallocations = PendingDeallocations(context)

    def memhostalloc(
        self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False
    ) -> Span:
        """Pinned host memory from the driver."""
        flags = PORTABLE * portable | WRITE_COMBINED * wc
        return self._allocated(size, MAPPED if mapped else PINNED, flags)

    def mempin(self, owner: Any, pointer: Any, size: int, mapped: bool = False) -> Span:
        """Host memory that the driver pins until what this gives goes."""
        address = number_of(pointer)
        device_ptr, undo = pin(self.context.device, address, size)
        kind = MappedMemory if mapped else PinnedMemory
        with on_error(undo):
            made = kind(self.context, device_ptr, size, owner, undo)
        made.block.host_ptr = address
        return made

    def memallocmanaged(self, size: int, attach_global: bool = True) -> Span:
        """Managed memory from the driver."""
        return self._allocated(size, MANAGED, 0 if attach_global else ATTACH_HOST)

    def reset(self) -> None:
        """Forget the plug-in's `allocations`, and give back what waits.

        The host's memory is given back with the arrays that stand on it.
        """
        self.allocations.clear()
        self.deallocations.clear()

    def defer_cleanup(self) -> AbstractContextManager[None]:
        """Inside, nothing is given back to the driver."""
        return finalize.defer_cleanup()

    def _allocated(self, size: int, kind: str, flags: int = 0) -> Span:
        block = memory.allocate_of_driver(self.context.device, size, kind, flags)
        return Span(block, block.device_ptr, size)


class GetIpcHandleMixin:
    """`get_ipc_handle` for memory that the plug-in has from the device's driver.

    It can be all of an allocation or a part of one, as pools give.
    """

    def get_ipc_handle(self, memory: Span) -> Any:
        """An `IpcHandle` of the memory.

        Raises:
            ValueError: it is no memory of the driver's.
        """
        whole = memory_that_holds(memory)
        return ipc.export(whole, memory.device_pointer, memory.size)


def memory_that_holds(part: Span) -> Block:
    """The allocation of the device's driver in which `part` lies.

    Raises:
        ValueError: there is none that Haulage made.
    """
    whole = memory.holding(part.block.device, part.device_pointer, part.size)
    if whole is None:
        raise ValueError(
            f"get_ipc_handle: {part!r} is no part of what the driver of {part.block.device} has "
            "allocated for Haulage; only its own plug-in can make a handle of it"
        )
    return whole


class DriverMemoryManager(GetIpcHandleMixin, HostOnlyCUDAMemoryManager):
    """All memory from the device's driver: what is used where there is no plug-in."""

    def initialize(self) -> None:
        """Nothing has to be done."""

    def memalloc(self, size: int) -> Span:
        """Memory of the device from its driver."""
        return self._allocated(size, DEVICE)

    def get_memory_info(self) -> MemoryInfo:
        """Free and total bytes of the device's memory, now."""
        return MemoryInfo(*self.context.device.memory_info())

    @property
    def interface_version(self) -> int:
        """The present one."""
        return INTERFACE_VERSION
