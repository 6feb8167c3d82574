"""A process that holds one program of the corpus at a time: `measuring.py` tells it what to do.

Started as `python -m benchmarks.corpus.worker haulage` or `... njit`; which passes it compiles
with, its environment says.
"""

import hashlib
import signal
import sys
import time

from benchmarks.corpus import programs
from benchmarks.worker import main
from haulage.cli.bench import statistics

# Seconds after which a compilation or a run is taken for one that never ends.
PATIENCE = 180


class Worker:
    """The programs, for Haulage or for loops of Numba's `njit`."""

    def __init__(self, side):
        self.programs = programs()
        self.ours = side == "haulage"
        self.running = None

    def about(self):
        """The versions."""
        if self.ours:
            from haulage.cli.bench.kernels import about
        else:
            from benchmarks.peers.njit import about
        return about()

    def compile(self, case):
        """Compile a program and run it at its small size.

        Returns {"ms": of this thread for that, "code": a hash of the object code, "wrong": what is
        wrong with the results or None}.
        """
        _give_up_after(PATIENCE)
        running = self.programs[case].on_device(small=True)
        began = time.thread_time()
        running.run()
        first = time.thread_time()
        running.run()
        took = 2 * first - began - time.thread_time()
        _give_up_after(0)
        return {
            "ms": round(1e3 * max(took, 0.0), 2),
            "code": _code(running.kernels()),
            "wrong": running.disagreement(),
        }

    def setup(self, case, small):
        """Make the data of a program and run it once: {"wrong": ...}, or None if there is no such
        program for this side. Results are looked at where that is cheap."""
        _give_up_after(PATIENCE)
        program = self.programs[case]
        self.running = program.on_device(small) if self.ours else program.as_loops(small)
        if self.running is None:
            _give_up_after(0)
            return None
        self.running.run()
        _give_up_after(0)
        told = {"wrong": self.running.disagreement() if small or program.cheap else None}
        if self.ours:
            told["block"] = _shapes(self.running)
        return told

    def turn(self, seconds):
        """Milliseconds of a run."""
        return statistics.turn(self.running.run, seconds)

    def drop(self):
        """Let go of the data."""
        self.running = None


def _give_up_after(seconds):
    """The signal ends the process, whose last words the one that started it then tells."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _code(kernels):
    """A hash of the object code of the kernels, for all that they were launched with here."""
    found = hashlib.sha256()
    for kernel in kernels:
        for overload in kernel.overloads.values():
            for loaded in overload.loaded.values():
                found.update(loaded.code.code)
    return found.hexdigest()[:16]


def _shapes(running):
    """Grid and block of the first launch, as text."""
    made = getattr(running, "made", None)
    if made is None:
        return ""
    launch = made.launches[0]
    return f"{launch.grid} x {launch.block}"


if __name__ == "__main__":
    main(sys.argv[1], Worker)
