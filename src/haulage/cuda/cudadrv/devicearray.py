"""The classes of arrays, under numba's long name for their module."""

from haulage.api import DeviceNDArray, DeviceRecord, IpcArrayHandle, ManagedNDArray, MappedNDArray
from haulage.api import is_cuda_array as is_cuda_ndarray

__all__ = [
    "DeviceNDArray",
    "DeviceRecord",
    "MappedNDArray",
    "ManagedNDArray",
    "IpcArrayHandle",
    "is_cuda_ndarray",
]
