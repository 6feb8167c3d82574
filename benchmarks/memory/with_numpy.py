"""Allocations of NumPy."""

import numpy as np

from benchmarks.memory.allocations import Statement
from benchmarks.memory.sizes import SIZES

NAMES = {"empty": np.empty, "float32": np.float32, "x": np.zeros(1000, np.float32), "sizes": SIZES}


def about():
    """Version of NumPy."""
    return f"NumPy {np.__version__}"


def allocations():
    """Statements by the names of cases."""
    return {
        "line": Statement("empty(1000, float32)"),
        "plane": Statement("empty((32, 32), float32)"),
        "many": Statement("held = [empty(1000, float32) for _ in range(100)]", 100),
        "sizes": Statement("held = [empty(n, float32) for n in sizes]", len(SIZES)),
        "to": Statement("x.copy()"),
        "megabyte": Statement("empty(250_000, float32)"),
        "large": Statement("empty(25_000_000, float32)"),
    }
