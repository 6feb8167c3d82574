"""What every back end must do, as small checks: functions of (back end, programs).

    for check in checks():
        check(backend, programs)

Each asserts one behaviour of `Backend` on its active device. Kernels come from `Programs`, as code
for the device under test, with arguments packed as `Backend.launch` says. Let g and b be the linear
numbers of the block in its grid and of the thread in its block (x fastest), and i = g * threads
of a block + b.

    where  (u32 *out)                             out[12 i ...] = blockIdx, threadIdx, gridDim,
                                                  blockDim (x, y, z of each)
    types  (i64 *ints, f64 *floats,               i = 0: ints = the eight integers and floats = the
            i8, u8, i16, u16, i32, u32,           two floats, each widened; u64 keeps its bits
            i64, u64, f32, f64)
    scale  (f32 *x, i64 n, f32 factor)            x[i] *= factor where i < n
    chain  (i64 *x, i64 a, i64 b, i64 rounds)     i = 0: after `rounds` steps of a loop that takes
                                                  about a nanosecond each, x[0] = a x[0] + b
    stop   (i64 *x, i64 fault)                    x[g] = 1; then b = 0 of g = 1 stops with `fault`
"""

import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from haulage.backends.base import (
    DEVICE,
    KINDS,
    MANAGED,
    NON_BLOCKING,
    PINNED,
    Backend,
    KernelStopped,
)
from haulage.errors import DeviceError, OutOfMemory, Unsupported

KERNELS = ("where", "types", "scale", "chain", "stop")

# Steps of `chain` that take long enough to be overtaken by work that does not wait: milliseconds.
LONG = 5_000_000


class Programs(Protocol):
    """Gives the suite its kernels."""

    @property
    def reports_faults(self) -> bool:
        """Whether a kernel's fault reaches the host on this device (not so on most GPUs)."""

    def code(self) -> bytes:
        """One module, for `Backend.load`, that has all of `KERNELS`."""


Check = Callable[[Backend, Programs], None]
_checks: list[Check] = []


def checks() -> list[Check]:
    """All checks, in the order of the seam; each has a name and a docstring."""
    return list(_checks)


def _check(function: Check) -> Check:
    _checks.append(function)
    return function


# ---- helpers --------------------------------------------------------------------------------------


class _Room:
    """Device memory and code of one check, given back at its end."""

    def __init__(self, backend: Backend, programs: Programs) -> None:
        self.backend = backend
        self._programs = programs
        self._memory: list[tuple[int, int, str]] = []
        self._streams: list[int] = []
        self._events: list[int] = []
        self._module = 0

    def alloc(self, nbytes: int, kind: str = DEVICE) -> int:
        """Device pointer of new memory."""
        device, host = self.backend.alloc(nbytes, kind)
        self._memory.append((device, host, kind))
        return device

    def put(self, array: np.ndarray) -> int:
        """Device pointer of new memory with the array's bytes."""
        pointer = self.alloc(array.nbytes)
        self.backend.copy(pointer, _address(array), array.nbytes, 0)
        self.backend.stream_synchronize(0)
        return pointer

    def get(self, pointer: int, like: np.ndarray) -> np.ndarray:
        """A host array as `like` from device memory, after all work."""
        self.backend.synchronize()
        result = np.empty_like(like)
        self.backend.copy(_address(result), pointer, result.nbytes, 0)
        self.backend.synchronize()
        return result

    def stream(self, flags: int = 0) -> int:
        """A new stream."""
        self._streams.append(self.backend.stream_create(flags))
        return self._streams[-1]

    def event(self) -> int:
        """A new event with timing."""
        self._events.append(self.backend.event_create())
        return self._events[-1]

    def function(self, name: str) -> int:
        """One of the kernels."""
        if not self._module:
            self._module = self.backend.load(self._programs.code())
        return self.backend.function(self._module, name)

    def chain(self, pointer: int, a: int, b: int, stream: int, rounds: int = LONG) -> None:
        """Launch `chain` on one thread."""
        args = struct.pack("@Pqqq", pointer, a, b, rounds)
        self.backend.launch(self.function("chain"), (1, 1, 1), (1, 1, 1), 0, stream, args)

    def close(self) -> None:
        """Give everything back."""
        self.backend.synchronize()
        for event in self._events:
            self.backend.event_destroy(event)
        for stream in self._streams:
            self.backend.stream_destroy(stream)
        if self._module:
            self.backend.unload(self._module)
        for entry in self._memory:
            self.backend.free(*entry)


