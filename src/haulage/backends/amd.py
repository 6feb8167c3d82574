"""AMD GPUs, by the HIP runtime."""

import atexit
import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence

from haulage._core.driver import IdleQuery
from haulage._core.starts import Start
from haulage.backends.amd_driver import figures, looking
from haulage.backends.amd_driver.calls import Calls, functions
from haulage.backends.amd_driver.chunks import Chunks
from haulage.backends.amd_driver.code import Code
from haulage.backends.amd_driver.contexts import Contexts
from haulage.backends.amd_driver.copies import Copies
from haulage.backends.amd_driver.counters import Counters
from haulage.backends.amd_driver.graphs import Graphs
from haulage.backends.amd_driver.handles import Handles
from haulage.backends.amd_driver.hints import Hints
from haulage.backends.amd_driver.launches import Launches
from haulage.backends.amd_driver.memory import Memory
from haulage.backends.amd_driver.streams import Streams
from haulage.backends.amd_driver.writing import Writing
from haulage.backends.base import Backend, Probe, Properties
from haulage.backends.gpu_driver.channel import Channels
from haulage.backends.gpu_driver.ending import Ending
from haulage.backends.gpu_driver.giving import Giving
from haulage.backends.gpu_driver.ranges import Ranges
from haulage.backends.gpu_driver.sharing import Sharing

_ALREADY_ENABLED = 704


