"""numba-cuda's copies of Numba's modules on NumPy: those below this are Numba's own."""

from haulage.cuda.np import ufunc

__all__ = ["ufunc"]
