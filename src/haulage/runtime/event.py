"""Events: marks in streams that can be waited for and timed."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from haulage.errors import DeviceMismatch
from haulage.runtime import faults, finalize
from haulage.runtime.device import Device
from haulage.runtime.handle import Handle
from haulage.runtime.stream import StreamLike, resolve

if TYPE_CHECKING:
    from haulage.runtime.context import Context


class Event:
    """A mark that is put at the present end of a stream, and is reached when its work is done.

    Args:
        device: whose streams it marks.
        timing: whether it can take part in `elapsed_time`.
    """

    __slots__ = ("__weakref__", "device", "handle", "timing")

    def __init__(self, device: Device, timing: bool = True) -> None:
        device.activate()
        self.device = device
        self.timing = timing
        self.handle = Handle(device.backend.event_create(timing))

    @property
    def context(self) -> "Context":
        """The context of its device."""
        return self.device.get_primary_context()

    def record(self, stream: StreamLike = 0) -> None:
        """Mark the present end of `stream`; replaces an earlier record."""
        self.device.backend.event_record(self.handle, self._stream(stream))

    def wait(self, stream: StreamLike = 0) -> None:
        """Let later work of `stream` start only when the last record is reached."""
        self.device.backend.stream_wait_event(self._stream(stream), self.handle)

    def synchronize(self) -> None:
        """Wait until the last record is reached; at once if there was none.

        Raises:
            KernelError: threads of a kernel before the mark had failed.
        """
        self.device.activate()
        faults.waited(self.device.backend.event_synchronize, self.handle)

    def query(self) -> bool:
        """Whether the last record is reached (True if there was none); never waits."""
        self.device.activate()
        return self.device.backend.event_poll(self.handle)

    def elapsed_time(self, evtend: "Event") -> float:
        """Milliseconds from this event's record to that of `evtend`.

        Raises:
            DeviceError: one of them was not recorded, is not reached, or was made without timing.
            DeviceMismatch: they are of two devices.
        """
        if not isinstance(evtend, Event):
            raise TypeError(f"elapsed_time({evtend!r}): expected an event made by event()")
        if evtend.device is not self.device:
            raise DeviceMismatch(
                f"no time can be taken from an event of {self.device} to one of {evtend.device}"
            )
        self.device.activate()
        return self.device.backend.event_elapsed(self.handle, evtend.handle)

    def _stream(self, stream: StreamLike) -> int:
        self.device.activate()
        return resolve(stream, self.device).handle

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} belongs to this process; it cannot be pickled or copied")

    def __repr__(self) -> str:
        return f"<Event {self.handle:#x} on {self.device}>"

    # Bound here, as module names may be gone by the time that the interpreter ends.
    def __del__(self, at_end: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "handle", 0) and not at_end():
            finalize.give_back_handle(self.device.backend.event_destroy, self.handle)


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Milliseconds between two events; see `Event.elapsed_time`."""
    if not isinstance(evtstart, Event):
        raise TypeError(f"event_elapsed_time({evtstart!r}, ...): expected an event made by event()")
    return evtstart.elapsed_time(evtend)
