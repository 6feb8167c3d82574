"""The names of numba.cuda, under numba's long name for where it takes them from."""

from haulage.cuda import *  # noqa: F403
from haulage.cuda import __all__ as __all__
