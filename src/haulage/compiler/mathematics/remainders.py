"""What is left of a division of floats, exactly: `fmod`, which Python's `%` and `//` are made of.

With a fused product and sum, x - q y is exact for the rounded quotient q, cut to a whole number, as
long as that has no more bits than a double: it is at most one too large, and what is left then a
multiple of y's last place below y itself.
"""

from haulage.compiler.mathematics.ir import Value, Writer

_MOST = 2.0**52


def fmod(w: Writer, x: Value, y: Value) -> Value:
    """What is left of x by y, with the sign of x."""
    if x.kind == "float":
        return fmod(w, x.to("double"), y.to("double")).to("float")
    size, divisor = w.magnitude(x), w.magnitude(y)
    left = w.fma(-w.cut(size / divisor), divisor, size)
    left = (left < 0.0).choose(left + divisor, left)
    # By infinity a number stays what it is; infinity and NaN become NaN.
    left = divisor.is_(float("inf")).choose(size * 0.0 + size, left)
    return w.with_sign(left, x)


def is_far(w: Writer, x: Value, y: Value) -> Value:
    """Whether the quotient has too many bits."""
    if x.kind == "float":
        return is_far(w, x.to("double"), y.to("double"))
    return w.magnitude(x) / w.magnitude(y) > _MOST
