"""Numba's registration of its own compiler for NVIDIA's GPUs; nothing of it is here."""

from haulage.compat.absent import absent

__getattr__ = absent(
    __name__, "it registers Numba's own compiler for NVIDIA's GPUs; nothing needs that here"
)
