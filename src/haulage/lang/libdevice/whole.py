"""Definitions of the functions on ints; 32-bit ones are worked out in 64 bits and cut off."""

# mypy: allow-untyped-defs

import numpy as np

from haulage.lang import bits
from haulage.lang.libdevice.primitives import high_product

_LOW = 0xFFFFFFFF


def magnitude(x):
    return abs(x)


def popc(x):
    return bits.popc(x)


def brev(x):
    return bits.brev(x)


def clz(x):
    return bits.clz(x)


def ffs(x):
    return bits.ffs(x)


def byte_perm(x, y, selector):
    """Four of the eight bytes of y and x, each chosen by a hexadecimal digit's low three bits."""
    both = np.uint64(x & _LOW) | (np.uint64(y & _LOW) << np.uint64(32))
    result = np.uint64(0)
    for place in range(4):
        chosen = (selector >> (4 * place)) & 7
        byte = (both >> np.uint64(8 * chosen)) & np.uint64(0xFF)
        result |= byte << np.uint64(8 * place)
    return result


def mul24(x, y):
    """The low 32 bits of the product of two numbers' low 24 bits, read with their sign."""
    return (((x & 0xFFFFFF) ^ 0x800000) - 0x800000) * (((y & 0xFFFFFF) ^ 0x800000) - 0x800000)


def umul24(x, y):
    return (x & 0xFFFFFF) * (y & 0xFFFFFF)


def mulhi(x, y):
    return (x * y) >> 32


def umulhi(x, y):
    return (np.uint64(x & _LOW) * np.uint64(y & _LOW)) >> np.uint64(32)


def mul64hi(x, y):
    return high_product(x, y)


def umul64hi(x, y):
    return high_product(np.uint64(x), np.uint64(y))


def hadd(x, y):
    """The mean of two ints, rounded down."""
    return (x + y) >> 1


def rhadd(x, y):
    """The mean of two ints, rounded up."""
    return (x + y + 1) >> 1


def uhadd(x, y):
    return ((x & _LOW) + (y & _LOW)) >> 1


def urhadd(x, y):
    return ((x & _LOW) + (y & _LOW) + 1) >> 1


def sad(x, y, z):
    """The distance of two ints and a third added to it."""
    return abs(x - y) + z


def usad(x, y, z):
    return abs((x & _LOW) - (y & _LOW)) + z


def larger(x, y):
    return x if x > y else y


def smaller(x, y):
    return x if x < y else y


def ularger(x, y):
    return x if np.uint64(x) > np.uint64(y) else y


def usmaller(x, y):
    return x if np.uint64(x) < np.uint64(y) else y
