"""Copies of one storage in several places: what is current, what is moved, and in which order.

Two devices are needed, so each has a CPU back end of its own, with its own streams.
"""

import gc
import time

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from haulage.backends.base import NON_BLOCKING
from haulage.backends.cpu import CPUBackend
from haulage.errors import CoherenceError, DeviceMismatch
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.coherence import HOST, Coherence
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.ranges import Ranges

NBYTES = 64
ONE, TWO = DEVICES = [Device(name, CPUBackend(), 0) for name in ("one", "two")]
STREAMS = {
    device: [device.default_stream, Stream.create(device), Stream.create(device, NON_BLOCKING)]
    for device in DEVICES
}
# Longer than handing over all that a test does between two steps.
LATE = 0.004


def storage(values=None, name="a"):
    host = np.arange(NBYTES, dtype=np.uint8) if values is None else values
    return Coherence(NBYTES, name, host)


def pinned(values):
    array = pinned_memory.pinned_array(ONE, values.shape, values.strides, values.dtype)
    array[:] = values
    return array


def on(block):
    return DeviceNDArray(NBYTES, 1, np.uint8, 0, block)


def delay(stream):
    """Let what is handed to the stream from now on start late. The default stream can't be held:
    it runs its work in the caller."""
    if stream.handle:
        stream.device.backend.stream_callback(stream.handle, lambda: time.sleep(LATE))


def moves(coherence):
    return [(one.source, one.target, one.nbytes) for one in coherence.transfers]


class Places(RuleBasedStateMachine):
    """Work in any place and stream, against one array and the set of places that are current."""

    devices = st.sampled_from(DEVICES)
    numbers = st.integers(0, 2)
    bounds = st.tuples(st.integers(0, NBYTES), st.integers(0, NBYTES)).map(sorted)
    values = st.integers(0, 255)

    @initialize(is_pinned=st.booleans())
    def begin(self, is_pinned):
        self.oracle = np.arange(NBYTES, dtype=np.uint8)
        self.coherence = storage(pinned(self.oracle) if is_pinned else self.oracle.copy())
        self.current = {HOST}
        self.moves = []
        # (a device array to which a read was handed, what it must have found)
        self.read = []

    def needs(self, place):
        if place in self.current:
            return
        if HOST not in self.current:
            (source,) = self.current
            self.moves.append((str(source), HOST, NBYTES))
            self.current.add(HOST)
        if place != HOST:
            self.moves.append((HOST, str(place), NBYTES))
            self.current.add(place)

    @rule()
    def look_at_the_host(self):
        self.needs(HOST)
        found = self.coherence.acquire_host("r", "look")
        np.testing.assert_array_equal(found, self.oracle)
        self.coherence.release(HOST, "r")

    @rule(bounds=bounds, value=values)
    def change_a_part_on_the_host(self, bounds, value):
        self.needs(HOST)
        array = self.coherence.acquire_host("rw", "change")
        np.testing.assert_array_equal(array, self.oracle)
        array[slice(*bounds)] = value
        self.oracle[slice(*bounds)] = value
        self.coherence.release(HOST, "rw")
        self.current = {HOST}

    @rule(value=values)
    def overwrite_the_host(self, value):
        self.coherence.acquire_host("w", "overwrite")[:] = value
        self.oracle[:] = value
        self.coherence.release(HOST, "w")
        self.current = {HOST}

    @rule(device=devices, number=numbers, late=st.booleans())
    def read_on_a_device(self, device, number, late):
        self.needs(device)
        stream = STREAMS[device][number]
        if late:
            delay(stream)
        block = self.coherence.acquire_device(device, "r", stream, "read")
        found = DeviceNDArray(NBYTES, 1, np.uint8, device=device)
        found.copy_to_device(on(block), stream)
        self.coherence.release(device, "r", stream)
        self.read.append((found, self.oracle.copy()))

    @rule(device=devices, number=numbers, late=st.booleans(), bounds=bounds, value=values)
    def change_a_part_on_a_device(self, device, number, late, bounds, value):
        self.needs(device)
        self.write(device, number, late, slice(*bounds), value, "rw")

    @rule(device=devices, number=numbers, late=st.booleans(), value=values)
    def overwrite_a_device(self, device, number, late, value):
        self.write(device, number, late, slice(None), value, "w")

    def write(self, device, number, late, part, value, mode):
        stream = STREAMS[device][number]
        if late:
            delay(stream)
        array = on(self.coherence.acquire_device(device, mode, stream, "write"))
        array[part].setitem(Ellipsis, np.uint8(value), stream)
        self.coherence.release(device, mode, stream)
        self.oracle[part] = value
        self.current = {device}

    @precondition(lambda self: HOST in self.current)
    @rule(bounds=bounds, value=values)
    def change_the_host_by_other_ways(self, bounds, value):
        self.coherence.acquire_host("r", "get")[slice(*bounds)] = value
        self.coherence.mark_changed(HOST)
        self.oracle[slice(*bounds)] = value
        self.current = {HOST}

    @rule(device=devices, number=numbers, value=values)
    def change_a_device_by_other_ways(self, device, number, value):
        self.needs(device)
        array = on(self.coherence.acquire_device(device, "r", 0, "get"))
        stream = STREAMS[device][number]
        device.synchronize()
        delay(stream)
        array[3:9].setitem(Ellipsis, np.uint8(value), stream)
        self.coherence.mark_changed(device)
        self.oracle[3:9] = value
        self.current = {device}

    @rule(place=st.sampled_from([HOST, *DEVICES]))
    def claim_a_change_where_it_is_out_of_date(self, place):
        if place not in self.current:
            with pytest.raises(CoherenceError, match="not current"):
                self.coherence.mark_changed(place)

    @invariant()
    def what_is_current_and_what_was_moved_is_as_expected(self):
        assert set(self.coherence.current()) == self.current
        assert moves(self.coherence) == self.moves

    def teardown(self):
        for device in DEVICES:
            device.synchronize()
        for found, expected in getattr(self, "read", ()):
            np.testing.assert_array_equal(found.copy_to_host(), expected)


