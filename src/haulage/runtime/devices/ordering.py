"""The order of work in two streams, by an event; the host never waits for it."""

from haulage.runtime.devices.capture import check_waits, mark_of_handle
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream, recording_handle

# Events that are in no use: a wait hangs on the record that it found, not on the event.
_free: dict[Device, list[int]] = {}

# A device keeps this many; more are in use only while as many threads are in `order` at once.
_KEPT = 16


def after(later: Stream, earlier: Stream) -> None:
    """Let later work of one stream start only when the present work of another is done.

    Nothing is done where they are one, or where the default stream's rule says so already.
    """
    if later.device is not earlier.device:
        order(later.device, later.handle, recording_handle(earlier), earlier.device)
        return
    if later.handle == recording_handle(earlier):
        return
    if not (later.handle and earlier.handle) and later._is_blocking and earlier._is_blocking:
        return
    order(later.device, later.handle, recording_handle(earlier))


def order(device: Device, later: int, earlier: int, of: Device | None = None) -> None:
    """`after` for any two streams of `device`, by the driver's handles.

    `of` is the earlier one's device, if that is another one of the driver.

    Raises:
        CaptureError: the later one is being captured.
    """
    backend = device.backend
    place = of or device
    if device.capturing:
        check_waits(device, later)
    mark = mark_of_handle(place, earlier) if place.capturing else 0
    if mark:
        device.activate()
        backend.stream_wait_event(later, mark)
        return
    place.activate()
    free = _free.setdefault(place, [])
    try:
        event = free.pop()
    except IndexError:
        event = backend.event_create(False)
    try:
        backend.event_record(event, earlier)
        if of is not None:
            device.activate()
        backend.stream_wait_event(later, event)
    finally:
        if len(free) < _KEPT:
            free.append(event)
        else:
            place.activate()
            backend.event_destroy(event)


def start_anew() -> None:
    """After a fork, in the child: the events are the parent's."""
    _free.clear()
