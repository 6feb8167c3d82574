"""Where programs that extend numba.cuda register types, functions and attributes for kernels.

What is registered here holds for kernels of both vocabularies on every device, as do Numba's own
`overload(target="cuda")` and what is registered for all targets.
"""

import functools
from typing import Any

from numba import extending
from numba.core.datamodel import DataModelManager
from numba.core.datamodel import models as core_models
from numba.core.datamodel.registry import register
from numba.core.imputils import Registry, lower_getattr_generic, lower_setattr_generic
from numba.core.typing.templates import Registry as TypingRegistry
from numba.core.typing.templates import infer, infer_getattr
from numba.extending import intrinsic as _intrinsic
from numba.extending import overload as _overload
from numba.extending import overload_attribute as _overload_attribute
from numba.extending import overload_method as _overload_method

__all__ = [
    # What the package numba-cuda has here besides what `numba.extending` has.
    "core_models",
    "data_models",
    "infer",
    "infer_getattr",
    "intrinsic",
    "lower_getattr_generic",
    "lower_setattr_generic",
    "lowering_registry",
    "overload",
    "overload_attribute",
    "overload_method",
    "register_model",
    "typing_registry",
]

# The types of calls and attributes, and what LLVM IR they become.
typing_registry = TypingRegistry()
lowering_registry = Registry("cuda")

# What values of a type are made of, in kernels only.
data_models = DataModelManager()
register_model = functools.partial(register, data_models)

intrinsic: Any = _intrinsic(target="cuda")
overload = functools.partial(_overload, target="cuda")
overload_attribute = functools.partial(_overload_attribute, target="cuda")
overload_method = functools.partial(_overload_method, target="cuda")


def __getattr__(name: str) -> Any:
    """What all targets share."""
    return getattr(extending, name)
