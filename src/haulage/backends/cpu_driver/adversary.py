"""The adversary: work runs as late and as reordered as the rules of order allow.

Nothing runs before somebody waits for it, and a wait runs only what it needs. So a host that reads
a result without waiting reads what was there before, every time.

What a wait needs is put into an order from its end backwards: of the tasks that nothing left has to
follow, the one that was handed over first comes last. So of two tasks without an ordering between
them the later one runs first, unless other orderings stand in its way. It may not be possible to
turn round all such pairs at once (with A and then C in one stream, B in another: either B comes
before A, or C before B). Pairs that use the same memory matter more than others; where these stand
in each other's way, the seed chooses.
"""

import random
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterable

import numpy as np

from haulage.backends.cpu_driver import copies
from haulage.backends.cpu_driver.streams import Streams
from haulage.backends.cpu_driver.tasks import Task

# A callback that nobody waits for runs after a time between these (seconds).
SOONEST, LATEST = 0.002, 0.02

# While a callback has been running for so long (seconds), other tasks of the same wait may begin:
# it may wait for something that the program does only then.
PATIENCE = 0.1

_TICK = 0.2

# What memory a task uses: (key, whether it may write there). Two tasks with a common key may be
# about the same bytes.
Uses = Callable[[Task], Iterable[tuple[int, bool]]]


class Adversary:
    """Holds back the work of `streams`; see `haulage.backends.cpu_driver.tasks`.

    `touched()` gives the `Uses` of the memory that is allocated at the time.
    """

    def __init__(self, streams: Streams, seed: int, touched: Callable[[], Uses]) -> None:
        self.held: list[Task] = []
        self.streams = streams
        self._random = random.Random(seed)
        self._touched = touched
        self._promised: list[tuple[float, Task]] = []  # when a callback is due at the latest
        self._server: threading.Thread | None = None
        self.closed = False

    # ---- what a wait needs --------------------------------------------------------------------

    def plan(self, tasks: Iterable[Task | None]) -> "Plan":
        """The order in which to run what `tasks` need."""
        self.held[:] = [task for task in self.held if not task.done]
        needed = {task for task in tasks if task is not None}
        for task in reversed(self.held):
            if task not in needed and not needed.isdisjoint(task.followers):
                needed.add(task)
        return Plan(self, self._order([task for task in self.held if task in needed]))

    def _order(self, tasks: list[Task]) -> list[Task]:
        """`tasks`, which are in the order of handing over, in the order to run them; no marks."""
        number = {task: i for i, task in enumerate(tasks)}
        followers = [
            [number[later] for later in task.followers if later in number] for task in tasks
        ]
        wanted = self._wanted(tasks, followers)
        left = [len(later) for later in followers]
        predecessors: list[list[int]] = [[] for _ in tasks]
        for i, later in enumerate(followers):
            for j in later:
                predecessors[j].append(i)
        free: list[int] = []  # in ascending order
        placed = 0  # a set of numbers, as bits
        backwards: list[Task] = []

        def place(i: int) -> None:
            nonlocal placed
            open_marks = [i]
            while open_marks:
                i = open_marks.pop()
                placed |= 1 << i
                if tasks[i].function is not None:
                    backwards.append(tasks[i])
                for j in predecessors[i]:
                    left[j] -= 1
                    if left[j]:
                        continue
                    # A mark takes no time, and must not keep what is before it from being free.
                    if tasks[j].function is None:
                        open_marks.append(j)
                    else:
                        insort(free, j)

        for i, task in enumerate(tasks):
            if not followers[i]:
                if task.function is None:
                    place(i)
                else:
                    insort(free, i)
        while free:
            at = next((at for at, i in enumerate(free) if not wanted[i] & ~placed), None)
            place(free.pop(self._random.randrange(len(free)) if at is None else at))
        return backwards[::-1]

    def _wanted(self, tasks: list[Task], followers: list[list[int]]) -> list[int]:
        """For each task, as bits, the earlier ones that should come after it.

        These are not before it by the rules, and one of the two writes memory that both use.
        """
        touched = self._touched()
        before = [0] * len(tasks)
        users: dict[int, int] = {}
        writers: dict[int, int] = {}
        wanted = []
        for i, task in enumerate(tasks):
            for j in followers[i]:
                before[j] |= before[i] | 1 << i
            conflicts = 0
            for key, writes in touched(task) if task.function is not None else ():
                conflicts |= (users if writes else writers).get(key, 0)
                users[key] = users.get(key, 0) | 1 << i
                if writes:
                    writers[key] = writers.get(key, 0) | 1 << i
            wanted.append(conflicts & ~before[i] & ~(1 << i))
        return wanted

    # ---- what nobody waits for ----------------------------------------------------------------

    def promise(self, callback: Task) -> None:
        """Run a callback, and what it needs, after a short time if nobody waits for it."""
        due = time.monotonic() + self._random.uniform(SOONEST, LATEST)
        self._promised.append((due, callback))
        if self._server is None:
            server = threading.Thread(target=self._serve, name="haulage-adversary", daemon=True)
            server.start()
            self._server = server

    def _serve(self) -> None:
        streams = self.streams
        streams.serve()
        plans: list[tuple[Plan, list[Task]]] = []
        with streams.lock:
            while not self.closed and (plans or self._promised):
                now = time.monotonic()
                late = [task for due, task in self._promised if due <= now]
                if late:
                    self._promised[:] = [entry for entry in self._promised if entry[0] > now]
                    plans.append((self.plan(late), late))
                plans = [entry for entry in plans if not all(task.done for task in entry[1])]
                for plan, _ in plans:
                    plan.advance()
                dues = [due - now for due, _ in self._promised]
                streams.doze(min([_TICK, *dues]))
            self._server = None

    # ---- the ends of things -------------------------------------------------------------------

    def close(self) -> None:
        """Let nothing go any more."""
        self.closed = True

    def join(self) -> None:
        """Wait for the thread that looks after callbacks."""
        server = self._server
        if server is not None and server is not threading.current_thread():
            server.join()

    def renew(self) -> None:
        """After a fork, in the child: nothing is held, the thread is gone."""
        self.held.clear()
        self._promised.clear()
        self._server = None


