"""log and its kin, and the functions that are logarithms in disguise.

x = 2**e m with m in [sqrt(1/2), sqrt(2)), and log(m) by the series of atanh, as in FreeBSD's msun
(e_log.c, e_log2.c, Sun Microsystems, 1993), with polynomials of our own.
"""

import math

from haulage.compiler.mathematics import coefficients
from haulage.compiler.mathematics.exponentials import SHIFT, SHIFT_BITS
from haulage.compiler.mathematics.ir import Value, Writer

_ROOT_HALF_BITS, _ROOT_HALF_BITS_SINGLE = 0x3FE6A09E667F3BCD, 0x3F3504F3
# log(2) with 32 bits, and the rest.
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def split(w: Writer, x: Value) -> tuple[Value, Value]:
    """(m, e as a float) of a positive double."""
    tiny = x < 2.0**-1022
    m, e = split_normal(w, tiny.choose(x * 2.0**54, x))
    return m, tiny.choose(e - 54.0, e)


def split_normal(w: Writer, x: Value) -> tuple[Value, Value]:
    """The same of one that is not subnormal; of 0, anything."""
    bits = x.bits()
    exponent = (bits - _ROOT_HALF_BITS + (1100 << 52)) >> 52
    mantissa = (bits - ((exponent - 1100) << 52)).as_float()
    return mantissa, (exponent + SHIFT_BITS).as_float() - (SHIFT + 1100)


def special(x: Value, result: Value) -> Value:
    """`result`, or what a logarithm is of 0, infinity and what is no positive number."""
    result = x.is_(math.inf).choose(math.inf, result)
    result = x.is_(0.0).choose(-math.inf, result)
    return x.not_at_least(0.0).choose(math.nan, result)


def _series(w: Writer, m: Value) -> tuple[Value, Value, Value]:
    """(f, f**2 / 2, rest) with log(m) = f - (f**2 / 2 - rest)."""
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    return f, half, s * w.fma(z, w.polynomial(coefficients.LOG, z), half)


def log_of_sum(w: Writer, x: Value, low: Value | None) -> Value:
    """log(x + low) of a positive finite x and a low that is tiny beside it."""
    m, e = split(w, x)
    f, half, rest = _series(w, m)
    more = e * LOG_2_LOW
    if low is not None:
        more = more + low / x
    return w.fma(e, LOG_2_HIGH, f - (half - (rest + more)))


def log(w: Writer, x: Value) -> Value:
    return special(x, log_of_sum(w, x, None))


def _of_base(
    w: Writer, x: Value, factor: float, factor_low: float, of_2: float, of_2_low: float
) -> Value:
    """log(x) * factor, where that of 2 is `of_2` in few bits and the rest."""
    m, e = split(w, x)
    f, half, rest = _series(w, m)
    high = f - half
    # In 32 bits, so that the product with a factor of 21 bits is exact.
    high = (high.bits() & -(1 << 32)).as_float()
    low = (f - high) - half + rest
    product = high * factor
    more = w.fma(low + high, factor_low, w.fma(low, factor, e * of_2_low))
    total, left = w.two_sum(e * of_2, product)
    return special(x, total + (left + more))


def log2(w: Writer, x: Value) -> Value:
    return _of_base(w, x, 1.44269504072144627571, 1.67517131648865118353e-10, 1.0, 0.0)


def log10(w: Writer, x: Value) -> Value:
    return _of_base(
        w,
        x,
        4.34294481878168880939e-01,
        2.50829467116452752298e-11,
        3.01029995663611771306e-01,
        3.69423907715893078616e-13,
    )


def log1p_of_sum(w: Writer, x: Value, low: Value | None = None) -> Value:
    """log(1 + x + low) of a sum above zero."""
    total, rest = w.two_sum(w.value("double", 1.0), x)
    return log_of_sum(w, total, rest if low is None else rest + low)


def log1p(w: Writer, x: Value) -> Value:
    result = special(x + 1.0, log1p_of_sum(w, x))
    return w.magnitude(x).not_at_least(2.0**-54).choose(x, result)


def asinh(w: Writer, x: Value) -> Value:
    """log1p(a + a**2 / (1 + sqrt(1 + a**2))); log(a) + log(2) of large ones."""
    a = w.magnitude(x)
    large = a > 2.0**28
    small = large.choose(1.0, a)
    square = small * small
    high, low = w.two_sum(small, square / (w.sqrt(square + 1.0) + 1.0))
    total, rest = w.two_sum(w.value("double", 1.0), high)
    total, rest = large.choose(a, total), large.choose(0.0, rest + low)
    result = log_of_sum(w, total, rest)
    result = large.choose(result + math.log(2), result)
    result = a.is_(math.inf).choose(a, result)
    return a.not_at_least(2.0**-28).choose(x, w.with_sign(result, x))


def acosh(w: Writer, x: Value) -> Value:
    """log1p(t + sqrt(2 t + t**2)) with t = x - 1; log(x) + log(2) of large ones."""
    large = x > 2.0**28
    t = large.choose(1.0, x - 1.0)
    high, low = w.two_sum(t, w.sqrt(w.fma(t, t, t * 2.0)))
    total, rest = w.two_sum(w.value("double", 1.0), high)
    total, rest = large.choose(x, total), large.choose(0.0, rest + low)
    result = log_of_sum(w, total, rest)
    result = large.choose(result + math.log(2), result)
    result = x.is_(math.inf).choose(x, result)
    return x.not_at_least(1.0).choose(math.nan, result)


def atanh(w: Writer, x: Value) -> Value:
    """log1p(2 a / (1 - a)) / 2."""
    a = w.magnitude(x)
    y = a * 2.0 / (1.0 - a)
    # What the quotient's rounding leaves out, as a part of it.
    product, low = w.two_product(y, 1.0 - a)
    _, left = w.two_sum(w.value("double", 1.0), -a)
    rest = ((a * 2.0 - product) - low - y * left) / (1.0 - a)
    result = log1p_of_sum(w, y, rest) * 0.5
    result = a.is_(1.0).choose(math.inf, result)
    result = w.with_sign((a > 1.0).choose(math.nan, result), x)
    return a.not_at_least(2.0**-28).choose(x, result)


# ---- float32 ------------------------------------------------------------------------------------


def _split_single(w: Writer, x: Value) -> tuple[Value, Value]:
    tiny = x < 2.0**-126
    bits = tiny.choose(x * 2.0**25, x).bits()
    exponent = (bits - _ROOT_HALF_BITS_SINGLE + (100 << 23) * 2) >> 23
    mantissa = (bits - ((exponent - 200) << 23)).as_float()
    number = exponent - tiny.choose(w.value("i32", 225), 200)
    return mantissa, number.signed_to("float")


def _series_single(w: Writer, m: Value) -> tuple[Value, Value, Value]:
    """(f, f**2 / 2, rest) with log(m) = f - (f**2 / 2 - rest)."""
    f = m - 1.0
    square = f * f
    return f, square * 0.5, square * f * w.polynomial(coefficients.LOG_SINGLE, f)


def log_single(w: Writer, x: Value) -> Value:
    m, e = _split_single(w, x)
    f, half, rest = _series_single(w, m)
    rest = w.fma(e, -2.12194440054690583e-4, rest)
    return special(x, w.fma(e, 0.693359375, f + (rest - half)))
