"""How the kernels of the benchmarks are made: `CACHE` is set before they are imported."""

from collections.abc import Callable
from typing import Any

from haulage import cuda

CACHE = False


def jit(function: Callable[..., None]) -> Any:
    """`cuda.jit`, with code that is kept on disk if `CACHE` says so."""
    return cuda.jit(function, cache=CACHE)
