"""Writes to a storage: what they make out of date, and those that nobody reports."""

import ctypes

import numpy as np
import pytest

from haulage.backends.cpu import CPUBackend
from haulage.errors import CoherenceError
from haulage.runtime.coherence import HOST, Coherence, writes
from haulage.runtime.devices.device import Device
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.process import call_sites

NBYTES = 64
WHOLE = Ranges.of(0, NBYTES)
ONE, TWO = (Device(name, CPUBackend(), 0) for name in ("one", "two"))


def memory_of(block):
    """The bytes of a block of the CPU's."""
    return np.frombuffer((ctypes.c_uint8 * block.nbytes).from_address(block.host_ptr), np.uint8)


@pytest.fixture
def coherence():
    made = Coherence(NBYTES, "a", np.arange(NBYTES, dtype=np.uint8))
    for device in (ONE, TWO):
        made.acquire_device(device, "r", 0, "a test")
    return made


def record(coherence, place, part):
    with coherence.state.lock:
        writes.record(coherence.state, place, part, (), call_sites.current())


def test_a_write_makes_the_same_bytes_of_all_other_replicas_out_of_date(coherence):
    assert coherence.current() == [HOST, ONE, TWO]
    record(coherence, ONE, Ranges.of(8, 16))
    rest = Ranges(((0, 8), (16, NBYTES)))
    assert [coherence.valid(place) for place in (HOST, ONE, TWO)] == [rest, WHOLE, rest]
    record(coherence, HOST, WHOLE)
    assert coherence.current() == [HOST]


def test_a_device_array_that_was_handed_out_may_have_been_written_until_another_place_was(
    coherence,
):
    replica = coherence.state.replicas[ONE]
    assert replica.read_since_write
    record(coherence, ONE, Ranges.of(0, 8))
    assert not replica.read_since_write


def test_what_a_view_wrote_counts_when_a_device_needs_it(coherence):
    view = coherence.borrow_host("rw", "get", Ranges.of(0, 8))
    view[:4] = 9
    assert coherence.current() == [HOST, ONE, TWO]
    with coherence.state.lock:
        writes.count_unreported(coherence.state, ONE, Ranges.of(0, 4), Ranges.of(0, 4))
    assert coherence.valid(ONE) == Ranges.of(4, NBYTES)
    del view
    with coherence.state.lock:
        writes.count_unreported(coherence.state, ONE, Ranges.of(0, 4), Ranges.of(0, 4))
    assert coherence.valid(ONE) == Ranges.of(8, NBYTES)


def test_a_pending_overwrite_counts_when_somebody_needs_it(coherence):
    with coherence.host_view("w", "host", Ranges.of(0, 8)) as view:
        view[:8] = 5
        assert coherence.current() == [HOST, ONE, TWO]
        block = coherence.acquire_device(ONE, "r", 0, "a test")
        assert coherence.valid(TWO) == Ranges.of(8, NBYTES)
        del block


def test_another_library_and_a_view_that_write_the_same_element_are_an_error(coherence):
    block = coherence.acquire_device(ONE, "r", 0, "a test")
    hold = coherence.export(block, 0, NBYTES, readonly=False)
    view = coherence.borrow_host("rw", "get")
    there = np.ctypeslib.as_array(
        (np.ctypeslib.ctypes.c_uint8 * NBYTES).from_address(block.host_ptr)
    )
    view[3] = 100
    there[7] = 50
    coherence.acquire_host("r", "a test")
    assert (view[3], view[7], there[3], there[7]) == (100, 50, 100, 50)
    view[9], there[9] = 1, 2
    with pytest.raises(CoherenceError, match="have written the same elements"):
        coherence.acquire_host("r", "a test")
    assert (view[9], there[9]) == (2, 2)
    del hold


def test_a_place_that_was_written_while_another_one_was_is_a_conflict(coherence):
    coherence.acquire_device(ONE, "rw", 0, "a test")
    coherence.acquire_device(TWO, "rw", 0, "a test")
    coherence.release(TWO, "rw")
    with pytest.raises(CoherenceError, match="one:0 and two:0 were written at the same time"):
        coherence.release(ONE, "rw")
