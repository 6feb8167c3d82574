"""Shapes and strides: pure arithmetic on tuples of ints, in time that grows with the number of
axes only. What views take is in C, in `haulage._core.geometry`.

Strides are in bytes, as NumPy's. The rules for contiguity are NumPy's as well: an array without
elements is contiguous in both orders, and the stride of an axis of length 0 or 1 does not matter.
"""

import itertools
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

from haulage._core.geometry import (
    index,
    is_c_contiguous,
    is_f_contiguous,
    layout_letter,
    reshape,
    resolve_shape,
    squeeze,
    transpose,
    whole_numbers,
)
from haulage.checks import one_of

__all__ = [
    "Ints",
    "broadcast",
    "c_strides",
    "coalesce",
    "dense_strides",
    "extent",
    "f_strides",
    "in_words",
    "index",
    "is_c_contiguous",
    "is_f_contiguous",
    "layout_letter",
    "may_overlap",
    "normalise_shape",
    "normalise_strides",
    "order_strides",
    "reshape",
    "resolve_shape",
    "sections",
    "squeeze",
    "transpose",
    "whole_numbers",
]

Ints = tuple[int, ...]

# So many fields of a dtype are named.
_MOST_FIELDS = 4


def in_words(shape: Sequence[int], dtype: Any) -> str:
    """What an array is, for messages: '(1000,) float64', '(3,) records (x, y)'."""
    if dtype.names is None:
        return f"{tuple(shape)} {dtype}"
    more = ", ..." if len(dtype.names) > _MOST_FIELDS else ""
    return f"{tuple(shape)} records ({', '.join(dtype.names[:_MOST_FIELDS])}{more})"


def normalise_shape(shape: SupportsIndex | Sequence[SupportsIndex]) -> Ints:
    """`shape` as a tuple of ints; a single number is a shape of one axis.

    Raises:
        TypeError: something in it is no whole number.
        ValueError: an axis is negative.
    """
    try:
        sizes = whole_numbers(shape)
    except TypeError:
        raise TypeError(f"shape {shape!r}: expected a whole number or a tuple of them") from None
    if any(n < 0 for n in sizes):
        raise ValueError(f"shape {sizes}: no axis can be negative")
    return sizes


def normalise_strides(
    strides: SupportsIndex | Sequence[SupportsIndex], shape: Sequence[int]
) -> Ints:
    """`strides` as a tuple of ints, one for each axis.

    Raises:
        TypeError: something in it is no whole number.
        ValueError: there are more or fewer of them than axes.
    """
    try:
        given = whole_numbers(strides)
    except TypeError:
        raise TypeError(
            f"strides {strides!r}: expected a whole number or a tuple of them"
        ) from None
    if len(given) != len(shape):
        raise ValueError(
            f"strides {given} do not fit shape {tuple(shape)}: expected one for each axis"
        )
    return given


def c_strides(shape: Sequence[int], itemsize: int) -> Ints:
    """Byte strides of a C-ordered (row-major) array."""
    strides = []
    step = itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= n or 1
    return tuple(reversed(strides))


def f_strides(shape: Sequence[int], itemsize: int) -> Ints:
    """Byte strides of a Fortran-ordered (column-major) array."""
    return c_strides(tuple(reversed(shape)), itemsize)[::-1]


def order_strides(shape: Sequence[int], itemsize: int, order: str) -> Ints:
    """Byte strides of an array in `order`, 'C' or 'F'."""
    if one_of(order, "order", ("C", "F")) == "C":
        return c_strides(shape, itemsize)
    return f_strides(shape, itemsize)


def dense_strides(
    shape: Sequence[int], strides: Sequence[int], itemsize: int, new_itemsize: int | None = None
) -> Ints:
    """Strides without gaps that keep the order of axes of an array (NumPy's order 'K').

    They are for elements of `new_itemsize` bytes, if that is given.
    """
    size = itemsize if new_itemsize is None else new_itemsize
    if is_c_contiguous(shape, strides, itemsize):
        return c_strides(shape, size)
    axes = sorted(range(len(shape)), key=lambda axis: -abs(strides[axis]))
    packed = c_strides([shape[axis] for axis in axes], size)
    result = [0] * len(shape)
    for axis, stride in zip(axes, packed, strict=True):
        result[axis] = stride
    return tuple(result)


def may_overlap(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether elements of an array may share bytes, as with a stride of 0 or sliding windows.

    False is certain. True is given as well where axes interleave without an overlap.
    """
    if 0 in shape or itemsize == 0:
        return False
    reach = itemsize
    for step, n in sorted((abs(step), n) for n, step in zip(shape, strides, strict=True) if n > 1):
        if step < reach:
            return True
        reach += step * (n - 1)
    return False


def extent(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """(low, high): the bytes that an array touches, relative to its element (0, ..., 0)."""
    if 0 in shape:
        return 0, 0
    low, high = 0, itemsize
    for n, stride in zip(shape, strides, strict=True):
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, high


def sections(shape: Sequence[int], section: SupportsIndex) -> range:
    """Where the parts of `section` elements begin in an array with one axis.

    Raises:
        TypeError: `section` is no whole number.
        ValueError: `section` is not positive, or the array has another number of axes.
    """
    if len(shape) != 1:
        raise ValueError(f"split: only support 1d array, this has {len(shape)} axes")
    try:
        size = operator.index(section)
    except TypeError:
        raise TypeError(f"split({section!r}): expected a whole number of elements") from None
    if size < 1:
        raise ValueError(f"split({size}): expected sections of 1 element or more")
    return range(0, shape[0], size)


def broadcast(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> Ints:
    """Strides that show an array as the shape `to`, by NumPy's rules for assignment.

    Axes of length 1 are repeated (stride 0); leading axes of length 1 beyond `to` are dropped.

    Raises:
        ValueError: the shapes do not fit.
    """
    extra = len(shape) - len(to)
    fits = extra <= 0 or all(n == 1 for n in shape[:extra])
    if fits:
        inner = tuple(zip(shape, strides, strict=True))[max(extra, 0) :]
        missing = len(to) - len(inner)
        fits = all(n in (1, m) for (n, _), m in zip(inner, to[missing:], strict=True))
    if not fits:
        kept = itertools.dropwhile(lambda n: n == 1, shape)
        raise ValueError(
            f"could not broadcast input array from shape {_text(tuple(kept))} into shape "
            f"{_text(to)}"
        )
    repeated = [
        0 if n == 1 and m != 1 else stride
        for (n, stride), m in zip(inner, to[missing:], strict=True)
    ]
    return (0,) * missing + tuple(repeated)


def _text(shape: Sequence[int]) -> str:
    # As NumPy's errors write shapes.
    return f"({shape[0]},)" if len(shape) == 1 else f"({','.join(map(str, shape))})"


def coalesce(
    shape: Sequence[int], target: Sequence[int], source: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    """The same pairs of elements with as few axes as possible: (shape, target, source strides).

    Axes may change places, the target's longest stride comes first.
    """
    if len(shape) == 1 != shape[0]:
        return (shape[0],), (target[0],), (source[0],)
    axes = sorted(
        (a for a in range(len(shape)) if shape[a] != 1),
        key=lambda a: (-abs(target[a]), -abs(source[a])),
    )
    merged: list[list[int]] = []
    for axis in axes:
        n, t, s = shape[axis], target[axis], source[axis]
        if merged and merged[-1][1] == n * t and merged[-1][2] == n * s:
            merged[-1] = [merged[-1][0] * n, t, s]
        else:
            merged.append([n, t, s])
    return tuple(m[0] for m in merged), tuple(m[1] for m in merged), tuple(m[2] for m in merged)
