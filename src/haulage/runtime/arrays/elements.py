"""Single elements of arrays in memory of the host: plain loads and stores while the device is idle.

Whatever is not as simple as that goes the way of copies, which waits in the order of streams.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from haulage.backends.base import PENDING
from haulage.runtime.devices import printing
from haulage.runtime.process import runtime

if TYPE_CHECKING:
    from haulage.runtime.arrays.array import DeviceNDArray

# The types of indices that name one element of an axis; bool does not.
INTEGERS = frozenset(
    {int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64}
)
# Those of keys that can name one element.
KEYS = INTEGERS | {tuple}

_NUMBERS = frozenset({int, float, complex, bool})


class _Memory:
    """The memory of an array, as NumPy wants it described."""

    __slots__ = ("__array_interface__",)

    def __init__(self, array: "DeviceNDArray", pointer: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.str,
            "strides": array.strides,
            "data": (pointer, False),
        }


class Elements:
    """How the host reads and writes the elements of one array; it does not keep the memory.

    It holds as long as `shape`, `strides` and `dtype` are those objects of the array.

    Attributes:
        in_reach: whether the host does it.
        read, write: `ndarray.__getitem__` and `__setitem__` of a NumPy array over the memory.
    """

    __slots__ = ("dtype", "in_reach", "read", "shape", "strides", "write")

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]

    def __init__(self, array: "DeviceNDArray") -> None:
        self.shape = array.shape
        self.strides = array.strides
        self.dtype = dtype = array.dtype
        near = array.device.properties.host_memory_is_device_memory
        # A record that NumPy reads is no copy.
        self.in_reach = bool(near and array.size and dtype.itemsize and dtype.kind != "V")
        if self.in_reach:
            block = array.block
            pointer = array.device_pointer - block.device_ptr + block.host_ptr
            host = np.asarray(_Memory(array, pointer))
            self.read, self.write = host.__getitem__, host.__setitem__


def _known(array: "DeviceNDArray", key: Any) -> Elements | None:
    """The elements of an array, if the host reads and writes them and `key` may name one."""
    if type(key) is tuple:
        if len(key) != len(array.shape):
            return None
        for number in key:
            if type(number) not in INTEGERS:
                return None
    elif len(array.shape) != 1:
        return None
    try:
        known = array._elements
    except AttributeError:
        known = array._elements = Elements(array)
    if (
        known.shape is not array.shape
        or known.strides is not array.strides
        or known.dtype is not array.dtype
    ):
        known = array._elements = Elements(array)
    # Where somebody is to hear of it, it is a copy; a closed array and a capture are errors.
    if (
        not known.in_reach
        or runtime.current.watchers
        or runtime.current.observer is not None
        or array.device.capturing
        or array.block.closed
    ):
        return None
    return known


def load(array: "DeviceNDArray", key: Any) -> Any:
    """The element at `key`, which is of `KEYS`; `PENDING` where that is to be copied."""
    known = _known(array, key)
    if known is None:
        return PENDING
    try:
        value = array.device.backend.host_access(known.read, key)
    except (IndexError, OverflowError):
        return PENDING  # who copies says what is wrong
    if runtime.current.printing and value is not PENDING:
        printing.flush()  # as after each wait
    return value


def store(array: "DeviceNDArray", key: Any, value: Any) -> bool:
    """Write the element at `key`, which is of `KEYS`; False where that is to be copied.

    Raises:
        TypeError, ValueError, OverflowError: as NumPy's assignment.
    """
    kind = type(value)
    if array.readonly or (kind not in _NUMBERS and kind is not array.dtype.type):
        return False
    known = _known(array, key)
    if known is None:
        return False
    try:
        done = array.device.backend.host_access(known.write, key, value) is not PENDING
    except (IndexError, OverflowError):
        return False
    if runtime.current.printing and done:
        printing.flush()
    return done
