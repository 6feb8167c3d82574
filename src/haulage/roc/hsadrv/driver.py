"""The classes of the driver's things, under numba's long name for their module."""

import sys
from typing import Any

from haulage.api import Stream
from haulage.compat.absent import refuse
from haulage.compat.device_arrays import is_cuda_ndarray as is_device_memory
from haulage.compat.hsa import Driver, dgpu_count, hsa
from haulage.runtime.context import Context
from haulage.runtime.device import Device as Agent

__all__ = ["Agent", "Context", "Driver", "Stream", "dgpu_count", "hsa", "is_device_memory"]

_WHY = (
    "it is a part of HSA's runtime, which is not used; kernels are loaded and launched, and memory "
    "is copied, by the words of `roc`"
)


def __getattr__(name: str) -> Any:
    if name == "dgpu_present":
        # Whether arrays can be on a device, which looks for devices: not when this is imported.
        return dgpu_count() > 0
    refuse(__name__, name, _WHY, sys._getframe(1))
