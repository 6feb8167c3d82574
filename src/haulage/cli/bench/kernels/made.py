"""How the kernels of the benchmarks are made."""

from collections.abc import Callable
from typing import Any

import numpy as np

from haulage import cuda
from haulage.cli.bench import caching


def jit(function: Callable[..., None]) -> Any:
    """`cuda.jit`, with code that is kept on disk if `caching.CACHE` says so."""
    return cuda.jit(function, cache=caching.CACHE)


def unset(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """An array on the device for results, of values that are none: memory that is used again may
    hold the right ones, which would hide that a kernel leaves some out."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8).fill(0xFF)  # not a number, or -1
    return cuda.to_device(array)
