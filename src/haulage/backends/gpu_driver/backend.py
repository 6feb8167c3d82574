"""What the back ends of GPUs have in common."""

import atexit
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

from haulage._core.driver import IdleQuery
from haulage.backends.base import ADVICE, Backend, Properties
from haulage.backends.gpu_driver.calls import Calls
from haulage.backends.gpu_driver.channel import Channels
from haulage.backends.gpu_driver.code import Code
from haulage.backends.gpu_driver.contexts import Contexts
from haulage.backends.gpu_driver.copies import Copies
from haulage.backends.gpu_driver.ending import Ending
from haulage.backends.gpu_driver.giving import Giving
from haulage.backends.gpu_driver.graphs import Graphs
from haulage.backends.gpu_driver.kernels import Kernels
from haulage.backends.gpu_driver.launches import Launch, Launches
from haulage.backends.gpu_driver.memory import Memory
from haulage.backends.gpu_driver.ranges import Ranges
from haulage.backends.gpu_driver.regions import region
from haulage.backends.gpu_driver.sharing import Sharing
from haulage.backends.gpu_driver.streams import Streams

_ALREADY_ENABLED = 704


class Parts(NamedTuple):
    """What is a driver's own: its calls, and the classes that are made of them where drivers
    differ; `properties` of its calls and the number of a device."""

    calls: Callable[[], Calls]
    memory: Callable[..., Memory]
    code: Callable[..., Code]
    launches: Callable[..., Launches]
    graphs: Callable[..., Graphs]
    copies: Callable[..., Copies]
    properties: Callable[..., Properties]


