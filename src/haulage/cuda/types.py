"""The types of kernels' words; names that are not here are those of `numba.types`."""

from haulage.compiler.frontend.kinds import (
    CUDADispatcher,
    Dim3,
    GridGroup,
    grid_group,
)
from haulage.compiler.frontend.kinds import __getattr__ as __getattr__

__all__ = ["CUDADispatcher", "Dim3", "GridGroup", "grid_group"]
