"""The observer of a traced program: it notes what happens, in memory of bounded size.

Only the standard library is imported before the program itself asks for a device, and nothing is
looked up or written before the program ends.
"""

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any

from haulage.runtime.process.observing import COMPILE
from haulage.tracing.comparing import Comparing
from haulage.tracing.memory_log import MemoryLog
from haulage.tracing.operations import Clock, Operation, Operations

if TYPE_CHECKING:
    from haulage.runtime.devices.device import Device
    from haulage.runtime.memory.block import Block

WAIT = "wait"
# What the host waits for, by the name of the driver's call.
_WAITS = {
    "synchronize": "wait for the device",
    "stream_synchronize": "wait for a stream",
    "event_synchronize": "wait for an event",
}
# Waits that are shorter, in nanoseconds, are counted and not drawn.
_SHORT_WAIT = 5000
# Lines beyond these are one: programs that make code as they run have no end of them.
_MOST_PLACES = 20000
# After so many events what is over is sorted in.
_OFTEN = 512

# The place of what no line is known of.
NOWHERE = 0


class Recorder:
    """Notes memory, operations of streams, waits and repeated copies.

    `most` bounds the operations and the changes of memory that are kept; `compare` is whether
    copies are compared with earlier ones.
    """

    def __init__(self, most: int, compare: bool) -> None:
        self.began = time.monotonic_ns()
        self.began_at = time.time()
        self.operations = Operations(most)
        self.memory = MemoryLog(most)
        # None: copies are not compared.
        self.comparing = Comparing(self) if compare else None
        # What a lane is: (name of a device, handle of its stream, ""), or ("", number of a thread,
        # its name).
        self.lanes: list[tuple[str, int, str]] = []
        self._lanes: dict[tuple[str, int, str], int] = {}
        # Call sites, by the number of their place; that of 0 is empty.
        self.call_sites: list[tuple[tuple[CodeType, int], ...]] = [()]
        self._places: dict[tuple[int, ...], int] = {}
        self.waits = [0, 0]
        # What went wrong with a device while its events were asked for times, and ended that.
        self.failed: dict[str, str] = {}
        self._clocks: dict[int, Clock] = {}
        # (time, device, kind of memory, generation of the block, bytes or -1, call site)
        self._changes: deque[tuple[int, str, str, int, int, Any]] = deque()
        self._of_host: deque[Operation] = deque()
        self._live: dict[int, tuple[int, int]] = {}
        self._events = 0
        self._closed = False
        self._sorting = threading.Lock()
        # A signal's handler may come in between, in the same thread.
        self._placing = threading.RLock()
        self._of_thread = threading.local()

    # ---- what is told ---------------------------------------------------------------------

    def allocated(self, block: "Block") -> None:
        """Note that a block was given out, unless it is over memory of others, as an array of
        another library's: `haulage.memory.stats()` does not count that either."""
        if block.pool is None:
            return
        self._changes.append(
            (
                *(time.monotonic_ns(), str(block.device), block.kind),
                *(block.generation, block.nbytes, block.call_site),
            )
        )
        if len(self._changes) >= _OFTEN:
            self._sort(())

    def freed(self, block: "Block") -> None:
        """Note that a block was given back."""
        self._changes.append(
            (time.monotonic_ns(), str(block.device), block.kind, block.generation, -1, None)
        )

    @property
    def inside(self) -> bool:
        """Whether this thread is handing work to a stream, or does what is not told."""
        return getattr(self._of_thread, "inside", False) or self._is_untold

    def around(
        self,
        device: "Device",
        stream: int,
        kind: str,
        name: str,
        nbytes: int,
        call: Callable[..., Any],
        *args: Any,
    ) -> Any:
        """Note work of a stream."""
        if self.inside:
            return call(*args)
        self._of_thread.inside = True
        try:
            if self._closed or str(device) in self.failed or stream in device.capturing:
                return call(*args)
            device.activate()
            clock = self._clocks.get(id(device))
            if clock is None:
                clock = self._clocks[id(device)] = Clock(device)
                if len(self._clocks) == 1:
                    # Called before what the driver, which is there by now, does at the end.
                    atexit.register(self.close)
            lane = self._lane(str(device), stream)
            given = clock.around(
                Operation(kind, name, nbytes, lane, self._place(_call_site())), stream, call, args
            )
        finally:
            self._of_thread.inside = False
        self._events += 1
        if self._events >= _OFTEN:
            self._events = 0
            self.sort_in()
            device.activate()
        return given

    @contextmanager
    def untold(self) -> Iterator[None]:
        """What this thread does inside is not the program's, and not noted."""
        before, self._of_thread.untold = self._is_untold, True
        try:
            yield
        finally:
            self._of_thread.untold = before

    @contextmanager
    def told(self) -> Iterator[None]:
        """What this thread does inside is the program's again."""
        before, self._of_thread.untold = self._is_untold, False
        try:
            yield
        finally:
            self._of_thread.untold = before

    @property
    def _is_untold(self) -> bool:
        return getattr(self._of_thread, "untold", False)

    def place(self, call_site: Any) -> int:
        """The number of a line."""
        return self._place(call_site)

    def compiling(self, kernel: str, work: Callable[..., Any], *args: Any) -> Any:
        """Note how long the host compiles."""
        if getattr(self._of_thread, "compiling", False):
            return work(*args)
        self._of_thread.compiling = True
        begin = time.monotonic_ns()
        try:
            return work(*args)
        finally:
            self._of_thread.compiling = False
            self._note_of_thread(COMPILE, f"compile {kernel}", begin, time.monotonic_ns())

    def waited(self, wait: Callable[..., Any], *args: Any) -> Any:
        """Note how long the host waits."""
        if self._is_untold:
            return wait(*args)
        begin = time.monotonic_ns()
        try:
            return wait(*args)
        finally:
            end = time.monotonic_ns()
            self.waits[0] += 1
            self.waits[1] += end - begin
            if end - begin >= _SHORT_WAIT and not getattr(self._of_thread, "compiling", False):
                name = _WAITS.get(wait.__name__, wait.__name__)
                self._note_of_thread(WAIT, name, begin, end)

    def _note_of_thread(self, kind: str, name: str, begin: int, end: int) -> None:
        thread = threading.current_thread()
        lane = self._lane("", threading.get_ident(), thread.name)
        operation = Operation(kind, name, 0, lane, self._place(_call_site()))
        operation.took(begin, end)
        self._of_host.append(operation)

    # ---- sorting it in --------------------------------------------------------------------

    @property
    def has_seen(self) -> bool:
        """Whether the process did anything with a device."""
        return bool(self.lanes or self.memory.groups)

    def sort_in(self) -> None:
        """Add up what is over by now."""
        self._sort(() if self._closed else tuple(self._clocks.values()))

    def _sort(self, clocks: tuple[Clock, ...]) -> None:
        if not self._sorting.acquire(blocking=False):
            return
        try:
            self._sort_changes()
            while self._of_host:
                self.operations.add(self._of_host.popleft())
            for clock in clocks:
                name = str(clock.device)
                if name in self.failed:
                    continue
                try:
                    for operation in clock.settle():
                        self.operations.add(operation)
                except Exception as error:
                    # The program meets the same failure at its own calls; it is told on the page.
                    self.failed[name] = f"{type(error).__name__}: {error}"
        finally:
            self._sorting.release()

    def _sort_changes(self) -> None:
        waiting = []
        while self._changes:
            waiting.append(self._changes.popleft())
        waiting.sort(key=lambda change: change[0])
        for at, device, kind, generation, nbytes, call_site in waiting:
            if nbytes >= 0:
                place = self._place(call_site)
                self._live[generation] = place, nbytes
                self.memory.add(at, (device, kind), place, nbytes)
            else:
                known = self._live.pop(generation, None)
                if known is not None:
                    self.memory.add(at, (device, kind), known[0], ~known[1])

    def close(self) -> None:
        """Ask the devices for the last time."""
        if not self._closed:
            self.sort_in()
            self._closed = True

    def unfinished(self) -> int:
        """How many operations were not over when the program ended."""
        return sum(clock.unfinished() for clock in self._clocks.values())

    # ---- names of things ------------------------------------------------------------------

    def _lane(self, device: str, number: int, thread: str = "") -> int:
        key = device, number, thread
        lane = self._lanes.get(key)
        if lane is None:
            with self._placing:
                lane = self._lanes.setdefault(key, len(self.lanes))
                if lane == len(self.lanes):
                    self.lanes.append(key)
        return lane

    def _place(self, call_site: tuple[tuple[CodeType, int], ...]) -> int:
        with self._placing:
            return self._place_of(call_site)

    def _place_of(self, call_site: tuple[tuple[CodeType, int], ...]) -> int:
        # By identity: the hash of a code object is one of all its contents. It is kept, so that
        # no other gets its number.
        key = tuple([part for code, at in call_site for part in (id(code), at)])
        place = self._places.get(key)
        if place is None:
            if len(self.call_sites) >= _MOST_PLACES:
                return NOWHERE
            place = self._places[key] = len(self.call_sites)
            self.call_sites.append(call_site)
        return place


def _call_site() -> Any:
    # Not before the program itself has asked for a device: it imports NumPy.
    from haulage.runtime.process.call_sites import current

    return current()
