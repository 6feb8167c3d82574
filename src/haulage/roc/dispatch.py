"""The classes of ufuncs, under numba's long names for them."""

from haulage.compat.absent import absent
from haulage.lib.ufuncs import GUFunc as HSAGenerializedUFunc
from haulage.lib.ufuncs import UFunc as HsaUFuncDispatcher

__all__ = ["HSAGenerializedUFunc", "HsaUFuncDispatcher"]

__getattr__ = absent(__name__, "it is a part of numba.roc's own ufuncs")
