"""Definitions on real numbers that the C library does not have, or has in another form."""

# mypy: allow-untyped-defs

import math

from haulage.lang.libdevice.function import defined
from haulage.lang.libdevice.primitives import rint
from haulage.lang.math import cbrt, remainder

_INT_MAX = 2**31 - 1


def reciprocal_root(x):
    """1 / sqrt(x); of a zero it is infinite, with the zero's sign."""
    return 1.0 / math.sqrt(x)


def reciprocal_cube_root(x):
    return 1.0 / cbrt(x)


def saturate(x):
    """A number cut to [0, 1]; 0 of what is none."""
    if not x > 0:
        return 0.0
    return 1.0 if x > 1 else x


def is_finite(x):
    return int(math.isfinite(x))


def is_infinite(x):
    return int(math.isinf(x))


def is_nan(x):
    return int(math.isnan(x))


def sign_bit(x):
    return int(math.copysign(1.0, x) < 0)


def whole_logarithm(x):
    """The exponent of a number in [1, 2) times a power of two; the limits of int32 of others."""
    if math.isinf(x):
        return _INT_MAX
    if x == 0 or math.isnan(x):
        return -_INT_MAX - 1
    return math.frexp(x)[1] - 1


def scaled(x, exponent):
    return math.ldexp(x, exponent)


def whole_power(x, exponent):
    return math.pow(x, float(exponent))


def split(x):
    """(mantissa in [0.5, 1), exponent)."""
    return math.frexp(x)


def parts(x):
    """(fraction, whole number)."""
    return math.modf(x)


def remainder_and_quotient(x, y):
    """(IEEE's remainder, the sign and the low three bits of the quotient nearest to x / y)."""
    left = remainder(x, y)
    if math.isnan(left) or math.isinf(y):
        return left, 0
    # Eight times y may be too great; then x / y is below eight.
    size, step = abs(x), abs(y)
    near = math.fmod(size, 8 * step) if step < 2.0**1020 else size
    own = left if x > 0 else -left
    low = int(rint((near - own) / step)) & 7
    negative = math.copysign(1.0, x) != math.copysign(1.0, y)
    return left, -low if negative else low


@defined("d>dd")
def sine_and_cosine(x):
    return math.sin(x), math.cos(x)


@defined("d>dd")
def sine_and_cosine_of_half_turns(x):
    """(sin(pi x), cos(pi x)); the argument is brought to [-1/4, 1/4] without an error."""
    if math.isinf(x):
        return math.nan, math.nan
    left = math.fmod(x, 2.0)
    quarter = int(rint(2 * left))
    rest = left - quarter / 2
    sine, cosine = math.sin(math.pi * rest), math.cos(math.pi * rest)
    if rest == 0:
        sine = math.copysign(0.0, x)
    turn = quarter & 3
    if turn == 1:
        return cosine, 0.0 - sine if rest == 0 else -sine
    if turn == 2:
        return 0.0 + sine if rest == 0 else -sine, -cosine
    if turn == 3:
        return -cosine, 0.0 + abs(sine) if rest == 0 else sine
    return sine, cosine


def sine_of_half_turns(x):
    return sine_and_cosine_of_half_turns(x)[0]


def cosine_of_half_turns(x):
    return sine_and_cosine_of_half_turns(x)[1]
