"""How the watching begins and ends in a process of the program."""

import os
import sys
from typing import TYPE_CHECKING, TextIO

from haulage import forks
from haulage.advising.settings import Settings
from haulage.advising.watcher import Watcher
from haulage.runtime.process import runtime
from haulage.tracing.starting import at_end, keep_ctrl_c

if TYPE_CHECKING:
    from haulage.advising.advice import Advice


def begin() -> None:
    """Watch from now on, if this process was told to, and give the advice at its end.

    That is when Python ends, also by an exception, by `sys.exit`, by Ctrl-C or by `os._exit`. A
    process that a signal kills, or that becomes another program, gives none. Forked processes
    are watched by themselves.
    """
    settings = Settings.given()
    if settings is None:
        return
    session = _Session(settings)
    session.begin()
    at_end(session.end)
    forks.in_child(session.begin)


class _Session:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._watcher: Watcher | None = None

    def begin(self) -> None:
        if self._watcher is not None:
            self._watcher.leave()
            runtime.current.unwatch(self._watcher)
        self._watcher = Watcher()
        runtime.current.watch(self._watcher)
        runtime.current.apart = True

    def end(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is None:
            return
        runtime.current.unwatch(watcher)
        watcher.close()
        if not self._settings.is_program and not watcher.rows:
            return
        from haulage.advising.advice import advice_of

        _give(advice_of(watcher, self._program()), self._settings)
        keep_ctrl_c()

    def _program(self) -> str:
        return self._settings.program if self._settings.is_program else " ".join(sys.argv)


def _give(advice: "Advice", settings: Settings) -> None:
    """Write the advice where it is wanted."""
    from haulage.advising import words

    text = words.as_json(advice) if settings.json else words.as_text(advice)
    if settings.output:
        path = settings.output if settings.is_program else f"{settings.output}-{os.getpid()}"
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{text}\n")
        except OSError as error:
            said = f"haulage: {path} could not be written: {error}"
        else:
            said = f"haulage: advice is in {path}"
        _print(said, sys.stderr)
    elif settings.json:
        _print(text, sys.stdout)
    else:
        if sys.stderr is not None and sys.stderr.isatty() and "NO_COLOR" not in os.environ:
            text = words.as_text(advice, "\033[1m", "\033[0m")
        _print(text, sys.stderr)


def _print(text: str, file: TextIO | None) -> None:
    if file is not None and not file.closed:
        print(text, file=file, flush=True)
