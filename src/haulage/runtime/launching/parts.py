"""What the arguments of repeated launches are, and what they pack to, without looking at each anew.

The *kind* of an argument stands for its key and its device: arguments with one kind are checked,
compiled for and packed alike. Kinds are looked up in each launch, so they are things that hash
fast. What a device array packs to is kept with the array.
"""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.device import Device
from haulage.runtime.launching import arguments
from haulage.runtime.launching.arguments import SCALAR, Key


class ArrayKind:
    """The kind of device arrays with one key on one device; two of them are one object."""

    __slots__ = ("device", "key")

    def __init__(self, device: Device, key: Key) -> None:
        self.device = device
        self.key = key


class MovingKind:
    """The kind of arrays with one key that move themselves, whatever device they are on; two of
    them are one object."""

    __slots__ = ("key",)

    def __init__(self, key: Key) -> None:
        self.key = key


# The classes of arrays that move themselves as kernels use them: they have the attributes and
# methods that `placing.Placement.move` tells of, `__haulage_is_there__(device)`, which says whether
# their elements are where kernels on a device need them, and room for `_launch_kind`.
MOVING: set[type] = set()

_moving_kinds: dict[Key, MovingKind] = {}


def moving_kind(value: Any) -> MovingKind:
    """The kind of an array that moves itself, which is kept with it."""
    key = arguments.key_of(value)
    value._launch_kind = kind = _moving_kinds.setdefault(key, MovingKind(key))
    return kind


class Part:
    """What a device array is in a launch: its kind, and its bytes in the argument block.

    It holds as long as `shape` and `strides` are those objects of the array.
    """

    __slots__ = ("data", "kind", "shape", "strides")

    def __init__(self, kind: ArrayKind, array: DeviceNDArray) -> None:
        self.kind = kind
        self.shape = array.shape
        self.strides = array.strides
        self.data = arguments.pack_array(array)


_kinds: dict[tuple[Device, Key], ArrayKind] = {}


def part_of(array: DeviceNDArray) -> Part:
    """The part of an array in launches, which is kept with it."""
    key = arguments.key_of(array)
    kind = _kinds.setdefault((array.device, key), ArrayKind(array.device, key))
    array._launch_part = made = Part(kind, array)
    return made


def current_part(array: DeviceNDArray) -> Part:
    """The part that is kept with an array, or a new one if it does not hold any more."""
    part: Part | None = getattr(array, "_launch_part", None)
    if part is None or part.shape is not array.shape or part.strides is not array.strides:
        part = part_of(array)
    return part


def kind_of(value: Any) -> Any:
    """The kind of an argument; None if it has none."""
    kind = type(value)
    if kind is DeviceNDArray:
        return current_part(value).kind
    if kind is np.ndarray:
        return host_kind(value)
    if kind in NUMBERS and (kind is not int or -GREATEST_INT <= value <= GREATEST_INT):
        return kind
    return None


# C and F contiguous, aligned, writeable: as `ndarray.flags.num` has them.
_FLAGS = 0x1 | 0x2 | 0x100 | 0x400

HostKind = tuple[np.dtype[Any], int, int]


def host_kind(array: np.ndarray[Any, Any]) -> HostKind:
    """The kind of a host array."""
    return array.dtype, array.ndim, array.flags.num & _FLAGS


# The kinds of numbers are their types: those whose values `struct` packs as they are.
NUMBERS = frozenset(
    {int, float, bool, np.float32, np.float64}
    | {np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64}
)
# A larger int has another key.
GREATEST_INT = 2**63 - 1


def block_packer(
    header: int, kinds: tuple[Any, ...], declared: tuple[Key, ...]
) -> Callable[..., bytes] | None:
    """What makes a launch's bytes of its header, of `header` bytes, a multiple of 16, and of the
    arguments in order: arrays as bytes, device arrays by the data of their parts and host arrays
    by `arguments.pack_array`, and numbers as they are.

    It raises `struct.error` or OverflowError for numbers that have to be converted.

    Args:
        kinds: of the arguments.
        declared: the keys of the signature that the code was made for.

    Returns:
        None where arguments of these kinds have to be converted.
    """
    formats = [f"@{header}s"]
    for kind, key in zip(kinds, declared, strict=True):
        if isinstance(kind, (ArrayKind, MovingKind, tuple)):
            formats.append(arguments.array_format(key))
        elif key[0] == SCALAR and _packs_as_it_is(kind, key[1]):
            formats.append(arguments.scalar_format(key[1]))
        else:
            return None
    return struct.Struct("".join(formats)).pack


def _packs_as_it_is(kind: type, dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iuf" or (dtype.kind == "b" and kind is bool)
