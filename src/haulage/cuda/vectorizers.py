"""What `numba.vectorize(target="cuda")` takes, under numba's long name for it."""

from haulage.lib.ufuncs.builders import CUDAGUFuncVectorize, CUDAVectorize

__all__ = ["CUDAGUFuncVectorize", "CUDAVectorize"]
