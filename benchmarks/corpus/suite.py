"""The kernels of the benchmarks' own suite, by reference: `haulage.cli.bench`."""

from dataclasses import dataclass, field
from typing import Any

from benchmarks.corpus.program import PROGRAMS, Made, Program
from haulage.cli.bench.kernels import blocks, elementwise, histograms, matrices, setups
from haulage.cli.bench.problems import PROBLEMS

# The kernel of a case, and the size that it has here.
_CASES = {
    "saxpy": (elementwise.saxpy, 1 << 22),
    "stencil": (elementwise.stencil, 2048),
    "black-scholes": (elementwise.black_scholes, 1 << 20),
    "mandelbrot": (elementwise.mandelbrot, 512),
    "matmul-512": (matrices.matmul, 512),
    "matmul-naive": (matrices.matmul_naive, 512),
    "transpose": (matrices.transpose, 2048),
    "nbody": (matrices.nbody, 2048),
    "reduce-tree": (blocks.reduce_tree, 1 << 22),
    "reduce-warp": (blocks.reduce_warp, 1 << 22),
    "scan": (blocks.scan, 1 << 20),
    "histogram-shared": (histograms.histogram_shared, 1 << 21),
    "histogram-global": (histograms.histogram_global, 1 << 21),
}


class Running:
    """A case of the suite with its data, by the setup of one runtime."""

    def __init__(self, setup: Any, case: str, size: int, kernels: list[Any]) -> None:
        self._problem = PROBLEMS[case]
        self._inputs = self._problem.inputs(size)
        self.run, self._result = setup(self._inputs)
        self._kernels = kernels

    def kernels(self) -> list[Any]:
        """The kernel of the case."""
        return self._kernels

    def disagreement(self) -> str | None:
        """What is wrong with the result after a run; None if nothing is."""
        expected = self._problem.expected(self._inputs)
        told = self._problem.compare(self._result(), self._inputs, expected)
        right = told.error <= told.allowed
        return None if right else f"its error is {told.error:.3g}, at most {told.allowed:.3g}"


@dataclass(frozen=True)
class SuiteProgram(Program):
    """A case of the suite."""

    case: str = ""
    kernels: list[Any] = field(default_factory=list)

    def on_device(self, small: bool = False) -> Any:
        """The case with its data on the current device."""
        return Running(setups()[self.case], self.case, self._size(small), self.kernels)

    def as_loops(self, small: bool = False) -> Any:
        """The loops by hand that the suite is compared with."""
        from benchmarks.peers import njit

        made = njit.setups().get(self.case)
        return Running(made, self.case, self._size(small), []) if made else None

    def _size(self, small: bool) -> int:
        return self.small if small else self.size


def _not_made(size: int, rng: Any) -> Made:
    raise TypeError("cases of the suite have setups of their own")


for _case, (_kernel, _size) in _CASES.items():
    PROGRAMS[f"suite-{_case}"] = SuiteProgram(
        f"suite-{_case}",
        "suite",
        _size,
        PROBLEMS[_case].small,
        _not_made,
        case=_case,
        kernels=[_kernel],
    )
