"""How the recording begins and ends in a process of the program."""

import atexit
import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from haulage import forks
from haulage._core.memory import conditions
from haulage.runtime.process import runtime
from haulage.tracing.recorder import Recorder
from haulage.tracing.settings import Settings


def begin() -> None:
    """Record from now on, if this process was told to, and write the files at its end.

    That is when Python ends, also by an exception, by `sys.exit`, by Ctrl-C or by `os._exit`. A
    process that a signal kills, or that becomes another program, writes nothing. Forked processes
    record for themselves.
    """
    settings = Settings.given()
    if settings is None:
        return
    conditions.frames_kept = settings.frames
    session = _Session(settings)
    session.begin()
    at_end(session.end)
    forks.in_child(session.begin)


def at_end(action: Callable[[], None]) -> None:
    """Call `action()` when Python ends, or by `os._exit`."""
    atexit.register(action)
    os._exit = _ending(action, os._exit)


def _ending(action: Callable[[], None], leave: Any) -> Any:
    @functools.wraps(leave)
    def _exit(status: int) -> NoReturn:
        action()
        leave(status)
        raise AssertionError("os._exit came back")

    return _exit


def keep_ctrl_c() -> None:
    """After an uncaught Ctrl-C let Python end by its signal, as it does where nothing is traced.

    It forgets that when text is executed, as the imports of the files' writers did.
    """
    if issubclass(getattr(sys, "last_type", None) or Exception, KeyboardInterrupt):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


class _Session:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._recorder: Recorder | None = None

    def begin(self) -> None:
        self._compare_no_more()
        self._recorder = Recorder(self._settings.most, self._settings.compare)
        runtime.current.observer = self._recorder
        if self._recorder.comparing is not None:
            runtime.current.watch(self._recorder.comparing)

    def _compare_no_more(self) -> None:
        own = None if self._recorder is None else self._recorder.comparing
        if own is not None:
            runtime.current.unwatch(own)

    def end(self) -> None:
        self._compare_no_more()
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        runtime.current.observer = None
        recorder.sort_in()
        if not self._settings.is_program and not recorder.has_seen:
            return
        from haulage.tracing import writing

        writing.write(recorder, self._settings)
        keep_ctrl_c()
