"""`pytest --haulage-check`: a test fails in which something is found."""

import os
import tempfile
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from haulage import forks
from haulage.checking import report
from haulage.checking.findings import Finding, Findings, key_of
from haulage.checking.names import checks_of
from haulage.checking.records import processes, sources_of
from haulage.checking.result import Result, finding_of_data, result_of
from haulage.checking.session import Session
from haulage.checking.settings import Settings
from haulage.checking.starting import begin_as
from haulage.checking.suppressions import Suppressions, kinds_of
from haulage.errors import HaulageError

MARKER = "haulage_check"
# Of a worker of pytest-xdist: what it tells the process that prints.
_OUTPUT = "haulage_check"

_rule_key = pytest.StashKey["_Rule"]()
_expected_key = pytest.StashKey[set[str]]()

Wrapper = Generator[None, Any, Any]


@dataclass(frozen=True)
class _Rule:
    """What a test's marker says.

    Attributes:
        checks: the checks that are made.
        expected: kinds of findings that have to be made, and do not fail the test.
        off: whether nothing is checked.
    """

    checks: frozenset[str]
    expected: frozenset[str] = frozenset()
    off: bool = False


@dataclass
class _Tally:
    """What the last line tells."""

    kinds: dict[str, int] = field(default_factory=dict)
    places: int = 0
    suppressed: int = 0
    launches: int = 0
    accesses: int = 0

    def add(self, findings: Iterable[Finding]) -> None:
        self.places += 1
        for each in findings:
            self.kinds[each.kind] = self.kinds.get(each.kind, 0) + 1

    def join(self, other: "_Tally") -> None:
        for kind, count in other.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + count
        for name in ("places", "suppressed", "launches", "accesses"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        count = sum(self.kinds.values())
        found = "nothing found"
        if not count and not self.launches:
            found = report.NO_LAUNCH
        if count:
            kinds = ", ".join(f"{number} {kind}" for kind, number in self.kinds.items())
            found = (
                f"{report.counted(count, 'finding')} ({kinds}) in "
                f"{report.counted(self.places, 'test')}"
            )
        suppressed = f", {self.suppressed:,} suppressed" if self.suppressed else ""
        launches = report.counted(self.launches, "launch", "launches")
        accesses = report.counted(self.accesses, "access", "accesses")
        return f"haulage check: {found}{suppressed}; {launches} and {accesses} checked"


class Checks:
    """The plugin of a run that checks."""

    def __init__(self, checks: frozenset[str], suppressions: Suppressions) -> None:
        self._checks = checks
        self._suppressions = suppressions
        # Open all the time, so that the memory of fixtures is known in the tests that use them.
        self._session = Session(checks)
        self._session.begin()
        self._children: _Children | None = None
        self._tally = _Tally()

    def pytest_unconfigure(self) -> None:
        """Check no more."""
        if self._children is not None:
            self._children.end()
        self._session.end()

    # ---- what is checked ----------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Wrapper:
        """What is found while a file is imported is an error of that file."""
        phase = Session(self._checks)
        phase.begin()
        try:
            made = yield
        finally:
            phase.end()
        result = self._result(phase.findings)
        if result.findings:
            self._tally.add(result.findings)
            made.outcome, made.longrepr = "failed", report.pages(result)
        return made

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Wrapper:
        """Let the processes that a test starts tell what they find."""
        if self._children is None:
            # Not before: workers of pytest-xdist are none.
            self._children = _Children(self._checks)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Wrapper:
        """Look at the fixtures of a test."""
        wrong = ""
        try:
            item.stash[_rule_key] = _rule(item, self._checks)
        except (TypeError, ValueError) as error:
            item.stash[_rule_key] = _Rule(self._checks)
            wrong = f"the marker {MARKER}: {error}"
        item.stash[_expected_key] = set()
        made = yield from self._phase(item, "setup")
        if wrong:
            # Not before: other plugins begin in there what they end later.
            pytest.fail(wrong, pytrace=False)
        return made

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Wrapper:
        """Look at a test."""
        made = yield from self._phase(item, "call")
        rule = item.stash[_rule_key]
        found = item.stash[_expected_key]
        missing = [each for each in sorted(rule.expected - found) if self._session.wants(each)]
        if missing:
            pytest.fail(
                f"the marker {MARKER} expects findings that were not made: {', '.join(missing)}",
                pytrace=False,
            )
        return made

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Wrapper:
        """Look at the end of the fixtures."""
        if _rule_key not in item.stash:
            return (yield)
        return (yield from self._phase(item, "teardown"))

    def _phase(self, item: pytest.Item, when: str) -> Wrapper:
        rule = item.stash[_rule_key]
        if rule.off:
            # From its first fixture to the end of its last one, which may trace the process.
            if when == "setup":
                self._session.end()
            try:
                return (yield)
            finally:
                if when == "teardown":
                    self._session.begin()
        phase = Session(rule.checks)
        phase.begin()
        try:
            made = yield
        except BaseException as error:
            try:
                phase.end()
            except HaulageError as failed:
                error.add_note(f"haulage: at the end of the test: {failed}")
            text = self._told(item, phase)
            if text:
                item.add_report_section(when, "haulage check", text)
            raise
        phase.end()
        text = self._told(item, phase)
        if text:
            pytest.fail(text, pytrace=False)
        return made

    def _told(self, item: pytest.Item, phase: Session) -> str:
        """The report of what was found, but for what is expected; "" for none."""
        assert self._children is not None
        for each in self._children.new():
            phase.findings.add(each)
        result = self._result(phase.findings)
        expected = item.stash[_rule_key].expected
        item.stash[_expected_key].update({each.kind for each in result.findings} & expected)
        result.findings = [each for each in result.findings if each.kind not in expected]
        if not result.findings:
            return ""
        self._tally.add(result.findings)
        return f"{report.headline(result)}\n\n{report.pages(result)}"

    def _result(self, findings: Findings) -> Result:
        own = list(findings)
        result = result_of(findings, 0.0, self._suppressions, sources_of(own))
        self._tally.suppressed += result.suppressed
        return result

    # ---- what is told at the end --------------------------------------------------------------

    def pytest_report_header(self) -> str:
        """What is checked."""
        return f"haulage: kernels are checked: {', '.join(sorted(self._checks))}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Of a worker: hand on what the last line tells."""
        self._tally.launches += self._session.findings.launches
        self._tally.accesses += self._session.findings.accesses
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = vars(self._tally)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has ended."""
        told = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if told is not None:
            self._tally.join(_Tally(**told))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """One line."""
        found = bool(self._tally.kinds)
        terminalreporter.write_line(str(self._tally), red=found, green=not found)


class _Children:
    """The processes that tests start, and what they found."""

    def __init__(self, checks: frozenset[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="haulage-check-")
        self._known: set[object] = set()
        self._before = os.environ.get(Settings.VARIABLE)
        self._settings = Settings(
            program="pytest",
            checks=",".join(sorted(checks)),
            folder=self._folder.name,
            starter=os.getpid(),
        )
        self._settings.give_on()
        self._is_open = True
        forks.in_child(self._forked)

    def _forked(self) -> None:
        if self._is_open:
            self._is_open = False
            begin_as(self._settings)

    def new(self) -> list[Finding]:
        """What they found since this was asked last."""
        new = []
        for name, data in processes(self._folder.name):
            for each in map(finding_of_data, data["findings"]):
                key = name, key_of(each)
                if key not in self._known:
                    self._known.add(key)
                    new.append(each)
        return new

    def end(self) -> None:
        """Forget them."""
        self._is_open = False
        if self._before is None:
            os.environ.pop(Settings.VARIABLE, None)
        else:
            os.environ[Settings.VARIABLE] = self._before
        self._folder.cleanup()


def _rule(item: pytest.Item, checks: frozenset[str]) -> _Rule:
    """What a test's marker says.

    Raises:
        TypeError, ValueError: that cannot be understood.
    """
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return _Rule(checks)
    given = dict(marker.kwargs)
    if marker.args:
        raise TypeError(f"write only={marker.args[0]!r}, and not {marker.args[0]!r} alone")
    off = given.pop("off", False)
    only = given.pop("only", None)
    expect = given.pop("expect", ())
    if given:
        raise TypeError(f"unknown {next(iter(given))!r}; expected only, expect or off")
    own = checks if only is None else checks_of(only) & checks
    words = expect.split(",") if isinstance(expect, str) else expect
    expected: set[str] = set()
    for word in words:
        expected |= kinds_of(word.strip())
    return _Rule(own, frozenset(expected), bool(off) or not own)
