"""Names of Numba's modules that have no counterpart: an error that says so, and why."""

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn


def absent(module: str, why: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module, for the names that it has not.

    Args:
        module: the module's `__name__`.
        why: the reason, and what to do, for the end of a sentence.

    Returns:
        A function that raises as `refuse` does.
    """

    def __getattr__(name: str) -> NoReturn:
        refuse(module, name, why, sys._getframe(1))

    return __getattr__


def refuse(module: str, name: str, why: str, asking: FrameType) -> NoReturn:
    """Tell that a module has not a name, and why.

    Args:
        module: the module's `__name__`.
        name: what is asked of it.
        why: the reason, and what to do, for the end of a sentence.
        asking: the frame that asks: the caller of the module's `__getattr__`.

    Raises:
        ImportError: from within `from module import name`, because Python would replace an
            AttributeError there, and its reason with it.
        AttributeError: from everywhere else, and for names such as `__path__`.
    """
    shown = module.replace("haulage", "numba", 1)
    if name.startswith("__"):
        raise AttributeError(f"module {shown!r} has no attribute {name!r}", name=name)
    message = f"Haulage's {shown} has no {name!r}: {why}"
    if asking.f_code.co_code[asking.f_lasti] == dis.opmap["IMPORT_FROM"]:
        raise ImportError(message, name=module)
    raise AttributeError(message, name=name)
