"""Streams and events of the driver, and functions of the host that streams call."""

import ctypes
from collections.abc import Callable

from haulage._core.driver import RECORDED, WAITS_FOR_RECORDED, Functions
from haulage.backends.gpu_driver.calls import NOT_READY
from haulage.backends.gpu_driver.host_functions import HostFunctions
from haulage.backends.nvidia_driver.calls import Calls, bindings, entry
from haulage.errors import DeviceError

_DISABLE_TIMING = 2
_INVALID_HANDLE = 400


class Streams:
    """The driver's streams and events. Safe to use from any thread."""

    def __init__(self, calls: Calls, functions: Functions) -> None:
        self._calls = calls
        self._functions = functions
        self._driver = bindings()
        self.own: set[int] = set()
        self.functions = HostFunctions(calls)
        self._recorded: dict[int, int] = {}
        self._trampoline = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.functions.called)
        address = ctypes.cast(self._trampoline, ctypes.c_void_p).value
        self._host_function = self._driver.CUhostFn(address)
        # In the form that all drivers have; that of cuda-bindings 13 came with CUDA 12.8.
        self._elapsed = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p
        )(entry("cuEventElapsedTime", 2000))

    def create(self, flags: int, priority: int) -> int:
        """A new stream."""
        made = int(self._calls(self._driver.cuStreamCreateWithPriority, flags, priority))
        self.own.add(made)
        return made

    def destroy(self, stream: int) -> None:
        """Give it back."""
        self.own.discard(stream)
        self._calls.end_of(stream)
        self._calls(self._driver.cuStreamDestroy, stream)

    def synchronize(self, stream: int) -> None:
        """Wait for a stream."""
        self._check(self._functions.stream_synchronize(stream), "cuStreamSynchronize", stream)

    def status(self, stream: int) -> int:
        """The driver's status for a stream, whatever it is."""
        return self._functions.stream_query(stream)

    def query(self, stream: int) -> bool:
        """Whether a stream's work is done; no of one that is recorded, as it cannot be asked."""
        status = self._functions.stream_query(stream)
        if status in (RECORDED, WAITS_FOR_RECORDED):
            return False
        return self._is_done(status, "cuStreamQuery", stream)

    def poll(self, stream: int) -> bool:
        """`query` for a program, which is told where that cannot be."""
        return self._is_done(self._functions.stream_query(stream), "cuStreamQuery", stream)

    def wait_event(self, stream: int, event: int) -> None:
        """Order a stream after an event."""
        self._check(
            self._functions.stream_wait_event(stream, event),
            *("cuStreamWaitEvent", stream, event, 0),
        )

    def event_create(self, timing: bool) -> int:
        """A new event."""
        return int(self._calls(self._driver.cuEventCreate, 0 if timing else _DISABLE_TIMING))

    def event_destroy(self, event: int) -> None:
        """Give it back."""
        self._recorded.pop(event, None)
        self._calls(self._driver.cuEventDestroy, event)

    def event_record(self, event: int, stream: int) -> None:
        """Mark the end of a stream."""
        self._check(self._functions.event_record(event, stream), "cuEventRecord", event, stream)
        self._recorded[event] = stream

    def event_synchronize(self, event: int) -> int | None:
        """Wait for a record; the stream that it was made in, None if there is none."""
        self._check(self._functions.event_synchronize(event), "cuEventSynchronize", event)
        return self._recorded.get(event)

    def event_query(self, event: int) -> bool:
        """Whether a record is reached."""
        return self._is_done(self._functions.event_query(event), "cuEventQuery", event)

    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two records."""
        milliseconds = ctypes.c_float()
        status = self._elapsed(ctypes.byref(milliseconds), start, end)
        if status == NOT_READY:
            raise DeviceError(status, "event_elapsed: an event is not reached yet; wait for it")
        if status:
            failed = self._calls.failed("cuEventElapsedTime", (start, end), status)
            if status != _INVALID_HANDLE:
                raise failed
            raise DeviceError(
                status,
                "event_elapsed: both events must have been made with timing, and recorded",
            ) from failed
        return milliseconds.value

    def _is_done(self, status: int, query: str, handle: int) -> bool:
        if status == NOT_READY or self._calls.inside.callback:
            return False  # there it cannot be asked
        self._check(status, query, handle)
        return True

    def _check(self, status: int, name: str, *args: int) -> None:
        if status:
            raise self._calls.failed(name, args, status)

    # ---- functions of the host ------------------------------------------------------------------

    def callback(self, stream: int, function: Callable[[], object]) -> None:
        """Let a stream call a function."""

        def give(number: int) -> None:
            self._calls(self._driver.cuLaunchHostFunc, stream, self._host_function, number)

        self.functions.hand_over(stream, function, give)
