"""Extending the kernel language; names that are not here are those of `numba.extending`."""

from haulage.compiler.frontend.extending import __getattr__ as __getattr__
from haulage.compiler.frontend.extending import (
    intrinsic,
    overload,
    overload_attribute,
    overload_method,
)

__all__ = ["intrinsic", "overload", "overload_attribute", "overload_method"]
