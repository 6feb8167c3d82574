"""Measures how accurate `math` is in kernels, as docs/math.md lists it: prints the table's rows.

`python scripts/measure_math.py [values [device]]`: so many random values per function and type
(20000), on a device ("cpu"). The
reference is NumPy in long doubles; where NumPy has no such function, a series in decimals of 40
digits, on one value in a hundred. Long doubles must be wider than doubles, as on x86.
"""

import math
import sys
from collections.abc import Callable
from decimal import Decimal, getcontext
from fractions import Fraction
from typing import Any

import numpy as np

import haulage
from haulage import cuda

getcontext().prec = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")

# Function -> (NumPy's function, the range of the values).
NUMPY: dict[str, tuple[Any, float, float]] = {
    "acos": (np.arccos, -1, 1),
    "acosh": (np.arccosh, 1, 1000),
    "asin": (np.arcsin, -1, 1),
    "asinh": (np.arcsinh, -1000, 1000),
    "atan": (np.arctan, -1000, 1000),
    "atanh": (np.arctanh, -1, 1),
    "cbrt": (np.cbrt, -1000, 1000),
    "cos": (np.cos, -1000, 1000),
    "cosh": (np.cosh, -80, 80),
    "exp": (np.exp, -80, 80),
    "exp2": (np.exp2, -120, 120),
    "expm1": (np.expm1, -80, 80),
    "log": (np.log, 0, 1000),
    "log10": (np.log10, 0, 1000),
    "log1p": (np.log1p, -1, 1000),
    "log2": (np.log2, 0, 1000),
    "sin": (np.sin, -1000, 1000),
    "sinh": (np.sinh, -80, 80),
    "sqrt": (np.sqrt, 0, 1000),
    "tan": (np.tan, -1000, 1000),
    "tanh": (np.tanh, -20, 20),
}
NUMPY_OF_TWO: dict[str, tuple[Any, float, float]] = {
    "atan2": (np.arctan2, -1000, 1000),
    "hypot": (np.hypot, -1000, 1000),
    "pow": (np.power, 0, 20),
}


def erf(x: float) -> Decimal:
    """erf by its power series."""
    value = Decimal(x)
    term, total, k = value, value, 0
    while abs(term) > Decimal("1e-55"):
        k += 1
        term = -term * value * value / k
        total += term / (2 * k + 1)
    return 2 * total / PI.sqrt()


def lgamma(x: float) -> Decimal:
    """log(gamma) of a positive number by Stirling's series, far enough out."""
    bernoulli = [(1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)]
    value, product = Decimal(x), Decimal(1)
    while value < 400:
        product *= value
        value += 1
    total = (value - Decimal("0.5")) * value.ln() - value + (2 * PI).ln() / 2
    for k, (over, under) in enumerate(bernoulli, 1):
        total += Decimal(over) / (under * 2 * k * (2 * k - 1)) / value ** (2 * k - 1)
    return total - product.ln()


SERIES: dict[str, tuple[Callable[[float], Decimal], float, float]] = {
    "erf": (erf, -5, 5),
    "erfc": (lambda x: 1 - erf(x), -5, 3),
    "gamma": (lambda x: lgamma(x).exp(), 0.01, 30),
    "lgamma": (lgamma, 2.5, 1000),
}


def evaluated(name: str, columns: list[np.ndarray]) -> np.ndarray:
    """`math.<name>` of each row, worked out in a kernel."""
    known: dict[str, Any] = {"cuda": cuda, "math": math}
    listed = [f"x{k}" for k in range(len(columns))]
    call = f"math.{name}({', '.join(f'{each}[i]' for each in listed)})"
    exec(
        f"def kernel({', '.join(listed)}, out):\n    i = cuda.grid(1)\n"
        f"    if i < out.size:\n        out[i] = {call}\n",
        known,
    )
    out = np.zeros_like(columns[0])
    cuda.jit(known["kernel"]).forall(out.size)(*columns, out)
    return out


def worst(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest error in units of the last place of the values expected."""
    unit = np.spacing(np.abs(expected.astype(got.dtype))).astype(np.longdouble)
    return float(np.max(np.abs(got.astype(np.longdouble) - expected) / unit))


def worst_of_series(got: np.ndarray, x: np.ndarray, function: Callable[[float], Decimal]) -> float:
    """The same for values that a series gives."""
    errors = []
    for mine, value in zip(got.tolist(), x.tolist(), strict=True):
        expected = Fraction(function(value))
        unit = Fraction(float(np.spacing(got.dtype.type(abs(float(expected))))))
        errors.append(float(abs(Fraction(mine) - expected) / unit))
    return max(errors)


def main(count: int) -> None:
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps:
        raise SystemExit("long doubles are no wider than doubles here: nothing to measure with")
    random = np.random.default_rng(0)
    for table, inputs in ((NUMPY, 1), (NUMPY_OF_TWO, 2)):
        for name, (function, low, high) in table.items():
            row = []
            for kind in (np.float32, np.float64):
                columns = [random.uniform(low, high, count).astype(kind) for _ in range(inputs)]
                exact = function(*(column.astype(np.longdouble) for column in columns))
                usable = np.isfinite(exact) & (np.abs(exact) > np.finfo(kind).tiny)
                usable &= np.abs(exact) < np.finfo(kind).max
                row.append(worst(evaluated(name, columns)[usable], exact[usable]))
            print(f"| `{name}` | {low:g} ... {high:g} | {row[0]:.2f} | {row[1]:.2f} |")
    for name, (series, low, high) in SERIES.items():
        row = []
        for kind in (np.float32, np.float64):
            x = random.uniform(low, high, max(count // 100, 1)).astype(kind)
            row.append(worst_of_series(evaluated(name, [x]), x, series))
        print(f"| `{name}` | {low:g} ... {high:g} | {row[0]:.2f} | {row[1]:.2f} |")


if __name__ == "__main__":
    haulage.use(sys.argv[2] if len(sys.argv) > 2 else "cpu")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20000)
