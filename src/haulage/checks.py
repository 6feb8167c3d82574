"""What public functions take: values of arguments, checked where they come in."""

import operator
from collections.abc import Collection
from typing import Any, SupportsIndex


def whole_number(
    value: SupportsIndex, what: str, least: int | None = None, most: int | None = None
) -> int:
    """`value` as an int.

    Args:
        value: what was given.
        what: the argument, as a message names it: 'Stream: handle'.
        least, most: bounds, if there are any.

    Raises:
        TypeError: it is no whole number; a bool is none.
        ValueError: it is beyond a bound.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} {value!r}: expected a whole number{_from(least)}") from None
    if (least is not None and number < least) or (most is not None and number > most):
        up_to = "" if most is None else f" to {most}"
        raise ValueError(f"{what} {number}: expected a whole number{_from(least)}{up_to}")
    return number


def _from(least: int | None) -> str:
    return "" if least is None else f" from {least}"


def one_of(value: Any, what: str, words: Collection[str]) -> str:
    """`value` if it is one of some words.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, str) or value not in words:
        *others, last = map(repr, words)
        expected = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"{what} {value!r}: expected {expected}")
    return value


def flag(value: Any, what: str) -> bool:
    """`value` as a bool, as Python's `if` takes it.

    Raises:
        TypeError: it is neither true nor false, as an array of several elements.
    """
    if value is True or value is False:
        return value
    try:
        return bool(value)
    except Exception:
        raise TypeError(f"{what}={value!r}: expected True or False") from None
