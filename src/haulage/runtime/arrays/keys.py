"""Keys: what decides how a kernel is compiled for an argument; arrays of devices have `_code_key`.

They are made without Numba, so that a launch whose code is known costs no more than a dictionary
look-up; `haulage.numba_bridge` makes Numba types of them when code has to be compiled, and lists
them.
"""

from typing import Any

import numpy as np

from haulage.runtime.geometry import dtypes
from haulage.runtime.geometry.numpy_arrays import address_of

Key = tuple[Any, ...]

ARRAY, RECORD, SCALAR, TUPLE = "array", "record", "scalar", "tuple"
ENUM, NONE, DTYPE, POINTER, OTHER = "enum", "none", "dtype", "pointer", "other"

# An address without these bits is aligned for every dtype.
MOST_ALIGNED = 15


def of_host_array(array: np.ndarray) -> Key:
    """The key of an array of NumPy.

    Raises:
        TypeError: its elements are Python objects.
    """
    if array.dtype.hasobject:
        raise TypeError(
            "a kernel cannot take an array of Python objects (dtype object); give one of numbers, "
            "as array.astype(float) makes"
        )
    flags = array.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return (ARRAY, array.dtype, array.ndim, layout, not flags.writeable, bool(flags.aligned))


def of_host_record(record: np.void) -> Key:
    """The key of a scalar of NumPy that has fields.

    Raises:
        TypeError: some are Python objects.
    """
    if record.dtype.hasobject:
        raise TypeError("a kernel cannot take a record with Python objects (dtype object)")
    # NumPy's array over the record's own memory.
    aligned = dtypes.is_aligned(record.dtype, address_of(np.asarray(record)), (), ())
    return (RECORD, record.dtype, not record.flags.writeable, aligned)
