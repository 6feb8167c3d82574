"""The error function's kin and Bessel functions, in doubles.

`erfcx` and `normcdf` put what the rounding of their argument leaves out back in first order; the
inverse functions solve by Newton's method, for small values on the logarithm.
"""

# mypy: allow-untyped-defs

import math

from haulage.lang.libdevice.function import Defined, defined
from haulage.lang.math import fma

bessel_j = Defined("bessel_j", "id>d", lambda: ("jn", (), "id"), "The C library's jn(n, x).")
bessel_y = Defined("bessel_y", "id>d", lambda: ("yn", (), "id"), "The C library's yn(n, x).")

_ROOT_PI = 1.7724538509055160273
# 1 / sqrt(2) and what its rounding leaves out.
_ROOT_HALF, _ROOT_HALF_REST = 0.70710678118654752440, -4.833646656726456726e-17


@defined("d>d")
def erfcx(x):
    """exp(x**2) erfc(x)."""
    if x > 25:
        # The asymptotic series; its seventh term is below 1e-17 of the first.
        step = 0.5 / (x * x)
        term, total = 1.0, 1.0
        for k in range(1, 7):
            term *= -(2 * k - 1) * step
            total += term
        return total / (x * _ROOT_PI)
    square = x * x
    if square > 710 and x < 0:
        return math.inf
    rest = fma(x, x, -square)
    result = math.exp(square) * math.erfc(x)
    return result + result * rest


@defined("d>d")
def erfcinv_of_small(y):
    """The x > 0 with erfc(x) = y, for 0 < y <= 1/2."""
    wanted = math.log(y)
    x = math.sqrt(-wanted) if y < 0.05 else 0.5 + 0.5 * (0.5 - y)
    for _ in range(8):
        scaled = erfcx(x)
        step = (math.log(scaled) - fma(x, x, wanted)) * 0.5 * _ROOT_PI * scaled
        x += step
        if abs(step) < 1e-17 * x:
            break
    return x


@defined("d>d")
def erfinv(y):
    size = abs(y)
    if not size <= 1:
        return math.nan
    if size == 1:
        return math.copysign(math.inf, y)
    if size > 0.5:
        return math.copysign(erfcinv_of_small(1 - size), y)
    x = 0.5 * _ROOT_PI * y
    if size < 1e-9:
        return x
    for _ in range(5):
        x -= (math.erf(x) - y) * 0.5 * _ROOT_PI * math.exp(x * x)
    return x


@defined("d>d")
def erfcinv(y):
    if not (0 <= y <= 2):
        return math.nan
    if y == 0:
        return math.inf
    if y == 2:
        return -math.inf
    if y <= 0.5:
        return erfcinv_of_small(y)
    if y >= 1.5:
        return -erfcinv_of_small(2 - y)
    return erfinv(1 - y)


@defined("d>d")
def normcdf(x):
    """The part of the standard normal distribution below x."""
    scaled = -x * _ROOT_HALF
    if abs(scaled) > 30 or math.isnan(x):
        return 0.5 * math.erfc(scaled)
    rest = fma(-x, _ROOT_HALF, -scaled) - x * _ROOT_HALF_REST
    return 0.5 * math.erfc(scaled) - rest * math.exp(-scaled * scaled) / _ROOT_PI


@defined("d>d")
def normcdfinv(p):
    return -math.sqrt(2.0) * erfcinv(2 * p)


@defined("id>d")
def jn(order, x):
    return math.nan if order < 0 else bessel_j(order, x)


@defined("id>d")
def yn(order, x):
    if order < 0 or x < 0:
        return math.nan
    return bessel_y(order, x)
