"""Quotients and remainders of whole numbers, by dividing doubles.

Few processors divide vectors of whole numbers; all divide vectors of doubles. The quotient of two
doubles, rounded and then cut to a whole number, is that of whole numbers a and b if |a| < 2**52: a
quotient which is not whole lies at least 1 / |a| of its size below the next whole number, further
than rounding goes. For others a second division corrects the first. A divisor of 0 gives any
number, and the least number divided by -1 itself.
"""

from haulage.compiler.mathematics.ir import Value, Writer

# Below 2**51, whole numbers added to this are the low bits of the sum.
_SHIFT, _SHIFT_BITS = 1.5 * 2.0**52, 0x4338000000000000
NEAR = 2**51
# What three roundings may add to a quotient at most, and more.
_LESS = 1.0 - 2.0**-49


def _as_double(value: Value) -> Value:
    return (value + _SHIFT_BITS).as_float() - _SHIFT


def _whole(w: Writer, quotient: Value) -> Value:
    """A quotient below 2**51, cut to a whole number."""
    return (w.cut(quotient) + _SHIFT).bits() - _SHIFT_BITS


def _near_quotient(w: Writer, a: Value, b: Value) -> Value:
    """a / b of signed numbers, |a| < 2**51. A larger divisor than that is as good as 2**51."""
    b = (b > NEAR).choose(NEAR, b)
    b = (b < -NEAR).choose(-NEAR, b)
    return _whole(w, _as_double(a) / _as_double(b))


def _quotient(w: Writer, a: Value, b: Value) -> Value:
    """a / b of signed numbers. What is left is never of the other sign than a, as each quotient is
    made a little smaller."""
    divisor = b.signed_to("double")
    first = (a.signed_to("double") / divisor * _LESS).cut_to("i64")
    left = a - first * b
    second = (left.signed_to("double") / divisor * _LESS).cut_to("i64")
    left = left - second * b
    one_more = _size(left).at_least_unsigned(_size(b))
    sign = ((a ^ b) < 0).choose(w.value("i64", -1), 1)
    return first + second + one_more.choose(sign, 0)


def _size(value: Value) -> Value:
    """|value| as an unsigned number."""
    return (value < 0).choose(0 - value, value)


def _of_unsigned(w: Writer, a: Value, b: Value) -> Value:
    """a / b of unsigned numbers, a < 2**51."""
    b = (b < 0).choose(NEAR, b)
    return _near_quotient(w, a, b)


def _of_short(w: Writer, a: Value, b: Value) -> Value:
    """a / b of signed numbers of 32 bits."""
    quotient = w.cut(a.signed_to("double") / b.signed_to("double"))
    # The low half of _SHIFT_BITS is 0.
    return (quotient + _SHIFT).bits().to("i32")


def near_sdiv(w: Writer, a: Value, b: Value) -> Value:
    return _near_quotient(w, a, b) if a.kind == "i64" else _of_short(w, a, b)


def near_srem(w: Writer, a: Value, b: Value) -> Value:
    return a - near_sdiv(w, a, b) * b


def near_udiv(w: Writer, a: Value, b: Value) -> Value:
    if a.kind == "i64":
        return _of_unsigned(w, a, b)
    return _near_quotient(w, a.to("i64"), b.to("i64")).to("i32")


def near_urem(w: Writer, a: Value, b: Value) -> Value:
    return a - near_udiv(w, a, b) * b


def sdiv(w: Writer, a: Value, b: Value) -> Value:
    return _quotient(w, a, b)


def srem(w: Writer, a: Value, b: Value) -> Value:
    return a - _quotient(w, a, b) * b
