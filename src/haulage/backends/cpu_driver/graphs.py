"""Graphs: work of streams that is recorded instead of run, and then run again and again.

While a stream is recorded, a `Recorder` stands in its place, so that nothing which looks at other
streams has to know of it. What was recorded is cut into chains, pieces of work that run one after
another without a choice: a launch hands these over instead of each piece alone.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from haulage._core.pool import Grids
from haulage.backends.base import KernelStopped
from haulage.backends.cpu_driver import costs, crashes
from haulage.backends.cpu_driver.pool import Pool
from haulage.backends.cpu_driver.recordings import Recorded, Recording
from haulage.backends.cpu_driver.streams import Streams
from haulage.backends.cpu_driver.tasks import Stream, Task, Turn, hang
from haulage.errors import CaptureError, DeviceError

Call = tuple[Callable[..., Any], tuple[Any, ...]]
# Kernels are run one after another without coming back to Python.
Step = Call | Grids


class Part(NamedTuple):
    """What one task does, after those of the parts with the numbers `before`; they are lower."""

    steps: tuple[Step, ...]
    before: tuple[int, ...]


class Graph:
    """A recording that can be run.

    `singly` is the same as `chains` with one step in each part, for an adversary to reorder. The
    last part of both comes after all others.
    """

    __slots__ = ("chains", "ns", "singly", "turn", "waits")

    def __init__(self, chains: list[Part], singly: list[Part], waits: bool) -> None:
        self.chains = chains
        self.singly = singly
        self.waits = waits  # for the host, perhaps: so it is never run by the caller
        self.ns = costs.SHORT  # what it took last
        self.turn = Turn()


class Graphs:
    """All graphs of the device. Safe to use from any thread.

    Args:
        streams: whose work is recorded.
        kernel: what their tasks run kernels with, a function of (function, launch).
        pool: which runs them.
    """

    def __init__(
        self,
        streams: Streams,
        kernel: Callable[[int, bytes], None],
        pool: Pool,
    ) -> None:
        self._streams = streams
        self._kernel = kernel
        self._pool = pool
        self._handles = itertools.count(1)
        self._graphs: dict[int, Graph] = {}
        # What the tasks of launches call.
        self.performers = (self._perform, self._perform_part)

    # ---- recording ----------------------------------------------------------------------------

    def begin(self, handle: int) -> None:
        """Record what is handed to a stream."""
        streams = self._streams
        with streams.lock:
            stream = streams.find(handle)
            if stream.recording is not None:
                raise DeviceError(f"stream {handle:#x} of the cpu device is recorded already")
            streams.exchange(Recording(handle).recorder(stream))

    def end(self, handle: int) -> tuple[int, int]:
        """(handle, number of operations) of the graph of what was recorded."""
        recording = self._stop(handle)
        needed = _ancestors(recording.tails.get(handle))
        for task in recording.tasks:
            if task.function is not None and task not in needed:
                raise CaptureError(
                    f"stream {task.stream.handle:#x} was recorded with stream {handle:#x}, which "
                    "does not wait for the end of its work; record an event there at last, and "
                    "let the stream that is captured wait for it"
                )
        graph = self._made(recording.tasks)
        number = next(self._handles)
        self._graphs[number] = graph
        return number, sum(task.function is not None for task in recording.tasks)

    def cancel(self, handle: int) -> None:
        """End a recording and keep nothing of it."""
        self._stop(handle)

    def query(self, handle: int) -> bool:
        """Whether what is handed to a stream is recorded."""
        return self._streams.find(handle).recording is not None

    def join(self, handle: int, record: Task | None) -> None:
        """Let a stream that is told to wait for an event's `record` be recorded as that is."""
        if not isinstance(record, Recorded):
            return
        streams = self._streams
        with streams.lock:
            stream = streams.find(handle)
            if stream.recording is None:
                streams.exchange(record.recording.recorder(stream))

    def _stop(self, handle: int) -> Recording:
        streams = self._streams
        with streams.lock:
            recording = streams.find(handle).recording
            if recording is None or recording.origin != handle:
                raise DeviceError(f"no recording was begun in stream {handle:#x} of the cpu device")
            # That of the origin last, so that this can be begun again.
            for recorder in reversed(recording.recorders):
                streams.exchange(recorder.real)
        return recording

    def _made(self, tasks: list[Recorded]) -> Graph:
        steps, before = _order(tasks)
        followers = [0] * len(steps)
        for each in before:
            for number in each:
                followers[number] += 1
        chains: list[list[Call]] = []
        begins: list[tuple[int, ...]] = []
        chain_of: list[int] = []
        for step, each in zip(steps, before, strict=True):
            if len(each) == 1 and followers[each[0]] == 1:
                chain_of.append(chain_of[each[0]])
            else:
                # What it comes after are ends of their chains: such a step has other followers,
                # or this one, which has other predecessors.
                chain_of.append(len(chains))
                chains.append([])
                begins.append(tuple([chain_of[number] for number in each]))
            chains[chain_of[-1]].append(step)
        singly = [Part((step,), each) for step, each in zip(steps, before, strict=True)]
        together = [
            Part(tuple(self._shortened(chain)), each)
            for chain, each in zip(chains, begins, strict=True)
        ]
        waiting = self._pool.waiting
        waits = any(run is self._kernel and args[0] in waiting for run, args in steps)
        return Graph(_with_an_end(together), _with_an_end(singly), waits)

    def _shortened(self, chain: list[Call]) -> Iterator[Step]:
        """A chain with the kernels that follow one another drawn together."""
        for is_kernel, calls in groupby(chain, lambda call: call[0] is self._kernel):
            if is_kernel:
                yield Grids([args for _, args in calls], self._pool.waiting)
            else:
                yield from calls

    # ---- launching ----------------------------------------------------------------------------

    def launch(self, number: int, handle: int) -> None:
        """Run a graph in a stream."""
        graph = self._find(number)
        streams = self._streams
        parts = graph.singly if streams.is_opposed else graph.chains
        if len(parts) == 1 and not streams.is_opposed:
            short = graph.ns < costs.SHORT and not graph.waits
            stream = streams.find(handle)
            streams.submit(
                handle, self._perform, graph, stream, parts[0].steps, turn=graph.turn, short=short
            )
            return
        streams.wait_for_room(streams.find(handle))
        with streams.lock:
            stream = streams.find(handle)
            root = Task(stream, None, (), False)
            tasks: list[Task] = []
            for steps, before in parts:
                if streams.is_opposed and steps:
                    assert isinstance(steps[0], tuple)
                    task = Task(stream, *steps[0], callback=False)
                else:
                    work = self._perform_part if steps else None
                    task = Task(stream, work, (stream, steps), False)
                for earlier in [tasks[i] for i in before] or [root]:
                    hang(task, earlier)
                tasks.append(task)
            streams.submit_all(root, tasks, graph.turn)

    def destroy(self, number: int) -> None:
        """Forget a graph; launches of it go on."""
        self._find(number)
        del self._graphs[number]

    def renew(self) -> None:
        """After a fork, in the child: nothing of a graph is running."""
        for graph in self._graphs.values():
            graph.turn.last = None

    def _find(self, number: int) -> Graph:
        graph = self._graphs.get(number)
        if graph is None:
            raise DeviceError(f"the cpu device has no graph {number:#x}; it may be destroyed")
        return graph

    def _perform(self, graph: Graph, stream: Stream, steps: tuple[Step, ...]) -> None:
        begun = time.perf_counter_ns()
        self._perform_part(stream, steps)
        graph.ns = time.perf_counter_ns() - begun

    def _perform_part(self, stream: Stream, steps: tuple[Step, ...]) -> None:
        # As after a launch that fails, what comes later is done.
        def failed(function: int, fault: int) -> None:
            self._streams.keep(stream, crashes.stopped(function, fault))

        def ends() -> bool:
            return self._streams.closed and stream.handle != 0

        for step in steps:
            if ends():
                return
            if isinstance(step, Grids):
                self._pool.run_each(step, failed, ends)
                continue
            function, args = step
            try:
                function(*args)
            except KernelStopped as stopped:
                self._streams.keep(stream, stopped)


