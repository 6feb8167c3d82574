"""What the definitions are made of and the kernel language has no word for."""

from typing import Any

from haulage.lang.math import of_library
from haulage.lang.word import Word, word

ceil = of_library("ceil", "x")
floor = of_library("floor", "x")
nextafter = of_library("nextafter", "x", "y")
rint = of_library("rint", "x")
round_away = of_library("round", "x")
trunc = of_library("trunc", "x")


def _bitcast(name: str, given: str, result: str) -> Word:
    def build(tools: Any, x: Any) -> Any:
        source, kind = getattr(tools.types, given), getattr(tools.types, result)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = context.cast(builder, args[0], sig.args[0], source)
            return builder.bitcast(value, context.get_value_type(kind))

        return kind(x), generate

    build.__doc__ = f"`{name}(x)`: the bits of a {given} as a {result}."
    return word(name)(build)


bits_of_double = _bitcast("bits_of_double", "float64", "int64")
bits_of_float = _bitcast("bits_of_float", "float32", "int32")
double_of_bits = _bitcast("double_of_bits", "int64", "float64")
float_of_bits = _bitcast("float_of_bits", "int32", "float32")


@word("high_product")
def high_product(tools: Any, x: Any, y: Any) -> Any:
    """`high_product(x, y)`: the upper 64 bits of the product of two int64, or of two uint64."""
    kind = tools.types.unliteral(x)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = [
            context.cast(builder, value, given, kind)
            for value, given in zip(args, sig.args, strict=True)
        ]
        return context.haulage_target.high_product(builder, *values, signed=kind.signed)

    return kind(x, y), generate
