"""What streams are made of, and what `Streams` asks of those that run its tasks."""

from collections.abc import Callable, Iterable
from typing import Protocol

from haulage.errors import CaptureError


class Stream:
    """A queue of tasks; `tail` is the last one that was handed over.

    `own` is what callers run themselves, at most one at a time; when it is done, the next of them
    may take the same object.
    """

    __slots__ = ("blocking", "handle", "own", "tail")

    # What a `Recorder` has, which stands in the place of a stream.
    recording: "Recording | None" = None

    def __init__(self, handle: int, blocking: bool) -> None:
        self.handle = handle
        self.blocking = blocking
        self.tail: Task | None = None
        self.renew_own()

    def renew_own(self) -> None:
        """Let the next caller take a new task, as somebody may look at this one."""
        self.own = Task(self, None, (), False)
        self.own.waits = 0
        self.own.done = True


class Task:
    """One piece of work of a stream; without a function it only marks a point of the stream."""

    __slots__ = ("args", "callback", "done", "followers", "function", "stamp", "stream", "waits")

    def __init__(
        self, stream: Stream, function: Callable[..., None] | None, args: tuple, callback: bool
    ) -> None:
        self.stream = stream
        self.function = function
        self.args = args
        self.callback = callback  # runs a caller's Python function: nobody can say for how long
        self.waits = 1  # predecessors that are not done, and one until it is handed over
        self.followers: list[Task] = []
        self.done = False
        self.stamp = 0  # perf_counter_ns of its end, for marks


def hang(task: Task, predecessor: Task | None) -> None:
    """Let a task wait for another one, if that is not done."""
    if predecessor is not None and not predecessor.done:
        task.waits += 1
        predecessor.followers.append(task)


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


class Turn:
    """What is done at most once at a time: `last` is the task that ends what was handed over
    last."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: Task | None = None


class Gate(Task):
    """A point of several streams that they pass once earlier work is done and it is opened."""

    __slots__ = ("opened",)

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream, None, (), False)
        self.opened = False


_NEVER_DONE = Task(Stream(0, False), None, (), False)


class Event:
    """The last record of an event, if any."""

    __slots__ = ("record", "timing")

    def __init__(self, timing: bool) -> None:
        self.timing = timing
        self.record: Task | None = None


class Executor(Protocol):
    """Runs the tasks in `Streams.ready`; its methods are called with `Streams.lock` held."""

    def wake(self) -> None:
        """There are ready tasks: see to it that they are run, by `Streams.perform`."""

    def close(self) -> list[Task]:
        """Begin nothing any more; returns the tasks that are running."""

    def join(self) -> None:
        """After `close`, the lock not held: wait for the threads that can be waited for."""

    def renew(self) -> None:
        """After a fork, in the child: the threads are gone and the lock is another."""


class Plan(Protocol):
    """The order in which an adversary lets go what some tasks need."""

    def advance(self, patient: bool = True) -> None:
        """Let the next task go if none is running, or if it is a callback that takes long.

        Without patience any callback takes long.
        """


class Adversary(Protocol):
    """Holds work back; its methods are called with `Streams.lock` held.

    What it holds has one more in `waits` than predecessors that are not done. It lets a task go by
    taking that off and putting the task into `Streams.ready`. Marks only stand in its list, as
    tasks hang on each other by them.
    """

    held: list[Task]  # what was handed over and may not be done, in that order; `Streams` adds

    def promise(self, callback: Task) -> None:
        """A callback was handed over: it must run also if nobody ever waits for it."""

    def plan(self, tasks: Iterable[Task | None]) -> Plan:
        """How to get `tasks` done."""

    def close(self) -> None:
        """Let nothing go any more."""

    def join(self) -> None:
        """After `close`, the lock not held: wait for its threads."""

    def renew(self) -> None:
        """After a fork, in the child: nothing is held, the threads are gone."""
