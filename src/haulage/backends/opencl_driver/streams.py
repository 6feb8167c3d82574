"""Streams as in-order queues, with CUDA's rules for the default stream, and events.

OpenCL knows no default stream. Each command is given the events of what it has to wait for: in the
default stream those of the last commands of blocking streams, in a blocking stream that of the
default stream's last command. All commands of a stream pass `Streams.enqueue`, which is where a
recording takes them instead.
"""

import ctypes
import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from haulage._core.driver import NOT_PERMITTED
from haulage.backends.base import NON_BLOCKING
from haulage.backends.gpu_driver import streams
from haulage.backends.gpu_driver.calls import NOT_READY
from haulage.backends.gpu_driver.host_functions import HostFunctions
from haulage.backends.opencl_driver.calls import INVALID_VALUE, Calls
from haulage.backends.opencl_driver.contexts import Contexts
from haulage.backends.opencl_driver.recordings import Mark, Recording
from haulage.errors import DeviceError

# A command of a queue: (queue, number of events to wait for, their address, the address where its
# own event goes), which gives OpenCL's status.
Command = Callable[[int, int, int | None, int], int]

_QUEUE_PROPERTIES, _PROFILING = 0x1093, 2
_STATUS, _END = 0x11D3, 0x1283
_COMPLETE = 0


@dataclass
class Stream:
    """One queue. No other stream ever has its handle. `last` is the event of its last command, 0
    if it never had one; `count` how many it had, `seen` that of the default stream's that it waits
    for; `recording` where what is handed to it goes instead."""

    handle: int
    queue: int
    device: int
    blocking: bool
    last: int = 0
    count: int = 0
    seen: int = 0
    recording: Recording | None = None


@dataclass
class _Of:
    """What is known of the streams of a device. `marks` has markers of what the default stream
    waits for, `ahead` are the blocking streams that have commands which it does not wait for yet;
    `ended` last events of streams that are gone."""

    default: Stream
    marks: Stream
    own: dict[int, Stream] = field(default_factory=dict)
    ahead: dict[int, Stream] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)


@dataclass
class Event:
    """What a program calls an event: the event of OpenCL that was recorded last, or 0; or a place
    in a recording."""

    timing: bool
    record: int = 0
    stream: int = 0
    mark: Mark | None = None


