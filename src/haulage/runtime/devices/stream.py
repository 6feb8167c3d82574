"""Streams: queues of work of one device that run in order."""

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from haulage._core.memory import conditions
from haulage._core.waits import stream_done
from haulage.backends.base import NON_BLOCKING
from haulage.checks import flag, whole_number
from haulage.errors import CaptureError, DeviceError
from haulage.runtime.devices import capture, faults
from haulage.runtime.devices.device import Device, Handle, check_device
from haulage.runtime.process import finalize, runtime

if TYPE_CHECKING:
    import asyncio

    from haulage.runtime.context import Context
    from haulage.runtime.devices.event import Event
    from haulage.runtime.devices.graph import Graph


# Seconds between two looks at a stream that a coroutine waits for.
_BETWEEN_LOOKS = 0.5


class Stream:
    """A queue of work of one device.

    `handle` is the driver's; 0 is the default stream, which equals 0, so that it can stand wherever
    `stream=0` can. One that is `owned` is given back to the driver when the last reference to it
    goes; the work that it still holds is done all the same. `role` names the streams that are not
    made by `stream()`: 'default', 'legacy', 'per-thread' or 'external'. `keeps` is an object of
    another package that has to live as long. `_is_blocking` says whether it is known that the
    default stream waits for it, and it for that. `_serial` is a number that no other stream of the
    process ever has, as handles may.

    `int(stream)` is the handle, or the number by which CUDA's programs name such a stream: 1 for
    the legacy default stream, and on the CPU 2 for that of a thread. As in numba every stream is
    true.
    """

    __slots__ = (
        "__weakref__",
        "_is_blocking",
        "_keeps",
        "_serial",
        "device",
        "handle",
        "owned",
        "role",
    )

    def __init__(
        self,
        device: Device,
        handle: int,
        owned: bool = False,
        role: str = "",
        blocking: bool = False,
        keeps: Any = None,
    ) -> None:
        self.owned = False  # until there is a device to give it back to
        check_device(device, "Stream")
        self.handle = Handle(whole_number(handle, "Stream: handle", 0))
        self.device = device
        self._keeps = keeps
        self.role = role
        self._is_blocking = flag(blocking, "Stream: blocking") or not handle
        self.owned = flag(owned, "Stream: owned")
        if self.owned and not handle:
            self.owned = False
            raise ValueError("Stream: owned with handle 0, the default stream, which nobody owns")
        self._serial = next(_serials)

    @property
    def context(self) -> "Context":
        """The context of its device."""
        return self.device.get_primary_context()

    @classmethod
    def create(cls, device: Device, flags: int = 0, role: str = "", priority: int = 0) -> "Stream":
        """A new stream of `device`, with flags and priority as in `haulage.backends.base`."""
        check_device(device, "Stream.create")
        flags = whole_number(flags, "Stream.create: flags", 0)
        priority = whole_number(priority, "Stream.create: priority")
        device.activate()
        handle = device.backend.stream_create(flags, priority)
        made = cls(device, handle, True, role, blocking=not flags & NON_BLOCKING)
        device.streams[handle] = made
        return made

    @property
    def external(self) -> bool:
        """Whether someone else made it, see `external_stream`."""
        return self.role == "external"

    def synchronize(self) -> None:
        """Wait for all work handed to it so far.

        Raises:
            KernelError: threads of a kernel in it had failed.
            CaptureError: it is being captured.
        """
        if stream_done(self.device, self.handle):
            return
        self.finish()
        runtime.current.waited(self.device, self)

    def finish(self) -> None:
        """`synchronize` for Haulage's own needs, in the midst of other work: it brings no views of
        SmartArrays up to date.

        Raises:
            KernelError, CaptureError: as `synchronize`.
        """
        if self.device.capturing:
            capture.check_runs(self, "to wait for it")
        self.device.activate()
        faults.waited(self.device.backend.stream_synchronize, self.handle)

    @contextmanager
    def auto_synchronize(self) -> Iterator["Stream"]:
        """`with stream.auto_synchronize():` waits for the stream's work at the end of the body."""
        yield self
        self.synchronize()

    def query(self) -> bool:
        """Whether all work handed to it is done; never waits.

        Raises:
            CaptureError: it is being captured.
        """
        if self.device.capturing:
            capture.check_runs(self, "to ask whether it is done")
        self.device.activate()
        return self.device.backend.stream_poll(self.handle)

    def idle(self) -> bool:
        """`query` for Haulage's own needs, such as what to do with freed memory.

        Unlike a program that asks, it is no reason for the adversarial mode to let work run. Of a
        stream that is being captured it is what was handed to it before.
        """
        if self._is_of_each_thread():
            return False
        self.device.activate()
        if self.device.capturing and (mark := capture.mark_of(self)):
            return self.device.backend.event_query(mark)
        return self.device.backend.stream_query(self.handle)

    def _is_of_each_thread(self) -> bool:
        # The driver's: a thread cannot ask for that of another, but the default stream waits for
        # those of all.
        return self.handle == NUMBERS["per-thread"] and self.role == "per-thread"

    # ---- graphs -----------------------------------------------------------------------------

    def begin_capture(self, mode: str = "global") -> None:
        """Record what is handed to the stream from now on instead of running it; see `graph()`.

        Other than inside of `with graph()`, the default stream is none of it.

        Args:
            mode: 'global', 'thread_local' or 'relaxed', as for `graph()`.

        Raises:
            CaptureError: it is the default stream, or is being captured already.
            Unsupported: the device has no graphs.
            ValueError: there is no such mode.
        """
        made = runtime.current.new_graph(self, mode)
        made.begin()
        self.device.begun_graphs[self.handle] = made

    def end_capture(self) -> "Graph":
        """End what `begin_capture` began; gives the graph, which can be launched.

        Raises:
            CaptureError: nothing was begun, or it cannot become a graph; it is over then, too.
        """
        made = self.device.begun_graphs.pop(self.handle, None)
        if made is None:
            raise CaptureError(f"{self!r}: there is no capture to end; begin_capture() begins one")
        made.end()
        return made

    def is_capturing(self) -> bool:
        """Whether what is handed to it is recorded, also if another library asked for that."""
        self.device.activate()
        return self.handle in self.device.capturing or bool(
            self.handle and self.device.backend.capture_query(self.handle)
        )

    def wait(self, event: "Event") -> None:
        """Let later work of this stream start only when `event` is reached; does not wait here.

        Raises:
            TypeError: it is no event.
        """
        if not hasattr(event, "elapsed_time"):
            raise TypeError(f"wait({event!r}): expected an event made by event()")
        event.wait(self)

    def add_callback(
        self, callback: Callable[["Stream", int, Any], object], arg: Any = None
    ) -> None:
        """Call `callback(stream, status, arg)` once all work handed to the stream so far is done.

        It is called on a thread of the driver, with status 0; later work of the stream waits for
        its end, so it cannot wait for this stream itself, nor for the default one: that is a
        DeviceError in it. Callbacks of a stream run in order.
        What one raises is raised by the next synchronise of the stream; later work goes on.

        Raises:
            TypeError: `callback` cannot be called.
            Unsupported: the device has no callbacks.
            CaptureError: the stream is being captured.
        """
        if self.device.capturing:
            capture.check_runs(self, "a callback of the host")
        if not callable(callback):
            raise TypeError(
                f"add_callback({callback!r}): expected a function of (stream, status, arg)"
            )
        self.device.activate()
        self.device.backend.stream_callback(self.handle, _Call(callback, self, arg))

    def async_done(self) -> "asyncio.Future[Stream]":
        """A future that gives the stream once all work handed to it so far is done.

        `await stream.async_done()` so waits as `synchronize` does, while other coroutines run. It
        must be called where an event loop runs. A future that was cancelled before leaves failures
        to the next synchronise.

        Raises:
            RuntimeError: no event loop runs in this thread.
            KernelError: by the future: threads of a kernel in the stream had failed.
            DeviceError: by the future: the device is lost.
            CaptureError: the stream is being captured.
        """
        if self.device.capturing:
            capture.check_runs(self, "to wait for it")
        # Its import takes longer than that of all the rest.
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "async_done() was called where no event loop runs; call it in a coroutine, or use "
                "synchronize()"
            ) from None
        future: asyncio.Future[Stream] = loop.create_future()
        done = runtime.current.new_event(self.device)
        done.record(self)

        def resolve_future() -> None:
            if future.done():  # cancelled
                return
            try:
                done.synchronize()  # it is reached already; this raises what failed before it
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(self)

        def reached(*_: Any) -> None:
            try:
                loop.call_soon_threadsafe(resolve_future)
            except RuntimeError:
                if not loop.is_closed():  # where it is, nobody can wait for the future
                    raise

        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            try:
                self.device.activate()
                self.device.backend.event_query(done.handle)
            except DeviceError as error:
                if not future.done():
                    future.set_exception(error)
            else:
                timer = loop.call_later(_BETWEEN_LOOKS, look)

        self.add_callback(reached)
        # Drivers call nobody once a device is lost.
        timer = loop.call_later(_BETWEEN_LOOKS, look)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    @property
    def __cuda_stream__(self) -> Callable[[], tuple[int, int]]:
        """The CUDA stream protocol, by which other packages use the stream; on NVIDIA only."""
        if not self.device.protocols.cuda:
            raise AttributeError(f"{self!r} is no stream of CUDA's driver")
        return lambda: (0, self.handle)

    def __int__(self) -> int:
        if self.role == "per-thread" and not has_only_ours(self.device):
            return int(self.handle)
        return NUMBERS.get(self.role, int(self.handle))

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Stream):
            return self.device is other.device and self.handle == other.handle
        if isinstance(other, int):
            return self.handle == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.handle)

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} belongs to this process; it cannot be pickled or copied")

    def __repr__(self) -> str:
        number = "" if self.role in NUMBERS or not self.handle else f" {int(self):#x}"
        return f"<{_NAMES[self.role]}{number} on {self.device}>"

    # Bound here, as module names may be gone by the time that the interpreter ends.
    def __del__(self, at_end: Callable[[], bool] = sys.is_finalizing) -> None:
        # `owned` is not there when `__init__` did not get that far.
        if getattr(self, "owned", False) and not at_end():
            finalize.give_back_handle(_destroy, self.device, self.handle)


