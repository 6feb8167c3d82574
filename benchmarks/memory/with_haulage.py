"""Allocations, copies and views of Haulage, and the parts that an allocation is made of."""

import sys
import time

import numpy as np

from benchmarks.memory.allocations import Statement
from benchmarks.memory.sizes import SIZES
from haulage import __version__, cuda
from haulage._core.arrays import new_array
from haulage._core.memory import allocate
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.process import call_sites

_array = cuda.device_array(1000, np.float32)


def _nothing(shape, dtype=np.float64, strides=None, order="C", stream=0):
    """What is called as `device_array` is, and does nothing."""


NAMES = {
    "empty": cuda.device_array,
    "pinned": cuda.pinned_array,
    "mapped": cuda.mapped_array,
    "managed": cuda.managed_array,
    "stream": cuda.stream(),
    "a": _array,
    "float64": np.float64,
    "to_device": cuda.to_device,
    "float32": np.float32,
    "x": np.zeros(1000, np.float32),
    "sizes": SIZES,
    # For the parts.
    "nothing": _nothing,
    "new_array": new_array,
    "getframe": sys._getframe,
    "monotonic": time.monotonic,
    "allocate": allocate,
    "device": _array.device,
    "new": DeviceNDArray.__new__,
    "DeviceNDArray": DeviceNDArray,
    "call_site": call_sites.current,
}


def about():
    """The device, and the version of Haulage."""
    device = cuda.get_current_device()
    return f"Haulage {__version__} on {device} ({device.name})"


def allocations():
    """Statements by the names of cases."""
    return {
        "line": Statement("empty(1000, float32)"),
        "plane": Statement("empty((32, 32), float32)"),
        "many": Statement("held = [empty(1000, float32) for _ in range(100)]", 100),
        "sizes": Statement("held = [empty(n, float32) for n in sizes]", len(SIZES)),
        "close": Statement("empty(1000, float32).close()"),
        "with": Statement("with empty(1000, float32): pass"),
        "fortran": Statement("empty((25, 40), float64, order='F')"),
        "stream": Statement("empty(1000, float32, stream=stream)"),
        "kilobytes": Statement("empty(24_000, float32)"),
        "megabyte": Statement("empty(250_000, float32)"),
        "megabytes": Statement("empty(16_000_000, float32)"),
        "pinned": Statement("pinned(1000, float32)"),
        "mapped": Statement("mapped(1000, float32)"),
        "managed": Statement("managed(1000, float32)"),
        "to": Statement("to_device(x)"),
        "back": Statement("a.copy_to_host()"),
        "view": Statement("a[1:]"),
        "read": Statement("a[3]"),
        "write": Statement("a[3] = 1"),
        "large": Statement("empty(25_000_000, float32)"),
    }


def parts():
    """Statements for what an allocation is made of, by what they are called."""
    return {
        "the whole": Statement("empty(1000, float32)"),
        "a Python function with these parameters, called": Statement("nothing(1000, float32)"),
        "the call into compiled code, turned down at once": Statement(
            "new_array(1000, float32, 'A', 0)"
        ),
        "a block, made and given back": Statement("allocate(device, 4000, 0, 'device', 0)"),
        "of that, who asked": Statement("call_site()"),
        "an array object, made and dropped": Statement("new(DeviceNDArray)"),
        "the caller's frame": Statement("getframe(0)"),
        "the clock": Statement("monotonic()"),
    }
