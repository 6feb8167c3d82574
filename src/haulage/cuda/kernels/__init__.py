"""Kernels that come with numba.cuda, under numba's long name for them."""

from haulage.cuda.kernels import reduction, transpose

__all__ = ["reduction", "transpose"]
