"""Bringing bytes up to date: which are copied, from where, and what must not be copied over."""

import ctypes

import numpy as np
import pytest

from haulage.backends.cpu import CPUBackend
from haulage.errors import OutOfMemory
from haulage.runtime import memory
from haulage.runtime.coherence import HOST, Coherence, updates
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.ranges import Ranges

NBYTES = 64
WHOLE, FIRST, LAST = (Ranges.of(*each) for each in [(0, NBYTES), (0, 8), (56, NBYTES)])
ONE, TWO = (Device(name, CPUBackend(), 0) for name in ("one", "two"))


def moves(coherence):
    return [(one.source, one.target, one.nbytes) for one in coherence.transfers]


def write(coherence, device, part, value):
    """Write to bytes of a device."""
    coherence.acquire_device(device, "rw", 0, "a test", part)
    replica = coherence.state.replicas[device]
    for start, stop in part:
        ctypes.memset(replica.block.host_ptr + start, value, stop - start)
    coherence.release(device, "rw", part=part)


@pytest.fixture
def coherence():
    return Coherence(NBYTES, "a", np.arange(NBYTES, dtype=np.uint8))


def test_only_what_is_missing_on_the_host_is_brought_there(coherence):
    write(coherence, ONE, FIRST, 9)
    write(coherence, TWO, LAST, 8)
    coherence.transfers.clear()
    state = coherence.state
    with state.lock:
        updates.fetch(state, "a test", WHOLE - state.on_host.valid)
    assert moves(coherence) == [(str(ONE), HOST, 8), (str(TWO), HOST, 8)]
    assert list(state.host) == [9] * 8 + list(range(8, 56)) + [8] * 8


def test_many_pieces_are_brought_with_what_is_between_them(coherence):
    pieces = Ranges(tuple((start, start + 1) for start in range(0, NBYTES, 4)))
    coherence.acquire_device(ONE, "r", 0, "a test")
    write(coherence, ONE, pieces, 9)
    coherence.transfers.clear()
    coherence.acquire_host("r", "a test")
    assert len(coherence.transfers) == 8
    expected = np.arange(NBYTES)
    expected[::4] = 9
    assert list(coherence.state.host) == list(expected)


def test_pieces_that_somebody_writes_are_not_copied_over(coherence):
    pieces = Ranges(tuple((start, start + 1) for start in range(0, NBYTES, 4)))
    coherence.acquire_device(ONE, "r", 0, "a test")
    write(coherence, ONE, pieces, 9)
    state = coherence.state
    gap = Ranges.of(1, 4)
    state.host_writing.append(gap)
    state.host[1:4] = 77
    coherence.acquire_host("r", "a test")
    assert list(state.host[:5]) == [9, 77, 77, 77, 9]


def test_the_host_has_memory_once_it_needs_some():
    coherence = Coherence(NBYTES, "a")
    assert coherence.state.host is None
    with coherence.state.lock:
        host = updates.bring_to_host(coherence.state, "w", "a test", WHOLE)
    assert host is coherence.state.host
    assert host.size == NBYTES


def test_a_replica_that_another_made_meanwhile_is_used(coherence, monkeypatch):
    made = []

    def allocate(device, nbytes):
        made.append(updates.DeviceReplica(real(device, nbytes)))
        coherence.state.replicas[device] = made[0]
        raise OutOfMemory("no room")

    real = memory.allocate
    monkeypatch.setattr(memory, "allocate", allocate)
    assert updates.new_replica(coherence.state, ONE) is made[0]
    monkeypatch.setattr(memory, "allocate", lambda *_: allocate(TWO, NBYTES))
    coherence.state.replicas.clear()
    with pytest.raises(OutOfMemory):
        updates.new_replica(coherence.state, ONE)


def test_a_stream_is_ordered_after_others_but_not_after_itself(monkeypatch):
    ordered = []
    monkeypatch.setattr(updates.ordering, "after", lambda *pair: ordered.append(pair))
    first, second = Stream.create(ONE), Stream.create(ONE)
    monkeypatch.setattr(Stream, "idle", lambda self: False)
    updates.order(first, (first, second, Stream(ONE, first.handle)))
    assert ordered == [(first, second)]
    monkeypatch.setattr(Stream, "idle", lambda self: True)
    updates.order(first, (second,))
    assert len(ordered) == 1


def test_a_replica_is_compared_with_the_host(coherence):
    coherence.acquire_device(ONE, "r", 0, "a test")
    state = coherence.state
    replica = state.replicas[ONE]
    assert updates.is_as_on_host(state.host, WHOLE, ONE, replica)
    state.host[60] = 0
    assert not updates.is_as_on_host(state.host, WHOLE, ONE, replica)
    assert updates.is_as_on_host(state.host, FIRST, ONE, replica)
