"""How Numba lowers `print` for NVIDIA's GPUs; nothing of it is here."""

from haulage.compat.absent import absent

__getattr__ = absent(
    __name__, "print is lowered by Haulage and takes strings, numbers, bools, dates and tuples"
)
