"""Views of the host are brought up to date when the program waits for what wrote them."""

import ctypes
import gc
import threading

import numpy as np
import pytest

from haulage.backends.cpu import CPUBackend
from haulage.runtime.coherence import Coherence, refresh
from haulage.runtime.coherence.borrows import outdated_views
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream

NBYTES = 64
ONE, TWO = (Device(name, CPUBackend(), 0) for name in ("one", "two"))


def memory_of(block):
    """The bytes of a block of the CPU's."""
    return np.frombuffer((ctypes.c_uint8 * block.nbytes).from_address(block.host_ptr), np.uint8)


@pytest.fixture
def coherence():
    return Coherence(NBYTES, "a", np.zeros(NBYTES, np.uint8))


def write(coherence, value, stream):
    """Work of a stream that fills the storage on its device."""
    block = coherence.acquire_device(stream.device, "rw", stream, "a test")
    source = np.full(NBYTES, value, np.uint8)
    stream.finish()
    there = np.ctypeslib.as_array(
        (np.ctypeslib.ctypes.c_uint8 * NBYTES).from_address(block.host_ptr)
    )
    there[:] = source
    coherence.release(stream.device, "rw", stream)


def test_a_view_shows_what_was_written_once_its_stream_or_device_was_waited_for(coherence):
    view = coherence.borrow_host("rw", "get")
    stream = Stream.create(ONE)
    for value, wait in enumerate([stream.synchronize, lambda: refresh.at_wait(ONE, None)], 1):
        write(coherence, value, stream)
        assert set(view) == {value - 1}
        refresh.at_wait(TWO, None)
        assert set(view) == {value - 1}
        wait()
        assert set(view) == {value}
    assert not outdated_views.of(ONE)


def test_a_storage_at_work_is_refreshed_at_the_next_wait(coherence, monkeypatch):
    monkeypatch.setattr(refresh, "_PATIENCE", 0)
    view = coherence.borrow_host("rw", "get")
    write(coherence, 3, ONE.default_stream)
    with coherence.state.lock:
        thread = threading.Thread(target=refresh.at_wait, args=(ONE, None))
        thread.start()
        thread.join()
    assert set(view) == {0}
    refresh.at_wait(ONE, None)
    assert set(view) == {3}


def test_nothing_is_brought_for_a_view_that_is_gone(coherence):
    view = coherence.borrow_host("rw", "get")
    write(coherence, 3, ONE.default_stream)
    moved = len(coherence.transfers)
    del view
    gc.collect()
    refresh.at_wait(ONE, None)
    assert len(coherence.transfers) == moved
    assert coherence.current() == [ONE]
