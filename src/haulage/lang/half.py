"""Words of float16, as CUDA has them: `fp16.hadd(a, b)` and its kin.

Each takes real numbers, converts them to float16, and rounds once, to the nearest. An operation is
done in a wider type where that is known to round as the narrow one does; the functions of the C
library are called in float64, whose error is too small to be seen in a half but for rare cases of
which the tests have found none. Where the processor has halves, but few units for float64, as GPUs
do, float32 comes first: its result does unless it lies so near to the middle of two halves that its
error decides between them (Ziv, ACM TOMS 17, 1991).

Source for the rules of NaNs and zeros: CUDA Math API, half precision intrinsics.
"""

import math
from collections.abc import Callable
from typing import Any

from haulage.lang.math import library
from haulage.lang.word import Namespace, Word, word

# llvmlite's builder method of the word with two arguments.
_ARITHMETIC = {"hadd": "fadd", "hsub": "fsub", "hmul": "fmul", "hdiv": "fdiv"}

_COMPARISONS = {"heq": "==", "hne": "!=", "hge": ">=", "hgt": ">", "hle": "<=", "hlt": "<"}

# Word: (function of the C library, whether it has to be worked out in float64, meaning).
_LIBRARY = {
    "hsin": ("sin", True, "the sine of `a`, in radians"),
    "hcos": ("cos", True, "the cosine of `a`, in radians"),
    "hlog": ("log", True, "the natural logarithm of `a`"),
    "hlog2": ("log2", True, "the logarithm of `a` to the base 2"),
    "hlog10": ("log10", True, "the logarithm of `a` to the base 10"),
    "hexp": ("exp", True, "e to the power of `a`"),
    "hexp2": ("exp2", True, "2 to the power of `a`"),
    "hsqrt": ("sqrt", False, "the square root of `a`"),
    "hfloor": ("floor", False, "the largest whole number that is at most `a`"),
    "hceil": ("ceil", False, "the smallest whole number that is at least `a`"),
    "htrunc": ("trunc", False, "`a` without its fraction"),
    "hrint": ("rint", False, "the whole number nearest to `a`, the even one of two"),
}

Compute = Callable[[Any, Any, Any, list[Any]], Any]

# More than the relative error of the functions in float32.
_NARROW_ERROR = 2.0**-22


def _word(name: str, parameters: str, meaning: str, compute: Compute, result: str) -> Word:
    """A word of halves; `compute(tools, target, builder, halves)` gives a value of the type
    `result`."""
    names = parameters.split(", ")

    def build(tools: Any, *given: Any) -> Any:
        types = tools.types
        for parameter, kind in zip(names, given, strict=True):
            if not isinstance(kind, (types.Integer, types.Float, types.Boolean)):
                raise tools.TypingError(
                    f"fp16.{name}({parameters}): {parameter}: expected a real number; got {kind}"
                )

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            halves = [
                context.cast(builder, value, kind, types.float16)
                for value, kind in zip(args, sig.args, strict=True)
            ]
            return compute(tools, context.haulage_target, builder, halves)

        return tools.signature(getattr(types, result), *given), generate

    def one(tools: Any, a: Any) -> Any:
        return build(tools, a)

    def two(tools: Any, a: Any, b: Any) -> Any:
        return build(tools, a, b)

    def three(tools: Any, a: Any, b: Any, c: Any) -> Any:
        return build(tools, a, b, c)

    made = (one, two, three)[len(names) - 1]
    made.__doc__ = f"`fp16.{name}({parameters})`: {meaning}; {result}."
    return word(f"fp16.{name}")(made)


def _wide(tools: Any, builder: Any, value: Any, kind: Any) -> Any:
    wide = tools.ir.FloatType if kind == tools.types.float32 else tools.ir.DoubleType
    return builder.fpext(value, wide())


def _narrow(tools: Any, builder: Any, value: Any) -> Any:
    return builder.fptrunc(value, tools.ir.HalfType())


def _rounded_once(tools: Any, target: Any, builder: Any, in_kind: Callable[..., Any]) -> Any:
    """The half that is nearest to a result; `in_kind(builder, kind)` works that out in a type."""
    types = tools.types
    if not target.has_halves:
        return _narrow(tools, builder, in_kind(builder, types.float64))
    near = in_kind(builder, types.float32)
    low, high = (
        _narrow(tools, builder, builder.fmul(near, near.type(1 + error)))
        for error in (-_NARROW_ERROR, _NARROW_ERROR)
    )
    result = tools.cgutils.alloca_once_value(builder, low)
    bits = tools.ir.IntType(16)
    differ = builder.icmp_unsigned("!=", builder.bitcast(low, bits), builder.bitcast(high, bits))
    with builder.if_then(differ, likely=False):
        exact = in_kind(builder, types.float64)
        builder.store(_narrow(tools, builder, exact), result)
    return builder.load(result)


