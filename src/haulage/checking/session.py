"""Checking, from its beginning to its end."""

from collections.abc import Iterable

from haulage.checking.findings import Findings
from haulage.runtime.process import runtime

# What can be checked: the names that `--only` takes.
CHECKS = ("bounds", "race", "init", "barrier", "stream", "memory")


class Session:
    """Checks what this process does between `begin` and `end`.

    Attributes:
        checks: of `CHECKS`, those that are made.
        findings: what was found by now.
    """

    def __init__(self, checks: Iterable[str] = CHECKS) -> None:
        self.checks = frozenset(checks)
        self.findings = Findings()

    def begin(self) -> None:
        """Check what follows."""
        runtime.current.checker = self

    def end(self) -> None:
        """Check no more."""
        runtime.current.checker = None
