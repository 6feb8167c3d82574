"""Globals and closure variables that Numba has no type for: what they are to a kernel."""

from collections import namedtuple
from functools import cache
from types import FunctionType
from typing import Any

from numba.core import cgutils, types
from numba.core.datamodel import models, register_default
from numba.np import arrayobj

from haulage.numba_bridge import ARRAY, RECORD, numba_type

# The attribute of a module of Numba's code that lists the arrays whose addresses it has.
CAPTURED = "haulage_captured"

_NO_NAMESPACES = ("builtins", "numpy", "numba")

_HEAP = (list, dict, set, bytearray)

# The rooms whose functions are for the host, such as `to_device`.
_HOSTS = ("haulage.api.", "haulage.runtime.", "haulage.kernel.", "haulage.roc.")


def refusal(value: Any) -> str | None:
    """Why a kernel cannot use `value`, or None if it may."""
    if isinstance(value, _HEAP):
        return f"a kernel cannot use a {type(value).__name__}; capture a tuple or a NumPy array"
    if isinstance(value, type) and value in _HEAP:
        return (
            f"a kernel cannot make a {value.__name__}, as it has no heap; use a tuple, or an array "
            "made by cuda.local.array"
        )
    return None


def is_for_host(value: Any) -> bool:
    """Whether a value is a function of a vocabulary that only the host can call."""
    return isinstance(value, FunctionType) and (value.__module__ or "").startswith(_HOSTS)


def is_on_device(value: Any) -> bool:
    """Whether a value is an array or record of the device."""
    return hasattr(type(value), "_haulage_record_")


def _is_record(value: Any) -> bool:
    return bool(value._haulage_record_)


def is_tuple_with_device_arrays(value: Any) -> bool:
    """Whether a value is a plain tuple with arrays of the device in it."""
    return type(value) is tuple and any(
        is_on_device(each) or is_tuple_with_device_arrays(each) for each in value
    )


class CapturedArray(types.Array):
    """An array of the device that is a global; Numba makes a read-only copy of an array's type."""

    def copy(
        self, dtype: Any = None, ndim: Any = None, layout: Any = None, readonly: Any = None
    ) -> Any:
        """The type that an array of the same kind has as an argument."""
        return super().copy(dtype, ndim, layout, readonly=not self.mutable)


register_default(CapturedArray)(models.ArrayModel)


def device_type(value: Any) -> Any:
    """The type of a captured array or record of the device; None if `value` is neither."""
    if not is_on_device(value):
        return None
    # Of its memory no more is known than the address, and an array with gaps may have any.
    aligned = value.device_pointer % value.dtype.alignment == 0
    if _is_record(value):
        return numba_type((RECORD, value.dtype, value.readonly, aligned))
    aligned = aligned and value.layout != "A"
    kind = numba_type((ARRAY, value.dtype, value.ndim, value.layout, value.readonly, aligned))
    return CapturedArray(
        kind.dtype, kind.ndim, kind.layout, readonly=not kind.mutable, aligned=kind.aligned
    )


def device_constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """A captured array or record as a value: its address, which the launch keeps valid."""
    module = builder.module
    module.haulage_captured = (*getattr(module, CAPTURED, ()), value)
    address = context.get_constant(types.uintp, value.device_pointer)
    if _is_record(value):
        return builder.inttoptr(address, context.get_value_type(kind))
    made = arrayobj.make_array(kind)(context, builder)
    intp = context.get_value_type(types.intp)
    arrayobj.populate_array(
        made,
        data=builder.inttoptr(address, made.data.type),
        shape=cgutils.pack_array(builder, [intp(size) for size in value.shape], ty=intp),
        strides=cgutils.pack_array(builder, [intp(step) for step in value.strides], ty=intp),
        itemsize=intp(value.dtype.itemsize),
        meminfo=None,
    )
    return made._getvalue()


def is_namespace(value: Any) -> bool:
    """Whether a kernel may read the attributes of `value`, as constants: it is a user's class."""
    return isinstance(value, type) and value.__module__.partition(".")[0] not in _NO_NAMESPACES


def tuple_of_functions(kinds: list[Any]) -> Any:
    """The type of a tuple with functions, each of its own type.

    A named one, as Numba would look for one type of all functions of a plain tuple.
    """
    return types.NamedTuple(kinds, _fields(len(kinds)))


@cache
def _fields(count: int) -> Any:
    return namedtuple("functions", [f"function_{number}" for number in range(count)])
