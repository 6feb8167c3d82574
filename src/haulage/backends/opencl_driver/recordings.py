"""What is handed to streams that are captured: kept instead of run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from haulage.errors import CaptureError

if TYPE_CHECKING:
    from haulage.backends.opencl_driver.streams import Stream


@dataclass(frozen=True)
class Mark:
    """A point of a recording: what has been recorded before it, as bits by their numbers."""

    recording: "Recording"
    before: int


class Recording:
    """What was handed to some streams, in that order; it was begun in the stream `origin`."""

    def __init__(self, origin: "Stream") -> None:
        self.origin = origin.handle
        self.commands: list[tuple[str, Callable[..., int], tuple[Any, ...]]] = []
        self._streams = [origin]
        # For each stream what its end comes after, as bits.
        self._before: dict[int, int] = {origin.handle: 0}
        origin.recording = self

    def add(self, handle: int, name: str, command: Callable[..., int], args: tuple) -> None:
        """A command of a stream of the recording."""
        self._before[handle] |= 1 << len(self.commands)
        self.commands.append((name, command, args))

    def mark(self, handle: int) -> Mark:
        """The present end of a stream."""
        return Mark(self, self._before[handle])

    def join(self, stream: "Stream", mark: Mark) -> None:
        """Let a stream be recorded, behind a mark."""
        if stream.recording is None:
            if stream.handle not in self._before:
                self._streams.append(stream)
                self._before[stream.handle] = 0
            stream.recording = self
        self._before[stream.handle] |= mark.before

    def end(self) -> None:
        """Let go of the streams."""
        for stream in self._streams:
            stream.recording = None

    def check(self) -> None:
        """Raise CaptureError where a stream has commands that the first one does not wait for."""
        every = (1 << len(self.commands)) - 1
        if self._before[self.origin] != every:
            raise CaptureError(
                f"a stream was recorded with stream {self.origin:#x}, which does not wait for the "
                "end of its work; record an event there at last, and let the stream that is "
                "captured wait for it"
            )
