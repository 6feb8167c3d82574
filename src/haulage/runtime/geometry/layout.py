"""Shapes and strides: pure arithmetic on tuples of ints, in time that grows with the number of
axes only.

Strides are in bytes, as NumPy's. The rules for contiguity are NumPy's as well: an array without
elements is contiguous in both orders, and the stride of an axis of length 0 or 1 does not matter.
"""

import itertools
import operator
from collections.abc import Mapping, Sequence, Set
from math import prod
from typing import Any, SupportsIndex

from haulage.checks import one_of
from haulage.errors import noted

Ints = tuple[int, ...]


# So many fields of a dtype are named.
_MOST_FIELDS = 4


def in_words(shape: Sequence[int], dtype: Any) -> str:
    """What an array is, for messages: '(1000,) float64', '(3,) records (x, y)'."""
    if dtype.names is None:
        return f"{tuple(shape)} {dtype}"
    more = ", ..." if len(dtype.names) > _MOST_FIELDS else ""
    return f"{tuple(shape)} records ({', '.join(dtype.names[:_MOST_FIELDS])}{more})"


def whole_numbers(given: SupportsIndex | Sequence[SupportsIndex]) -> Ints:
    """A number or a sequence of numbers as a tuple of ints; TypeError if it is neither."""
    if not isinstance(given, tuple | list):
        try:
            return (operator.index(given),)  # type: ignore[arg-type]
        except TypeError:
            pass
        if isinstance(given, Mapping | Set):
            raise TypeError(f"{type(given).__name__} object has no order")
    try:
        return tuple(operator.index(n) for n in given)  # type: ignore[union-attr]
    except TypeError:
        raise TypeError(f"{given!r}: expected a whole number or a tuple of them") from None


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


def is_c_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether the elements lie without gaps in C order."""
    step = itemsize
    contiguous = True
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 0:
            return True
        if n != 1:
            contiguous = contiguous and stride == step
            step *= n
    return contiguous


def is_f_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether the elements lie without gaps in Fortran order."""
    return is_c_contiguous(shape[::-1], strides[::-1], itemsize)


