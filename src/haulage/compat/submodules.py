"""What a program may name without importing it, as numba.cuda has imported it."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any


def submodules_of(
    package: str, modules: Mapping[str, str] | None = None, names: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of a package: its submodules, imported when they are first asked for.

    Args:
        package: the package's `__name__`.
        modules: names of modules that lie elsewhere, and where.
        names: names of what is in other modules, and which.

    Returns:
        A function that raises an AttributeError for what is neither.
    """
    modules, names = modules or {}, names or {}

    def __getattr__(name: str) -> Any:
        if name in names:
            return getattr(importlib.import_module(names[name]), name)
        own = modules.get(name, f"{package}.{name}")
        if name.startswith("__") or importlib.util.find_spec(own) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        return importlib.import_module(own)

    return __getattr__
