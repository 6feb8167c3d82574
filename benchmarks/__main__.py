"""Haulage's kernels by turns with other runtimes: `python -m benchmarks --help`."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks import compiling, environments, machine, memory, outcomes, smart, tables, turns
from benchmarks.contestants import Contestant, Unable, close
from benchmarks.peers import HAULAGE, MACHINE, PEERS, Peer
from haulage.cli.bench import chosen_names
from haulage.cli.bench.problems import PROBLEMS
from haulage.cli.refusal import Refusal

# What `lib/` compiles is kept there, and copies compile nothing.
COMPILED = [name for name in PROBLEMS if not name.startswith(("copy", "reduce-float", "random"))]

_WITHOUT_CASES = ("limits", "memory", "smart")

_EXAMPLES = """\
examples:
  python -m benchmarks scan --peers njit,numpy --rounds 7     one case, quickly
  python -m benchmarks scan transpose --peers none            Haulage alone
  python -m benchmarks peers --make                           install the other runtimes
  python -m benchmarks --into run.json                        everything, kept
  python -m benchmarks scan --what compile --rounds 5         how long compiling takes
  python -m benchmarks --what memory                          allocations, fragmentation
  python -m benchmarks --what smart                           SmartArrays
  python -m benchmarks --what corpus --peers njit             many kernels beside plain loops
  python -m benchmarks --what passes --into passes.json       them without each of the passes
  python -m benchmarks --what checks                          what haulage check costs
  python -m benchmarks page                                   docs/performance.md drawn anew
