"""Fits the polynomials that kernels' mathematics is made of: writes `coefficients.py`.

`python scripts/fit_math.py` needs mpmath. Each is the minimax polynomial of its degree, by Remez'
exchange (Comptes rendus 198, 1934), for the error that it leaves in the function as a whole; its
coefficients are rounded to the type. The comment behind each row is the relative error before that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 60
TARGET = Path(__file__).parent.parent / "src/haulage/compiler/mathematics/coefficients.py"


@dataclass(frozen=True)
class Fit:
    """The polynomial of a degree next to `function` on [low, high]; an error of it counts
    `weight` times. `single` for coefficients in float32."""

    name: str
    what: str
    function: Callable[[Any], Any]
    weight: Callable[[Any], Any]
    low: Any
    high: Any
    degree: int
    single: bool = False


def remez(fit: Fit) -> tuple[list[Any], Any]:
    """The coefficients, lowest first, and the largest weighted error."""
    count = fit.degree + 2
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * k / 400) for k in range(401)]
    values = [(x, fit.function(x), fit.weight(x)) for x in grid]
    chosen = [values[round(400 * k / (count - 1))] for k in range(count)]
    for _ in range(20):
        rows = [
            [x**k for k in range(count - 1)] + [(-1) ** i / w] for i, (x, _, w) in enumerate(chosen)
        ]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([f for _, f, _ in chosen]))
        coefficients = list(solved[: count - 1])
        errors = [(mp.polyval(coefficients[::-1], x) - f) * w for x, f, w in values]
        # The largest error of each stretch between two changes of sign.
        peaks: list[int] = []
        for k, error in enumerate(errors):
            if peaks and (errors[peaks[-1]] < 0) == (error < 0):
                if abs(error) > abs(errors[peaks[-1]]):
                    peaks[-1] = k
            else:
                peaks.append(k)
        while len(peaks) > count:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < count:
            break
        worst = max(abs(error) for error in errors)
        chosen = [values[k] for k in peaks]
        if worst < abs(solved[count - 1]) * mp.mpf("1.01"):
            break
    return coefficients, max(abs(error) for error in errors)


def sqrt_of(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`function` of the square root of a number that is not quite 0."""
    return lambda z: function(mp.sqrt(z + mp.mpf("1e-24")))


def _erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def _erfcx_of(t: Any) -> Any:
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * _erfcx(x)


def _log_rest(s: Any) -> Any:
    return mp.log((1 + s) / (1 - s))


tiny = mp.mpf("1e-20")
R = mp.log(2) / 2 * mp.mpf("1.01")
S = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mp.mpf("1.001")
Q = mp.pi / 4 * mp.mpf("1.001")
ROOT_PI = 2 / mp.sqrt(mp.pi)

