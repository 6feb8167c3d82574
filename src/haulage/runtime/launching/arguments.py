"""Kernel arguments: the key that a value's type has, and its bytes in the argument block.

Keys are made without Numba, so that a launch whose code is known costs no more than a dictionary
look-up; `haulage.numba_bridge` makes Numba types of them when code has to be compiled.
"""

import enum
import re
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from haulage.errors import LaunchError
from haulage.runtime.arrays import fields
from haulage.runtime.arrays.address import address_of
from haulage.runtime.arrays.array import DeviceNDArray, DeviceRecord

Key = tuple[Any, ...]

ARRAY, RECORD, SCALAR, TUPLE = "array", "record", "scalar", "tuple"
ENUM, NONE, DTYPE, POINTER, OTHER = "enum", "none", "dtype", "pointer", "other"

_BOOL, _INT, _UINT = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.uint64)
_FLOAT, _COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)

# An address without these bits is aligned for every dtype.
_MOST_ALIGNED = 15

_FORMATS = {
    **dict(zip(("i1", "i2", "i4", "i8"), "bhiq", strict=True)),
    **dict(zip(("u1", "u2", "u4", "u8"), "BHIQ", strict=True)),
    **dict(zip(("f2", "f4", "f8"), "efd", strict=True)),
    **{"b1": "B", "c8": "ff", "c16": "dd", "M8": "q", "m8": "q"},
}


def key_of(value: Any) -> Key:
    """What decides how a kernel is compiled for an argument.

    Takes arrays and records of the device and of NumPy, NumPy scalars, Python numbers, None,
    members of Enums whose values are of one type, NumPy's dtypes and classes of scalars, and tuples
    of these.

    Raises:
        TypeError: the value is none of these.
    """
    if type(value) is DeviceNDArray:
        if value.device_pointer & _MOST_ALIGNED or value.layout == "A":
            return _device_array_key(value)
        return (ARRAY, value.dtype, len(value.shape), value.layout, value.readonly, True)
    kind = type(value)
    if kind is np.ndarray:
        return _host_array_key(value)
    if kind is bool:
        return (SCALAR, _BOOL)
    if kind is float:
        return (SCALAR, _FLOAT)
    if hasattr(kind, "__haulage_layout__"):
        return (ARRAY, *value.__haulage_layout__)
    if isinstance(value, DeviceRecord):
        aligned = fields.is_aligned(value.dtype, value.device_pointer, (), ())
        return (RECORD, value.dtype, value.readonly, aligned)
    if isinstance(value, np.generic):
        if isinstance(value, np.void) and value.dtype.names is not None:
            return _host_record_key(value)
        if value.dtype.kind not in "biufcMm":
            raise TypeError(f"a kernel cannot take a NumPy scalar of dtype {value.dtype}")
        return (SCALAR, value.dtype)
    if isinstance(value, np.ndarray):
        return _host_array_key(value)
    if isinstance(value, int):
        if isinstance(value, enum.Enum):
            return (ENUM, kind, (SCALAR, _INT))
        return (SCALAR, _integer_dtype(value))
    if isinstance(value, DeviceNDArray):
        return _device_array_key(value)
    if isinstance(value, float):
        return (SCALAR, _FLOAT)
    if isinstance(value, complex):
        return (SCALAR, _COMPLEX)
    if isinstance(value, tuple):
        named = kind if hasattr(value, "_fields") else None
        return (TUPLE, tuple(key_of(part) for part in value), named)
    if value is None:
        return (NONE,)
    if isinstance(value, enum.Enum):
        return (ENUM, kind, _enum_key(kind))
    if isinstance(value, np.dtype):
        return (DTYPE, value, False)
    if isinstance(value, type) and issubclass(value, (np.number, np.bool_)):
        return (DTYPE, np.dtype(value), True)
    raise TypeError(
        f"a kernel cannot take {_shown(value)} of type {kind.__name__}{_instead(value)}: expected "
        "an array or a record, of the device or of NumPy, a NumPy scalar, a number, None, a member "
        "of an Enum, a dtype, or a tuple of these"
    )


