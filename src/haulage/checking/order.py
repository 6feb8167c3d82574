"""What happens before what: the host, the streams of all devices, events, callbacks and graphs.

Each stream is an actor whose pieces of work are numbered, and so is the host, whose time goes on
whenever it hands work over. The clock of a piece of work says up to which time of each actor all is
over when it begins. So two pieces of work are ordered if, and only if, the clock of one has the
time of the other: whatever the run did, and however long each took.
"""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# A device's number among those that are watched, and the driver's handle of a stream, an event or a
# graph.
StreamKey = tuple[int, int]


class Actor:
    """Who does things one after another: the host, or a stream.

    `is_over` is that it is gone and the host has waited for all of it: it is in no clock then.
    """

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


Clock = dict[Actor, int]


class Moment:
    """When something is done.

    Attributes:
        actor: by whom.
        time: the actor's.
        clock: up to which time of each actor all is over by then, itself included.
    """

    __slots__ = ("actor", "clock", "time")

    def __init__(self, actor: Actor, clock: Clock) -> None:
        self.actor = actor
        self.time = clock[actor]
        self.clock = clock

    def is_ordered_with(self, other: "Moment") -> bool:
        """Whether one of the two is over before the other begins, in every run."""
        return self.is_before(other.clock) or other.is_before(self.clock)

    def is_before(self, clock: Clock) -> bool:
        """Whether it is over wherever `clock` is reached."""
        return self.actor.is_over or clock.get(self.actor, 0) >= self.time


def _join(clock: Clock, other: Clock) -> None:
    for actor, time in other.items():
        if clock.get(actor, 0) < time:
            clock[actor] = time


class _Stream:
    __slots__ = ("actor", "capture", "clock", "is_blocking", "name")

    def __init__(self, is_blocking: bool, name: str) -> None:
        self.actor = Actor()
        self.is_blocking = is_blocking
        self.name = name
        self.clock: Clock = {self.actor: 0}
        self.capture: _Capture | None = None


class _Capture:
    """A graph while it is recorded: the clocks of its streams, which have nothing but its work."""

    __slots__ = ("clocks", "streams")

    def __init__(self) -> None:
        self.clocks: dict[Actor, Clock] = {}
        self.streams: list[_Stream] = []


class _Thread(threading.local):
    """Of the callback that this thread is in: whose work it is, and its clock."""

    actor: Actor | None = None
    clock: Clock | None = None


