"""`haulage.check`: what is checked inside of a block of a program."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Self, overload

from haulage.checking import report
from haulage.checking.coverage import Coverage
from haulage.checking.findings import Finding
from haulage.checking.names import COVERAGE, USUAL, checks_of
from haulage.checking.records import sources_of
from haulage.checking.result import Result, result_of
from haulage.checking.session import Session
from haulage.checking.suppressions import Suppressions, read
from haulage.checks import flag
from haulage.errors import CheckFailed, Unsupported
from haulage.runtime.devices.registry import current_device


class check(Sequence[Finding]):
    """`with haulage.check() as found:` checks what kernels and streams do inside, by any thread.

    At the end it waits for the device. If something was found it raises `CheckFailed`, whose
    message is the report; with `raises=False` it prints the report on standard error, in a notebook
    below the cell. `found` is a sequence of the findings, afterwards and so far. If the block
    fails, its exception passes on, with the report as a note.

    Blocks may be nested, and be open in several threads: each gets all that is found meanwhile.
    Kernels are checked on the CPU device, in this process: `haulage check program.py` checks those
    that a program starts, too.

    Args:
        only: the checks to make, as "race" or "race,bounds" or a list; None: all that tell what is
            wrong. "lint" tells what is slow on GPUs; "coverage": threads are only counted.
        coverage: whether it is counted, too, which lines and branches threads come to.
        raises: whether findings are an error at the end.
        suppressions: a file of findings not to be told, as for the command; comments
            `# haulage: ignore` count in any case.

    Raises:
        CheckFailed: at the end, an AssertionError: something was found.
        KernelError: at the end: threads of a kernel had failed.
        Unsupported: the current device is not the CPU.
        RuntimeError: the same object is entered again inside its block.
        TypeError, ValueError: `only` names no checks, or the file is none.
    """

    def __init__(
        self,
        *,
        only: str | Iterable[str] | None = None,
        coverage: bool = False,
        raises: bool = True,
        suppressions: str | None = None,
    ) -> None:
        self._checks = frozenset(USUAL) if only is None else checks_of(only, counts=True)
        if flag(coverage, "coverage"):
            self._checks |= {COVERAGE}
        self._raises = raises
        self._file = suppressions
        self._suppressions = Suppressions() if suppressions is None else read(suppressions)
        self._session: Session | None = None
        self._result: Result | None = None

    def __enter__(self) -> Self:
        if self._session is not None and self._result is None:
            raise RuntimeError("this object checks already; make one for each block")
        device = current_device()
        if not device.checks_kernels:
            raise Unsupported(
                f"haulage.check(): kernels are checked on the CPU device only, and {device} is the "
                'current one; say haulage.use("cpu") before'
            )
        self._result = None
        self._session = Session(self._checks)
        self._session.begin()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        session = self._session
        assert session is not None
        try:
            session.end()
        except BaseException as failed:
            self._end(failed)
            raise
        self._end(error)
        if error is not None or not len(self):
            return
        if self._raises:
            failure = CheckFailed(f"{report.headline(self.result)}\n\n{self}")
            failure.findings = tuple(self)
            raise failure
        self._show()

    def _end(self, error: BaseException | None) -> None:
        self._result = self.result
        # One that is from a block inside of this one has its report.
        if len(self) and error is not None and not isinstance(error, CheckFailed):
            error.add_note(str(self))

    def _show(self) -> None:
        display = _display()
        if display is not None:
            display(self)
        else:
            report.show(report.as_text(self.result, report.paint_for(sys.stderr)))

    @property
    def result(self) -> Result:
        """What was found, with the figures; inside of the block so far."""
        if self._result is not None:
            return self._result
        if self._session is None:
            return Result()
        findings = self._session.findings
        return result_of(
            findings,
            self._session.seconds,
            self._suppressions,
            sources_of(list(findings)),
            self._session.coverage(),
        )

    @property
    def launches(self) -> int:
        """How many launches were checked."""
        return self.result.launches

    @property
    def coverage(self) -> Coverage | None:
        """Which lines and branches of kernels threads came to; None if that was not asked for."""
        return self.result.coverage

    @property
    def accesses(self) -> int:
        """How many accesses of their threads were checked."""
        return self.result.accesses

    @property
    def suppressed(self) -> int:
        """How many findings are not told, as a comment or a file says so."""
        return self.result.suppressed

    @property
    def seconds(self) -> float:
        """How long the block took."""
        return self.result.seconds

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> list[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | list[Finding]:
        return self.result.findings[index]

    def __len__(self) -> int:
        return len(self.result.findings)

    def __str__(self) -> str:
        return report.as_text(self.result)

    def __repr__(self) -> str:
        return f"<haulage.check: {report.figures(self.result).removeprefix('haulage check: ')}>"

    def _repr_html_(self) -> str:
        return report.as_html(self.result)


def _display() -> Any:
    """What shows an object below a notebook's cell; None: this is no notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display