class Plan:
    """The tasks of a wait in the order in which they are to run, one at a time."""

    def __init__(self, adversary: Adversary, order: list[Task]) -> None:
        self._adversary = adversary
        self._left = order[::-1]
        self._begun = 0.0  # when the first of them was let go

    def advance(self, patient: bool = True) -> None:
        """Let the next task go if none is running, or if it is a callback that takes long.

        Without patience any callback takes long.
        """
        if self._adversary.closed:
            return  # it has let everything go
        left = self._left
        while left and left[-1].done:
            left.pop()
            self._begun = 0.0
        for task in reversed(left):
            if task.done:
                continue
            if task.waits == 1:
                task.waits -= 1
                self._adversary.streams.ready.append(task)
                return
            if task.waits == 0:  # it was let go
                if not task.callback:
                    return
                now = time.monotonic()
                self._begun = self._begun or now
                if patient and now - self._begun < PATIENCE:
                    return


class Garbage:
    """Fills memory with bytes that no program means.

    As floats of 4 or 8 bytes they are large numbers: a NaN would also come from other mistakes, and
    a tiny number would be lost in a sum.
    """

    def __init__(self, seed: int) -> None:
        choice = np.random.default_rng(abs(seed))
        self._new = choice.integers(0x41, 0x7F, 4093, np.uint8)
        self._freed = choice.integers(0x41, 0x7F, 4091, np.uint8)

    def into_new(self, address: int, nbytes: int) -> None:
        """Fill memory that was just allocated."""
        _repeat(self._new, address, nbytes)

    def into_freed(self, address: int, nbytes: int) -> None:
        """Fill memory that is about to be freed, with other bytes."""
        _repeat(self._freed, address, nbytes)


def _repeat(pattern: np.ndarray, address: int, nbytes: int) -> None:
    source: int = pattern.__array_interface__["data"][0]
    times, rest = divmod(nbytes, pattern.size)
    copies.copy_nd(address, (pattern.size, 1), source, (0, 1), (times, pattern.size), 1)
    copies.copy(address + nbytes - rest, source, rest)