def _shown(value: Any) -> str:
    """A value on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _instead(value: Any) -> str:
    """What to give in the place of a value that no kernel takes."""
    if isinstance(value, (list, range)):
        return "; give np.array(...) of it"
    if hasattr(value, "to_numpy"):
        return "; give the array of its .to_numpy()"
    if isinstance(value, dict):
        return "; give its values as arrays or numbers, one argument each"
    return ""


def _enum_key(kind: type[enum.Enum]) -> Key:
    keys = {key_of(member.value) for member in kind}
    if len(keys) != 1:
        raise TypeError(
            f"a kernel cannot take a member of {kind.__name__}: the values of its members are of "
            "different types"
        )
    return keys.pop()


def _integer_dtype(value: int) -> np.dtype[Any]:
    if -(2**63) <= value < 2**63:
        return _INT
    if 0 <= value < 2**64:
        return _UINT
    raise TypeError(
        f"the integer {value} does not fit the 64 bits of a kernel argument; give it as a float"
    )


def _device_array_key(array: DeviceNDArray) -> Key:
    dtype = array.dtype
    # Fields of packed records, and memory of others, can lie anywhere.
    aligned = array.device_pointer % dtype.alignment == 0 and (
        array.layout != "A" or fields.is_aligned(dtype, 0, array.shape, array.strides)
    )
    return (ARRAY, dtype, len(array.shape), array.layout, array.readonly, aligned)


def _host_record_key(record: np.void) -> Key:
    if record.dtype.hasobject:
        raise TypeError("a kernel cannot take a record with Python objects (dtype object)")
    aligned = fields.is_aligned(record.dtype, _host_or_device_pointer(record), (), ())
    return (RECORD, record.dtype, not record.flags.writeable, aligned)


def _host_array_key(array: np.ndarray[Any, Any]) -> Key:
    if array.dtype.hasobject:
        raise TypeError(
            "a kernel cannot take an array of Python objects (dtype object); give one of numbers, "
            "as array.astype(float) makes"
        )
    flags = array.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return (ARRAY, array.dtype, array.ndim, layout, not flags.writeable, bool(flags.aligned))


def accepts(declared: Key, given: Key) -> bool:
    """Whether a kernel compiled for `declared` can take an argument whose key is `given`.

    Numbers are converted as in an assignment of the declared type; a pointer is an int; arrays and
    records must match in dtype, arrays also in dimensions and layout ('A' takes any).
    """
    if declared[0] == SCALAR and given[0] == ENUM and issubclass(given[1], int):
        given = given[2]
    if declared[0] == POINTER:
        # An address is an int; nothing tells what is there.
        return given == (SCALAR, _INT) or given == (SCALAR, _UINT)
    if declared[0] != given[0]:
        return False
    if declared[0] in (ENUM, NONE, DTYPE):
        return declared == given
    if declared[0] == SCALAR:
        order = "biufc"
        kinds = (declared[1].kind, given[1].kind)
        if kinds[0] not in order or kinds[1] not in order:
            return bool(declared[1] == given[1])
        # A fractional number for an integer, or a complex one for a real, would lose its part.
        return _rank(kinds[0]) >= _rank(kinds[1])
    if declared[0] == TUPLE:
        same_length = len(declared[1]) == len(given[1])
        return same_length and all(map(accepts, declared[1], given[1]))
    if declared[0] == RECORD:
        _, dtype, readonly, aligned = declared
        return bool(dtype == given[1] and (readonly or not given[2]) and (given[3] or not aligned))
    _, dtype, ndim, layout, readonly, aligned = declared
    return bool(
        dtype == given[1]
        and ndim == given[2]
        and (layout in ("A", given[3]) or ndim == 0)
        and (readonly or not given[4])
        and (given[5] or not aligned)
    )


def _rank(kind: str) -> int:
    return {"b": 0, "i": 0, "u": 0, "f": 1, "c": 2}[kind]


Extend = Callable[[list[Any], Any], None]


class Packer:
    """Packs the arguments of one signature into the block that `Backend.launch` takes."""

    def __init__(self, keys: tuple[Key, ...]) -> None:
        formats: list[str] = []
        self._extend: list[Extend] = [_part(key, formats) for key in keys]
        # '@' aligns each value to its size, as C does.
        self._struct = struct.Struct("@" + "".join(formats))
        self._letters = "".join(
            letter * int(count or 1) for count, letter in re.findall(r"(\d*)(\D)", "".join(formats))
        )

    def pack(self, values: tuple[Any, ...]) -> bytes:
        """The argument block for `values`, which fit the signature.

        Raises:
            LaunchError: a number is outside the range of its declared type, and an int also of the
                type with the same bits and the other sign: masks are written as 0xFFFFFFFF.
        """
        flat: list[Any] = []
        for extend, value in zip(self._extend, values, strict=True):
            extend(flat, value)
        try:
            return self._struct.pack(*flat)
        except (struct.error, OverflowError):
            flat = list(map(_reinterpreted, self._letters, flat))
        try:
            return self._struct.pack(*flat)
        except (struct.error, OverflowError) as error:
            raise LaunchError(f"an argument does not fit its declared type: {error}") from error


def _reinterpreted(letter: str, value: Any) -> Any:
    """An int with its highest bit set as one of the other sign, where `letter` declares that."""
    if not isinstance(value, int) or letter not in "bhilqBHILQ":
        return value
    bits = 8 * struct.calcsize(letter)
    if letter.islower() and 1 << (bits - 1) <= value < 1 << bits:
        return value - (1 << bits)
    return value + (1 << bits) if letter.isupper() and -(1 << (bits - 1)) <= value < 0 else value


def _part(key: Key, formats: list[str]) -> Extend:
    if key[0] == ARRAY:
        formats.append(_array_format(key[2]))
        return _array_part(key[1].itemsize)
    if key[0] == RECORD:
        formats.append("P")
        return _record_part
    if key[0] == SCALAR:
        formats.append(scalar_format(key[1]))
        return _SCALARS[key[1].kind]
    if key[0] in (NONE, DTYPE):
        formats.append("P")
        return _none
    if key[0] == POINTER:
        formats.append("P")
        return _integer
    if key[0] == OTHER:
        return _no_value
    if key[0] == ENUM:
        return _enum_part(_part(key[2], formats))
    parts = [_part(part, formats) for part in key[1]]

    def extend(flat: list[Any], value: Any) -> None:
        for extend_part, item in zip(parts, value, strict=True):
            extend_part(flat, item)

    return extend


def scalar_format(dtype: np.dtype[Any]) -> str:
    """What `struct` calls a number of that dtype."""
    if dtype.kind in "Mm":
        return "q"
    return _FORMATS[f"{dtype.kind}{dtype.itemsize}"]


def _array_format(axes: int) -> str:
    return f"PPqqP{2 * axes}q"


def array_format(key: Key) -> str:
    """What `struct` calls the bytes of `pack_array`, aligned as they have to be."""
    return f"0P{struct.calcsize(_array_format(key[2]))}s"


@lru_cache
def _packer_of_arrays(axes: int) -> Callable[..., bytes]:
    return struct.Struct(_array_format(axes)).pack


def pack_array(array: DeviceNDArray | np.ndarray[Any, Any]) -> bytes:
    """What an array of the device or of NumPy is in an argument block."""
    if isinstance(array, np.ndarray):
        pointer, itemsize = address_of(array), array.itemsize
    else:
        pointer, itemsize = array.device_pointer, array.dtype.itemsize
    shape = array.shape
    pack = _packer_of_arrays(len(shape))
    return pack(0, 0, array.size, itemsize, pointer, *shape, *array.strides)


# In `_array_format` the address is the fifth word.
_ADDRESS = slice(32, 40)


def around_address(packed: bytes) -> tuple[bytes, bytes]:
    """What is before and behind the address in what `pack_array` gives."""
    return packed[: _ADDRESS.start], packed[_ADDRESS.stop :]


def _array_part(itemsize: int) -> Extend:
    # As Numba lays arrays out: no reference count, no owner, elements, element size, data.
    def extend(flat: list[Any], array: Any) -> None:
        if type(array) is DeviceNDArray:
            pointer, shape, strides = array.device_pointer, array.shape, array.strides
        else:
            pointer, shape, strides = _host_or_device_pointer(array), array.shape, array.strides
        flat.extend((0, 0, array.size, itemsize, pointer, *shape, *strides))

    return extend


def _record_part(flat: list[Any], record: Any) -> None:
    # Numba passes records by their address.
    flat.append(_host_or_device_pointer(record))


def _none(flat: list[Any], value: Any) -> None:
    # Numba passes None, and types, as a pointer to nothing.
    flat.append(0)


def _no_value(flat: list[Any], value: Any) -> NoReturn:
    raise LaunchError(f"no value of a launch has the declared type; got {value!r}")


def _enum_part(extend: Extend) -> Extend:
    return lambda flat, member: extend(flat, member.value)


def _host_or_device_pointer(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return address_of(value)
    if isinstance(value, np.void):
        # NumPy's array over the record's own memory.
        return address_of(np.asarray(value))
    return int(value.device_pointer)


def _boolean(flat: list[Any], value: Any) -> None:
    flat.append(bool(value))


def _integer(flat: list[Any], value: Any) -> None:
    flat.append(int(value))


def _float(flat: list[Any], value: Any) -> None:
    flat.append(float(value))


def _complex(flat: list[Any], value: Any) -> None:
    number = complex(value)
    flat.extend((number.real, number.imag))


def _time(flat: list[Any], value: Any) -> None:
    flat.append(int(value.view(np.int64)))


_SCALARS: dict[str, Extend] = {
    "b": _boolean,
    "i": _integer,
    "u": _integer,
    "f": _float,
    "c": _complex,
    "M": _time,
    "m": _time,
}
