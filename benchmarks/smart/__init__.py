"""SmartArrays: what using one costs from Python, and a whole program with them."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import machine
from benchmarks.contestants import Contestant, close
from benchmarks.peers import Peer
from benchmarks.smart.cases import APART, IN_PLACE, PROGRAMS, USES
from benchmarks.turns import PAUSE

# The plate, the steps and the steps between two looks of `examples/jacobi.py`.
WHOLE, TINY = (2048, 500, 50), (64, 40, 10)
# A program takes seconds.
MOST_ROUNDS = 7


def measure(rounds: int, small: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """What `outcomes.Run` has as "smart".

    Returns {"date", "uses": {use: {kind: [ns]}}, "jacobi": {"size", "steps", "every",
    "programs": {program: {"seconds": [s], "copies", "nbytes"}}}}.
    """
    found: dict[str, Any] = {"date": machine.facts()["date"]}
    contestants: dict[str, Contestant] = {}
    try:
        for process in (IN_PLACE, APART):
            contestants[process] = _Contestant(Peer("smart", "SmartArrays", process))
        found["uses"] = {use: _use(use, contestants[IN_PLACE], rounds, say) for use in USES}
        found["jacobi"] = _jacobi(contestants, min(rounds, MOST_ROUNDS), small, say)
    finally:
        close(contestants.values())
    return found


class _Contestant(Contestant):
    worker = "benchmarks.smart.worker"


def _use(
    use: str, contestant: Contestant, rounds: int, say: Callable[[str], None]
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {kind: [] for kind in USES[use].kinds}
    for turn in range(rounds):
        say(f"{USES[use].title}: round {turn + 1} of {rounds}")
        for kind, kept in times.items():
            kept.append(contestant.ask("use", name=use, kind=kind))
    return times


def _jacobi(
    contestants: Mapping[str, Contestant], rounds: int, small: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    size, steps, every = sizes = TINY if small else WHOLE
    programs: dict[str, Any] = {name: {"seconds": []} for name in PROGRAMS}
    for turn in range(rounds):
        for name, kept in programs.items():
            say(f"examples/jacobi.py, {PROGRAMS[name].title}: round {turn + 1} of {rounds}")
            time.sleep(PAUSE)
            told = contestants[PROGRAMS[name].process].ask("jacobi", name=name, sizes=sizes)
            kept["seconds"].append(told.pop("seconds"))
            kept.update(told)
    return {"size": size, "steps": steps, "every": every, "programs": programs}
