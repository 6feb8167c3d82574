"""Checking, from its beginning to its end."""

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from haulage import forks
from haulage.backends.base import KernelStopped
from haulage.checking.counted_launches import ONLY_COVERAGE, CountedLaunch
from haulage.checking.findings import Finding, Findings
from haulage.checking.names import MAKES, USUAL
from haulage.compiler.checks.counters import COUNTERS, COVERAGE
from haulage.interruption import on_error
from haulage.runtime.devices.device import Device
from haulage.runtime.process import runtime

if TYPE_CHECKING:
    from haulage.checking.coverage import Coverage
    from haulage.checking.launching import CheckedLaunch

_changing = forks.lock()
# Those that have begun and have not ended, in the order in which they began.
_open: "list[Session]" = []


def _no_matter(found: bool) -> None:
    """Nobody is to be told."""


class Session:
    """Checks what this process does between `begin` and `end`.

    Several may be open at a time, in one thread or in several, one inside of another or not. One of
    them, the last, is the process's checker; each gets what is found while it is open.

    Attributes:
        asked: of `CHECKS` and `COVERAGE`, those that this session asks for.
        findings: what was found by now, of what it asks for.
        changed: called when a launch was checked or something was found, with whether that is new.
    """

    def __init__(
        self,
        checks: Iterable[str] = USUAL,
        changed: Callable[[bool], object] | None = None,
    ) -> None:
        self.asked = frozenset(checks)
        self.findings: Findings = _Shared(self)
        self._kinds = set().union(*(MAKES[each] for each in self.asked & MAKES.keys()))
        self.changed = changed or _no_matter
        self._began = self._ended = time.perf_counter()
        # What the counters of coverage said then.
        self._before: list[int] = []
        self._after: list[int] | None = None

    @property
    def checks(self) -> frozenset[str]:
        """Of `CHECKS` and `COVERAGE`, those that are made: what any open session asks for."""
        return self.asked.union(*(each.asked for each in _open))

    @property
    def checks_kernels(self) -> bool:
        """Whether some of them are of what threads of kernels do."""
        return bool(self.checks - {"stream"})

    @property
    def seconds(self) -> float:
        """How long it is, or was, open."""
        return (time.perf_counter() if self in _open else self._ended) - self._began

    def checked(
        self,
        overload: Any,
        device: Any,
        configuration: Any,
        version: str,
    ) -> "CheckedLaunch | CountedLaunch":
        """What checked launches of an overload are started by: see `observing.Checker`."""
        if self.checks - {"stream"} == ONLY_COVERAGE:
            return CountedLaunch(self.findings, overload, device, configuration, version)
        # It imports the compiler.
        from haulage.checking.launching import CheckedLaunch

        return CheckedLaunch(self.findings, self.checks, overload, device, configuration, version)

    def begin(self) -> None:
        """Check what follows.

        Raises:
            RuntimeError: it has begun already; or the process is traced, and streams or memory of
                the host are to be checked.
        """
        with _changing:
            if self in _open:
                raise RuntimeError("this session has begun already")
            self._began = time.perf_counter()
            self._before, self._after = COUNTERS.counts(), None
            _open.append(self)
            _follow_open()
        with on_error(self._leave):
            _follow_host()

    def end(self) -> None:
        """Wait for the CPU device, and check no more. Where it is not open nothing happens.

        Raises:
            KernelError: threads of a kernel had failed; the session is ended all the same.
        """
        if self not in _open:
            return
        try:
            self.wait()
        finally:
            self._leave()

    def _leave(self) -> None:
        with _changing:
            if self in _open:
                self._ended = time.perf_counter()
                self._after = COUNTERS.counts()
                _open.remove(self)
                _follow_open()
        _follow_host()

    def forget(self) -> None:
        """Forget what was found and counted by now."""
        self.findings.clear()
        self._before, self._after = COUNTERS.counts(), None

    def coverage(self, *, alive: bool = True) -> "Coverage | None":
        """What threads did by now, if this session asks for it; with `alive` also of kernels that
        were never launched."""
        if COVERAGE not in self.asked:
            return None
        # It imports all that launches kernels.
        from haulage.checking.coverage import coverage_since

        now = COUNTERS.counts() if self._after is None else self._after
        return coverage_since(self._before, now, alive=alive)

    def wait(self) -> None:
        """Wait for what was launched, so that all of it is in `findings`.

        Raises:
            KernelError: threads of a kernel had failed.
        """
        # The program itself does not wait here, so this orders none of its work.
        host_checker = runtime.current.host_checker
        with nullcontext() if host_checker is None else host_checker.unseen():
            for device in _checked_devices():
                device.finish()

    def settle(self) -> None:
        """Wait for what was launched, and leave what threads failed with to the next wait. While
        work is recorded for a graph, nothing is waited for."""
        for device in _checked_devices():
            if device.capturing:
                continue
            backend: Any = device.backend
            try:
                backend.synchronize()
            except KernelStopped as stopped:
                backend._keep_failure(0, stopped)

    def wants(self, kind: str) -> bool:
        """Whether a finding of this kind comes from a check that this session asks for."""
        return kind in self._kinds


def _checked_devices() -> list[Device]:
    """The devices in use on which kernels are checked."""
    found = [each for devices in tuple(runtime.current.found.values()) for each in devices]
    return [device for device in found if device.checks_kernels]


def _follow_open() -> None:
    """Make the checks that the open sessions ask for; what the last of them finds is found by all.

    A launch is planned for the checker that was in force, so each change of checks needs another.
    """
    runtime.current.checker = _open[-1] if _open else None


def _follow_host() -> None:
    """Make of the checks that the open sessions ask for those of the host's part."""
    with _changing:
        asked = frozenset().union(*(each.asked for each in _open))
        findings = _open[-1].findings if _open else None
    if runtime.current.host_checker is not None or asked & {"stream", "memory", "init"}:
        # They import NumPy.
        from haulage.checking import host

        host.follow(asked, findings)


class _Shared(Findings):
    """The findings of a session. What is added goes to all that are open, and to this one."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def _all(self) -> "list[Session]":
        with _changing:
            return [self._session, *(each for each in _open if each is not self._session)]

    def add(self, finding: Finding) -> bool:
        """Note a finding in each session that asks for its kind. Gives whether it is new in one."""
        is_new = False
        for each in self._all():
            if each.wants(finding.kind):
                is_new_there = Findings.add(each.findings, finding)
                each.changed(is_new_there)
                is_new = is_new or is_new_there
        return is_new

    def checked(self, accesses: int) -> None:
        """Note in each session that a launch was checked."""
        for each in self._all():
            Findings.checked(each.findings, accesses)
            each.changed(False)
