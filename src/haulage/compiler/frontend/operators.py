"""Operators of complex numbers that Numba takes from its run-time library or lets raise.

`numba_cpow` is a function of Numba's for the host's Python, and a division by zero raises there
although the float error model is NumPy's.
"""

import operator
from typing import Any

import numpy as np
from numba.core import types, typing
from numba.core.callconv import PythonErrorModel
from numba.core.imputils import Registry
from numba.cpython.numbers import complex_div_impl

from haulage.lang import complex as definitions

registry = Registry("haulage operators")


def _define(function: Any) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        """Both operands have the result's type; complex64 is worked out in complex128."""
        kind, wide = sig.return_type, types.complex128
        values = [context.cast(builder, value, kind, wide) for value in args]
        result = context.compile_internal(
            builder, function, typing.signature(wide, wide, wide), values
        )
        return context.cast(builder, result, wide, kind)

    return lower


_power = _define(definitions.power)
_numpy_divide = _define(definitions.divide)


def _divide(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if isinstance(context.error_model, PythonErrorModel):
        return complex_div_impl(context, builder, sig, args)
    return _numpy_divide(context, builder, sig, args)


for _kind in (types.complex64, types.complex128):
    for _key in (operator.pow, operator.ipow, pow):
        registry.lower(_key, _kind, _kind)(_power)
    for _key in (operator.truediv, operator.itruediv):
        registry.lower(_key, _kind, _kind)(_divide)

# NumPy's functions on scalars: {function: {loop: implementation}}.
UFUNCS: dict[Any, dict[str, Any]] = {
    np.power: {"FF->F": _power, "DD->D": _power},
}
