"""The names of numba.cuda for the host, under the long name of the simulator's own."""

from haulage.cuda.api import *  # noqa: F403
from haulage.cuda.api import __all__ as __all__
