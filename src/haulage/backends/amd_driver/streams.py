"""Streams and events of the HIP runtime, and functions of the host that streams call."""

import ctypes
from collections.abc import Callable

from haulage._core.driver import Functions
from haulage.backends.amd_driver.calls import Calls
from haulage.backends.gpu_driver.calls import NOT_READY
from haulage.backends.gpu_driver.host_functions import HostFunctions
from haulage.errors import DeviceError

_DISABLE_TIMING = 2
_INVALID_HANDLE = 400


class Streams:
    """The runtime's streams and events. Safe to use from any thread."""

    def __init__(self, calls: Calls, functions: Functions) -> None:
        self._calls = calls
        self._functions = functions
        self.functions = HostFunctions(calls)
        self.own: set[int] = set()
        self._recorded: dict[int, int] = {}
        called = self.functions.called
        # hipLaunchHostFunc came with ROCm 5.3; before there was hipStreamAddCallback only, whose
        # functions get the stream and its status as well.
        self._by_host_function = calls.has("hipLaunchHostFunc")
        self._trampoline = (
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(called)
            if self._by_host_function
            else ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
                lambda stream, status, number: called(number)
            )
        )

    def create(self, flags: int, priority: int) -> int:
        """A new stream."""
        made = self._calls.handle("hipStreamCreateWithPriority", flags, priority)
        self.own.add(made)
        return made

    def priorities(self) -> tuple[int, int]:
        """(least, greatest) priority."""
        least, greatest = ctypes.c_int(), ctypes.c_int()
        both = ctypes.byref(least), ctypes.byref(greatest)
        self._calls("hipDeviceGetStreamPriorityRange", *both)
        return least.value, greatest.value

    def destroy(self, stream: int) -> None:
        """Give it back."""
        self.own.discard(stream)
        self._calls.end_of(stream)
        self._calls("hipStreamDestroy", stream)

    def synchronize(self, stream: int) -> None:
        """Wait for a stream."""
        self._check(self._functions.stream_synchronize(stream), "hipStreamSynchronize", stream)

    def query(self, stream: int) -> bool:
        """Whether a stream's work is done."""
        return self._is_done(self._functions.stream_query(stream), "hipStreamQuery", stream)

    def status(self, stream: int) -> int:
        """The runtime's status for a stream, whatever it is."""
        return self._calls.passed(self._functions.stream_query(stream))

    def wait_event(self, stream: int, event: int) -> None:
        """Order a stream after an event."""
        self._check(
            self._functions.stream_wait_event(stream, event),
            *("hipStreamWaitEvent", stream, event, 0),
        )

    def event_create(self, timing: bool) -> int:
        """A new event."""
        flags = 0 if timing else _DISABLE_TIMING
        return self._calls.handle("hipEventCreateWithFlags", flags)

    def event_destroy(self, event: int) -> None:
        """Give it back."""
        self._recorded.pop(event, None)
        self._calls("hipEventDestroy", event)

    def event_record(self, event: int, stream: int) -> None:
        """Mark the end of a stream."""
        self._check(self._functions.event_record(event, stream), "hipEventRecord", event, stream)
        self._recorded[event] = stream

    def event_synchronize(self, event: int) -> int | None:
        """Wait for a record; the stream that it was made in, None if there is none."""
        stream = self._recorded.get(event)
        if stream is not None:
            self._check(self._functions.event_synchronize(event), "hipEventSynchronize", event)
        return stream

    def event_query(self, event: int) -> bool:
        """Whether a record is reached."""
        if event not in self._recorded:
            return True
        return self._is_done(self._functions.event_query(event), "hipEventQuery", event)

    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two records."""
        milliseconds = ctypes.c_float()
        status = self._calls.status("hipEventElapsedTime", ctypes.byref(milliseconds), start, end)
        if status == NOT_READY:
            raise DeviceError(status, "event_elapsed: an event is not reached yet; wait for it")
        if status:
            failed = self._calls.failed("hipEventElapsedTime", (start, end), status)
            if status != _INVALID_HANDLE:
                raise failed
            raise DeviceError(
                status,
                "event_elapsed: both events must have been made with timing, and recorded",
            ) from failed
        return milliseconds.value

    def _is_done(self, status: int, query: str, handle: int) -> bool:
        if self._calls.inside.callback:
            return False  # it cannot be asked there
        if status == NOT_READY:
            self._calls.passed(status)
            return False
        self._check(status, query, handle)
        return True

    def _check(self, status: int, name: str, *args: int) -> None:
        if status:
            raise self._calls.failed(name, args, status)

    # ---- functions of the host ------------------------------------------------------------------

    def callback(self, stream: int, function: Callable[[], object]) -> None:
        """Let a stream call a function."""
        trampoline = ctypes.cast(self._trampoline, ctypes.c_void_p)

        def give(number: int) -> None:
            if self._by_host_function:
                self._calls("hipLaunchHostFunc", stream, trampoline, number)
            else:
                self._calls("hipStreamAddCallback", stream, trampoline, number, 0)

        self.functions.hand_over(stream, function, give)
