"""One case: every runtime that has it takes its turn in each round, and shows its result."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.contestants import Contestant, Unable
from haulage.cli.bench import statistics
from haulage.cli.bench.problems import Problem

# A runtime may spin for a while after its work, on the cores that the next one needs.
PAUSE = 0.003


def case(
    problem: Problem,
    contestants: Mapping[str, Contestant],
    rounds: int,
    small: bool,
    slow: float,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The times and results of a case.

    A runtime for which `rounds` turns would take more than `slow` seconds takes as many as fit,
    spread over the rounds, and at least one. Returns {"size", "times": {name: [ms or None for
    each round]}, "agreements": {name: {"error", "allowed"}}, "skipped": {name: why}}.
    """
    size = problem.small if small else problem.size
    inputs = problem.inputs(size)
    expected = problem.expected(inputs)
    agreements: dict[str, dict[str, float]] = {}
    skipped: dict[str, str] = {}
    every: dict[str, int] = {}
    for name, contestant in contestants.items():
        say(f"{problem.name}: {name} compiles")
        contestant.revive()
        try:
            if problem.name not in contestant.ask("cases"):
                continue
            contestant.ask("setup", case=problem.name, small=small)
            agreements[name] = asdict(problem.compare(contestant.result(), inputs, expected))
            once = contestant.ask("turn", seconds=0) / 1e3
            every[name] = max(1, round(once * rounds / slow))
        except (Unable, ValueError) as no:
            skipped[name] = str(no)
    del inputs, expected
    times: dict[str, list[float | None]] = {name: [] for name in every}
    for turn in range(rounds):
        say(f"{problem.name}: round {turn + 1} of {rounds}")
        for name in list(every):
            took = None
            if turn % every[name] == 0:
                time.sleep(PAUSE)
                try:
                    took = contestants[name].ask("turn", seconds=statistics.TURN_SECONDS)
                except Unable as no:
                    skipped[name] = str(no)
                    del every[name], times[name], agreements[name]
                    continue
            times[name].append(None if took is None else float(f"{took:.5g}"))
    for name in every:
        contestants[name].ask("drop")
    return {"size": size, "times": times, "agreements": agreements, "skipped": skipped}
