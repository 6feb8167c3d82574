"""Divisions of ints for NVIDIA's GPUs, without branches.

Of a quotient and a remainder that stand beside each other LLVM makes one division, and it leaves
NVIDIA's code the branches that Numba's have. The results are Numba's: 0 where there is none.
"""

import operator
from collections.abc import Callable
from typing import Any

from numba.core import cgutils, types
from numba.core.callconv import PythonErrorModel
from numba.core.imputils import Registry
from numba.cpython import numbers

registry = Registry("haulage divisions")


def _define(numbas: Any, result: Callable[[Any, Any, Any], Any]) -> Any:
    """`result(builder, quotient, rest)`; of kernels in which a division by zero raises, Numba's."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if isinstance(context.error_model, PythonErrorModel):
            return numbas(context, builder, sig, args)
        kind = sig.return_type
        if isinstance(kind, types.UniTuple):
            kind = kind.dtype
        number, divisor = (
            context.cast(builder, value, given, kind)
            for value, given in zip(args, sig.args, strict=True)
        )
        divide = _signed if kind.signed else _unsigned
        return result(builder, *divide(builder, kind, number, divisor))

    return lower


def _unsigned(builder: Any, kind: Any, number: Any, divisor: Any) -> tuple[Any, Any]:
    zero = divisor.type(0)
    has_none = builder.icmp_unsigned("==", divisor, zero)
    safe = builder.select(has_none, divisor.type(1), divisor)
    quotient, rest = builder.udiv(number, safe), builder.urem(number, safe)
    return builder.select(has_none, zero, quotient), builder.select(has_none, zero, rest)


def _signed(builder: Any, kind: Any, number: Any, divisor: Any) -> tuple[Any, Any]:
    zero = divisor.type(0)
    is_least = builder.icmp_unsigned("==", number, number.type(kind.minval))
    is_minus_1 = builder.icmp_unsigned("==", divisor, divisor.type(-1))
    has_none = builder.or_(
        builder.icmp_unsigned("==", divisor, zero), builder.and_(is_least, is_minus_1)
    )
    safe = builder.select(has_none, divisor.type(1), divisor)
    quotient, rest = builder.sdiv(number, safe), builder.srem(number, safe)
    # To the lower whole number, so that the rest has the divisor's sign.
    is_above = builder.and_(
        builder.icmp_unsigned("!=", rest, zero),
        builder.icmp_signed("<", builder.xor(rest, safe), zero),
    )
    quotient = builder.sub(quotient, builder.zext(is_above, quotient.type))
    rest = builder.add(rest, builder.select(is_above, safe, zero))
    return builder.select(has_none, zero, quotient), builder.select(has_none, zero, rest)


_divmod = _define(numbers.int_divmod_impl, lambda builder, *both: cgutils.pack_array(builder, both))
_floor_divide = _define(numbers.int_floordiv_impl, lambda builder, quotient, rest: quotient)
_remainder = _define(numbers.int_rem_impl, lambda builder, quotient, rest: rest)

for _keys, _lower in (
    ((operator.floordiv, operator.ifloordiv), _floor_divide),
    ((operator.mod, operator.imod), _remainder),
    ((divmod,), _divmod),
):
    for _key in _keys:
        registry.lower(_key, types.Integer, types.Integer)(_lower)
