"""How the checking begins and ends in a process of the program."""

from contextlib import suppress

from haulage import forks
from haulage.checking.names import checks_of
from haulage.checking.records import Record
from haulage.checking.session import Session
from haulage.checking.settings import Settings
from haulage.errors import HaulageError
from haulage.runtime.process import runtime
from haulage.tracing.starting import at_end


def begin() -> None:
    """Check from now on, if this process was told to; what is found is written into the folder
    that is named.

    It is written as it is found, so that a process that is killed leaves it, too. Forked processes
    are checked by themselves.
    """
    settings = Settings.given()
    if settings is not None:
        begin_as(settings)


def begin_as(settings: Settings) -> None:
    """The same in a process that is told by its parent's memory, which it has as it was forked."""
    process = _Process(settings)
    process.session.begin()
    # First while the drivers are there, which have ended when what is registered here is called.
    runtime.current.at_exit.insert(0, process.end)
    at_end(process.end)
    forks.in_child(process.begin_anew)


class _Process:
    def __init__(self, settings: Settings) -> None:
        self.session = Session(checks_of(settings.checks, counts=True))
        self._record = Record(settings.folder, self.session)
        self.session.changed = self._record.note

    def begin_anew(self) -> None:
        """In a process that was forked: what was found before is the parent's."""
        self.session.forget()
        self._record.begin_anew()

    def end(self) -> None:
        """Check no more, and write all that is known. The second time only the latter."""
        host_checker = runtime.current.host_checker
        if host_checker is not None:
            host_checker.program_ends()
        # Of kernels that failed the end of the runtime tells.
        with suppress(HaulageError):
            self.session.end()
        self._record.write(ends=True)
