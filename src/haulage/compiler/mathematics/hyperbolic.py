"""sinh, cosh and tanh: polynomials of small numbers, exponentials in two parts of others."""

import math

from haulage.compiler.mathematics import coefficients
from haulage.compiler.mathematics.exponentials import (
    clamped,
    parts_of_exp,
    power_of_2,
    reduced,
    scaled,
)
from haulage.compiler.mathematics.ir import Value, Writer


def _exp_and_inverse(w: Writer, a: Value) -> tuple[Value, Value, Value, Value]:
    """(high, low, inverse, n): exp(a) is (high + low) 2**n, exp(-a) inverse 2**n."""
    r, rest, n = reduced(w, clamped(a, 0.0, 711.0))
    high, low = parts_of_exp(w, r, rest)
    step = (n > 60).choose(w.value("i64", 60), n)
    inverse = power_of_2(step * -2) / (high + low)
    return high, low, inverse, n


def cosh(w: Writer, x: Value) -> Value:
    high, low, inverse, n = _exp_and_inverse(w, w.magnitude(x))
    total, left = w.ordered_sum(high, inverse)
    return scaled(total + (left + low), n - 1)


def sinh(w: Writer, x: Value) -> Value:
    a = w.magnitude(x)
    high, low, inverse, n = _exp_and_inverse(w, a)
    total, left = w.ordered_sum(high, -inverse)
    large = scaled(total + (left + low), n - 1)
    z = a * a
    small = a + a * z * w.polynomial(coefficients.SINH, z)
    return w.with_sign((a > 1.0).choose(large, small), x)


def tanh(w: Writer, x: Value) -> Value:
    a = w.magnitude(x)
    r, rest, n = reduced(w, clamped(a * 2.0, 0.0, 60.0))
    high, low = parts_of_exp(w, r, rest)
    factor = power_of_2(n)
    large = 1.0 - 2.0 / (high * factor + (low * factor + 1.0))
    z = a * a
    small = a + a * z * w.polynomial(coefficients.TANH, z)
    result = w.with_sign((a > 0.6).choose(large, small), x)
    return x.is_not(x).choose(math.nan, result)
