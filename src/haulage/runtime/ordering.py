"""The order of work in two streams, by an event; the host never waits for it."""

from haulage import forks
from haulage.runtime.capture import check_waits, mark_of_handle
from haulage.runtime.device import Device
from haulage.runtime.stream import Stream, is_blocking, marked

# Events that are in no use: a wait hangs on the record that it found, not on the event.
_free: dict[Device, list[int]] = {}

# A device keeps this many; more are in use only while as many threads are in `order` at once.
_KEPT = 16


def after(later: Stream, earlier: Stream) -> None:
    """Let later work of one stream start only when the present work of another is done.

    Nothing is done where they are one, or where the default stream's rule says so already.
    """
    if later.device is not earlier.device:
        order(later.device, later.handle, marked(earlier), earlier.device)
        return
    if later.handle == marked(earlier):
        return
    if not (later.handle and earlier.handle) and is_blocking(later) and is_blocking(earlier):
        return
    order(later.device, later.handle, marked(earlier))


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


forks.in_child(_free.clear)
