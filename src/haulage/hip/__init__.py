"""The words of numba.hip, the package numba-hip's: `from haulage import hip`.

They are numba.cuda's, and mean what they mean in `haulage.cuda`.
"""

from haulage.cuda import *  # noqa: F403
from haulage.cuda import __all__ as _of_cuda
from haulage.cuda import __getattr__ as __getattr__
from haulage.cuda import cg as cg
from haulage.cuda import cudadrv as hipdrv  # noqa: F401
from haulage.cuda import random as random
from haulage.hook.installing import install as pose_as_cuda

__all__ = [*_of_cuda, "pose_as_cuda"]


def __dir__() -> list[str]:
    own = {"cg", "hipdrv", "random", *(name for name in globals() if name.startswith("__"))}
    return sorted({*__all__, *own})