class Streams(streams.Streams):
    """All streams and events. Safe to use from any thread."""

    _calls: Calls

    def __init__(self, calls: Calls, contexts: Contexts) -> None:
        # Nothing of what the others share: their streams are the driver's own.
        self._calls = calls
        self.own = set()
        self.driver: Any = _Whole(self)
        self._contexts = contexts
        self.functions = HostFunctions(calls)
        self.lock = threading.RLock()
        self._of: dict[int, _Of] = {}
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}
        self._numbers = itertools.count(1)
        self._release = calls.function("clReleaseEvent")
        self._retain = calls.function("clRetainEvent")
        self._flush = calls.function("clFlush")
        self._wait_for = calls.function("clWaitForEvents")
        self._marker = calls.function("clEnqueueMarkerWithWaitList")
        self._barrier = calls.function("clEnqueueBarrierWithWaitList")
        self._callers: dict[int, _Caller] = {}

    # ---- streams ------------------------------------------------------------------------------

    def create(self, flags: int, priority: int) -> int:
        """A new stream."""
        device = self._contexts.device()
        with self.lock:
            of = self._here(device)
            stream = self._made(device, not flags & NON_BLOCKING)
            of.own[stream.handle] = self._streams[stream.handle] = stream
            self.own.add(stream.handle)
        return stream.handle

    def _made(self, device: int, blocking: bool) -> Stream:
        known = self._contexts.of_device(device)
        properties = (ctypes.c_uint64 * 3)(_QUEUE_PROPERTIES, _PROFILING, 0)
        asked = known.context, known.handle, ctypes.addressof(properties)
        queue = self._calls.make("clCreateCommandQueueWithProperties", *asked)
        return Stream(next(self._numbers), queue, device, blocking)

    def _here(self, device: int) -> _Of:
        of = self._of.get(device)
        if of is None:
            of = self._of[device] = _Of(
                self._made(device, blocking=False), self._made(device, blocking=False)
            )
        return of

    def find(self, handle: int) -> Stream:
        """The stream with that handle; 0 is the default stream of the current device.

        Raises:
            DeviceError: there is none; or this is a callback, which may wait for itself.
        """
        self._check_outside()
        if not handle:
            return self._here(self._contexts.device()).default
        stream = self._streams.get(handle)
        if stream is None:
            raise DeviceError(f"OpenCL has no stream {handle:#x} of Haulage's; it may be destroyed")
        return stream

    def _check_outside(self) -> None:
        if self._calls.inside.callback:
            raise self._calls.refused("a call in a callback of a stream", NOT_PERMITTED)

    def destroy(self, handle: int) -> None:
        """Give a stream back; what it holds runs to its end."""
        with self.lock:
            stream = self._streams.pop(handle)
            self.own.discard(handle)
            of = self._of[stream.device]
            del of.own[handle]
            self._drop_reached(of)
            if stream.last:
                of.ended.append(stream.last)
                if handle in of.ahead:
                    self._retain(stream.last)
            self._calls.end_of(handle)
            self._callers.pop(handle, None)
        self._calls("clReleaseCommandQueue", stream.queue)

    def _drop_reached(self, of: _Of) -> None:
        left = []
        for event in of.ended:
            if self._said(event) > _COMPLETE:
                left.append(event)
            else:
                self._release(event)
        of.ended = left

    def enqueue(self, handle: int, name: str, command: Command, args: tuple[int, ...] = ()) -> None:
        """Hand a command to a stream; `name` and `args` say in errors what it is."""
        with self.lock:
            stream = self.find(handle)
            if stream.recording is not None:
                stream.recording.add(stream.handle, name, command, args)
                return
            self._enqueue(stream, name, command, args)

    def _enqueue(
        self,
        stream: Stream,
        name: str,
        command: Command,
        args: tuple[int, ...] = (),
        others: tuple[int, ...] = (),
    ) -> None:
        """The same, behind the events `others` as well."""
        of = self._of[stream.device]
        waits = list(others)
        ahead: tuple[Stream, ...] = ()
        if stream is of.default:
            ahead = tuple(of.ahead.values())
            waits += [each.last for each in ahead]
        elif stream.blocking and stream.seen != of.default.count:
            waits.append(of.default.last)
        event = ctypes.c_void_p()
        at = ctypes.addressof(event)
        if waits:
            listed = (ctypes.c_void_p * len(waits))(*waits)
            status = command(stream.queue, len(waits), ctypes.addressof(listed), at)
        else:
            status = command(stream.queue, 0, None, at)
        if status:
            raise self._calls.failed(name, args, status)
        if ahead:
            for each in ahead:
                if each.handle not in of.own:
                    self._release(each.last)
            of.ahead.clear()
        if stream.last:
            self._release(stream.last)
        stream.last = event.value or 0
        stream.count += 1
        if stream.blocking:
            stream.seen = of.default.count
            of.ahead[stream.handle] = stream
        self._flush(stream.queue)

    def held(self, handle: int, marked: bool = False) -> int:
        """What stands for all that a stream has been given so far, in the default stream also for
        what the blocking ones have: an event, kept until it is released, or 0: there is nothing.

        With `marked` it is an event of its own, which tells when all of that was over. In the
        default stream it is none of its commands, as later ones of other streams would wait for it.
        """
        with self.lock:
            stream = self.find(handle)
            of = self._of[stream.device]
            if stream is of.default and (marked or of.ahead):
                behind = [each.last for each in (stream, *of.ahead.values()) if each.last]
                stream = of.marks
                self._enqueue(stream, "clEnqueueMarkerWithWaitList", self._marker, (), (*behind,))
            elif marked:
                self._enqueue(stream, "clEnqueueMarkerWithWaitList", self._marker)
            if stream.last:
                self._retain(stream.last)
            return stream.last

    def wait_for(self, handle: int, event: int) -> None:
        """Order a stream after what `held` gave."""
        if event:
            name = "clEnqueueBarrierWithWaitList"
            with self.lock:
                self._enqueue(self.find(handle), name, self._barrier, (), (event,))

    def release(self, event: int) -> None:
        """Give back what `held` gave."""
        if event:
            self._release(event)

    def synchronize(self, handle: int) -> None:
        """Wait for a stream."""
        self._wait(self.held(handle))

    def _wait(self, event: int) -> None:
        """Wait for an event, and release it."""
        if not event:
            return
        try:
            cell = ctypes.c_void_p(event)
            status = self._wait_for(1, ctypes.addressof(cell))
            if status:
                raise self._calls.failed("clWaitForEvents", (event,), self._said(event) or status)
        finally:
            self._release(event)

    def synchronize_device(self) -> None:
        """Wait for all streams of the current device, also those that are gone."""
        with self.lock:
            of = self._here(self._contexts.device())
            events = [stream.last for stream in (of.default, *of.own.values()) if stream.last]
            for event in events:
                self._retain(event)
            events += of.ended
            of.ended = []
        for number, event in enumerate(events):
            try:
                self._wait(event)
            except DeviceError:
                for left in events[number + 1 :]:
                    self._release(left)
                raise

    def query(self, handle: int) -> bool:
        """Whether a stream's work is done; no in a callback, where it cannot be asked."""
        if self._calls.inside.callback:
            return False
        event = self.held(handle)
        return self._is_reached(event, release=True)

    def _is_reached(self, event: int, release: bool = False) -> bool:
        if not event:
            return True
        try:
            said = self._said(event)
            if said < 0:
                raise self._calls.refused("a command of a stream", said)
            return said == _COMPLETE
        finally:
            if release:
                self._release(event)

    def _said(self, event: int) -> int:
        """The execution status of an event: 0 where it is reached, negative where it failed."""
        cell = ctypes.c_int32()
        self._calls("clGetEventInfo", event, _STATUS, 4, ctypes.addressof(cell), None)
        return cell.value

    def poll(self, handle: int) -> bool:
        """The same."""
        return self.query(handle)

    def status(self, handle: int) -> int:
        """0, or that a stream has work."""
        return 0 if self.query(handle) else NOT_READY

    # ---- events -------------------------------------------------------------------------------

    def event_create(self, timing: bool) -> int:
        """A new event."""
        number = next(self._numbers)
        self._events[number] = Event(timing)
        return number

    def event_destroy(self, number: int) -> None:
        """Give it back."""
        with self.lock:
            event = self._events.pop(number)
            if event.record:
                self._release(event.record)

    def event_record(self, number: int, handle: int) -> None:
        """Mark the end of a stream."""
        with self.lock:
            event, stream = self._events[number], self.find(handle)
            if stream.recording is not None:
                event.mark = stream.recording.mark(stream.handle)
                return
            # The end of the last command is when that was over, not when this is handed over.
            held = self.held(handle, marked=event.timing or not stream.last)
            if event.record:
                self._release(event.record)
            event.record, event.stream, event.mark = held, handle, None

    def wait_event(self, handle: int, number: int) -> None:
        """Order a stream after an event."""
        with self.lock:
            event = self._events[number]
            if event.mark is not None:
                event.mark.recording.join(self.find(handle), event.mark)
            else:
                self.wait_for(handle, event.record)

    def event_synchronize(self, number: int) -> int | None:
        """Wait for a record; the stream that it was made in, None if there is none."""
        self._check_outside()
        with self.lock:
            event = self._events[number]
            record, stream = event.record, event.stream
            if not record:
                return None
            self._retain(record)
        self._wait(record)
        return stream

    def event_query(self, number: int) -> bool:
        """Whether a record is reached; no in a callback, where it cannot be asked."""
        if self._calls.inside.callback:
            return False
        with self.lock:
            return self._is_reached(self._events[number].record)

    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two records, by the device's clock."""
        with self.lock:
            both = self._events[start], self._events[end]
            if not all(event.timing and event.record for event in both):
                raise DeviceError(
                    INVALID_VALUE,
                    "event_elapsed: both events must have been made with timing, and recorded",
                )
            if not all(self._is_reached(event.record) for event in both):
                raise DeviceError("event_elapsed: an event is not reached yet; wait for it")
            begun, ended = (
                self._calls.number("clGetEventProfilingInfo", event.record, _END) for event in both
            )
        return (ended - begun) / 1e6

    # ---- functions of the host ------------------------------------------------------------------

    def callback(self, handle: int, function: Callable[[], object]) -> None:
        """Let a stream call a function, on a thread of Haulage's: OpenCL's own callbacks may not
        wait for anything."""

        def give(number: int) -> None:
            with self.lock:
                stream = self.find(handle)
                if stream.recording is not None:
                    raise DeviceError("a callback cannot be recorded: let another stream call it")
                known = self._contexts.of_device(stream.device)
                self._enqueue(stream, "clEnqueueMarkerWithWaitList", self._marker)
                self._retain(stream.last)
                before = stream.last
                over = self._calls.make("clCreateUserEvent", known.context)
                caller = self._callers.get(stream.handle)
                if caller is None:
                    caller = self._callers[stream.handle] = _Caller(self._call)
                name = "clEnqueueBarrierWithWaitList"
                self._enqueue(stream, name, self._barrier, (), (over,))
                caller.hand_over(number, before, over)

        self.functions.hand_over(handle, function, give)

    def _call(self, number: int, before: int, over: int) -> None:
        cell = ctypes.c_void_p(before)
        try:
            self._wait_for(1, ctypes.addressof(cell))
            self.functions.called(number)
        finally:
            self._calls("clSetUserEventStatus", over, _COMPLETE)
            self._release(before)
            self._release(over)


class _Whole:
    """All streams of the current device, as `gpu_driver.ending` waits for them."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def synchronize(self) -> int:
        """Wait for them; 0."""
        self._streams.synchronize_device()
        return 0


class _Caller:
    """A thread that calls the functions of one stream, while there are any."""

    def __init__(self, call: Callable[[int, int, int], None]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._left: deque[tuple[int, int, int]] = deque()
        self._is_running = False

    def hand_over(self, number: int, before: int, over: int) -> None:
        """One more function, behind the event `before`; `over` is set when it is done."""
        with self._lock:
            self._left.append((number, before, over))
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._run, name="haulage-opencl", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._left:
                    self._is_running = False
                    return
                each = self._left.popleft()
            self._call(*each)
