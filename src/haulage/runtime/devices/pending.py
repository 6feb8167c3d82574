"""What is to be done once streams have passed some events: mostly, memory to be given back."""

import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple

from haulage._core.memory import conditions
from haulage.errors import DeviceError
from haulage.runtime.devices import faults
from haulage.runtime.devices.capture import mark_of
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream, recording_handle
from haulage.runtime.process import finalize, runtime


class _Waiting(NamedTuple):
    device: Device
    # Each with the device whose it is.
    events: list[tuple[Device, int]]
    # Streams that no event could be recorded in: they have to be idle.
    streams: list[Stream]
    action: Callable[[], object]

    def is_reached(self) -> bool:
        for place, event in self.events:
            place.activate()
            if not place.backend.event_query(event):
                return False
        return all(map(_is_done, self.streams))

    def wait(self) -> None:
        for place, event in self.events:
            place.activate()
            faults.waited(place.backend.event_synchronize, event)
        for stream in self.streams:
            if not _is_done(stream):
                _wait_until_idle(stream)

    def do(self) -> None:
        # Once more does no harm, if Ctrl-C comes in the midst: actions are of that kind.
        with ExitStack() as each:
            each.callback(self.action)
            while self.events:
                each.callback(_destroy, *self.events.pop())


def _destroy(device: Device, event: int) -> None:
    device.activate()
    device.backend.event_destroy(event)


class _Pending:
    """Actions, each with the events that it waits for."""

    def __init__(self) -> None:
        self.waiting: list[_Waiting] = []
        self._changed = threading.Condition()
        # What threads look at just now, by thread: the devices.
        self._in_hand: dict[int, frozenset[Device]] = {}

    def add(self, entry: _Waiting) -> None:
        self.waiting += (entry,)

    def reap(self, patience: int | None = None) -> None:
        """Do what has its events all reached; no more after so many that have not."""
        self._take(_Waiting.is_reached, patience)

    def reap_of(self, devices: Collection[Device]) -> None:
        """`reap` of what is on some devices."""
        self._take(lambda entry: entry.device in devices and entry.is_reached())

    def wait(self, device: Device) -> None:
        """Do all of `device`, waiting for its streams, and for threads that are about to do it."""

        def is_waited_for(entry: _Waiting) -> bool:
            if entry.device is device:
                entry.wait()
            return entry.device is device

        self._take(is_waited_for)
        others = False
        with self._changed:
            # Not in the midst of such a thing, or two threads may wait for each other.
            while threading.get_ident() not in self._in_hand and any(
                device in devices for devices in tuple(self._in_hand.values())
            ):
                others = True
                self._changed.wait()
        if others:
            self._take(is_waited_for)  # what they have put back

    def _take(self, is_ready: Callable[[_Waiting], bool], patience: int | None = None) -> None:
        me = threading.get_ident()
        outer = self._in_hand.get(me, frozenset())
        looked_at: list[_Waiting] = []
        rest: list[_Waiting] = []
        try:
            # What is moved, here and below, is so without calls: no thread comes in between, and
            # nothing is lost to Ctrl-C. Nor is a list made: a collection could come of that, whose
            # finalisers would take the same ones.
            looked_at, self.waiting = self.waiting, rest
            if looked_at:
                self._in_hand[me] = outer.union(entry.device for entry in looked_at)
            while looked_at and patience != 0:
                entry = looked_at[-1]
                if is_ready(entry):
                    entry.do()
                    del looked_at[-1]
                    continue
                self.waiting += (entry,)
                del looked_at[-1]
                if patience is not None:
                    patience -= 1
        finally:
            # Not empty if a kernel had failed or Ctrl-C came, too: it goes on waiting. What was
            # looked at stands first now, so that it is the others' turn.
            self.waiting += looked_at
            if outer:
                self._in_hand[me] = outer
            elif me in self._in_hand:
                del self._in_hand[me]
            with self._changed:
                self._changed.notify_all()


_pending = conditions.waiting = _Pending()

# An allocation looks at no more than so many that are not done yet.
_PATIENCE = 4


