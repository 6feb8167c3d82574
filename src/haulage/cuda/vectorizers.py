"""What `numba.vectorize(target="cuda")` takes and makes, under numba's long names for it."""

from haulage.compat.absent import absent
from haulage.lib.ufuncs import GUFunc as CUDAGeneralizedUFunc
from haulage.lib.ufuncs import UFunc as CUDAUFuncDispatcher
from haulage.lib.ufuncs.builders import CUDAGUFuncVectorize, CUDAVectorize

__all__ = ["CUDAGUFuncVectorize", "CUDAGeneralizedUFunc", "CUDAUFuncDispatcher", "CUDAVectorize"]

__getattr__ = absent(
    __name__, "an inner part of Numba's ufuncs; Haulage's are made by vectorize and guvectorize"
)
