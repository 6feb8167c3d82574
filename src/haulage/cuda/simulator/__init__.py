"""Numba's simulator, which Haulage's CPU device stands in for; nothing of it is here."""

from haulage.compat.absent import absent

__getattr__ = absent(
    __name__,
    "Numba's simulator of CUDA; Haulage compiles kernels for the CPU instead (HAULAGE_DEVICE=cpu), "
    "and debug=True finds failing threads there",
)
