"""The classes of the driver's things, under numba's long name for their module."""

from haulage.api import Stream
from haulage.runtime.device import Device as Agent

__all__ = ["Agent", "Stream"]
