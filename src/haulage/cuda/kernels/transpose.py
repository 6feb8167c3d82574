"""Transposes on the device, under numba's long name for them."""

from haulage.lib.transpose import transpose

__all__ = ["transpose"]
