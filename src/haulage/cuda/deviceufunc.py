"""How generalised ufuncs take shapes apart, under numba's long name for it."""

from haulage.compat.absent import absent
from haulage.compat.gufunc_schedule import GUFuncEngine, GUFuncSchedule

__all__ = ["GUFuncEngine", "GUFuncSchedule"]

__getattr__ = absent(
    __name__,
    "classes to derive a ufunc of another device from; Haulage's ufuncs are made by "
    "cuda.vectorize and cuda.guvectorize only",
)
