"""Allocations of Haulage, and the parts that one is made of."""

import sys
import time
from types import SimpleNamespace

import numpy as np

from benchmarks.memory.allocations import Statement
from benchmarks.memory.sizes import SIZES
from haulage import __version__, config, cuda
from haulage.api.arrays import prepare
from haulage.runtime import native
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.registry import current_device
from haulage.runtime.memory import Block
from haulage.runtime.process import call_sites

_array = cuda.device_array(1000, np.float32)
_pool = _array.block.pool
# Machine code is made once a process has asked for many arrays.
for _ in range(3000):
    cuda.device_array(1000, np.float32)


def _nothing(shape, dtype=np.float64, strides=None, order="C", stream=0):
    """What is called as `device_array` is, and does nothing."""


NAMES = {
    "empty": cuda.device_array,
    "pinned": cuda.pinned_array,
    "to_device": cuda.to_device,
    "float32": np.float32,
    "x": np.zeros(1000, np.float32),
    "sizes": SIZES,
    # For the parts.
    "nothing": _nothing,
    "native": native,
    "getframe": sys._getframe,
    "monotonic": time.monotonic,
    "new": object.__new__,
    "DeviceNDArray": DeviceNDArray,
    "prepare": prepare,
    "current_device": current_device,
    "device": _array.device,
    "stream": _array.device.default_stream,
    "block": _array.block,
    "pool": _pool,
    "heap": _pool.heap,
    "holder": SimpleNamespace(nbytes=4000, device_ptr=0, returned=True),
    "cells": [4096],
    "call_site": call_sites.current,
    "Block": Block,
    "dtype": _array.dtype,
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
        "to": Statement("to_device(x)"),
        "pinned": Statement("pinned(1000, float32)"),
        "megabyte": Statement("empty(250_000, float32)"),
        "large": Statement("empty(25_000_000, float32)"),
    }


def parts():
    """Statements for what an allocation is made of, by what they are called."""
    return _OF_PYTHON if config.native() is False else _OF_MACHINE_CODE


_WHOLE = Statement("empty(1000, float32)")
_CALL = Statement("nothing(1000, float32)")
_OF_MACHINE_CODE = {
    "the whole": _WHOLE,
    "a Python function with these parameters, called": _CALL,
    "the call into machine code, turned down at once": Statement(
        "take(1000, float32, 0, 'C', 0)", setup="take = native.take"
    ),
    "the same, with shape and dtype looked up, and not found": Statement(
        "take(1001, float32, None, 'C', 0)", setup="take = native.take"
    ),
    "the caller's frame": Statement("getframe(0)"),
    "the clock": Statement("monotonic()"),
    "an array object, made and dropped": Statement("new(DeviceNDArray)"),
}
_OF_PYTHON = {
    "the whole": _WHOLE,
    "a Python function with these parameters, called": _CALL,
    "shape, dtype and strides": Statement("prepare(1000, float32, None, 'C')"),
    "which device": Statement("current_device()"),
    "memory from a free list, and back": Statement(
        "heap.give(pool, heap.take(pool, 4000)[0], 4000)"
    ),
    "an owner's block object of no bytes, made and dropped": Statement(
        "Block(device, 0, 0, 0, 'device', None, None, stream)"
    ),
    "of that, who asked": Statement("call_site()"),
    "of that, when": Statement("monotonic()"),
    "the ledger's counters, and the lists of free addresses": Statement(
        "pool.take_into(holder, cells); pool.take_back(holder, cells)"
    ),
    "an array object with all that it says, made and dropped": Statement(
        "new(DeviceNDArray)._set(block, 256, (1000,), (4,), dtype, 0, False)"
    ),
}
