"""The classes of kernels, under numba's long names for them."""

from haulage.compat.absent import absent
from haulage.kernel.as_function import AsFunction as CUDADispatcher
from haulage.kernel.as_function import AsFunction as Dispatcher
from haulage.kernel.launcher import Launcher as ForAll
from haulage.kernel.launcher import Launcher as _LaunchConfiguration
from haulage.kernel.overload import Overload as _Kernel

__all__ = ["CUDADispatcher", "Dispatcher", "ForAll", "_Kernel", "_LaunchConfiguration"]

__getattr__ = absent(
    __name__,
    "it is a part of numba.cuda's own dispatcher; kernels are made by cuda.jit, and cache=True "
    "keeps their code in Haulage's folder",
)
