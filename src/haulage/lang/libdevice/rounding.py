"""Arithmetic on doubles and floats rounded to nearest, to zero, down or up.

The result that is nearest comes first; an error-free transformation tells on which side of it the
exact value is, and the neighbour there is taken if the direction says so. (T. J. Dekker, A
floating-point technique for extending the available precision, 1971; J. R. Shewchuk, Adaptive
precision floating-point arithmetic, 1997.) Factors are brought to the size of one before, where
their product's error can be written down. Floats are worked out in doubles in the same direction:
rounding twice in one direction is rounding once.
"""

# mypy: allow-untyped-defs

import math

import numpy as np

from haulage.lang.libdevice.function import defined
from haulage.lang.libdevice.primitives import nextafter
from haulage.lang.math import fma

NEAREST, ZERO, DOWN, UP = range(4)

# Stands for what is too small to matter but for its sign, beside numbers of the size of one.
_TINY = 2.0**-300
_FAR = 700


@defined("ddi>d")
def settle(nearest, error, mode):
    """The neighbour of `nearest` that `mode` asks for; `error` has the sign of exact - nearest."""
    if mode == UP and error > 0:
        return nextafter(nearest, math.inf)
    if mode == DOWN and error < 0:
        return nextafter(nearest, -math.inf)
    if mode == ZERO and ((nearest > 0 and error < 0) or (nearest < 0 and error > 0)):
        return nextafter(nearest, 0.0)
    return nearest


@defined("di>f")
def to_float(x, mode):
    """A double as a float."""
    nearest = np.float32(x)
    if mode == NEAREST or not math.isfinite(x):
        return nearest
    if mode == UP and x > nearest:
        return nextafter(nearest, np.float32(math.inf))
    if mode == DOWN and x < nearest:
        return nextafter(nearest, np.float32(-math.inf))
    if mode == ZERO and abs(nearest) > abs(x):
        return nextafter(nearest, np.float32(0))
    return nearest


@defined("dd>dd")
def two_sum(x, y):
    """(x + y, what its rounding left out), by Knuth; nothing may overflow."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@defined("ddi>d")
def add(x, y, mode):
    total = x + y
    if mode == NEAREST or not (math.isfinite(x) and math.isfinite(y)):
        return total
    if math.isinf(total):
        return settle(total, -total, mode)
    if total == 0:
        alike = math.copysign(1.0, x) == math.copysign(1.0, y)
        return -0.0 if mode == DOWN and not alike else total
    # Dekker's order keeps even the greatest numbers from overflowing on the way.
    large, small = (x, y) if abs(x) >= abs(y) else (y, x)
    return settle(total, small - (total - large), mode)


@defined("ddi>d")
def subtract(x, y, mode):
    return add(x, -y, mode)


@defined("ddi>d")
def multiply(x, y, mode):
    product = x * y
    if mode == NEAREST or not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        return product
    if math.isinf(product):
        return settle(product, -product, mode)
    mx, ex = math.frexp(x)
    my, ey = math.frexp(y)
    high = mx * my
    low = fma(mx, my, -high)
    return settle(product, (high - math.ldexp(product, -(ex + ey))) + low, mode)


@defined("ddi>d")
def divide(x, y, mode):
    quotient = x / y
    if mode == NEAREST or not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        return quotient
    if math.isinf(quotient):
        return settle(quotient, -quotient, mode)
    mx, ex = math.frexp(x)
    my, ey = math.frexp(y)
    left = fma(-math.ldexp(quotient, ey - ex), my, mx)
    return settle(quotient, math.copysign(1.0, my) * left, mode)


@defined("di>d")
def reciprocal(x, mode):
    return divide(1.0, x, mode)


@defined("di>d")
def square_root(x, mode):
    if mode == NEAREST or not (x > 0 and math.isfinite(x)):
        return math.sqrt(x)
    mantissa, exponent = math.frexp(x)
    if exponent % 2 != 0:
        mantissa *= 2
        exponent -= 1
    nearest = math.sqrt(mantissa)
    root = settle(nearest, fma(-nearest, nearest, mantissa), mode)
    return math.ldexp(root, exponent // 2)


@defined("dddi>d")
def multiply_add(x, y, z, mode):
    nearest = fma(x, y, z)
    if mode == NEAREST or not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return nearest
    if x == 0 or y == 0:
        return add(x * y, z, mode)
    if z == 0:
        return multiply(x, y, mode)
    if math.isinf(nearest):
        return settle(nearest, -nearest, mode)
    mx, ex = math.frexp(x)
    my, ey = math.frexp(y)
    mz, ez = math.frexp(z)
    high = mx * my
    low = fma(mx, my, -high)
    size = max(ex + ey, ez)
    if size - (ex + ey) > _FAR:
        high, low = math.copysign(_TINY, high), 0.0
    else:
        high, low = math.ldexp(high, ex + ey - size), math.ldexp(low, ex + ey - size)
    mz = math.copysign(_TINY, mz) if size - ez > _FAR else math.ldexp(mz, ez - size)
    # Shewchuk's expansions: what is left has the sign of its largest part that is not zero.
    carry, first = two_sum(mz, low)
    third, second = two_sum(carry, high)
    carry, smallest = two_sum(-math.ldexp(nearest, -size), first)
    carry, small = two_sum(carry, second)
    largest, large = two_sum(carry, third)
    error = smallest
    if small != 0:
        error = small
    if large != 0:
        error = large
    if largest != 0:
        error = largest
    if nearest == 0 and error == 0:
        return -0.0 if mode == DOWN else 0.0
    return settle(nearest, error, mode)


@defined("dddi>f")
def multiply_add_floats(x, y, z, mode):
    if mode == NEAREST:
        return fma(np.float32(x), np.float32(y), np.float32(z))
    return to_float(multiply_add(x, y, z, mode), mode)


@defined("ddi>f")
def add_floats(x, y, mode):
    return to_float(add(x, y, mode), mode)


@defined("ddi>f")
def subtract_floats(x, y, mode):
    return to_float(subtract(x, y, mode), mode)


@defined("ddi>f")
def multiply_floats(x, y, mode):
    return to_float(multiply(x, y, mode), mode)


@defined("ddi>f")
def divide_floats(x, y, mode):
    return to_float(divide(x, y, mode), mode)


@defined("di>f")
def reciprocal_float(x, mode):
    return to_float(divide(1.0, x, mode), mode)


@defined("di>f")
def square_root_float(x, mode):
    return to_float(square_root(x, mode), mode)
