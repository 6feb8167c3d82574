"""Storages of new SmartArrays, which memory of the host they are in, and at which place."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from haulage.platforms import PLATFORMS, add_installed
from haulage.runtime import memory
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import (
    HostVisibleNDArray,
    ManagedNDArray,
    MappedNDArray,
)
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.coherence import HOST, Coherence, Place
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device, find
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.memory import Block
from haulage.smart.elements import MOST_ALIGNED, Elements

# Names for memory of the host, besides 'host'.
HOST_MEMORY = ("pinned", "mapped", "managed")

# What `Elements` takes: coherence, offset, shape, strides, dtype, skew.
Placed = tuple[Coherence, int, tuple[int, ...], tuple[int, ...], np.dtype, int]

# Names for the current device, whatever its kind.
_GPU = ("gpu", "cuda", "device")

_BYTES = np.dtype(np.uint8)


def new(obj: Any, shape: Any, dtype: Any, order: str | None, where: Any, there: bool) -> Placed:
    """A new storage with the elements of `obj`; if these are `there`, on a device, without them,
    and without memory yet. The other arguments are those of `SmartArray`."""
    source = None if obj is None or there else np.asarray(obj)
    like = obj if there else source
    if like is None:
        kind, sizes = dtypes.check_dtype(dtype), layout.normalise_shape(shape)
    else:
        kind = dtypes.check_dtype(like.dtype if dtype is None else dtype)
        sizes = like.shape
    if like is not None and order is None:
        strides = layout.dense_strides(sizes, like.strides, kind.itemsize)
    else:
        strides = layout.order_strides(sizes, kind.itemsize, order or "C")
    nbytes = prod(sizes) * kind.itemsize
    name = f"SmartArray {layout.in_words(sizes, kind)}"
    flat, shared = _host_memory(nbytes, where, source is not None or where == HOST)
    if source is not None:
        np.ndarray(sizes, kind, flat, 0, strides)[...] = source
    made = Coherence(nbytes, name, flat, shared, source is not None, kind.itemsize or 1)
    return made, 0, sizes, strides, kind, 0


def in_place(obj: Any, dtype: Any, order: str | None) -> Placed:
    """The memory of `obj` itself, for `SmartArray(copy=False)`.

    Raises:
        ValueError: `obj` would have to be copied.
    """
    if not isinstance(obj, np.ndarray | Elements):
        raise ValueError(
            f"SmartArray(copy=False) of a {type(obj).__name__}: only the memory of a NumPy "
            "array or a SmartArray can be used in place; leave copy=False out"
        )
    kind = dtypes.check_dtype(obj.dtype if dtype is None else dtype)
    ordered = order is None or obj.strides == layout.order_strides(
        obj.shape, obj.dtype.itemsize, order
    )
    if kind != obj.dtype or not ordered:
        what = f"dtype {kind}" if kind != obj.dtype else f"order {order!r}"
        raise ValueError(
            f"SmartArray(copy=False): cannot make {what} of an array with dtype {obj.dtype} "
            f"and strides {obj.strides} without a copy; leave copy=False out"
        )
    if isinstance(obj, Elements):
        return obj.coherence, obj._offset, obj.shape, obj.strides, kind, obj._skew
    flags = obj.flags
    if not flags.writeable or not (flags.c_contiguous or flags.f_contiguous):
        what = "has gaps" if flags.writeable else "is read-only"
        raise ValueError(
            f"SmartArray(copy=False): the array {what}, so that results cannot come back to "
            "it; leave copy=False out"
        )
    flat = _bytes_of(obj)
    shared = obj.block if isinstance(obj, HostVisibleNDArray) else None
    name = f"SmartArray {layout.in_words(obj.shape, kind)}"
    made = Coherence(flat.size, name, flat, shared, grain=kind.itemsize or 1)
    strides = layout.order_strides(obj.shape, kind.itemsize, "C" if flags.c_contiguous else "F")
    return made, 0, obj.shape, strides, kind, address_of(obj) % MOST_ALIGNED


def _host_memory(nbytes: int, where: Any, now: bool) -> tuple[np.ndarray | None, Block | None]:
    """(the bytes on the host, the block that they are in if the current device reaches it too).

    Ordinary memory is made `now`, or None is given, and it is made when it is needed.

    Raises:
        OutOfMemory: there is none left.
    """
    if where == "pinned":
        return pinned_memory.pinned_array(current_device(), (nbytes,), (1,), _BYTES), None
    if where in HOST_MEMORY:
        kind = MappedNDArray if where == "mapped" else ManagedNDArray
        made: HostVisibleNDArray = kind(nbytes, 1, _BYTES)
        return made.view(np.ndarray), made.block
    return (memory.on_host(np.empty, nbytes, np.uint8) if now else None), None


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array as an array of bytes with one axis."""
    if not array.nbytes:
        return np.empty(0, np.uint8)
    plain = np.asarray(array)
    return (plain if plain.flags.c_contiguous else plain.T).reshape(-1).view(np.uint8)


# ---- places ---------------------------------------------------------------------------------


def place(where: Any, others: Sequence[str] = ()) -> Place:
    """The place that `where` means; `others` are what it could have been besides.

    Raises:
        ValueError: it means none.
        DeviceNotFound: that device is not there.
    """
    if isinstance(where, Device):
        return where
    if isinstance(where, str):
        if where == HOST:
            return HOST
        if where in _GPU:
            return current_device()
        if where.partition(":")[0] not in PLATFORMS:
            add_installed()
        if where.partition(":")[0] in PLATFORMS:
            return find(where, "where")
    kinds = ", ".join(map(repr, PLATFORMS))
    more = f", or memory of the host: {', '.join(map(repr, others))}" if others else ""
    raise ValueError(
        f"where={where!r}: expected 'host', 'gpu' for the current device, or a device: {kinds}, "
        f"with a number if wished as in 'nvidia:1'{more}"
    )


def is_on(device: Device, obj: Any, dtype: Any) -> bool:
    """Whether the elements of `obj`, of that dtype, are on a device already."""
    if dtype is not None and np.dtype(dtype) != getattr(obj, "dtype", None):
        return False
    if isinstance(obj, Elements):
        return obj.coherence.is_current(device, obj._part)
    return isinstance(obj, DeviceNDArray) and obj.device is device
