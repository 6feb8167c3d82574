"""Errors of functions that others gave, where no call could raise them: they are reported.

What gives memory back runs when a last reference goes, or later, in the midst of any call of
Haulage. What it raises is no matter of that call; Python treats a `__del__` that raises the same.
"""

from collections.abc import Callable
from typing import Any


class _Raising:
    """Stands for a `__del__`, by a name of its own."""

    def __init__(self, error: BaseException, name: str) -> None:
        self._errors = [error]
        self._name = name

    def __call__(self, *_: Any) -> None:
        # It lets go of the error: the class that it is in lives until the next garbage collection.
        raise self._errors.pop()

    def __repr__(self) -> str:
        return self._name


def call(function: Callable[..., object], *args: Any, name: str) -> None:
    """Call `function(*args)`; an exception of it goes to `sys.unraisablehook`, with `name`."""
    try:
        function(*args)
    except Exception as error:
        # The hook's own arguments cannot be made in Python; an object that dies makes them.
        type("_Dying", (), {"__del__": _Raising(error, name)})()
