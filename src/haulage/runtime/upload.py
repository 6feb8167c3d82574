"""Device arrays that host arrays can be copied to."""

import numpy as np

from haulage.runtime import layout
from haulage.runtime.array import DeviceNDArray
from haulage.runtime.device import Device
from haulage.runtime.stream import StreamLike


def device_array_for(
    host: np.ndarray, stream: StreamLike = 0, device: Device | None = None
) -> DeviceNDArray:
    """A new device array, not initialised, that a host array can be copied to.

    It has the host array's shape, dtype and order of axes, without gaps. An axis of stride 0 shows
    one value repeatedly; it takes and moves that value only.
    """
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
