"""The packages take turns in each measure."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

from benchmarks.contestants import Contestant, Unable, close
from benchmarks.gpu import targets
from benchmarks.gpu.measures import MEASURES
from benchmarks.gpu.targets import OURS
from benchmarks.peers import Peer

PACKAGES = {
    name: Peer(name, title, f"benchmarks.gpu.with_{name.replace('-', '_')}")
    for name, title in (
        (OURS, "Haulage"),
        ("driver", "CUDA's driver"),
        ("numba-cuda", "numba-cuda"),
        ("cupy", "CuPy"),
        ("torch", "PyTorch"),
        ("triton", "Triton"),
        ("warp", "Warp"),
    )
}

TITLES = {name: peer.title for name, peer in PACKAGES.items()}

# Seconds for one answer: the first imports a package, others compile or write 512 MiB.
PATIENCE = 120.0

Run = dict[str, Any]


class _Package(Contestant):
    worker = "benchmarks.gpu.worker"

    def ask(self, do: str, **what: Any) -> Any:
        """The worker's answer.

        Raises:
            Unable: as for `Contestant`; or there was none in time, and the process was ended.
        """
        is_late = threading.Event()
        process = self.process

        def end() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(PATIENCE, end)
        timer.start()
        try:
            return super().ask(do, **what)
        except Unable:
            if is_late.is_set():
                raise Unable(f"no answer in {PATIENCE:.0f} seconds to {do!r}") from None
            raise
        finally:
            timer.cancel()


def run(
    names: Sequence[str],
    packages: Sequence[str],
    rounds: int,
    small: bool,
    say: Callable[[str], None],
    keep: Callable[[Run], None] = lambda found: None,
) -> Run:
    """Measure. A package that cannot run here is left out, with the reason. `keep` gets what is
    there after each measure, as the process may be ended before the last.

    Returns {"packages": {name: what it says of itself}, "absent": {name: why}, "measures": {name:
    {"unit", "values": {package: [a figure a round]}, "failed": {package: why}}}}.
    """
    found: Run = {"packages": {}, "absent": {}, "measures": {}}
    there: dict[str, _Package] = {}
    takes_part: dict[str, list[str]] = {}
    try:
        for name in packages:
            say(f"{name} starts")
            contestant = _Package(PACKAGES[name])
            try:
                found["packages"][name] = contestant.ask("about")
                takes_part[name] = contestant.ask("measures")
            except Unable as no:
                found["absent"][name] = str(no)
                contestant.close()
            else:
                there[name] = contestant
        for name in names:
            found["measures"][name] = _measure(
                name,
                {package: there[package] for package in there if name in takes_part[package]},
                rounds,
                small,
                say,
            )
            keep(found)
    finally:
        close(there.values())
    return found


def _measure(
    name: str, there: dict[str, _Package], rounds: int, small: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    values: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    for package, contestant in there.items():
        say(f"{name}: {package} gets ready")
        contestant.revive()
        try:
            contestant.ask("prepare", name=name, small=small)
        except Unable as no:
            failed[package] = str(no)
        else:
            values[package] = []
    for turn in range(rounds):
        say(f"{name}: round {turn + 1} of {rounds}")
        for package in list(values):
            try:
                values[package].append(float(f"{there[package].ask('turn'):.5g}"))
            except Unable as no:
                failed[package] = str(no)
                del values[package]
    for package in values:
        # It starts anew in the next measure.
        with suppress(Unable):
            there[package].ask("drop")
    return {"unit": MEASURES[name].unit, "values": values, "failed": failed}


def table(found: Run) -> list[str]:
    """The run as lines of Markdown: medians, and how many times better Haulage is in brackets."""
    packages = [name for name in PACKAGES if name in found["packages"]]
    lines = [
        "| | unit | " + " | ".join(PACKAGES[name].title for name in packages) + " |",
        "|---|---|" + "---|" * len(packages),
    ]
    for name, outcome in found["measures"].items():
        measure = MEASURES[name]
        middles = {package: median(values) for package, values in outcome["values"].items()}
        cells = []
        for package in packages:
            if package in outcome["failed"]:
                cells.append("failed")
            elif package not in middles:
                cells.append("")
            elif package == OURS or OURS not in middles:
                cells.append(f"{middles[package]:.4g}")
            else:
                theirs, ours = middles[package], middles[OURS]
                better = theirs / ours if measure.is_time else ours / theirs
                cells.append(f"{theirs:.4g} ({better:.2f})")
        lines.append(f"| {measure.title} | {measure.unit} | {' | '.join(cells)} |")
    lines += ["", *targets.shares(found, TITLES), *targets.lines(targets.judged(found, TITLES))]
    lines += [
        "",
        *(f"- {PACKAGES[name].title}: {said}" for name, said in found["packages"].items()),
    ]
    lines += [
        f"- {PACKAGES[name].title} is not here: {why}" for name, why in found["absent"].items()
    ]
    for name, outcome in found["measures"].items():
        lines += [f"- {name}, {package}: {why}" for package, why in outcome["failed"].items()]
    return lines
