"""What is handed to streams that are captured: kept instead of run."""

from collections.abc import Callable

from haulage.backends.cpu_driver.tasks import Stream, Task
from haulage.errors import CaptureError


class Recorded(Task):
    """A task that was recorded, and comes after those of its recording in `before`; never done."""

    __slots__ = ("before", "recording")

    def __init__(
        self,
        stream: Stream,
        function: Callable[..., None] | None,
        args: tuple,
        before: "tuple[Recorded, ...]",
        recording: "Recording",
    ) -> None:
        super().__init__(stream, function, args, False)
        self.before = before
        self.recording = recording


class Recording:
    """What was handed to some streams, in that order; it was begun in the stream `origin`."""

    __slots__ = ("origin", "recorders", "tails", "tasks")

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.recorders: list[Recorder] = []
        self.tails: dict[int, Recorded] = {}  # by the stream's handle
        self.tasks: list[Recorded] = []

    def recorder(self, stream: Stream) -> "Recorder":
        """What stands in the place of a stream from now on."""
        made = Recorder(stream, self)
        self.recorders.append(made)
        return made

    def add(
        self,
        stream: Stream,
        function: Callable[..., None] | None,
        args: tuple,
        after: Task | None,
    ) -> Recorded:
        """Record a task.

        Raises:
            CaptureError: it is to come after one that is not recorded here.
        """
        before = [self.tails[stream.handle]] if stream.handle in self.tails else []
        if after is not None:
            if not isinstance(after, Recorded) or after.recording is not self:
                raise CaptureError(
                    f"stream {stream.handle:#x} of the cpu device is recorded and was told to wait "
                    "for an event of other work"
                )
            before.append(after)
        made = Recorded(stream, function, args, tuple(before), self)
        self.tasks.append(made)
        self.tails[stream.handle] = made
        return made


class Recorder(Stream):
    """Stands in the place of the stream `real` while what is handed to that is recorded."""

    __slots__ = ("real", "recording")

    def __init__(self, real: Stream, recording: Recording) -> None:
        # Not what a stream has, whose `tail` is that of the real one here.
        self.handle = real.handle
        self.room = 1  # what is recorded waits in no queue
        self.blocking = False
        self.real = real
        self.recording: Recording | None = recording

    @property
    def tail(self) -> Task | None:
        """Never done, so nobody runs what is handed to it at once."""
        return _NEVER_DONE

    @tail.setter
    def tail(self, task: Task | None) -> None:
        self.real.tail = task


_NEVER_DONE = Task(Stream(0, False), None, (), False)
