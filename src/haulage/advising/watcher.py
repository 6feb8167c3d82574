"""The watcher of an advised program: it compares what is copied with what was copied before.

Only the standard library is imported before the program itself asks for a device.
"""

import atexit
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from haulage.advising.hosts import Hosts
from haulage.runtime.process import runtime
from haulage.tracing.operations import Clock, Operation
from haulage.tracing.repeats import Before, Repeats

if TYPE_CHECKING:
    import numpy as np

    from haulage.runtime.buffers.host_copy import HostCopy
    from haulage.runtime.devices.device import Device
    from haulage.runtime.memory import Block
    from haulage.runtime.process.call_sites import CallSite
    from haulage.runtime.process.observing import Argument
    from haulage.runtime.transfers.entries import Transfer

# After so many copies those that are over are added up.
_OFTEN = 256
# Lines beyond these are one: programs that make code as they run have no end of them.
_MOST_ROWS = 5000
# So many kinds of arrays are named of a line, and so many other lines.
_MOST_ARRAYS = 4
# So many host arrays of a line are told apart.
_MOST_HOSTS = 64


@dataclass(slots=True)
class Amount:
    """Copies: how many, their bytes, and nanoseconds that they took."""

    count: int = 0
    nbytes: int = 0
    ns: int = 0

    def add(self, nbytes: int) -> None:
        """Count one more."""
        self.count += 1
        self.nbytes += nbytes


@dataclass(slots=True)
class Way:
    """Copies of a row in one direction.

    Attributes:
        all: all of them.
        again: those that repeated unchanged data.
        returned: those of `again` that sent to the device what had come from there.
        unsure: those of `again` whose bytes the device may have lost or changed meanwhile.
        maybe: copies back that were needed only if the host looked at them: nothing had changed
            them when they were sent to the device again.
        since: the rows where the bytes of `again` were copied before.
    """

    all: Amount = field(default_factory=Amount)
    again: Amount = field(default_factory=Amount)
    returned: int = 0
    unsure: int = 0
    maybe: Amount = field(default_factory=Amount)
    since: "list[Row]" = field(default_factory=list)

    def took(self, operation: Operation, again: bool) -> None:
        """The time of one of them is known; `again`: it is one of `again`."""
        self.all.ns += operation.busy
        if again:
            self.again.ns += operation.busy


@dataclass(slots=True, eq=False)
class Row:
    """Copies that one line of the program asks for; of one argument if it is a launch.

    Attributes:
        call_site: the line.
        called: what the program called, in words.
        argument: of which launch they are an argument; None: of none.
        arrays: the shapes and dtypes of the arrays.
        hosts: the host arrays, by their number: how often they were sent with elements that the
            device did not have.
        up, down: the copies by direction.
    """

    call_site: "CallSite"
    called: str
    argument: "Argument | None"
    arrays: list[str] = field(default_factory=list)
    hosts: dict[int, int] = field(default_factory=dict)
    up: Way = field(default_factory=Way)
    down: Way = field(default_factory=Way)


