"""What an allocation and its free, a small copy, a view and an element cost from Python: cases, who
takes part, and the turns.

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


@dataclass(frozen=True)
class Case:
    """One thing that is done.

    `most` is what it may take at the most of NumPy's time for the same, or for what stands in
    parentheses in the title; `most_ns` in nanoseconds; 0: there is no bar.
    """

    name: str
    title: str
    most: float = 0
    most_ns: float = 0


_EMPTY = "NumPy: `np.empty` of 1000 float32"

CASES = {
    case.name: case
    for case in (
        Case("line", "1000 float32", most=4),
        Case("plane", "32 x 32 float32", most=4),
        Case("fortran", f"25 x 40 float64, Fortran order ({_EMPTY})", most=4),
        Case("stream", f"1000 float32, in a stream ({_EMPTY})", most=4),
        Case("many", "1000 float32, a hundred arrays held, then dropped; each", most=4),
        Case("sizes", "40 sizes from 4 B to 64 kB, held, then dropped; each", most=4),
        Case("kilobytes", f"96 kB ({_EMPTY})", most=4),
        Case("megabyte", f"1 MB ({_EMPTY})", most=4),
        Case("megabytes", f"64 MB ({_EMPTY})", most=4),
        Case("pinned", f"1000 float32, pinned ({_EMPTY})", most=8),
        Case("mapped", f"1000 float32, mapped ({_EMPTY})", most=8),
        Case("managed", f"1000 float32, managed ({_EMPTY})", most=8),
        Case("close", "1000 float32 and `close()`"),
        Case("with", "`with` an array of 1000 float32"),
        Case("large", "100 MB, not touched"),
        Case("to", "`to_device` of 1000 float32 (NumPy: `copy`)", most=8),
        Case("back", "`copy_to_host` of 1000 float32 (NumPy: `copy`)", most=4),
        Case("view", "`a[1:]`", most_ns=1000),
        Case("read", "`a[3]`", most_ns=1500),
        Case("write", "`a[3] = 1`", most_ns=1500),
    )
}

PEERS = {
    peer.name: peer
    for peer in (
        Peer("haulage", "Haulage", "benchmarks.memory.with_haulage"),
        Peer("numpy", "NumPy", "benchmarks.memory.with_numpy"),
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
    """What is timed; it does `count` times what the case says. `setup` goes before."""

    text: str
    count: int = 1
    setup: str = "pass"


def nanoseconds(
    statement: Statement, names: Mapping[str, Any], seconds: float = statistics.TURN_SECONDS
) -> float:
    """Of one time, in a loop that takes about `seconds`."""
    # `timeit` turns the collector off while it measures.
    setup = f"import gc; gc.enable(); {statement.setup}"
    timer = timeit.Timer(statement.text, setup, globals=dict(names))
    calls = 1
    while True:
        taken = timer.timeit(calls)
        if taken > 0.6 * seconds:
            return float(f"{taken * 1e9 / calls / statement.count:.5g}")
        calls = max(calls + 1, int(calls * min(100.0, seconds / max(taken, 1e-7))))
