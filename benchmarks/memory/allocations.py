"""What an allocation and its free cost from Python: cases, who takes part, and the turns.

Each runtime has a module with `allocations()`, which gives statements by the names of `CASES`, and
`NAMES`, what they mean in them. A turn runs one of them in a loop for 20 ms, with the garbage
collector on, as it is in programs.
"""

import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.contestants import Contestant, Unable, close
from benchmarks.peers import Peer
from benchmarks.turns import PAUSE
from haulage.cli.bench import statistics

# Haulage's time over that of `np.empty`, at the most.
BAR = 4.0


@dataclass(frozen=True)
class Case:
    """One way to allocate; `bar`: it is measured by `BAR`."""

    name: str
    title: str
    bar: bool = False


CASES = {
    case.name: case
    for case in (
        Case("line", "1000 float32", bar=True),
        Case("plane", "32 x 32 float32", bar=True),
        Case("many", "1000 float32, a hundred arrays held, then dropped; each", bar=True),
        Case("sizes", "40 sizes from 4 B to 64 kB, held, then dropped; each", bar=True),
        Case("close", "1000 float32 and `close()`"),
        Case("with", "`with` an array of 1000 float32"),
        Case("to", "1000 float32 copied there (`to_device`; NumPy: `copy`)"),
        Case("pinned", "1000 float32, pinned"),
        Case("megabyte", "1 MB"),
        Case("large", "100 MB, not touched"),
    )
}

PEERS = {
    peer.name: peer
    for peer in (
        Peer("haulage", "Haulage", "benchmarks.memory.with_haulage"),
        Peer("numpy", "`np.empty`", "benchmarks.memory.with_numpy"),
        Peer("warp", "Warp's `wp.empty`", "benchmarks.memory.with_warp", "warp"),
    )
}

# (what, microseconds, where the figure is from), each on a machine of its own.
PUBLISHED = (
    ("CuPy, `cupy.empty`", "1.5 to 2.2", "NVIDIA/cuda-python#756, cupy/cupy#10107"),
    ("cuda.core, `allocate`", "3.4", "NVIDIA/cuda-python#756"),
    ("Warp, `wp.empty`, on a CPU", "10.4", "an earlier measurement on another machine"),
    ("numba-cuda, an array's two finalizers alone", "3", "the same"),
)


def times(rounds: int, wanted: list[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Nanoseconds of each case and part, a list of a number for each round.

    Returns {"cases": {case: {peer: [ns]}}, "parts": {"haulage": {part: [ns]}},
    "skipped": {peer: why}}.
    """
    found: dict[str, Any] = {"cases": {}, "parts": {}, "skipped": {}}
    contestants: dict[str, Contestant] = {}
    try:
        for name in (name for name in PEERS if name in ("haulage", *wanted)):
            try:
                contestants[name] = Contestant(PEERS[name])
                contestants[name].ask("about")
            except Unable as no:
                found["skipped"][name] = str(no)
        for case in CASES:
            found["cases"][case] = _case(case, contestants, rounds, say)
        if "haulage" in contestants:
            found["parts"]["haulage"] = _parts(contestants["haulage"], rounds, say)
    finally:
        close(contestants.values())
    return found


def _case(
    case: str,
    contestants: Mapping[str, Contestant],
    rounds: int,
    say: Callable[[str], None],
) -> dict[str, list[float]]:
    able = {n: c for n, c in contestants.items() if case in c.ask("statements")}
    kept: dict[str, list[float]] = {name: [] for name in able}
    for turn in range(rounds):
        say(f"allocations, {case}: round {turn + 1} of {rounds}")
        for name, contestant in able.items():
            time.sleep(PAUSE)
            kept[name].append(contestant.ask("statement", name=case))
    return kept


def _parts(ours: Contestant, rounds: int, say: Callable[[str], None]) -> dict[str, list[float]]:
    kept: dict[str, list[float]] = {name: [] for name in ours.ask("statements", parts=True)}
    for turn in range(rounds):
        say(f"parts of an allocation: round {turn + 1} of {rounds}")
        for name, times in kept.items():
            times.append(ours.ask("statement", name=name))
    return kept


@dataclass(frozen=True)
class Statement:
    """What is timed; it allocates and frees `count` arrays. `setup` goes before."""

    text: str
    count: int = 1
    setup: str = "pass"


def nanoseconds(
    statement: Statement, names: Mapping[str, Any], seconds: float = statistics.TURN_SECONDS
) -> float:
    """Of one allocation and its free, in a loop that takes about `seconds`."""
    # `timeit` turns the collector off while it measures.
    setup = f"import gc; gc.enable(); {statement.setup}"
    timer = timeit.Timer(statement.text, setup, globals=dict(names))
    calls = 1
    while True:
        taken = timer.timeit(calls)
        if taken > 0.6 * seconds:
            return float(f"{taken * 1e9 / calls / statement.count:.5g}")
        calls = max(calls + 1, int(calls * min(100.0, seconds / max(taken, 1e-7))))
