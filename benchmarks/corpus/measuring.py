"""The corpus timed: alone or by turns with `njit`, and with each pass of the compiler left out."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.contestants import Contestant, Unable, close
from benchmarks.corpus import programs, results
from benchmarks.passes import with_passes_off
from benchmarks.peers import Peer

# Of the next runtime's cores nothing must keep the last one's threads awake.
PAUSE = 0.002
# A round of one kernel; shorter ones are repeated.
TURN_SECONDS = 0.006
# Seconds that the rounds of one kernel may take in one setting.
SLOW = 4.0

Say = Callable[[str, int, int], None]


class Child(Contestant):
    """A process of one side or of one setting of the passes."""

    worker = "benchmarks.corpus.worker"


def _child(name: str, side: str, variables: Mapping[str, str]) -> Child:
    # NumPy's references must not keep threads awake on the cores.
    usual = {"OPENBLAS_NUM_THREADS": "1"}
    return Child(Peer(name, name, side, variables=usual | dict(variables)))


def corpus(
    names: Iterable[str],
    peers: Iterable[str],
    rounds: int,
    small: bool,
    into: Path | None,
    say: Say,
) -> results.Found:
    """Run the programs, by turns with loops for `njit` if that is among the peers.

    What `into` has already is kept and not measured again.
    """
    found, children = _begun(into), {"haulage": _child("haulage", "haulage", {})}
    if "njit" in peers:
        children["njit"] = _child("njit", "njit", {})
    todo = [name for name in names if not results.has_corpus(found, name, children)]
    try:
        for number, name in enumerate(todo):
            say(name, number, len(todo))
            found["corpus"][name] = _one(name, children, rounds, small)
            results.keep(found, into)
    finally:
        close(children.values())
    return found


def _one(name: str, children: Mapping[str, Child], rounds: int, small: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"group": programs()[name].group, "times": {}, "wrong": {}}
    # Not all programs have loops.
    entry["asked_njit"] = "njit" in children
    sides = []
    for side, child in children.items():
        child.revive()
        try:
            told = child.ask("setup", case=name, small=small)
        except Unable as no:
            entry["wrong"][side] = str(no)
            continue
        if told is None:
            continue
        if told["wrong"]:
            entry["wrong"][side] = told["wrong"]
        entry.setdefault("block", told.get("block", ""))
        sides.append(side)
    entry["times"] = _turns({side: children[side] for side in sides}, rounds)
    return entry


def _turns(children: Mapping[str, Child], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each round by name; all are asked in turn, and then let go of their data."""
    times: dict[str, list[float]] = {name: [] for name in children}
    began = time.monotonic()
    for turn in range(rounds):
        # Each goes first as often as another one.
        order = list(children)[:: 1 if turn % 2 else -1]
        for name in order:
            time.sleep(PAUSE)
            times[name].append(float(f"{children[name].ask('turn', seconds=TURN_SECONDS):.5g}"))
        if turn >= 2 and time.monotonic() - began > SLOW * len(children):
            break
    for child in children.values():
        child.ask("drop")
    return times


def passes(
    names: Iterable[str],
    wanted: Mapping[str, str],
    rounds: int,
    small: bool,
    into: Path | None,
    jobs: int,
    say: Say,
) -> results.Found:
    """Run each program with all passes and with each of `wanted` (sentences by name) left out.

    Every setting is a process, which compiles for itself; where the object code is the same nothing
    is timed. What `into` has already is kept and not measured again.
    """
    found = _begun(into)
    found["passes"].update(wanted)
    children = {"": _child("all", "haulage", {})}
    children |= {name: _child(name, "haulage", with_passes_off([name])) for name in wanted}
    todo = {name: results.missing_passes(found, name, wanted) for name in names}
    todo = {name: missing for name, missing in todo.items() if missing}
    try:
        with ThreadPoolExecutor(jobs) as pool:
            for number, (name, missing) in enumerate(todo.items()):
                say(name, number, len(todo))
                # Who compiles first, behind the runs of the kernel before, takes the longest.
                order = ["", *missing]
                order = order[number % len(order) :] + order[: number % len(order)]
                chosen = {key: children[key] for key in order}
                entry = found["kernels"].setdefault(
                    name, results.new_kernel(programs()[name].group)
                )
                _without_each(name, chosen, rounds, small, pool, entry)
                results.keep(found, into)
    finally:
        close(children.values())
    return found


def _without_each(
    name: str,
    children: Mapping[str, Child],
    rounds: int,
    small: bool,
    pool: ThreadPoolExecutor,
    entry: dict[str, Any],
) -> None:
    def compiled(child: Child) -> dict[str, Any]:
        child.revive()
        try:
            told: dict[str, Any] = child.ask("compile", case=name)
        except Unable as no:
            return {"failed": str(no)}
        return told

    made = dict(zip(children, pool.map(compiled, children.values()), strict=True))
    base = made.pop("")
    if "failed" in base or base["wrong"]:
        entry["failed"][""] = base.get("failed") or base["wrong"]
    if "failed" in base:
        return
    differing = {}
    for off, told in made.items():
        if "failed" in told:
            entry["failed"][off] = told["failed"]
            continue
        entry["compile"][off] = [base["ms"], told["ms"]]
        if told["wrong"] and not base["wrong"]:
            entry["failed"][off] = told["wrong"]
        elif told["code"] == base["code"]:
            entry["unchanged"] = sorted({*entry["unchanged"], off})
        else:
            differing[off] = children[off]
    if not differing:
        return
    try:
        both = {"": children[""], **differing}
        for child in both.values():
            child.ask("setup", case=name, small=small)
        times = _turns(both, rounds)
    except Unable as no:
        entry["failed"].update(dict.fromkeys(differing, str(no)))
        return
    for off in differing:
        entry["times"][off] = {"on": times[""], "off": times[off]}


def _begun(into: Path | None) -> results.Found:
    found = results.read(into) if into is not None and into.exists() else results.empty()
    found["machine"] = machine.facts()
    return found


def estimate(kernels: int, settings: int, rounds: int, jobs: int) -> float:
    """About how many seconds `passes` takes, by what it took on two cores: a third of a second to
    compile, and of every third pair the rounds."""
    return kernels * settings * (0.35 / jobs + (0.25 + rounds * 3 * TURN_SECONDS) / 3)
