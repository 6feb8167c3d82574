"""Run the cases by turns with NumPy and print medians: `python -m benchmarks --help`."""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import haulage
from benchmarks.cases import CASES, Case

_LINE = "{:<22} {:>12} {:>12} {:>9}  {}"


def measure(case: Case, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds a call, of Haulage's and of NumPy's (empty where there is none); by turns, so
    that a machine that slows down does so for both. The first call of each is not counted."""
    ours: list[float] = []
    numpys: list[float] = []
    for turn in range(rounds + 1):
        mine = _milliseconds(case.ours) / case.calls
        theirs = _milliseconds(case.numpys) / case.calls if case.numpys else None
        if turn > 0:
            ours.append(mine)
            if theirs is not None:
                numpys.append(theirs)
    return ours, numpys


def _milliseconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def checked(case: Case) -> tuple[bool, str]:
    """Whether the last result is right, and in words."""
    if case.error is None:
        return True, "no result to check"
    error = case.error()
    right = error <= case.tolerance
    return right, f"{'ok' if right else 'WRONG'}: {error:.1e} <= {case.tolerance:.0e}"


def main() -> int:
    """Print the table; returns 1 if a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", help="cpu, nvidia, amd, or one with a number (default: best)")
    parser.add_argument("--rounds", type=int, default=15, help="calls of each (default: 15)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    chosen = parser.parse_args()
    if chosen.device:
        haulage.use(chosen.device)
    device = haulage.cuda.get_current_device()
    print(f"{device}: {device.name}; numpy {np.__version__}; medians of {chosen.rounds} rounds")
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5:
        # BLAS threads that spin for a core taken by others are slower by a factor of ten.
        print(f"note: other work was running (load {os.getloadavg()[0]:.1f}); do not compare")
    print(_LINE.format("case", "ms", "NumPy's ms", "ratio", "checked"))
    all_right = True
    for make in CASES:
        case = make()
        if chosen.only not in case.name:
            continue
        ours, numpys = measure(case, chosen.rounds)
        right, verdict = checked(case)
        all_right &= right
        mine = statistics.median(ours)
        theirs = statistics.median(numpys) if numpys else None
        print(
            _LINE.format(
                case.name,
                f"{mine:.4f}",
                "-" if theirs is None else f"{theirs:.4f}",
                "-" if theirs is None else f"{mine / theirs:.2f}",
                verdict,
            ),
            flush=True,
        )
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