class GPUBackend(Backend):
    """A driver whose calls are those of `gpu_driver.calls`.

    Its devices' contexts are those of other libraries.

    Args:
        parts: those of the driver.
        own_code: gives the code of `gpu_driver.kernels` for an architecture.

    Raises:
        DeviceError: the driver does not start.
    """

    def __init__(self, parts: Parts, own_code: Callable[[str], bytes]) -> None:
        calls = self._calls = parts.calls()
        calls("Init", 0)
        self._properties = functools.cache(functools.partial(parts.properties, calls))
        self._functions = calls.functions()
        self._contexts = Contexts(calls)
        self._give = Giving(calls, self._contexts)
        self._memory = parts.memory(calls, self._contexts)
        self._streams = Streams(calls, self._functions)
        self._channels = Channels(calls, self._memory.coherent, self._streams.write)
        self._code = parts.code(calls, self._channels, self._streams.write)
        self._launches = parts.launches(calls, self._contexts)
        self._graphs = parts.graphs(calls)
        self._ranges = Ranges(calls, self._contexts, self.count())
        kernels = Kernels(
            self._contexts,
            self._launches,
            lambda device: self.load(own_code(self.properties(device).architecture)),
            self._code.function,
            lambda device: self.properties(device).multiprocessors,
        )
        self._copies = parts.copies(
            calls, self._streams, self._contexts, self._memory, self._graphs, kernels
        )
        self._sharing = Sharing(calls, self._contexts, self._ranges)
        self._ending = Ending(calls, self._contexts, self._streams)
        started(self)

    # ---- devices ------------------------------------------------------------------------------

    def count(self) -> int:
        """Those that the driver shows: variables of the environment hide others."""
        return int(self._calls("DeviceGetCount"))

    def properties(self, device: int) -> Properties:
        """The driver's attributes."""
        return self._properties(device)

    def activate(self, device: int) -> None:
        """Make the device current, if another or none is."""
        self._contexts.activate(device)

    def synchronize(self) -> None:
        """Wait for all work of the device."""
        self._calls.check(self._functions.synchronize(), "CtxSynchronize")
        self._raise_failures(None)

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes, other processes counted."""
        free, total = self._calls("MemGetInfo")
        return free, total

    # ---- memory -------------------------------------------------------------------------------

    def alloc(self, nbytes: int, kind: str, flags: int = 0) -> tuple[int, int]:
        """Memory of the device, of the host, or managed; that of the host is for all devices."""
        self._give.catch_up()
        return self._memory.alloc(nbytes, kind, flags)

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Give memory back; the driver first waits for all work of the device."""
        self._sharing.forget(device_ptr, device_ptr + 1)
        self._give(self._memory.free, device_ptr, host_ptr, kind)

    def register(self, host_ptr: int, nbytes: int, flags: int = 0) -> int:
        """Pin memory of the host, for all devices."""
        return self._memory.register(host_ptr, nbytes)

    def unregister(self, host_ptr: int) -> None:
        """Undo `register`."""
        self._give(self._calls, "MemHostUnregister", host_ptr)

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy; one of pageable memory is done, or has been read, when it returns."""
        self._copies.copy(dst, src, nbytes, stream)

    def copy_nd(
        self,
        dst: int,
        dst_strides: Sequence[int],
        src: int,
        src_strides: Sequence[int],
        shape: Sequence[int],
        itemsize: int,
        stream: int,
    ) -> None:
        """Copy rows by the driver, other regions by a kernel or by way of a pinned buffer."""
        what = region(dst, dst_strides, src, src_strides, shape, itemsize)
        if what is not None:
            self._copies.copy_region(what, stream)

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Fill by the driver, or by a kernel."""
        self._copies.fill(dst, value, count, stream)

    # ---- streams and events -------------------------------------------------------------------

    def stream_create(self, flags: int = 0, priority: int = 0) -> int:
        """A new stream."""
        return self._streams.create(flags, priority)

    def stream_destroy(self, stream: int) -> None:
        """Give a stream back."""
        self._give(self._streams.destroy, stream)

    def stream_synchronize(self, stream: int) -> None:
        """Wait for a stream."""
        self._streams.synchronize(stream)
        self._raise_failures(stream)

    def stream_query(self, stream: int) -> bool:
        """Whether a stream's work is done."""
        return self._streams.query(stream)

    def stream_poll(self, stream: int) -> bool:
        """`stream_query`, with an error for a stream that is recorded."""
        return self._streams.poll(stream)

    def idle_query(self, device: int) -> Callable[[], bool] | None:
        """Asks the driver in compiled code, if the device is current."""
        return IdleQuery(self._contexts, self._functions, device)

    def stream_wait_event(self, stream: int, event: int) -> None:
        """Order a stream after an event."""
        self._streams.wait_event(stream, event)

    def event_create(self, timing: bool = True) -> int:
        """A new event."""
        return self._streams.event_create(timing)

    def event_destroy(self, event: int) -> None:
        """Give an event back."""
        self._give(self._streams.event_destroy, event)

    def event_record(self, event: int, stream: int) -> None:
        """Mark a stream's present end."""
        self._streams.event_record(event, stream)

    def event_synchronize(self, event: int) -> None:
        """Wait for a record."""
        stream = self._streams.event_synchronize(event)
        if stream is not None:
            self._raise_failures(stream)

    def event_query(self, event: int) -> bool:
        """Whether a record is reached."""
        return self._streams.event_query(event)

    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two records, by the device's clock."""
        return self._streams.event_elapsed(start, end)

    def _raise_failures(self, stream: int | None) -> None:
        """After a wait: raise what kernels and callbacks have left."""
        self._give.catch_up()
        self._channels.raise_fault()
        self._streams.functions.raise_failures(stream)

    # ---- code ---------------------------------------------------------------------------------

    def load(self, code: bytes) -> int:
        """Code that the driver takes for the device."""
        return self._code.load(code, self._contexts.device())

    def unload(self, module: int) -> None:
        """Give a module back."""
        self._give(self._code.unload, module)

    def function(self, module: int, name: str) -> int:
        """A kernel, which can have as much dynamic shared memory as the device has."""
        most = self.properties(self._contexts.device()).max_dynamic_shared
        function = self._code.function(module, name)
        self._code.with_all_shared(function, most)
        return function

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """By the driver, with the arguments as one buffer."""
        launch = Launch(function, grid, block, shared_bytes, args)
        self._launches.start(self._contexts.device(), launch, stream)

    # ---- may ----------------------------------------------------------------------------------

    def prepare_launch(
        self,
        device: int,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
    ) -> tuple[bytes, Callable[[int, bytes], None]]:
        """No header, and what calls the driver."""
        return b"", self._launches.prepare(device, function, grid, block, shared_bytes)

    def stream_priorities(self) -> tuple[int, int]:
        """Those of the device, as (0, -5)."""
        least, greatest = self._calls("CtxGetStreamPriorityRange")
        return least, greatest

    def stream_callback(self, stream: int, callback: Callable[[], object]) -> None:
        """Call `callback()` on a thread of the driver, which may not call the driver."""
        self._streams.callback(stream, callback)

    def check_address(self, address: int, nbytes: int) -> None:
        """See that the driver knows memory there, of this device or of one that it reaches."""
        self._memory.check(address, nbytes)

    def symbol(self, module: int, name: str) -> tuple[int, int]:
        """(device pointer, bytes) of a module's variable."""
        return self._code.symbol(module, name)

    def function_info(self, function: int) -> dict[str, int]:
        """max_threads, registers, shared_bytes, const_bytes, local_bytes, versions of the code."""
        return self._code.info(function)

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """Blocks of that size which fit one multiprocessor, as the driver tells."""
        blocks: int = self._calls(
            "OccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared_bytes
        )
        return blocks

    def launch_cooperative(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """By the driver's function for it."""
        launch = Launch(function, grid, block, shared_bytes, args)
        self._launches.start_cooperative(launch, stream)

    def max_cooperative_blocks(
        self, function: int, threads: int, shared_bytes: int, block_bytes: int
    ) -> int:
        """What fits one multiprocessor, on all of them."""
        units = self.properties(self._contexts.device()).multiprocessors
        return units * self.occupancy(function, threads, shared_bytes)

    def ipc_export(self, device_ptr: int, nbytes: int, unit: int, unit_nbytes: int) -> bytes:
        """The driver's own handle of a whole allocation; else one of 64 bytes (Linux)."""
        return self._sharing.export(device_ptr, nbytes, unit, unit_nbytes)

    def ipc_export_of_others(self, device_ptr: int) -> tuple[bytes, int]:
        """The driver's own handle."""
        return self._sharing.export_of_others(device_ptr)

    def ipc_withdraw(self, device_ptr: int) -> tuple[int, ...]:
        """Take the handle back; other processes may have what it names open still."""
        return self._sharing.withdraw(device_ptr)

    def ipc_import(self, handle: bytes) -> tuple[int, int]:
        """Open the memory of another process, or of this one once more."""
        return self._sharing.open(handle)

    def ipc_close(self, device_ptr: int) -> None:
        """Let go of it."""
        self._give(self._sharing.close, device_ptr)

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether the driver can let one reach the other."""
        return bool(self._calls("DeviceCanAccessPeer", device, peer))

    def peer_enable(self, device: int, peer: int) -> None:
        """Let kernels of `device` use the memory of `peer`, also what is allocated later."""
        handle = self._contexts.of(peer)
        self.activate(device)
        status, _ = self._calls.ask("CtxEnablePeerAccess", handle, 0)
        if status != _ALREADY_ENABLED:
            self._calls.check(status, "CtxEnablePeerAccess", peer)
        self._ranges.allow(device, peer)

    def prefetch(self, device_ptr: int, nbytes: int, device: int, stream: int) -> None:
        """By the driver."""
        self._calls("MemPrefetchAsync", device_ptr, nbytes, device, stream)

    def advise(self, device_ptr: int, nbytes: int, advice: str, device: int) -> None:
        """By the driver."""
        self._calls("MemAdvise", device_ptr, nbytes, 1 + ADVICE.index(advice), device)

    def granularity(self) -> int:
        """2 MiB, or up to 16 MiB on devices with more memory; 0 where the driver cannot."""
        return self._ranges.granularity()

    def reserve(self, nbytes: int) -> int:
        """Addresses of the driver's."""
        self._check_ranges("reserve")
        return self._ranges.reserve(nbytes)

    def release(self, address: int, nbytes: int) -> None:
        """Give them back to the driver."""
        self._check_ranges("release")
        self._give(self._ranges.release, address, nbytes)

    def map(self, address: int, nbytes: int) -> None:
        """Granule by granule."""
        self._check_ranges("map")
        self._ranges.map(address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        """Granule by granule."""
        self._check_ranges("unmap")
        self._sharing.forget(address, address + nbytes)
        self._give(self._ranges.unmap, address, nbytes)

    def _check_ranges(self, method: str) -> None:
        if not self.granularity():
            self._unsupported(method)

    def capture_begin(self, stream: int) -> None:
        """In the relaxed mode."""
        self._graphs.begin(stream)

    def capture_end(self, stream: int) -> tuple[int, int]:
        """End it, and make the graph ready."""
        return self._graphs.end(stream)

    def capture_cancel(self, stream: int) -> None:
        """End it."""
        self._graphs.cancel(stream)

    def capture_query(self, stream: int) -> bool:
        """As the driver says."""
        return self._graphs.is_recording(stream)

    def graph_launch(self, graph: int, stream: int) -> None:
        """By the driver."""
        self._graphs.launch(graph, stream)

    def graph_destroy(self, graph: int) -> None:
        """Give it back to the driver."""
        self._give(self._graphs.destroy, graph)

    def messages(self, sign: int) -> tuple[list[tuple[int, bytes]], int]:
        """What kernels have written to the channels of their devices."""
        return self._channels.messages(sign)

    def unraised(self) -> list[BaseException]:
        """Faults, exceptions of callbacks and the loss of a device that nothing has raised."""
        untold, self._calls.untold = self._calls.untold, None
        lost = [untold] if untold is not None else []
        failures = self._streams.functions.take_failures()
        return [*self._channels.take_faults(), *failures, *lost]

    # ---- the end of the process -----------------------------------------------------------------

    def _finish(self) -> None:
        """Wait for streams that have functions of Python to call yet, and for what kernels tell:
        lines that they print and the faults of their threads."""
        awaited = self._streams.functions.pending or self._channels.by_device
        if awaited and not self._contexts.forked:
            self._ending.wait()


_live: "weakref.WeakSet[GPUBackend]" = weakref.WeakSet()


def started(backend: GPUBackend) -> None:
    """The end of the process is to wait for a back end."""
    _live.add(backend)


@atexit.register
def _close() -> None:
    for backend in list(_live):
        backend._finish()