class AMDBackend(Backend):
    """The HIP runtime, by ctypes. Its devices' contexts are those of other libraries.

    Args:
        own_code: gives the code object of `gpu_driver.kernels` for an architecture.

    Raises:
        DeviceError: the runtime does not start.
    """

    name = "amd"

    def __init__(self, own_code: Callable[[str], bytes]) -> None:
        self._calls = Calls()
        self._calls("hipInit", 0)
        self._functions = functions(self._calls)
        self._contexts = Contexts(self._calls)
        self._give = Giving(self._calls, self._contexts)
        self._memory = Memory(self._calls, self._contexts)
        self._streams = Streams(self._calls, self._functions)
        write = Writing(self._calls)
        self._channels = Channels(self._calls, self._memory.coherent, write)
        self._code = Code(self._calls, self._channels, write)
        self._launches = Launches(self._calls, self._contexts)
        self._graphs = Graphs(self._calls)
        self._counters = Counters(self._memory, write, self._graphs)
        self._copies = Copies(
            *(self._calls, self._functions, self._contexts, self._memory, self._code),
            *(self._launches, self._graphs),
            own_code=lambda device: own_code(self._properties(device).architecture),
        )
        chunks = Chunks(self._calls, self._memory)
        self._ranges = Ranges(chunks, self._contexts, self.count())
        self._sharing = Sharing(Handles(self._calls), self._contexts, self._ranges)
        self._hints = Hints(self._calls)
        self._ending = Ending(
            self._calls,
            self._contexts,
            self._streams.functions,
            self._streams.status,
            lambda: self._calls.passed(self._functions.synchronize()),
        )
        self._properties = functools.cache(functools.partial(figures.properties, self._calls))
        _live.add(self)

    # ---- devices ------------------------------------------------------------------------------

    @classmethod
    def probe(cls) -> Probe:
        """The runtime's library, its version and its devices, or what keeps it from having any."""
        return looking.probe()

    def count(self) -> int:
        """Those that the runtime shows: HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES hide some."""
        return self._calls.number("hipGetDeviceCount")

    def properties(self, device: int) -> Properties:
        """The runtime's attributes, and the architecture."""
        return self._properties(device)

    def activate(self, device: int) -> None:
        """Make the device current, if another is."""
        self._contexts.activate(device)

    def synchronize(self) -> None:
        """Wait for all work of the device."""
        status = self._functions.synchronize()
        if status:
            raise self._calls.failed("hipDeviceSynchronize", (), status)
        self._raise_failures(None)

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes, other processes counted."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._calls("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # ---- memory -------------------------------------------------------------------------------

    def alloc(self, nbytes: int, kind: str, flags: int = 0) -> tuple[int, int]:
        """Memory of the device, of the host, or managed; that of the host is for all devices."""
        self._give.catch_up()
        return self._memory.alloc(nbytes, kind, flags)

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Give memory back; the runtime first waits for all work of the device."""
        self._sharing.forget(device_ptr, device_ptr + 1)
        self._give(self._memory.free, device_ptr, host_ptr, kind)

    def register(self, host_ptr: int, nbytes: int, flags: int = 0) -> int:
        """Pin memory of the host, for all devices."""
        return self._memory.register(host_ptr, nbytes)

    def unregister(self, host_ptr: int) -> None:
        """Undo `register`."""
        self._give(self._memory.unregister, host_ptr)

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
        """Copy rows by the runtime, other regions by a kernel or by way of a pinned buffer."""
        self._copies.copy_nd(dst, dst_strides, src, src_strides, shape, itemsize, stream)

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Fill by the runtime, or by a kernel."""
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

    def idle_query(self, device: int) -> IdleQuery:
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
        """A linked code object."""
        return self._code.load(code, self._contexts.device())

    def unload(self, module: int) -> None:
        """Give a module back."""
        self._give(self._code.unload, module)

    def function(self, module: int, name: str) -> int:
        """A kernel, which can have as much dynamic shared memory as the device has."""
        return self._code.function(module, name)

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """hipModuleLaunchKernel, with the arguments as one buffer."""
        device = self._contexts.device()
        self._launches.start(device, function, grid, block, shared_bytes, stream, args)

    # ---- may ----------------------------------------------------------------------------------

    def prepare_launch(
        self,
        device: int,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
    ) -> tuple[bytes, Start]:
        """No header, and what calls hipModuleLaunchKernel."""
        return b"", self._launches.prepare(device, function, grid, block, shared_bytes)

    def stream_priorities(self) -> tuple[int, int]:
        """Those of the device, as (1, -1)."""
        return self._streams.priorities()

    def stream_callback(self, stream: int, callback: Callable[[], object]) -> None:
        """Call `callback()` on a thread of the runtime, which may not call the runtime."""
        self._streams.callback(stream, callback)

    def check_address(self, address: int, nbytes: int) -> None:
        """See that the runtime knows memory there, of this device or of one that it reaches."""
        self._memory.check(address, nbytes, self._contexts.device(), self._ranges.reaches)

    def symbol(self, module: int, name: str) -> tuple[int, int]:
        """(device pointer, bytes) of a module's variable."""
        return self._code.symbol(module, name)

    def function_info(self, function: int) -> dict[str, int]:
        """max_threads, registers, shared_bytes, const_bytes, local_bytes, binary_version."""
        return self._code.info(function)

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """Blocks of that size which fit one multiprocessor, as the runtime tells."""
        return self._code.occupancy(function, threads, shared_bytes)

    def launch_cooperative(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """hipModuleLaunchCooperativeKernel, since ROCm 5.5."""
        places = self._code.places(function)
        if places.counter is not None:
            counter = self._counters.of(self._contexts.device(), stream)
            args = args.ljust(places.counter, b"\0") + counter.to_bytes(8, "little")
        self._launches.start_cooperative(
            function, grid, block, shared_bytes, stream, args, places.arguments
        )

    def max_cooperative_blocks(
        self, function: int, threads: int, shared_bytes: int, block_bytes: int
    ) -> int:
        """What fits one multiprocessor, on all of them."""
        units = self.properties(self._contexts.device()).multiprocessors
        return units * self._code.occupancy(function, threads, shared_bytes)

    def ipc_export(self, device_ptr: int, nbytes: int, unit: int, unit_nbytes: int) -> bytes:
        """The runtime's own handle of a whole allocation; else one of 64 bytes (Linux)."""
        return self._sharing.export(device_ptr, nbytes, unit, unit_nbytes)

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
        """Whether the runtime can let one reach the other."""
        return bool(self._calls.number("hipDeviceCanAccessPeer", device, peer))

    def peer_enable(self, device: int, peer: int) -> None:
        """Let kernels of `device` use the memory of `peer`, also what is allocated later."""
        self.activate(device)
        status = self._calls.status("hipDeviceEnablePeerAccess", peer, 0)
        if status and status != _ALREADY_ENABLED:
            raise self._calls.failed("hipDeviceEnablePeerAccess", (peer,), status)
        self._ranges.allow(device, peer)

    def prefetch(self, device_ptr: int, nbytes: int, device: int, stream: int) -> None:
        """hipMemPrefetchAsync."""
        self._hints.prefetch(device_ptr, nbytes, device, stream)

    def advise(self, device_ptr: int, nbytes: int, advice: str, device: int) -> None:
        """hipMemAdvise."""
        self._hints.advise(device_ptr, nbytes, advice, device)

    def granularity(self) -> int:
        """2 MiB, or up to 16 MiB on devices with more memory; 0 where the runtime cannot."""
        return self._ranges.granularity()

    def reserve(self, nbytes: int) -> int:
        """hipMemAddressReserve."""
        self._check_ranges("reserve")
        return self._ranges.reserve(nbytes)

    def release(self, address: int, nbytes: int) -> None:
        """hipMemAddressFree."""
        self._check_ranges("release")
        self._give(self._ranges.release, address, nbytes)

    def map(self, address: int, nbytes: int) -> None:
        """hipMemCreate and hipMemMap, granule by granule."""
        self._check_ranges("map")
        self._ranges.map(address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        """hipMemUnmap, granule by granule."""
        self._check_ranges("unmap")
        self._sharing.forget(address, address + nbytes)
        self._give(self._ranges.unmap, address, nbytes)

    def _check_ranges(self, method: str) -> None:
        if not self.granularity():
            self._unsupported(method)

    def capture_begin(self, stream: int) -> None:
        """hipStreamBeginCapture, in its relaxed mode."""
        self._graphs.begin(stream)

    def capture_end(self, stream: int) -> tuple[int, int]:
        """hipStreamEndCapture, and make the graph ready."""
        return self._graphs.end(stream)

    def capture_cancel(self, stream: int) -> None:
        """hipStreamEndCapture."""
        self._graphs.cancel(stream)

    def capture_query(self, stream: int) -> bool:
        """hipStreamIsCapturing."""
        return self._graphs.is_recording(stream)

    def graph_launch(self, graph: int, stream: int) -> None:
        """hipGraphLaunch, behind the launch before."""
        self._graphs.launch(graph, stream)

    def graph_destroy(self, graph: int) -> None:
        """hipGraphExecDestroy."""
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
            self._ending.wait(self._streams.own)


_live: "weakref.WeakSet[AMDBackend]" = weakref.WeakSet()


@atexit.register
def _close() -> None:
    for backend in list(_live):
        backend._finish()
