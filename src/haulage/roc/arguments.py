"""Functions whose arguments numba.roc had in another order than numba.cuda."""

from typing import Any

from haulage import api
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.context import Context
from haulage.runtime.device import Device, find
from haulage.runtime.stream_arguments import StreamLike


def to_device(
    obj: Any,
    stream: StreamLike = None,
    context: Context | Device | str | None = None,
    copy: bool = True,
    to: DeviceNDArray | None = None,
) -> DeviceNDArray:
    """Allocate memory on the device and copy `obj` to it; see `haulage.cuda.to_device`.

    Args:
        context: the device: one of `agents`, a name such as 'cpu', or what `current_context()`
            gives; None: the current one.
    """
    if context is None:
        return api.to_device(obj, stream, copy, to)
    device = context.device if isinstance(context, Context) else find(context)
    return api.to_device_of(device, obj, stream, copy, to)
