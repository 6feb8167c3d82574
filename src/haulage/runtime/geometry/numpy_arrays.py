"""NumPy's arrays: what is made one, and where its elements are."""

from typing import Any

import numpy as np

from haulage._core.copies import address_of
from haulage.runtime.geometry import layout

__all__ = ["address_of", "bounds", "converted", "host_array"]


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
    """`value` as a host array of `dtype`, converted as NumPy's assignment converts.

    Raises:
        TypeError, ValueError, OverflowError: as NumPy, with the value and the dtype.
    """
    if not isinstance(value, np.ndarray | np.generic):
        try:
            return np.array(value, dtype)
        except (TypeError, ValueError, OverflowError) as error:
            kinds = (TypeError, OverflowError, ValueError)
            kind = next(each for each in kinds if isinstance(error, each))
            raise kind(f"{repr(value)[:80]} is no {dtype}: {error}") from error
    host = host_array(value)
    if host.dtype == dtype:
        return host
    made = np.empty(host.shape, dtype)
    made[...] = host
    return made
