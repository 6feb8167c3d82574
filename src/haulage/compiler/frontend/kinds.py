"""Numba's types of what kernels name, for programs that ask for them."""

from typing import Any

from numba import types

from haulage.compiler.frontend.words import Register3Type as Dim3
from haulage.lang.tools import GridGroupType as GridGroup

__all__ = ["CUDADispatcher", "Dim3", "GridGroup", "grid_group"]

CUDADispatcher = types.Dispatcher
grid_group = GridGroup()


def __getattr__(name: str) -> Any:
    """What all targets share."""
    return getattr(types, name)
