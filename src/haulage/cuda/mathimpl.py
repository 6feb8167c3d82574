"""How Numba lowers mathematics for NVIDIA's GPUs; nothing of it is here."""

from haulage.compat.absent import absent

__getattr__ = absent(
    __name__,
    "Numba's lowering of math functions to libdevice; kernels say math.sin, NumPy's ufuncs or "
    "cuda.libdevice.sin, and @numba.extending.overload adds functions",
)
