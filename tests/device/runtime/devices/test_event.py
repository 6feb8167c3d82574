"""Events: marks in streams, which are reached, waited for and timed."""

import gc
import pickle
import threading

import numpy as np
import pytest

from haulage import cuda
from haulage.errors import CaptureError, DeviceError, DeviceMismatch
from haulage.runtime.devices.event import Event

pytestmark = pytest.mark.usefixtures("device")


def numbers(n):
    return np.arange(n, dtype=np.float32)


def pinned(values):
    array = cuda.pinned_array_like(values)
    array[...] = values
    return array


def test_an_event_is_reached_when_its_stream_is(hold_up):
    stream = cuda.stream()
    event = cuda.event()
    assert event.query()
    with hold_up(stream):
        event.record(stream)
        assert not event.query()
    event.synchronize()
    assert event.query()


def test_an_event_makes_another_stream_wait(hold_up):
    first, second = cuda.stream(), cuda.stream()
    event = cuda.event(timing=False)
    there = cuda.device_array(8, np.float32)
    target = pinned(np.zeros(8, np.float32))
    with hold_up(first):
        there.copy_to_device(pinned(numbers(8)), stream=first)
        event.record(first)
        second.wait(event)
        there.copy_to_host(target, stream=second)
        assert not second.query()
    second.synchronize()
    np.testing.assert_array_equal(target, numbers(8))


def test_time_between_events_is_in_milliseconds(hold_up):
    stream = cuda.stream()
    start, end = cuda.event(), cuda.event()
    start.record(stream)
    with hold_up(stream):
        end.record(stream)
        threading.Event().wait(0.03)
    end.synchronize()
    assert 25 < start.elapsed_time(end) < 30_000
    assert cuda.event_elapsed_time(start, end) == start.elapsed_time(end)
    with pytest.raises(DeviceError):
        cuda.event().elapsed_time(end)
    with pytest.raises(DeviceError):
        start.elapsed_time(cuda.event(timing=False))
    with pytest.raises(TypeError, match="expected an event"):
        start.elapsed_time(3)


def test_a_later_record_replaces_an_earlier_one(hold_up):
    stream, event = cuda.stream(), cuda.event()
    event.record(stream)
    event.synchronize()
    with hold_up(stream):
        event.record(stream)
        assert not event.query()
        event.record()  # in the default stream, which waits for this one
        assert not event.query()
    event.synchronize()
    assert event.query()


def test_what_waits_for_an_event_that_was_not_recorded_goes_on():
    stream, event = cuda.stream(), cuda.event()
    stream.wait(event)
    event.wait()
    stream.synchronize()
    event.synchronize()
    for wrong in (None, 3, stream):
        with pytest.raises(TypeError, match="expected an event made by event"):
            stream.wait(wrong)


def test_an_event_of_a_capture_is_no_point_in_time():
    stream, array = cuda.stream(), cuda.zeros(4)
    inside, outside = cuda.event(), cuda.event()
    outside.record()
    with cuda.graph(stream) as graph:
        array.fill(1, stream)
        inside.record(stream)
        with pytest.raises(CaptureError, match="recorded outside of the graph"):
            stream.wait(outside)
    for ask in (inside.query, inside.synchronize, lambda: inside.elapsed_time(outside)):
        with pytest.raises(CaptureError, match="a point of a graph and no point in time"):
            ask()
    inside.record()
    inside.synchronize()
    graph.launch()


def test_an_event_is_of_one_device(two_nulls):
    import haulage

    with haulage.use("null:0"):
        first = cuda.event()
    with haulage.use("null:1"):
        second = cuda.event()
    with pytest.raises(DeviceMismatch, match=r"from an event of null:0 to one of null:1"):
        first.elapsed_time(second)
    assert first.context.device is first.device


def test_it_is_given_back_and_cannot_be_copied(device, monkeypatch):
    gone = []
    event = cuda.event()
    handle = event.handle
    assert f"<Event {handle:#x} on {device}>" == repr(event)
    with pytest.raises(TypeError, match="belongs to this process"):
        pickle.dumps(event)
    destroy = device.backend.event_destroy
    monkeypatch.setattr(
        device.backend, "event_destroy", lambda which: (gone.append(which), destroy(which))
    )
    del event
    gc.collect()
    assert handle in gone


@pytest.mark.parametrize("given", [(None,), ("cpu",), ("device", "perhaps")])
def test_an_event_wants_a_device_and_an_answer(device, given):
    arguments = [device if each == "device" else each for each in given]
    if len(given) > 1:
        arguments[1] = np.zeros(2)
    with pytest.raises(TypeError):
        Event(*arguments)
