"""Hints of arguments: which way a host array is copied for a kernel."""

import enum
from typing import Any

import numpy as np

from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.buffers.coherent import is_coherent
from haulage.runtime.protocols.offered import is_foreign


class ArgHint:
    """Says which way an argument of a kernel is copied: `In`, `Out` or `InOut`.

    Args:
        value: a host array or record, or one on the device, to which no hint applies.

    Raises:
        TypeError: it is neither.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        if not (
            isinstance(value, (np.ndarray, np.void, DeviceNDArrayBase))
            or is_coherent(value)
            or is_foreign(value)
        ):
            raise TypeError(
                f"{type(self).__name__}({value!r}): expected a NumPy array or record, "
                "or an array on the device"
            )
        self.value = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


class In(ArgHint):
    """Only the kernel's input: copied to the device; what the kernel writes to it is dropped.

    Of a SmartArray, a kernel that writes to it gets a copy, which is made on the device.
    """

    __slots__ = ()


class Out(ArgHint):
    """Only the kernel's output: copied back; on the device its elements are undefined at first.

    A SmartArray is not brought to the device, and then current there only.
    """

    __slots__ = ()


class InOut(ArgHint):
    """Copied to the device before the kernel runs and back after it, as without a hint."""

    __slots__ = ()


def wrap_arg(value: Any, default: type[ArgHint] = InOut) -> ArgHint:
    """An argument with a hint: as it is if it has one, else with `default`.

    Raises:
        TypeError: it is neither a host array or record nor one on the device.
    """
    return value if isinstance(value, ArgHint) else default(value)


def leaves(values: Any) -> list[Any]:
    """Arguments without their hints, members of Enums by value, the entries of tuples instead of
    these."""
    found = []
    for value in values:
        if isinstance(value, ArgHint):
            value = value.value
        if isinstance(value, enum.Enum):
            value = value.value
        if isinstance(value, tuple):
            found += leaves(value)
        else:
            found.append(value)
    return found


def without_hints(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments without their hints, also in tuples."""
    bare = [value.value if isinstance(value, ArgHint) else value for value in values]
    return tuple([without_hints(each) if isinstance(each, tuple) else each for each in bare])
