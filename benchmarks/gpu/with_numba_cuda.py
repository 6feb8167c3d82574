"""numba-cuda, NVIDIA's package for numba.cuda; where that is not there, Numba's own."""

import warnings
from typing import Any

import numba
from numba import cuda

from benchmarks.gpu import like_numba


def about() -> str:
    """The versions."""
    try:
        return like_numba.versions("numba", "numba-cuda")
    except ModuleNotFoundError:
        return f"numba {numba.__version__}, its own numba.cuda"


def offers() -> dict[str, Any]:
    """See `measures`."""
    # It warns of few blocks.
    warnings.simplefilter("ignore")
    return like_numba.offers(cuda, "numba")
