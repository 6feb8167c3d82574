"""The errors, under the names that numba.cuda gives them."""

from haulage.compat.errors import (
    NvrtcCompilationError,
    NvrtcError,
    NvrtcSupportError,
    NvvmError,
    NvvmSupportError,
    NvvmWarning,
)
from haulage.errors import DeviceError as CudaDriverError
from haulage.errors import DeviceError as CudaRuntimeError
from haulage.errors import DeviceNotFound as CudaSupportError

__all__ = [
    "CudaDriverError",
    "CudaRuntimeError",
    "CudaSupportError",
    "NvrtcCompilationError",
    "NvrtcError",
    "NvrtcSupportError",
    "NvvmError",
    "NvvmSupportError",
    "NvvmWarning",
]