FITS = [
    Fit(
        "EXP",
        "(exp(r) - 1 - r) / r**2",
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 / mp.exp(r),
        -R,
        R + tiny * 3,
        9,
    ),
    Fit(
        "LOG",
        "(log((1 + s) / (1 - s)) - 2 s) / s**3 of s**2",
        sqrt_of(lambda s: (_log_rest(s) - 2 * s) / s**3),
        sqrt_of(lambda s: s**2 / 2),
        0,
        S * S,
        6,
    ),
    Fit(
        "LOG_LONG",
        "(log((1 + s) / (1 - s)) - 2 s - 2 s**3 / 3) / s**5 of s**2",
        sqrt_of(lambda s: (_log_rest(s) - 2 * s - 2 * s**3 / 3) / s**5),
        sqrt_of(lambda s: s**4 / 2),
        0,
        S * S,
        7,
    ),
    Fit(
        "SIN",
        "(sin(x) - x) / x**3 of x**2",
        sqrt_of(lambda x: (mp.sin(x) - x) / x**3),
        sqrt_of(lambda x: x**3 / mp.sin(x)),
        0,
        Q * Q,
        5,
    ),
    Fit(
        "COS",
        "(cos(x) - 1 + x**2 / 2) / x**4 of x**2",
        sqrt_of(lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4),
        sqrt_of(lambda x: x**4 / mp.cos(x)),
        0,
        Q * Q,
        5,
    ),
    Fit(
        "ATAN",
        "(atan(x) - x) / x**3 of x**2",
        sqrt_of(lambda x: (mp.atan(x) - x) / x**3),
        sqrt_of(lambda x: x**3 / mp.atan(x)),
        0,
        mp.mpf("0.4376") ** 2,
        11,
    ),
    Fit(
        "ASIN",
        "(asin(x) - x) / x**3 of x**2",
        sqrt_of(lambda x: (mp.asin(x) - x) / x**3),
        sqrt_of(lambda x: x**3 / mp.asin(x)),
        0,
        mp.mpf("0.2501"),
        12,
    ),
    Fit(
        "SINH",
        "(sinh(x) - x) / x**3 of x**2",
        sqrt_of(lambda x: (mp.sinh(x) - x) / x**3),
        sqrt_of(lambda x: x**3 / mp.sinh(x)),
        0,
        mp.mpf("1.001"),
        6,
    ),
    Fit(
        "TANH",
        "(tanh(x) - x) / x**3 of x**2",
        sqrt_of(lambda x: (mp.tanh(x) - x) / x**3),
        sqrt_of(lambda x: x**3 / mp.tanh(x)),
        0,
        mp.mpf("0.3601"),
        11,
    ),
    Fit(
        "ERF",
        "erf(x) / x - 1 of x**2",
        sqrt_of(lambda x: mp.erf(x) / x - 1),
        sqrt_of(lambda x: x / mp.erf(x)),
        0,
        mp.mpf("1.001"),
        12,
    ),
    Fit(
        "ERFCX",
        "(1 + 2 x) exp(x**2) erfc(x) of (x - 4) / (x + 4)",
        _erfcx_of,
        lambda t: 1 / _erfcx_of(t),
        mp.mpf(-1),
        mp.mpf(24) / 32,
        23,
    ),
    Fit(
        "LOG_SHORT",
        "(log((1 + s) / (1 - s)) - 2 s) / s**3 of s**2, for floats",
        sqrt_of(lambda s: (_log_rest(s) - 2 * s) / s**3),
        sqrt_of(lambda s: s**2 / 2),
        0,
        S * S,
        4,
    ),
    Fit(
        "EXP_SHORT",
        "(exp(r) - 1 - r) / r**2, for floats",
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 / mp.exp(r),
        -R,
        R + tiny * 3,
        5,
    ),
    Fit(
        "EXP_SINGLE",
        "(exp(r) - 1 - r) / r**2",
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 / mp.exp(r),
        -R,
        R + tiny * 3,
        4,
        True,
    ),
    Fit(
        "LOG_SINGLE",
        "(log(1 + f) - f + f**2 / 2) / f**3",
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
        lambda f: f**3 / mp.log1p(f),
        mp.sqrt(mp.mpf(1) / 2) - 1 - tiny,
        mp.sqrt(2) - 1,
        8,
        True,
    ),
    Fit(
        "SIN_SHORT",
        "(sin(x) - x) / x**3 of x**2",
        sqrt_of(lambda x: (mp.sin(x) - x) / x**3),
        sqrt_of(lambda x: x**3 / mp.sin(x)),
        0,
        Q * Q,
        2,
    ),
    Fit(
        "COS_SHORT",
        "(cos(x) - 1 + x**2 / 2) / x**4 of x**2",
        sqrt_of(lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4),
        sqrt_of(lambda x: x**4 / mp.cos(x)),
        0,
        Q * Q,
        2,
    ),
    Fit(
        "ERF_SINGLE",
        "erf(x) / x - 1 of x**2",
        sqrt_of(lambda x: mp.erf(x) / x - 1),
        sqrt_of(lambda x: x / mp.erf(x)),
        0,
        mp.mpf("0.93") ** 2,
        6,
        True,
    ),
    Fit(
        "ERFC_SINGLE",
        "-log(1 - erf(x)) / x - 1",
        lambda x: -mp.log(mp.erfc(x)) / x - 1,
        lambda x: x * mp.erfc(x) / mp.erf(x),
        mp.mpf("0.925"),
        mp.mpf("3.93"),
        6,
        True,
    ),
]


def row(fit: Fit) -> str:
    coefficients, worst = remez(fit)
    kind = np.float32 if fit.single else np.float64
    listed = "".join(f"    {float(kind(mp.nstr(each, 40)))!r},\n" for each in coefficients)
    print(f"{fit.name} 2**{float(mp.log(worst, 2)):.1f}")
    return (
        f"# {fit.what}, {float(fit.low):.4g} ... {float(fit.high):.4g}: "
        f"2**{float(mp.log(worst, 2)):.1f}\n{fit.name} = (\n{listed})\n"
    )


def main() -> None:
    head = '"""Coefficients of polynomials, lowest first; made by scripts/fit_math.py."""\n\n'
    TARGET.write_text(head + "".join(map(row, FITS)))


if __name__ == "__main__":
    main()
