"""Powers whose exponent is a constant whole number: products, without a loop."""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.callconv import PythonErrorModel

# Powers with a higher exponent are left to a loop.
_HIGHEST = 64


def is_product(context: Any, signature: Any, exponent: int) -> bool:
    """Whether `product` may stand for the power of that signature and exponent."""
    result = signature.return_type
    if isinstance(result, types.Integer):
        return 0 <= exponent <= _HIGHEST
    # Where a division by zero raises, it is for Numba to say so.
    lowest = 0 if isinstance(context.error_model, PythonErrorModel) else -_HIGHEST
    return result in (types.float32, types.float64) and lowest <= exponent <= _HIGHEST


def product(builder: Any, value: Any, exponent: int) -> Any:
    """`value**exponent` of an LLVM int or float, by squares, in the order of Numba's loop."""
    is_float = not isinstance(value.type, ir.IntType)
    multiply = builder.fmul if is_float else builder.mul
    result, left = None, abs(exponent)
    while left:
        if left & 1:
            result = value if result is None else multiply(result, value)
        left >>= 1
        if left:
            value = multiply(value, value)
    if result is None:
        return ir.Constant(value.type, 1)
    return builder.fdiv(ir.Constant(value.type, 1), result) if exponent < 0 else result