def _ancestors(task: Recorded | None) -> set[Recorded]:
    """A task and all that it comes after."""
    found: set[Recorded] = set()
    left = [] if task is None else [task]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += one.before
    return found


def _order(tasks: Sequence[Recorded]) -> tuple[list[Call], list[tuple[int, ...]]]:
    """The work of recorded tasks, without marks, and for each step the numbers of those that it
    comes right after: none of them comes after another of them."""
    steps: list[Call] = []
    before: list[tuple[int, ...]] = []
    earlier: list[int] = []  # for each step all that it comes after, as bits
    ends: dict[Recorded, tuple[int, ...]] = {}  # what is done when a task is
    for task in tasks:
        numbers = dict.fromkeys(i for predecessor in task.before for i in ends[predecessor])
        implied = 0
        for i in numbers:
            implied |= earlier[i]
        direct = tuple([i for i in numbers if not implied >> i & 1])
        if task.function is None:
            ends[task] = direct
            continue
        ends[task] = (len(steps),)
        steps.append((task.function, task.args))
        before.append(direct)
        for i in direct:
            implied |= 1 << i
        earlier.append(implied)
    return steps, before


def _with_an_end(parts: list[Part]) -> list[Part]:
    """Parts, of which the last one comes after all others."""
    ends = set(range(len(parts)))
    for part in parts:
        ends.difference_update(part.before)
    return parts if len(ends) == 1 else [*parts, Part((), tuple(sorted(ends)))]
