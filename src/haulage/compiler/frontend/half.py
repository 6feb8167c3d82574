"""float16 for kernels: its values, and the types that its operations give.

Numba's front end knows the type, but for hosts neither its values nor its operators. The types are
those of numba.cuda: with a float16, a bool or an int8 the result is a float16; what Numba has no
float16 form of (`%`, `//`, `**`, most of `math`) is a float32.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.core.imputils import Registry
from numba.core.typeconv import Conversion
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate
from numba.core.typing.templates import Registry as TypingRegistry

from haulage.compiler.frontend import extending
from haulage.lang import half, tools

registry = Registry("haulage.half")
typing_registry = TypingRegistry()

_ARITHMETIC = (
    operator.add,
    operator.iadd,
    operator.sub,
    operator.isub,
    operator.mul,
    operator.imul,
    operator.truediv,
    operator.itruediv,
)
_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
_UNARY: tuple[Any, ...] = (operator.neg, operator.pos, abs, float)

# What loses nothing that matters on its way to float16, in Numba's judgement.
_CLOSE = (Conversion.exact, Conversion.promote, Conversion.safe)


class _FloatModel(models.PrimitiveModel):
    """Floats as LLVM has them."""

    def __init__(self, manager: Any, kind: Any) -> None:
        widths = {16: ir.HalfType, 32: ir.FloatType, 64: ir.DoubleType}
        super().__init__(manager, kind, widths[kind.bitwidth]())


extending.register_model(types.Float)(_FloatModel)


def widened(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types to call a function with: NumPy's have no float16 form, and float32 holds it."""
    if not isinstance(getattr(function, "typing_key", None), np.ufunc):
        return args
    return tuple(types.float32 if kind == types.float16 else kind for kind in args)


def without_fusion(module: Any) -> None:
    """Let no two operations of an `llvmlite.ir` module on halves share a rounding.

    A product and a sum in float32 may; in float16, of 11 bits, that is a visible difference
    between processors.
    """
    for function in module.functions:
        for block in function.blocks:
            for instruction in block.instructions:
                if isinstance(instruction.type, ir.HalfType):
                    flags = instruction.flags
                    instruction.flags = [flag for flag in flags if flag != "contract"]


def _add(function: Callable[..., Any], choose: Callable[..., Any]) -> None:
    """Let `choose(context, *argument types)` say the signature of a call, or None."""

    class Choice(AbstractTemplate):
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            return None if kws else choose(self.context, *args)

    typing_registry.register_global(function)(Choice)


def _binary(result: Any) -> Callable[..., Any]:
    def choose(context: Any, *args: Any) -> Any:
        if len(args) != 2 or types.float16 not in args:
            return None
        other = args[1] if args[0] == types.float16 else args[0]
        if context.can_convert(other, types.float16) not in _CLOSE:
            return None
        return signature(result, types.float16, types.float16)

    return choose


def _unary(context: Any, *args: Any) -> Any:
    return signature(types.float16, types.float16) if args == (types.float16,) else None


def _complex(context: Any, *args: Any) -> Any:
    return signature(types.complex64, types.float16) if args == (types.float16,) else None


for _function in _ARITHMETIC:
    _add(_function, _binary(types.float16))
for _function in _COMPARISONS:
    _add(_function, _binary(types.boolean))
for _function in _UNARY:
    _add(_function, _unary)
_add(complex, _complex)


def _as_word(word: Any) -> Callable[..., Any]:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _, generate = word.build(tools, *sig.args)
        return generate(context, builder, sig, args)

    return lower


@registry.lower(operator.truediv, types.float16, types.float16)
@registry.lower(operator.itruediv, types.float16, types.float16)
def _divide(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    is_zero = builder.fcmp_ordered("==", args[1], args[1].type(0.0))
    with builder.if_then(is_zero, likely=False):
        context.error_model.fp_zero_division(builder, ("division by zero",))
    return builder.fdiv(*args)


for _function, _word in half.MATH.items():
    _add(_function, _unary)
    registry.lower(_function, types.float16)(_as_word(_word))
