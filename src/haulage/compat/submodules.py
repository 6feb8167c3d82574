"""Submodules that a program may name without importing them, as numba.cuda has imported them."""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any


def submodules_of(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: its submodules, imported when they are first asked for.

    Args:
        package: the package's `__name__`.

    Returns:
        A function that raises an AttributeError for what is no submodule.
    """

    def __getattr__(name: str) -> Any:
        own = f"{package}.{name}"
        if name.startswith("__") or importlib.util.find_spec(own) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        return importlib.import_module(own)

    return __getattr__
