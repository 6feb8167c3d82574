"""The classes of arrays, under numba's long name for their module."""

from typing import Any

from haulage.api import DeviceNDArray, DeviceRecord, ManagedNDArray, MappedNDArray
from haulage.api import MappedNDArray as HostArray
from haulage.compat.device_arrays import errmsg_contiguous_buffer, sentry_contiguous
from haulage.compat.device_arrays import is_cuda_ndarray as is_hsa_ndarray
from haulage.compat.device_arrays import require_cuda_ndarray as require_hsa_ndarray
from haulage.compat.device_arrays import (
    verify_cuda_ndarray_interface as verify_hsa_ndarray_interface,
)
from haulage.roc.arguments import to_device
from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.stream_arguments import StreamLike

__all__ = [
    "DeviceNDArray",
    "DeviceNDArrayBase",
    "DeviceRecord",
    "HostArray",
    "ManagedNDArray",
    "MappedNDArray",
    "auto_device",
    "errmsg_contiguous_buffer",
    "from_array_like",
    "is_hsa_ndarray",
    "require_hsa_ndarray",
    "sentry_contiguous",
    "verify_hsa_ndarray_interface",
]


def from_array_like(ary: Any, dgpu_data: Any = None) -> DeviceNDArray:
    """A device array of the shape, strides and dtype of `ary`, over `dgpu_data` or new memory."""
    return DeviceNDArray(ary.shape, ary.strides, ary.dtype, dgpu_data=dgpu_data)


def auto_device(
    obj: Any, context: Any, stream: StreamLike = None, copy: bool = True
) -> tuple[Any, bool]:
    """(`obj` on the device of `context`, whether that is new): what is on a device already is given
    as it is; `copy` False only allocates."""
    if is_hsa_ndarray(obj):
        return obj, False
    return to_device(obj, stream, context, copy), True