@contextmanager
def _room(backend: Backend, programs: Programs) -> Iterator[_Room]:
    room = _Room(backend, programs)
    yield room
    room.close()  # not after a failed check, whose own error is the one to see


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _same(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    assert np.array_equal(got, expected), f"{what}: got {got}, expected {expected}"


_ONE = np.zeros(1, np.int64)


# ---- devices --------------------------------------------------------------------------------------


@_check
def devices_have_properties(backend: Backend, programs: Programs) -> None:
    """There is a device; its properties are sound and the same each time."""
    assert type(backend).probe().available, "a back end under test must find its driver"
    assert backend.count() >= 1
    first = backend.properties(0)
    assert first == backend.properties(0), "properties changed"
    assert first.name
    assert first.warp_size in (32, 64), f"warp size {first.warp_size}"
    assert first.multiprocessors >= 1
    assert all(extent >= 1 for extent in (*first.max_block, *first.max_grid))
    assert first.total_memory > 0


@_check
def memory_info_is_sound(backend: Backend, programs: Programs) -> None:
    """Free memory lies between nothing and all."""
    free, total = backend.memory_info()
    assert 0 < free <= total, f"free {free}, total {total}"


# ---- memory ---------------------------------------------------------------------------------------


@_check
def every_kind_is_aligned_and_apart(backend: Backend, programs: Programs) -> None:
    """Memory of each kind and of odd sizes is aligned to 256 bytes and overlaps no other."""
    with _room(backend, programs) as room:
        ranges = []
        for kind, nbytes in itertools.product(KINDS, (1, 3, 256, 1000, 100_000)):
            pointer = room.alloc(nbytes, kind)
            assert pointer % 256 == 0, f"{kind} memory of {nbytes} bytes at {pointer:#x}"
            ranges.append((pointer, pointer + nbytes))
        ranges.sort()
        for (_, end), (start, _) in itertools.pairwise(ranges):
            assert end <= start, "two allocations overlap"


@_check
def host_pointers_are_host_memory(backend: Backend, programs: Programs) -> None:
    """What has a host pointer can be written by the host and read by a copy."""
    with _room(backend, programs) as room:
        data = np.arange(100, dtype=np.uint8)
        for kind in KINDS:
            device, host = backend.alloc(data.nbytes, kind)
            if kind == PINNED:
                assert host, "pinned memory without a host pointer"
            if host:
                _host_view(host, data.nbytes)[...] = data
                _same(room.get(device, data), data, f"{kind} memory written by the host")
            backend.free(device, host, kind)


def _host_view(address: int, nbytes: int) -> np.ndarray:
    class Raw:
        __array_interface__ = {  # noqa: RUF012
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    return np.asarray(Raw())


@_check
def too_much_is_out_of_memory(backend: Backend, programs: Programs) -> None:
    """More than there is raises OutOfMemory, which names the size; smaller memory is there after."""
    asked = 1 << 55
    for kind in (DEVICE, PINNED):
        try:
            backend.alloc(asked, kind)
        except OutOfMemory as error:
            digits = "".join(c for c in str(error) if c.isdigit())
            assert str(asked) in digits, f"the message does not name {asked}: {error}"
        else:
            raise AssertionError(f"{asked} bytes of {kind} memory were given")
    with _room(backend, programs) as room:
        room.alloc(1024)


@_check
def host_memory_can_be_registered(backend: Backend, programs: Programs) -> None:
    """Registered memory is reached through its device pointer, until it is unregistered."""
    with _room(backend, programs) as room:
        data = np.arange(1 << 16, dtype=np.uint8)
        pointer = backend.register(_address(data), data.nbytes)
        _same(room.get(pointer, data), data, "registered memory")
        backend.unregister(_address(data))
        backend.register(_address(data), data.nbytes)
        backend.unregister(_address(data))


@_check
def copies_go_every_way(backend: Backend, programs: Programs) -> None:
    """Host to device, device to device, device to host: the bytes arrive, their neighbours stay."""
    with _room(backend, programs) as room:
        data = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
        first, second = room.put(data), room.put(np.zeros_like(data))
        backend.copy(second + 7, first + 3, 4000, 0)
        expected = np.zeros_like(data)
        expected[7:4007] = data[3:4003]
        _same(room.get(second, data), expected, "device to device")


def _strided(room: _Room, source: np.ndarray, target: np.ndarray, itemsize: int, what: str) -> None:
    """Copy `source` to `target` (views of one shape) on the device and compare with NumPy."""
    source_base, target_base = _base(source), _base(target)
    expected = target_base.copy()
    _like(target, target_base, expected)[...] = source
    src, dst = room.put(source_base), room.put(target_base)
    room.backend.copy_nd(
        dst + _address(target) - _address(target_base),
        target.strides,
        src + _address(source) - _address(source_base),
        source.strides,
        source.shape,
        itemsize,
        0,
    )
    _same(room.get(dst, target_base), expected, what)


def _base(view: np.ndarray) -> np.ndarray:
    while isinstance(view.base, np.ndarray):
        view = view.base
    return view


def _like(view: np.ndarray, base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The same view of `other` as `view` is of `base`."""
    offset = _address(view) - _address(base)
    return np.ndarray(view.shape, view.dtype, other, offset, view.strides)


@_check
def strided_copies(backend: Backend, programs: Programs) -> None:
    """Steps, transposes, reversals and broadcasts give NumPy's result, for every item size."""
    views: dict[str, tuple[Callable, Callable]] = {
        "steps": (lambda a: a[::2, 1:9:3], lambda a: a[3:9, 2:8:2]),
        "transpose": (lambda a: a.T, lambda a: a),
        "reversed source": (lambda a: a[::-1, ::-2], lambda a: a[:, 5:11]),
        "reversed target": (lambda a: a[:, :6], lambda a: a[::-1, ::2]),
        "broadcast row": (lambda a: np.broadcast_to(a[3], a.shape), lambda a: a),
        "broadcast item": (lambda a: np.broadcast_to(a[3, 4], a.shape), lambda a: a),
        "one item": (lambda a: a[5:6, 7:8], lambda a: a[:1, :1]),
        "nothing": (lambda a: a[5:5], lambda a: a[:0]),
        "a scalar": (lambda a: a[2, 3:4].reshape(()), lambda a: a[1, :1].reshape(())),
    }
    with _room(backend, programs) as room:
        for dtype in ("u1", "u2", "f4", "f8", "c16", "V3", "V12", "V24"):
            for name, (of_source, of_target) in views.items():
                source, target = _numbered(12, dtype, 1), _numbered(12, dtype, 101)
                a, b = of_source(source), of_target(target)
                a, b = (a, b[: a.shape[0]]) if a.ndim else (a, b)
                _strided(room, a, b, source.itemsize, f"{name}, {dtype}")


def _numbered(side: int, dtype: str, start: int) -> np.ndarray:
    items = np.zeros((side, side), dtype)
    raw = items.reshape(-1).view(np.uint8)
    raw[...] = (np.arange(raw.size) + start) % 251
    if dtype in ("f4", "f8", "c16"):  # bytes of ordinary numbers, as NaN is unequal to itself
        items[...] = (np.arange(items.size) + start).reshape(items.shape)
    return items


@_check
def three_dimensional_copies(backend: Backend, programs: Programs) -> None:
    """Axes can be permuted at will."""
    with _room(backend, programs) as room:
        for axes in itertools.permutations(range(3)):
            source = np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6).copy()
            view = source.transpose(axes)
            _strided(room, view, np.zeros(view.shape, np.int32), 4, f"axes {axes}")


@_check
def fills(backend: Backend, programs: Programs) -> None:
    """A value of 1 to 16 bytes is repeated; bytes before and after stay."""
    with _room(backend, programs) as room:
        for size in range(1, 17):
            for value in (bytes(range(1, size + 1)), bytes(size), b"\xab" * size):
                around = np.full(1000, 7, np.uint8)
                pointer = room.put(around)
                backend.fill(pointer + 16, value, 50, 0)
                expected = around.copy()
                expected[16 : 16 + 50 * size] = np.frombuffer(value * 50, np.uint8)
                _same(room.get(pointer, around), expected, f"fill with {value!r}")


# ---- streams and events ---------------------------------------------------------------------------


@_check
def handles_are_distinct(backend: Backend, programs: Programs) -> None:
    """Streams and events have handles of their own that are not 0."""
    with _room(backend, programs) as room:
        for make in (room.stream, room.event):
            handles = [make() for _ in range(20)]
            assert 0 not in handles
            assert len(set(handles)) == 20


@_check
def a_stream_keeps_its_order(backend: Backend, programs: Programs) -> None:
    """Kernels, copies and fills of one stream happen in the order they were handed over."""
    with _room(backend, programs) as room:
        for stream in (0, room.stream(), room.stream(NON_BLOCKING)):
            x, y = room.put(_ONE), room.put(_ONE)
            room.chain(x, 0, 5, stream)
            backend.copy(y, x, 8, stream)
            backend.fill(x, b"\x00", 8, stream)
            room.chain(y, 10, 3, stream)
            backend.stream_synchronize(stream)
            assert backend.stream_query(stream), "not done after a synchronise"
            assert room.get(y, _ONE)[0] == 53
            assert room.get(x, _ONE)[0] == 0


@_check
def the_default_stream_waits_for_others(backend: Backend, programs: Programs) -> None:
    """Work of the default stream sees earlier work of a blocking stream."""
    with _room(backend, programs) as room:
        one, two = room.stream(), room.stream()
        for _ in range(3):
            x, y, z = (room.put(_ONE) for _ in range(3))
            room.chain(x, 0, 5, one)
            room.chain(y, 0, 6, two)
            backend.copy(z, x, 8, 0)
            backend.copy(x, y, 8, 0)
            backend.stream_synchronize(0)
            assert room.get(z, _ONE)[0] == 5
            assert room.get(x, _ONE)[0] == 6


@_check
def others_wait_for_the_default_stream(backend: Backend, programs: Programs) -> None:
    """Work of a blocking stream sees earlier work of the default stream."""
    with _room(backend, programs) as room:
        stream, other = room.stream(), room.stream()
        x, y = room.put(_ONE), room.put(_ONE)
        room.chain(x, 0, 2, other)
        room.chain(x, 10, 3, 0)
        backend.copy(y, x, 8, stream)
        backend.stream_synchronize(stream)
        assert room.get(y, _ONE)[0] == 23


@_check
def a_non_blocking_stream_is_exempt(backend: Backend, programs: Programs) -> None:
    """The default stream's work does not wait for a non-blocking stream."""
    with _room(backend, programs) as room:
        free = room.stream(NON_BLOCKING)
        x, y = room.put(_ONE), room.put(_ONE)
        room.chain(x, 0, 5, free, rounds=100 * LONG)
        room.chain(y, 0, 6, 0, rounds=1)
        backend.stream_synchronize(0)
        assert not backend.stream_query(free), "the default stream waited for it"
        assert room.get(x, _ONE)[0] == 5


@_check
def a_destroyed_stream_ends_its_work(backend: Backend, programs: Programs) -> None:
    """Destroying a stream does not drop what it holds."""
    with _room(backend, programs) as room:
        x = room.put(_ONE)
        stream = backend.stream_create()
        room.chain(x, 0, 5, stream)
        room.chain(x, 10, 1, stream)
        backend.stream_destroy(stream)
        assert room.get(x, _ONE)[0] == 51


@_check
def events_order_streams(backend: Backend, programs: Programs) -> None:
    """Work after a wait for an event sees what was before its record."""
    with _room(backend, programs) as room:
        one, two = room.stream(NON_BLOCKING), room.stream(NON_BLOCKING)
        for _ in range(3):
            x, y, event = room.put(_ONE), room.put(_ONE), room.event()
            room.chain(x, 0, 5, one)
            backend.event_record(event, one)
            backend.stream_wait_event(two, event)
            backend.copy(y, x, 8, two)
            backend.stream_synchronize(two)
            assert room.get(y, _ONE)[0] == 5


@_check
def the_default_stream_waits_for_events(backend: Backend, programs: Programs) -> None:
    """An event of a non-blocking stream orders the default stream, and blocking ones after it."""
    with _room(backend, programs) as room:
        free, stream = room.stream(NON_BLOCKING), room.stream()
        x, y, z, event = room.put(_ONE), room.put(_ONE), room.put(_ONE), room.event()
        room.chain(x, 0, 5, free)
        backend.event_record(event, free)
        backend.stream_wait_event(0, event)
        backend.copy(y, x, 8, 0)
        backend.copy(z, y, 8, stream)
        backend.stream_synchronize(stream)
        assert room.get(z, _ONE)[0] == 5


@_check
def waits_hang_on_the_record_they_saw(backend: Backend, programs: Programs) -> None:
    """Recording an event again, or destroying it, does not move waits that were made before."""
    with _room(backend, programs) as room:
        one, two = room.stream(NON_BLOCKING), room.stream(NON_BLOCKING)
        x, y, slow = room.put(_ONE), room.put(_ONE), room.put(_ONE)
        event = backend.event_create()
        room.chain(x, 0, 5, one)
        backend.event_record(event, one)
        backend.stream_wait_event(two, event)
        room.chain(slow, 0, 1, one, rounds=100 * LONG)
        backend.event_record(event, one)
        backend.copy(y, x, 8, two)
        backend.stream_synchronize(two)
        assert not backend.event_query(event), "the wait took the later record"
        backend.event_destroy(event)
        assert room.get(y, _ONE)[0] == 5


@_check
def events_tell_where_they_are(backend: Backend, programs: Programs) -> None:
    """An event is reached if never recorded, not reached while its stream works, then reached."""
    with _room(backend, programs) as room:
        stream, event = room.stream(), room.event()
        assert backend.event_query(event)
        backend.event_synchronize(event)
        backend.stream_wait_event(stream, event)
        x = room.put(_ONE)
        room.chain(x, 0, 5, stream, rounds=100 * LONG)
        backend.event_record(event, stream)
        assert not backend.event_query(event), "reached before the kernel's end"
        assert not backend.stream_query(stream)
        backend.event_synchronize(event)
        assert backend.event_query(event)


@_check
def events_measure_time(backend: Backend, programs: Programs) -> None:
    """Elapsed time is about as long as the work between; without records it is an error."""
    with _room(backend, programs) as room:
        stream, start, end = room.stream(), room.event(), room.event()
        _refuses(lambda: backend.event_elapsed(start, end), "events never recorded")
        x = room.put(_ONE)
        backend.event_record(start, stream)
        room.chain(x, 0, 5, stream, rounds=100 * LONG)
        backend.event_record(end, stream)
        _refuses(lambda: backend.event_elapsed(start, end), "an event that is not reached")
        backend.event_synchronize(end)
        milliseconds = backend.event_elapsed(start, end)
        assert 1 < milliseconds < 60_000, f"{milliseconds} ms"
        assert backend.event_elapsed(end, start) == -milliseconds
        untimed = backend.event_create(False)
        backend.event_record(untimed, stream)
        backend.event_synchronize(untimed)
        _refuses(lambda: backend.event_elapsed(start, untimed), "an event without timing")
        backend.event_destroy(untimed)


def _refuses(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except DeviceError:
        return
    raise AssertionError(f"no DeviceError for {what}")


# ---- code -----------------------------------------------------------------------------------------


@_check
def bad_code_is_refused(backend: Backend, programs: Programs) -> None:
    """What is no code, and names that a module does not have, are DeviceErrors."""
    _refuses(lambda: backend.load(b"this is no code for any device"), "text instead of code")
    module = backend.load(programs.code())
    _refuses(lambda: backend.function(module, "no_such_kernel"), "an unknown function")
    backend.unload(module)


@_check
def modules_come_and_go(backend: Backend, programs: Programs) -> None:
    """The same code can be loaded twice, and unloading one leaves the other."""
    with _room(backend, programs) as room:
        first, second = backend.load(programs.code()), backend.load(programs.code())
        backend.unload(first)
        x = room.put(_ONE)
        function = backend.function(second, "chain")
        backend.launch(function, (1, 1, 1), (1, 1, 1), 0, 0, struct.pack("@Pqqq", x, 0, 4, 1))
        assert room.get(x, _ONE)[0] == 4
        backend.unload(second)


@_check
def every_thread_knows_its_place(backend: Backend, programs: Programs) -> None:
    """Grids and blocks of one to three dimensions run each thread once, with the right indices."""
    shapes: Sequence[tuple[tuple[int, int, int], tuple[int, int, int]]] = (
        ((1, 1, 1), (1, 1, 1)),
        ((1, 1, 1), (1024, 1, 1)),
        ((67, 1, 1), (5, 1, 1)),
        ((3, 5, 7), (4, 3, 2)),
        ((1, 1, 40), (1, 1, 8)),
        ((1, 33, 1), (1, 16, 1)),
    )
    with _room(backend, programs) as room:
        function, stream = room.function("where"), room.stream()
        for grid, block in shapes:
            total = int(np.prod(grid) * np.prod(block))
            expected = np.empty((total, 12), np.uint32)
            expected[:, :6] = [
                (bx, by, bz, tx, ty, tz)
                for bz, by, bx in itertools.product(*map(range, reversed(grid)))
                for tz, ty, tx in itertools.product(*map(range, reversed(block)))
            ]
            expected[:, 6:] = (*grid, *block)
            pointer = room.put(np.zeros_like(expected))
            backend.launch(function, grid, block, 0, stream, struct.pack("@P", pointer))
            _same(room.get(pointer, expected), expected, f"grid {grid}, block {block}")


@_check
def arguments_of_every_type_arrive(backend: Backend, programs: Programs) -> None:
    """Integers and floats of all widths, at their ends, each at its natural alignment."""
    rows = (
        (-128, 255, -32768, 65535, -(2**31), 2**32 - 1, -(2**63), 2**64 - 1, 1.5, -2.25),
        (127, 0, 32767, 1, 2**31 - 1, 2, 2**63 - 1, 3, float("inf"), 1e300),
    )
    with _room(backend, programs) as room:
        for row in rows:
            ints, floats = np.zeros(8, np.int64), np.zeros(2)
            a, b = room.put(ints), room.put(floats)
            args = struct.pack("@PPbBhHiIqQfd", a, b, *row)
            backend.launch(room.function("types"), (1, 1, 1), (1, 1, 1), 0, 0, args)
            widened = np.array([v % 2**64 for v in row[:8]], np.uint64).view(np.int64)
            _same(room.get(a, ints), widened, "integers")
            _same(room.get(b, floats), np.array(row[8:]), "floats")


@_check
def a_launch_keeps_its_arguments(backend: Backend, programs: Programs) -> None:
    """Arguments are taken at the call: many queued launches each see their own."""
    with _room(backend, programs) as room:
        stream, x = room.stream(), room.put(_ONE)
        room.chain(x, 0, 0, stream)
        for digit in range(1, 10):
            room.chain(x, 10, digit, stream, rounds=1)
        assert room.get(x, _ONE)[0] == 123456789


@_check
def several_streams_in_flight(backend: Backend, programs: Programs) -> None:
    """Eight streams with copies and kernels of many blocks each give their own right results."""
    with _room(backend, programs) as room:
        n, function = 10_000, room.function("scale")
        data = [np.arange(n, dtype=np.float32) + i for i in range(8)]
        results = [np.empty(n, np.float32) for _ in data]
        for array, result in zip(data, results, strict=True):
            stream, pointer = room.stream(), room.alloc(array.nbytes)
            backend.copy(pointer, _address(array), array.nbytes, stream)
            for factor in (2.0, 4.0, 0.25):
                args = struct.pack("@Pqf", pointer, n, factor)
                backend.launch(function, (79, 1, 1), (128, 1, 1), 0, stream, args)
            backend.copy(_address(result), pointer, array.nbytes, stream)
        backend.synchronize()
        for array, result in zip(data, results, strict=True):
            _same(result, array * 2, "scaled")


@_check
def faults_are_raised_once(backend: Backend, programs: Programs) -> None:
    """A kernel's fault is raised by the next synchronising call, once; its other blocks ran."""
    if not programs.reports_faults:
        return
    with _room(backend, programs) as room:
        function, stream, event = room.function("stop"), room.stream(), room.event()
        synchronisers: tuple[tuple[int, Callable[[], None]], ...] = (
            (0, backend.synchronize),
            (0, lambda: backend.stream_synchronize(0)),
            (stream, backend.synchronize),
            (stream, lambda: backend.stream_synchronize(stream)),
            (stream, lambda: backend.event_synchronize(event)),
        )
        for code, (where, synchronise) in enumerate(synchronisers, 41):
            marks = np.zeros(100, np.int64)
            pointer = room.put(marks)
            args = struct.pack("@Pq", pointer, code)
            backend.launch(function, (100, 1, 1), (4, 1, 1), 0, where, args)
            backend.event_record(event, where)
            try:
                synchronise()
            except KernelStopped as stopped:
                assert (stopped.function, stopped.code) == (function, code)
            else:
                raise AssertionError("no KernelStopped")
            synchronise()
            _same(room.get(pointer, marks), np.ones_like(marks), "blocks that ran")


# ---- may ------------------------------------------------------------------------------------------


@_check
def priorities_are_a_pair(backend: Backend, programs: Programs) -> None:
    """The least priority is not a smaller number than the greatest (smaller is more urgent)."""
    least, greatest = backend.stream_priorities()
    assert least >= greatest


@_check
def prefetch_and_advice_change_no_bytes(backend: Backend, programs: Programs) -> None:
    """Where managed memory can be moved ahead of its use, its bytes stay."""
    with _room(backend, programs) as room:
        data = np.arange(4096, dtype=np.uint8)
        pointer = room.alloc(data.nbytes, MANAGED)
        backend.copy(pointer, _address(data), data.nbytes, 0)
        backend.stream_synchronize(0)
        try:
            backend.prefetch(pointer, data.nbytes, 0, 0)
        except Unsupported:
            return
        _same(room.get(pointer, data), data, "prefetched memory")


@_check
def callbacks_run_after_earlier_work(backend: Backend, programs: Programs) -> None:
    """A callback, where there are any, runs once and after the work before it."""
    with _room(backend, programs) as room:
        stream, x, seen = room.stream(), room.put(_ONE), np.zeros(1, np.int64)
        calls: list[int] = []
        room.chain(x, 0, 5, stream)
        backend.copy(_address(seen), x, 8, stream)
        try:
            backend.stream_callback(stream, lambda: calls.append(int(seen[0])))
        except Unsupported:
            return
        backend.stream_synchronize(stream)
        assert calls == [5], f"callbacks saw {calls}"
