"""What `numba.vectorize(target="roc")` takes, under numba's long name for it."""

from haulage.lib.ufuncs.builders import ROCGUFuncVectorize as HsaGUFuncVectorize
from haulage.lib.ufuncs.builders import ROCVectorize as HsaVectorize

__all__ = ["HsaGUFuncVectorize", "HsaVectorize"]
