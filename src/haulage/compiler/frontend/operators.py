"""Operations, most on complex numbers, that Numba has otherwise than Python and NumPy.

Its `numba_cpow` is a function for the host's Python, a division by zero raises there although the
float error model is NumPy's, a logarithm beside a magnitude of one loses its real part, and a
square root of what is near the greatest number comes out wrong. Rounding a float32 to decimals in
float32 takes numbers for halves that are none. A cube root by a power loses the sign of zero. A
remainder of the least int by -1 ends the process, and `np.fmod` takes ints for unsigned ones. The
reciprocal of an unsigned 0 is not NumPy's 0. No float or complex number is made of a bool.
"""

import cmath
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types, typing
from numba.core.callconv import PythonErrorModel
from numba.core.imputils import Registry
from numba.cpython.numbers import complex_div_impl
from numba.extending import overload
from numba.np.npyfuncs import np_int_sdiv_impl

from haulage.compiler.frontend import words
from haulage.lang import complex as definitions
from haulage.lang import tools
from haulage.lang.math import library

registry = Registry("haulage operators")


def _define(function: Any) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        """The operands have the result's type; complex64 is worked out in complex128."""
        kind, wide = sig.return_type, types.complex128
        values = [context.cast(builder, value, kind, wide) for value in args]
        inner = typing.signature(wide, *(wide for _ in values))
        result = context.compile_internal(builder, function, inner, values)
        return context.cast(builder, result, wide, kind)

    return lower


_power = _define(definitions.power)
_numpy_divide = _define(definitions.divide)
_logarithm = _define(definitions.logarithm)
_square_root = _define(definitions.square_root)


def _divide(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if isinstance(context.error_model, PythonErrorModel):
        return complex_div_impl(context, builder, sig, args)
    return _numpy_divide(context, builder, sig, args)


def _product(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """As Numba has it, without the function that it compiles for this."""
    kind = sig.return_type
    x, y = (context.make_complex(builder, kind, value=value) for value in args)
    a, b, c, d = x.real, x.imag, y.real, y.imag
    ac, bd = builder.fmul(a, c), builder.fmul(b, d)
    ad, bc = builder.fmul(a, d), builder.fmul(b, c)
    made = context.make_complex(builder, kind)
    made.real, made.imag = builder.fsub(ac, bd), builder.fadd(ad, bc)
    return made._getvalue()


def _round(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    number, digits = sig.args
    wide = types.float64
    rounds = context.get_function(round, typing.signature(wide, wide, digits))
    result = rounds(builder, (context.cast(builder, args[0], number, wide), args[1]))
    return context.cast(builder, result, wide, sig.return_type)


def _cube_root(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return library(tools, builder, "cbrt", sig.return_type, list(args))


def _int_fmod(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """What is left with the sign of the dividend; 0 where NumPy says 0 and processors fault."""
    number, divisor = args
    one = divisor.type(1)
    is_0_or_minus_1 = builder.icmp_unsigned("<=", builder.add(divisor, one), one)
    return builder.srem(number, builder.select(is_0_or_minus_1, one, divisor))


def _int_remainder(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    left, divisor = _int_fmod(context, builder, sig, args), args[1]
    zero = divisor.type(0)
    other_sign = builder.icmp_signed("<", builder.xor(left, divisor), zero)
    fix = builder.and_(builder.icmp_unsigned("!=", left, zero), other_sign)
    return builder.add(left, builder.select(fix, divisor, zero))


def _int_divmod(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    quotient = np_int_sdiv_impl(context, builder, sig.return_type[0](*sig.args), args)
    left = _int_remainder(context, builder, sig, args)
    return context.make_tuple(builder, sig.return_type, [quotient, left])


def _unsigned_reciprocal(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.zext(builder.icmp_unsigned("==", args[0], args[0].type(1)), args[0].type)


def _of_a_bool(convert: Any) -> Callable[..., Any]:
    # Numba wants the same parameters in both, which annotations are a part of.
    return lambda value: (
        (lambda value: convert(1 if value else 0))
        if isinstance(types.unliteral(value), types.Boolean)
        else None
    )


for _convert in (float, complex):
    overload(_convert, target=words.SIMT)(_of_a_bool(_convert))

registry.lower(round, types.float32, types.Integer)(_round)
for _kind in (types.complex64, types.complex128):
    for _key in (operator.pow, operator.ipow, pow):
        registry.lower(_key, _kind, _kind)(_power)
    for _key in (operator.truediv, operator.itruediv):
        registry.lower(_key, _kind, _kind)(_divide)
    # From Python 3.14 on, infinities are recovered.
    for _key in (operator.mul, operator.imul) if sys.version_info < (3, 14) else ():
        registry.lower(_key, _kind, _kind)(_product)
    registry.lower(cmath.log, _kind)(_logarithm)
    registry.lower(cmath.sqrt, _kind)(_square_root)

_SIGNED = "bhilq"

# NumPy's functions on scalars: {function: {loop: implementation}}.
UFUNCS: dict[Any, dict[str, Any]] = {
    np.float_power: {"FF->F": _power, "DD->D": _power},
    np.cbrt: {"f->f": _cube_root, "d->d": _cube_root},
    np.divmod: {f"{c * 2}->{c * 2}": _int_divmod for c in _SIGNED},
    np.fmod: {f"{c * 2}->{c}": _int_fmod for c in _SIGNED},
    np.log: {"F->F": _logarithm, "D->D": _logarithm},
    np.power: {"FF->F": _power, "DD->D": _power},
    np.reciprocal: {f"{c}->{c}": _unsigned_reciprocal for c in "BHILQ"},
    np.remainder: {f"{c * 2}->{c}": _int_remainder for c in _SIGNED},
    np.sqrt: {"F->F": _square_root, "D->D": _square_root},
}
