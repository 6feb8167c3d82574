"""Division and powers of complex numbers, written in the kernel language.

In the meaning of NumPy: a division by zero gives infinities and NaNs.
"""

import math

_HIGHEST_WHOLE = 100


def divide(a: complex, b: complex) -> complex:
    """`a / b` by Smith's method (CACM 5, 1962), as NumPy has it."""
    if abs(b.real) >= abs(b.imag):
        if b.real == 0 and b.imag == 0:
            return complex(a.real / abs(b.real), a.imag / abs(b.real))
        ratio = b.imag / b.real
        scale = b.real + b.imag * ratio
        return complex((a.real + a.imag * ratio) / scale, (a.imag - a.real * ratio) / scale)
    ratio = b.real / b.imag
    scale = b.real * ratio + b.imag
    return complex((a.real * ratio + a.imag) / scale, (a.imag * ratio - a.real) / scale)


def power(a: complex, b: complex) -> complex:
    """`a ** b`; by multiplication where `b` is a whole number up to 100."""
    if b.real == 0 and b.imag == 0:
        return complex(1.0, 0.0)
    if a.real == 0 and a.imag == 0:
        if b.imag == 0 and b.real > 0:
            return complex(0.0, 0.0)
        return complex(math.nan, math.nan)
    if b.imag == 0 and abs(b.real) <= _HIGHEST_WHOLE and b.real == math.floor(b.real):
        left = int(abs(b.real))
        result, factor = complex(1.0, 0.0), complex(a.real, a.imag)
        first = True
        while left:
            if left & 1:
                # One times infinity would have no number in it.
                result = factor if first else result * factor
                first = False
            left >>= 1
            if left:
                factor = factor * factor
        return result if b.real > 0 else divide(complex(1.0, 0.0), result)
    size = math.hypot(a.real, a.imag)
    angle = math.atan2(a.imag, a.real)
    length = math.pow(size, b.real)
    turn = angle * b.real
    if b.imag != 0:
        length *= math.exp(-angle * b.imag)
        turn += b.imag * math.log(size)
    return complex(length * math.cos(turn), length * math.sin(turn))
