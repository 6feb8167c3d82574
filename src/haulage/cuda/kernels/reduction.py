"""`cuda.reduce`, under numba's long name for it."""

from haulage.lib.reduce import Reduce

__all__ = ["Reduce"]
