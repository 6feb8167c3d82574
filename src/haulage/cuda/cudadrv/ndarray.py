"""Memory for host arrays, under numba's long name for its module."""

from haulage.compat.device_arrays import ndarray_device_allocate_data

__all__ = ["ndarray_device_allocate_data"]
