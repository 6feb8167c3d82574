"""numba's forms of the arithmetic of shapes and strides."""

from typing import Any

import numpy as np

from haulage.runtime.arrays.layout import normalise_shape, normalise_strides, order_strides


def prepare_shape_strides_dtype(
    shape: Any, strides: Any, dtype: Any, order: str
) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
    """A shape, strides in bytes and a dtype in their normal forms.

    Args:
        shape: an int or a sequence.
        strides: an int or a sequence; None or () is those of a dense array in `order`.
        dtype: whatever NumPy takes for a dtype.
        order: "C" or "F".

    Raises:
        ValueError: a size is negative, there are more or fewer strides than sizes, or `order` is
            neither.
    """
    sizes, kind = normalise_shape(shape), np.dtype(dtype)
    if strides is None or strides == ():
        return sizes, fill_stride_by_order(sizes, kind, order), kind
    return sizes, normalise_strides(strides, sizes), kind


def fill_stride_by_order(shape: Any, dtype: np.dtype[Any], order: str) -> tuple[int, ...]:
    """The strides in bytes of a dense array.

    Raises:
        ValueError: `order` is neither "C" nor "F".
    """
    return order_strides(shape, dtype.itemsize, order)
