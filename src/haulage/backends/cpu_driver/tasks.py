"""What streams are made of, and what `Streams` asks of those that run its tasks."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from haulage._core import cpu_streams
from haulage._core.cpu_streams import StreamBase, TaskBase

if TYPE_CHECKING:
    from haulage.backends.cpu_driver.recordings import Recording


class Stream(StreamBase):
    """A queue of tasks; `tail` is the last one that was handed over.

    `own` is what callers run themselves, at most one at a time; when it is done, the next of them
    may take the same object. `room` is how many tasks more may wait in the queue; where none may,
    the next one waits until the task `halfway` is done.
    """

    __slots__ = ("blocking", "halfway", "handle", "room")

    # What a `Recorder` has, which stands in the place of a stream.
    recording: "Recording | None" = None

    def __init__(self, handle: int, blocking: bool) -> None:
        self.handle = handle
        self.blocking = blocking
        self.tail: Task | None = None
        self.halfway: Task | None = None
        self.room = 0
        self.renew_own()

    def renew_own(self) -> None:
        """Let the next caller take a new task, as somebody may look at this one."""
        self.own = Task(self, None, (), False)
        self.own.waits = 0
        self.own.done = True


cpu_streams.know(Stream)


class Task(TaskBase):
    """One piece of work of a stream; without a function it only marks a point of the stream."""

    __slots__ = (
        "args",
        "by",
        "callback",
        "dropped",
        "function",
        "stamp",
        "waits",
    )

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
        self.by = 0  # the `ident` of the thread that handed it over
        self.dropped = False  # whether it, or something before it, was stopped by Ctrl-C
        self.thread = 0  # the `ident` of the one that runs it


def hang(task: Task, predecessor: Task | None) -> None:
    """Let a task wait for another one, if that is not done."""
    if predecessor is not None and not predecessor.done:
        task.waits += 1
        predecessor.followers.append(task)


def leads_to(task: Task, other: Task) -> bool:
    """Whether `other` is `task`, or can begin only when `task` is done."""
    seen = {task}
    open_tasks = [task]
    while open_tasks:
        looked_at = open_tasks.pop()
        if looked_at is other:
            return True
        for follower in looked_at.followers:
            if follower not in seen:
                seen.add(follower)
                open_tasks.append(follower)
    return False


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

    def running(self) -> list[Task]:
        """The tasks that are running."""

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
