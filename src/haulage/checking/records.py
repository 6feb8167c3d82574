"""What each process of a program found, in a file of its own, for the command that tells it."""

import json
import os
import time
from typing import Any

from haulage import forks
from haulage.checking.excerpts import AROUND, line_of
from haulage.checking.findings import Finding, Findings
from haulage.checking.result import absolute, finding_as_data, finding_of_data
from haulage.checking.session import Session

# Seconds between two writes that tell of launches only.
_OFTEN = 0.5


class Record:
    """The file of this process. It is whole at any time."""

    def __init__(self, folder: str, session: Session) -> None:
        self._folder = folder
        self._session = session
        self._started_in = os.getcwd()
        self._lock = forks.lock()
        self._written = 0.0

    def begin_anew(self) -> None:
        """In a process that was forked."""
        self._written = 0.0

    def note(self, found: bool) -> None:
        """Something was found, or else a launch was checked."""
        if found or time.monotonic() - self._written > _OFTEN:
            self.write()

    def write(self) -> None:
        """Write what there is, if anything was checked."""
        with self._lock:
            findings = self._session.findings
            if not findings.launches and not len(findings):
                return
            path = os.path.join(self._folder, f"{os.getpid()}.json")
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(self._data(findings), file)
            os.replace(path + ".new", path)
            self._written = time.monotonic()

    def _data(self, findings: Findings) -> dict[str, Any]:
        own = [absolute(each, self._started_in) for each in findings]
        return {
            "findings": [finding_as_data(each) for each in own],
            "launches": findings.launches,
            "accesses": findings.accesses,
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


def gathered(folder: str) -> tuple[Findings, dict[str, dict[int, str]]]:
    """What the files of a folder have together, and the lines that came with it."""
    findings = Findings()
    sources: dict[str, dict[int, str]] = {}
    files = [each for each in sorted(os.listdir(folder)) if each.endswith(".json")]
    for name in files:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            data = json.load(file)
        for each in data["findings"]:
            findings.add(finding_of_data(each))
        findings.launches += data["launches"]
        findings.accesses += data["accesses"]
        for source, lines in data["sources"].items():
            sources.setdefault(source, {}).update({int(n): text for n, text in lines.items()})
    return findings, sources
