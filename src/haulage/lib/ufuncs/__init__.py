"""`vectorize` and `guvectorize`: a function of elements, or of small arrays, for whole arrays."""

from haulage.lib.ufuncs.decorators import (
    cuda_guvectorize,
    cuda_vectorize,
    roc_guvectorize,
    roc_vectorize,
)
from haulage.lib.ufuncs.gufunc import GUFunc
from haulage.lib.ufuncs.ufunc import UFunc

__all__ = [
    "GUFunc",
    "UFunc",
    "cuda_guvectorize",
    "cuda_vectorize",
    "roc_guvectorize",
    "roc_vectorize",
]
