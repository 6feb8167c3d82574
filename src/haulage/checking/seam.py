"""A driver that is watched: it tells the stream check what is handed over, ordered and waited for.

Everything that Haulage asks of a driver crosses one seam (`haulage.backends.base`), that of its own
library and of its SmartArrays too; so the order of work is known there as the driver knows it, and
no path of a program can go by.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from haulage.backends.base import NON_BLOCKING, Backend
from haulage.checking.memory_map import Region

if TYPE_CHECKING:
    from haulage.checking.host_memory import MemoryCheck
    from haulage.checking.streams import StreamCheck
    from haulage.checking.written import WrittenMemory


class _Active(threading.local):
    device = 0
    is_unseen = False


# What this thread's calls act on, by the number within the driver; and whether it is in `unseen`.
active = _Active()


@contextmanager
def unseen(is_so: bool = True) -> Iterator[None]:
    """Inside, nobody is told how this thread orders streams, and what it waits for; or is again."""
    before, active.is_unseen = active.is_unseen, is_so
    try:
        yield
    finally:
        active.is_unseen = before


class Watched:
    """Stands in the place of `backend` while checks are made; all that it has not is that's."""

    def __init__(
        self,
        backend: Backend,
        numbers: dict[tuple[int, int], int],
        streams: "StreamCheck",
        memory: "MemoryCheck",
        written: "WrittenMemory",
    ) -> None:
        self.backend = backend
        self._numbers = numbers
        self._check = streams
        self._memory = memory
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def activate(self, device: int) -> None:
        """See `Backend`, as of all methods here."""
        active.device = device
        self.backend.activate(device)

    def key(self, handle: int, device: int | None = None) -> tuple[int, int]:
        """What a stream, an event or a graph of a device, or of the active one, is known by."""
        number = active.device if device is None else device
        return self.number_of(number), int(handle)

    def number_of(self, device: int) -> int:
        """The number that a device is known by, among those of all drivers."""
        return self._numbers.setdefault((id(self.backend), device), len(self._numbers))

    # ---- memory -------------------------------------------------------------------------------

    def alloc(self, nbytes: int, kind: str, flags: int = 0) -> tuple[int, int]:
        made = self.backend.alloc(nbytes, kind, flags)
        self._memory.driver_gave(made[0] or made[1], nbytes)
        return made

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        self._memory.driver_takes(device_ptr or host_ptr)
        self.backend.free(device_ptr, host_ptr, kind)

    def map(self, address: int, nbytes: int) -> None:
        self.backend.map(address, nbytes)
        self._memory.driver_gave(address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        self._memory.driver_takes(address, nbytes)
        self.backend.unmap(address, nbytes)

    def register(self, host_ptr: int, nbytes: int, flags: int = 0) -> int:
        address = self.backend.register(host_ptr, nbytes, flags)
        self._memory.registered(host_ptr)
        return address

    def _copied(self, stream: int, target: Region, source: Region | None) -> None:
        key = self.key(stream)
        self._check.copied(key, target, source)
        with self._check.ordering as order:
            is_recorded = order.capture_of(key) is not None
        self._written.copied(target, source, is_recorded=is_recorded)

    # ---- work ---------------------------------------------------------------------------------

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        self._copied(stream, Region.of_bytes(dst, nbytes), Region.of_bytes(src, nbytes))
        self.backend.copy(dst, src, nbytes, stream)

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
        target = Region(dst, tuple(shape), tuple(dst_strides), itemsize)
        source = Region(src, tuple(shape), tuple(src_strides), itemsize)
        self._copied(stream, target, source)
        self.backend.copy_nd(dst, dst_strides, src, src_strides, shape, itemsize, stream)

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        self._copied(stream, Region.of_bytes(dst, len(value) * count), None)
        self.backend.fill(dst, value, count, stream)

    def graph_launch(self, graph: int, stream: int) -> None:
        self._check.graph_runs(self.key(graph, 0), self.key(stream))
        self.backend.graph_launch(graph, stream)

    def stream_callback(self, stream: int, callback: Callable[[], object]) -> None:
        self.backend.stream_callback(stream, self._check.callback(self.key(stream), callback))

    # ---- streams, events and graphs -------------------------------------------------------------

    def stream_create(self, flags: int = 0, priority: int = 0) -> int:
        made = self.backend.stream_create(flags, priority)
        with self._check.ordering as order:
            order.stream_made(self.key(made), not flags & NON_BLOCKING)
        return made

    def stream_destroy(self, stream: int) -> None:
        with self._check.ordering as order:
            order.stream_ended(self.key(stream))
        self.backend.stream_destroy(stream)

    def stream_wait_event(self, stream: int, event: int) -> None:
        self.backend.stream_wait_event(stream, event)
        if active.is_unseen:
            return
        with self._check.ordering as order:
            # Events of all devices of a driver are told apart by their handles alone.
            order.stream_waits(self.key(stream), self.key(event, 0))

    def event_record(self, event: int, stream: int) -> None:
        self.backend.event_record(event, stream)
        if active.is_unseen:
            return
        with self._check.ordering as order:
            order.recorded(self.key(event, 0), self.key(stream))

    def event_destroy(self, event: int) -> None:
        with self._check.ordering as order:
            order.event_ended(self.key(event, 0))
        self.backend.event_destroy(event)

    def capture_begin(self, stream: int) -> None:
        self.backend.capture_begin(stream)
        with self._check.ordering as order:
            order.capture_began(self.key(stream))

    def capture_end(self, stream: int) -> tuple[int, int]:
        graph = None
        try:
            made = self.backend.capture_end(stream)
            graph = made[0]
            return made
        finally:
            self._check.captured(self.key(stream), None if graph is None else self.key(graph, 0))

    def capture_cancel(self, stream: int) -> None:
        self._check.captured(self.key(stream), None)
        self.backend.capture_cancel(stream)

    def graph_destroy(self, graph: int) -> None:
        self._check.graph_ended(self.key(graph, 0))
        self.backend.graph_destroy(graph)

    # ---- waits of the host ----------------------------------------------------------------------

    def synchronize(self) -> None:
        try:
            self.backend.synchronize()
        finally:
            if not active.is_unseen:
                with self._check.ordering as order:
                    order.waited_for_device(self.key(0)[0])

    def stream_synchronize(self, stream: int) -> None:
        try:
            self.backend.stream_synchronize(stream)
        finally:
            if not active.is_unseen:
                with self._check.ordering as order:
                    order.waited_for_stream(self.key(stream))

    def event_synchronize(self, event: int) -> None:
        try:
            self.backend.event_synchronize(event)
        finally:
            if not active.is_unseen:
                with self._check.ordering as order:
                    order.waited_for_event(self.key(event, 0))

    def event_elapsed(self, start: int, end: int) -> float:
        took = self.backend.event_elapsed(start, end)
        with self._check.ordering as order:
            order.waited_for_event(self.key(start, 0))
            order.waited_for_event(self.key(end, 0))
        return took

    def stream_poll(self, stream: int) -> bool:
        done = self.backend.stream_poll(stream)
        if done:
            with self._check.ordering as order:
                order.waited_for_stream(self.key(stream))
        return done

    def event_poll(self, event: int) -> bool:
        done = self.backend.event_poll(event)
        if done:
            with self._check.ordering as order:
                order.waited_for_event(self.key(event, 0))
        return done

    def stream_query(self, stream: int) -> bool:
        """Haulage's own look at a stream, after which it may do without an event: it is to see
        what the program has waited for, not what happens to be done in this run."""
        done = self.backend.stream_query(stream)
        if active.is_unseen or not done:
            return done
        with self._check.ordering as order:
            return order.is_done(self.key(stream))
