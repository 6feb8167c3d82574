"""sin, cos, tan and their inverses.

Up to 1.6e6, an argument is brought to [-pi/4, pi/4] by multiples of pi/2 in three parts (Cody and
Waite); a double more keeps what is left beyond the last place. Arguments beyond are rare; what they
take is in `far.py`. asin, acos and atan reduce as FreeBSD's msun does (e_asin.c, s_atan.c).
"""

import math

from haulage.compiler.mathematics import coefficients
from haulage.compiler.mathematics.exponentials import whole
from haulage.compiler.mathematics.ir import Value, Writer

# Beyond this, pi/2 in three parts is not enough.
FAR = 1.6e6
# pi/2: 33 bits, the next 33, and a double of the rest.
_PART_1, _PART_2 = 1.57079632673412561417e00, 6.07710050630396597660e-11
_PART_3 = 2.02226624879595063154e-21
_HALF_PI, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
_PI, _PI_LOW = 3.141592653589793, 1.2246467991473532e-16


def reduced(w: Writer, x: Value) -> tuple[Value, Value, Value]:
    """(r, what is too small for r, number of the quarter turn) of a double up to `FAR`."""
    n, number = whole(w, x, 2 / math.pi)
    r, rest = w.two_sum(w.fma(n, -_PART_1, x), n * -_PART_2)
    r, left = w.ordered_sum(r, w.fma(n, -_PART_3, rest))
    return r, left, number


def _sine_and_cosine(w: Writer, r: Value, rest: Value) -> tuple[Value, Value, Value, Value]:
    """(sine, cosine) of r + rest, each as a sum of two."""
    z = r * r
    half = z * 0.5
    cube = z * r
    bend = w.fma(cube, w.polynomial(coefficients.SIN, z), w.fma(half, -rest, rest))
    one = w.value("double", 1.0)
    unit, low = w.ordered_sum(one, -half)
    more = w.fma(z * z, w.polynomial(coefficients.COS, z), w.fma(-r, rest, low))
    return r, bend, unit, more


def _short_sine_and_cosine(w: Writer, r: Value) -> tuple[Value, Value]:
    z = r * r
    sine = w.fma(z * r, w.polynomial(coefficients.SIN_SHORT, z), r)
    cosine = w.fma(z * z, w.polynomial(coefficients.COS_SHORT, z), w.fma(z, -0.5, 1.0))
    return sine, cosine


def _turned(w: Writer, number: Value, sine: Value, cosine: Value, turn: int) -> Value:
    """The sine `turn` quarter turns on."""
    number = number + turn if turn else number
    size = (number & 1).is_(0).choose(sine, cosine)
    return (size.bits() ^ ((number & 2) << 62)).as_float()


def sin(w: Writer, x: Value) -> Value:
    return sin_of(w, x, *reduced(w, x))


# Those of an x, which these are from: (r, what is too small for r, number of the quarter turn).


def sin_of(w: Writer, x: Value, r: Value, rest: Value, number: Value) -> Value:
    sine, bend, cosine, more = _sine_and_cosine(w, r, rest)
    result = _turned(w, number, sine + bend, cosine + more, 0)
    return x.is_(0.0).choose(x, result)


def cos(w: Writer, x: Value) -> Value:
    return cos_of(w, x, *reduced(w, x))


def cos_of(w: Writer, x: Value, r: Value, rest: Value, number: Value) -> Value:
    sine, bend, cosine, more = _sine_and_cosine(w, r, rest)
    return _turned(w, number, sine + bend, cosine + more, 1)


def tan(w: Writer, x: Value) -> Value:
    return tan_of(w, x, *reduced(w, x))


def tan_of(w: Writer, x: Value, r: Value, rest: Value, number: Value) -> Value:
    sine, bend, cosine, more = _sine_and_cosine(w, r, rest)
    sine, bend = w.ordered_sum(sine, bend)
    cosine, more = w.ordered_sum(cosine, more)
    even = (number & 1).is_(0)
    over, over_low = even.choose(sine, -cosine), even.choose(bend, -more)
    under, under_low = even.choose(cosine, sine), even.choose(more, bend)
    inverse = 1.0 / under
    quotient = over * inverse
    product, low = w.two_product(quotient, under)
    left = (over - product) - low + (over_low - quotient * under_low)
    return x.is_(0.0).choose(x, w.fma(left, inverse, quotient))


def single_reduced(w: Writer, x: Value) -> tuple[Value, Value]:
    """(r, number of the quarter turn) of a float up to `FAR`, in doubles."""
    x = x.to("double")
    n, number = whole(w, x, 2 / math.pi)
    return w.fma(n, -(_PART_2 + _PART_3), w.fma(n, -_PART_1, x)), number


def sin_single(w: Writer, x: Value) -> Value:
    return sin_single_of(w, x, *single_reduced(w, x))


def sin_single_of(w: Writer, x: Value, r: Value, number: Value) -> Value:
    sine, cosine = _short_sine_and_cosine(w, r)
    return x.is_(0.0).choose(x, _turned(w, number, sine, cosine, 0).to("float"))


def cos_single(w: Writer, x: Value) -> Value:
    return cos_single_of(w, x, *single_reduced(w, x))


def cos_single_of(w: Writer, x: Value, r: Value, number: Value) -> Value:
    sine, cosine = _short_sine_and_cosine(w, r)
    return _turned(w, number, sine, cosine, 1).to("float")


