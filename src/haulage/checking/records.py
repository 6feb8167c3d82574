"""What each process of a program found, in a file of its own, for the command that tells it."""

import json
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from haulage import forks
from haulage.checking import coverage as covered
from haulage.checking.coverage import Coverage
from haulage.checking.excerpts import AROUND, line_of
from haulage.checking.findings import Finding, Findings
from haulage.checking.result import absolute, finding_as_data, finding_of_data

if TYPE_CHECKING:
    from haulage.checking.session import Session

# Writing takes at most a part like this of the time, unless something new was found and there are
# few findings.
_PART = 0.05
_FEW = 100


class Record:
    """The file of this process. It is whole at any time."""

    def __init__(self, folder: str, session: "Session") -> None:
        self._folder = folder
        self._session = session
        self._started_in = os.getcwd()
        self._lock = forks.lock()
        self._next = 0.0
        self._path = self._new_path()

    def begin_anew(self) -> None:
        """In a process that was forked."""
        self._next = 0.0
        self._path = self._new_path()

    def _new_path(self) -> str:
        # Numbers of processes come again.
        return os.path.join(self._folder, f"{os.getpid()}-{time.time_ns()}.json")

    def note(self, is_new: bool) -> None:
        """Something was found, or a launch was checked."""
        few = len(self._session.findings) < _FEW
        if (is_new and few) or time.monotonic() > self._next:
            self.write()

    def write(self, *, ends: bool = False) -> None:
        """Write what there is, if anything was checked; `ends`: the process ends, so of coverage
        also what was never launched."""
        with self._lock:
            findings = self._session.findings
            nobody_reads = not os.path.isdir(self._folder)  # the program itself has ended
            if nobody_reads or not (findings.launches or len(findings) or ends):
                return
            began = time.monotonic()
            coverage = self._session.coverage(alive=ends)
            if not (findings.launches or len(findings) or coverage):
                return
            with open(self._path + ".new", "w", encoding="utf-8") as file:
                json.dump(self._data(findings, coverage), file)
            os.replace(self._path + ".new", self._path)
            ended = time.monotonic()
            self._next = ended + (ended - began) / _PART

    def _data(self, findings: Findings, coverage: Coverage | None) -> dict[str, Any]:
        own = [absolute(each, self._started_in) for each in findings]
        placed = None if coverage is None else coverage.from_folder(self._started_in)
        return {
            "findings": [finding_as_data(each) for each in own],
            "launches": findings.launches,
            "accesses": findings.accesses,
            "coverage": None if placed is None else covered.as_data(placed),
            "sources": sources_of(own),
        }


def sources_of(findings: list[Finding]) -> dict[str, dict[int, str]]:
    """Lines at the findings, of files that are in this process only: cells of notebooks and other
    text that was executed."""
    found: dict[str, dict[int, str]] = {}
    for finding in findings:
        for access in (finding.access, finding.other):
            place = access and access.place
            if place and not os.path.isfile(place.file):
                lines = found.setdefault(place.file, {})
                for number in range(place.line - AROUND, place.line + AROUND + 1):
                    text = line_of(place.file, number, {})
                    if text:
                        lines[number] = text
    return {file: lines for file, lines in found.items() if lines}


def processes(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The file of each process, and what it says."""
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                yield name, json.load(file)


def gathered(folder: str) -> tuple[Findings, Coverage, dict[str, dict[int, str]]]:
    """What the files of a folder have together, and the lines that came with it."""
    findings, coverage = Findings(), Coverage()
    sources: dict[str, dict[int, str]] = {}
    for _, data in processes(folder):
        for each in data["findings"]:
            findings.add(finding_of_data(each))
        coverage += covered.of_data(data["coverage"] or [])
        findings.launches += data["launches"]
        findings.accesses += data["accesses"]
        for source, lines in data["sources"].items():
            sources.setdefault(source, {}).update({int(n): text for n, text in lines.items()})
    return findings, coverage, sources
