"""The classes of arrays, under numba's long name for their module."""

from haulage.api import DeviceNDArray, DeviceRecord, ManagedNDArray, MappedNDArray
from haulage.api import MappedNDArray as HostArray

__all__ = ["DeviceNDArray", "DeviceRecord", "MappedNDArray", "ManagedNDArray", "HostArray"]
