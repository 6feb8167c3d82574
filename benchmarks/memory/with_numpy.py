"""Allocations of NumPy."""

import numpy as np

from benchmarks.memory.allocations import Statement
from benchmarks.memory.sizes import SIZES

_x = np.zeros(1000, np.float32)
NAMES = {"empty": np.empty, "float32": np.float32, "x": _x, "sizes": SIZES}
# What stands for cases that NumPy has not, or where it asks the system.
_UNITS = (
    *("fortran", "stream", "kilobytes", "megabyte", "megabytes"),
    *("pinned", "mapped", "managed"),
)


def about():
    """Version of NumPy."""
    return f"NumPy {np.__version__}"


def allocations():
    """Statements by the names of cases."""
    line = Statement("empty(1000, float32)")
    return {
        **dict.fromkeys(_UNITS, line),
        "line": line,
        "plane": Statement("empty((32, 32), float32)"),
        "many": Statement("held = [empty(1000, float32) for _ in range(100)]", 100),
        "sizes": Statement("held = [empty(n, float32) for n in sizes]", len(SIZES)),
        "to": Statement("x.copy()"),
        "back": Statement("x.copy()"),
        "view": Statement("x[1:]"),
        "read": Statement("x[3]"),
        "write": Statement("x[3] = 1"),
        "large": Statement("empty(25_000_000, float32)"),
    }
