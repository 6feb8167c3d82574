"""Blocks of `dask.array` on devices: how they are joined."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from haulage.api.arrays import to_device_of
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.geometry import layout


def concatenate(arrays: Sequence[Any], axis: int = 0, **options: Any) -> DeviceNDArray:
    """As `np.concatenate`, into a new device array on the device of the first; NumPy's arrays among
    them are copied there.

    Raises:
        TypeError: there is an option that has no meaning here.
        ValueError: shapes do not fit.
    """
    if options:
        raise TypeError(f"joining device arrays: no option {', '.join(options)}")
    first = next(each for each in arrays if isinstance(each, DeviceNDArray))
    axis = range(first.ndim)[axis]
    dtype = np.result_type(*(each.dtype for each in arrays))
    parts = []
    for each in arrays:
        if each.dtype != dtype:
            host = each.copy_to_host() if isinstance(each, DeviceNDArray) else np.asarray(each)
            each = to_device_of(first.device, host.astype(dtype))
        parts.append(each)
    rest = first.shape[:axis], first.shape[axis + 1 :]
    for each in parts:
        if (each.shape[:axis], each.shape[axis + 1 :]) != rest:
            raise ValueError(
                f"joining device arrays along axis {axis}: shape {each.shape} does not fit "
                f"{first.shape}; all other axes must have the same length"
            )
    shape = list(first.shape)
    shape[axis] = sum(each.shape[axis] for each in parts)
    strides = layout.c_strides(shape, dtype.itemsize)
    made = DeviceNDArray(shape, strides, dtype, device=first.device)
    at = 0
    for each in parts:
        end = at + each.shape[axis]
        if each.size:
            made[(slice(None),) * axis + (slice(at, end),)] = each
        at = end
    return made


CONCATENATE: dict[type, Any] = {DeviceNDArray: concatenate}
