"""The CPU as a device: host memory of its own, worker threads, stream queues."""

import atexit
import functools
import math
import struct
import time
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType

from haulage import config, forks
from haulage._core import pool
from haulage._core.cpu_streams import GridStart
from haulage.backends.base import Backend, Probe, Properties
from haulage.backends.cpu_driver import (
    addresses,
    cooperative,
    copies,
    costs,
    crashes,
    figures,
    messages,
    processor,
    ranges,
)
from haulage.backends.cpu_driver.adversary import Adversary, Garbage
from haulage.backends.cpu_driver.conflicts import Touched
from haulage.backends.cpu_driver.events import Events
from haulage.backends.cpu_driver.graphs import Graphs
from haulage.backends.cpu_driver.loader import Loader
from haulage.backends.cpu_driver.memory import Memory
from haulage.backends.cpu_driver.pool import POOL
from haulage.backends.cpu_driver.streams import Streams
from haulage.backends.cpu_driver.threads import Threads
from haulage.backends.cpu_driver.units import check_sharing
from haulage.backends.cpu_driver.waiting import WAITS
from haulage.errors import DeviceError

# What a kernel's code finds at its first argument: grid, block, dynamic shared bytes, nothing;
# then, aligned to 16 bytes, its packed arguments.
_LAUNCH_HEADER = struct.Struct("=8I")
_launch_header = _LAUNCH_HEADER.pack


