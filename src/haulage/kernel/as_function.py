"""What device functions and kernels share: other kernels call them, and they can be pickled."""

import sys
import threading
from abc import abstractmethod
from collections.abc import Callable
from pickle import PicklingError
from typing import Any

from haulage.compiler.options import Options
from haulage.kernel.vocabulary import Vocabulary
from haulage.platforms import PLATFORMS
from haulage.runtime import device

_under_way = threading.local()


class AsFunction:
    """A Python function that is compiled with the kernels that call it."""

    haulage_function = True

    def __init__(
        self,
        py_func: Callable[..., Any],
        vocabulary: Vocabulary,
        options: Options,
        hints: dict[str, Any],
    ) -> None:
        self.py_func = py_func
        self.vocabulary = vocabulary
        self.haulage_options = options
        self.hints = hints
        self.__name__ = py_func.__name__
        self.__qualname__ = py_func.__qualname__
        self.__doc__ = py_func.__doc__
        self.__module__ = py_func.__module__
        # Where `inspect`, `doctest` and their like find the source and the parameters.
        self.__wrapped__ = py_func

    def compile_device(self, args: Any, return_type: Any = None) -> Any:
        """Type and lower it now, as a function that kernels call on the current device.

        Args:
            args: the arguments' types, a tuple of Numba types, dtypes or their names.
            return_type: the Numba type that the result is converted to; None is what it is.

        Returns:
            Numba's compile result.

        Raises:
            TypeError: something names no type.
            CompileError: it cannot be compiled for them.
        """
        from haulage.compiler.frontend import compile_function, parse_function_signature

        kinds, _ = parse_function_signature(tuple(args))
        return compile_function(self, kinds, return_type, self._target())

    def _target(self) -> Any:
        return PLATFORMS[device.current_device().kind].target_maker()(self.vocabulary.warp_size)

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
