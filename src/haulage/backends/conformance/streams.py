"""Checks of streams and events."""

from haulage.backends.base import NON_BLOCKING, Backend
from haulage.backends.conformance.room import LONG, ONE, Programs, check, raised, room_of
from haulage.errors import DeviceError


@check
def handles_are_distinct(backend: Backend, programs: Programs) -> None:
    """Streams and events have handles of their own that are not 0."""
    with room_of(backend, programs) as room:
        for make in (room.stream, room.event):
            handles = [make() for _ in range(20)]
            assert 0 not in handles
            assert len(set(handles)) == 20


@check
def a_stream_keeps_its_order(backend: Backend, programs: Programs) -> None:
    """Kernels, copies and fills of one stream happen in the order they were handed over."""
    with room_of(backend, programs) as room:
        for stream in (0, room.stream(), room.stream(NON_BLOCKING)):
            x, y = room.put(ONE), room.put(ONE)
            room.chain(x, 0, 5, stream)
            backend.copy(y, x, 8, stream)
            backend.fill(x, b"\x00", 8, stream)
            room.chain(y, 10, 3, stream)
            backend.stream_synchronize(stream)
            assert backend.stream_query(stream), "not done after a synchronise"
            assert room.get(y, ONE)[0] == 53
            assert room.get(x, ONE)[0] == 0


@check
def the_default_stream_waits_for_others(backend: Backend, programs: Programs) -> None:
    """Work of the default stream sees earlier work of a blocking stream."""
    with room_of(backend, programs) as room:
        one, two = room.stream(), room.stream()
        for _ in range(3):
            x, y, z = (room.put(ONE) for _ in range(3))
            room.chain(x, 0, 5, one)
            room.chain(y, 0, 6, two)
            backend.copy(z, x, 8, 0)
            backend.copy(x, y, 8, 0)
            backend.stream_synchronize(0)
            assert room.get(z, ONE)[0] == 5
            assert room.get(x, ONE)[0] == 6


@check
def others_wait_for_the_default_stream(backend: Backend, programs: Programs) -> None:
    """Work of a blocking stream sees earlier work of the default stream."""
    with room_of(backend, programs) as room:
        stream, other = room.stream(), room.stream()
        x, y = room.put(ONE), room.put(ONE)
        room.chain(x, 0, 2, other)
        room.chain(x, 10, 3, 0)
        backend.copy(y, x, 8, stream)
        backend.stream_synchronize(stream)
        assert room.get(y, ONE)[0] == 23


@check
def a_non_blocking_stream_is_exempt(backend: Backend, programs: Programs) -> None:
    """The default stream's work does not wait for a non-blocking stream."""
    with room_of(backend, programs) as room:
        free = room.stream(NON_BLOCKING)
        x, y = room.put(ONE), room.put(ONE)
        room.chain(x, 0, 5, free, rounds=100 * LONG)
        room.chain(y, 0, 6, 0, rounds=1)
        backend.stream_synchronize(0)
        waited = backend.stream_query(free)
        assert not (waited and programs.overlaps), "the default stream waited for it"
        assert room.get(x, ONE)[0] == 5


@check
def a_destroyed_stream_ends_its_work(backend: Backend, programs: Programs) -> None:
    """Destroying a stream does not drop what it holds."""
    with room_of(backend, programs) as room:
        x = room.put(ONE)
        stream = backend.stream_create()
        room.chain(x, 0, 5, stream)
        room.chain(x, 10, 1, stream)
        backend.stream_destroy(stream)
        assert room.get(x, ONE)[0] == 51


@check
def events_order_streams(backend: Backend, programs: Programs) -> None:
    """Work after a wait for an event sees what was before its record."""
    with room_of(backend, programs) as room:
        one, two = room.stream(NON_BLOCKING), room.stream(NON_BLOCKING)
        for _ in range(3):
            x, y, event = room.put(ONE), room.put(ONE), room.event()
            room.chain(x, 0, 5, one)
            backend.event_record(event, one)
            backend.stream_wait_event(two, event)
            backend.copy(y, x, 8, two)
            backend.stream_synchronize(two)
            assert room.get(y, ONE)[0] == 5


@check
def the_default_stream_waits_for_events(backend: Backend, programs: Programs) -> None:
    """An event of a non-blocking stream orders the default stream, and blocking ones after it."""
    with room_of(backend, programs) as room:
        free, stream = room.stream(NON_BLOCKING), room.stream()
        x, y, z, event = room.put(ONE), room.put(ONE), room.put(ONE), room.event()
        room.chain(x, 0, 5, free)
        backend.event_record(event, free)
        backend.stream_wait_event(0, event)
        backend.copy(y, x, 8, 0)
        backend.copy(z, y, 8, stream)
        backend.stream_synchronize(stream)
        assert room.get(z, ONE)[0] == 5


@check
def waits_hang_on_the_record_they_saw(backend: Backend, programs: Programs) -> None:
    """Recording an event again, or destroying it, does not move waits that were made before."""
    with room_of(backend, programs) as room:
        one, two = room.stream(NON_BLOCKING), room.stream(NON_BLOCKING)
        x, y, slow = room.put(ONE), room.put(ONE), room.put(ONE)
        event = backend.event_create()
        room.chain(x, 0, 5, one)
        backend.event_record(event, one)
        backend.stream_wait_event(two, event)
        room.chain(slow, 0, 1, one, rounds=100 * LONG)
        backend.event_record(event, one)
        backend.copy(y, x, 8, two)
        backend.stream_synchronize(two)
        later = backend.event_query(event)
        assert not (later and programs.overlaps), "the wait took the later record"
        backend.event_destroy(event)
        assert room.get(y, ONE)[0] == 5


@check
def events_tell_where_they_are(backend: Backend, programs: Programs) -> None:
    """An event is reached if never recorded, not reached while its stream works, then reached."""
    with room_of(backend, programs) as room:
        stream, event = room.stream(), room.event()
        assert backend.event_query(event)
        backend.event_synchronize(event)
        backend.stream_wait_event(stream, event)
        x = room.put(ONE)
        room.chain(x, 0, 5, stream, rounds=100 * LONG)
        backend.event_record(event, stream)
        assert not backend.event_query(event), "reached before the kernel's end"
        assert not backend.stream_query(stream)
        backend.event_synchronize(event)
        assert backend.event_query(event)


@check
def events_measure_time(backend: Backend, programs: Programs) -> None:
    """Elapsed time is about as long as the work between; without records it is an error."""
    with room_of(backend, programs) as room:
        stream, start, end = room.stream(), room.event(), room.event()
        raised(DeviceError, lambda: backend.event_elapsed(start, end), "events never recorded")
        x = room.put(ONE)
        backend.event_record(start, stream)
        room.chain(x, 0, 5, stream, rounds=100 * LONG)
        backend.event_record(end, stream)
        raised(DeviceError, lambda: backend.event_elapsed(start, end), "an unreached event")
        backend.event_synchronize(end)
        milliseconds = backend.event_elapsed(start, end)
        assert 1 < milliseconds < 60_000, f"{milliseconds} ms"
        assert backend.event_elapsed(end, start) == -milliseconds
        untimed = backend.event_create(False)
        backend.event_record(untimed, stream)
        backend.event_synchronize(untimed)
        raised(DeviceError, lambda: backend.event_elapsed(start, untimed), "an untimed event")
        backend.event_destroy(untimed)