Places.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_any_work_in_any_place = Places.TestCase


def test_a_transfer_says_what_was_moved_and_why():
    a = storage(name="temperatures")
    stream = STREAMS[ONE][1]
    a.acquire_device(ONE, "rw", stream, "kernel heat")
    a.release(ONE, "rw", stream)
    (up,) = a.transfers
    assert up.array.startswith("temperatures made at test_coherence.py:")
    assert (up.source, up.target) == ("host", "one:0")
    assert (up.nbytes, up.stream, up.why) == (NBYTES, stream.handle, "kernel heat")
    a.acquire_host("r", "print")
    down = a.transfers[-1]
    assert (down.source, down.target, down.why) == ("one:0", "host", "print")


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_undefined_bytes_are_not_moved_to_the_first_place(mode):
    a = Coherence(NBYTES, "a")
    assert a.current() == []
    a.acquire_device(ONE, mode, 0, "")
    a.release(ONE, mode)
    assert a.current() == [ONE]
    assert moves(a) == []
    a.acquire_host("r", "")
    assert moves(a) == [("one:0", "host", NBYTES)]


def test_a_storage_without_bytes_is_current_everywhere_and_never_moved():
    a = Coherence(0, "a")
    a.acquire_device(ONE, "rw", 0, "")
    a.release(ONE, "rw")
    assert a.acquire_host("r", "").size == 0
    a.mark_changed(HOST)
    assert moves(a) == []


def test_what_was_acquired_but_not_released_has_one_value():
    a = storage()
    a.acquire_device(ONE, "w", 0, "a kernel that did not compile")
    assert a.current() == [HOST]
    a.acquire_device(ONE, "r", 0, "one that reads")
    assert a.current() == [HOST, ONE]
    a.acquire_device(TWO, "rw", 0, "another, which may have been handed over")
    assert a.current() == [TWO]


