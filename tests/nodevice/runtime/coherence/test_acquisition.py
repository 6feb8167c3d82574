"""Acquiring bytes at a place: modes, what is waited for, and what an interrupt leaves."""

import threading

import numpy as np
import pytest

from haulage.backends.cpu import CPUBackend
from haulage.errors import CoherenceError
from haulage.runtime.arrays.host_arrays import MappedNDArray
from haulage.runtime.coherence import HOST, Coherence, acquisition
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.ranges import Ranges

NBYTES = 64
WHOLE, FIRST = Ranges.of(0, NBYTES), Ranges.of(0, 8)
ONE, TWO = (Device(name, CPUBackend(), 0) for name in ("one", "two"))


@pytest.fixture
def coherence():
    return Coherence(NBYTES, "a", np.arange(NBYTES, dtype=np.uint8))


def on_device(coherence, device, mode, stream=None, part=WHOLE):
    with coherence.state.lock:
        return acquisition.on_device(
            coherence.state, device, mode, stream or device.default_stream, "a test", part
        )


def test_an_unknown_mode_is_refused_at_each_place(coherence):
    for acquire in (
        lambda: on_device(coherence, ONE, "x"),
        lambda: acquisition.on_host(coherence.state, "x", "a test", WHOLE),
    ):
        with pytest.raises(ValueError, match="mode 'x': expected 'r', 'rw' or 'w'"):
            acquire()


def test_a_use_notes_what_may_be_read_and_written(coherence):
    replica = on_device(coherence, ONE, "r")
    assert (replica.read_since_write, replica.writing, replica.acquired) == (
        True,
        Ranges(),
        Ranges(),
    )
    used = replica.used
    assert on_device(coherence, ONE, "rw", part=FIRST) is replica
    assert (replica.writing, replica.acquired) == (FIRST, FIRST)
    assert replica.used > used


def test_bytes_that_are_there_are_found_and_others_are_not(coherence):
    on_device(coherence, ONE, "r", part=FIRST)
    on_device(coherence, ONE, "r", part=FIRST)
    on_device(coherence, ONE, "r")
    sums = coherence.account.sums
    assert (sums.uses, sums.used_bytes) == (3, 8 + 8 + NBYTES)
    assert (sums.found, sums.found_bytes) == (1, 8)


def test_what_is_to_be_written_is_current_only_there_from_then_on(coherence):
    on_device(coherence, TWO, "r")
    on_device(coherence, ONE, "rw", part=FIRST)
    rest = Ranges.of(8, NBYTES)
    assert [coherence.valid(place) for place in (HOST, ONE, TWO)] == [rest, FIRST, rest]


def test_what_is_to_be_overwritten_stays_what_it_was_until_it_is(coherence):
    replica = on_device(coherence, ONE, "w")
    assert [coherence.valid(place) for place in (HOST, ONE)] == [WHOLE, Ranges()]
    assert replica.writing == WHOLE
    coherence.cancel(ONE)
    assert coherence.current() == [HOST]
    assert not replica.writing


def test_a_stream_that_writes_waits_for_those_that_use_the_bytes(coherence):
    first, second = Stream.create(ONE), Stream.create(ONE)
    on_device(coherence, ONE, "rw", first)
    coherence.release(ONE, "rw", first)
    go_on = threading.Event()
    ONE.backend.stream_callback(first.handle, go_on.wait)
    try:
        replica = on_device(coherence, ONE, "r", second)
        assert not second.idle()
        assert replica.writers == (first,)
    finally:
        go_on.set()
    second.finish()
    on_device(coherence, ONE, "rw", second)
    assert replica.writers == (second,)


def test_memory_that_a_device_shares_is_given_as_it_is():
    host = MappedNDArray(NBYTES, 1, np.uint8, device=ONE)
    host[:] = 3
    coherence = Coherence(NBYTES, "a", host.view(np.ndarray), host.block)
    assert on_device(coherence, ONE, "rw") is host.block
    assert coherence.state.on_host.acquired == WHOLE
    assert not coherence.state.replicas
    coherence.release(ONE, "rw")
    assert coherence.state.host_writers == (ONE.default_stream,)
    assert not coherence.transfers


def test_bytes_that_are_lost_are_no_longer_had_but_can_be_overwritten(coherence):
    on_device(coherence, ONE, "rw")
    coherence.release(ONE, "rw")
    coherence.state.replicas[ONE].block.close()
    with pytest.raises(CoherenceError, match="are lost"):
        acquisition.on_host(coherence.state, "r", "a test", WHOLE)
    assert acquisition.on_host(coherence.state, "w", "a test", WHOLE).size == NBYTES


def test_the_neighbours_of_an_element_come_with_it_but_not_what_somebody_writes(coherence):
    on_device(coherence, ONE, "rw")
    coherence.release(ONE, "rw")
    coherence.state.host_writing.append(Ranges.of(8, 16))
    acquisition.on_host(coherence.state, "r", "a test", Ranges.of(0, 4), around=32)
    assert coherence.valid(HOST) == Ranges(((0, 8), (16, 32)))
