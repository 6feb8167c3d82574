"""Device arrays that host arrays can be copied to."""

from math import prod

import numpy as np

from haulage.runtime import memory
from haulage.runtime.arrays import layout, transfer
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.device import Device, current_device
from haulage.runtime.stream_arguments import StreamLike, binding, device_of


def device_array_for(
    host: np.ndarray, stream: StreamLike = 0, device: Device | None = None
) -> DeviceNDArray:
    """A new device array, not initialised, that a host array can be copied to.

    It has the host array's shape, dtype and order of axes, without gaps. An axis of stride 0 shows
    one value repeatedly; it takes and moves that value only.
    """
    if host.flags.c_contiguous:
        return _contiguous(host, stream, device)
    repeated = [
        n > 1 and step == 0 and host.nbytes > 0
        for n, step in zip(host.shape, host.strides, strict=True)
    ]
    shape = tuple(1 if r else n for n, r in zip(host.shape, repeated, strict=True))
    strides = layout.dense_strides(shape, host.strides, host.itemsize)
    array = DeviceNDArray(shape, strides, host.dtype, stream, device=device)
    if not any(repeated):
        return array
    strides = tuple(0 if r else step for step, r in zip(strides, repeated, strict=True))
    return DeviceNDArray(host.shape, strides, host.dtype, stream, array.gpu_data)


def _contiguous(host: np.ndarray, stream: StreamLike, device: Device | None) -> DeviceNDArray:
    dtype = transfer.check_dtype(host.dtype)
    # Without elements any strides will do; numba keeps them.
    strides = layout.c_strides(host.shape, dtype.itemsize) if host.size else host.strides
    place = device or device_of(stream) or current_device()
    return dense_array(host.shape, strides, dtype, stream, place)


def dense_array(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype,
    stream: StreamLike,
    device: Device,
) -> DeviceNDArray:
    """A new array of `device` without gaps, not initialised, with no check of what is given: what
    nearly all arrays are, without the general constructor.

    Strides are in bytes, none of them negative; the dtype is of numbers or records.
    """
    bound = binding(stream, device)
    block = memory.allocate(device, prod(shape) * dtype.itemsize, stream=bound)
    array = object.__new__(DeviceNDArray)
    array._set(block, block.device_ptr, shape, strides, dtype, bound, False)
    return array
