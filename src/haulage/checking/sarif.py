"""Findings as SARIF 2.1.0, the format that code scanning of GitHub, GitLab and others reads."""

import hashlib
import os
from pathlib import PurePath
from typing import Any

from haulage import __version__
from haulage.checking.excerpts import line_of, spans
from haulage.checking.findings import KINDS, LINTS, Access, Finding, Place
from haulage.checking.report import HELP, said
from haulage.checking.result import Result

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "SRCROOT"


def as_data(result: Result, folder: str) -> dict[str, Any]:
    """The findings as a SARIF log; names of files are those below the repository that `folder` is
    in, or below `folder` where that is in none."""
    root = _root(folder)
    kinds = list(KINDS)
    seen: dict[str, int] = {}
    results = []
    for each in result.findings:
        print_ = _fingerprint(each, result, root)
        seen[print_] = seen.get(print_, 0) + 1
        results.append(
            _result(each, result, root, kinds.index(each.kind), f"{print_}:{seen[print_]}")
        )
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "haulage check",
                        "version": __version__,
                        "rules": [_rule(kind) for kind in kinds],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {_ROOT: {"uri": PurePath(root).as_uri() + "/"}},
                "results": results,
                "properties": {
                    "launches": result.launches,
                    "accesses": result.accesses,
                    "seconds": result.seconds,
                    "suppressed": result.suppressed,
                },
            }
        ],
    }


def _root(folder: str) -> str:
    above = folder = os.path.abspath(folder)
    while not os.path.exists(os.path.join(above, ".git")):
        if above == os.path.dirname(above):
            return folder
        above = os.path.dirname(above)
    return above


def _level(kind: str) -> str:
    return "warning" if kind in LINTS else "error"


def _rule(kind: str) -> dict[str, Any]:
    text = KINDS[kind]
    return {
        "id": kind,
        "name": kind.replace("-", " ").title().replace(" ", ""),
        "shortDescription": {"text": text[0].upper() + text[1:]},
        "fullDescription": {"text": f"haulage check found {text}."},
        "help": {
            "text": f"{text[0].upper() + text[1:]}. {HELP.get(kind, '')} A line that is right as "
            f"it is gets the comment '# haulage: ignore[{kind}]'."
        },
        "defaultConfiguration": {"level": _level(kind)},
        "properties": {"tags": ["gpu", _tag(kind)]},
    }


_ORDER = ("race", "barrier", "stream")


def _tag(kind: str) -> str:
    if kind in LINTS:
        return "performance"
    return "concurrency" if kind in _ORDER else "correctness"


def _result(
    finding: Finding, result: Result, root: str, number: int, fingerprint: str
) -> dict[str, Any]:
    access = finding.access
    text = f"{finding.message} ({said(access, finding)}"
    text += f"; {said(finding.other, finding)} [there](1))" if finding.other else ")"
    related = []
    if finding.other and finding.other.place:
        related.append(
            _location(finding.other, finding, result, root, said(finding.other, finding))
        )
    else:
        text = text.replace(" [there](1)", "")
    if finding.allocated is not None:
        related.append(
            {
                **_physical(finding.allocated, root),
                "message": {"text": f"{finding.array or 'the memory'} was allocated here"},
            }
        )
    for n, each in enumerate(related, 1):
        each["id"] = n
    made: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": number,
        "level": _level(finding.kind),
        "message": {"text": text},
        "locations": _locations(finding, result, root),
        "partialFingerprints": {"primaryLocationLineHash": fingerprint},
        "occurrenceCount": finding.count,
        "properties": {
            "block": list(access.block) if access.block is not None else None,
            "thread": list(access.thread) if access.thread is not None else None,
            "array": finding.array,
            "index": list(finding.index) if finding.index is not None else None,
            "sameValue": finding.same_value,
            "measured": finding.measured,
        },
    }
    if related:
        made["relatedLocations"] = related
    return made


def _locations(finding: Finding, result: Result, root: str) -> list[dict[str, Any]]:
    """Where a finding is shown: GitHub leaves out those without a place."""
    for access in (finding.access, finding.other):
        if access is not None and access.place is not None:
            return [_location(access, finding, result, root)]
    return [_physical(finding.allocated, root)] if finding.allocated else []


def _location(
    access: Access, finding: Finding, result: Result, root: str, text: str = ""
) -> dict[str, Any]:
    assert access.place is not None
    made = _physical(access.place, root)
    line = line_of(access.place.file, access.place.line, result.sources)
    if line:
        begin, end = spans(line, access.what, finding.array)[0]
        region = made["physicalLocation"]["region"]
        region.update(startColumn=begin + 1, endColumn=end + 1, snippet={"text": line})
    if access.kernel:
        made["logicalLocations"] = [{"name": access.kernel, "kind": "function"}]
    if text:
        made["message"] = {"text": text}
    return made


def _physical(place: Place, root: str) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": _artifact(place.file, root),
            "region": {"startLine": place.line},
        }
    }


def _artifact(file: str, root: str) -> dict[str, Any]:
    path = os.path.abspath(file)
    if not os.path.isabs(file) and file.startswith("<"):
        return {"uri": "file:///" + "".join(letter for letter in file if letter.isalnum())}
    if os.path.commonpath([path, root]) == root:
        relative = PurePath("/", os.path.relpath(path, root)).as_uri().removeprefix("file:///")
        return {"uri": relative, "uriBaseId": _ROOT}
    return {"uri": PurePath(path).as_uri()}


def _fingerprint(finding: Finding, result: Result, root: str) -> str:
    """A number that stays the same when lines are added above."""
    words = [finding.kind, finding.access.kernel, finding.array]
    for access in (finding.access, finding.other):
        if access is not None and access.place is not None:
            place = access.place
            words += [
                _artifact(place.file, root)["uri"],
                line_of(place.file, place.line, result.sources).strip(),
            ]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