def layout_letter(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> str:
    """'C', 'F' or 'A' (any), in the sense of Numba's array types."""
    if is_c_contiguous(shape, strides, itemsize):
        return "C"
    return "F" if is_f_contiguous(shape, strides, itemsize) else "A"


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


def index(shape: Sequence[int], strides: Sequence[int], key: Any) -> tuple[int, Ints, Ints, bool]:
    """NumPy's basic indexing: whole numbers, slices, Ellipsis and newaxis, in a tuple or alone.

    Returns (byte offset, shape, strides, whether the result is one element rather than a view).

    Raises:
        IndexError: too many axes, an index out of bounds, or a key of another kind.
    """
    keys = key if isinstance(key, tuple) else (key,)
    named = sum(1 for k in keys if k is not None and k is not Ellipsis)
    ellipses = sum(1 for k in keys if k is Ellipsis)
    if ellipses > 1:
        raise IndexError("an index can have one Ellipsis ('...') only")
    if named > len(shape):
        raise IndexError(f"too many indices: the array has {len(shape)} axes, {named} are indexed")
    if not ellipses:
        keys = (*keys, Ellipsis)
    offset, axis, only_numbers = 0, 0, True
    new_shape: list[int] = []
    new_strides: list[int] = []
    for k in keys:
        if k is Ellipsis:
            stop = axis + len(shape) - named
            new_shape += shape[axis:stop]
            new_strides += strides[axis:stop]
            axis = stop
        elif k is None:
            new_shape.append(1)
            new_strides.append(0)
            only_numbers = False
        elif isinstance(k, slice):
            try:
                start, stop, step = k.indices(shape[axis])
            except TypeError:
                raise IndexError(f"index {k!r}: a slice has whole numbers or None") from None
            n = len(range(start, stop, step))
            offset += start * strides[axis] if n else 0
            new_shape.append(n)
            new_strides.append(step * strides[axis])
            axis += 1
        else:
            offset += _whole_number(k, axis, shape[axis]) * strides[axis]
            axis += 1
    one_element = not new_shape and not ellipses and only_numbers
    return offset, tuple(new_shape), tuple(new_strides), one_element


def _whole_number(key: Any, axis: int, n: int) -> int:
    # A class of arrays has such attributes too.
    of_array = not isinstance(key, type) and hasattr(key, "dtype")
    is_bool = isinstance(key, bool) or (of_array and getattr(key.dtype, "kind", "") == "b")
    if is_bool or isinstance(key, list) or (of_array and getattr(key, "ndim", 0)):
        what = "a Boolean mask" if is_bool else "an index array"
        raise IndexError(
            f"{what} cannot select elements of a device array; index the host copy "
            "(array.copy_to_host()[...]) or write a kernel that selects"
        )
    try:
        number = operator.index(key)
    except TypeError:
        raise IndexError(
            f"index {key!r} is a {type(key).__name__}; "
            "expected whole numbers, slices, '...' or None"
        ) from None
    if not -n <= number < n:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {n}")
    return number + n if number < 0 else number


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


def resolve_shape(size: int, shape: Sequence[SupportsIndex]) -> Ints:
    """`shape` with its one -1 replaced so that it has `size` elements.

    Raises:
        ValueError: that is not possible.
    """
    sizes = [operator.index(n) for n in shape]
    if sizes.count(-1) > 1:
        raise ValueError(
            f"can only specify one unknown dimension: shape {tuple(sizes)} has more than one -1"
        )
    if -1 in sizes:
        known = -prod(sizes)
        if not known or size % known:
            raise ValueError(
                f"cannot infer valid shape for unknown dimension: {size} elements do not make "
                f"{tuple(sizes)}"
            )
        sizes[sizes.index(-1)] = size // known
    if any(n < 0 for n in sizes) or prod(sizes) != size:
        raise ValueError(
            f"reshape changes the size of the array: {size} elements do not make {tuple(shape)}"
        )
    return tuple(sizes)


def reshape(
    shape: Sequence[int],
    strides: Sequence[int],
    itemsize: int,
    new_shape: Sequence[int],
    order: str = "C",
) -> Ints | None:
    """Strides that show the same elements in the same `order` as `new_shape`.

    Returns None where that takes a copy. Both shapes have the same number of elements.
    """
    if order == "F":
        flipped = reshape(shape[::-1], strides[::-1], itemsize, new_shape[::-1], "C")
        return None if flipped is None else flipped[::-1]
    if order != "C":
        raise ValueError(f"order {order!r}: expected 'C' or 'F'")
    if 0 in new_shape:
        return c_strides(new_shape, itemsize)
    # Runs of old axes that lie densely behind each other, last first: [elements, last stride].
    runs: list[list[int]] = []
    reach = 0
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if runs and stride == reach:
            runs[-1][0] *= n
        else:
            runs.append([n, stride])
        reach = stride * n
    result: list[int] = []
    position, step, left = 0, itemsize, 1
    for n in reversed(new_shape):
        if n > 1 and left == 1:
            left, step = runs[position]
            position += 1
        if left % n:
            return None
        result.append(step)
        step *= n
        left //= n
    return tuple(reversed(result))


def _axes(given: SupportsIndex | Sequence[SupportsIndex]) -> Ints:
    try:
        return whole_numbers(given)
    except TypeError:
        raise TypeError(f"axis {given!r}: expected a whole number or a tuple of them") from None


def transpose(
    shape: Sequence[int], strides: Sequence[int], axes: Sequence[SupportsIndex] | None
) -> tuple[Ints, Ints]:
    """Shape and strides with the axes in the order `axes` (None: reversed).

    Raises:
        ValueError: `axes` does not name each axis once.
    """
    ndim = len(shape)
    if axes is None:
        return tuple(shape[::-1]), tuple(strides[::-1])
    chosen = _axes(axes)
    order = [a + ndim if a < 0 else a for a in chosen]
    if sorted(order) != list(range(ndim)):
        there = f"axes {tuple(chosen)}: expected each of the {ndim} axes once"
        if len(chosen) != ndim:
            raise ValueError(f"axes don't match array: {there}")
        for axis in chosen:
            if not -ndim <= axis < ndim:
                out = f"axis {axis} is out of bounds for array of dimension {ndim}"
                raise noted(ValueError(out), there)
        raise noted(ValueError("repeated axis in transpose"), there)
    return tuple(shape[a] for a in order), tuple(strides[a] for a in order)


def squeeze(
    shape: Sequence[int],
    strides: Sequence[int],
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
) -> tuple[Ints, Ints]:
    """Shape and strides without the axes of length 1 (or without those of `axis`).

    Raises:
        ValueError: an axis that was named is not of length 1, or not there.
    """
    ndim = len(shape)
    if axis is None:
        gone = {a for a in range(ndim) if shape[a] == 1}
    else:
        named = _axes(axis)
        gone = {a + ndim if a < 0 else a for a in named}
        if len(gone) != len(named) or any(not 0 <= a < ndim or shape[a] != 1 for a in gone):
            raise ValueError(
                f"cannot squeeze axis {axis} of shape {tuple(shape)}: "
                "expected different axes of length 1"
            )
    kept = [a for a in range(ndim) if a not in gone]
    return tuple(shape[a] for a in kept), tuple(strides[a] for a in kept)


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
