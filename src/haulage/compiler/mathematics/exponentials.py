"""exp and its kin.

x = n log(2) + r with a whole n and |r| < 0.35 (Cody and Waite, Software Manual for the Elementary
Functions, 1980, chapter 6), a polynomial for exp(r), and two steps to multiply by 2**n, so that the
second may round to a subnormal number or go beyond the largest.
"""

import math

from haulage.compiler.mathematics import coefficients
from haulage.compiler.mathematics.ir import Value, Writer

# Added to a number of at most 2**51 (2**22), these leave the nearest whole number in the low bits.
SHIFT, SHIFT_BITS = 1.5 * 2.0**52, 0x4338000000000000
SHIFT_SINGLE, SHIFT_SINGLE_BITS = 1.5 * 2.0**23, 0x4B400000
LOG_2, LOG_2_LOW = 0.6931471805599453, 2.3190468138462996e-17
LOG2_E = 1.4426950408889634
# The first has 33 bits, so that its product with a whole number below 2**20 is exact.
LOG_2_SHORT, LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def clamped(x: Value, low: float, high: float) -> Value:
    """x cut to a range; NaN stays."""
    x = (x > high).choose(high, x)
    return (x < low).choose(low, x)


def whole(w: Writer, x: Value, factor: float) -> tuple[Value, Value]:
    """The whole number nearest to x * factor, as a float and as an int."""
    shift, bits = (SHIFT, SHIFT_BITS) if x.kind == "double" else (SHIFT_SINGLE, SHIFT_SINGLE_BITS)
    moved = w.fma(x, factor, shift)
    return moved - shift, moved.bits() - bits


def power_of_2(n: Value) -> Value:
    """2**n as a float, for an n whose power is a normal number."""
    if n.kind == "i64":
        return ((n + 1023) << 52).as_float()
    return ((n + 127) << 23).as_float()


def scaled(value: Value, n: Value) -> Value:
    """value * 2**n, for a value near one and an n whose half is an exponent."""
    half = ((n + 4096) >> 1) - 2048
    return value * power_of_2(half) * power_of_2(n - half)


def parts_of_exp(w: Writer, r: Value, rest: Value) -> tuple[Value, Value]:
    """exp(r + rest) as a sum, the first by far the larger, for |r| < 0.35 and a tiny rest."""
    r, rest = w.ordered_sum(r, rest)
    tail = w.fma(r * r, w.polynomial(coefficients.EXP, r), rest)
    high, low = w.ordered_sum(w.value(r.kind, 1.0), r)
    return high, low + tail


def reduced(w: Writer, x: Value) -> tuple[Value, Value, Value]:
    """(r, what is too small for r, n) of a double."""
    n, number = whole(w, x, LOG2_E)
    return w.fma(n, -LOG_2_SHORT, x), n * -LOG_2_REST, number


def exp_of_sum(w: Writer, x: Value, low: Value) -> Value:
    """exp(x + low) for doubles, x within the range of `clamped_for_exp`."""
    r, rest, n = reduced(w, x)
    high, tail = parts_of_exp(w, r, rest + low)
    return scaled(high + tail, n)


def clamped_for_exp(x: Value) -> Value:
    return clamped(x, -746.0, 710.0)


def exp(w: Writer, x: Value) -> Value:
    return exp_of_sum(w, clamped_for_exp(x), w.value("double", 0.0))


def _times_log_2(w: Writer, f: Value) -> tuple[Value, Value]:
    high, low = w.two_product(f, w.value("double", LOG_2))
    return high, w.fma(f, LOG_2_LOW, low)


def exp2(w: Writer, x: Value) -> Value:
    x = clamped(x, -1080.0, 1025.0)
    n, number = whole(w, x, 1.0)
    high, tail = parts_of_exp(w, *_times_log_2(w, x - n))
    return scaled(high + tail, number)


# log10(2) in 33 bits and the rest; log(10).
_LOG10_2_SHORT, _LOG10_2_REST = 3.01029995663611771306e-01, 3.69423907715893078616e-13
_LOG_10, _LOG_10_LOW = 2.302585092994046, -2.1707562233822494e-16


def exp10(w: Writer, x: Value) -> Value:
    x = clamped(x, -325.0, 309.0)
    n, number = whole(w, x, math.log2(10))
    f, rest = w.two_sum(w.fma(n, -_LOG10_2_SHORT, x), n * -_LOG10_2_REST)
    high, low = w.two_product(f, w.value("double", _LOG_10))
    low = w.fma(rest, _LOG_10, w.fma(f, _LOG_10_LOW, low))
    high, tail = parts_of_exp(w, high, low)
    return scaled(high + tail, number)


def expm1(w: Writer, x: Value) -> Value:
    r, rest, n = reduced(w, clamped(x, -40.0, 710.0))
    r, rest = w.ordered_sum(r, rest)
    tail = w.fma(r * r, w.polynomial(coefficients.EXP, r), rest)
    # 2**n - 1 + 2**n (r + tail); near the largest numbers in halves.
    top = n.is_(1024)
    factor = power_of_2(top.choose(n - 1, n))
    unit = top.choose(0.5, w.value("double", 1.0))
    high, low = w.two_sum(factor - unit, factor * r)
    result = high + w.fma(factor, tail, low)
    result = top.choose(result * 2.0, result)
    return w.magnitude(x).not_at_least(2.0**-54).choose(x, (x > 709.8).choose(math.inf, result))


# ---- float32 ------------------------------------------------------------------------------------

_LOG_2_SINGLE, _LOG_2_SINGLE_REST = 0.693145751953125, 1.428606765330187045e-06


def of_reduced_single(w: Writer, r: Value, n: Value) -> Value:
    tail = w.polynomial(coefficients.EXP_SINGLE, r)
    return scaled(w.fma(r * r, tail, r) + 1.0, n)


def exp_single(w: Writer, x: Value) -> Value:
    x = clamped(x, -104.0, 89.0)
    n, number = whole(w, x, LOG2_E)
    r = w.fma(n, -_LOG_2_SINGLE_REST, w.fma(n, -_LOG_2_SINGLE, x))
    return of_reduced_single(w, r, number)


def exp2_single(w: Writer, x: Value) -> Value:
    x = clamped(x, -151.0, 129.0)
    n, number = whole(w, x, 1.0)
    return of_reduced_single(w, (x - n) * LOG_2, number)


def exp10_single(w: Writer, x: Value) -> Value:
    x = clamped(x, -46.0, 39.0)
    n, number = whole(w, x, math.log2(10))
    # log10(2) in 12 bits and the rest; log(10) in two parts.
    f = w.fma(n, -4.60503898119521e-06, w.fma(n, -0.301025390625, x))
    r = w.fma(f, _LOG_10, f * (_LOG_10 - 2.302585124969482))
    return of_reduced_single(w, r, number)
