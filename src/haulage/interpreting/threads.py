"""The threads of a block as Python's own, of which one runs at a time.

Each has a stack of its own, so that pdb finds real frames of the kernel in it. The thread that
launched the kernel says who goes on: a thread of the block runs until it waits for others, stops in
the debugger or ends, and then hands the turn back. They take turns in the order of their numbers,
the thread in focus before the others once it has begun.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, product
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from haulage.errors import BarrierError, LaunchError

if TYPE_CHECKING:
    from types import TracebackType

Dims = tuple[int, int, int]

NEW, READY, WAITING, STOPPED, ENDED = "new", "ready", "waiting", "stopped", "ended"

# What threads wait for: `Wait.scope`.
BLOCK, WAVE, WARP, TOGETHER, GRID = "block", "wave", "warp", "together", "grid"

# So many words that other threads can notice are said before these have a turn, so that a thread
# which waits for a flag in a loop does not wait for ever.
_TURN = 64

_OWN = "haulage.interpreting"


class Abandoned(BaseException):
    """Ends a thread of a launch that is given up."""


class Prompt(Protocol):
    """The debugger of one thread."""

    def begin(self) -> None:
        """Follow what this thread of Python calls next, from its first line."""
        ...

    def trace(self, frame: FrameType) -> None:
        """Follow this thread of Python, which is in `frame`, as the user has said."""
        ...

    def stop_in(self, frame: FrameType) -> None:
        """Stop at the next line of a frame of this thread of Python."""
        ...

    def set_continue(self) -> None:
        """Stop at breakpoints only."""
        ...


class Wait(NamedTuple):
    """What a thread waits for.

    Attributes:
        word: that it said.
        scope: which threads it waits for: all of its block, its wavefront or the grid, the lanes of
            its warp in `mask`, or those that come to the same place together.
        mask: of lanes, where the scope is `WARP`.
        given: what it gives to the others.
        answer: makes of what each of the threads gave, by its lane or number, what this one gets:
            `answer(thread, {thread: given})`.
    """

    word: str
    scope: str
    mask: int
    given: Any
    answer: Callable[["Thread", dict["Thread", Any]], Any]


def is_own(frame: FrameType) -> bool:
    """Whether a frame is one of the debugger's, not the program's."""
    return str(frame.f_globals.get("__name__")).startswith(_OWN)


class Thread:
    """One thread of the kernel.

    Attributes:
        index, number: its place in its block, (x, y, z) and counted with x fastest.
        frame: where it is in the program while it does not run; None before and after.
        wait: what it waits for, while it does.
        prompt: its debugger, once it has been in focus.
    """

    def __init__(self, block: "Block", number: int, index: Dims) -> None:
        self.block, self.number, self.index = block, number, index
        self.state = NEW
        self.frame: FrameType | None = None
        self.traceback: TracebackType | None = None
        self.wait: Wait | None = None
        self.answer: Any = None
        self.error: BaseException | None = None
        self.prompt: Prompt | None = None
        self.is_traced = False
        self._said = 0
        self._worker: _Worker | None = None

    @property
    def lane(self) -> int:
        """Its number in its warp."""
        return self.number % self.block.grid.warp_size

    @property
    def warp(self) -> int:
        """The number of its warp in the block."""
        return self.number // self.block.grid.warp_size

    @property
    def name(self) -> str:
        """How the user knows it."""
        return f"block {shown(self.block.index)} thread {shown(self.index)}"

    # ---- in its own Python thread -----------------------------------------------------------

    def wait_for(self, wait: Wait) -> Any:
        """Wait, and return what the word gives."""
        if threading.get_ident() != self._ident():
            raise LaunchError(
                f"{wait.word}() waits for other threads, which cannot be done at the prompt; step "
                "over a line of the kernel that calls it"
            )
        self._said = 0
        self.wait = wait
        self._hand_back(WAITING)
        return self.answer

    def give_way(self) -> None:
        """Let other threads have a turn."""
        if threading.get_ident() == self._ident():
            self._hand_back(READY)

    def noticed(self) -> None:
        """It said a word whose effect other threads may wait for: let them have a turn now and
        then."""
        if threading.get_ident() != self._ident():
            return
        self._said += 1
        if self._said >= _TURN:
            self._said = 0
            self._hand_back(READY)

    def stop(self, frame: FrameType | None, traceback: Any) -> None:
        """Let the user look at this frame, or at where an error was raised, until he goes on."""
        self.traceback = traceback
        self._hand_back(STOPPED, frame)

    def _ident(self) -> int | None:
        return None if self._worker is None else self._worker.ident

    def _hand_back(self, state: str, frame: FrameType | None = None) -> None:
        if frame is None:
            frame = sys._getframe(1)
            while frame.f_back is not None and is_own(frame):
                frame = frame.f_back
        self.frame, self.state = frame, state
        assert self._worker is not None
        self._worker.hand_back()
        if self.block.grid.is_abandoned:
            sys.settrace(None)
            raise Abandoned
        self.frame, self.wait = None, None
        if self.is_traced and self.prompt is not None:
            self.prompt.trace(frame)

    def run(self) -> None:
        """The kernel, from its first line to its end."""
        grid = self.block.grid
        try:
            if self.is_traced and self.prompt is not None:
                self.prompt.begin()
            grid.function(*grid.args)
        except Abandoned:
            pass
        except BaseException as error:
            self.error = error
        finally:
            sys.settrace(None)
            self.state, self.frame = ENDED, None

    # ---- in the thread that launched --------------------------------------------------------

    def resume(self) -> None:
        """Let it run until it hands back."""
        if self._worker is None:
            self._worker = self.block.grid.workers.take()
        self.state = READY
        here.thread = None
        self._worker.run(self)
        if self.state == ENDED:
            self.block.grid.workers.give_back(self._worker)
            self._worker = None


class _Here(threading.local):
    thread: Thread | None = None


# The kernel's thread that runs in this thread of Python, or that its prompt is about.
here = _Here()


def current(word: str) -> Thread:
    """The kernel's thread that says a word.

    Raises:
        LaunchError: there is none.
    """
    thread = here.thread
    if thread is None:
        raise LaunchError(f"{word} means something only inside a kernel")
    return thread


class _Worker:
    """A thread of Python, which runs threads of a kernel one after the other."""

    def __init__(self) -> None:
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread: Thread | None = None
        self._python = threading.Thread(target=self._loop, name="haulage debug", daemon=True)
        self._python.start()

    @property
    def ident(self) -> int | None:
        return self._python.ident

    def run(self, thread: Thread | None) -> None:
        """Go on with a thread, until it hands back; with None end."""
        self._thread = thread
        self._go.release()
        if thread is not None:
            self._back.acquire()
        else:
            self._python.join()

    def hand_back(self) -> None:
        self._back.release()
        self._go.acquire()

    def interrupt(self) -> None:
        """End what it runs."""
        import ctypes

        ident = ctypes.c_ulong(self.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Abandoned))
        self._back.acquire()

    def _loop(self) -> None:
        while True:
            self._go.acquire()
            thread = self._thread
            if thread is None:
                return
            here.thread = thread
            divide: Any = "raise" if thread.block.grid.is_strict else "ignore"
            with np.errstate(all="ignore", divide=divide):
                thread.run()
            here.thread = None
            self._back.release()


class Workers:
    """Threads of Python that can be had, and had back."""

    def __init__(self) -> None:
        self._free: list[_Worker] = []

    def take(self) -> _Worker:
        """One that runs nothing."""
        return self._free.pop() if self._free else _Worker()

    def give_back(self, worker: _Worker) -> None:
        """It runs nothing any more."""
        self._free.append(worker)

    def end(self) -> None:
        """End those that run nothing."""
        while self._free:
            self._free.pop().run(None)


class Block:
    """A block: its threads, and the memory that they share.

    Attributes:
        shared: arrays by the place in the source that makes them.
        dynamic: the launch's dynamic shared memory; `taken`: how much of it arrays have.
    """

    def __init__(self, grid: "Grid", index: Dims, dims: Dims) -> None:
        self.grid, self.index, self.dims = grid, index, dims
        self.shared: dict[Any, Any] = {}
        self.dynamic = np.zeros(grid.shared_bytes, np.uint8)
        self.taken = 0
        self.threads = [Thread(self, *each) for each in enumerate(indices(dims))]


class Grid:
    """What runs as Python of a launch: one block at a time, or all of a cooperative grid.

    Args:
        kernel: its name.
        function: the kernel as a Python function whose words mean something.
        args: of the launch.
        dims, block_dims: (x, y, z) blocks, and threads of a block.
        shared_bytes: of dynamic shared memory.
        warp_size: lanes of a warp.
        is_strict: whether a division by zero is an error.
        prompting: is called with a thread that has stopped or failed; gives the one that is to go
            on, which is in focus then.
        new_prompt: makes the debugger of a thread.
        stops: whether a thread stops where the kernel says `breakpoint()`.
        alike: makes a kernel of another function, for words that are asked of compiled code.
        error_of: what the launch raises for what a thread raised.
    """

    def __init__(
        self,
        kernel: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        dims: Dims,
        block_dims: Dims,
        shared_bytes: int,
        warp_size: int,
        is_strict: bool,
        prompting: Callable[[Thread], Thread],
        new_prompt: Callable[[Thread], Prompt],
        stops: Callable[[Thread], bool],
        alike: Callable[[Callable[..., Any]], Any],
        error_of: Callable[[Thread], BaseException],
    ) -> None:
        self.kernel, self.function, self.args = kernel, function, args
        self.dims, self.block_dims = dims, block_dims
        self.shared_bytes, self.warp_size, self.is_strict = shared_bytes, warp_size, is_strict
        self.workers = Workers()
        self.is_abandoned = False
        self.focus: Thread | None = None
        self._prompting, self._new_prompt = prompting, new_prompt
        self.stops, self.alike, self._error_of = stops, alike, error_of
        self._running: list[Block] = []

    def run(self, blocks: Iterable[Dims], focus: Callable[[Thread], bool]) -> None:
        """Run blocks together to their end.

        Args:
            blocks: their places in the grid.
            focus: whether a thread is to stop in its first line.

        Raises:
            BarrierError: threads wait for others that do not come.
            BaseException: what a thread raised, or the user's wish to quit.
        """
        self._running = [Block(self, index, self.block_dims) for index in blocks]
        threads = [thread for block in self._running for thread in block.threads]
        for thread in threads:
            if focus(thread):
                self.focus_on(thread)
        try:
            self._schedule(threads)
        except BaseException:
            self._abandon(threads)
            raise
        finally:
            self.workers.end()
            here.thread = None

    def focus_on(self, thread: Thread) -> None:
        """Let the debugger follow a thread from now on."""
        self.focus = thread
        if thread.prompt is None:
            thread.prompt = self._new_prompt(thread)
        thread.is_traced = True

    def _schedule(self, threads: list[Thread]) -> None:
        alive = threads
        while alive:
            ran = False
            for thread in alive:
                thread = self._first(thread)
                if thread.state in (NEW, READY, STOPPED):
                    ran = True
                    self._turn(thread)
            alive = [thread for thread in alive if thread.state != ENDED]
            if not ran and alive and not self._release(alive):
                raise self._deadlock(alive)

    def _first(self, thread: Thread) -> Thread:
        """The thread in focus if it can go on, else `thread`."""
        focus = self.focus
        return focus if focus is not None and focus.state in (READY, STOPPED) else thread

    def _turn(self, thread: Thread) -> None:
        if thread.state == STOPPED and thread.prompt is not None:
            # Another one came into focus.
            thread.prompt.set_continue()
        thread.resume()
        while thread.state == STOPPED:
            thread = self._prompting(thread)
            # One that waits goes on when the others have come.
            if thread.state == STOPPED:
                thread.resume()
        if thread.error is not None:
            error = self._error_of(thread)
            if error is not thread.error:
                self._prompting(thread)
            raise error

    def _release(self, alive: list[Thread]) -> bool:
        """Let threads go on whose wait is over; False if there are none."""
        groups: list[list[Thread]] = []
        for scope, key in (
            (WARP, lambda t: (id(t.block), t.warp, t.wait.mask)),
            (WAVE, lambda t: (id(t.block), t.number // 64)),
            (BLOCK, lambda t: id(t.block)),
            (GRID, lambda t: 0),
        ):
            groups += [
                group
                for group in _grouped([t for t in alive if t.wait and t.wait.scope == scope], key)
                if len(group) == len(self._expected(group[0], alive))
            ]
        if not groups:
            together = [t for t in alive if t.wait and t.wait.scope == TOGETHER]
            for lanes in _grouped(together, lambda t: (id(t.block), t.warp)):
                # Others may still come to a place further on.
                first = min(map(_places, lanes))
                groups.append([lane for lane in lanes if _places(lane) == first])
        for group in groups:
            given = {thread: thread.wait.given for thread in group if thread.wait}
            for thread in group:
                assert thread.wait is not None
                thread.answer = thread.wait.answer(thread, given)
            for thread in group:
                thread.state = READY
        return bool(groups)

    def _expected(self, thread: Thread, alive: list[Thread]) -> list[Thread]:
        """Those that have to come to what a thread waits for."""
        assert thread.wait is not None
        scope, mask = thread.wait.scope, thread.wait.mask
        if scope == GRID:
            return alive
        own = [other for other in alive if other.block is thread.block]
        if scope == WAVE:
            return [other for other in own if other.number // 64 == thread.number // 64]
        if scope == WARP:
            return [other for other in own if other.warp == thread.warp and mask >> other.lane & 1]
        return own

    def _deadlock(self, alive: list[Thread]) -> BarrierError:
        listed = "\n".join(table(alive, None))
        return BarrierError(
            f"kernel {self.kernel}: threads wait for others that never come; let every thread "
            f"reach the same barriers\n{listed}"
        )

    def _abandon(self, threads: list[Thread]) -> None:
        self.is_abandoned = True
        for thread in threads:
            worker = thread._worker
            if worker is None:
                continue
            if thread.state == READY and thread.frame is None:
                worker.interrupt()
                self.workers.give_back(worker)
            else:
                thread.resume()
            thread._worker = None

    @property
    def threads(self) -> list[Thread]:
        """Those of the blocks that run."""
        return [thread for block in self._running for thread in block.threads]


def _grouped(threads: list[Thread], key: Callable[[Any], Any]) -> list[list[Thread]]:
    groups: dict[Any, list[Thread]] = {}
    for thread in threads:
        groups.setdefault(key(thread), []).append(thread)
    return list(groups.values())


def _places(thread: Thread) -> list[int]:
    """How far it has come in the kernel, and in each function that is called there."""
    frame, places = thread.frame, []
    while frame is not None and not is_own(frame):
        places.append(frame.f_lasti)
        frame = frame.f_back
    return places[::-1]


def table(threads: list[Thread], chosen: Thread | None) -> list[str]:
    """Lines that say where threads are, one for those that follow one another in one place."""

    def where(thread: Thread) -> tuple[Any, ...]:
        frame = thread.frame
        place = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        word = thread.wait.word if thread.state == WAITING and thread.wait else ""
        return (thread is chosen, id(thread.block), thread.state, place, word)

    lines = []
    several = len({id(thread.block) for thread in threads}) > 1
    for (is_chosen, _, state, place, word), grouped in groupby(threads, where):
        group = list(grouped)
        names = shown(group[0].index)
        if len(group) > 1:
            names += f" to {shown(group[-1].index)}"
        if several:
            names = f"block {shown(group[0].block.index)} {names}"
        says = {
            NEW: "has not begun" if len(group) == 1 else "have not begun",
            READY: f"at {place}" if place else "runs",
            WAITING: f"at {place}, waiting in {word}()",
            STOPPED: f"at {place}",
            ENDED: "has ended" if len(group) == 1 else "have ended",
        }[state]
        lines.append(f"{'*' if is_chosen else ' '} {names:<16} {says}")
    return lines


def indices(dims: Dims) -> Iterator[Dims]:
    """All indices below some sizes, x fastest."""
    return ((x, y, z) for z, y, x in product(*map(range, dims[::-1])))


def shown(index: tuple[int, ...]) -> str:
    """An index as users write it: without zeros at its end."""
    used = max((axis for axis in range(3) if index[axis]), default=0) + 1
    return ",".join(map(str, index[: max(used, 1)]))
