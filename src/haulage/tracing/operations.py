"""What streams did, with the times that the device itself gives.

Around each piece of work an event is recorded in its stream. When both are reached they are asked
for their times; until then nothing waits for them.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from haulage.backends.base import NON_BLOCKING

if TYPE_CHECKING:
    from haulage.runtime.devices.device import Device

# Drivers give elapsed times as a float32 of milliseconds: within this many a tenth of a microsecond
# is left of it, so a start that lies further off becomes what later ones are counted from.
_FAR = 1000.0


class Operation:
    """Work of a stream, or a wait of a host thread, or several that were drawn together.

    `lane` numbers the stream or thread, `place` the line that asked for it. `begin` and `end` are
    nanoseconds of the monotonic clock, `busy` how many of them were work, `count` how many
    operations it stands for.
    """

    __slots__ = ("begin", "busy", "count", "end", "kind", "lane", "name", "nbytes", "place")

    def __init__(self, kind: str, name: str, nbytes: int, lane: int, place: int) -> None:
        self.kind = kind
        self.name = name
        self.nbytes = nbytes
        self.lane = lane
        self.place = place
        self.begin = self.end = self.busy = 0
        self.count = 1

    def took(self, begin: int, end: int) -> None:
        """Set its times."""
        self.begin, self.end, self.busy = begin, end, end - begin


class Clock:
    """The times of one device's operations."""

    def __init__(self, device: "Device") -> None:
        self.device = device
        device.activate()
        self._backend = device.backend
        self._free: list[int] = []
        # Handle of a stream -> what it was handed and has perhaps not done yet, in order.
        self._pending: dict[int, deque[tuple[Operation, int, int]]] = {}
        self._lock = threading.RLock()
        self._base = self._backend.event_create(True)
        # In a stream that waits for no other, as this thread may be what others wait for.
        own = self._backend.stream_create(NON_BLOCKING)
        self._backend.event_record(self._base, own)
        self._backend.event_synchronize(self._base)
        self._base_ns = time.monotonic_ns()
        self._backend.stream_destroy(own)

    def around(
        self, operation: Operation, stream: int, call: Callable[..., Any], args: tuple[Any, ...]
    ) -> Any:
        """`call(*args)`, which hands `operation` to `stream` unless it gives False."""
        self.device.activate()
        start, end = self._event(), self._event()
        try:
            self._backend.event_record(start, stream)
            given = call(*args)
            self.device.activate()
            self._backend.event_record(end, stream)
        except BaseException:
            self._free += start, end
            raise
        if given is False:
            self._free += start, end
        else:
            with self._lock:
                self._pending.setdefault(stream, deque()).append((operation, start, end))
        return given

    def settle(self) -> Iterable[Operation]:
        """The operations that are over by now and were not given yet; never waits."""
        self.device.activate()
        for stream, waiting in tuple(self._pending.items()):
            while waiting and self._backend.event_query(waiting[0][2]):
                operation, start, end = waiting.popleft()
                self._time(operation, start, end)
                yield operation
            with self._lock:
                if not waiting:
                    self._pending.pop(stream, None)

    def unfinished(self) -> int:
        """How many operations were not over when they were last looked at."""
        return sum(map(len, self._pending.values()))

    def _event(self) -> int:
        try:
            return self._free.pop()
        except IndexError:
            return self._backend.event_create(True)

    def _time(self, operation: Operation, start: int, end: int) -> None:
        offset = self._backend.event_elapsed(self._base, start)
        begin = self._base_ns + round(offset * 1e6)
        operation.took(begin, begin + round(self._backend.event_elapsed(start, end) * 1e6))
        self._free.append(end)
        if offset > _FAR:
            self._base, self._base_ns, start = start, begin, self._base
        self._free.append(start)


class Operations:
    """Operations that are over: at most `most` of them.

    Beyond that short ones of a lane are drawn together, and where there are too many lanes for
    that, left out.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.kept: list[Operation] = []
        # How many there were, and up to which length (in nanoseconds) some were drawn together.
        self.count = 0
        self.drawn_together = 0
        # How many are not kept at all, of streams with few of them.
        self.left_out = 0
        # (kind, name, place) -> [how many, bytes, nanoseconds]: of all, whatever is kept.
        self.totals: dict[tuple[str, str, int], list[int]] = {}

    def add(self, operation: Operation) -> None:
        """Keep one."""
        self.count += 1
        total = self.totals.setdefault((operation.kind, operation.name, operation.place), [0, 0, 0])
        total[0] += 1
        total[1] += operation.nbytes
        total[2] += operation.busy
        self.kept.append(operation)
        if len(self.kept) > self._most:
            self._thin()

    def _thin(self) -> None:
        # The longest quarter stays as it is. Between two of these, what ran in one lane becomes
        # one: so at most half of them, and one for each lane, are left.
        limit = sorted(operation.busy for operation in self.kept)[len(self.kept) * 3 // 4]
        kept: list[Operation] = []
        run: dict[int, Operation] = {}
        for operation in sorted(self.kept, key=lambda each: each.begin):
            before = run.get(operation.lane)
            if operation.busy > limit:
                run.pop(operation.lane, None)
                kept.append(operation)
            elif before is None:
                run[operation.lane] = operation
                kept.append(operation)
            else:
                for each in (before, operation):
                    if each.count == 1:
                        self.drawn_together = max(self.drawn_together, each.busy)
                _join(before, operation)
        if len(kept) > self._most * 3 // 4:
            kept.sort(key=lambda each: -each.busy)
            self.left_out += sum(each.count for each in kept[self._most // 2 :])
            del kept[self._most // 2 :]
        self.kept = kept


def _join(first: Operation, second: Operation) -> None:
    if first.kind != second.kind or first.name != second.name:
        first.kind, first.name = "several", ""
    if first.place != second.place:
        first.place = 0
    first.nbytes += second.nbytes
    first.count += second.count
    first.busy += second.busy
    first.end = max(first.end, second.end)
