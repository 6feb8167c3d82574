"""What the kernels are given, and whether what they made is right: whole numbers, so that sums in
float32 are exact in any order."""

from collections.abc import Callable
from typing import Any

import numpy as np

from haulage.cli.rounding import Agreement, compare, sum_bound

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
    # One in nine is 1, so that the sum of 2^27 is less than 2^24.
    "reduction": lambda n: ((_whole(9, n) == 0).astype(np.float32),),
    "stencil": lambda n: (_whole(1000, n, n),),
    "matmul": lambda n: (_whole(4, n, n), _whole(3, n, n)),
}


def _saxpy(out: Any, x: Any, y: Any) -> Agreement:
    return compare(out, FACTOR * x + y, 0)


def _transpose(out: Any, x: Any) -> Agreement:
    return compare(out, x.T, 0)


def _reduction(sums: Any, x: Any) -> Agreement:
    return compare(sums.sum(dtype=np.float64), x.sum(dtype=np.float64), 0)


def _stencil(out: Any, u: Any) -> Agreement:
    middle = u[1:-1, 1:-1]
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    # Whole numbers but for WEIGHT: a difference, a product and a sum on both sides.
    allowed = sum_bound(6, middle + WEIGHT * (around + 4 * middle), np.float32)
    return compare(out[1:-1, 1:-1], middle + WEIGHT * (around - 4 * middle), allowed)


def _matmul(out: Any, a: Any, b: Any) -> Agreement:
    # As products with a vector: a whole one would take the processor long.
    vector = np.arange(1, 1 + len(b)) % 17.0
    return compare(out @ vector, a @ (b @ vector), 0)


_AGREEMENTS: dict[str, Callable[..., Agreement]] = {
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
    agreement = _AGREEMENTS[name](result, *inputs)
    if not agreement.right:
        raise Wrong(f"its result of {name} is wrong: {agreement}: {result}")
