"""Allocations of NVIDIA Warp on the CPU."""

import numpy as np
import warp as wp

from benchmarks.memory.allocations import Statement
from benchmarks.memory.sizes import SIZES

wp.config.quiet = True
wp.init()

NAMES = {
    "empty": wp.empty,
    "float32": wp.float32,
    "sizes": SIZES,
    "array": wp.array,
    "x": np.zeros(1000, np.float32),
}


def about():
    """Version of Warp."""
    return f"Warp {wp.__version__}, cpu"


def allocations():
    """Statements by the names of cases."""
    small = "empty(1000, float32, device='cpu')"
    return {
        "line": Statement(small),
        "plane": Statement("empty((32, 32), float32, device='cpu')"),
        "many": Statement(f"held = [{small} for _ in range(100)]", 100),
        "sizes": Statement("held = [empty(n, float32, device='cpu') for n in sizes]", len(SIZES)),
        "to": Statement("array(x, float32, device='cpu', copy=True)"),
        "megabyte": Statement("empty(250_000, float32, device='cpu')"),
        "large": Statement("empty(25_000_000, float32, device='cpu')"),
    }