class Watcher:
    """Notes copies between the host and devices by line, and which of them were not needed."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        # Copies of SmartArrays and between devices.
        self.smart = Amount()
        # Copies whose bytes were still on their way and could not be compared.
        self.not_compared = Amount()
        # Devices whose kernels use host arrays in place when nobody asks for copies.
        self.in_place: set[str] = set()
        self._repeats = Repeats(hold=True)
        self._hosts = Hosts()
        self._by_key: dict[Any, Row] = {}
        self._clocks: dict[int, Clock] = {}
        # What is timed, by its operation: that itself, its way, and whether it is one of `again`.
        self._timed: dict[int, tuple[Operation, Way, bool]] = {}
        self._closed = False
        self._lock = threading.RLock()

    # ---- what is told ---------------------------------------------------------------------

    def moved(self, one: "Transfer") -> None:
        """SmartArrays copy what changed only, and what goes between devices is not compared."""
        with self._lock:
            self.smart.add(one.nbytes)

    def around(self, copy: "HostCopy", call: Callable[[], object]) -> None:
        """Compare a copy with those before, and note what it took."""
        if self._closed:
            call()
            return
        row = self._row(copy)
        operation = Operation("", "", copy.nbytes, 0, 0)
        clock, stream = self._clock(copy.stream.device), copy.stream.handle
        looked = self._repeats.around(copy, row, lambda: clock.around(operation, stream, call, ()))
        if not looked.compared:
            self._count(row, True, operation, None)
            with self._lock:
                self.not_compared.count += 1
                self.not_compared.nbytes += operation.nbytes
            return
        if not copy.is_new:
            self._note_host(row, copy.host, needed=not copy.to_host and looked.before is None)
        self._count(row, copy.to_host, operation, looked.before)

    def closing(self, block: "Block") -> None:
        """Look at what a block has before it is closed."""
        self._repeats.closing(block)

    def let_go(self) -> None:
        """Hold no memory of devices any more."""
        self._repeats.let_go()

    def make_room(self, device: "Device", nbytes: int, wanted: int) -> int:
        """Hold less memory of a device that has no room; how many bytes less."""
        if self._closed:
            return 0
        return self._repeats.let_go(device, wanted)

    # ---- what is noted --------------------------------------------------------------------

    def _row(self, copy: "HostCopy") -> Row:
        from haulage.runtime.geometry.layout import in_words

        path = None if copy.argument is None else copy.argument.path
        # Code by identity: its hash is one of all its contents. The row keeps it.
        key = (path, *((id(code), at) for code, at in copy.call_site))
        with self._lock:
            row = self._by_key.get(key)
            if row is None:
                if len(self.rows) >= _MOST_ROWS:
                    return self.rows[-1]
                row = self._by_key[key] = Row(copy.call_site, copy.called, copy.argument)
                self.rows.append(row)
            array = in_words(copy.host.shape, copy.host.dtype)
            if array not in row.arrays and len(row.arrays) < _MOST_ARRAYS:
                row.arrays.append(array)
            device = copy.stream.device
            if copy.argument and device.properties.host_memory_is_device_memory:
                self.in_place.add(str(device))
        return row

    def _note_host(self, row: Row, host: "np.ndarray", needed: bool) -> None:
        with self._lock:
            number = self._hosts.number(host)
            if number in row.hosts or len(row.hosts) < _MOST_HOSTS:
                row.hosts[number] = row.hosts.get(number, 0) + needed

    def _count(self, row: Row, down: bool, operation: Operation, before: Before | None) -> None:
        way, nbytes = row.down if down else row.up, operation.nbytes
        with self._lock:
            way.all.add(nbytes)
            if before is not None:
                way.again.add(nbytes)
                way.unsure += before.is_unsure
                known = before.known
                if known is not None:
                    if known.row not in way.since and len(way.since) < _MOST_ARRAYS:
                        way.since.append(known.row)
                    if known.down and not down:
                        way.returned += 1
                        if not known.again:
                            known.row.down.maybe.add(nbytes)
            again = before is not None
            if operation.end:
                # Another thread has settled it meanwhile.
                way.took(operation, again)
            else:
                self._timed[id(operation)] = operation, way, again
            many = len(self._timed) >= _OFTEN
        if many:
            self._settle()

    # ---- times ----------------------------------------------------------------------------

    def _clock(self, device: "Device") -> Clock:
        with self._lock:
            clock = self._clocks.get(id(device))
            if clock is None:
                clock = self._clocks[id(device)] = Clock(device)
                if len(self._clocks) == 1:
                    runtime.current.evict.append(self.make_room)
                    # Called before what the driver, which is there by now, does at the end.
                    atexit.register(self.close)
        return clock

    def _settle(self) -> None:
        with self._lock:
            for clock in self._clocks.values():
                for operation in clock.settle():
                    # One that is still being compared is not here; who does that looks at its end.
                    timed = self._timed.pop(id(operation), None)
                    if timed is not None:
                        _, way, again = timed
                        way.took(operation, again)

    def leave(self) -> None:
        """Watch no more, in a forked child: locks may be held, and streams are the parent's."""
        self._closed = True

    def close(self) -> None:
        """Watch no more, and ask the devices for the times that are still to come."""
        if not self._closed:
            self._settle()
            self._closed = True
            self.let_go()
