"""The arguments of a launch, read from the bytes that its compiled code would read."""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from haulage.interpreting.arrays import Record, over
from haulage.interpreting.numbers import number
from haulage.runtime.arrays.keys import ARRAY, DTYPE, ENUM, NONE, RECORD, SCALAR, TUPLE, Key
from haulage.runtime.launch.packing import places


def arguments(keys: tuple[Key, ...], packed: bytes) -> tuple[Any, ...]:
    """One value for each key, of the type that the code was made for.

    Args:
        keys: of the signature that the code was made for.
        packed: a header and the argument block.

    Raises:
        TypeError: there is an argument of a kind that Python has nothing for, such as a pointer.
    """
    found = places(keys)
    header = len(packed) - max((each.stop for each in found), default=0)
    fields = iter([memoryview(packed)[header:][each] for each in found])
    return tuple(_value(key, fields) for key in keys)


def _value(key: Key, fields: Iterator[memoryview]) -> Any:
    kind = key[0]
    if kind == TUPLE:
        values = [_value(each, fields) for each in key[1]]
        return tuple(values) if key[2] is None else key[2](*values)
    if kind == ENUM:
        value = _value(key[2], fields)
        return key[1](value.item() if isinstance(value, np.generic) else value)
    field = next(fields)
    if kind == ARRAY:
        axes = key[2]
        words = struct.unpack(f"={5 + 2 * axes}q", field)
        address = words[4] & ((1 << 64) - 1)
        return over(address, words[5 : 5 + axes], words[5 + axes :], key[1], bool(key[4]))
    if kind == RECORD:
        (address,) = struct.unpack("=Q", field)
        return Record(over(address, (), (), key[1], bool(key[2])).view(np.ndarray)[()])
    if kind == SCALAR:
        return number(np.frombuffer(field, key[1])[0])
    if kind == NONE:
        return None
    if kind == DTYPE:
        return key[1].type if key[2] else key[1]
    raise TypeError(f"no debugger can show an argument of kind {kind!r}")