def tan_single(w: Writer, x: Value) -> Value:
    return tan_single_of(w, x, *single_reduced(w, x))


def tan_single_of(w: Writer, x: Value, r: Value, number: Value) -> Value:
    sine, cosine = _short_sine_and_cosine(w, r)
    even = (number & 1).is_(0)
    result = even.choose(sine, -cosine) / even.choose(cosine, sine)
    return x.is_(0.0).choose(x, result.to("float"))


# ---- inverse functions --------------------------------------------------------------------------


def _root_part(w: Writer, a: Value) -> tuple[Value, Value]:
    """asin(sqrt((1 - a) / 2)) as a sum, for a in [1/2, 1]."""
    z = (1.0 - a) * 0.5
    root = w.sqrt(z)
    square, low = w.two_product(root, root)
    left = ((z - square) - low) / (root + root)
    left = root.is_(0.0).choose(0.0, left)
    return root, w.fma(root * z, w.polynomial(coefficients.ASIN, z), left)


def _middle_part(w: Writer, x: Value) -> Value:
    z = x * x
    return x * z * w.polynomial(coefficients.ASIN, z)


def asin(w: Writer, x: Value) -> Value:
    a = w.magnitude(x)
    root, rest = _root_part(w, a)
    high, low = w.ordered_sum(w.value("double", _HALF_PI), root * -2.0)
    outer = high + (low + (_HALF_PI_LOW - rest * 2.0))
    inner = a + _middle_part(w, a)
    return w.with_sign((a > 0.5).choose(outer, inner), x)


def acos(w: Writer, x: Value) -> Value:
    root, rest = _root_part(w, w.magnitude(x))
    near_1 = (root + rest) * 2.0
    high, low = w.ordered_sum(w.value("double", _PI), root * -2.0)
    near_minus_1 = high + (low + (_PI_LOW - rest * 2.0))
    high, low = w.ordered_sum(w.value("double", _HALF_PI), -x)
    inner = high + (low + (_HALF_PI_LOW - _middle_part(w, x)))
    outer = (x > 0.0).choose(near_1, near_minus_1)
    return (w.magnitude(x) > 0.5).choose(outer, inner)


def _atan_of_quotient(w: Writer, y: Value, x: Value) -> tuple[Value, Value]:
    """atan(y / x) as a sum, of y and x that are not below zero."""
    # By how much the angle is turned back: atan of 0, 1/2, 1, 3/2 and infinity.
    steps = (
        (7 / 16, y + y - x, y + x + x, math.atan(0.5), 2.2698777452961687e-17),
        (11 / 16, y - x, y + x, math.pi / 4, 3.061616997868383e-17),
        (19 / 16, w.fma(x, -1.5, y), w.fma(y, 1.5, x), math.atan(1.5), 1.3903311031230998e-17),
        (39 / 16, -x, y, math.pi / 2, 6.123233995736766e-17),
    )
    over, under = y, x
    high = low = w.value("double", 0.0)
    for limit, new_over, new_under, angle, angle_low in steps:
        beyond = y > x * limit
        over, under = beyond.choose(new_over, over), beyond.choose(new_under, under)
        high, low = beyond.choose(angle, high), beyond.choose(angle_low, low)
    s = over / under
    z = s * s
    more = w.fma(s * z, w.polynomial(coefficients.ATAN, z), low)
    total, left = w.ordered_sum(high, s)
    return high.is_(0.0).choose(s, total), high.is_(0.0).choose(more, left + more)


def atan(w: Writer, x: Value) -> Value:
    a = w.magnitude(x)
    infinite = a > 2.0**70
    high, low = _atan_of_quotient(w, infinite.choose(1.0, a), infinite.choose(0.0, a * 0.0 + 1.0))
    return w.with_sign(high + low, x)


def atan2(w: Writer, y: Value, x: Value) -> Value:
    over, under = w.magnitude(y), w.magnitude(x)
    both = over.is_(math.inf) & under.is_(math.inf)
    # A tenth of the range is enough for quotients; sums of three must not go beyond it.
    largest = (over > under).choose(over, under)
    factor = (largest > 2.0**1000).choose(2.0**-60, w.value("double", 1.0))
    factor = (largest < 2.0**-900).choose(2.0**120, factor)
    scaled_over, scaled_under = over * factor, under * factor
    # So large a quotient is infinite to an angle.
    scaled_under = (scaled_under < scaled_over * 2.0**-70).choose(
        w.value("double", 0.0), scaled_under
    )
    none = over.is_(0.0) & under.is_(0.0)
    scaled_over = both.choose(1.0, over.is_(math.inf).choose(1.0, scaled_over))
    scaled_under = (none | both).choose(1.0, over.is_(math.inf).choose(0.0, scaled_under))
    high, low = _atan_of_quotient(w, scaled_over, scaled_under)
    back = x.bits() < 0
    turned, left = w.ordered_sum(w.value("double", _PI), -high)
    turned = turned + (left + (_PI_LOW - low))
    result = w.with_sign(back.choose(turned, high + low), y)
    unordered = over.is_not(over) | under.is_not(under)
    return unordered.choose(x + y, result)


def is_far(w: Writer, x: Value) -> Value:
    """Whether an argument lies beyond `FAR`."""
    return w.magnitude(x) > FAR
