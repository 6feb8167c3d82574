"""pdb for one thread of a kernel.

The thread of Python that launched the kernel talks to the user, as notebooks read input there only;
the kernel's thread is followed in its own.
"""

import bdb
import contextlib
import pdb
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from haulage.errors import LaunchError
from haulage.interpreting.threads import ENDED, Thread, here, is_own, shown, table

# Breakpoints of all prompts, as `Bdb.breaks` has them.
_breaks: dict[str, list[int]] = {}

_ANSWER = (
    "a debugger needs somebody who answers: run the program in a terminal or a notebook, or give "
    "pdb's commands on standard input"
)


class KernelPdb(pdb.Pdb):
    """What a debugger of kernels has besides pdb, which may be IPython's.

    Attributes:
        thread: of the kernel.
        switch_to: the thread that the user wants to see.
    """

    thread: Thread
    switch_to: Thread | None = None

    def of(self, thread: Thread) -> None:
        """Make it the debugger of a thread."""
        self.thread = thread
        self.breaks = _breaks
        self.prompt = f"({'ipdb' if is_ipython(self) else 'Pdb'} {thread.name}) "
        self._told: list[str] = []
        self._is_gone = False
        self._is_talking = False
        self.reset()

    # ---- in the kernel's thread ---------------------------------------------------------------

    def begin(self) -> None:
        """Follow what this thread of Python calls next, from its first line."""
        self.reset()
        sys.settrace(self.trace_dispatch)

    def trace(self, frame: FrameType) -> None:
        """Follow this thread of Python, which is in `frame`, as the user has said."""
        if self._is_gone:
            sys.settrace(None)
            return
        each: FrameType | None = frame
        while each is not None and not is_own(each):
            each.f_trace = self.trace_dispatch
            each = each.f_back
        self.botframe = each
        sys.settrace(self.trace_dispatch)

    def stop_in(self, frame: FrameType) -> None:
        """Stop at the next line of a frame of this thread of Python."""
        self.reset()
        self.set_step()
        self.trace(frame)

    def stop_here(self, frame: FrameType) -> bool:
        """Whether a frame is one to stop in: not in Haulage or NumPy."""
        # Not by `skip`, of which IPython tells each time.
        return not _is_skipped(frame) and bool(super().stop_here(frame))

    def interaction(self, frame: FrameType | None, *args: Any, **kwargs: Any) -> None:
        """Let the user look."""
        if self._is_talking:
            super().interaction(frame, *args, **kwargs)
        else:
            self.thread.stop(frame, None)

    # ---- in the thread that launched ----------------------------------------------------------

    def talk(self, frame: FrameType | None, traceback: TracebackType | None) -> None:
        """Let the user look at a frame, or at where an error was raised, and say how to go on.

        Raises:
            LaunchError: nobody can answer.
            bdb.BdbQuit: the user wants to quit.
        """
        if sys.stdin is None or sys.stdin.closed:
            raise LaunchError(f"{self.thread.name} stopped, and there is no input: {_ANSWER}")
        here.thread, self.switch_to, self._is_talking = self.thread, None, True
        for line in self._told:
            self.message(line)
        self._told.clear()
        # The user's program may have its own.
        tracing = sys.gettrace()
        try:
            with _readable(self.thread):
                self.interaction(frame, traceback)
        finally:
            self._is_talking = False
            here.thread = None
            sys.settrace(tracing)
        if self.quitting:
            raise bdb.BdbQuit

    def message(self, msg: Any) -> None:
        """Print something, in the thread that talks to the user."""
        if self._is_talking:
            super().message(msg)
        else:
            self._told.append(str(msg))

    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """The frames of the kernel and what it calls."""
        stack, _ = super().get_stack(f, t)
        first = next((n for n, each in enumerate(stack) if is_own(each[0])), -1)
        kept = [each for each in stack[first + 1 :] if not _is_skipped(each[0])] or stack
        return kept, len(kept) - 1

    # Python's own stops the tracing of the thread that it is called in.
    def set_continue(self) -> None:
        """Stop at breakpoints only."""
        self._set_stopinfo(self.botframe, None, -1)

    def set_quit(self) -> None:
        """Give the launch up."""
        self.stopframe, self.returnframe, self.quitting = self.botframe, None, True

    def _set_stopinfo(self, stopframe: Any, returnframe: Any, *args: Any, **kwargs: Any) -> None:
        super()._set_stopinfo(stopframe, returnframe, *args, **kwargs)  # type: ignore[misc]
        self._is_gone = args[:1] == (-1,) and not self.breaks

    # ---- commands -------------------------------------------------------------------------------

    def do_threads(self, arg: str) -> None:
        """threads

        Show where the threads of the block are, and what they wait for.
        """
        for line in table(self.thread.block.grid.threads, self.thread):
            self.message(line)

    def do_thread(self, arg: str) -> bool | None:
        """thread [x[,y[,z]]]

        Go to another thread of the block. The commands are about it then, and the one that was left
        goes on when its turn comes. A thread that has not begun runs to its first line.
        Without an argument, show which thread this is.
        """
        if not arg.strip():
            self.message(self.thread.name)
            return None
        try:
            index = index_of(arg)
        except ValueError as wrong:
            self.error(str(wrong))
            return None
        found = [each for each in self.thread.block.threads if each.index == index]
        if not found:
            dims = self.thread.block.dims
            self.error(f"there is no thread {shown(index)}: the block has the sizes {dims}")
        elif found[0].state == ENDED:
            self.error(f"thread {shown(index)} has ended")
        elif found[0] is not self.thread:
            self.switch_to = found[0]
            return True
        return None

    def do_EOF(self, arg: str) -> bool | None:
        """EOF

        There is no more input.
        """
        raise EOFError


class _IPython:
    """Which class of pdb is IPython's, if it runs."""

    made: type | None = None


def _class() -> type[KernelPdb]:
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return KernelPdb
    if _IPython.made is None:
        from IPython.core.debugger import Pdb

        _IPython.made = type("KernelIpdb", (KernelPdb, Pdb), {"__module__": __name__})
    return _IPython.made


def is_ipython(debugger: Any) -> bool:
    """Whether a debugger is IPython's."""
    return _IPython.made is not None and isinstance(debugger, _IPython.made)


def new_prompt(thread: Thread) -> KernelPdb:
    """The debugger of a thread."""
    made = _class()(nosigint=True)
    made.of(thread)
    return made


def index_of(text: str) -> tuple[int, int, int]:
    """The index that users write as `5`, `5,0` or `5,0,0`.

    Raises:
        ValueError: it is none.
    """
    parts = text.replace("(", " ").replace(")", " ").split(",")
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"{text!r}: expected an index such as 5 or 5,0 or 5,0,0")
    x, y, z = (*map(int, parts), 0, 0)[:3]
    return x, y, z


@contextlib.contextmanager
def _readable(thread: Thread) -> Iterator[None]:
    """Say in one sentence that there is no input."""
    try:
        yield
    except EOFError:
        raise LaunchError(f"{thread.name} stopped, and the input has ended: {_ANSWER}") from None
    except (OSError, NotImplementedError) as error:
        raise LaunchError(f"{thread.name} stopped, and input cannot be read: {_ANSWER}") from error


def _is_skipped(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__"))
    return name.partition(".")[0] in ("haulage", "numpy")
