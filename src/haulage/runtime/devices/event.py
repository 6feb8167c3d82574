"""Events: marks in streams that can be waited for and timed."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from haulage.checks import flag
from haulage.errors import CaptureError, DeviceMismatch
from haulage.runtime.devices import faults
from haulage.runtime.devices.capture import Capture, capture_of
from haulage.runtime.devices.device import Device, Handle, check_device
from haulage.runtime.devices.stream_arguments import StreamLike, device_of, for_work
from haulage.runtime.process import finalize

if TYPE_CHECKING:
    from haulage.runtime.context import Context


class Event:
    """A mark that is put at the present end of a stream, and is reached when its work is done.

    Args:
        device: whose streams it marks.
        timing: whether it can take part in `elapsed_time`.
    """

    __slots__ = ("__weakref__", "_capture", "_is_recorded", "device", "handle", "timing")

    def __init__(self, device: Device, timing: bool = True) -> None:
        check_device(device, "Event")
        timing = flag(timing, "Event: timing")
        device.activate()
        self.device = device
        self.timing = timing
        self._is_recorded = False
        self._capture: Capture | None = None  # that its last record is a point of
        self.handle = Handle(device.backend.event_create(timing))

    @property
    def context(self) -> "Context":
        """The context of its device."""
        return self.device.get_primary_context()

    def record(self, stream: StreamLike = 0) -> None:
        """Mark the present end of `stream`; replaces an earlier record.

        In a stream that is being captured it is a point of the graph, for other streams that are to
        be captured with it to wait for, and has no time.
        """
        chosen = for_work(stream, self.device)
        self.device.activate()
        self.device.backend.event_record(self.handle, chosen.handle)
        self._is_recorded = True
        self._capture = capture_of(chosen) if self.device.capturing else None

    def wait(self, stream: StreamLike = 0) -> None:
        """Let later work of `stream` start only when the last record is reached.

        It may be a stream of another device of the same driver. Where that is a point of a graph
        that is being captured, the stream is captured with it.

        Raises:
            CaptureError: only one of event and stream is of a capture, or they are of two.
            DeviceMismatch: the stream is one of another driver.
        """
        place = device_of(stream)
        if place is None or place.backend is not self.device.backend:
            place = self.device
        chosen = for_work(stream, place)
        if self._capture is not None:
            if place is not self.device:
                raise CaptureError(
                    f"{chosen!r} is not of {self.device}, whose stream is captured; a graph has "
                    "work of one device"
                )
            self._capture.join(chosen, partial(_wait, place, chosen.handle, self.handle))
        elif chosen.handle not in place.capturing:
            _wait(place, chosen.handle, self.handle)
        elif self._is_recorded:
            raise CaptureError(
                f"{chosen!r} is being captured and cannot wait for {self!r}, which was recorded "
                "outside of the graph; let the stream wait that the graph is launched in"
            )

    def synchronize(self) -> None:
        """Wait until the last record is reached; at once if there was none.

        Raises:
            KernelError: threads of a kernel before the mark had failed.
            CaptureError: the last record is a point of a graph.
        """
        self._check_time()
        self.device.activate()
        faults.waited(self.device.backend.event_synchronize, self.handle)

    def query(self) -> bool:
        """Whether the last record is reached (True if there was none); never waits.

        Raises:
            CaptureError: the last record is a point of a graph.
        """
        self._check_time()
        self.device.activate()
        return self.device.backend.event_poll(self.handle)

    def elapsed_time(self, evtend: "Event") -> float:
        """Milliseconds from this event's record to that of `evtend`.

        Raises:
            DeviceError: one of them was not recorded, is not reached, or was made without timing.
            DeviceMismatch: they are of two devices.
            CaptureError: the last record of one of them is a point of a graph.
        """
        if not isinstance(evtend, Event):
            raise TypeError(f"elapsed_time({evtend!r}): expected an event made by event()")
        if evtend.device is not self.device:
            raise DeviceMismatch(
                f"no time can be taken from an event of {self.device} to one of {evtend.device}"
            )
        self._check_time()
        evtend._check_time()
        self.device.activate()
        return self.device.backend.event_elapsed(self.handle, evtend.handle)

    def _check_time(self) -> None:
        if self._capture is not None:
            raise CaptureError(
                f"{self!r} was last recorded in a stream that was captured: it is a point of a "
                "graph and no point in time; record it in the stream that the graph is launched in"
            )

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} belongs to this process; it cannot be pickled or copied")

    def __repr__(self) -> str:
        return f"<Event {self.handle:#x} on {self.device}>"

    # Bound here, as module names may be gone by the time that the interpreter ends.
    def __del__(self, at_end: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "handle", 0) and not at_end():
            finalize.give_back_handle(_destroy, self.device, self.handle)


def _wait(device: Device, stream: int, event: int) -> None:
    device.activate()
    device.backend.stream_wait_event(stream, event)


def _destroy(device: Device, handle: int) -> None:
    device.activate()
    device.backend.event_destroy(handle)


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Milliseconds between two events; see `Event.elapsed_time`."""
    if not isinstance(evtstart, Event):
        raise TypeError(f"event_elapsed_time({evtstart!r}, ...): expected an event made by event()")
    return evtstart.elapsed_time(evtend)
