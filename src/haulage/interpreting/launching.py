"""A launch with a thread in the debugger.

The blocks that the code runs before the one that is debugged run compiled, then that one as Python,
then those behind it compiled. All blocks of a kernel that says `breakpoint()` run as Python, one
after the other, unless a block was chosen; those of a cooperative grid together.
"""

import bdb
import threading
from functools import partial
from math import prod
from typing import Any, NamedTuple

from haulage.backends.base import KernelStopped
from haulage.errors import BarrierError, KernelError, LaunchError, thread_error
from haulage.interpreting.arguments import arguments
from haulage.interpreting.functions import Functions
from haulage.interpreting.prompt import new_prompt
from haulage.interpreting.threads import NEW, STOPPED, Dims, Grid, Thread, here, indices, shown
from haulage.lang.debug import asks
from haulage.runtime.devices.faults import translate
from haulage.runtime.launch.loaded import Configuration
from haulage.runtime.launch.plan import LaunchPlan
from haulage.runtime.process import runtime

# Threads of a cooperative grid, which are all there at one time.
_MOST_THREADS = 4096

# Of one launch at a time.
_lock = threading.RLock()


class Choice(NamedTuple):
    """Where a launch is to stop: the place of the block, and of the thread in it.

    `only`: whether no other thread stops at a `breakpoint()`.
    """

    block: Dims
    thread: Dims
    only: bool


class DebuggedPlan(LaunchPlan):
    """A plan whose launches stop in the debugger, if they are those that are to."""

    __slots__ = ()

    _may_be_checked = False

    def _started_by(self, start: Any, keys: Any, loaded: Any) -> Any:
        if not self._device.checks_kernels:
            return start
        launch = _Launch(self._kernel, self._configuration, self._device, keys, loaded)
        return partial(launch.start, start)


class _Launch:
    """A launch that may be debugged."""

    def __init__(
        self, kernel: Any, configuration: Configuration, device: Any, keys: Any, loaded: Any
    ) -> None:
        self._kernel, self._device, self._keys, self._loaded = kernel, device, keys, loaded
        self._grid, self._block, _, self._shared_bytes = configuration

    def start(self, compiled: Any, handle: int, packed: bytes) -> None:
        """Start the kernel, compiled or in the debugger."""
        debugger, asking = runtime.current.debugger, asks(self._kernel.py_func)
        if here.thread is not None or handle in self._device.capturing:
            compiled(handle, packed)
            return
        choice = None if debugger is None else debugger.take(self._kernel, asking)
        if choice is None and not asking:
            compiled(handle, packed)
            return
        with _lock:
            self._device.activate()
            self._device.backend.synchronize()
            self._run(packed, choice)

    def _run(self, packed: bytes, choice: Choice | None) -> None:
        grid = self._as_python(packed, choice)
        if choice is not None:
            self._check(choice.block, self._grid, "block")
            self._check(choice.thread, self._block, "thread")
        if self._loaded.cooperative:
            threads = prod(self._grid) * prod(self._block)
            if threads > _MOST_THREADS:
                raise LaunchError(
                    f"kernel {self._kernel.__qualname__}: a cooperative grid of at most "
                    f"{_MOST_THREADS} threads can be debugged; this one has {threads}; launch a "
                    "smaller one"
                )
            grid.run(indices(self._grid), partial(_is, choice))
        elif choice is None:
            for each in indices(self._grid):
                grid.run([each], partial(_is, None))
        else:
            self._run_one(packed, grid, choice)

    def _run_one(self, packed: bytes, grid: Grid, choice: Choice) -> None:
        """Run a block as Python, and compiled those before and behind it."""
        place = self._loaded.block_number(choice.block, self._grid)

        def go_on() -> None:
            grid.run([choice.block], partial(_is, choice))
            self._compiled(packed, place + 1, prod(self._grid))

        try:
            self._compiled(packed, 0, place)
        except KernelError:
            # A thread that fails keeps no other block from running.
            go_on()
            raise
        go_on()

    def _as_python(self, packed: bytes, choice: Choice | None) -> Grid:
        kernel = self._kernel
        return Grid(
            kernel.__qualname__,
            Functions().function(kernel.py_func),
            arguments(self._keys, packed),
            self._grid,
            self._block,
            self._shared_bytes,
            kernel.vocabulary.warp_size,
            kernel.haulage_options.debug,
            _prompting,
            new_prompt,
            partial(_stops, choice),
            kernel.alike,
            self._error,
        )

    def _check(self, index: Dims, dims: Dims, what: str) -> None:
        if any(at >= size for at, size in zip(index, dims, strict=True)):
            raise LaunchError(
                f"kernel {self._kernel.__qualname__} has no {what} {shown(index)} in this launch: "
                f"{'its grid has' if what == 'block' else 'its blocks have'} the sizes {dims}"
            )

    def _compiled(self, packed: bytes, first: int, end: int) -> None:
        """Run blocks as compiled code."""
        if first >= end:
            return
        try:
            self._device.backend._run_blocks(self._loaded.function, packed, first, end)
        except KernelStopped as stopped:
            raise translate(stopped) from None
        finally:
            runtime.current.waited(self._device)

    def _error(self, thread: Thread) -> BaseException:
        """What the launch raises for what a thread raised."""
        error = thread.error
        assert error is not None
        if isinstance(error, bdb.BdbQuit | LaunchError | BarrierError):
            return error
        kind = ZeroDivisionError if isinstance(error, FloatingPointError) else type(error)
        text = f": {error}" if str(error) else ""
        made = thread_error(
            kind,
            f"kernel {self._kernel.__qualname__}: a thread raised {kind.__name__}{text}; "
            f"tid={list(thread.index)} ctaid={list(thread.block.index)}",
        )
        made.__cause__ = error
        return made


def _is(choice: Choice | None, thread: Thread) -> bool:
    return (
        choice is not None and thread.index == choice.thread and thread.block.index == choice.block
    )


def _stops(choice: Choice | None, thread: Thread) -> bool:
    return choice is None or not choice.only or _is(choice, thread)


def _prompting(thread: Thread) -> Thread:
    """Let the user look at a thread that has stopped or failed; gives the one that goes on."""
    grid = thread.block.grid
    while True:
        grid.focus_on(thread)
        prompt: Any = thread.prompt
        error = thread.error
        if error is None:
            prompt.talk(thread.frame, None)
        else:
            prompt.reset()
            prompt.message(f"{type(error).__name__} in {thread.name}: {error}")
            try:
                prompt.talk(None, error.__traceback__)
            except LaunchError:
                # Nobody is there, and what is wrong is told by the launch.
                return thread
        chosen: Thread | None = prompt.switch_to
        if chosen is None:
            return thread
        grid.focus_on(chosen)
        if chosen.state == NEW:
            chosen.resume()
            if chosen.state != STOPPED:
                return chosen
        thread = chosen
