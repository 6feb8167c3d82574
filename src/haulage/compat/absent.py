"""Names of Numba's modules that have no counterpart: an error that says so, and why."""

import dis
import sys
from collections.abc import Callable
from typing import NoReturn


def absent(module: str, why: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module, for the names that it has not.

    Args:
        module: the module's `__name__`.
        why: the reason, and what to do, for the end of a sentence.

    Returns:
        A function that raises an AttributeError; from within `from module import name` an
        ImportError, because Python would replace the AttributeError there, and its reason with it.
    """
    shown = module.replace("haulage", "numba", 1)

    def __getattr__(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"module {shown!r} has no attribute {name!r}")
        message = f"Haulage's {shown} has no {name!r}: {why}"
        asking = sys._getframe(1)
        operation = asking.f_code.co_code[asking.f_lasti]
        if operation == dis.opmap["IMPORT_FROM"]:
            raise ImportError(message, name=module)
        raise AttributeError(message, name=name)

    return __getattr__
