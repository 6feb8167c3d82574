"""Streams and events of a driver, and functions of the host that streams call."""

import ctypes
import threading
from collections.abc import Callable

from haulage._core.driver import RECORDED, WAITS_FOR_RECORDED, Functions
from haulage.backends.base import NON_BLOCKING
from haulage.backends.gpu_driver.calls import NOT_READY, Calls
from haulage.backends.gpu_driver.host_functions import HostFunctions
from haulage.errors import DeviceError

# Of events.
DISABLE_TIMING = 2
_INVALID_HANDLE = 400


class Streams:
    """The driver's streams and events. Safe to use from any thread."""

    def __init__(self, calls: Calls, functions: Functions) -> None:
        self._calls = calls
        self.driver = self._functions = functions
        self.own: set[int] = set()
        self.functions = HostFunctions(calls)
        self._recorded: dict[int, int] = {}
        # Those for `write`, by device.
        self._writing: dict[int, int] = {}
        self._lock = threading.Lock()
        self._trampoline = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.functions.called)
        self._address = ctypes.cast(self._trampoline, ctypes.c_void_p).value

    def create(self, flags: int, priority: int) -> int:
        """A new stream."""
        made: int = self._calls("StreamCreateWithPriority", flags, priority)
        self.own.add(made)
        return made

    def destroy(self, stream: int) -> None:
        """Give it back."""
        self.own.discard(stream)
        self._calls.end_of(stream)
        self._calls("StreamDestroy", stream)

    def synchronize(self, stream: int) -> None:
        """Wait for a stream."""
        status = self._functions.stream_synchronize(stream)
        self._calls.check(status, "StreamSynchronize", stream)

    def status(self, stream: int) -> int:
        """The driver's status for a stream, whatever it is."""
        return self._calls.passed(self._functions.stream_query(stream))

    def query(self, stream: int) -> bool:
        """Whether a stream's work is done; no of one that is recorded, as it cannot be asked."""
        status = self._functions.stream_query(stream)
        if status in (RECORDED, WAITS_FOR_RECORDED):
            self._calls.passed(status)
            return False
        return self._is_done(status, "StreamQuery", stream)

    def poll(self, stream: int) -> bool:
        """`query` for a program, which is told where that cannot be."""
        return self._is_done(self._functions.stream_query(stream), "StreamQuery", stream)

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy bytes in the order of a stream."""
        status = self._functions.copy(dst, src, nbytes, stream)
        if status:
            raise self._calls.failed("MemcpyAsync", (dst, src, nbytes, stream), status)

    def write(self, device: int, address: int, value: bytes) -> None:
        """Write to memory of `device`, which is current, waiting for no other work."""
        with self._lock:
            stream = self._writing.get(device)
            if stream is None:
                stream = self._calls("StreamCreateWithPriority", NON_BLOCKING, 0)
                self._writing[device] = stream
        source = ctypes.create_string_buffer(value, len(value))
        self.copy(address, ctypes.addressof(source), len(value), stream)
        self.synchronize(stream)

    def wait_event(self, stream: int, event: int) -> None:
        """Order a stream after an event."""
        status = self._functions.stream_wait_event(stream, event)
        self._calls.check(status, "StreamWaitEvent", stream, event, 0)

    def event_create(self, timing: bool) -> int:
        """A new event."""
        return int(self._calls("EventCreate", 0 if timing else DISABLE_TIMING))

    def event_destroy(self, event: int) -> None:
        """Give it back."""
        self._recorded.pop(event, None)
        self._calls("EventDestroy", event)

    def event_record(self, event: int, stream: int) -> None:
        """Mark the end of a stream."""
        self._calls.check(self._functions.event_record(event, stream), "EventRecord", event, stream)
        self._recorded[event] = stream

    def event_synchronize(self, event: int) -> int | None:
        """Wait for a record; the stream that it was made in, None if there is none."""
        stream = self._recorded.get(event)
        if stream is not None or self._calls.knows_unrecorded:
            self._calls.check(self._functions.event_synchronize(event), "EventSynchronize", event)
        return stream

    def event_query(self, event: int) -> bool:
        """Whether a record is reached."""
        if event not in self._recorded and not self._calls.knows_unrecorded:
            return True
        return self._is_done(self._functions.event_query(event), "EventQuery", event)

    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two records."""
        status, milliseconds = self._calls.ask("EventElapsedTime", start, end)
        if status == NOT_READY:
            raise DeviceError(status, "event_elapsed: an event is not reached yet; wait for it")
        if status:
            failed = self._calls.failed("EventElapsedTime", (start, end), status)
            if status != _INVALID_HANDLE:
                raise failed
            raise DeviceError(
                status,
                "event_elapsed: both events must have been made with timing, and recorded",
            ) from failed
        return float(milliseconds)

    def _is_done(self, status: int, query: str, handle: int) -> bool:
        if status == NOT_READY or self._calls.inside.callback:
            self._calls.passed(status)
            return False  # there it cannot be asked
        self._calls.check(status, query, handle)
        return True

    # ---- functions of the host ------------------------------------------------------------------

    def callback(self, stream: int, function: Callable[[], object]) -> None:
        """Let a stream call a function."""
        self.functions.hand_over(
            stream,
            function,
            lambda number: self._calls("LaunchHostFunc", stream, self._address, number),
        )
