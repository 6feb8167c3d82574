"""Functions that kernels call."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from haulage.compiler.options import Options
from haulage.errors import LaunchError, Unsupported


def declare_device(name: str, sig: Any, link: Any = None) -> NoReturn:
    """`cuda.declare_device`: name a function in PTX or CUDA C, which kernels are linked with.

    Raises:
        Unsupported: always; no device of this version takes such code.
    """
    raise Unsupported(
        f"declare_device({name!r}, {sig!r}): the function is code for NVIDIA's GPUs, which kernels "
        "cannot be linked with in this version; write it in Python with @cuda.jit(device=True)"
    )


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
