"""What the benchmarks work out: the inputs, NumPy's answer, and how much work it is.

NumPy only, so that peers in environments of their own use the same problems. Every input is made
from a fixed seed. Results are float32 unless they are counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from haulage.cli import rounding
from haulage.cli.bench import bounds, formulas
from haulage.cli.rounding import Agreement

Array = NDArray[Any]
Inputs = Mapping[str, Array]
LAUNCH_ARRAYS = (0, 1, 3, 8)


@dataclass(frozen=True)
class Problem:
    """One thing to work out.

    `inputs` makes the arrays of a size and `expected` NumPy's answer. `allowed` tells from both
    how far each element of a right result may be from that. `flops` and `nbytes` are the least
    work of a size: operations, and bytes that must move.
    """

    name: str
    title: str
    size: int
    small: int
    inputs: Callable[[int], dict[str, Array]]
    expected: Callable[[Inputs], Array]
    allowed: Callable[[Inputs, Array], Array] = bounds.exact
    flops: Callable[[int], float] | None = None
    nbytes: Callable[[int], float] | None = None

    def compare(self, result: Array, inputs: Inputs, expected: Array) -> Agreement:
        """The element of `result` that is worst for its bound.

        Raises:
            ValueError: the shapes differ.
        """
        try:
            return rounding.compare(result, expected, self.allowed(inputs, expected))
        except ValueError as wrong:
            raise ValueError(f"{self.name}: {wrong}") from wrong


def _random(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(shape, np.float32)


def _ones_and_twos(n: int) -> dict[str, Array]:
    """Whole numbers, of which all sums are exact in float32 for up to 10^7 of them: a bound for
    the roundings of so many terms would hide a missing one."""
    return {"x": 1 + (_random(n) < 0.5).astype(np.float32)}


def _two(n: int) -> dict[str, Array]:
    return {"x": _random(n, seed=1), "y": _random(n, seed=2)}


def _matrices(n: int) -> dict[str, Array]:
    return {"a": _random(n, n, seed=1), "b": _random(n, n, seed=2)}


def _options(n: int) -> dict[str, Array]:
    return {
        "price": 5 + 25 * _random(n, seed=1),
        "strike": 1 + 99 * _random(n, seed=2),
        "years": np.float32(0.25) + np.float32(9.75) * _random(n, seed=3),
    }


def _plane(n: int) -> dict[str, Array]:
    return {
        "real": np.linspace(-2, 1, n, dtype=np.float32),
        "imaginary": np.linspace(-1.5, 1.5, n, dtype=np.float32),
    }


def _bytes(n: int) -> dict[str, Array]:
    return {"data": np.random.default_rng(1).integers(0, 256, n, np.uint8)}


def _sums_of_256(given: Inputs) -> Array:
    return given["x"].reshape(-1, 256).sum(axis=1, dtype=np.float64).astype(np.float32)


def _counts(given: Inputs) -> Array:
    return np.bincount(given["data"], minlength=256).astype(np.int32)


def _product(given: Inputs) -> Array:
    result: Array = given["a"] @ given["b"]
    return result


def _matmul(name: str, title: str, n: int) -> Problem:
    return Problem(
        name,
        title,
        n,
        32,
        _matrices,
        _product,
        bounds.product,
        flops=lambda n: 2.0 * n**3,
        nbytes=lambda n: 12.0 * n * n,
    )


def _histogram(name: str, title: str) -> Problem:
    return Problem(name, title, 1 << 24, 1 << 12, _bytes, _counts, nbytes=float)


def _reduction(name: str, title: str) -> Problem:
    return Problem(
        name,
        title,
        1 << 24,
        1 << 10,
        lambda n: {"x": _random(n)},
        _sums_of_256,
        bounds.sums_of_256,
        flops=float,
        nbytes=lambda n: 4.0 * n,
    )


def _launch(arrays: int) -> Problem:
    return Problem(
        f"launch-{arrays}",
        f"an empty launch with {arrays} array{'s' * (arrays != 1)}, and the wait for it",
        1,
        1,
        lambda n: {f"x{k}": np.zeros(32, np.float32) for k in range(arrays)},
        lambda given: np.zeros(0, np.float32),
    )


def _copy(name: str, title: str, megabytes: int) -> Problem:
    return Problem(
        name,
        title,
        megabytes * 1_000_000,
        1000,
        lambda n: {"x": np.resize(np.arange(251, dtype=np.uint8), n)},
        lambda given: given["x"],
        nbytes=lambda n: 2.0 * n,
    )


PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem(
            "saxpy",
            "saxpy, 2^24",
            1 << 24,
            1000,
            _two,
            lambda given: np.float32(2.5) * given["x"] + given["y"],
            bounds.saxpy,
            flops=lambda n: 2.0 * n,
            nbytes=lambda n: 12.0 * n,
        ),
        Problem(
            "stencil",
            "5-point stencil, 4096 x 4096",
            4096,
            70,
            lambda n: {"u": _random(n, n)},
            formulas.stencil,
            bounds.stencil,
            flops=lambda n: 6.0 * n * n,
            nbytes=lambda n: 8.0 * n * n,
        ),
        _matmul("matmul-512", "matrix product 512, 16 x 16 shared tiles", 512),
        _matmul("matmul-1024", "matrix product 1024, 16 x 16 shared tiles", 1024),
        _matmul("matmul-naive", "matrix product 1024, naive", 1024),
        _reduction("reduce-tree", "block reduction by a shared tree, 2^24"),
        _reduction("reduce-warp", "block reduction by warp shuffles, 2^24"),
        _histogram("histogram-shared", "histogram of 2^24 bytes, privatised in shared memory"),
        _histogram("histogram-global", "histogram of 2^24 bytes, global atomics"),
        Problem(
            "black-scholes",
            "Black-Scholes, 2^22 options",
            1 << 22,
            1000,
            _options,
            formulas.black_scholes,
            bounds.black_scholes,
            nbytes=lambda n: 20.0 * n,
        ),
        Problem(
            "mandelbrot",
            "Mandelbrot set, 1024 x 1024, 200 iterations",
            1024,
            48,
            _plane,
            formulas.mandelbrot,
            bounds.mandelbrot,
        ),
        Problem(
            "nbody",
            "n-body forces, 4096 bodies, shared tiles",
            4096,
            512,
            lambda n: {"bodies": _random(n, 4)},
            formulas.forces,
            bounds.forces,
            flops=lambda n: 20.0 * n * n,
        ),
        Problem(
            "scan",
            "block scan (Blelloch) of 512 elements, 2^22",
            1 << 22,
            1 << 11,
            lambda n: {"x": _random(n)},
            formulas.scan,
            bounds.scan,
            flops=float,
            nbytes=lambda n: 8.0 * n,
        ),
        Problem(
            "transpose",
            "transpose through a shared tile, 4096 x 4096",
            4096,
            64,
            lambda n: {"a": _random(n, n)},
            lambda given: given["a"].T,
            nbytes=lambda n: 8.0 * n * n,
        ),
        *(_launch(arrays) for arrays in LAUNCH_ARRAYS),
        _copy("copy-in-64", "copy of 64 MB to the device, pinned", 64),
        _copy("copy-out-64", "copy of 64 MB to the host, pinned", 64),
        _copy("copy-in-256", "copy of 256 MB to the device", 256),
        _copy("copy-out-256", "copy of 256 MB to the host", 256),
        Problem(
            "reduce-float32",
            "sum of 10^7 float32 by cuda.reduce",
            10_000_000,
            1000,
            _ones_and_twos,
            lambda given: given["x"].sum(dtype=np.float64, keepdims=True).astype(np.float32),
            nbytes=lambda n: 4.0 * n,
        ),
        Problem(
            "reduce-float64",
            "sum of 10^7 float64 by cuda.reduce",
            10_000_000,
            1000,
            lambda n: {"x": _ones_and_twos(n)["x"].astype(np.float64)},
            lambda given: given["x"].sum(dtype=np.float64, keepdims=True),
            nbytes=lambda n: 8.0 * n,
        ),
        Problem(
            "random-states",
            "states of a million random generators",
            1_000_000,
            1000,
            lambda n: {"count": np.array([n])},
            formulas.first_states,
            nbytes=lambda n: 16.0 * n,
        ),
        Problem(
            "random-draw",
            "2^24 random float32, 4096 generators",
            4096,
            256,
            lambda n: {"count": np.array([n])},
            lambda given: np.full(int(given["count"][0]) + formulas.GENERATORS, 0.5),
            bounds.means,
            nbytes=lambda n: 4.0 * n * formulas.GENERATORS,
        ),
    )
}
