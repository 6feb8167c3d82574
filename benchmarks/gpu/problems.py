"""What the kernels are given, and whether what they made is right: whole numbers, so that sums in
float32 are exact in any order."""

from collections.abc import Callable
from typing import Any

import numpy as np

FACTOR = 2
WEIGHT = np.float32(0.1)


class Wrong(AssertionError):
    """A package's result is not that of the problem."""


def _whole(below: int, *shape: int) -> Any:
    count = int(np.prod(shape))
    return (np.arange(count, dtype=np.uint32) * np.uint32(2654435761) >> 16).astype(
        np.float32
    ).reshape(shape) % np.float32(below)


INPUTS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "saxpy": lambda n: (_whole(1000, n), _whole(777, n)),
    "transpose": lambda n: (_whole(1000, n, n),),
    "reduction": lambda n: (_whole(8, n),),
    "stencil": lambda n: (_whole(1000, n, n),),
    "matmul": lambda n: (_whole(4, n, n), _whole(3, n, n)),
}


def _saxpy(out: Any, x: Any, y: Any) -> bool:
    return bool((out == FACTOR * x + y).all())


def _transpose(out: Any, x: Any) -> bool:
    return bool((out == x.T).all())


def _reduction(sums: Any, x: Any) -> bool:
    total = x.sum(dtype=np.float64)
    return bool(abs(sums.sum(dtype=np.float64) - total) <= 1e-6 * total)


def _stencil(out: Any, u: Any) -> bool:
    middle = u[1:-1, 1:-1]
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return np.allclose(out[1:-1, 1:-1], middle + WEIGHT * (around - 4 * middle), atol=1e-2)


def _matmul(out: Any, a: Any, b: Any) -> bool:
    # As products with a vector: a whole one would take the processor long.
    vector = np.arange(1, 1 + len(b)) % 17.0
    return np.allclose(out @ vector, a @ (b @ vector))


_IS_RIGHT: dict[str, Callable[..., bool]] = {
    "saxpy": _saxpy,
    "transpose": _transpose,
    "reduction": _reduction,
    "stencil": _stencil,
    "matmul": _matmul,
}


def check(name: str, result: Any, inputs: tuple[Any, ...]) -> None:
    """Compare what a kernel made, as a NumPy array, with what it should make.

    Raises:
        Wrong: it is something else.
    """
    if not _IS_RIGHT[name](result, *inputs):
        raise Wrong(f"its result of {name} is wrong: {result}")
