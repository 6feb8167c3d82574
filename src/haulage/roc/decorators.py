"""What makes kernels, under numba's long name for its module."""

from haulage.kernel import roc_jit as jit

__all__ = ["jit"]