"""


def main() -> int:
    """Returns 0; 1 if a result of Haulage's is wrong; 2 if what was asked cannot be done."""
    if sys.argv[1:2] == ["peers"]:
        return _peers(sys.argv[2:])
    if sys.argv[1:2] == ["page"]:
        return _page(sys.argv[2:])
    try:
        return _run(_parser().parse_args())
    except Refusal as no:
        print(f"benchmarks: {no}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("benchmarks: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Haulage's kernels by turns with other runtimes, each in a process of its "
        "own; medians, and an interval for each ratio (theirs over ours: above 1 Haulage is "
        "faster). A bar is a peer that runs the same algorithm with the same synchronisation; a "
        "limit solves the problem another way. Every result is compared with NumPy's.",
        epilog=_EXAMPLES + f"\ncases: {', '.join(PROBLEMS)}\npeers: {', '.join(PEERS)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="CASE", help="cases, or parts of their names (default: all)")
    add("--only", default="", metavar="CASES", help="the same, with commas")
    add("--peers", default="all", metavar="P,P", help="peers by name; all (the default) or none")
    add("--rounds", type=int, metavar="N", help="rounds (default: 15; of the corpus 9)")
    add("--slow", type=float, default=20.0, metavar="S", help="seconds that one runtime's turns "
        "in a case may take; a slower one sits some rounds out (default: 20)")  # fmt: skip
    add("--what", choices=("run", "compile", "start", "memory", "smart", "limits",
        "corpus", "passes", "checks"), default="run",
        help="time compiled kernels (the default), compiling them, fresh processes up to their "
        "first result, or only allocations and fragmentation, or SmartArrays, or the machine's "
        "limits, which a run of all cases measures too; or a corpus of other kernels, alone or "
        "beside loops for njit (--peers njit), or with each pass of the CPU compiler left out, or "
        "with haulage check (default: those of the suite); "
        "their cases are kernels or groups of benchmarks/corpus")  # fmt: skip
    add("--passes", default="", metavar="P,P", help="passes to leave out, one at a time (default: "
        "all that there are)")  # fmt: skip
    add("--threads", type=int, metavar="N", help="threads of both sides; with 1 a busy machine "
        "disturbs the least (default: all cores)")  # fmt: skip
    add("--small", action="store_true", help="tiny sizes: to see whether everything works")
    add("--device", metavar="D", help="Haulage's device (default: HAULAGE_DEVICE, else the best)")
    add("--into", type=Path, metavar="FILE", help="add what is measured to a file of JSON")
    add("--json", action="store_true", help="print JSON instead of a table")
    return parser


def _run(chosen: argparse.Namespace) -> int:
    words = [*chosen.names, *filter(None, chosen.only.split(","))]
    of_corpus = chosen.what in ("corpus", "passes", "checks")
    if chosen.rounds is None:
        chosen.rounds = 9 if of_corpus else 15
    if chosen.threads is not None:
        threads = str(chosen.threads)
        os.environ.update(HAULAGE_NUM_THREADS=threads, NUMBA_NUM_THREADS=threads)
    if of_corpus:
        from benchmarks.corpus import command

        return command.run(chosen, words)
    names = chosen_names(words, list(PROBLEMS))
    if words and chosen.what in _WITHOUT_CASES:
        raise Refusal(f"--what {chosen.what} has no cases; leave {' '.join(words)} out")
    if chosen.rounds < 1:
        raise Refusal(f"--rounds: expected a number above 0, not {chosen.rounds}")
    if chosen.device:
        os.environ["HAULAGE_DEVICE"] = chosen.device
    wanted = _wanted(chosen.peers, chosen.small)
    measured = outcomes.empty()
    measured["machine"] = machine.facts()
    everything = chosen.what == "run" and not words and not chosen.small
    with _progress() as say:
        if chosen.what == "limits" or everything:
            say("the machine's limits")
            measured["machine"]["limits"] = _limits()
        if chosen.what == "memory" or everything:
            measured["memory"] = memory.measure(chosen.rounds, [peer.name for peer in wanted], say)
        if chosen.what == "smart" or everything:
            measured["smart"] = smart.measure(chosen.rounds, chosen.small, say)
        if chosen.what == "start":
            cached = [peer for peer in wanted if peer.name == "njit"]
            names = [name for name in names if name in COMPILED]
            measured["start"] = compiling.starts(names, cached, chosen.rounds, say)
        elif chosen.what not in _WITHOUT_CASES:
            _with_contestants(chosen, [HAULAGE, *wanted], names, measured, say)
    if chosen.json:
        print(json.dumps(measured, indent=1))
    else:
        tables.print_run(measured)
    _keep(measured, chosen.into)
    return 1 if tables.any_wrong(measured) else 0


def _with_contestants(
    chosen: argparse.Namespace,
    peers: list[Peer],
    names: list[str],
    measured: outcomes.Run,
    say: Callable[[str], None],
) -> None:
    """Measure with one process for each runtime, all of them alive for the whole run."""
    contestants: dict[str, Contestant] = {}
    try:
        say("the runtimes start")
        for peer in peers:
            try:
                contestants[peer.name] = Contestant(peer)
            except Unable as no:
                measured["peers"][peer.name] = {"skipped": str(no)}
        for name, contestant in list(contestants.items()):
            try:
                measured["peers"][name] = {"about": contestant.ask("about")}
            except Unable as no:
                if contestant.peer is HAULAGE:
                    raise Refusal(f"Haulage cannot run: {no}") from no
                measured["peers"][name] = {"skipped": str(no)}
                contestants.pop(name).close()
        if chosen.what == "compile":
            names = [name for name in names if name in COMPILED]
            measured["compile"] = compiling.times(names, contestants, chosen.rounds, say)
            return
        for name in names:
            outcome = turns.case(
                PROBLEMS[name], contestants, chosen.rounds, chosen.small, chosen.slow, say
            )
            outcomes.add_case(measured, name, outcome, "small" if chosen.small else "cases")
            # An interrupted run keeps what it has.
            _keep(measured, chosen.into)
    finally:
        close(contestants.values())


def _limits() -> dict[str, float]:
    contestant = Contestant(MACHINE)
    try:
        limits: dict[str, float] = contestant.ask("limits")
    finally:
        contestant.close()
    return limits


def _keep(measured: outcomes.Run, path: Path | None) -> None:
    """Put what was measured into a file that may hold other cases and other peers."""
    if path is not None:
        kept = outcomes.read(path) if path.exists() else outcomes.empty()
        outcomes.merge(kept, measured)
        outcomes.write(kept, path)


def _wanted(words: str, small: bool) -> list[Peer]:
    if words == "none":
        return []
    if words == "all":
        # The simulator takes hours for what others do in milliseconds.
        return [peer for peer in PEERS.values() if small or not peer.small]
    names = words.split(",")
    for name in names:
        if name not in PEERS:
            raise Refusal(f"--peers: {name} is none; known are {', '.join(PEERS)}, all and none")
        if PEERS[name].small and not small:
            raise Refusal(f"--peers: {name} can do tiny sizes only: add --small")
    return [PEERS[name] for name in names]


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    if sys.stderr.isatty():
        with Console(stderr=True).status("") as status:
            yield status.update
    else:
        yield lambda text: None


def _page(arguments: list[str]) -> int:
    argparse.ArgumentParser(
        prog="python -m benchmarks page",
        description="Write docs/performance.md and its picture anew, from benchmarks/results.json "
        "and benchmarks/remarks.json. The picture needs Matplotlib.",
    ).parse_args(arguments)
    from benchmarks import page

    for path in page.draw():
        print(f"written: {path}")
    return 0


def _peers(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers")
    parser.add_argument("names", nargs="*", metavar="ENVIRONMENT", help="default: all of them")
    parser.add_argument("--make", action="store_true", help="install them, each below .peers")
    chosen = parser.parse_args(arguments)
    for name in chosen.names or environments.PACKAGES:
        if name not in environments.PACKAGES:
            known = ", ".join(environments.PACKAGES)
            print(f"benchmarks: no environment {name}; known are {known}", file=sys.stderr)
            return 2
        if chosen.make:
            print(f"{name}: installing {', '.join(environments.PACKAGES[name])}", flush=True)
            environments.make(name)
        reason = next(
            environments.missing(peer) for peer in PEERS.values() if peer.environment == name
        )
        print(f"{name}: {reason or 'ready'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
