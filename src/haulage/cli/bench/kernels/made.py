"""How the kernels of the benchmarks are made."""

from collections.abc import Callable
from typing import Any

from haulage import cuda
from haulage.cli.bench import caching


def jit(function: Callable[..., None]) -> Any:
    """`cuda.jit`, with code that is kept on disk if `caching.CACHE` says so."""
    return cuda.jit(function, cache=caching.CACHE)
