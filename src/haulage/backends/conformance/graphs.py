"""Checks of graphs, of back ends that have them."""

import functools
from collections.abc import Callable

import numpy as np

from haulage.backends.base import NON_BLOCKING, Backend, KernelStopped
from haulage.backends.conformance.room import (
    LONG,
    ONE,
    Check,
    Programs,
    Room,
    check,
    raised,
    room_of,
)
from haulage.errors import CaptureError, Unsupported
from haulage.interruption import on_error


def _check_of_graphs(function: Callable[[Backend, Room], None]) -> Check:
    """Decorator: the function is a check of back ends that have graphs; of others all that is
    checked is that they say so."""

    @check
    @functools.wraps(function)
    def checked(backend: Backend, programs: Programs) -> None:
        with room_of(backend, programs) as room:
            stream = room.stream(NON_BLOCKING)
            try:
                backend.capture_begin(stream)
            except Unsupported:
                raised(Unsupported, lambda: backend.capture_end(stream), "capture_end")
                return
            backend.capture_cancel(stream)
            function(backend, room)

    return checked


def _recorded(backend: Backend, stream: int, record: Callable[[], object]) -> tuple[int, int]:
    backend.capture_begin(stream)
    with on_error(backend.capture_cancel, stream):
        record()
    return backend.capture_end(stream)


@_check_of_graphs
def a_graph_runs_when_it_is_launched_only(backend: Backend, room: Room) -> None:
    """Kernels, copies and fills that are recorded run at each launch of the graph, in order."""
    for flags in (0, NON_BLOCKING):
        stream = room.stream(flags)
        x, y = room.put(ONE), room.put(ONE)

        def record(stream: int = stream, x: int = x, y: int = y) -> None:
            assert not backend.capture_query(0)
            assert backend.capture_query(stream)
            room.chain(x, 2, 3, stream)
            backend.copy(y, x, 8, stream)
            backend.fill(x, b"\x01", 1, stream)

        graph, count = _recorded(backend, stream, record)
        assert count == 3, f"{count} operations"
        assert not backend.capture_query(stream)
        assert (room.get(x, ONE)[0], room.get(y, ONE)[0]) == (0, 0), "it ran when recorded"
        backend.graph_launch(graph, stream)
        backend.stream_synchronize(stream)
        assert (room.get(x, ONE)[0], room.get(y, ONE)[0]) == (1, 3)
        for launched_in in (0, room.stream(), stream):
            room.write(x, ONE + 5)
            backend.graph_launch(graph, launched_in)
            backend.graph_launch(graph, launched_in)
            room.chain(y, 10, 0, launched_in)
            backend.stream_synchronize(launched_in)
            assert room.get(y, ONE)[0] == 50, "it does not keep the order of its stream"
        backend.graph_destroy(graph)


@_check_of_graphs
def a_recorded_stream_goes_on_with_what_it_held(backend: Backend, room: Room) -> None:
    """Work from before the recording runs meanwhile, and is none of the graph's."""
    stream, x, y = room.stream(NON_BLOCKING), room.put(ONE), room.put(ONE)
    event = room.event()
    room.chain(x, 0, 5, stream)
    backend.event_record(event, stream)
    graph, _ = _recorded(backend, stream, lambda: room.chain(y, 1, 1, stream))
    backend.event_synchronize(event)
    room.chain(x, 10, 1, stream)
    backend.stream_synchronize(stream)
    assert (room.get(x, ONE)[0], room.get(y, ONE)[0]) == (51, 0)
    backend.graph_launch(graph, stream)
    backend.stream_synchronize(stream)
    assert (room.get(x, ONE)[0], room.get(y, ONE)[0]) == (51, 1)
    backend.graph_destroy(graph)


