"""The parameters of a kernel's Python function, the arguments that a call gives for them, and what
objects given to `jit(extensions=...)` make of these."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from haulage.errors import LaunchTypeError
from haulage.runtime.launch.kinds import key_of

_VAR_POSITIONAL, _VAR_KEYWORD = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


class Parameters:
    """Parameters in the order in which the kernel takes them.

    `plain_count` is how many arguments a call has that needs no `bind`: None if all calls do, as
    the function has `*args`, which a kernel takes as one tuple.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = inspect.signature(function).parameters.values()
        self._function = function.__qualname__
        self.names = tuple(each.name for each in parameters)
        self._defaults = {
            each.name: each.default for each in parameters if each.default is not each.empty
        }
        self._by_position = tuple(
            each.name for each in parameters if each.kind <= each.POSITIONAL_OR_KEYWORD
        )
        self._by_name = frozenset(
            each.name
            for each in parameters
            if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        )
        self._rest = next((each.name for each in parameters if each.kind == _VAR_POSITIONAL), None)
        self._any_name = any(each.kind == _VAR_KEYWORD for each in parameters)
        special = self._any_name or len(self._by_position) != len(self.names)
        self.plain_count = None if special else len(self.names)

    def bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """One value for each parameter, as a call of the Python function would bind them.

        Raises:
            LaunchTypeError: arguments are missing, too many, unknown or given twice.
        """
        if self._any_name:
            raise self._refusal("**keyword parameters have no place in a kernel")
        if len(args) > len(self._by_position) and self._rest is None:
            takes = len(self._by_position)
            raise self._refusal(f"takes {takes} arguments, got {len(args)} by position")
        values = dict(zip(self._by_position, args, strict=False))
        for problem, names in (
            ("has no argument", [name for name in named if name not in self._by_name]),
            ("got twice", [name for name in named if name in values]),
        ):
            if names:
                raise self._refusal(f"{problem} {_quoted(names)}")
        values.update(named)
        if self._rest is not None:
            values[self._rest] = args[len(self._by_position) :]
        given = {**self._defaults, **values}
        missing = [name for name in self.names if name not in given]
        if missing:
            raise self._refusal(
                f"takes {len(self.names)} arguments, got {len(args) + len(named)}: "
                f"missing {_quoted(missing)}"
            )
        return tuple(given[name] for name in self.names)

    def _refusal(self, problem: str) -> LaunchTypeError:
        return LaunchTypeError(f"kernel {self._function}: {problem}")


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names))


# ---- extensions -------------------------------------------------------------------------------


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
    if not extensions:
        return args, later
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
