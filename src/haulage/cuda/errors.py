"""The errors of kernels, and what is checked before a launch, under numba's long names."""

from haulage.compat.launches import missing_launch_config_msg, normalize_kernel_dimensions
from haulage.errors import CompileError as CudaLoweringError
from haulage.errors import KernelError as KernelRuntimeError

__all__ = [
    "CudaLoweringError",
    "KernelRuntimeError",
    "missing_launch_config_msg",
    "normalize_kernel_dimensions",
]
