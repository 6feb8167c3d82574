"""What a SmartArray is to functions that Numba compiles for the host. Importing this imports Numba.

Numba asks a value of a class that it does not know for `_numba_type_`; SmartArray answers with the
type of this file, so that nothing has to be registered before. Inside the function it is an array.
"""

from functools import cache
from typing import Any

from haulage import importing_numba  # noqa: F401

# isort: split
import numpy as np
from llvmlite.binding import add_symbol
from llvmlite.ir import FunctionType
from numba.core import cgutils, types
from numba.core.datamodel import models, register_default
from numba.core.errors import NumbaNotImplementedError, NumbaTypeError
from numba.core.imputils import lower_cast
from numba.core.pythonapi import NativeValue, unbox
from numba.np import numpy_support

from haulage._core.coherence import address_of_host_array


class SmartArrayType(types.Array):
    """An array that comes from a SmartArray; what is made from it has the type of plain arrays.

    It is a type of its own because that of a value decides how it is unpacked, and a function that
    was compiled for NumPy arrays before cannot unpack anything else.
    """

    # Each type has its own. Numba makes the name anew each time, so that Python does not remember
    # where it is: it is found here first, and not looked for in all of the classes above.
    _code = None

    def __init__(self, dtype: Any, ndim: int, layout: str, aligned: bool, readonly: bool) -> None:
        placed = "" if aligned else "unaligned "
        placed = f"read-only {placed}" if readonly else placed
        name = f"SmartArray({placed}{dtype}, {ndim}d, {layout})"
        super().__init__(dtype, ndim, layout, readonly=readonly, name=name, aligned=aligned)

    def __repr__(self) -> str:
        return self.name


register_default(SmartArrayType)(models.ArrayModel)


# Lists and dictionaries whose first array was a SmartArray have elements of that type. They ask for
# a cast of whatever is put there, also where that is not safe.
@lower_cast(types.Array, SmartArrayType)
@lower_cast(SmartArrayType, types.Array)
def _as_plain(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    if not (
        (fromty.dtype, fromty.ndim) == (toty.dtype, toty.ndim)
        and toty.layout in ("A", fromty.layout)
        and (fromty.mutable or not toty.mutable)
        and (fromty.aligned or not toty.aligned)
    ):
        raise NumbaTypeError(f"{fromty} cannot be used as {toty}; copy it to an array of that type")
    return value


# How code that Numba compiled calls the function of C, also code from its cache, which has this
# module imported by its types.
_HOST_ARRAY = "haulage_host_array"
add_symbol(_HOST_ARRAY, address_of_host_array())


# Numba keeps the numbers of types, not the types themselves: these have to stay.
@cache
def type_of(
    dtype: np.dtype, ndim: int, layout: str, aligned: bool, readonly: bool
) -> SmartArrayType:
    """The Numba type of a SmartArray; `layout` is 'C', 'F' or 'A'.

    Raises:
        AttributeError: Numba has no type for the dtype. It takes any other error of `_numba_type_`
            for a failure of the attribute.
    """
    try:
        element = numpy_support.from_dtype(dtype)
    except NumbaNotImplementedError as error:
        raise AttributeError(f"Numba has no type for the dtype {dtype}") from error
    return SmartArrayType(element, ndim, layout, aligned, readonly)


@unbox(SmartArrayType)
def _unboxed(kind: SmartArrayType, value: Any, c: Any) -> NativeValue:
    """The host's array, which the function then holds as it holds NumPy's. Where a signature
    declares this type, a NumPy array is one too."""
    plain = kind.copy()
    room = cgutils.alloca_once(c.builder, c.context.get_value_type(plain))
    failed = cgutils.alloca_once_value(c.builder, cgutils.true_bit)
    function = cgutils.get_or_insert_function(
        c.builder.module, FunctionType(c.pyapi.pyobj, [c.pyapi.pyobj]), _HOST_ARRAY
    )
    array = c.builder.call(function, [value])
    with c.builder.if_then(cgutils.is_not_null(c.builder, array), likely=True):
        native = c.unbox(plain, array)
        c.builder.store(native.value, room)
        c.builder.store(native.is_error, failed)
        c.pyapi.decref(array)
    return NativeValue(c.builder.load(room), is_error=c.builder.load(failed))