def test_writing_in_two_places_at_once_is_an_error():
    a = storage()
    a.acquire_device(ONE, "rw", 0, "")
    a.acquire_host("rw", "")
    a.release(HOST, "rw")
    with pytest.raises(CoherenceError, match="one:0 and host were written at the same time"):
        a.release(ONE, "rw")


def test_writing_twice_in_one_place_is_none():
    a = storage()
    a.acquire_device(ONE, "rw", 0, "")
    a.acquire_device(ONE, "rw", 0, "")
    a.release(ONE, "rw")
    a.release(ONE, "rw")
    assert a.current() == [ONE]


def test_a_change_of_the_host_waits_for_an_upload_that_still_reads_it():
    before = np.full(NBYTES, 7, np.uint8)
    a = storage(pinned(before))
    stream = STREAMS[ONE][2]
    delay(stream)
    block = a.acquire_device(ONE, "r", stream, "")
    assert not stream.query()
    a.acquire_host("w", "")[:] = 0
    np.testing.assert_array_equal(on(block).copy_to_host(), before)


@pytest.mark.parametrize("by_upload", [False, True])
def test_a_change_on_a_device_waits_for_work_of_other_streams_that_still_reads_it(by_upload):
    a = storage(np.full(NBYTES, 7, np.uint8))
    reader, writer = STREAMS[ONE][1:]
    block = a.acquire_device(ONE, "r", writer, "")
    writer.synchronize()
    a.acquire_device(ONE, "r", reader, "")
    found = DeviceNDArray(NBYTES, 1, np.uint8, device=ONE)
    delay(reader)
    found.copy_to_device(on(block), reader)
    if by_upload:
        a.acquire_host("rw", "")[:] = 1
        a.release(HOST, "rw")
        a.acquire_device(ONE, "r", writer, "")
    else:
        a.acquire_device(ONE, "w", writer, "")
        on(block).setitem(Ellipsis, np.uint8(1), writer)
    writer.synchronize()
    assert set(found.copy_to_host()) == {7}
    assert set(on(block).copy_to_host()) == {1}


def test_a_stream_that_was_ordered_before_another_stays_so_when_it_is_forgotten():
    a = storage()
    early = Stream.create(ONE, NON_BLOCKING)
    block = a.acquire_device(ONE, "rw", early, "")
    delay(early)
    on(block).setitem(Ellipsis, np.uint8(5), early)
    a.release(ONE, "rw", early)
    del early
    gc.collect()
    assert set(a.acquire_host("r", "")) == {5}


def test_memory_that_was_given_back_is_taken_anew_or_what_was_there_is_told_to_be_lost():
    a = storage()
    a.acquire_device(ONE, "r", 0, "").close()
    a.acquire_device(ONE, "r", 0, "")
    assert moves(a) == [("host", "one:0", NBYTES)] * 2
    a.acquire_device(ONE, "rw", 0, "", Ranges.of(8, 16))
    a.release(ONE, "rw", part=Ranges.of(8, 16))
    a.acquire_device(ONE, "r", 0, "").close()
    for _ in range(2):
        with pytest.raises(CoherenceError, match=r"8 bytes of it .* only on one:0, .*given back"):
            a.acquire_host("r", "")
    a.acquire_host("r", "", Ranges.of(16, 20))
    a.acquire_host("w", "", Ranges.of(0, 20))[:20] = 7
    a.release(HOST, "w", part=Ranges.of(0, 20))
    assert a.acquire_host("r", "")[15] == 7


def test_the_error_of_a_stream_of_another_device_names_both():
    with pytest.raises(DeviceMismatch, match="two:0"):
        storage().acquire_device(ONE, "r", STREAMS[TWO][1], "")


def test_an_unknown_mode_is_an_error():
    with pytest.raises(ValueError, match="mode 'x': expected 'r', 'rw' or 'w'"):
        storage().acquire_host("x", "")
