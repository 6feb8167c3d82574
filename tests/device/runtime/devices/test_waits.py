"""Waits for what is done already are over at once, and only these."""

import threading

import numpy as np
import pytest

from haulage import SmartArray, cuda
from haulage._core.waits import all_done, device_done, stream_done
from haulage.runtime.coherence.borrows import outdated_views
from haulage.runtime.process import runtime

LONG = 10  # seconds that no test takes unless it fails


@pytest.fixture
def asked_at_once(device, monkeypatch):
    """The device: one that is asked without a call, while no kernel prints."""
    if device.queues is None:
        pytest.skip("this device's driver is asked by a call")
    monkeypatch.setattr(runtime.current, "printing", {})
    cuda.synchronize()
    assert all_done()


@cuda.jit(boundscheck=True)
def set_one(x, at):
    x[at] = 1


def test_work_of_a_stream_is_waited_for(asked_at_once):
    gate, begun, stream, log = threading.Event(), threading.Event(), cuda.stream(), []

    def hold(*_):
        begun.set()
        assert gate.wait(LONG)

    stream.add_callback(hold)
    assert begun.wait(LONG)
    assert not all_done()
    assert not device_done(stream.device)
    assert not stream_done(stream.device, stream.handle)
    threading.Timer(0.05, gate.set).start()
    stream.add_callback(lambda *_: log.append(1))
    cuda.synchronize()
    assert log == [1]
    assert all_done()
    assert stream_done(stream.device, stream.handle)


@pytest.mark.parametrize("own_stream", [False, True])
def test_a_failure_is_raised_once(asked_at_once, own_stream):
    stream = cuda.stream() if own_stream else cuda.default_stream()
    set_one[1, 1, stream](cuda.device_array(1, np.int64), 1)
    wait = stream.synchronize if own_stream else cuda.synchronize
    with pytest.raises(IndexError):
        wait()
    wait()
    assert device_done(stream.device)


@pytest.mark.parametrize("own_stream", [False, True])
def test_waits_leave_c_only_while_a_view_is_out_of_date(asked_at_once, own_stream):
    array = SmartArray(np.zeros(3))
    view = array.get()
    stream = cuda.stream() if own_stream else cuda.default_stream()

    def done():
        return stream_done(stream.device, stream.handle)

    assert all_done()
    set_one[1, 1, stream](array, 0)
    # The adversary has the kernel run later; there is nothing to bring where memory is shared.
    is_outdated = bool(outdated_views)
    assert not (is_outdated and (done() or all_done()))
    stream.synchronize()
    assert view[0] == 1
    assert not outdated_views
    assert done()
    cuda.synchronize()
    assert all_done()


def test_memory_that_waits_for_a_stream_is_given_back_by_a_wait(asked_at_once):
    gate, stream = threading.Event(), cuda.stream()
    array = cuda.device_array(1 << 20, np.uint8)
    stream.add_callback(lambda *_: gate.wait(LONG))
    set_one[1, 1, stream](array, 0)
    del array
    assert not all_done()
    gate.set()
    cuda.synchronize()
    assert all_done()


def test_a_stream_that_is_not_there_is_no_idle_one(asked_at_once, device):
    assert not stream_done(device, 1 << 40)
