"""Functions of Python's `math` that Numba's front end does not know for every target.

The others come from Numba: each ends as an LLVM operation or a function of the C library.
"""

import math
from collections.abc import Callable
from typing import Any

from haulage.lang.word import Word, word


def _float_type(tools: Any, *arguments: Any) -> Any:
    """The float type to compute in: float32 if no argument is wider, float64 for ints too.

    None if an argument is no real number.
    """
    real = (tools.types.Integer, tools.types.Float, tools.types.Boolean)
    if not all(isinstance(kind, real) for kind in arguments):
        return None
    narrow = (tools.types.float16, tools.types.float32)
    single = all(kind in narrow for kind in arguments)
    return tools.types.float32 if single else tools.types.float64


def _cast(context: Any, builder: Any, sig: Any, args: Any, kind: Any) -> list[Any]:
    return [
        context.cast(builder, value, given, kind)
        for value, given in zip(args, sig.args, strict=True)
    ]


def library(tools: Any, builder: Any, name: str, kind: Any, values: list[Any]) -> Any:
    """Call a function of the C library, in the form for floats or for doubles."""
    suffix = "f" if kind == tools.types.float32 else ""
    return tools.library_call(builder, name + suffix, values[0].type, values)


def of_library(name: str, *parameters: str) -> Word:
    """The word for a function of the C library on floats or doubles."""
    listed = ", ".join(parameters)

    def one(tools: Any, x: Any) -> Any:
        return build(tools, x)

    def two(tools: Any, x: Any, y: Any) -> Any:
        return build(tools, x, y)

    def three(tools: Any, x: Any, y: Any, z: Any) -> Any:
        return build(tools, x, y, z)

    def build(tools: Any, *arguments: Any) -> Any:
        kind = _float_type(tools, *arguments)
        if kind is None:
            given = ", ".join(str(argument) for argument in arguments)
            raise tools.TypingError(f"{name}({listed}): expected real numbers; got {given}")

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            values = _cast(context, builder, sig, args, kind)
            return library(tools, builder, name, kind, values)

        return tools.signature(kind, *arguments), generate

    made = (one, two, three)[len(parameters) - 1]
    made.__doc__ = f"`math.{name}({listed})`, as the C library computes it."
    return word(f"math.{name}")(made)


cbrt = of_library("cbrt", "x")
fma = of_library("fma", "x", "y", "z")
hypot = of_library("hypot", "x", "y")
remainder = of_library("remainder", "x", "y")


def _to_whole(name: str, meaning: str) -> Word:
    def build(tools: Any, x: Any) -> Any:
        types = tools.types
        if isinstance(x, (types.Integer, types.Boolean)):
            # Beyond 2**53 a float would change the number.
            result = types.uint64 if types.unliteral(x) == types.uint64 else types.int64
        elif isinstance(x, types.Float):
            result = x
        else:
            return None

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            if not isinstance(x, types.Float):
                return context.cast(builder, args[0], x, result)
            kind = _float_type(tools, x)
            value = library(tools, builder, name, kind, _cast(context, builder, sig, args, kind))
            return context.cast(builder, value, kind, result)

        return tools.signature(result, x), generate

    build.__doc__ = f"`math.{name}(x)`: {meaning}: a float of a float, else an int64 or uint64."
    return word(f"math.{name}")(build)


ceil = _to_whole("ceil", "the least whole number that is not below x")
floor = _to_whole("floor", "the greatest whole number that is not above x")
trunc = _to_whole("trunc", "x without its fraction")


@word("math.fmod")
def fmod(tools: Any, x: Any, y: Any) -> Any:
    """`math.fmod(x, y)`: what is left of x by y, with the sign of x; exact."""
    kind = _float_type(tools, x, y)
    if kind is None:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.frem(*_cast(context, builder, sig, args, kind))

    return tools.signature(kind, x, y), generate


@word("math.modf")
def modf(tools: Any, x: Any) -> Any:
    """`math.modf(x)`: (fraction, whole), both floats with the sign of x."""
    kind = _float_type(tools, x)
    if kind is None:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        (value,) = _cast(context, builder, sig, args, kind)
        whole = library(tools, builder, "trunc", kind, [value])
        # Infinity less itself is no number; its fraction is a zero.
        is_whole = builder.fcmp_ordered("==", value, whole)
        left = builder.select(
            is_whole, tools.ir.Constant(value.type, 0), builder.fsub(value, whole)
        )
        fraction = library(tools, builder, "copysign", kind, [left, value])
        return context.make_tuple(builder, sig.return_type, [fraction, whole])

    return tools.signature(tools.types.UniTuple(kind, 2), x), generate


# What a kernel may say -> the word that stands for it.
FUNCTIONS: dict[Callable[..., Any], Word] = {
    math.ceil: ceil,
    math.floor: floor,
    math.fmod: fmod,
    math.hypot: hypot,
    math.modf: modf,
    math.remainder: remainder,
    math.trunc: trunc,
    **({math.cbrt: cbrt} if hasattr(math, "cbrt") else {}),
    # Python 3.13 has it.
    **({math.fma: fma} if hasattr(math, "fma") else {}),
}
