"""Conversions between ints, floats, doubles and bit patterns.

Floats beyond an int's range become its nearest limit. What is no number becomes the int whose
highest bit alone is set, and 0 if a float becomes 32 bits wide (PTX ISA, `cvt`).
"""

# mypy: allow-untyped-defs

import math

import numpy as np

from haulage.lang.libdevice import primitives
from haulage.lang.libdevice.function import defined
from haulage.lang.libdevice.primitives import ceil, floor, rint, trunc
from haulage.lang.libdevice.rounding import DOWN, NEAREST, UP, ZERO, settle, to_float

_LOW = 0xFFFFFFFF


@defined("di>d")
def to_whole(x, mode):
    if mode == NEAREST:
        return rint(x)
    if mode == ZERO:
        return trunc(x)
    return floor(x) if mode == DOWN else ceil(x)


@defined("di>i")
def double_to_int(x, mode):
    if math.isnan(x):
        return -(2**31)
    return np.int64(min(max(to_whole(x, mode), -(2.0**31)), 2.0**31 - 1))


@defined("di>i")
def double_to_uint(x, mode):
    if math.isnan(x):
        return 2**31
    return np.int64(min(max(to_whole(x, mode), 0.0), 2.0**32 - 1))


@defined("di>l")
def to_long(x, mode):
    whole = to_whole(x, mode)
    if math.isnan(x) or whole <= -(2.0**63):
        return np.int64(-(2**63))
    return np.int64(2**63 - 1) if whole >= 2.0**63 else np.int64(whole)


@defined("di>l")
def to_ulong(x, mode):
    whole = to_whole(x, mode)
    if math.isnan(x):
        return np.int64(-(2**63))
    if whole <= 0:
        return np.int64(0)
    return np.int64(-1) if whole >= 2.0**64 else np.int64(np.uint64(whole))


@defined("di>i")
def float_to_int(x, mode):
    return 0 if math.isnan(x) else double_to_int(x, mode)


@defined("di>i")
def float_to_uint(x, mode):
    return 0 if math.isnan(x) else double_to_uint(x, mode)


def int_to_double(x):
    return float(x)


def uint_to_double(x):
    return float(x & _LOW)


def int_to_float(x, mode):
    return to_float(float(x), mode)


def uint_to_float(x, mode):
    return to_float(float(x & _LOW), mode)


@defined("li>d")
def long_to_double(x, mode):
    nearest = float(x)
    if nearest == 2.0**63:
        return settle(nearest, -1.0, mode)
    return settle(nearest, float(x - np.int64(nearest)), mode)


@defined("li>d")
def ulong_to_double(x, mode):
    unsigned = np.uint64(x)
    nearest = float(unsigned)
    if nearest == 2.0**64:
        return settle(nearest, -1.0, mode)
    back = np.uint64(nearest)
    return settle(nearest, float(int(unsigned > back) - int(unsigned < back)), mode)


def long_to_float(x, mode):
    if mode == NEAREST:
        return np.float32(x)
    return to_float(long_to_double(x, mode), mode)


def ulong_to_float(x, mode):
    if mode == NEAREST:
        return np.float32(np.uint64(x))
    return to_float(ulong_to_double(x, mode), mode)


def float_to_half(x):
    """The bits of the half that is nearest to a float; of all that are no number 0x7fff."""
    if math.isnan(x):
        return 0x7FFF
    size = abs(float(x))
    if size >= 65520:
        magnitude = 0x7C00
    elif size < 2.0**-14:
        magnitude = int(rint(size * 2.0**24))
    else:
        mantissa, exponent = math.frexp(size)
        magnitude = ((exponent + 13) << 10) + int(rint(mantissa * 2048))
    return magnitude | (0x8000 if math.copysign(1.0, x) < 0 else 0)


def half_to_float(bits):
    exponent, mantissa = (bits >> 10) & 31, float(bits & 1023)
    if exponent == 31:
        size = math.inf if mantissa == 0 else math.nan
    elif exponent == 0:
        size = math.ldexp(mantissa, -24)
    else:
        size = math.ldexp(mantissa + 1024, exponent - 25)
    return -size if bits & 0x8000 else size


def double_bits(x):
    return primitives.bits_of_double(x)


def double_of(bits):
    return primitives.double_of_bits(bits)


def float_bits(x):
    return primitives.bits_of_float(x)


def float_of(bits):
    return primitives.float_of_bits(bits)


def upper_bits(x):
    return primitives.bits_of_double(x) >> 32


def lower_bits(x):
    return primitives.bits_of_double(x)


def from_halves(high, low):
    return primitives.double_of_bits((high << 32) | (low & _LOW))


def round_to_long(x):
    """The nearest int64; half goes away from zero."""
    return to_long(primitives.round_away(x), UP)
