"""How Numba lowers NumPy's ufuncs for NVIDIA's GPUs; nothing of it is here."""

from haulage.compat.absent import absent

__getattr__ = absent(
    __name__,
    "Numba's table of libdevice behind NumPy's ufuncs; kernels call the ufuncs themselves",
)
