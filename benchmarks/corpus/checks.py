"""What `haulage check` costs: programs of the corpus by turns without checks and with some."""

import time
from collections.abc import Callable, Iterable
from statistics import geometric_mean, median
from typing import Any

from benchmarks import machine
from benchmarks.corpus import programs
from haulage.checking.lint_messages import told as worth_telling
from haulage.checking.names import USUAL
from haulage.checking.session import Session

# The settings that are timed, by their names in the table.
SETTINGS = {
    "bounds": ("bounds",),
    "memcheck": ("bounds", "init", "memory"),
    "all": USUAL,
    "lint": ("lint",),
}


def measure(
    names: Iterable[str], rounds: int, small: bool, say: Callable[[str, int, int], None]
) -> dict[str, Any]:
    """Run programs in this process; {"machine", "checks": {name: entry}}, where an entry has the
    milliseconds of each setting and of "unchecked", what was found, and whether a result was
    wrong."""
    found: dict[str, Any] = {"machine": machine.facts(), "checks": {}}
    listed = list(names)
    for number, name in enumerate(listed):
        say(name, number, len(listed))
        found["checks"][name] = _one(programs()[name].on_device(small), rounds)
    return found


def _one(running: Any, rounds: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {"unchecked": []}
    entry: dict[str, Any] = {"times": times, "findings": [], "wrong": None}
    for _ in range(2):
        running.run()
    for _ in range(rounds):
        times["unchecked"].append(_timed(running))
        for setting, checks in SETTINGS.items():
            session = Session(checks)
            session.begin()
            try:
                # Beginning to check makes the code and the plan of a launch.
                running.run()
                times.setdefault(setting, []).append(_timed(running))
            finally:
                session.end()
            kinds = sorted(
                {each.kind for each in filter(None, map(worth_telling, session.findings))}
            )
            entry["findings"] = sorted({*entry["findings"], *kinds})
        # Without the check the plan is another one again.
        running.run()
    entry["wrong"] = running.disagreement()
    return entry


def _timed(running: Any) -> float:
    began = time.perf_counter()
    running.run()
    return (time.perf_counter() - began) * 1e3


def told(found: dict[str, Any]) -> list[str]:
    """The table: medians of the ratios of each round, and their geometric means."""
    lines = [f"{'':32}{'ms':>8}" + "".join(f"{name:>10}" for name in SETTINGS) + "  found"]
    every: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for name, entry in found["checks"].items():
        plain = entry["times"]["unchecked"]
        row = f"{name:32}{median(plain):8.2f}"
        for setting in SETTINGS:
            pairs = zip(entry["times"][setting], plain, strict=True)
            every[setting].append(median(checked / without for checked, without in pairs))
            row += f"{every[setting][-1]:10.2f}"
        wrong = f"  WRONG: {entry['wrong']}" if entry["wrong"] else ""
        lines.append(f"{row}  {', '.join(entry['findings'])}{wrong}".rstrip())
    for what, of in (("geometric mean", geometric_mean), ("most", max)):
        lines.append(f"{what:40}" + "".join(f"{of(each):10.2f}" for each in every.values()))
    return lines
