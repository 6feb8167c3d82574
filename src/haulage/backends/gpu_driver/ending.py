"""The wait for devices at the end of the process, which says what it waits for."""

import sys
import time
from collections.abc import Callable
from typing import Any

from haulage.backends.gpu_driver.calls import LOST, NOT_READY, Calls, named_stream
from haulage.backends.gpu_driver.contexts import Contexts
from haulage.backends.gpu_driver.streams import Streams

# Seconds without a word; between two looks at the streams, at first and at the most.
_SILENT = 5.0
_PAUSE, _LONGEST_PAUSE = 1e-4, 0.05


class Ending:
    """Waits for all work of the devices that have been used.

    The host looks at the streams by turns, as Ctrl-C is not heard while a driver waits.
    """

    def __init__(self, calls: Calls, contexts: Contexts, streams: Streams) -> None:
        self._calls = calls
        self._contexts = contexts
        self._streams = streams
        self._functions = streams.functions

    def wait(self) -> None:
        """That a device is lost is kept as what nobody has told yet."""
        began, pause, told = time.monotonic(), _PAUSE, False
        while busy := self._busy():
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if not told and time.monotonic() - began > _SILENT:
                told = True
                print(self._said(busy), file=sys.stderr, flush=True)
        for device in self._contexts.devices():
            self._contexts.activate(device)
            status = self._calls.passed(self._streams.driver.synchronize())
            if status in LOST and not self._calls.is_lost:
                self._calls.untold = self._calls.refused("the wait at the end", status)

    def _busy(self) -> list[int]:
        """Streams that have work."""
        busy = [
            stream
            for stream in list(self._streams.own)
            if self._streams.status(stream) == NOT_READY
        ]
        for device in self._contexts.devices():
            self._contexts.activate(device)
            status = self._streams.status(0)
            if status == NOT_READY:
                busy.append(0)
            if status in LOST:
                return []  # what has not run by now never will
        # Streams of others are not asked, as they may be gone.
        return [*busy, *(stream for _, stream in list(self._functions.pending.values()))]

    def _said(self, busy: list[int]) -> str:
        """What is waited for: of a stream its first callback, or else the kernel that came last."""
        first: dict[int, Callable[[], Any]] = {}
        for function, stream in list(self._functions.pending.values()):
            first.setdefault(stream, function)
        found = [f"the callback {_name(first[each])} in {named_stream(each)}" for each in first]
        for stream in dict.fromkeys(busy):
            if stream in first:
                continue
            launched = self._calls.last.get(stream)
            if launched is not None:
                found.append(f"{self._calls.launched(launched)} in {named_stream(stream)}")
            elif stream or not found:
                found.append(f"work in {named_stream(stream)}")
        return (
            "haulage: the program has ended, and waits for what runs on "
            f"{self._calls.device_words} since more than {_SILENT:g} seconds: "
            f"{'; '.join(found)}. Ctrl-C ends the wait"
        )


def _name(function: Callable[[], Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
