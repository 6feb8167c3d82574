"""How `haulage debug` begins in the process of the program."""

import atexit
import sys
from typing import Any

from haulage.debugging.settings import Settings
from haulage.interpreting.launching import Choice
from haulage.runtime.process import runtime
from haulage.spelling import did_you_mean


def begin() -> None:
    """Stop in the launch that this process was told of, if it is the program itself."""
    settings = Settings.given()
    if settings is None or not settings.is_program:
        return
    chosen = Chosen(settings)
    runtime.current.debugger = chosen
    atexit.register(chosen.end)


class Chosen:
    """The launch that is to stop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._left = settings.launch
        self._launched: dict[str, int] = {}
        self._stopped = False

    def take(self, kernel: Any, asking: bool) -> Choice | None:
        """Where a launch that begins now is to stop, if it is that one."""
        settings = self._settings
        own = kernel.py_func.__module__.partition(".")[0] == "haulage"
        if own and not settings.kernel:
            return None
        name = kernel.__qualname__.replace("<locals>.", "")
        self._launched[name] = self._launched.get(name, 0) + 1
        self._stopped = self._stopped or asking
        if settings.kernel and settings.kernel not in (name, kernel.__qualname__, kernel.__name__):
            return None
        self._left -= 1
        if self._left:
            return None
        if asking and settings.block is None and settings.thread is None:
            return None
        self._stopped = True
        block, thread = (tuple(given or (0, 0, 0)) for given in (settings.block, settings.thread))
        return Choice(block, thread, settings.thread is not None)  # type: ignore[arg-type]

    def end(self) -> None:
        """Say what was launched, if nothing has stopped."""
        if self._stopped:
            return
        settings = self._settings
        launched = ", ".join(f"{name} ({count} times)" for name, count in self._launched.items())
        meant = did_you_mean(settings.kernel, self._launched) if settings.kernel else ""
        wanted = f"launch {settings.launch} of {settings.kernel or 'a kernel'}"
        print(
            f"haulage debug: nothing stopped: there was no {wanted}; launched were "
            f"{launched or 'no kernels'}{meant}",
            file=sys.stderr,
        )
