"""The kernels of Numba's simulator; nothing of them is here."""

from haulage.compat.absent import absent

__getattr__ = absent(
    __name__,
    "Numba's simulator of CUDA; Haulage compiles kernels for the CPU instead (HAULAGE_DEVICE=cpu)",
)