class Order:
    """The order of all that is handed over, by the rules that docs/streams.md states.

    It is not thread safe: who calls it holds a lock. The host is one actor, whatever its threads
    are: these order themselves by means of Python's that nobody is told of.
    """

    def __init__(self) -> None:
        self._me = Actor()
        self._host: Clock = {self._me: 1}
        self._numbers = itertools.count(1)
        self._streams: dict[StreamKey, _Stream] = {}
        # What streams that are given back held, by device: of those that the default stream waits
        # for, and of all.
        self._ended: dict[int, Clock] = {}
        self._leaving: list[_Stream] = []
        self._ended_blocking: dict[int, Clock] = {}
        self._events: dict[StreamKey, tuple[Clock, _Capture | None]] = {}
        self._graphs: dict[StreamKey, Clock] = {}
        # How many of those that were handed over have not begun.
        self._callbacks = 0
        self._thread = _Thread()

    # ---- streams --------------------------------------------------------------------------------

    def stream_made(self, key: StreamKey, is_blocking: bool) -> None:
        """There is a new stream; `is_blocking`: the default one waits for it, and it for that."""
        name = f"stream {next(self._numbers)}"
        made = self._streams[key] = _Stream(is_blocking, name)
        if is_blocking:
            # Blocking streams come after all that the default one held before they were made.
            _join(made.clock, self._default(key[0]).clock)

    def stream_ended(self, key: StreamKey) -> None:
        """A stream was given back; what it holds is done all the same."""
        stream = self._streams.pop(key, None)
        if stream is not None:
            _join(self._ended.setdefault(key[0], {}), stream.clock)
            if stream.is_blocking:
                _join(self._ended_blocking.setdefault(key[0], {}), stream.clock)
            self._leaving.append(stream)

    def _forget_ended(self) -> None:
        """Of the streams that are given back, take out of all clocks what the host waited for."""
        for stream in self._leaving:
            actor = stream.actor
            if self._host.get(actor, 0) >= stream.clock[actor]:
                actor.is_over = True
                clocks = [each.clock for each in self._streams.values()]
                for clock in (*clocks, *self._ended.values(), *self._ended_blocking.values()):
                    clock.pop(actor, None)
                self._host.pop(actor, None)
        self._leaving = [each for each in self._leaving if not each.actor.is_over]

    def name_of(self, key: StreamKey) -> str:
        """A stream in words."""
        return "the default stream" if not key[1] else self._stream(key).name

    def is_captured(self, key: StreamKey) -> bool:
        """Whether what is handed to a stream is recorded for a graph."""
        return self._stream(key).capture is not None

    def capture_of(self, key: StreamKey) -> object:
        """What stands for the graph that a stream is recorded for, or None."""
        return self._stream(key).capture

    def _default(self, device: int) -> _Stream:
        return self._stream((device, 0))

    def _stream(self, key: StreamKey) -> _Stream:
        found = self._streams.get(key)
        if found is None:
            # Made before the check began, or by others: as most are, it is taken to be blocking.
            found = self._streams[key] = _Stream(True, f"stream {key[1]:#x}")
        return found

    def work(self, key: StreamKey) -> Moment:
        """A piece of work is handed to a stream now."""
        stream = self._stream(key)
        if stream.capture is not None:
            clock = stream.capture.clocks[stream.actor]
            clock[stream.actor] += 1
            return Moment(stream.actor, dict(clock))
        clock = stream.clock
        _join(clock, self._now)
        self._go_on()
        self._follow_default(key, stream)
        clock[stream.actor] += 1
        return Moment(stream.actor, dict(clock))

    def _follow_default(self, key: StreamKey, stream: _Stream) -> None:
        if key[1]:
            if stream.is_blocking:
                _join(stream.clock, self._default(key[0]).clock)
            return
        for (device, handle), other in self._streams.items():
            if device == key[0] and handle and other.is_blocking and other.capture is None:
                _join(stream.clock, other.clock)
        _join(stream.clock, self._ended_blocking.get(key[0], {}))

    # ---- events ---------------------------------------------------------------------------------

    def recorded(self, event: StreamKey, key: StreamKey) -> None:
        """An event marks the present end of a stream."""
        stream = self._stream(key)
        moment = self.work(key)
        self._events[event] = moment.clock, stream.capture

    def event_ended(self, event: StreamKey) -> None:
        """An event was given back."""
        self._events.pop(event, None)

    def stream_waits(self, key: StreamKey, event: StreamKey) -> None:
        """Later work of a stream waits for an event."""
        found = self._events.get(event)
        if found is None:
            return
        clock, capture = found
        stream = self._stream(key)
        if capture is not None:
            if stream.capture is None:
                stream.capture = capture
                capture.streams.append(stream)
            own = capture.clocks.setdefault(stream.actor, {stream.actor: 0})
            _join(own, clock)
            return
        self.work(key)
        _join(stream.clock, clock)

    # ---- waits of the host ----------------------------------------------------------------------

    @property
    def _now(self) -> Clock:
        """The clock of the host; in a callback, that of the callback."""
        own = self._thread.clock
        return self._host if own is None else own

    def _go_on(self) -> None:
        """What the host does from now on does not come before what it has handed over."""
        if self._thread.clock is None:
            self._host[self._me] += 1

    def host(self) -> Moment:
        """What the host does itself now."""
        return Moment(self._thread.actor or self._me, dict(self._now))

    def waited_for_stream(self, key: StreamKey) -> None:
        """The host has waited for a stream."""
        _join(self._now, self._stream(key).clock)
        self._forget_ended()

    def waited_for_event(self, event: StreamKey) -> None:
        """The host has waited for an event."""
        found = self._events.get(event)
        if found is not None and found[1] is None:
            _join(self._now, found[0])
            self._forget_ended()

    def waited_for_device(self, device: int) -> None:
        """The host has waited for all work of a device."""
        for (of, _), stream in self._streams.items():
            if of == device and stream.capture is None:
                _join(self._now, stream.clock)
        _join(self._now, self._ended.get(device, {}))
        self._forget_ended()

    def is_done(self, key: StreamKey) -> bool:
        """Whether the host has waited for all that a stream holds."""
        stream = self._stream(key)
        return self._now.get(stream.actor, 0) >= stream.clock[stream.actor]

    def is_over(self, moment: Moment) -> bool:
        """Whether all that is still to come is after it: the host has done it, or waited for it."""
        if moment.actor is self._me:
            return not self._callbacks
        return moment.is_before(self._host)

    # ---- callbacks ------------------------------------------------------------------------------

    def callback(self, key: StreamKey) -> Moment:
        """A function of the host's is handed to a stream."""
        self._callbacks += 1
        return self.work(key)

    @contextmanager
    def inside(self, callback: Moment) -> Iterator[None]:
        """What this thread does inside is done in a callback that was handed over at a moment."""
        thread = self._thread
        thread.actor, thread.clock = callback.actor, dict(callback.clock)
        try:
            yield
        finally:
            clock, thread.actor, thread.clock = thread.clock, None, None
            self._callbacks -= 1
            # Programs wait for what callbacks do by means of Python's, which nobody is told of.
            _join(self._host, clock)

    # ---- graphs ---------------------------------------------------------------------------------

    def capture_began(self, key: StreamKey) -> None:
        """What is handed to a stream is recorded from now on."""
        stream = self._stream(key)
        capture = stream.capture = _Capture()
        capture.clocks[stream.actor] = {stream.actor: 0}
        capture.streams.append(stream)

    def capture_ended(self, key: StreamKey, graph: StreamKey | None = None) -> None:
        """It is not any more; None: nothing of it is kept."""
        capture = self._stream(key).capture
        if capture is not None:
            for stream in capture.streams:
                stream.capture = None
            for event, (_, of) in tuple(self._events.items()):
                if of is capture:
                    del self._events[event]
        if graph is not None:
            self._graphs[graph] = {}

    def graph_runs(self, graph: StreamKey, key: StreamKey) -> Moment:
        """A graph is handed to a stream; its launches run one after another."""
        known = self._graphs.setdefault(graph, {})
        _join(self._stream(key).clock, known)
        moment = self.work(key)
        self._graphs[graph] = moment.clock
        return moment

    def graph_ended(self, graph: StreamKey) -> None:
        """A graph was given back."""
        self._graphs.pop(graph, None)
