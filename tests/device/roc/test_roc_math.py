"""The functions of `math` that kernels of numba.roc had, in both widths of floats."""

import math

import numpy as np
import pytest

from haulage import roc

pytestmark = pytest.mark.usefixtures("device")

KINDS = ["float32", "float64"]
# Of Python's functions that NumPy has not, or has under other names.
NUMPYS = {
    "fabs": np.abs,
    "pow": np.power,
    **{name: np.vectorize(getattr(math, name)) for name in ("erf", "erfc", "gamma", "lgamma")},
    **{
        f"a{name}": getattr(np, f"arc{name}")
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")
    },
}


def row_by_row(names, arguments):
    """A kernel that sets row after row of an array to what the functions make of its elements."""
    parameters = ", ".join(f"x{n}" for n in range(arguments))
    elements = ", ".join(f"x{n}[i]" for n in range(arguments))
    text = f"def rows(out, {parameters}):\n    i = roc.get_global_id(0)\n"
    text += "".join(f"    out[{n}, i] = math.{name}({elements})\n" for n, name in enumerate(names))
    known = {"roc": roc, "math": math}
    exec(text, known)
    return roc.jit(known["rows"])


def check(names, *numbers):
    """Compare the functions with NumPy's, or Python's, for numbers of both widths."""
    kernel = row_by_row(names, len(numbers))
    for kind in KINDS:
        given = [np.asarray(each).astype(kind) for each in numbers]
        out = np.zeros((len(names), given[0].size), kind)
        kernel[given[0].size, 1](out, *given)
        exact = [each.astype(np.float64) for each in given]
        for name, row in zip(names, out, strict=True):
            with np.errstate(invalid="ignore"):
                expected = NUMPYS.get(name, getattr(np, name, None))(*exact)
            tolerance = 8 * np.finfo(kind).eps
            # Near the zeros of lgamma Python's own is off by as much.
            least = tolerance if name == "lgamma" else 0
            np.testing.assert_allclose(row, expected, tolerance, least, err_msg=f"{name} {kind}")


def test_sines_cosines_and_tangents():
    check(["sin", "cos", "tan"], np.linspace(-3, 3, 128))


def test_their_inverses():
    check(["asin", "acos", "atan"], np.linspace(-1, 1, 128))


def test_hyperbolic_functions():
    check(["sinh", "cosh", "tanh"], np.linspace(-5, 5, 128))


def test_inverses_of_hyperbolic_functions():
    check(["asinh"], np.linspace(-5, 5, 128))
    check(["acosh"], np.linspace(1, 10, 128))
    check(["atanh"], np.linspace(-0.95, 0.95, 128))


def test_nans_and_infinities_are_told():
    check(["isnan", "isinf"], [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1e30, -5])


def test_rounding_up_and_down():
    numbers = np.concatenate([np.linspace(-1000, 900, 77), np.arange(-9, 9), np.arange(-9, 9) / 2])
    check(["ceil", "floor"], numbers)


def test_absolute_values():
    check(["fabs"], np.linspace(-70, 60, 64))


def test_powers_of_e():
    check(["exp", "expm1"], np.concatenate([np.linspace(-30, 30, 64), np.geomspace(1e-7, 1, 64)]))


def test_square_roots():
    check(["sqrt"], np.linspace(0, 2000, 128))


def test_logarithms():
    check(["log", "log10", "log1p"], np.geomspace(0.05, 5000, 128))


def test_signs_and_remainders():
    check(["copysign", "fmod"], np.linspace(-9, 9, 128), np.linspace(2, -2, 128))


def test_powers():
    check(["pow"], np.linspace(0.1, 8, 128), np.linspace(-3, 4, 128))
    # A negative number has a real power only if that is a whole number.
    check(["pow"], [-2.0, -2.0, -1.5, -2.0, 0.0], [2.0, -3.0, 0.5, 0.0, 0.0])


def test_angles_in_all_quadrants():
    angles = np.linspace(-3.1, 3.1, 64)
    check(["atan2"], 2 * np.sin(angles), 2 * np.cos(angles))


def test_error_functions():
    check(["erf", "erfc"], np.linspace(-3, 3, 128))


def test_gamma_functions():
    check(["gamma", "lgamma"], np.linspace(0.01, 5, 128))
