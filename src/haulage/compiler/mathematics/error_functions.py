"""erf and erfc.

erf is a polynomial of small numbers; else erfc(x) = exp(-x**2) g(x), with (1 + 2 x) g(x) a
polynomial of (x - 4) / (x + 4): Shepherd and Laframboise, Mathematics of Computation 36, 1981.
"""

from haulage.compiler.mathematics import coefficients
from haulage.compiler.mathematics.exponentials import clamped, exp_of_sum, exp_single
from haulage.compiler.mathematics.ir import Value, Writer


def _erfc_of_positive(w: Writer, a: Value) -> Value:
    a = clamped(a, 0.0, 27.5)
    square, low = w.two_product(a, a)
    t = (a - 4.0) / (a + 4.0)
    scaled = w.polynomial(coefficients.ERFCX, t) / w.fma(a, 2.0, 1.0)
    return scaled * exp_of_sum(w, -square, -low)


def _small(w: Writer, x: Value) -> Value:
    return w.fma(x, w.polynomial(coefficients.ERF, x * x), x)


def erf(w: Writer, x: Value) -> Value:
    a = w.magnitude(x)
    result = (a > 1.0).choose(1.0 - _erfc_of_positive(w, a), _small(w, a))
    return w.with_sign(result, x)


def erfc(w: Writer, x: Value) -> Value:
    a = w.magnitude(x)
    far = _erfc_of_positive(w, a)
    far = (x < 0.0).choose(2.0 - far, far)
    return (a > 0.5).choose(far, 1.0 - _small(w, x))


def erf_single(w: Writer, x: Value) -> Value:
    a = w.magnitude(x)
    square = a * a
    inner = w.fma(a, w.polynomial(coefficients.ERF_SINGLE, square), a)
    beyond = clamped(a, 0.0, 4.0)
    rate = w.fma(beyond, w.polynomial(coefficients.ERFC_SINGLE, beyond), beyond)
    outer = 1.0 - exp_single(w, -rate)
    return w.with_sign((a > 0.927734375).choose(outer, inner), x)
