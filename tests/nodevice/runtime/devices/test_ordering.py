"""Two streams in order by an event, which is used again; the host waits for nothing."""

import pytest

from haulage.backends.base import NON_BLOCKING
from haulage.backends.null import NullBackend
from haulage.runtime.devices import ordering
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream


class Noting(NullBackend):
    def __init__(self):
        super().__init__()
        self.calls = []
        self.fails = False

    def event_record(self, event, stream):
        self.calls.append(("record", event, stream))

    def stream_wait_event(self, stream, event):
        self.calls.append(("wait", stream, event))
        if self.fails:
            raise ZeroDivisionError

    def event_destroy(self, event):
        self.calls.append(("destroy", event))


@pytest.fixture
def device():
    made = Device("null", Noting(), 0)
    yield made
    ordering._free.pop(made, None)


def test_the_later_one_waits_for_an_event_of_the_earlier_one(device):
    first, second = Stream.create(device), Stream.create(device)
    ordering.after(second, first)
    (_, event, recorded), (_, waiting, awaited) = device.backend.calls
    assert (recorded, waiting) == (first.handle, second.handle)
    assert event == awaited
    ordering.after(first, second)  # the same event serves again
    assert device.backend.calls[2:] == [
        ("record", event, second.handle),
        ("wait", first.handle, event),
    ]


def test_what_is_in_order_already_is_left_alone(device):
    stream, default = Stream.create(device), device.default_stream
    for pair in ((stream, stream), (stream, default), (default, stream), (default, default)):
        ordering.after(*pair)
    assert device.backend.calls == []
    # The default stream and one that does not wait for it are not.
    other = Stream.create(device, NON_BLOCKING)
    ordering.after(other, default)
    ordering.after(default, other)
    assert [call[0] for call in device.backend.calls] == ["record", "wait"] * 2


def test_an_event_is_free_again_after_a_failure(device):
    first, second = Stream.create(device), Stream.create(device)
    device.backend.fails = True
    with pytest.raises(ZeroDivisionError):
        ordering.after(second, first)
    device.backend.fails = False
    ordering.after(second, first)
    events = {call[1] for call in device.backend.calls if call[0] == "record"}
    assert len(events) == 1


def test_so_many_events_are_kept_and_the_others_destroyed(device):
    first, second = Stream.create(device), Stream.create(device)
    ordering._free[device] = kept = [*range(1000, 1000 + ordering._KEPT)]
    ordering.after(second, first)
    assert len(kept) == ordering._KEPT
    kept.append(5)  # as when another thread came back meanwhile
    ordering.after(second, first)
    kept.append(6)
    popped = kept[-1]
    device.backend.calls.clear()
    device.backend.stream_wait_event = lambda *_: kept.append(7)
    ordering.after(second, first)
    assert device.backend.calls[-1] == ("destroy", popped)


def test_streams_of_two_devices_are_ordered_by_an_event_of_the_earlier_ones():
    backend = Noting()
    one, two = Device("null", backend, 0), Device("null", backend, 1)
    active = []
    backend.activate = active.append
    first, second = Stream.create(one), Stream.create(two)
    active.clear()
    ordering.after(second, first)
    assert active == [0, 1]
    assert [call[0] for call in backend.calls] == ["record", "wait"]
    for each in (one, two):
        ordering._free.pop(each, None)


def test_a_forked_child_has_none_of_the_parents(device):
    ordering._free[device] = [1]
    ordering.start_anew()
    assert device not in ordering._free
