"""Dtypes that a device can hold; their fields, and which bytes of an element these take."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

Parts = tuple[tuple[int, int], ...]


def check_dtype(dtype: Any) -> np.dtype:
    """`dtype` as a NumPy dtype whose elements are plain bytes.

    Raises:
        TypeError: NumPy knows no such dtype, or its elements are Python objects.
    """
    try:
        made = np.dtype(dtype)
    except TypeError:
        raise
    except Exception as error:  # NumPy reads some texts as Python's: SyntaxError and others
        raise TypeError(f"dtype {dtype!r}: NumPy knows no such dtype ({error})") from error
    if made.hasobject:
        raise TypeError(f"dtype {made}: a device cannot hold Python objects; use a numeric dtype")
    return made


# Types whose dtype is always the same.
_TYPES = frozenset({bool, int, float, complex, *np.sctypeDict.values()})


def is_constant(given: Any) -> bool:
    """Whether `given` means the same dtype each time: a dtype, a name, or one of NumPy's types."""
    return isinstance(given, np.dtype | str) or (isinstance(given, type) and given in _TYPES)


def names(dtype: np.dtype) -> tuple[str, ...]:
    """The names of the fields in order; none if the dtype has no fields."""
    return dtype.names or ()


def field(dtype: np.dtype, key: str) -> tuple[np.dtype, int]:
    """(dtype, byte offset) of the field with a name or title.

    Raises:
        ValueError: there is none, as NumPy has it; the message lists the fields.
    """
    found = dtype.fields.get(key) if dtype.fields is not None else None
    if found is None:
        raise ValueError(f"no field of name {key!r}; {_listed(dtype)}")
    return found[0], found[1]


def numbered(dtype: np.dtype, number: int) -> str:
    """The name of the field with a number, counted from the end if it is negative.

    Raises:
        IndexError: there are not so many fields.
    """
    own = names(dtype)
    if not -len(own) <= number < len(own):
        raise IndexError(f"invalid index ({number}) for a record of {len(own)} fields")
    return own[number]


def chosen(dtype: np.dtype, keys: Sequence[Any]) -> np.dtype:
    """The dtype of some fields, each where it was, in elements of the same size.

    Raises:
        KeyError: one of the names is no field, as NumPy has it; the message lists the fields.
        ValueError: a name is there twice.
    """
    for key in keys:
        if key not in names(dtype):
            raise KeyError(f"no field of name {key!r}; {_listed(dtype)}")
    return dtype[list(keys)]


def is_names(key: Any) -> bool:
    """Whether an index is a list of field names."""
    return isinstance(key, list) and bool(key) and all(isinstance(name, str) for name in key)


def parts(dtype: np.dtype) -> Parts | None:
    """(offset, bytes) of what the fields of an element take, in order; None if that is all of it.

    What lies between the fields can be other fields, of which this dtype is a selection.
    """
    return None if dtype.names is None else _parts(dtype)


@lru_cache(maxsize=1024)
def _parts(dtype: np.dtype) -> Parts | None:
    merged: list[list[int]] = []
    for start, stop in sorted(_spans(dtype, 0)):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(stop, merged[-1][1])
        else:
            merged.append([start, stop])
    if merged == [[0, dtype.itemsize]] or dtype.itemsize == 0:
        return None
    return tuple((start, stop - start) for start, stop in merged)


def _spans(dtype: np.dtype, offset: int) -> list[tuple[int, int]]:
    """(start, stop) of each field without fields of its own."""
    if dtype.itemsize == 0:
        return []
    if dtype.subdtype is not None:
        base = dtype.subdtype[0]
        if parts(base) is None:
            return [(offset, offset + dtype.itemsize)]
        count = dtype.itemsize // base.itemsize
        return [span for n in range(count) for span in _spans(base, offset + n * base.itemsize)]
    if dtype.fields is None:
        return [(offset, offset + dtype.itemsize)]
    own = [dtype.fields[name] for name in names(dtype)]
    return [span for found in own for span in _spans(found[0], offset + found[1])]


def is_aligned(dtype: np.dtype, pointer: int, shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether every element of an array lies at a multiple of its dtype's alignment."""
    alignment = dtype.alignment
    return pointer % alignment == 0 and all(
        n < 2 or stride % alignment == 0 for n, stride in zip(shape, strides, strict=True)
    )


def described(dtype: np.dtype) -> str:
    """The fields of a dtype for people: `x: float64, v: float32 (2, 3)`."""
    return ", ".join(f"{name}: {_kind(dtype[name])}" for name in names(dtype))


def _kind(dtype: np.dtype) -> str:
    if dtype.subdtype is not None:
        return f"{_kind(dtype.subdtype[0])} {dtype.shape}"
    return f"({described(dtype)})" if dtype.names is not None else str(dtype)


def _listed(dtype: np.dtype) -> str:
    if dtype.names is None:
        return f"dtype {dtype} has no fields"
    return f"the fields are {', '.join(names(dtype)) or 'none'}"


@lru_cache(maxsize=256)
def has_description(dtype: np.dtype) -> bool:
    """Whether NumPy's array interface can tell a dtype: it lists fields in the order in which they
    lie, takes gaps for fields, and has no names for types of other packages, as bfloat16."""
    if dtype.names is None:
        return np.dtype(dtype.str) == dtype
    try:
        return np.dtype(dtype.descr) == dtype
    except ValueError:
        return False
