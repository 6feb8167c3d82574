"""Division, powers, logarithms and square roots of complex128, written in the kernel language.

In the meaning of NumPy: a division by zero gives infinities and NaNs.
"""

import math

_HIGHEST_WHOLE = 100
_HUGE, _SMALL = 2.0**1020, 2.0**-960
_LOG_2 = math.log(2.0)


def divide(a: complex, b: complex) -> complex:
    """`a / b` by Smith's method (CACM 5, 1962), as NumPy has it; nothing is done in a branch, so
    that vectors divide three times."""
    is_upright = abs(b.real) >= abs(b.imag)
    large, small = (b.real, b.imag) if is_upright else (b.imag, b.real)
    first, second = (a.real, a.imag) if is_upright else (a.imag, a.real)
    # Not the difference negated, which would be another 0.
    less, more = (first, second) if is_upright else (-first, -second)
    ratio = small / large
    scale = large + small * ratio
    real = first + second * ratio
    imag = more - less * ratio
    if b.real == 0 and b.imag == 0:
        scale, real, imag = abs(b.real), a.real, a.imag
    return complex(real / scale, imag / scale)


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


def logarithm(z: complex) -> complex:
    """`log(z)`; near a magnitude of one by the square's distance from one, as Python has it."""
    angle = math.atan2(z.imag, z.real)
    if abs(z.real) >= abs(z.imag):
        large, small = abs(z.real), abs(z.imag)
    else:
        large, small = abs(z.imag), abs(z.real)
    if large > _HUGE:
        return complex(math.log(math.hypot(large / 4, small / 4)) + 2 * _LOG_2, angle)
    if large < _SMALL:
        scaled = math.hypot(large * _HUGE, small * _HUGE)
        return complex(math.log(scaled) - 1020 * _LOG_2, angle)
    size = math.hypot(large, small)
    if 0.7 < size < 1.7:
        return complex(math.log1p((large - 1) * (large + 1) + small * small) / 2, angle)
    return complex(math.log(size), angle)


def square_root(z: complex) -> complex:
    """`sqrt(z)` by Algorithm 312 (CACM 10, 1967); the part that is not above zero is imaginary."""
    a, b = z.real, z.imag
    if a == 0 and b == 0:
        return complex(0.0, b)
    if math.isinf(b):
        return complex(math.inf, b)
    if math.isinf(a):
        # A part that is no number stays so.
        if a < 0:
            return complex(abs(b - b), math.copysign(math.inf, b))
        return complex(a, math.copysign(b - b, b))
    scale = 1.0
    if abs(a) >= _HUGE or abs(b) >= _HUGE:
        a, b, scale = a / 16, b / 16, 4.0
    elif abs(a) < _SMALL and abs(b) < _SMALL:
        a, b, scale = a * 2.0**200, b * 2.0**200, 2.0**-100
    t = math.sqrt((abs(a) + math.hypot(a, b)) * 0.5)
    if a >= 0:
        return complex(t * scale, b / (2 * t) * scale)
    return complex(abs(b) / (2 * t) * scale, math.copysign(t, b) * scale)
