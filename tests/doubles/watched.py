"""A back end around another one that knows all that it gave out, and can let any call fail.

It keeps a list of the memory, streams, events and so on that the back end within has given and not
taken back. What no driver forgives is noted in `violations`: giving something back twice, or
something that was never given; freeing memory that work handed over before may still use; using a
stream or an event that is gone.

A call that is made to fail does nothing, but where it gives something back.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import haulage
from doubles.far import FarBackend, registered
from haulage.backends.base import Backend, Probe
from haulage.backends.cpu import CPUBackend
from haulage.errors import DeviceError, OutOfMemory
from haulage.runtime.devices.device import Device
from haulage.runtime.geometry import layout


class Injected(DeviceError):
    """A call that was made to fail."""


class InjectedShortage(Injected, OutOfMemory):
    """A call for memory that was made to fail."""


# What makes something, and the kind of thing that is in `live` then.
_MAKES = {
    "stream_create": "stream",
    "event_create": "event",
    "load": "module",
    "reserve": "range",
}
_UNMAKES = {
    "stream_destroy": "stream",
    "event_destroy": "event",
    "unload": "module",
    "unregister": "registration",
    "ipc_close": "import",
    "release": "range",
}
_USES = {
    "event_record": "event",
    "event_synchronize": "event",
    "event_query": "event",
    "event_poll": "event",
}
# What these failed at is done all the same: a driver tells with them of what went wrong before.
GIVES_BACK = frozenset({*_UNMAKES, "free", "unmap"})

# What tells of the device, or never reaches a driver.
_UNCOUNTED = frozenset(
    {"activate", "count", "properties", "memory_info", "messages", "unraised", "granularity"}
    | {
        "adversary",
        "stream_priorities",
        "can_access_peer",
        "profile",
        "prepare_launch",
        "idle_query",
    }
)
# What fails for want of room.
SHORTAGES = frozenset({"alloc", "map", "register"})


class Recorder:
    """What `Watched` does around each call."""

    inner: Backend

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.live: dict[tuple[str, int], object] = {}
        self.violations: list[str] = []
        self.calls: list[str] = []
        self._counting = False
        self._fails_at = -1
        self._error: Callable[[str], BaseException] | None = None
        self._for_good = False
        self._failing = ""
        self._lock = threading.RLock()

    # ---- counting and failing -----------------------------------------------------------------

    def count_from_here(
        self,
        fails_at: int = -1,
        error: Callable[[str], BaseException] | None = None,
        for_good: bool = False,
    ) -> None:
        """Begin `calls` anew; the call that would be number `fails_at` in it raises instead what
        `error` makes of the method's name, and `for_good` all later ones of that method do."""
        with self._lock:
            self.calls = []
            self._counting = True
            self._fails_at = fails_at
            self._error = error
            self._for_good = for_good
            self._failing = ""

    def stop_counting(self) -> list[str]:
        """The names of the methods that were called, in order; none fails any more."""
        with self._lock:
            self._counting = False
            return self.calls

    def _note_call(self, name: str) -> BaseException | None:
        """What the call must raise, if anything."""
        with self._lock:
            if not self._counting or name in _UNCOUNTED:
                return None
            self.calls.append(name)
            if self._error is None or not (
                len(self.calls) - 1 == self._fails_at or name == self._failing
            ):
                return None
            if self._for_good:
                self._failing = name
            return self._error(name)

    # ---- the things -----------------------------------------------------------------------------

    def held(self) -> Counter[str]:
        """How many things of each kind are not given back."""
        with self._lock:
            return Counter(kind for kind, _ in self.live)

    def _violated(self, what: str) -> None:
        self.violations.append(what)

    def _call(self, name: str, *args: Any, **named: Any) -> Any:
        error = self._note_call(name)
        if error is not None and name not in GIVES_BACK:
            raise error
        with self._lock:
            self._before(name, args)
        result = getattr(self.inner, name)(*args, **named)
        with self._lock:
            self._after(name, args, result)
        if error is not None:
            raise error
        return result

    def _before(self, name: str, args: tuple[Any, ...]) -> None:
        kind = _UNMAKES.get(name)
        if kind is not None and self.live.pop((kind, args[0]), None) is None:
            self._violated(f"{name}({args[0]:#x}): there is no such {kind}")
        used = _USES.get(name)
        if used is not None and (used, args[0]) not in self.live:
            self._violated(f"{name}({args[0]:#x}): there is no such {used}")
        if name == "free":
            self._before_free(*args)
        if name == "unmap":
            self._check_unused(name, *args)
            parts = [self.live.pop(("mapping", part), None) for part in self._parts(*args)]
            if None in parts:
                self._violated(f"unmap{args}: a part is not mapped")
        if name in ("event_record", "stream_wait_event"):
            event, stream = args if name == "event_record" else args[::-1]
            if stream and ("stream", stream) not in self.live:
                self._violated(f"{name}: there is no stream {stream:#x}")
            if ("event", event) not in self.live:
                self._violated(f"{name}: there is no event {event:#x}")

    def _before_free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        known = self.live.pop(("memory", device_ptr), None)
        if known is None:
            self._violated(f"free({device_ptr:#x}): there is no such memory")
            return
        assert isinstance(known, tuple)
        nbytes, known_host, known_kind = known
        if (known_host, known_kind) != (host_ptr, kind):
            self._violated(f"free({device_ptr:#x}, {host_ptr:#x}, {kind!r}): it is {known}")
        self._check_unused("free", device_ptr, nbytes)
        if host_ptr and host_ptr != device_ptr:
            self._check_unused("free", host_ptr, nbytes)

    def _check_unused(self, name: str, start: int, nbytes: int) -> None:
        for use in self._uses_of(start, start + nbytes):
            if not self.inner.event_query(use[3]):
                self._violated(f"{name} of memory at {start:#x} that a {use[2]} may still use")

    def _after(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        if name in _MAKES:
            self.live[_MAKES[name], result] = args
        elif name == "alloc":
            self.live["memory", result[0]] = (args[0], result[1], args[1])
        elif name == "register":
            self.live["registration", args[0]] = args[1]
        elif name == "map":
            self.live.update({("mapping", part): args for part in self._parts(*args)})
        elif name == "ipc_import":
            self.live["import", result[0]] = result[1]
        elif name == "copy":
            dst, src, nbytes, stream = args
            self._used(name, stream, (dst, dst + nbytes), (src, src + nbytes))
        elif name == "copy_nd":
            dst, to, src, of, shape, itemsize, stream = args
            self._used(
                name, stream, _range(dst, to, shape, itemsize), _range(src, of, shape, itemsize)
            )
        elif name == "fill":
            dst, value, count, stream = args
            self._used(name, stream, (dst, dst + len(value) * count))
        elif name in ("launch", "launch_cooperative"):
            self._used_by_kernel(args[4], args[5])

    def _parts(self, address: int, nbytes: int) -> range:
        return range(address, address + nbytes, self.inner.granularity())

    # ---- work -----------------------------------------------------------------------------------

    _uses: list[tuple[int, int, str, int]]

    def _uses_of(self, start: int, stop: int) -> list[tuple[int, int, str, int]]:
        return [use for use in self._uses if use[0] < stop and start < use[1]]

    def _used(self, name: str, stream: int, *ranges: tuple[int, int]) -> None:
        kept = []
        for use in self._uses:
            if self.inner.event_query(use[3]):
                self.inner.event_destroy(use[3])
            else:
                kept.append(use)
        for start, stop in ranges:
            event = self.inner.event_create(False)
            self.inner.event_record(event, stream)
            kept.append((start, stop, name, event))
        self._uses = kept

    def _used_by_kernel(self, stream: int, args: bytes) -> None:
        words = memoryview(args[: len(args) & -8]).cast("Q")
        found = {
            (start, start + known[0])
            for (kind, start), known in self.live.items()
            if kind == "memory" and isinstance(known, tuple)
            for word in words
            if start <= word < start + known[0]
        }
        self._used("launch", stream, *sorted(found))


# Makes what is raised of the method's name and a message.
Fault = Callable[[str, str], BaseException]


def shortage_or_error(name: str, message: str) -> BaseException:
    """What a driver would raise if the method `name` failed."""
    return (InjectedShortage if name in SHORTAGES else Injected)(message)


def interrupt(name: str, message: str) -> BaseException:
    """Ctrl-C before the call."""
    return KeyboardInterrupt(message)


def _range(
    start: int, strides: Sequence[int], shape: Sequence[int], itemsize: int
) -> tuple[int, int]:
    low, high = layout.extent(tuple(shape), tuple(strides), itemsize)
    return start + low, start + high


def _prepare_launch(
    self: Recorder,
    device: int,
    function: int,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
) -> tuple[bytes, Callable[[int, bytes], None]]:
    header, start = self.inner.prepare_launch(device, function, grid, block, shared_bytes)

    def launch(stream: int, args: bytes) -> None:
        error = self._note_call("launch")
        if error is not None:
            raise error
        start(stream, args)
        with self._lock:
            self._used_by_kernel(stream, args[len(header) :])

    return header, launch


def _forwarded(name: str) -> Callable[..., Any]:
    def method(self: Recorder, *args: Any, **named: Any) -> Any:
        return self._call(name, *args, **named)

    return method


_METHODS = [
    name
    for name, member in vars(Backend).items()
    if callable(member) and not name.startswith("_") and name not in ("probe", "prepare_launch")
]


def _init(self: Any, inner: Backend) -> None:
    Recorder.__init__(self, inner)
    self._uses = []
    self.name = inner.name


Watched: Any = type(
    "Watched",
    (Recorder, Backend),
    {
        "__init__": _init,
        "__doc__": __doc__,
        "probe": classmethod(lambda cls: Probe(True, ("a test",), "a back end that is watched")),
        "prepare_launch": _prepare_launch,
        **{name: _forwarded(name) for name in _METHODS},
    },
)


BACKENDS: dict[str, Callable[[], Backend]] = {
    "cpu": CPUBackend,
    "far": lambda: FarBackend(64 << 20),
}


@contextmanager
def watched_device(kind: str) -> Iterator[Device]:
    """A device of its own, of one of `BACKENDS`, whose driver is watched; it is the current one."""
    device = Device(f"watched-{kind}", Watched(BACKENDS[kind]()), 0)
    with registered(device), haulage.use(device):
        yield device
