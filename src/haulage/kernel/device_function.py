"""Functions that kernels call."""

from collections.abc import Callable, Sequence
from typing import Any

from haulage.compiler.options import Options
from haulage.errors import LaunchError


class DeviceFunction:
    """A function that kernels call; made by `@jit(device=True)`.

    It is compiled with the kernels that call it: for the types of the arguments, or for
    `haulage_signatures` only, if there are any; arguments are then converted to theirs.
    """

    haulage_function = True

    def __init__(
        self,
        py_func: Callable[..., Any],
        options: Options,
        hints: dict[str, Any],
        signatures: Sequence[Any] = (),
    ) -> None:
        self.py_func = py_func
        self.haulage_options = options
        self.haulage_signatures = tuple(signatures)
        self.hints = hints
        self.__name__ = py_func.__name__
        self.__qualname__ = py_func.__qualname__
        self.__doc__ = py_func.__doc__
        self.__module__ = py_func.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise LaunchError(
            f"{self.__qualname__} is a device function: only kernels can call it "
            f"(its Python function is {self.__name__}.py_func)"
        )

    def __repr__(self) -> str:
        return f"<device function {self.__qualname__}>"