class CPUBackend(Backend):
    """The driver of the CPU device. There is one device, number 0."""

    name = "cpu"
    uses_pool = True

    def __init__(self) -> None:
        self._memory = Memory()
        self._streams = self.queues = Streams(Threads)
        self._events = Events(self._streams)
        self._graphs = Graphs(self._streams, _run, POOL)
        self._streams.kernels = frozenset((_run, _run_cooperative, *self._graphs.performers))
        self._streams.stop_thread = POOL.stop
        self._loader = Loader()
        self._garbage: Garbage | None = None
        seed = config.adversary_seed()
        if seed is not None:
            self.adversary(seed)
        _look_after(self)

    # ---- devices ------------------------------------------------------------------------------

    @classmethod
    def probe(cls) -> Probe:
        """The CPU is always there."""
        return Probe(True, ("the processor",), processor.name())

    def count(self) -> int:
        """One."""
        return 1

    def properties(self, device: int) -> Properties:
        """What the processor is, with the limits of an ordinary GPU."""
        self.activate(device)
        return figures.properties()

    def activate(self, device: int) -> None:
        """There is nothing to switch."""
        if device != 0:
            raise DeviceError(f"cpu:{device}: there is one cpu device, cpu:0")

    def synchronize(self) -> None:
        """Wait for all streams; Ctrl-C stops the kernels."""
        self._streams.synchronize()

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of the host's memory."""
        return processor.memory()

    # ---- memory -------------------------------------------------------------------------------

    def alloc(self, nbytes: int, kind: str, flags: int = 0) -> tuple[int, int]:
        """Host memory whatever the kind; both pointers are the same."""
        address = self._memory.alloc(nbytes, kind)
        if self._garbage is not None:
            self._garbage.into_new(address, nbytes)
        return address, address

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Give memory back."""
        if self._garbage is not None:
            self._garbage.into_freed(device_ptr, self._memory.size(device_ptr))
        self._memory.free(device_ptr, kind)

    def register(self, host_ptr: int, nbytes: int, flags: int = 0) -> int:
        """Host memory is device memory already; only noted."""
        self._memory.register(host_ptr, nbytes)
        return host_ptr

    def unregister(self, host_ptr: int) -> None:
        """Undo `register`."""
        self._memory.unregister(host_ptr)

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy host memory."""
        short = nbytes <= costs.SMALL
        self._streams.submit(stream, copies.copy, dst, src, nbytes, short=short)

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
        """Copy an n-d region of host memory."""
        self._streams.submit(
            stream, copies.copy_nd, dst, dst_strides, src, src_strides, shape, itemsize
        )

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Fill host memory."""
        short = count * len(value) <= costs.SMALL
        self._streams.submit(stream, copies.fill, dst, value, count, short=short)

    # ---- streams and events -------------------------------------------------------------------

    def stream_create(self, flags: int = 0, priority: int = 0) -> int:
        """A new stream; it takes a thread only while it has work. None goes before another."""
        return self._streams.stream_create(flags)

    def stream_destroy(self, stream: int) -> None:
        """Forget a stream; its work goes on."""
        self._streams.stream_destroy(stream)

    def stream_synchronize(self, stream: int) -> None:
        """Wait for a stream; Ctrl-C stops the kernels that it needs."""
        self._streams.stream_synchronize(stream)

    def _wait_for_turn(self, stream: int) -> None:
        """Wait for all that new work of a stream comes after, whether it failed or not.

        Raises:
            DeviceError: a callback of the stream waits.
        """
        self._streams.wait((self._streams.submit(stream, None),))

    def _keep_failure(self, stream: int, error: BaseException) -> None:
        """Let the next wait for a stream raise what a wait for it has raised."""
        self._streams.keep(self._streams.find(stream), error)

    def stream_query(self, stream: int) -> bool:
        """Whether a stream's work is done."""
        return self._streams.stream_query(stream)

    def stream_wait_event(self, stream: int, event: int) -> None:
        """Order a stream after an event; after a recorded one, record it too."""
        self._graphs.join(stream, self._events.find(event).record)
        self._events.wait_in(event, stream)

    def event_create(self, timing: bool = True) -> int:
        """A new event."""
        return self._events.create(timing)

    def event_destroy(self, event: int) -> None:
        """Forget an event."""
        self._events.destroy(event)

    def event_record(self, event: int, stream: int) -> None:
        """Mark a stream's present end."""
        self._events.record(event, stream)

    def event_synchronize(self, event: int) -> None:
        """Wait for a record; raises what failed in its stream."""
        self._events.synchronize(event)

    def event_query(self, event: int) -> bool:
        """Whether a record is reached."""
        return self._events.query(event)

    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two records, by the monotonic clock."""
        return self._events.elapsed(start, end)

    # ---- code ---------------------------------------------------------------------------------

    def load(self, code: bytes) -> int:
        """Link a host object file into the process."""
        return self._loader.load(code)

    def unload(self, module: int) -> None:
        """Take it out again."""
        self._loader.unload(module)

    def function(self, module: int, name: str) -> int:
        """The address of `i64 name(ptr launch, i64 first_block, i64 last_block)`."""
        address = self._loader.function(module, name)
        if self._loader.exports(module, WAITS):
            POOL.waiting.add(address)
        crashes.look_out()
        return address

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """Share a grid's blocks out over the worker threads."""
        header, start = self.prepare_launch(0, function, grid, block, shared_bytes)
        start(stream, header + args)

    def _run_blocks(self, function: int, launch: bytes, first: int, end: int) -> None:
        """Run some of a grid's blocks, of which there is one at least, and wait for them.

        Args:
            function: as for `launch`.
            launch: the header of `prepare_launch` and the arguments.
            first, end: numbers of blocks, in the order of the code; `end` is behind the last one.

        Raises:
            KernelStopped: a thread failed.
        """
        fault = POOL.run_blocks(function, launch, first, end)
        if fault:
            raise crashes.stopped(function, fault)

    # ---- may ----------------------------------------------------------------------------------

    def prepare_launch(
        self,
        device: int,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
    ) -> tuple[bytes, Callable[[int, bytes], None]]:
        """The header is what `launch` puts before the arguments."""
        blocks = math.prod(grid)
        start = GridStart(self._streams, POOL, function, blocks, _run, crashes.stopped)
        return _launch_header(*grid, *block, shared_bytes, 0), start

    def stream_callback(self, stream: int, callback: Callable[[], object]) -> None:
        """Call `callback()` on a thread of the stream."""
        self._streams.submit(stream, _call, callback, callback=True)

    def stream_poll(self, stream: int) -> bool:
        """Whether a stream's work is done; an adversary lets some of it go."""
        return self._streams.stream_poll(stream)

    def event_poll(self, event: int) -> bool:
        """Whether a record is reached; an adversary lets some work before it go."""
        return self._events.poll(event)

    def adversary(self, seed: int | None) -> None:
        """Hold work back until somebody waits; fill memory with garbage."""
        if seed is None:
            self._garbage = None
            self._streams.oppose(None)
        else:
            self._garbage = Garbage(seed)
            kernels = (_run, _run_cooperative)
            touched = functools.partial(Touched, self._memory, kernels, _LAUNCH_HEADER.size)
            self._streams.oppose(Adversary(self._streams, seed, touched))

    def check_address(self, address: int, nbytes: int) -> None:
        """See that this process has memory there."""
        addresses.check(address, nbytes)

    def note_name(self, function: int, name: str) -> None:
        """For a kernel that ends the process."""
        pool.note_name(function, name.encode())

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """A worker runs one block at a time, of any size that can be launched."""
        return int(threads <= figures.MAX_THREADS and shared_bytes <= figures.MAX_SHARED)

    def launch_cooperative(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        args: bytes,
    ) -> None:
        """Run a grid from barrier to barrier."""
        launch = _launch_header(*grid, *block, shared_bytes, 0) + args
        self._streams.submit(stream, _run_cooperative, function, launch)

    def max_cooperative_blocks(
        self, function: int, threads: int, shared_bytes: int, block_bytes: int
    ) -> int:
        """A million threads, on a quarter of the host's memory."""
        each = max(1, block_bytes + cooperative.stride(shared_bytes))
        memory = figures.properties().total_memory // cooperative.MEMORY_PART
        return min(cooperative.MOST_THREADS // threads, memory // each)

    def ipc_export(self, device_ptr: int, nbytes: int, unit: int, unit_nbytes: int) -> bytes:
        """A handle of 64 bytes (Linux); waits for all work if the unit is private until now."""
        units = self._memory.units
        handle = units.handle(device_ptr, nbytes, unit)
        if handle is None:
            with self._streams.hold_idle():
                handle = units.share(device_ptr, nbytes, unit, unit_nbytes)
        return handle

    def ipc_withdraw(self, device_ptr: int) -> tuple[int, ...]:
        """Take the handle back; the last one of a unit lets it be private again."""
        return self._memory.units.withdraw(device_ptr)

    def ipc_import(self, handle: bytes) -> tuple[int, int]:
        """Map the memory of another process of this user, or of this one once more."""
        return _ipc().open_handle(handle)

    def ipc_close(self, device_ptr: int) -> None:
        """Take the mapping away."""
        _ipc().close(device_ptr)

    def prefetch(self, device_ptr: int, nbytes: int, device: int, stream: int) -> None:
        """Nothing to do: all memory is in one place."""

    def advise(self, device_ptr: int, nbytes: int, advice: str, device: int) -> None:
        """Nothing to do: all memory is in one place."""

    def granularity(self) -> int:
        """64 KiB, or a page if that is larger; 0 elsewhere than on Linux."""
        return ranges.granularity()

    def reserve(self, nbytes: int) -> int:
        """Addresses of the process that cannot be read or written."""
        self._check_ranges("reserve")
        return ranges.reserve(nbytes)

    def release(self, address: int, nbytes: int) -> None:
        """Give the addresses back."""
        self._check_ranges("release")
        self._memory.units.vacate(address, nbytes)
        ranges.release(address, nbytes)

    def map(self, address: int, nbytes: int) -> None:
        """Let addresses be read and written; the memory comes page by page as it is used."""
        self._check_ranges("map")
        ranges.put(address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        """Give the pages to the system."""
        self._check_ranges("unmap")
        self._memory.units.vacate(address, nbytes)
        ranges.take(address, nbytes)

    def _check_ranges(self, method: str) -> None:
        if not self.granularity():
            self._unsupported(method)

    def capture_begin(self, stream: int) -> None:
        """Record a stream."""
        self._graphs.begin(stream)

    def capture_end(self, stream: int) -> tuple[int, int]:
        """A graph of what was recorded."""
        return self._graphs.end(stream)

    def capture_cancel(self, stream: int) -> None:
        """Forget what was recorded."""
        self._graphs.cancel(stream)

    def capture_query(self, stream: int) -> bool:
        """Whether a stream is recorded."""
        return self._graphs.query(stream)

    def graph_launch(self, graph: int, stream: int) -> None:
        """Run a graph: what had one order, as one task."""
        self._graphs.launch(graph, stream)

    def graph_destroy(self, graph: int) -> None:
        """Forget a graph; its launches go on."""
        self._graphs.destroy(graph)

    def messages(self, sign: int) -> tuple[list[tuple[int, bytes]], int]:
        """What kernels have told."""
        return messages.take(sign)

    def unraised(self) -> list[BaseException]:
        """What failed and nobody has synchronised for."""
        return self._streams.take_failures()


def _ipc() -> ModuleType:
    check_sharing()
    from haulage.backends.cpu_driver import ipc  # it imports what Linux alone has

    return ipc


def _call(callback: Callable[[], object]) -> None:
    callback()


def _run(function: int, launch: bytes) -> None:
    # Not by the clock: until it has the interpreter again, the thread may wait long.
    begun = time.thread_time_ns()
    fault = POOL.run(function, launch)
    if function not in POOL.waiting:
        # What may wait, for the host too, is never the caller's: short once says nothing of it.
        costs.note(function, launch, time.thread_time_ns() - begun)
    if fault:
        raise crashes.stopped(function, fault)


def _run_cooperative(function: int, launch: bytes) -> None:
    cooperative.run(POOL, function, launch)


# ---- the process: its fork and its end --------------------------------------------------------

_backends: "weakref.WeakSet[CPUBackend]" = weakref.WeakSet()


def _look_after(backend: CPUBackend) -> None:
    _watch_process()
    _backends.add(backend)


@functools.cache
def _watch_process() -> None:
    atexit.register(_close)
    forks.in_child(_renew)


def _close() -> None:
    POOL.close()
    for backend in list(_backends):
        backend._streams.close()


def _renew() -> None:
    POOL.renew()
    messages.renew()
    for backend in list(_backends):
        backend._memory.renew()
        backend._streams.renew()
        backend._events.renew()
        backend._graphs.renew()
        backend._loader.renew_lock()
