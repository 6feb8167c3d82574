"""Which parameter each argument of a call goes to: Python itself binds them.

Numba's own binding takes the last positional arguments for keyword-only parameters.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from numba.core import types
from numba.core.datamodel import models, register_default
from numba.core.errors import TypingError
from numba.core.utils import get_hashable_key

NO_KEYWORDS = "a kernel's function cannot take **keywords; name its parameters"
NO_METHOD = (
    "a method made by overload_method cannot have keyword-only parameters; leave out the star"
)


class _LeftOut:
    def __repr__(self) -> str:
        return "LEFT_OUT"


# What a parameter gets whose argument is left out, and which so has its default.
LEFT_OUT = _LeftOut()


class Default(types.Omitted):
    """The type of an argument that is left out.

    Numba keeps one type for equal defaults, and of those 0.0 and -0.0, or (1,) and (True,), differ.
    """

    @property
    def key(self) -> Any:
        return _exactly(self.value)


register_default(Default)(models.OmittedArgDataModel)


def _exactly(value: Any) -> Any:
    if isinstance(value, tuple):
        return type(value), tuple(map(_exactly, value))
    if isinstance(value, (float, complex)):
        # It tells the sign of a zero, and the least difference.
        return type(value), repr(value)
    return type(value), get_hashable_key(value)


def bind(
    name: str, signature: inspect.Signature, args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """One item for each parameter of the function `name`, in their order.

    It is what the call gives, `LEFT_OUT`, or for `*args` a tuple.

    Raises:
        TypingError: Python would not make the call, and why in its words; or the function has
            `**keywords`.
    """
    parameters = signature.parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        raise TypingError(f"{name}(): {NO_KEYWORDS}")
    binder = _binder(
        name, tuple((each.name, each.kind, each.default is each.empty) for each in parameters)
    )
    try:
        bound: tuple[Any, ...] = binder(*args, **named)
    except TypeError as error:
        raise TypingError(str(error)) from None
    return bound


def bind_types(
    name: str, signature: inspect.Signature, args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The same for Numba types: `Default` for what is left out, a tuple's type for `*args`."""

    def kind_of(parameter: inspect.Parameter, bound: Any) -> Any:
        if bound is LEFT_OUT:
            return Default(parameter.default)
        if parameter.kind is parameter.VAR_POSITIONAL:
            return types.StarArgTuple(bound)
        return bound

    parameters = signature.parameters.values()
    return tuple(map(kind_of, parameters, bind(name, signature, args, named)))


def check_method(name: str, kind: Any) -> None:
    """Refuse a method that a program gave to a type and that has keyword-only parameters.

    Numba lowers a method with all its arguments by position.

    Raises:
        TypingError: `kind`, the type of the attribute, is of such a method.
    """
    function = getattr(getattr(kind, "template", None), "_overload_func", None)
    if function is not None and function.__code__.co_kwonlyargcount:
        raise TypingError(f"{name}: {NO_METHOD}")


@lru_cache(maxsize=1024)
def _binder(name: str, parameters: tuple[tuple[str, Any, bool], ...]) -> Callable[..., Any]:
    """A Python function with these parameters, of name, kind and whether a call has to give it.

    It returns what it is called with.
    """
    listed = inspect.Signature(
        [
            inspect.Parameter(each, kind, default=inspect.Parameter.empty if required else LEFT_OUT)
            for each, kind, required in parameters
        ]
    )
    names = "".join(f"{each}, " for each, *_ in parameters)
    made: Callable[..., Any] = eval(
        f"lambda {str(listed)[1:-1]}: ({names})", {"LEFT_OUT": LEFT_OUT}
    )
    made.__qualname__ = name
    return made
