"""Pickling of functions that decorators made, by their names or with their code."""

import sys
import threading
from abc import abstractmethod
from pickle import PicklingError
from typing import Any

_under_way = threading.local()


class PickledFunction:
    """What a decorator made of a Python function; has its `__module__` and `__qualname__`."""

    __qualname__: str

    @abstractmethod
    def _state(self) -> tuple[Any, ...]:
        """The arguments of `_rebuild`."""

    @classmethod
    @abstractmethod
    def _rebuild(cls, *state: Any) -> Any:
        """What `_state` was taken from."""

    def __reduce__(self) -> Any:
        """By name where a module has it, else with the Python function's code, as Numba does."""
        from haulage import numba_bridge

        if self.__module__ != "__main__" and self._has_name():
            return self.__qualname__
        busy = _under_way.__dict__.setdefault("functions", set())
        if id(self) in busy:
            raise PicklingError(
                f"{self!r} calls itself and is in no module that can be imported; move it into one"
            )
        busy.add(id(self))
        try:
            return _rebuilt, (type(self), numba_bridge.pickled(self._state()))
        finally:
            busy.discard(id(self))

    def _has_name(self) -> bool:
        found: Any = sys.modules.get(self.__module__)
        for name in self.__qualname__.split("."):
            found = getattr(found, name, None)
        return found is self


def _rebuilt(kind: Any, state: bytes) -> Any:
    from haulage import numba_bridge

    return kind._rebuild(*numba_bridge.unpickled(state))
