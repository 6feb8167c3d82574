"""The process that uses SmartArrays and what they are compared with: `benchmarks.smart` asks it."""

import importlib.util
import sys
from time import perf_counter

import numba
import numpy as np

import haulage
from benchmarks import worker
from benchmarks.environments import ROOT
from benchmarks.memory.allocations import Statement, nanoseconds
from benchmarks.smart.cases import APART, PROGRAMS, USES
from haulage import cuda
from haulage.runtime.process import runtime

LOOPS, LOOP_SECONDS = 15, 0.001


@cuda.jit
def _one(a):
    a[0] += 1


@cuda.jit
def _two(a, b):
    a[0] += b[0]


@cuda.jit
def _four(a, b, c, d):
    a[0] += b[0]
    c[0] += d[0]


@numba.njit
def _compiled(x):
    x[0] += 1


class Worker:
    """Arrays of each kind, and the example; `apart`: as on a device with memory of its own."""

    def __init__(self, apart):
        # Kernels that have used host arrays in place go on to.
        runtime.current.apart = apart == APART
        self._names = {
            "a": _one[1, 1],
            "ab": _two[1, 1],
            "abcd": _four[1, 1],
            "compiled": _compiled,
            "asarray": np.asarray,
        }
        for name in "abcd":
            self._names["s" + name] = haulage.SmartArray(np.zeros(1000))
            self._names["d" + name] = cuda.to_device(np.zeros(1000))
            self._names["h" + name] = np.zeros(1000)
        self._example = None

    def use(self, name, kind):
        """Nanoseconds of a statement: in the shortest of some loops, which nothing came between."""
        statement = Statement(USES[name].statements[kind])
        return min(nanoseconds(statement, self._names, LOOP_SECONDS) for _ in range(LOOPS))

    def jacobi(self, name, sizes):
        """Seconds, copies and bytes of one of the example's programs.

        Before the first one, all are run with little to do, so that nothing is compiled any more.
        """
        if self._example is None:
            self._example = _example()
            for each in PROGRAMS:
                self._run(each, 32, 20, 5)
        return self._run(name, *sizes)

    def _run(self, name, size, steps, every):
        program = getattr(self._example, PROGRAMS[name].function)
        start = self._example.plate(size)
        with haulage.transfers() as copies:
            began = perf_counter()
            program(start, steps, every)
            took = perf_counter() - began
        return {"seconds": round(took, 4), "copies": copies.count(), "nbytes": copies.nbytes}


def _example():
    spec = importlib.util.spec_from_file_location("jacobi", ROOT / "examples" / "jacobi.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    worker.main(sys.argv[1], Worker)
