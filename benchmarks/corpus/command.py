"""`--what corpus`, `--what passes` and `--what checks`."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks import passes
from benchmarks.corpus import checks, measuring, programs, results
from haulage.cli.refusal import Refusal

# Without a terminal a line is printed so often, in seconds.
_EVERY = 20.0


def run(chosen: argparse.Namespace, words: list[str]) -> int:
    """Returns 0; 1 if a result of Haulage's is wrong.

    Raises:
        Refusal: what was asked cannot be done.
    """
    if chosen.rounds < 1:
        raise Refusal(f"--rounds: expected a number above 0, not {chosen.rounds}")
    # Those of the suite are compared with others' time, so their cost is asked for first.
    names = _names(words or (["suite"] if chosen.what == "checks" else []))
    if chosen.what == "checks" and chosen.into is not None:
        raise Refusal("--what checks keeps no file; take --json")
    # Passes are the CPU device's.
    os.environ["HAULAGE_DEVICE"] = chosen.device or "cpu"
    with _progress() as say:
        if chosen.what == "corpus":
            peers = _peers(chosen.peers)
            found = measuring.corpus(names, peers, chosen.rounds, chosen.small, chosen.into, say)
            lines = results.told_corpus(found)
        elif chosen.what == "checks":
            found = checks.measure(names, chosen.rounds, chosen.small, say)
            lines = checks.told(found)
        else:
            wanted = _passes(chosen.passes)
            jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
            seconds = measuring.estimate(len(names), len(wanted) + 1, chosen.rounds, jobs)
            print(
                f"{len(names)} kernels, {len(wanted)} passes: at most about {seconds / 60:.0f} "
                "minutes",
                file=sys.stderr,
            )
            found = measuring.passes(
                names, wanted, chosen.rounds, chosen.small, chosen.into, jobs, say
            )
            lines = results.told_passes(found)
    if chosen.json:
        print(json.dumps(found, indent=1))
    else:
        print("\n".join(lines))
    if chosen.what == "checks":
        return int(any(entry["wrong"] for entry in found["checks"].values()))
    return 1 if results.any_wrong(found) else 0


def _names(words: list[str]) -> list[str]:
    """The kernels that words mean: names, parts of them, or groups; all without a word."""
    known = programs()
    if not words:
        return list(known)
    chosen = set()
    for word in words:
        mine = [
            name
            for name, program in known.items()
            if word in name or word.replace("_", " ") == program.group
        ]
        if word in known:
            mine = [word]
        if not mine:
            groups = ", ".join(dict.fromkeys(program.group for program in known.values()))
            raise Refusal(f"no kernel of the corpus is named {word}; its groups are {groups}")
        chosen.update(mine)
    return [name for name in known if name in chosen]


def _peers(words: str) -> list[str]:
    # All peers that there are for the corpus.
    peers = {"all": ["njit"], "none": []}.get(words, words.split(","))
    for name in peers:
        if name != "njit":
            raise Refusal(f"--peers: the corpus has loops for njit only, not {name}")
    return peers


def _passes(words: str) -> Mapping[str, str]:
    known = passes.known()
    if not words:
        if not known:
            raise Refusal(
                f"--what passes: {passes.MODULE} is not there; --passes scalar compares with "
                "HAULAGE_CPU_THREADS=scalar"
            )
        return known
    every = known | passes.WAYS
    wanted = words.split(",")
    for name in wanted:
        if name not in every:
            raise Refusal(f"--passes: {name} is none; known are {', '.join(every)}")
    return {name: every[name] for name in wanted}


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    if sys.stderr.isatty():
        columns = (TextColumn("{task.description:<40}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task("")
            yield lambda name, done, of: bar.update(
                task, description=name, completed=done, total=of
            )
        return
    began = told = time.monotonic()

    def say(name: str, done: int, of: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told > _EVERY and done:
            told = now
            left = (now - began) / done * (of - done)
            print(f"{done} of {of}, about {left / 60:.0f} min left: {name}", file=sys.stderr)

    yield say
