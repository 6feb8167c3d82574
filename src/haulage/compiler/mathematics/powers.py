"""pow, cbrt and hypot."""

import math

from haulage.compiler.mathematics import coefficients
from haulage.compiler.mathematics.exponentials import (
    LOG2_E,
    LOG_2,
    LOG_2_REST,
    LOG_2_SHORT,
    clamped,
    exp_of_sum,
    power_of_2,
    whole,
)
from haulage.compiler.mathematics.ir import Value, Writer
from haulage.compiler.mathematics.logarithms import LOG_2_HIGH, LOG_2_LOW, split, split_normal


def _long_log(w: Writer, x: Value) -> tuple[Value, Value]:
    """log(x) with some 66 bits, as a sum, of a positive finite number.

    The first terms of the series of atanh in double doubles, the rest in doubles, as in SLEEF
    (Shibata and Petrogalli, IEEE TPDS 31, 2020).
    """
    m, e = split(w, x)
    f = m - 1.0
    under, under_low = w.two_sum(m, w.value("double", 1.0))
    s = f / under
    product, low = w.two_product(s, under)
    s_low = ((f - product) - low - s * under_low) / under
    z, z_low = w.two_product(s, s)
    z_low = w.fma(s * 2.0, s_low, z_low)
    # s**3 * 2 / 3
    cube, cube_low = w.two_product(z, s)
    cube_low = cube_low + w.fma(z, s_low, z_low * s)
    third, third_low = w.two_product(cube, w.value("double", 2 / 3))
    third_low = third_low + w.fma(cube_low, 2 / 3, cube * 3.700743415417188e-17)
    tail = cube * z * w.polynomial(coefficients.LOG_LONG, z)
    high, left = w.ordered_sum(e * LOG_2_HIGH, s * 2.0)
    high, more = w.two_sum(high, third)
    rest = (left + more) + (third_low + w.fma(s_low, 2.0, tail))
    rest_high, rest_low = w.two_sum(e * LOG_2_LOW, rest)
    high, left = w.ordered_sum(high, rest_high)
    return high, left + rest_low


def _is_whole(w: Writer, size: Value) -> Value:
    """Whether a number that is not below zero is whole."""
    limit = 2.0**52 if size.kind == "double" else 2.0**23
    return ((size + limit) - limit).is_(size) | (size > limit)


def pow_(w: Writer, x: Value, y: Value) -> Value:
    a = w.magnitude(x)
    high, low = _long_log(w, a)
    # Clamped so that no product is infinite; a power of so much is 0, 1 or infinite.
    product, rest = w.two_product(high, clamped(y, -(2.0**80), 2.0**80))
    rest = w.fma(low, y, rest)
    far = w.magnitude(product) > 800.0
    size = exp_of_sum(w, clamped(product, -746.0, 710.0), far.choose(0.0, rest))
    return with_edges(w, x, y, size)


def with_edges(w: Writer, x: Value, y: Value, size: Value) -> Value:
    """x**y, whose size is `size` where both are finite and not zero."""
    a, steps = w.magnitude(x), w.magnitude(y)
    whole = _is_whole(w, steps)
    odd = whole & (_is_whole(w, steps * 0.5) ^ w.value("i1", 1))
    odd = odd & (steps < (2.0**53 if x.kind == "double" else 2.0**24))
    up = y > 0.0
    zero, infinite = w.value(x.kind, 0.0), w.value(x.kind, math.inf)
    size = a.is_(0.0).choose(up.choose(zero, infinite), size)
    size = a.is_(math.inf).choose(up.choose(infinite, zero), size)
    grows = (a > 1.0) ^ up
    size = steps.is_(math.inf).choose(grows.choose(zero, infinite), size)
    size = (steps.is_(math.inf) & a.is_(1.0)).choose(1.0, size)
    negative = x.bits() < 0
    size = (negative & odd).choose(-size, size)
    no_number = (x < 0.0) & (whole ^ w.value("i1", 1)) & a.is_not(math.inf)
    size = no_number.choose(math.nan, size)
    size = (x.is_not(x) | y.is_not(y)).choose(math.nan, size)
    return (y.is_(0.0) | x.is_(1.0)).choose(1.0, size)


# A polynomial for 1 / cbrt, of FreeBSD's msun (s_cbrt.c, Sun Microsystems, 1993; Evans, 2005).
_CBRT = (
    1.87595182427177009643,
    -1.88497979543377169875,
    1.621429720105354466140,
    -0.758397934778766047437,
    0.145996192886612446982,
)


def cbrt(w: Writer, x: Value) -> Value:
    """A third of the exponent, a polynomial, and one step of Newton's from 23 bits on."""
    a = w.magnitude(x)
    tiny = a < 2.0**-1022
    scaled = tiny.choose(a * 2.0**54, a)
    third = (scaled.bits() >> 32).to("i32") / 3
    start = third + tiny.choose(w.value("i32", 696219795), 715094163)
    t = (start.to("i64") << 32).as_float()
    r = t * t * (t / a)
    t = t * (
        (r * w.fma(r, _CBRT[2], _CBRT[1]) + _CBRT[0]) + r * r * r * w.fma(r, _CBRT[4], _CBRT[3])
    )
    t = ((t.bits() + 0x80000000) & -0x40000000).as_float()
    r = a / (t * t)
    t = w.fma(t, (r - t) / (t + t + r), t)
    ordinary = (a > 0.0) & (a < math.inf)
    return ordinary.choose(w.with_sign(t, x), x + x)


def hypot(w: Writer, x: Value, y: Value) -> Value:
    first, second = w.magnitude(x), w.magnitude(y)
    more = first > second
    large, small = more.choose(first, second), more.choose(second, first)
    factor = (large > 2.0**500).choose(2.0**-600, w.value("double", 1.0))
    back = (large > 2.0**500).choose(2.0**600, w.value("double", 1.0))
    factor = (large < 2.0**-400).choose(2.0**600, factor)
    back = (large < 2.0**-400).choose(2.0**-600, back)
    large, small = large * factor, small * factor
    square, low = w.two_product(large, large)
    total, left = w.ordered_sum(square, small * small)
    root = w.sqrt(total)
    again, again_low = w.two_product(root, root)
    rest = ((total - again) - again_low + (left + low)) / (root + root)
    result = (total > 0.0).choose(root + rest, root) * back
    infinite = first.is_(math.inf) | second.is_(math.inf)
    return infinite.choose(math.inf, result)


def hypot_single(w: Writer, x: Value, y: Value) -> Value:
    wide_x, wide_y = x.to("double"), y.to("double")
    result = w.sqrt(w.fma(wide_x, wide_x, wide_y * wide_y)).to("float")
    infinite = w.magnitude(x).is_(math.inf) | w.magnitude(y).is_(math.inf)
    return infinite.choose(math.inf, result)


def pow_single(w: Writer, x: Value, y: Value) -> Value:
    """In doubles, with polynomials for the 45 bits that 24 of the result need."""
    m, e = split_normal(w, w.magnitude(x).to("double"))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    logarithm = w.fma(s * z, w.polynomial(coefficients.LOG_SHORT, z), s * 2.0)
    wide = y.to("double")
    product = clamped(w.fma(e, LOG_2, logarithm) * wide, -150.0, 150.0)
    n, number = whole(w, product, LOG2_E)
    r = w.fma(n, -LOG_2_REST, w.fma(n, -LOG_2_SHORT, product))
    size = w.fma(r * r, w.polynomial(coefficients.EXP_SHORT, r), r) + 1.0
    return with_edges(w, x, y, (size * power_of_2(number)).to("float"))
