"""Where programs lower functions of mathematics, under numba's long name for it."""

from haulage.compat.absent import absent
from haulage.compiler.frontend.extending import lowering_registry as registry

__all__ = ["lower", "registry"]

lower = registry.lower

__getattr__ = absent(
    __name__,
    "Numba's lowering of math functions to libdevice; kernels say math.sin, NumPy's ufuncs or "
    "cuda.libdevice.sin, and @numba.extending.overload adds functions",
)
