"""NumPy's arrays: what is made one, and where its elements are."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from haulage.runtime.geometry import layout

_read = ctypes.c_size_t.from_address
# NumPy's binary interface: the address is the first field behind the object's head.
_OFFSET = object.__basicsize__


def _field(array: np.ndarray[Any, Any]) -> int:
    return _read(id(array) + _OFFSET).value


def _attribute(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


def _is_there() -> bool:
    """Whether this interpreter's arrays have the field."""
    samples: list[np.ndarray[Any, Any]] = [
        np.zeros(3),
        np.zeros((2, 5), np.int16)[1:, ::-1],
        np.zeros(0, np.int8),
    ]
    return all(_field(sample) == _attribute(sample) for sample in samples)


# The address of an array's first element. A launch asks this of each host array; `ndarray.ctypes`
# makes three objects for it and takes thirty times as long.
address_of: Callable[[np.ndarray[Any, Any]], int] = _field if _is_there() else _attribute


def bounds(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The addresses of the first byte that an array touches, and of the one behind the last."""
    low, high = layout.extent(array.shape, array.strides, array.itemsize)
    start = address_of(array)
    return start + low, start + high


def host_array(obj: Any) -> np.ndarray[Any, Any]:
    """`obj` as a host array, as `np.asarray` makes it.

    Raises:
        TypeError: it has a mask, which a device array could not keep, or it is no array and NumPy
            makes none of it but one of Python objects.
    """
    host = np.asarray(obj)
    # Asked only of subclasses: `np.ma` is imported when it is first named.
    if host is not obj and isinstance(obj, np.ndarray) and isinstance(obj, np.ma.MaskedArray):
        raise TypeError(
            "a masked array would lose its mask on the device; copy a.data and a.mask apart, "
            "or a.filled()"
        )
    if host is not obj and host.dtype.hasobject and not isinstance(obj, np.ndarray):
        raise TypeError(
            f"{type(obj).__name__} object: expected an array, or what NumPy makes one of without "
            "Python objects"
        )
    return host


def converted(value: Any, dtype: np.dtype) -> np.ndarray[Any, Any]:
    """`value` as a host array of `dtype`, converted as NumPy's assignment converts."""
    if not isinstance(value, np.ndarray | np.generic):
        return np.array(value, dtype)
    host = host_array(value)
    if host.dtype == dtype:
        return host
    made = np.empty(host.shape, dtype)
    made[...] = host
    return made
