"""`extensions=`: objects of the user's that prepare the arguments of launches."""

from collections.abc import Callable, Sequence
from typing import Any

from haulage.errors import LaunchTypeError
from haulage.runtime.launching.arguments import key_of


def prepared(
    extensions: Sequence[Any], args: tuple[Any, ...], stream: Any
) -> tuple[tuple[Any, ...], list[Callable[[], Any]]]:
    """The arguments that a kernel gets, and what is to be called once it is launched.

    Each extension, the last one first, is asked for each argument:
    `prepare_args(type, value, stream=..., retr=...)` gives (type, value), Numba's type and what
    takes the argument's place; to `retr` it may append functions. The kernel is compiled for the
    last value.

    Raises:
        LaunchTypeError: Numba has no type for an argument.
    """
    later: list[Callable[[], Any]] = []
    values = []
    for value in args:
        given: tuple[Any, Any] = (_type_of(value), value)
        for extension in reversed(extensions):
            given = extension.prepare_args(*given, stream=stream, retr=later)
        values.append(given[1])
    return tuple(values), later


def _type_of(value: Any) -> Any:
    from haulage import numba_bridge

    try:
        return numba_bridge.numba_type(key_of(value))
    except TypeError as error:
        # It need be no argument before the extensions have made one of it.
        kind = numba_bridge.any_type(value)
        if kind is None:
            raise LaunchTypeError(str(error)) from None
        return kind
