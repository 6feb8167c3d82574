"""Allocations of Haulage, and the parts that one is made of."""

import numpy as np

from benchmarks.memory.allocations import Statement
from benchmarks.memory.sizes import SIZES
from haulage import __version__, cuda

NAMES = {
    "empty": cuda.device_array,
    "pinned": cuda.pinned_array,
    "to_device": cuda.to_device,
    "float32": np.float32,
    "x": np.zeros(1000, np.float32),
    "sizes": SIZES,
}


def about():
    """The device, and the version of Haulage."""
    device = cuda.get_current_device()
    return f"Haulage {__version__} on {device} ({device.name})"


def allocations():
    """Statements by the names of cases, and by what parts are called."""
    return {
        "line": Statement("empty(1000, float32)"),
        "plane": Statement("empty((32, 32), float32)"),
        "many": Statement("held = [empty(1000, float32) for _ in range(100)]", 100),
        "sizes": Statement("held = [empty(n, float32) for n in sizes]", len(SIZES)),
        "close": Statement("empty(1000, float32).close()"),
        "with": Statement("with empty(1000, float32): pass"),
        "to": Statement("to_device(x)"),
        "pinned": Statement("pinned(1000, float32)"),
        "megabyte": Statement("empty(250_000, float32)"),
        "large": Statement("empty(25_000_000, float32)"),
    }
