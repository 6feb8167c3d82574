"""Let every call of the driver fail, in programs that use memory in every way, and count.

    python scripts/inject_failures.py [PROGRAM ...]

Each program runs once for each call that it makes, on the CPU device and on one whose memory is
apart from the host's, with and without pools; also with Ctrl-C in each wait, and with no more
memory from each call for some on. Ends with 1 if anything was lost, leaked or given back twice.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from doubles.injection import WAITS, Injection, Outcome
from doubles.programs import PROGRAMS
from doubles.watched import BACKENDS, SHORTAGES, interrupt, watched_device


def main(chosen: list[str]) -> int:
    """Run the programs; 0 if no failure did any harm."""
    unknown = [name for name in chosen if name not in PROGRAMS]
    if unknown:
        print(f"no program {unknown[0]!r}; there are {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    names = chosen or list(PROGRAMS)
    failing = _run_all(names, lambda injection, name: injection.run(PROGRAMS[name]))
    _tell("calls that failed", failing)
    interrupted = _run_all(
        names, lambda injection, name: injection.run(PROGRAMS[name], interrupt, WAITS)
    )
    _tell("waits with Ctrl-C", interrupted)
    full = _run_all(
        names,
        lambda injection, name: injection.run(PROGRAMS[name], methods=SHORTAGES, for_good=True),
    )
    _tell("calls for memory from which on there is no more", full)
    print(f"\n{'method':20} {'tried':>6} {'survived':>9}")
    for method, tried in failing.tried.most_common():
        print(f"{method:20} {tried:6} {failing.survived[method]:9}")
    faults = failing.faults + interrupted.faults + full.faults
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _run_all(names: list[str], run: Callable[[Injection, str], Outcome]) -> Outcome:
    total = Outcome()
    for kind in BACKENDS:
        for mode in ("pool", "driver"):
            os.environ["HAULAGE_MEMORY"] = mode
            with watched_device(kind) as device:
                injection = Injection(device)
                for name in names:
                    total.add(run(injection, name))
    return total


def _tell(what: str, outcome: Outcome) -> None:
    tried, survived = outcome.tried.total(), outcome.survived.total()
    print(
        f"{what}: {tried} tried, {survived} survived, {tried - survived} told to the program; "
        f"lost {len(outcome.lost)}, leaked {len(outcome.leaked)}, "
        f"given back twice or too early {len(outcome.violated)}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