def after(
    device: Device,
    streams: Iterable[Stream],
    action: Callable[[], object],
    also_default: bool = True,
) -> None:
    """Call `action()` once the work is done that is in `streams`, and in the default stream of the
    device, now: at once, or in a later `reap`. The streams may be of other devices too."""
    users = [*streams, device.default_stream] if also_default else streams
    busy = [stream for stream in users if not _is_idle(stream)]
    if busy:
        _wait_for(device, busy, action)
    else:
        action()


def after_end(stream: Stream, action: Callable[[], object]) -> None:
    """`after` for a stream that is about to be given back: it is not asked any more later."""
    if _is_idle(stream):
        action()
        return
    unmarked = _wait_for(stream.device, [stream], action)
    try:
        for each in tuple(unmarked):
            # No event could be recorded in it, so its work is waited for now.
            _wait_until_idle(each)
    finally:
        unmarked.clear()


def _is_idle(stream: Stream) -> bool:
    try:
        return stream.idle()
    except DeviceError:
        # Not known, so it is waited for; that tells what is wrong with it.
        return False


def _is_done(stream: Stream) -> bool:
    # Who made an external stream may destroy it once its work was waited for.
    try:
        return stream.idle()
    except DeviceError:
        return stream.external


def _wait_until_idle(stream: Stream) -> None:
    mark = mark_of(stream)
    if mark:
        stream.device.activate()
        faults.waited(stream.device.backend.event_synchronize, mark)
    else:
        stream.finish()


def hold(stream: Stream, thing: Any) -> None:
    """Keep `thing` alive until `stream` has passed the work that it holds now."""
    _wait_for(stream.device, [stream], partial(id, thing))


def _wait_for(device: Device, busy: list[Stream], action: Callable[[], object]) -> list[Stream]:
    """Let `action` wait for streams; those that it waits for without an event, which it asks itself
    as long as they are in that list."""
    events: list[tuple[Device, int]] = []
    unmarked = list(busy)
    try:
        for stream in busy:
            if stream.device.capturing and mark_of(stream):
                continue
            with suppress(DeviceError):  # the stream itself is waited for then
                place = stream.device
                place.activate()
                if stream.handle and place.backend.capture_query(recording_handle(stream)):
                    continue  # by another library: the event would only be recorded
                events.append((place, place.backend.event_create(False)))
                place.backend.event_record(events[-1][1], recording_handle(stream))
                unmarked.remove(stream)
    finally:
        _pending.add(_Waiting(device, events, unmarked, action))
    for note in runtime.current.when_pending:
        note(device)
    return unmarked


def reap() -> None:
    """Do what waited for streams which are done with it by now; never waits."""
    if _pending.waiting:
        _pending.reap()


def reap_of(devices: Collection[Device]) -> None:
    """`reap` of what is on some devices."""
    if is_waiting(devices):
        _pending.reap_of(devices)


def is_waiting(devices: Collection[Device]) -> bool:
    """Whether anything waits for streams of some devices."""
    return any(entry.device in devices for entry in tuple(_pending.waiting))


def reap_some() -> None:
    """`reap`, but for what lies behind much that streams still use: for each allocation."""
    if _pending.waiting:
        conditions.turns = 0
        _pending.reap(_PATIENCE)


def wait(device: Device) -> None:
    """Do all that waits for streams of `device`, after waiting for them."""
    _pending.wait(device)


def count(device: Device) -> int:
    """How much waits to be given back: what work of `device` still uses, and what `defer_cleanup`
    holds back, of all devices."""
    return finalize.waiting() + sum(entry.device is device for entry in tuple(_pending.waiting))


def flush(device: Device) -> None:
    """Give back to `device` what waits, after the work that uses it; not inside `defer_cleanup`."""
    if not finalize.deferring():
        finalize.drain()
        _pending.wait(device)


def start_anew() -> None:
    """After a fork, in the child: what the parent's streams used stays the parent's to free."""
    global _pending
    _pending = conditions.waiting = _Pending()
