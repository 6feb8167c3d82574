"""What a run found: JSON on disk, and the comparisons that follow from it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS
from haulage.cli.bench import statistics
from haulage.cli.bench.problems import PROBLEMS
from haulage.cli.bench.statistics import Estimate

Run = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """Haulage and one peer in one case. `ratio` is theirs over ours: above 1 Haulage is faster.

    `limit` tells why this is no bar, None if it is one.
    """

    case: str
    peer: str
    ours: Estimate
    theirs: Estimate
    ratio: Estimate
    rounds: int
    limit: str | None
    wrong: bool


def pairs(run: Run, part: str = "cases") -> list[Pair]:
    """Every comparison of a run, in the order of the cases; `part` is "cases" or "small"."""
    found = []
    for case in PROBLEMS:
        for peer, entry in run[part].get(case, {}).get("peers", {}).items():
            ours, theirs = entry["ours"], entry["theirs"]
            found.append(
                Pair(
                    case,
                    peer,
                    statistics.median(ours),
                    statistics.median(theirs),
                    statistics.ratio(theirs, ours),
                    len(theirs),
                    PEERS[peer].limit(case),
                    is_wrong(entry),
                )
            )
    return found


def add_case(run: Run, case: str, outcome: Mapping[str, Any], part: str = "cases") -> None:
    """Put the outcome of a case into a run; pairs that it had before are replaced."""
    entry = run[part].setdefault(case, {"peers": {}, "skipped": {}})
    times = outcome["times"]
    entry["skipped"].update(outcome["skipped"])
    if "haulage" not in times:
        return
    entry["skipped"].pop("haulage", None)
    entry.update(size=outcome["size"], ours=times["haulage"], **outcome["agreements"]["haulage"])
    for name, theirs in times.items():
        if name == "haulage":
            continue
        both = [
            (a, b)
            for a, b in zip(times["haulage"], theirs, strict=True)
            if a is not None and b is not None
        ]
        entry["skipped"].pop(name, None)
        entry["peers"][name] = {
            "ours": [a for a, _ in both],
            "theirs": [b for _, b in both],
            **outcome["agreements"][name],
        }


def is_wrong(entry: Mapping[str, Any]) -> bool:
    """Whether a result was further from NumPy's than a right one can be, or there is none."""
    return "error" not in entry or not entry["error"] <= entry["allowed"]


def merge(kept: Run, measured: Run) -> None:
    """Put what was measured into a run that is kept, pair by pair; the newer replaces the older."""
    for part in ("machine", "compile", "start"):
        kept[part].update(measured[part])
    # One run's: its parts are compared with one another.
    for part in ("memory", "smart"):
        kept[part] = measured[part] or kept[part]
    for name, entry in measured["peers"].items():
        if "about" in entry or name not in kept["peers"]:
            kept["peers"][name] = entry
    for part in ("cases", "small"):
        cases = kept[part]
        for case, entry in measured[part].items():
            before = cases.get(case, {"peers": {}, "skipped": {}})
            peers = {**before["peers"], **entry["peers"]}
            skipped = {**before["skipped"], **entry["skipped"]}
            gone = {name: why for name, why in skipped.items() if name not in peers}
            cases[case] = {**before, **entry, "peers": peers, "skipped": gone}
        kept[part] = {case: cases[case] for case in PROBLEMS if case in cases}


def empty() -> Run:
    """A run in which nothing was measured yet."""
    parts = ("machine", "peers", "cases", "small", "compile", "start", "memory", "smart")
    return {part: {} for part in parts}


def read(path: Path) -> Run:
    """A run from its file."""
    run: Run = json.loads(path.read_text(encoding="utf-8"))
    return empty() | run


def write(run: Run, path: Path) -> None:
    """A run into a file: one line a list of times, so that it stays short."""
    text = json.dumps(run, indent=1)
    path.write_text(_joined(text) + "\n", encoding="utf-8")


def _joined(text: str) -> str:
    """Lists of numbers on one line each."""
    return re.sub(r"\[\s+([-\d.e+,\s]|null)+\]", lambda found: " ".join(found[0].split()), text)
