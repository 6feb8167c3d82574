"""What a package has without having imported it: its rarer names, and its submodules."""

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from haulage.compat import not_here
from haulage.compat.absent import refuse
from haulage.spelling import did_you_mean

_NOT_OFFERED = {"Any", "TYPE_CHECKING", "annotations"}


def submodules_of(
    package: str,
    modules: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    why: str = "",
    offered: Iterable[str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package that imports what is asked for only then.

    Args:
        package: the package's `__name__`.
        modules: names of modules that lie elsewhere than in the package, and where.
        names: names of what is in other modules, and the full name of each.
        offered: the names that `dir()` gives, for completion; without it all that are not of the
            import machinery or of `typing`. What is not offered is there all the same.
        why: why the package has nothing else, as for `absent`, where `not_here` says no more.

    Returns:
        A function that gives the submodule, the module or the object of a name, and raises an
        AttributeError for what is none of them; and one that lists the names.
    """
    modules, names = modules or {}, names or {}

    def __getattr__(name: str) -> Any:
        if name in names:
            home, _, attribute = names[name].rpartition(".")
            return getattr(importlib.import_module(home), attribute)
        own = modules.get(name, f"{package}.{name}")
        if not name.startswith("__") and importlib.util.find_spec(own) is not None:
            return importlib.import_module(own)
        reason = not_here.why(f"{package}.{name}".replace("haulage", "numba", 1)) or why
        if reason and not name.startswith("__"):
            refuse(package, name, reason, sys._getframe(1))
        meant = "" if name.startswith("_") else did_you_mean(name, known())
        raise AttributeError(f"module {package!r} has no attribute {name!r}{meant}", name=name)

    def known() -> set[str]:
        here = sys.modules[package]
        own = {each.name for each in pkgutil.iter_modules(here.__path__)}
        return {*vars(here), *own, *modules, *names} - _NOT_OFFERED

    def __dir__() -> list[str]:
        here = sys.modules[package]
        if offered is not None:
            return sorted({*offered, *(name for name in vars(here) if name.startswith("__"))})
        return sorted(known())

    return __getattr__, __dir__
