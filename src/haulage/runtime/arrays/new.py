"""New device arrays: for host arrays, and copies of these and of device arrays."""

from math import prod

import numpy as np

from haulage._core.arrays import know_dtype
from haulage.runtime import memory
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream_arguments import StreamLike, binding, device_of
from haulage.runtime.geometry import dtypes, layout


def device_array_for(
    host: np.ndarray, stream: StreamLike = 0, device: Device | None = None
) -> DeviceNDArray:
    """A new device array, not initialised, that a host array can be copied to.

    It has the host array's shape, dtype and order of axes (NumPy's order 'K'), without gaps. Each
    element has memory of its own, also where elements of the host array share theirs.
    """
    if host.flags.c_contiguous:
        return _contiguous(host, stream, device)
    strides = layout.dense_strides(host.shape, host.strides, host.itemsize)
    return DeviceNDArray(host.shape, strides, host.dtype, stream, device=device)


def mirror_array_for(
    host: np.ndarray, stream: StreamLike = 0, device: Device | None = None
) -> DeviceNDArray:
    """`device_array_for`, but elements that share memory on the host share it here too.

    A kernel then does with it what it would do with the host array in place. An axis of stride 0
    takes and moves one value only.
    """
    if not layout.may_overlap(host.shape, host.strides, host.itemsize):
        return device_array_for(host, stream, device)
    repeated = [n > 1 and step == 0 for n, step in zip(host.shape, host.strides, strict=True)]
    shape = tuple(1 if r else n for n, r in zip(host.shape, repeated, strict=True))
    strides = host.strides
    if not layout.may_overlap(shape, strides, host.itemsize):
        strides = layout.dense_strides(shape, strides, host.itemsize)
    strides = tuple(0 if r else step for step, r in zip(strides, repeated, strict=True))
    return DeviceNDArray(host.shape, strides, host.dtype, stream, device=device)


def _contiguous(host: np.ndarray, stream: StreamLike, device: Device | None) -> DeviceNDArray:
    dtype = dtypes.check_dtype(host.dtype)
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
    array = DeviceNDArray.__new__(DeviceNDArray)
    array._set(block, block.device_ptr, shape, strides, dtype, bound, False)
    return array


def uploaded(
    host: np.ndarray, stream: StreamLike = 0, device: Device | None = None
) -> DeviceNDArray:
    """`device_array_for` a host array, with its elements."""
    made = device_array_for(host, stream, device)
    know_dtype(made.dtype, made.dtype)
    made.copy_to_device(host, stream)
    return made


def copied(array: DeviceNDArray, stream: StreamLike, device: Device) -> DeviceNDArray:
    """A new array of `device` without gaps, with the elements of a device array."""
    strides = layout.dense_strides(array.shape, array.strides, array.dtype.itemsize)
    made = DeviceNDArray(array.shape, strides, array.dtype, stream, device=device)
    made.copy_to_device(array, stream)
    return made
