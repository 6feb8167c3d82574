"""The version of CUDA's runtime, under numba's long name for its module."""

from haulage.api import runtime
from haulage.errors import DeviceError as CudaRuntimeAPIError

__all__ = ["CudaRuntimeAPIError", "Runtime", "get_version", "runtime"]

Runtime = type(runtime)
get_version = runtime.get_version
