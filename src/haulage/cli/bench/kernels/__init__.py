"""The kernels of the benchmarks, written as one writes them for a GPU: no hint for the CPU.

`setups()[name](inputs)` puts the inputs of a problem on the device and returns two functions: one
that works the problem out and waits for it, and one that returns the result as a NumPy array.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from haulage import __version__, cuda

Run = Callable[[], object]
Result = Callable[[], NDArray[np.generic]]
Setup = Callable[[Mapping[str, NDArray[np.generic]]], tuple[Run, Result]]


def setups() -> dict[str, Setup]:
    """Every kernel's setup, by the name of its problem."""
    from haulage.cli.bench.kernels import blocks, elementwise, histograms, matrices, moves

    parts = (elementwise, matrices, blocks, histograms, moves)
    return {name: setup for part in parts for name, setup in part.SETUPS.items()}


def about() -> str:
    """The device that the kernels run on, and the version of Haulage."""
    device = cuda.get_current_device()
    return f"Haulage {__version__} on {device} ({device.name})"
