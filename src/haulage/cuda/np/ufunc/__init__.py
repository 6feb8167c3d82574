"""What makes ufuncs, under numba-cuda's long name for its package."""

from haulage.lib.ufuncs import cuda_guvectorize as guvectorize
from haulage.lib.ufuncs import cuda_vectorize as vectorize

__all__ = ["guvectorize", "vectorize"]
