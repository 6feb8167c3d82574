"""The types of fields in packed records, which can lie where their dtype would not be aligned."""

from typing import Any

from numba.core import types
from numba.np import numpy_support


def field_type(record: Any, field: Any, kind: Any) -> Any:
    """The type of the field with a name or number, for which Numba gives `kind`.

    Numba takes a sub-array for aligned also where the field is not; a GPU faults on such a load.
    """
    if not isinstance(record, types.Record) or not isinstance(kind, types.NestedArray):
        return kind
    name = list(record.fields)[field] if isinstance(field, int) else field
    alignment = numpy_support.as_dtype(kind.dtype).alignment
    if record.aligned or (record.offset(name) % alignment == 0 == record.size % alignment):
        return kind
    return types.Array(kind.dtype, kind.ndim, kind.layout, readonly=not kind.mutable, aligned=False)
