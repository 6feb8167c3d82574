"""What is to be done once streams have passed some events: mostly, memory to be given back."""

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple

from haulage.errors import DeviceError
from haulage.runtime import faults, finalize
from haulage.runtime.device import Device
from haulage.runtime.stream import Stream


class _Waiting(NamedTuple):
    device: Device
    events: list[int]
    # Streams that no event could be recorded in: they have to be idle.
    streams: list[Stream]
    action: Callable[[], object]

    def is_reached(self) -> bool:
        self.device.activate()
        return all(map(self.device.backend.event_query, self.events)) and all(
            map(_is_done, self.streams)
        )

    def wait(self) -> None:
        self.device.activate()
        for event in self.events:
            faults.waited(self.device.backend.event_synchronize, event)
        for stream in self.streams:
            if not _is_done(stream):
                stream.synchronize()

    def do(self) -> None:
        with ExitStack() as each:
            each.callback(self.action)
            for event in self.events:
                each.callback(self.device.backend.event_destroy, event)


class _Pending:
    """Actions, each with the events that it waits for."""

    def __init__(self) -> None:
        self.waiting: list[_Waiting] = []
        self._changed = threading.Condition()
        # What threads look at just now, by thread: the devices.
        self._in_hand: dict[int, frozenset[Device]] = {}

    def add(self, entry: _Waiting) -> None:
        with self._changed:
            self.waiting.append(entry)

    def reap(self, patience: int | None = None) -> None:
        """Do what has its events all reached; no more after so many that have not."""
        self._take(_Waiting.is_reached, patience)

    def wait(self, device: Device) -> None:
        """Do all of `device`, waiting for its streams, and for threads that are about to do it."""

        def is_waited_for(entry: _Waiting) -> bool:
            if entry.device is device:
                entry.wait()
            return entry.device is device

        self._take(is_waited_for)
        with self._changed:
            # Not in the midst of such a thing, or two threads may wait for each other.
            while threading.get_ident() not in self._in_hand and any(
                device in devices for devices in self._in_hand.values()
            ):
                self._changed.wait()

    def _take(self, is_ready: Callable[[_Waiting], bool], patience: int | None = None) -> None:
        me = threading.get_ident()
        with self._changed:
            looked_at, self.waiting = self.waiting, []
            outer = self._in_hand.get(me, frozenset())
            if looked_at:
                self._in_hand[me] = outer.union(entry.device for entry in looked_at)
        try:
            while looked_at and patience != 0:
                if is_ready(looked_at[-1]):
                    looked_at.pop().do()
                    continue
                self.add(looked_at.pop())
                if patience is not None:
                    patience -= 1
        finally:
            with self._changed:
                # Not empty if a kernel had failed or Ctrl-C came, too: it goes on waiting. What was
                # looked at stands first now, so that it is the others' turn.
                self.waiting += looked_at
                if outer:
                    self._in_hand[me] = outer
                else:
                    self._in_hand.pop(me, None)
                self._changed.notify_all()


_pending = _Pending()

# An allocation looks at no more than so many that are not done yet.
_PATIENCE = 4


def after(
    device: Device,
    streams: Iterable[Stream],
    action: Callable[[], object],
    also_default: bool = True,
) -> None:
    """Call `action()` once the work is done that is in `streams`, and in the default stream, now:
    at once, or in a later `reap`."""
    users = [*streams, device.default_stream] if also_default else streams
    busy = [stream for stream in users if not _is_idle(stream)]
    if busy:
        _wait_for(device, busy, action)
    else:
        action()


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


def hold(stream: Stream, thing: Any) -> None:
    """Keep `thing` alive until `stream` has passed the work that it holds now."""
    _wait_for(stream.device, [stream], partial(id, thing))


def _wait_for(device: Device, busy: list[Stream], action: Callable[[], object]) -> None:
    events: list[int] = []
    unmarked = list(busy)
    device.activate()
    backend = device.backend
    try:
        for stream in busy:
            with suppress(DeviceError):  # the stream itself is waited for then
                events.append(backend.event_create(False))
                backend.event_record(events[-1], stream.handle)
                unmarked.remove(stream)
    finally:
        _pending.add(_Waiting(device, events, unmarked, action))


def reap() -> None:
    """Do what waited for streams which are done with it by now; never waits."""
    if _pending.waiting:
        _pending.reap()


def reap_some() -> None:
    """`reap`, but for what lies behind much that streams still use: for each allocation."""
    if _pending.waiting:
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


def _start_anew() -> None:
    # After a fork: what the parent's streams used stays the parent's to free.
    global _pending
    _pending = _Pending()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
