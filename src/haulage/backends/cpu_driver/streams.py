"""Streams and the rules of their order.

Whatever is handed to a stream becomes a task that hangs on earlier ones: on the last task of its
own stream, on the event the stream was told to wait for, and on the default stream's rule (its
work waits for all earlier work of the blocking streams, and theirs for its). A task whose last
predecessor ends is ready. Who runs ready tasks, and when, is the executor's business: `Threads`
runs them as soon as it can.

Work of the default stream that has nothing to wait for is run at once by the calling thread, and so
is work of other streams that takes less than to hand it over; of launches that is decided in
`haulage._core.cpu_streams`. An `Adversary` holds all work back
instead, and lets it go to the executor late and out of order.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from haulage import config
from haulage._core.cpu_streams import StreamsBase
from haulage.backends.base import NON_BLOCKING, KernelStopped
from haulage.backends.cpu_driver.failures import Failures
from haulage.backends.cpu_driver.interrupts import (
    DROPPED,
    doomed,
    followers_of,
    nothing,
)
from haulage.backends.cpu_driver.recordings import Recorder
from haulage.backends.cpu_driver.tasks import (
    Adversary,
    Executor,
    Gate,
    Plan,
    Stream,
    Task,
    Turn,
    hang,
    leads_to,
)
from haulage.errors import DeviceError, Interrupted
from haulage.interruption import on_error

DEFAULT_STREAM = 0

# A wait wakes up this often (seconds) so that systems whose lock waits can't be interrupted
# still see Ctrl-C.
_TICK = 0.2

# Who is interrupted waits at most so long (seconds) for the kernels that are stopped.
_LONGEST_STOP = 1.0


class Streams(StreamsBase):
    """All streams of the device. Safe to use from any thread.

    Ctrl-C may raise KeyboardInterrupt in the main thread after any call and at any turn of a
    loop. So what must not come apart stands together without either, and `end_and_wake` can be
    begun again wherever it was cut short.
    """

    def __init__(self, executor: Callable[["Streams"], Executor]) -> None:
        # Reentrant, as a collection may run a finaliser that frees an array while it is held.
        self.lock: Any = threading.RLock()
        self.ready: deque[Task] = deque()
        self._changed = threading.Condition(self.lock)
        self._waiting = 0
        self._awaited: dict[int, Task | None] = {}  # by the `ident` of those who wait
        # As with CUDA, 1 and 2 are no handles: other libraries call default streams so.
        self.handles = itertools.count(3)
        self._default = Stream(DEFAULT_STREAM, blocking=False)
        self._streams = {DEFAULT_STREAM: self._default}
        self._busy: dict[Stream, None] = {}  # streams other than the default whose tail is not done
        self._gate: Gate | None = None  # the last one; streams that are made begin behind it
        self._ended: list[Task] = []  # done, but not all of their followers are started
        self._failures = Failures()
        self._failed = self._failures.first
        self._here = threading.local()  # its `callback`: the one that the thread is running
        self.closed = False
        self._executor = executor(self)
        self._adversary: Adversary | None = None
        self._held: list[Task] | None = None  # its list
        # What runs kernels, and what stops those that a thread runs.
        self.kernels: frozenset[Callable[..., None]] = frozenset()
        self.stop_thread: Callable[[int], object] = bool

    # ---- handing over -------------------------------------------------------------------------

    def submit(
        self,
        handle: int,
        function: Callable[..., None] | None,
        *args: Any,
        after: Task | None = None,
        callback: bool = False,
        short: bool = False,
        turn: Turn | None = None,
    ) -> Task:
        """Hand `function(*args)` to a stream, to be run after the task `after` as well.

        It may be run at once where it is `short`: to wake another thread takes longer. What is
        handed over with one `turn` runs in that order.

        Raises:
            DeviceError: there is no such stream, or the interpreter is shutting down.
        """
        stream = self.find(handle)
        default = self._default
        if stream.recording is not None:
            with self.lock:
                return stream.recording.add(stream, function, args, after)
        if stream.room <= 0:
            self.wait_for_room(stream)
        task = Task(stream, function, args, callback)
        task.by = get_ident()
        at_once = False
        try:
            with self.lock:
                if self.closed and stream is not default and function is not None:
                    raise DeviceError("the cpu device takes no more work: the interpreter ends")
                hang(task, stream.tail)
                if after is not None:
                    hang(task, after)
                if stream is not default:
                    if stream.blocking:
                        hang(task, default.tail)
                elif self._busy:
                    for other in list(self._busy):
                        if other.blocking:
                            hang(task, other.tail)
                held = self._held
                if turn is not None:
                    hang(task, turn.last)
                    turn.last = task
                stream.tail = task
                if stream is not default:
                    self._busy[stream] = None
                if held is None or function is None:
                    task.waits -= 1
                if task.waits:
                    stream.room -= 1
                    if held is not None:
                        held.append(task)
                        if callback and self._adversary is not None:
                            self._adversary.promise(task)
                    return task
                if (
                    function is None
                    or short
                    or (stream is default and (not callback or self.closed))
                ):
                    if function is not None and not callback:
                        stream.own = task
                        task.thread = task.by
                    at_once = True
                else:
                    stream.room -= 1
                    self.ready.append(task)
                    self._executor.wake()
            if at_once:
                if function is not None:
                    try:
                        function(*args)
                    except Exception as error:
                        # Anything else, a signal handler's exception for one, is the caller's to
                        # see now.
                        if not (callback or isinstance(error, KernelStopped)):
                            raise
                        self._keep(task, error)
                self.end_and_wake(task)
        except BaseException as error:
            if at_once:
                if not isinstance(error, Exception):
                    self.drop_followers(task)
                self.end_and_wake(task)
            raise
        return task

    def submit_all(self, root: Task, tasks: Sequence[Task], turn: Turn) -> None:
        """Hand tasks that hang on one another, and all on `root`, to the stream of these.

        The last one is done when all are. `turn` is as for `submit`; the lock is held.

        Raises:
            DeviceError: the interpreter is shutting down.
        """
        stream, last, default = root.stream, tasks[-1], self._default
        if self.closed:
            raise DeviceError("the cpu device takes no more work: the interpreter ends")
        me = get_ident()
        for task in tasks:
            task.by = me
            if self._held is None or task.function is None:
                task.waits -= 1
        for earlier in self._before(stream):
            hang(root, earlier)
        hang(root, turn.last)
        if self._held is not None:
            self._held += (root, *tasks)
        with on_error(self._end_if_ready, root):
            turn.last = stream.tail = last
            if stream is not default:
                self._busy[stream] = None
            stream.room -= len(tasks)
            root.waits -= 1
            self._end_if_ready(root)

    def _end_if_ready(self, root: Task) -> None:
        if not root.waits:
            self.end_and_wake(root)

    def _before(self, stream: Stream) -> list[Task | None]:
        """What new work of a stream comes after."""
        default = self._default
        if stream is default:
            return [stream.tail, *(other.tail for other in self._busy if other.blocking)]
        return [stream.tail, default.tail] if stream.blocking else [stream.tail]

    @property
    def is_opposed(self) -> bool:
        """Whether an adversary holds work back."""
        return self._held is not None

    def oppose(self, adversary: Adversary | None) -> None:
        """Let `adversary` hold back what is handed over from now on; what was held is let go."""
        with self.lock:
            before = self._adversary
            with on_error(self._let_go, before):
                if not self.closed:
                    self._adversary = adversary
                    self._held = None if adversary is None else adversary.held
                self._let_go(before)
        if before is not None:
            before.join()

    def _let_go(self, adversary: Adversary | None) -> None:
        if adversary is None:
            return
        adversary.close()
        held = adversary.held
        while held:
            task = held[0]
            if task.function is not None and task.waits and not task.done:
                task.waits -= 1
                if not task.waits:
                    self.ready.append(task)
            del held[0]
        if not self.closed:
            self._executor.wake()
        self._changed.notify_all()

    def perform(self, task: Task) -> None:
        """Run a ready task in this thread; what it raises is kept. `end` must follow."""
        self._here.callback = task if task.callback else None
        task.thread = get_ident()
        try:
            if task.function is not None:
                task.function(*task.args)
        except Interrupted as error:
            if not task.dropped:
                self._keep(task, error)
        except BaseException as error:  # of an executor's thread, so nobody else would see it
            self._keep(task, error)
        finally:
            self._here.callback = None

    def end(self, task: Task) -> None:
        """Note that a task is done and make ready what waited for it; wakes no executor."""
        with self.lock:
            if not task.done:
                task.stamp = time.perf_counter_ns()
                task.done = True
                task.args = ()  # an event may keep the task; its arguments need not live on
                self._ended.append(task)
            while self._ended:
                task = self._ended[-1]
                while task.followers:
                    follower = task.followers[-1]
                    del task.followers[-1]
                    follower.waits -= 1
                    if follower.waits:
                        continue
                    if follower.function is not None and not self.closed:
                        self.ready.append(follower)
                    else:
                        follower.stamp = time.perf_counter_ns()
                        follower.done = True
                        self._ended.append(follower)
                        break
                else:
                    if task.stream.tail is task:
                        self._busy.pop(task.stream, None)
                    # The last one, unless a handler of a signal has done it all meanwhile.
                    if self._ended and self._ended[-1] is task:
                        del self._ended[-1]
            if self._waiting:
                self._changed.notify_all()

    def end_and_wake(self, task: Task) -> None:
        """`end`, and see to it that what is ready then is run."""
        self.end(task)
        if self.ready:
            with self.lock:
                self._executor.wake()

    def _keep(self, task: Task, error: BaseException) -> None:
        self.keep(task.stream, error)

    def keep(self, stream: Stream, error: BaseException) -> None:
        """Let the next synchronise of a stream raise what failed in it."""
        with self.lock:
            self._failures.add(stream, error)

    # ---- the bound of the queues ----------------------------------------------------------------

    def wait_for_room(self, stream: Stream) -> None:
        """Where the queue of a stream is full, wait until it is half full; Ctrl-C interrupts it.

        Threads that run the work of streams never wait, so a callback does not, nor does who has
        the lock: the work that is waited for may need them.

        Raises:
            ValueError: HAULAGE_QUEUE_DEPTH is no such number.
        """
        if getattr(self._here, "serves", False) or self.lock._is_owned():
            return
        most = config.queue_depth()
        while stream.room <= 0 and not self.closed:
            halfway = stream.halfway
            self.wait((halfway,))
            with self.lock:
                if stream.room <= 0 and stream.halfway is halfway:
                    stream.halfway = stream.tail
                    stream.room = most // 2

    def serve(self) -> None:
        """The calling thread runs tasks, or sees to it that others do."""
        self._here.serves = True

    # ---- waiting ------------------------------------------------------------------------------

    def wait(self, tasks: Sequence[Task | None]) -> None:
        """Return when all `tasks` are done.

        Ctrl-C, or whatever a signal's handler raises, interrupts it; see `_stop`.

        Raises:
            DeviceError: a callback waits for what can only run once it has returned.
            Interrupted: they were dropped meanwhile, as another thread was interrupted.
        """
        plan: Plan | None = None
        callback: Task | None = getattr(self._here, "callback", None)
        for task in tasks:
            if task is None or task.done:
                continue
            with self.lock:
                if callback is not None and leads_to(callback, task):
                    raise DeviceError(
                        f"a callback of stream {callback.stream.handle:#x} waits for work that "
                        "begins only when it has returned (the default stream waits for all "
                        "others); hand work to another stream, or leave it to the thread that "
                        "synchronises"
                    )
                if plan is None and self._adversary is not None:
                    plan = self._adversary.plan(tasks)
                self._waiting += 1
                known = task.dropped
                me = get_ident()
                before = self._awaited.get(me)
                self._awaited[me] = task
                try:
                    while not task.done:
                        if plan is not None:
                            plan.advance()
                            self._executor.wake()
                        self._changed.wait(_TICK)
                        if self.ready:
                            self._executor.wake()  # an interrupt may have come before it was
                except BaseException:
                    self._stop(tasks)
                    raise
                finally:
                    self._waiting -= 1
                    self._awaited[me] = before
                    if before is None:
                        del self._awaited[me]
                if task.dropped and not known:
                    raise Interrupted(DROPPED)

    def _stop(self, tasks: Sequence[Task | None]) -> None:
        """Stop the kernels that `tasks` need, as their wait was interrupted; the lock is held.

        Kernels that come after one of those, in any stream, are dropped; where another thread had
        handed them over, the next wait for their stream says so. Copies, events and callbacks go
        on, as others rely on them.
        """
        open_tasks = [*self._executor.running(), *self.ready, *(self._held or ())]
        open_tasks += [stream.own for stream in (self._default, *self._busy)]
        lost = doomed(open_tasks, tasks, self._is_kernel)
        self._forgo(lost)
        # Until they are stopped; not for ever, as there may be something that cannot be.
        until = time.monotonic() + _LONGEST_STOP
        running = [task for task in lost if task.thread and task.function is not nothing]
        while running and time.monotonic() < until:
            for task in running:
                self.stop_thread(task.thread)
            self._changed.wait(0.01)
            running = [task for task in running if not task.done]

    def drop_followers(self, task: Task) -> None:
        """The caller's own task was interrupted: drop the kernels that come after it."""
        with self.lock:
            self._forgo(followers_of([task])[1:])

    def _forgo(self, tasks: Sequence[Task]) -> None:
        me = get_ident()
        losers: set[Stream] = set()
        for task in tasks:
            # Whose own it is hears it by the exception that stops it.
            if task.function in self.kernels and task is not task.stream.own:
                if task.by != me:
                    losers.add(task.stream)
                if not task.thread:
                    task.function = nothing
            task.dropped = True
        # Who waits for them just now hears it there.
        heard = {t.stream for who, t in self._awaited.items() if t and t.dropped and who != me}
        for stream in losers - heard:
            self.keep(stream, Interrupted(DROPPED))

    def _is_kernel(self, task: Task) -> bool:
        return task is task.stream.own or task.function in self.kernels

    def doze(self, seconds: float) -> None:
        """The lock held once: let ready tasks run, and wait until one ends, or for that time."""
        self._executor.wake()
        self._waiting += 1
        try:
            self._changed.wait(seconds)
        finally:
            self._waiting -= 1

    def synchronize(self) -> None:
        """Wait for all work of all streams, then raise what failed, once."""
        last = self._default.tail
        if self._busy or (last and not last.done):
            with self.lock:
                tails = [self._default.tail, *(stream.tail for stream in self._busy)]
            self.wait(tails)
        if self._failures:
            self._raise_failures(None)

    def stream_synchronize(self, handle: int) -> None:
        """Wait for all work of one stream, then raise what failed in it, once."""
        stream = self.find(handle)
        self.wait((stream.tail,))
        if self._failures:
            self._raise_failures(stream)

    def wait_for(self, task: Task) -> None:
        """Wait for a task, then raise what failed in its stream, once."""
        self.wait((task,))
        if self._failures:
            self._raise_failures(task.stream)

    def stream_query(self, handle: int) -> bool:
        """Whether all work of the stream is done."""
        tail = self.find(handle).tail
        return tail is None or tail.done

    def stream_poll(self, handle: int) -> bool:
        """`stream_query`; an adversary lets one of the tasks that it takes go."""
        return self.poll(self.find(handle).tail)

    def poll(self, task: Task | None) -> bool:
        """Whether a task is done; an adversary lets one of those that it takes go."""
        if task is None or task.done:
            return True
        with self.lock:
            if self._adversary is not None:
                self._adversary.plan((task,)).advance(patient=False)
                self._executor.wake()
        return False

    @contextmanager
    def hold_idle(self) -> Iterator[None]:
        """Inside the `with` no work runs; what is handed over meanwhile begins after it.

        It waits for all work that was handed over before, so a task's function must not enter it.
        """
        gate = Gate(self._default)
        gated: list[Stream] = []  # the blocking ones wait for the default stream's tail anyway
        with on_error(self._open, gate, gated):
            with self.lock:
                tails = [self._default.tail, *(stream.tail for stream in self._busy)]
                for tail in tails:
                    hang(gate, tail)
                for stream in (*self._streams.values(), *self._busy):
                    if not stream.blocking:
                        gated.append(stream)
                        stream.tail = gate
                self._gate = gate
            self.wait(tails)
            yield
            self._open(gate, gated)

    def _open(self, gate: Gate, gated: list[Stream]) -> None:
        with self.lock:
            if not gate.opened:
                gate.opened = True
                gate.waits -= 1
            if not gate.waits:
                self.end_and_wake(gate)
            for stream in gated:
                if stream.tail is gate:
                    self._busy.pop(stream, None)

    def _raise_failures(self, stream: Stream | None) -> None:
        with self.lock:
            self._failures.raise_first(stream)

    def take_failures(self) -> list[BaseException]:
        """The first failure of each stream that was not raised so far; none of them will be."""
        with self.lock:
            return self._failures.take()

    # ---- streams ------------------------------------------------------------------------------

    def stream_create(self, flags: int) -> int:
        """A new stream's handle."""
        handle = next(self.handles)
        stream = Stream(handle, blocking=not flags & NON_BLOCKING)
        with self.lock:
            stream.tail = self._gate
            self._streams[handle] = stream
        return handle

    def stream_destroy(self, handle: int) -> None:
        """Forget a stream; what it still holds is run."""
        if handle == DEFAULT_STREAM:
            raise DeviceError("the default stream of the cpu device cannot be destroyed")
        self.find(handle)
        del self._streams[handle]

    def exchange(self, stream: Stream) -> None:
        """Let `stream` stand in the place of that with the same handle."""
        self._streams[stream.handle] = stream

    def find(self, handle: int) -> Stream:
        stream = self._streams.get(handle)
        if stream is None:
            raise DeviceError(f"the cpu device has no stream {handle:#x}; it may be destroyed")
        return stream

    # ---- the ends of things -------------------------------------------------------------------

    def close(self) -> None:
        """At exit: drop what has not begun, and wait for what runs except callers' callbacks."""
        with self.lock:
            self.closed = True
            running = self._executor.close()
            adversary, self._adversary, self._held = self._adversary, None, None
            if adversary is not None:
                self._let_go(adversary)  # nothing runs any more: it is dropped with the rest
            while self.ready:
                self.end_and_wake(self.ready.pop())
            running += [stream.own for stream in (self._default, *self._busy)]
        self.wait([task for task in running if not task.callback])
        self._executor.join()
        if adversary is not None:
            adversary.join()

    def renew(self) -> None:
        """After a fork, in the child: no queued work, no threads; handles stay good."""
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._waiting = 0
        for stream in tuple(self._streams.values()):
            if isinstance(stream, Recorder):
                self.exchange(stream.real)
        for stream in (self._default, *self._streams.values(), *self._busy):
            stream.tail = stream.halfway = None
            stream.room = 0
            stream.renew_own()
        for kept in (self.ready, self._busy, self._ended, self._failures, self._awaited):
            kept.clear()
        self._gate = None
        self._executor.renew()
        if self._adversary is not None:
            self._adversary.renew()
