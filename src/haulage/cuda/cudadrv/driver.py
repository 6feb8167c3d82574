"""The classes of the driver's things, under numba's long name for their module."""

from haulage.api import Context, Event, IpcHandle, MemoryInfo, Stream
from haulage.errors import DeviceError as CudaAPIError
from haulage.runtime.device import Device

__all__ = ["Device", "Context", "MemoryInfo", "Stream", "Event", "IpcHandle", "CudaAPIError"]
