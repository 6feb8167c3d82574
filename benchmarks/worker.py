"""One runtime in a process of its own, which is told over a pipe what to do: `turns.py` tells it.

It holds the data of one case and answers each line of JSON with one. Started as
`python -m benchmarks.worker MODULE`, in the environment of the peer.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from time import perf_counter

import numpy as np

from haulage.cli.bench import statistics
from haulage.cli.bench.problems import PROBLEMS


class Worker:
    """The module of one peer, and the case that it holds."""

    def __init__(self, module):
        self.module = importlib.import_module(module)
        self.run = self.result = None

    def about(self):
        """What the peer says of itself."""
        return self.module.about()

    def cases(self):
        """The names of the cases that the peer has."""
        return list(self.module.setups())

    def setup(self, case, small):
        """Make the data of a case and run it once: milliseconds, with what was compiled for it."""
        self.run = self.result = None
        problem = PROBLEMS[case]
        inputs = problem.inputs(problem.small if small else problem.size)
        return self._first(self.module, case, inputs)

    def anew(self, case):
        """Forget what was compiled, then run a small case: milliseconds of that."""
        problem = PROBLEMS[case]
        inputs = problem.inputs(problem.small)
        inside = self.module.__name__ + "."
        for name in [name for name in sys.modules if name.startswith(inside)]:
            importlib.reload(sys.modules[name])
        self.module = importlib.reload(self.module)
        return self._first(self.module, case, inputs)

    def limits(self):
        """What `benchmarks.limits` measures."""
        return self.module.limits()

    def statements(self, parts=False):
        """The names of the allocations that the peer has, or of the parts of one."""
        return list(self.module.parts() if parts else self.module.allocations())

    def statement(self, name):
        """Nanoseconds of one of them."""
        from benchmarks.memory.allocations import nanoseconds

        statement = self.module.allocations().get(name) or self.module.parts()[name]
        return nanoseconds(statement, self.module.NAMES)

    def _first(self, module, case, inputs):
        made = module.setups()[case]
        began = perf_counter()
        self.run, self.result = made(inputs)
        self.run()
        return (perf_counter() - began) * 1e3

    def turn(self, seconds):
        """Milliseconds of a call."""
        return statistics.turn(self.run, seconds)

    def save(self, path):
        """Write the result to a file."""
        np.save(Path(path), np.ascontiguousarray(self.result()))

    def drop(self):
        """Let go of the data."""
        self.run = self.result = None


def main(module, make=Worker):
    """Answer until the pipe is closed, by the methods of what `make(module)` gives."""
    # What a library prints must not come between the answers.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        worker = None
        for line in sys.stdin:
            question = json.loads(line)
            try:
                if worker is None:
                    worker = make(module)
                answer = {"answer": getattr(worker, question.pop("do"))(**question)}
            except Exception as error:
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