@_check_of_graphs
def streams_join_a_recording_by_events(backend: Backend, room: Room) -> None:
    """A stream that waits for a recorded event is recorded until the end, in the events' order."""
    one, two = room.stream(NON_BLOCKING), room.stream(NON_BLOCKING)
    x, y, z = (room.put(ONE) for _ in range(3))
    fork, join = room.event(), room.event()

    def record() -> None:
        room.chain(x, 0, 5, one)
        backend.event_record(fork, one)
        backend.stream_wait_event(two, fork)
        assert backend.capture_query(two)
        room.chain(y, 0, 1, one)
        backend.copy(z, x, 8, two)
        room.chain(z, 10, 2, two)
        backend.event_record(join, two)
        backend.stream_wait_event(one, join)
        backend.copy(y, z, 8, one)

    graph, count = _recorded(backend, one, record)
    assert count == 5, f"{count} operations"
    assert not backend.capture_query(two)
    for _ in range(3):
        room.write(x, ONE)
        room.write(y, ONE)
        backend.graph_launch(graph, two)
        backend.stream_synchronize(two)
        assert [room.get(at, ONE)[0] for at in (x, y, z)] == [5, 52, 52]
    backend.graph_destroy(graph)


@_check_of_graphs
def a_stream_that_does_not_join_again_is_refused(backend: Backend, room: Room) -> None:
    """A recording with work whose end nothing waits for is no graph, and is over."""
    one, two = room.stream(NON_BLOCKING), room.stream(NON_BLOCKING)
    x, fork = room.put(ONE), room.event()
    backend.capture_begin(one)
    room.chain(x, 0, 5, one)
    backend.event_record(fork, one)
    backend.stream_wait_event(two, fork)
    room.chain(x, 10, 1, two)
    raised(CaptureError, lambda: backend.capture_end(one), "work that nothing waits for")
    for stream in (one, two):
        assert not backend.capture_query(stream)
        room.chain(x, 1, 1, stream)
        backend.stream_synchronize(stream)
    assert room.get(x, ONE)[0] == 2


@_check_of_graphs
def a_cancelled_recording_leaves_nothing(backend: Backend, room: Room) -> None:
    """Nothing of it runs, and its streams work as before; also if a stream has not joined again."""
    one, two = room.stream(NON_BLOCKING), room.stream()
    x, y, fork = room.put(ONE), room.put(ONE), room.event()
    backend.capture_begin(one)
    room.chain(x, 0, 5, one)
    backend.event_record(fork, one)
    backend.stream_wait_event(two, fork)
    room.chain(y, 0, 5, two)
    backend.capture_cancel(one)
    for stream, at in ((one, x), (two, y)):
        room.chain(at, 10, 1, stream)
        backend.stream_synchronize(stream)
        assert room.get(at, ONE)[0] == 1


@_check_of_graphs
def launches_of_a_graph_do_not_overlap(backend: Backend, room: Room) -> None:
    """Launches in streams that nothing orders come one after another."""
    one, two = room.stream(NON_BLOCKING), room.stream(NON_BLOCKING)
    x = room.put(ONE)
    graph, _ = _recorded(backend, one, lambda: room.chain(x, 2, 1, one, rounds=LONG))
    for stream in (one, two, one, two):
        backend.graph_launch(graph, stream)
    backend.graph_destroy(graph)
    backend.stream_synchronize(one)
    backend.stream_synchronize(two)
    assert room.get(x, ONE)[0] == 15


@_check_of_graphs
def an_empty_graph_is_one(backend: Backend, room: Room) -> None:
    """A recording of nothing can be launched, and does nothing."""
    stream = room.stream(NON_BLOCKING)
    graph, count = _recorded(backend, stream, lambda: None)
    assert count == 0, f"{count} operations"
    backend.graph_launch(graph, stream)
    backend.stream_synchronize(stream)
    backend.graph_destroy(graph)


@_check_of_graphs
def a_fault_in_a_graph_is_raised(backend: Backend, room: Room) -> None:
    """Each launch whose kernel stops raises once; what comes after the kernel runs."""
    if not room.programs.reports_faults:
        return
    stream = room.stream(NON_BLOCKING)
    x, y = room.put(np.zeros(4, np.int64)), room.put(ONE)
    stop = room.function("stop")

    def record() -> None:
        args = x.to_bytes(8, "little") + (77).to_bytes(8, "little")
        backend.launch(stop, (4, 1, 1), (1, 1, 1), 0, stream, args)
        room.chain(y, 1, 1, stream)

    graph, _ = _recorded(backend, stream, record)
    for turn in range(2):
        backend.graph_launch(graph, stream)
        error = raised(
            KernelStopped, lambda: backend.stream_synchronize(stream), "a fault in a graph"
        )
        assert (error.function, error.code) == (stop, 77)
        assert room.get(y, ONE)[0] == turn + 1
    backend.graph_destroy(graph)