class _Call:
    """A callback of a stream, by its name; what it holds goes where it calls no driver."""

    __slots__ = ("__name__", "_given")

    def __init__(self, *given: Any) -> None:
        self._given = [given]
        self.__name__ = getattr(given[0], "__qualname__", None) or type(given[0]).__name__

    def __call__(self) -> None:
        with finalize.without_driver_calls():
            callback, stream, arg = self._given.pop()
            try:
                callback(stream, 0, arg)
            finally:
                del callback, stream, arg


def _destroy(device: Device, handle: int) -> None:
    try:
        for note in runtime.current.at_stream_end:
            note(device, handle)
    finally:
        device.activate()
        device.backend.stream_destroy(handle)


_serials = itertools.count(1)

# CUDA's numbers for the streams that every device has.
NUMBERS = {"legacy": 1, "per-thread": 2}

_NAMES = {
    "": "CUDA stream",
    "default": "Default CUDA stream",
    "legacy": "Legacy default CUDA stream",
    "per-thread": "Per-thread default CUDA stream",
    "external": "External CUDA stream",
}


def recording_handle(stream: Stream) -> int:
    """The handle of the stream in which an event marks the end of a stream's work, whichever thread
    records it."""
    return 0 if stream._is_of_each_thread() else stream.handle


def has_only_ours(device: Device) -> bool:
    """Whether no driver has streams of threads besides those that are made here."""
    return device.properties.host_memory_is_device_memory


conditions.stream_type = Stream
