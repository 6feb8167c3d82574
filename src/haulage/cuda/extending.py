"""Extending the kernel language; names that are not here are those of `numba.extending`."""

from haulage.compiler.frontend.extending import __getattr__ as __getattr__
from haulage.compiler.frontend.extending import (
    core_models,
    infer,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    overload,
    overload_attribute,
    overload_method,
)

__all__ = [
    "core_models",
    "infer",
    "infer_getattr",
    "intrinsic",
    "lower_getattr_generic",
    "lower_setattr_generic",
    "overload",
    "overload_attribute",
    "overload_method",
]
