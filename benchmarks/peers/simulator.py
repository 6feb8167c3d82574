"""Numba's own simulator: the kernels of the benchmarks, their source unchanged, at tiny sizes.

They are loaded anew with `numba.cuda`, here the simulator (`NUMBA_ENABLE_CUDASIM`), wherever they
say `haulage.cuda`.
"""

# haulage.cuda must be replaced before the kernels are loaded.
# ruff: noqa: E402
import sys

import numba
import numpy as np
from numba import cuda

import haulage

# The simulator lacks the names of types that `numba.cuda` has on a GPU.
cuda.float32, cuda.int32 = np.float32, np.int32
sys.modules["haulage.cuda"] = haulage.cuda = cuda

from haulage.cli.bench.kernels import blocks, elementwise, histograms, matrices

_WITHOUT = ("reduce-warp",)  # The simulator has no shuffles.


def about():
    """Version of Numba."""
    return f"Numba {numba.__version__}, CUDA simulator"


def setups():
    """A setup for each kernel that the simulator can run."""
    parts = (elementwise, matrices, blocks, histograms)
    found = {name: setup for part in parts for name, setup in part.SETUPS.items()}
    return {name: setup for name, setup in found.items() if name not in _WITHOUT}
