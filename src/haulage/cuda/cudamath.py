"""Where programs type functions of mathematics, under numba's long name for it."""

from haulage.compat.absent import absent
from haulage.compiler.frontend.extending import typing_registry as registry

__all__ = ["infer_global", "registry"]

infer_global = registry.register_global

__getattr__ = absent(
    __name__,
    "Numba's typing of math functions for PTX; kernels say math.sin, NumPy's ufuncs or "
    "cuda.libdevice.sin, and @numba.extending.overload adds functions",
)
