"""The rules of CUDA's driver for streams that are captured, on a device that is the processor.

A call against them raises, as the driver's does, and spoils the capture: it ends in an error, so
that a caller who swallows the first one is found out, too.
"""

from collections.abc import Callable
from typing import Any

from haulage.backends.cpu import CPUBackend
from haulage.backends.cpu_driver.recordings import Recorded, Recorder
from haulage.errors import CaptureError, DeviceError

# Method -> where the stream stands among its arguments. Neither a stream that is captured nor the
# default one, while a stream is that it waits for, can be used in these.
_OF_A_STREAM = {
    "stream_destroy": 0,
    "stream_synchronize": 0,
    "stream_query": 0,
    "stream_poll": 0,
    "stream_callback": 0,
    "graph_launch": 1,
}
# In these the default stream cannot be used then.
_WORK = {
    "launch": 4,
    "launch_cooperative": 4,
    "event_record": 1,
    "stream_wait_event": 0,
}
_OF_AN_EVENT = ("event_synchronize", "event_query", "event_poll")


class StrictCaptures(CPUBackend):
    """Refuses what CUDA's driver refuses while a stream is captured."""

    _is_spoilt = False

    def capture_begin(self, stream: int) -> None:
        """The default stream cannot be captured."""
        if not stream:
            raise DeviceError("[900] CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: the default stream")
        super().capture_begin(stream)

    def capture_end(self, stream: int) -> tuple[int, int]:
        """A spoilt capture is none."""
        if self._is_spoilt:
            self.capture_cancel(stream)
            raise CaptureError("[901] CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
        return super().capture_end(stream)

    def capture_cancel(self, stream: int) -> None:
        """Forget it."""
        self._is_spoilt = False
        super().capture_cancel(stream)

    def synchronize(self) -> None:
        """Nothing of the device may be captured."""
        if self._recorders():
            self._spoil("the device is synchronised")
        super().synchronize()

    def event_elapsed(self, start: int, end: int) -> float:
        """Neither may be of a capture."""
        self._check_event("event_elapsed", start)
        self._check_event("event_elapsed", end)
        return super().event_elapsed(start, end)

    def stream_wait_event(self, stream: int, event: int) -> None:
        """A stream that is captured waits for events of its capture."""
        self.check_work("stream_wait_event", stream)
        recorder = self._streams.find(stream)
        record = self._events.find(event).record
        if isinstance(record, Recorded):
            if not stream:
                self._spoil("the default stream waits for an event of a capture")
            if record.recording not in [other.recording for other in self._recorders()]:
                raise DeviceError("[907] CUDA_ERROR_CAPTURED_EVENT: a wait after the capture")
            if isinstance(recorder, Recorder) and recorder.recording is not record.recording:
                self._spoil("two captures are joined")
        elif isinstance(recorder, Recorder):
            self._spoil("a captured stream waits for an event that is not of the capture")
        super().stream_wait_event(stream, event)

    def _recorders(self) -> list[Recorder]:
        every = tuple(self._streams._streams.values())
        return [stream for stream in every if isinstance(stream, Recorder)]

    def _spoil(self, what: str) -> None:
        self._is_spoilt = True
        raise DeviceError(f"[905] CUDA_ERROR_STREAM_CAPTURE_ISOLATION or the like: {what}")

    def check_work(self, method: str, stream: int) -> None:
        """See that a stream can take work."""
        if not stream and any(recorder.real.blocking for recorder in self._recorders()):
            self._spoil(f"{method} in the default stream, which waits for a captured one")

    def _check_stream(self, method: str, stream: int) -> None:
        self.check_work(method, stream)
        if any(recorder.handle == stream for recorder in self._recorders()):
            self._spoil(f"{method} of a captured stream")

    def _check_event(self, method: str, event: int) -> None:
        if isinstance(self._events.find(event).record, Recorded):
            self._spoil(f"{method} of an event that is of a capture")


def _checked(name: str, check: str, place: int) -> Callable[..., Any]:
    def checked(self: StrictCaptures, *args: Any, **named: Any) -> Any:
        getattr(self, check)(name, args[place])
        return getattr(super(StrictCaptures, self), name)(*args, **named)

    return checked


for _name, _place in _OF_A_STREAM.items():
    setattr(StrictCaptures, _name, _checked(_name, "_check_stream", _place))
for _name, _place in _WORK.items():
    if _name != "stream_wait_event":
        setattr(StrictCaptures, _name, _checked(_name, "check_work", _place))
for _name in _OF_AN_EVENT:
    setattr(StrictCaptures, _name, _checked(_name, "_check_event", 0))
