"""What numba calls the context of a device: its memory, streams and events, asked for directly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from haulage.backends.base import DEVICE, PORTABLE, WRITE_COMBINED
from haulage.checks import flag, whole_number
from haulage.errors import Unsupported
from haulage.runtime import memory
from haulage.runtime.arrays.host_arrays import ManagedNDArray, MappedNDArray
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.buffers.span import Span
from haulage.runtime.devices.device import Device, Handle
from haulage.runtime.devices.event import Event
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import (
    external_stream,
    legacy_default_stream,
    per_thread_default_stream,
)
from haulage.runtime.exchange import ipc
from haulage.runtime.exchange.ipc import IpcHandle
from haulage.runtime.launch import occupancy
from haulage.runtime.memory import MemoryInfo
from haulage.runtime.plugins import asking, choice
from haulage.runtime.plugins.managers import BaseCUDAMemoryManager, PendingDeallocations
from haulage.runtime.process import finalize, runtime


class Context:
    """A device, seen as the place of its memory, streams and events.

    Every device has one context in a process; two `Context` objects of a device are equal.
    """

    __slots__ = ("__weakref__", "device")

    def __init__(self, device: Device) -> None:
        self.device = device

    @property
    def id(self) -> int:
        """The number of the device within its kind."""
        return self.device.id

    @property
    def agent(self) -> Device:
        """The device, by the name that it has in programs for numba.roc."""
        return self.device

    def synchronize(self) -> None:
        """Wait for all work of the device.

        Raises:
            KernelError: threads of a kernel had failed.
        """
        self.device.synchronize()
        memory.reap()

    def reset(self) -> None:
        """`Device.reset`: wait, then give all memory of arrays back and close them.

        The memory manager's `reset` is called as well.
        """
        choice.manager_of(self.device)  # so that it is there to be told
        self.device.reset()

    def get_memory_info(self) -> MemoryInfo:
        """Free and total bytes of the device's memory, now, as its memory manager tells.

        Raises:
            NotImplementedError: the memory manager, a plug-in, cannot tell.
            TypeError: it told something else.
        """
        return asking.memory_info(self.memory_manager)

    @property
    def handle(self) -> Handle:
        """A number that the contexts of other devices do not have."""
        return Handle(id(self.device))

    @property
    def extras(self) -> dict[Any, Any]:
        """What programs keep for a context, by keys of theirs."""
        return self.device.extras

    def prepare_for_use(self) -> None:
        """Make the device ready for calls of its driver, which Haulage's own calls do."""
        self.device.activate()

    # ---- which is current -------------------------------------------------------------------

    def push(self) -> None:
        """Make the device current in this thread until `pop`."""
        runtime.current.enter(self.device)

    def pop(self) -> None:
        """Undo the last `push` of this thread.

        Raises:
            RuntimeError: there was none.
        """
        runtime.current.leave()

    def __enter__(self) -> "Context":
        self.push()
        return self

    def __exit__(self, *exception: object) -> None:
        self.pop()

    # ---- memory manager ---------------------------------------------------------------------

    @property
    def memory_manager(self) -> BaseCUDAMemoryManager:
        """What gives the device's memory: a plug-in (see `set_memory_manager`), else Haulage."""
        return choice.manager_of(self.device)

    @property
    def deallocations(self) -> PendingDeallocations:
        """What waits to be given back to the device."""
        return PendingDeallocations(self)

    # ---- memory -----------------------------------------------------------------------------

    def memalloc(self, bytesize: int) -> Span:
        """Memory of the device, not initialised; given back when the last reference to it goes.

        What it gives can be the `gpu_data` of a `DeviceNDArray`.

        Raises:
            OutOfMemory: the device has no room.
        """
        nbytes = whole_number(bytesize, "memalloc: bytes", 0)
        block = memory.allocate(self.device, nbytes, DEVICE)
        return Span(block, block.device_ptr, nbytes)

    def memallocmanaged(self, bytesize: int, attach_global: bool = True) -> ManagedNDArray:
        """Managed memory as an array of `bytesize` bytes; without `attach_global` the host's at
        first. It too can be the `gpu_data` of a `DeviceNDArray`."""
        hints = () if flag(attach_global, "attach_global") else ("attach_host",)
        bytesize = whole_number(bytesize, "memallocmanaged: bytes", 0)
        return ManagedNDArray(bytesize, 1, np.uint8, device=self.device, hints=hints)

    def memhostalloc(
        self, bytesize: int, mapped: bool = False, portable: bool = False, wc: bool = False
    ) -> np.ndarray:
        """Pinned host memory as a NumPy array of `bytesize` bytes; a mapped one with `mapped`."""
        bytesize = whole_number(bytesize, "memhostalloc: bytes", 0)
        portable, wc = flag(portable, "portable"), flag(wc, "wc")
        if flag(mapped, "mapped"):
            hints = [name for name, asked in (("portable", portable), ("wc", wc)) if asked]
            return MappedNDArray(bytesize, 1, np.uint8, device=self.device, hints=hints)
        flags = PORTABLE * portable | WRITE_COMBINED * wc
        return pinned_memory.pinned_array(self.device, (bytesize,), (1,), np.dtype(np.uint8), flags)

    def mempin(self, owner: Any, pointer: Any, size: int, mapped: bool = False) -> Any:
        """Pin `size` bytes of the host's memory at the address `pointer`, until what it gives goes.

        `owner` is kept alive so long.

        Returns:
            A `MappedMemory` with `mapped`, else a `PinnedMemory`.
        """
        size = whole_number(size, "mempin: bytes", 0)
        mapped = flag(mapped, "mempin: mapped")
        return asking.mempin(self.memory_manager, owner, pointer, size, mapped)

    @contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        """`with context.defer_cleanup():` gives no memory back before its end.

        It enters that of the memory manager too, which may be a plug-in's.
        """
        with self.memory_manager.defer_cleanup(), finalize.defer_cleanup():
            yield

    def get_ipc_handle(self, memory: Span) -> IpcHandle:
        """A handle by which other processes open memory of the device; see
        `DeviceNDArray.get_ipc_handle`.

        Raises:
            ValueError: the memory is closed, or not the device's own.
            Unsupported: the device cannot share memory between processes.
        """
        return ipc.get_memory_handle(memory)

    def open_ipc_handle(self, handle: Any, size: int) -> Span:
        """`size` bytes of the memory of another process, by the bytes of its `IpcHandle`.

        Raises:
            DeviceError: the memory is gone, or out of this process's reach.
            ValueError: it has fewer bytes.
        """
        size = whole_number(size, "open_ipc_handle: bytes", 0)
        return ipc.open_memory(self.device, handle).view(0, size)

    # ---- streams and events -----------------------------------------------------------------

    def create_stream(self) -> Stream:
        """A new stream."""
        return Stream.create(self.device)

    def get_default_stream(self) -> Stream:
        """The default stream."""
        return self.device.default_stream

    def get_legacy_default_stream(self) -> Stream:
        """The default stream, which all threads share."""
        return legacy_default_stream(self.device)

    def get_per_thread_default_stream(self) -> Stream:
        """The calling thread's own default stream."""
        return per_thread_default_stream(self.device)

    def create_external_stream(self, ptr: int) -> Stream:
        """A stream that someone else made, by the driver's handle."""
        return external_stream(self.device, ptr)

    def create_event(self, timing: bool = True) -> Event:
        """A new event."""
        return Event(self.device, timing)

    # ---- code -------------------------------------------------------------------------------

    def create_module_ptx(self, ptx: Any) -> NoReturn:
        """Unsupported: kernels are compiled from Python for the device that they run on."""
        raise Unsupported(
            f"{self.device} loads no PTX or other code of NVIDIA's; write the kernel with @cuda.jit"
        )

    create_module_image = create_module_ptx

    def get_active_blocks_per_multiprocessor(
        self, func: Any, blocksize: int, memsize: int, flags: int | None = None
    ) -> int:
        """How many blocks of a kernel fit one multiprocessor at once.

        Args:
            func: a kernel with one signature, or one of its overloads.
            blocksize: threads of a block.
            memsize: bytes of dynamic shared memory for each block.
            flags: None or 0; there are none.
        """
        _no_flags("get_active_blocks_per_multiprocessor", flags)
        return occupancy.active_blocks(self.device, func, blocksize, memsize)

    def get_max_potential_block_size(
        self,
        func: Any,
        b2d_func: Callable[[int], int] | int,
        memsize: int,
        blocksizelimit: int,
        flags: int | None = None,
    ) -> tuple[int, int]:
        """(blocks of the grid, threads of a block) with which a kernel fills the device.

        Args:
            func: a kernel with one signature, or one of its overloads.
            b2d_func: gives the bytes of dynamic shared memory for a number of threads; 0 for none.
            memsize: bytes of dynamic shared memory for each block besides.
            blocksizelimit: most threads of a block; 0 for the device's limit.
            flags: None or 0; there are none.
        """
        _no_flags("get_max_potential_block_size", flags)
        return occupancy.best_block(self.device, func, b2d_func, memsize, blocksizelimit)

    # ---- other devices ----------------------------------------------------------------------

    def can_access_peer(self, peer_context: "int | Context") -> bool:
        """Whether kernels of this device can be let reach the memory of another."""
        peer = self._peer(peer_context)
        return peer is not None and self.device.backend.can_access_peer(self.device.id, peer)

    def enable_peer_access(self, peer_context: "int | Context", flags: int = 0) -> None:
        """Let kernels of this device reach the memory of another; launches take arrays of both.

        A device's work does not wait for that of another: events, or `synchronize`, do that.

        Raises:
            Unsupported: they cannot.
            ValueError: `flags` is not 0; there are none.
        """
        _no_flags("enable_peer_access", flags)
        peer = self._peer(peer_context)
        if peer is None:
            raise Unsupported(
                f"kernels of {self.device} do not reach the memory of {peer_context!r}, which is "
                "of another driver"
            )
        self.device.backend.peer_enable(self.device.id, peer)
        self.device.peers.add(peer)

    def _peer(self, peer: "int | Context") -> int | None:
        """The number of a device of this one's driver; None if it is another's."""
        if not isinstance(peer, Context):
            return whole_number(peer, "the number of a device, or its Context:", 0)
        return peer.device.id if peer.device.backend is self.device.backend else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and other.device is self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"<Context of {self.device}>"


def _no_flags(who: str, flags: int | None) -> None:
    if flags is not None and whole_number(flags, f"{who}: flags"):
        raise ValueError(f"{who}(flags={flags!r}): expected 0 or None, there are no flags")


@contextmanager
def profiling(device: Device) -> Iterator[None]:
    """The maker's profiler, where one is attached, records what is done inside."""
    device.activate()
    device.backend.profile(True)
    try:
        yield
    finally:
        device.activate()
        device.backend.profile(False)
