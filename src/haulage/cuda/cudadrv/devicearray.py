"""The classes of arrays, under numba's long name for their module."""

# Programs import it from here: their editors found it in numba's module.
from functools import lru_cache as lru_cache

from haulage.api import DeviceNDArray, DeviceRecord, IpcArrayHandle, ManagedNDArray, MappedNDArray
from haulage.compat.device_arrays import (
    array_core,
    auto_device,
    check_array_compatibility,
    errmsg_contiguous_buffer,
    from_array_like,
    from_record_like,
    is_contiguous,
    is_cuda_ndarray,
    require_cuda_ndarray,
    sentry_contiguous,
    verify_cuda_ndarray_interface,
)
from haulage.runtime.arrays.copying import DeviceNDArrayBase

__all__ = [
    "DeviceNDArrayBase",
    "DeviceNDArray",
    "DeviceRecord",
    "MappedNDArray",
    "ManagedNDArray",
    "IpcArrayHandle",
    "array_core",
    "auto_device",
    "check_array_compatibility",
    "errmsg_contiguous_buffer",
    "from_array_like",
    "from_record_like",
    "is_contiguous",
    "is_cuda_ndarray",
    "require_cuda_ndarray",
    "sentry_contiguous",
    "verify_cuda_ndarray_interface",
]
