"""Copies and fills of raw host memory; all release the interpreter's lock while they run."""

import ctypes
import functools
from collections.abc import Sequence

import numpy as np

from haulage.backends.cpu_driver import processor
from haulage.backends.cpu_driver.pool import POOL

# One thread does not fill the memory's bus; for less than these bytes it is not worth a second.
SHARED_FROM = 8 << 20

# What the last cache holds where the system does not tell.
_USUAL_CACHE = 32 << 20

_WORDS = {1: "|u1", 2: "=u2", 4: "=u4", 8: "=u8", 16: "=c16"}


def copy(dst: int, src: int, nbytes: int) -> None:
    """Copy `nbytes` from address `src` to address `dst`; the ranges may overlap."""
    apart = abs(dst - src) >= nbytes
    shared = nbytes >= SHARED_FROM and apart
    if not shared or not POOL.copy(dst, src, nbytes, past_caches=2 * nbytes >= last_cache()):
        ctypes.memmove(dst, src, nbytes)


@functools.cache
def last_cache() -> int:
    """The bytes of the processor's last cache, through which a copy passes twice."""
    levels = (processor.cache_bytes(level) for level in (3, 2))
    return next((size for size in levels if size), _USUAL_CACHE)


def copy_nd(
    dst: int,
    dst_strides: Sequence[int],
    src: int,
    src_strides: Sequence[int],
    shape: Sequence[int],
    itemsize: int,
) -> None:
    """Copy an n-d region element by element; strides in bytes, as `Backend.copy_nd` says."""
    dense = _dense_strides(shape, itemsize)
    if dense is None:
        return
    if tuple(dst_strides) == dense and tuple(src_strides) == dense:
        nbytes = itemsize
        for extent in shape:
            nbytes *= extent
        copy(dst, src, nbytes)
        return
    np.copyto(
        _view(dst, dst_strides, shape, itemsize), _view(src, src_strides, shape, itemsize), "no"
    )


def fill(dst: int, value: bytes, count: int) -> None:
    """Write `value` `count` times from address `dst` on."""
    if value.count(value[0]) == len(value):
        ctypes.memset(dst, value[0], count * len(value))
        return
    target = _view(dst, (len(value),), (count,), len(value))
    target[...] = np.frombuffer(value, target.dtype)


def _dense_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...] | None:
    """The strides of a C-contiguous array of that shape; None if it has no elements."""
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides)) if step else None


class _Raw:
    """Raw memory under NumPy's array interface."""

    def __init__(self, interface: dict[str, object]) -> None:
        self.__array_interface__ = interface


def _view(address: int, strides: Sequence[int], shape: Sequence[int], itemsize: int) -> np.ndarray:
    interface = {
        "data": (address, False),
        "strides": tuple(strides),
        "shape": tuple(shape),
        "typestr": _WORDS.get(itemsize, f"|V{itemsize}"),
        "version": 3,
    }
    return np.asarray(_Raw(interface))
