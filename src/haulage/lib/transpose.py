"""`transpose`: an array with its two axes exchanged, in memory of its own."""

from typing import Any

import numpy as np

from haulage import api
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.geometry import layout


def transpose(a: Any, b: Any = None) -> Any:
    """Write the transpose of `a` to `b`, in C order if it makes that itself.

    It is one strided copy in the stream that `a` is bound to, without a kernel.

    Args:
        a: an array with two axes, on the device or not.
        b: an array of the device or the host that gets it, of shape (a.shape[1], a.shape[0]);
            None makes a device array.

    Returns:
        `b`, or the device array.

    Raises:
        TypeError: `a` has not two axes, or `b` is no array or has another dtype.
        ShapeMismatch: a ValueError; `b` has another shape.
        ValueError: `b` is read-only.
    """
    source = api.as_cuda_array(a) if api.is_cuda_array(a) else api.to_device(a)
    if source.ndim != 2:
        raise TypeError(f"transpose: an array of shape {source.shape}; expected two axes")
    turned = source.T
    if b is None:
        strides = layout.order_strides(turned.shape, turned.dtype.itemsize, "C")
        made = DeviceNDArray(
            turned.shape, strides, turned.dtype, source.stream, device=source.device
        )
        made.copy_to_device(turned)
        return made
    if not isinstance(b, np.ndarray) and not api.is_cuda_array(b):
        raise TypeError(f"transpose: b={b!r}; expected an array of the device or the host")
    if b.dtype != turned.dtype:
        raise TypeError(f"transpose: b has dtype {b.dtype}; expected that of a, {turned.dtype}")
    if api.is_cuda_array(b):
        api.as_cuda_array(b).copy_to_device(turned, source.stream)
    else:
        turned.copy_to_host(b, source.stream)
    return b
