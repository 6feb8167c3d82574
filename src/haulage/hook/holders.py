"""Who holds names of modules that were replaced."""

import sys
from types import FunctionType, ModuleType

from haulage.hook.answers import answer


def holders() -> list[str]:
    """The modules that have modules, functions or classes of the replaced ones as globals."""
    found = set()
    for module in tuple(sys.modules.values()):
        if not isinstance(module, ModuleType):
            continue
        name = _home(module)
        if name.split(".")[0] not in ("numba", "haulage"):
            homes = {_home(value) for value in tuple(_globals(module).values())}
            if any(answer(home) for home in homes):
                found.add(name)
    return sorted(found)


def _home(value: object) -> str:
    """The name of a module, or of the module that a function or class is of; else ''."""
    if isinstance(value, ModuleType):
        return str(_globals(value).get("__name__", ""))
    return str(value.__module__) if isinstance(value, (FunctionType, type)) else ""


def _globals(module: ModuleType) -> dict[str, object]:
    # A module that loads when first used would do so if it were asked in the ordinary way.
    fields: dict[str, object] = object.__getattribute__(module, "__dict__")
    return fields
