"""Checks of code, launches and what a back end may have."""

import itertools
import struct
from collections.abc import Callable, Sequence

import numpy as np

from haulage.backends.base import (
    MANAGED,
    Backend,
    KernelStopped,
)
from haulage.backends.conformance.room import (
    ONE,
    Programs,
    address_of,
    check,
    raised,
    room_of,
    same,
)
from haulage.errors import DeviceError, Unsupported


@check
def bad_code_is_refused(backend: Backend, programs: Programs) -> None:
    """What is no code, and names that a module does not have, are DeviceErrors."""
    raised(DeviceError, lambda: backend.load(b"no code for any device"), "text as code")
    module = backend.load(programs.code())
    raised(DeviceError, lambda: backend.function(module, "no_such_kernel"), "an unknown function")
    backend.unload(module)


@check
def modules_come_and_go(backend: Backend, programs: Programs) -> None:
    """The same code can be loaded twice, and unloading one leaves the other."""
    with room_of(backend, programs) as room:
        first, second = backend.load(programs.code()), backend.load(programs.code())
        backend.unload(first)
        x = room.put(ONE)
        function = backend.function(second, "chain")
        backend.launch(function, (1, 1, 1), (1, 1, 1), 0, 0, struct.pack("@Pqqq", x, 0, 4, 1))
        assert room.get(x, ONE)[0] == 4
        backend.unload(second)


@check
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
    with room_of(backend, programs) as room:
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
            same(room.get(pointer, expected), expected, f"grid {grid}, block {block}")


@check
def a_prepared_launch_does_what_a_launch_does(backend: Backend, programs: Programs) -> None:
    """In the default stream and in another, again and again, with other arguments each time."""
    with room_of(backend, programs) as room:
        function, stream = room.function("where"), room.stream()
        grid, block = (2, 3, 1), (4, 2, 1)
        header, start = backend.prepare_launch(0, function, grid, block, 0)
        assert len(header) % 16 == 0
        for used in (0, stream, 0):
            expected, got = (room.put(np.zeros((48, 12), np.uint32)) for _ in range(2))
            backend.launch(function, grid, block, 0, used, struct.pack("@P", expected))
            start(used, header + struct.pack("@P", got))
            like = np.zeros((48, 12), np.uint32)
            same(room.get(got, like), room.get(expected, like), f"in stream {used}")


@check
def arguments_of_every_type_arrive(backend: Backend, programs: Programs) -> None:
    """Integers and floats of all widths, at their ends, each at its natural alignment."""
    rows = (
        (-128, 255, -32768, 65535, -(2**31), 2**32 - 1, -(2**63), 2**64 - 1, 1.5, -2.25),
        (127, 0, 32767, 1, 2**31 - 1, 2, 2**63 - 1, 3, float("inf"), 1e300),
    )
    with room_of(backend, programs) as room:
        for row in rows:
            ints, floats = np.zeros(8, np.int64), np.zeros(2)
            a, b = room.put(ints), room.put(floats)
            args = struct.pack("@PPbBhHiIqQfd", a, b, *row)
            backend.launch(room.function("types"), (1, 1, 1), (1, 1, 1), 0, 0, args)
            widened = np.array([v % 2**64 for v in row[:8]], np.uint64).view(np.int64)
            same(room.get(a, ints), widened, "integers")
            same(room.get(b, floats), np.array(row[8:]), "floats")


@check
def a_launch_keeps_its_arguments(backend: Backend, programs: Programs) -> None:
    """Arguments are taken at the call: many queued launches each see their own."""
    with room_of(backend, programs) as room:
        stream, x = room.stream(), room.put(ONE)
        room.chain(x, 0, 0, stream)
        for digit in range(1, 10):
            room.chain(x, 10, digit, stream, rounds=1)
        assert room.get(x, ONE)[0] == 123456789


@check
def several_streams_in_flight(backend: Backend, programs: Programs) -> None:
    """Eight streams with copies and kernels of many blocks each give their own right results."""
    with room_of(backend, programs) as room:
        n, function = 10_000, room.function("scale")
        data = [np.arange(n, dtype=np.float32) + i for i in range(8)]
        results = [np.empty(n, np.float32) for _ in data]
        for array, result in zip(data, results, strict=True):
            stream, pointer = room.stream(), room.alloc(array.nbytes)
            backend.copy(pointer, address_of(array), array.nbytes, stream)
            for factor in (2.0, 4.0, 0.25):
                args = struct.pack("@Pqf", pointer, n, factor)
                backend.launch(function, (79, 1, 1), (128, 1, 1), 0, stream, args)
            backend.copy(address_of(result), pointer, array.nbytes, stream)
        backend.synchronize()
        for array, result in zip(data, results, strict=True):
            same(result, array * 2, "scaled")


@check
def faults_are_raised_once(backend: Backend, programs: Programs) -> None:
    """A kernel's fault is raised by the next synchronising call, once; its other blocks ran."""
    if not programs.reports_faults:
        return
    with room_of(backend, programs) as room:
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
            stopped = raised(KernelStopped, synchronise, "a fault")
            assert (stopped.function, stopped.code) == (function, code)
            synchronise()
            same(room.get(pointer, marks), np.ones_like(marks), "blocks that ran")


@check
def priorities_are_a_pair(backend: Backend, programs: Programs) -> None:
    """The least priority is not a smaller number than the greatest (smaller is more urgent)."""
    least, greatest = backend.stream_priorities()
    assert least >= greatest


@check
def prefetch_and_advice_change_no_bytes(backend: Backend, programs: Programs) -> None:
    """Where managed memory can be moved ahead of its use, its bytes stay."""
    with room_of(backend, programs) as room:
        data = np.arange(4096, dtype=np.uint8)
        pointer = room.alloc(data.nbytes, MANAGED)
        backend.copy(pointer, address_of(data), data.nbytes, 0)
        backend.stream_synchronize(0)
        try:
            backend.prefetch(pointer, data.nbytes, 0, 0)
        except Unsupported:
            return
        same(room.get(pointer, data), data, "prefetched memory")


@check
def callbacks_run_after_earlier_work(backend: Backend, programs: Programs) -> None:
    """A callback, where there are any, runs once and after the work before it."""
    with room_of(backend, programs) as room:
        stream, x, seen = room.stream(), room.put(ONE), np.zeros(1, np.int64)
        calls: list[int] = []
        room.chain(x, 0, 5, stream)
        backend.copy(address_of(seen), x, 8, stream)
        try:
            backend.stream_callback(stream, lambda: calls.append(int(seen[0])))
        except Unsupported:
            return
        backend.stream_synchronize(stream)
        assert calls == [5], f"callbacks saw {calls}"
