"""Numbers of CUDA's driver, under numba's long name for their module."""

from haulage.compat.cuda_numbers import *  # noqa: F403
