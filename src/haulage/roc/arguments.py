"""Functions whose arguments numba.roc had in another order than numba.cuda."""

from typing import Any

from haulage import api
from haulage.compat.arrays import is_cuda_ndarray
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray, device_of_array
from haulage.runtime.context import Context
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import find
from haulage.runtime.devices.stream_arguments import StreamLike, device_of
from haulage.runtime.geometry import layout


def to_device(
    obj: Any,
    stream: StreamLike = None,
    context: Context | Device | str | None = None,
    copy: bool = True,
    to: DeviceNDArray | None = None,
) -> DeviceNDArray:
    """Allocate memory on the device and copy `obj` to it; see `haulage.cuda.to_device`.

    What is on a device already is copied as well, as in numba.roc: mapped arrays, such as
    `coarsegrain_array` gives, and arrays of the device.

    Args:
        context: the device: one of `agents`, a name such as 'cpu', or what `current_context()`
            gives; None: that of `stream` or `obj`, or the current one.
    """
    device = _device(context) or device_of(stream)
    if to is None and isinstance(obj, (DeviceNDArray, HostVisibleNDArray)):
        strides = layout.dense_strides(obj.shape, obj.strides, obj.dtype.itemsize)
        place = device or device_of_array(obj)
        made = DeviceNDArray(obj.shape, strides, obj.dtype, stream, device=place)
        if copy:
            made.copy_to_device(obj, stream)
        return made
    return api.to_device_of(device, obj, stream, copy, to)


def from_array_like(ary: Any, dgpu_data: Any = None) -> DeviceNDArray:
    """A device array of the shape, strides and dtype of `ary`, over `dgpu_data` or new memory."""
    return DeviceNDArray(ary.shape, ary.strides, ary.dtype, dgpu_data=dgpu_data)


def auto_device(
    obj: Any, context: Any, stream: StreamLike = None, copy: bool = True
) -> tuple[Any, bool]:
    """(`obj` on the device of `context`, whether that is new): what is on a device already is given
    as it is; `copy` False only allocates."""
    if is_cuda_ndarray(obj):
        return obj, False
    return to_device(obj, stream, context, copy), True


def _device(context: Context | Device | str | None) -> Device | None:
    if context is None:
        return None
    return context.device if isinstance(context, Context) else find(context)
