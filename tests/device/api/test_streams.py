"""Streams, events and graphs of the current device: what `api.streams` makes of it."""

import threading

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import DeviceError

pytestmark = pytest.mark.usefixtures("device")

MADE = {
    "stream": cuda.stream,
    "default_stream": cuda.default_stream,
    "legacy_default_stream": cuda.legacy_default_stream,
    "per_thread_default_stream": cuda.per_thread_default_stream,
    "event": cuda.event,
}


@pytest.mark.parametrize("name", MADE)
def test_it_is_of_the_current_device(name, devices):
    for device in (*devices, devices[0]):
        with haulage.use(device):
            assert MADE[name]().device is device


def test_a_device_has_one_default_stream_and_each_thread_one_of_its_own():
    default = cuda.default_stream()
    assert default is cuda.default_stream()
    assert cuda.legacy_default_stream() == default
    own, others = cuda.per_thread_default_stream(), []
    assert own is cuda.per_thread_default_stream()
    assert own != default
    thread = threading.Thread(target=lambda: others.append(cuda.per_thread_default_stream()))
    thread.start()
    thread.join()
    assert others[0] != own
    assert cuda.stream() != cuda.stream()


def test_priorities_are_whole_numbers(device):
    least, greatest = device.stream_priorities
    for priority in (least, greatest, -100, 100, np.int8(0)):
        cuda.stream(priority=priority).synchronize()
    for wrong in (0.5, "0", None, True):
        with pytest.raises(TypeError, match="priority"):
            cuda.stream(priority=wrong)


def test_an_event_without_timing_takes_no_part_in_times():
    timed, other = cuda.event(), cuda.event(timing=False)
    for event in (timed, other):
        event.record()
        event.synchronize()
    assert timed.elapsed_time(timed) == 0
    for pair in ((timed, other), (other, timed)):
        with pytest.raises((ValueError, DeviceError), match="timing"):
            cuda.event_elapsed_time(*pair)


def test_a_stream_of_somebody_else_stays_theirs():
    theirs = cuda.stream()
    with pytest.raises(TypeError, match="external_stream"):
        cuda.external_stream("one")
    same = cuda.external_stream(theirs.handle.value)
    assert same.handle == theirs.handle
    array = cuda.to_device(np.arange(10), same)
    del same
    theirs.synchronize()
    assert array.copy_to_host(stream=theirs).tolist() == list(range(10))


def test_a_graph_has_the_name_and_mode_that_it_is_given():
    array = cuda.zeros(10)
    with cuda.graph(cuda.stream(), "ones", "relaxed") as graph:
        array.fill(1)
    assert "ones" in repr(graph)
    assert not array.copy_to_host().any()
    graph.launch()
    cuda.synchronize()
    assert array.copy_to_host().all()
    with pytest.raises(ValueError, match="mode"):
        cuda.graph(mode="somehow")
    with pytest.raises(TypeError, match="stream"):
        cuda.graph("a stream")


def test_synchronize_waits_for_the_current_device_and_gives_back_what_waited(hold_up, monkeypatch):
    stream, target = cuda.stream(), cuda.pinned_zeros(100)
    there = cuda.to_device(np.ones(100))
    reaped = []
    monkeypatch.setattr("haulage.api.streams.memory.reap", lambda: reaped.append(target[0]))
    with hold_up(stream):
        there.copy_to_host(target, stream)
        assert target[0] == 0
    cuda.synchronize()
    assert reaped == [1]


def test_nothing_is_given_back_until_the_outermost_defer_cleanup_ends(device):
    def in_use():
        return haulage.memory.stats(device).in_use

    before = in_use()
    with cuda.defer_cleanup():
        with cuda.defer_cleanup():
            cuda.device_array(1000, np.uint8)
        assert in_use() == before + 1000
    assert in_use() == before
