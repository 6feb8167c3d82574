"""How long a kernel takes to compile, and a fresh process to its first result."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import environments
from benchmarks.contestants import Contestant, Unable
from benchmarks.peers import HAULAGE, Peer

WARM_UP = "launch-1"


def times(
    names: Sequence[str],
    contestants: Mapping[str, Contestant],
    rounds: int,
    say: Callable[[str], None],
) -> dict[str, dict[str, list[float]]]:
    """{case: {runtime: [ms]}} from the source of a kernel to the end of its first small run.

    The process has compiled another kernel before, so that no library is loaded meanwhile.
    """
    able = {
        name: _cases(contestant)
        for name, contestant in contestants.items()
        if contestant.peer.compiles_anew
    }
    for name, cases in able.items():
        if WARM_UP in cases:
            contestants[name].ask("anew", case=WARM_UP)
    found: dict[str, dict[str, list[float]]] = {}
    for case in names:
        entry = found[case] = {name: [] for name, cases in able.items() if case in cases}
        for turn in range(rounds):
            say(f"{case}: compiles, round {turn + 1} of {rounds}")
            for name in list(entry):
                try:
                    entry[name].append(round(contestants[name].ask("anew", case=case), 2))
                except Unable:
                    del entry[name]
    return found


def _cases(contestant: Contestant) -> list[str]:
    cases: list[str] = contestant.ask("cases")
    return cases


def starts(
    names: Sequence[str], peers: Sequence[Peer], rounds: int, say: Callable[[str], None]
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """{case: {runtime: {"cold", "cached", "import": [ms]}}} of fresh processes.

    "cold": the first process, which compiles; "cached": later ones, which find its code on disk;
    "import": the part of that before any data.
    """
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for case in names:
        with tempfile.TemporaryDirectory() as folder:
            found[case] = {}
            for turn in range(rounds + 1):
                say(f"{case}: starts, round {turn + 1} of {rounds + 1}")
                for peer in (HAULAGE, *peers):
                    told = _start(peer, case, folder)
                    kept = found[case].setdefault(
                        peer.name, {"cold": [], "cached": [], "import": []}
                    )
                    kept["cached" if turn else "cold"].append(round(told["all"], 1))
                    kept["import"].append(round(told["import"], 1))
    return found


def _start(peer: Peer, case: str, folder: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.start", peer.name, case, folder],
        cwd=environments.ROOT,
        env=environments.variables(peer),
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told
