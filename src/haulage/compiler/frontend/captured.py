"""Globals and closure variables that Numba has no type for: what they are to a kernel."""

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np
from numba.core import types

_NO_NAMESPACES = ("builtins", "numpy", "numba")

_HEAP = (list, dict, set, bytearray)


def refusal(value: Any) -> str | None:
    """Why a kernel cannot use `value`, or None if it may."""
    if hasattr(type(value), "device_pointer") and not isinstance(value, np.ndarray):
        return (
            "an array or record of the device cannot be captured, as its memory can move and be "
            "given back; give it to the kernel as an argument"
        )
    if isinstance(value, _HEAP):
        return f"a kernel cannot use a {type(value).__name__}; capture a tuple or a NumPy array"
    if isinstance(value, type) and value in _HEAP:
        return (
            f"a kernel cannot make a {value.__name__}, as it has no heap; use a tuple, or an array "
            "made by cuda.local.array"
        )
    return None


def is_namespace(value: Any) -> bool:
    """Whether a kernel may read the attributes of `value`, as constants: it is a user's class."""
    return isinstance(value, type) and value.__module__.partition(".")[0] not in _NO_NAMESPACES


def tuple_of_functions(kinds: list[Any]) -> Any:
    """The type of a tuple with functions, each of its own type.

    A named one, as Numba would look for one type of all functions of a plain tuple.
    """
    return types.NamedTuple(kinds, _fields(len(kinds)))


@cache
def _fields(count: int) -> Any:
    return namedtuple("functions", [f"function_{number}" for number in range(count)])