def _arithmetic(name: str) -> Word:
    method = _ARITHMETIC[name]

    def compute(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
        return getattr(builder, method)(*halves)

    sign = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}[method]
    return _word(name, "a, b", f"`a {sign} b`", compute, "float16")


def _comparison(name: str) -> Word:
    sign = _COMPARISONS[name]

    def compute(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
        return builder.fcmp_ordered(sign, *halves)

    meaning = f"whether `a {sign} b`; never, if one is NaN"
    return _word(name, "a, b", meaning, compute, "boolean")


def _library(name: str) -> Word:
    function, in_double, meaning = _LIBRARY[name]

    def compute(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
        def in_kind(builder: Any, kind: Any) -> Any:
            value = _wide(tools, builder, halves[0], kind)
            return library(tools, builder, function, kind, [value])

        if in_double:
            return _rounded_once(tools, target, builder, in_kind)
        return _narrow(tools, builder, in_kind(builder, tools.types.float32))

    return _word(name, "a", meaning, compute, "float16")


def _extreme(name: str, sign: str, either: str) -> Word:
    """The larger or the smaller of two; `either` makes one of the bits of equal numbers."""

    def compute(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
        a, b = halves
        if target.has_halves:
            name = "llvm.maximumnum.f16" if sign == ">" else "llvm.minimumnum.f16"
            return tools.library_call(builder, name, a.type, halves)
        bits = tools.ir.IntType(16)
        # Equal numbers differ in the sign of zero only.
        same = getattr(builder, either)(builder.bitcast(a, bits), builder.bitcast(b, bits))
        no_b = builder.fcmp_unordered("uno", b, b)
        first = builder.or_(builder.fcmp_ordered(sign, a, b), no_b)
        chosen = builder.select(first, a, b)
        is_same = builder.fcmp_ordered("==", a, b)
        return builder.select(is_same, builder.bitcast(same, a.type), chosen)

    size = "larger" if sign == ">" else "smaller"
    meaning = f"the {size} of the two; NaN counts as missing, and -0 is below 0"
    return _word(name, "a, b", meaning, compute, "float16")


def _negated(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
    return builder.fneg(halves[0])


def _absolute(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
    bits = tools.ir.IntType(16)
    cleared = builder.and_(builder.bitcast(halves[0], bits), bits(0x7FFF))
    return builder.bitcast(cleared, halves[0].type)


def _fused(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
    if target.has_halves:
        return tools.library_call(builder, "llvm.fma.f16", halves[0].type, halves)
    # The product is exact in float64. So is each sum that lies near the middle of two halves, or
    # the sum's own rounding could matter.
    a, b, c = (_wide(tools, builder, value, tools.types.float64) for value in halves)
    return _narrow(tools, builder, builder.fadd(builder.fmul(a, b), c))


def _reciprocal(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
    return builder.fdiv(halves[0].type(1.0), halves[0])


def _reciprocal_root(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
    # In float32 too each half comes out right: all of them were tried.
    kind = tools.types.float32
    root = library(tools, builder, "sqrt", kind, [_wide(tools, builder, halves[0], kind)])
    return _narrow(tools, builder, builder.fdiv(root.type(1.0), root))


def _power_of_ten(tools: Any, target: Any, builder: Any, halves: list[Any]) -> Any:
    def in_kind(builder: Any, kind: Any) -> Any:
        value = _wide(tools, builder, halves[0], kind)
        if target.has_libdevice:
            return library(tools, builder, "exp10", kind, [value])
        return library(tools, builder, "pow", kind, [value.type(10.0), value])

    return _rounded_once(tools, target, builder, in_kind)


_words = {
    **{name: _arithmetic(name) for name in _ARITHMETIC},
    **{name: _comparison(name) for name in _COMPARISONS},
    **{name: _library(name) for name in _LIBRARY},
    "hneg": _word("hneg", "a", "`-a`", _negated, "float16"),
    "habs": _word("habs", "a", "`a` without its sign", _absolute, "float16"),
    "hfma": _word("hfma", "a, b, c", "`a * b + c`, rounded once", _fused, "float16"),
    "hrcp": _word("hrcp", "a", "`1 / a`", _reciprocal, "float16"),
    "hrsqrt": _word("hrsqrt", "a", "one by the square root of `a`", _reciprocal_root, "float16"),
    "hexp10": _word("hexp10", "a", "10 to the power of `a`", _power_of_ten, "float16"),
    "hmax": _extreme("hmax", ">", "and_"),
    "hmin": _extreme("hmin", "<", "or_"),
}
fp16 = Namespace("fp16", **_words)

# Functions that give a float16 for a float16 -> the word that stands for it.
MATH: dict[Callable[..., Any], Word] = {
    math.sin: _words["hsin"],
    math.cos: _words["hcos"],
    math.log: _words["hlog"],
    math.log2: _words["hlog2"],
    math.log10: _words["hlog10"],
    math.exp: _words["hexp"],
    math.sqrt: _words["hsqrt"],
    math.fabs: _words["habs"],
}
