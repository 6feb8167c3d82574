"""What came of checking: what is told as text, JSON and SARIF."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from haulage.checking import coverage as covered
from haulage.checking.coverage import Coverage
from haulage.checking.excerpts import Sources
from haulage.checking.findings import KINDS, Access, Finding, Findings, Place
from haulage.checking.lint_messages import folded, told
from haulage.checking.places import from_root
from haulage.checking.suppressions import Suppressions

_ORDER = {kind: number for number, kind in enumerate(KINDS)}


@dataclass
class Result:
    """What is left of findings when the suppressions are applied, sorted by kind and place.

    Attributes:
        findings: what is to be told.
        suppressed: how many findings are not told as the program or a file says so.
        notes: sentences on the suppressions: those that are unused or cannot be read.
        launches, accesses: how many launches were checked, and accesses of their threads.
        seconds: how long the program was checked.
        sources: lines of files that only the process of the program can read.
        coverage: which lines threads came to, or None if nobody asked.
    """

    findings: list[Finding] = field(default_factory=list)
    suppressed: int = 0
    notes: list[str] = field(default_factory=list)
    launches: int = 0
    accesses: int = 0
    seconds: float = 0.0
    sources: Sources = field(default_factory=dict)
    coverage: Coverage | None = None

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)


def result_of(
    findings: Findings,
    seconds: float,
    suppressions: Suppressions,
    sources: Sources,
    coverage: Coverage | None = None,
) -> Result:
    """What there is to be told of findings."""
    left: list[Finding] = []
    notes: list[str] = []
    count = 0
    for each in filter(None, map(told, findings)):
        if suppressions.covers(each, sources, notes):
            count += 1
        else:
            left.append(each)
    return Result(
        findings=sorted(folded(left), key=_key),
        suppressed=count,
        notes=[*dict.fromkeys(notes), *suppressions.unused()],
        launches=findings.launches,
        accesses=findings.accesses,
        seconds=seconds,
        sources=sources,
        coverage=None if coverage is None else coverage.by_statements(sources),
    )


def _key(finding: Finding) -> tuple[Any, ...]:
    places = [each and each.place for each in (finding.access, finding.other)]
    return (
        _ORDER.get(finding.kind, len(_ORDER)),
        *((each.file, each.line) if each else ("", 0) for each in places),
        finding.access.kernel,
        finding.array,
        finding.message,
    )


# ---- as plain data ----------------------------------------------------------------------------


def as_data(result: Result) -> dict[str, Any]:
    """What `--json` writes; `schema.json` says what it is."""
    data = {
        "findings": [finding_as_data(each) for each in result.findings],
        "suppressed": result.suppressed,
        "launches": result.launches,
        "accesses": result.accesses,
        "seconds": result.seconds,
    }
    if result.coverage is not None:
        data["coverage"] = covered.report_data(result.coverage)
    return data


def finding_as_data(finding: Finding) -> dict[str, Any]:
    """A finding as it is in JSON."""
    return {
        "kind": finding.kind,
        **_access(finding.access),
        "array": finding.array,
        "index": _list(finding.index),
        "element": finding.element,
        "allocated": _place(finding.allocated),
        "other": _access(finding.other) if finding.other else None,
        "same_value": finding.same_value,
        "count": finding.count,
        "measured": None if finding.measured is None else dict(finding.measured),
        "hint": finding.hint,
        "message": finding.message,
    }


def finding_of_data(data: dict[str, Any]) -> Finding:
    """The finding that `finding_as_data` gave this for."""
    return Finding(
        kind=data["kind"],
        message=data["message"],
        access=_access_of(data),
        other=_access_of(data["other"]) if data["other"] else None,
        array=data["array"],
        index=_tuple(data["index"]),
        allocated=_place_of(data["allocated"]),
        same_value=data["same_value"],
        count=data["count"],
        measured=data["measured"],
        hint=data["hint"],
        element=data["element"],
    )


def _access(access: Access) -> dict[str, Any]:
    place = access.place
    return {
        "file": place.file if place else None,
        "line": place.line if place else None,
        "access": access.what,
        "kernel": access.kernel,
        "block": _list(access.block),
        "thread": _list(access.thread),
    }


def _access_of(data: dict[str, Any]) -> Access:
    return Access(
        _place_of(data),
        data["access"],
        data["kernel"],
        _tuple(data["block"]),
        _tuple(data["thread"]),
    )


def _place(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else {"file": place.file, "line": place.line}


def _place_of(data: dict[str, Any] | None) -> Place | None:
    return None if data is None or data["file"] is None else Place(data["file"], data["line"])


def _list(index: Iterable[int] | None) -> list[int] | None:
    return None if index is None else [int(each) for each in index]


def _tuple(index: list[int] | None) -> tuple[int, ...] | None:
    return None if index is None else tuple(index)


# ---- several processes ------------------------------------------------------------------------


def absolute(finding: Finding, folder: str) -> Finding:
    """The finding with its files' names from the root on."""

    def of(place: Place | None) -> Place | None:
        return place and Place(from_root(place.file, folder), place.line)

    other = finding.other
    return replace(
        finding,
        access=replace(finding.access, place=of(finding.access.place)),
        other=other and replace(other, place=of(other.place)),
        allocated=of(finding.allocated),
    )
