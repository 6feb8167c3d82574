"""What makes kernels, under numba's long name for its module."""

from haulage.kernel import cuda_jit as jit
from haulage.kernel import declare_device

__all__ = ["jit", "declare_device"]
