"""`math` in kernels against mpmath's numbers of 50 digits, at random values and at the edges."""

import math

import numpy as np
import pytest

from haulage import cuda
from support.libdevice_references import DOCUMENTED

WAYS = ("regions", "scalar", "coroutines")

pytestmark = [pytest.mark.ptx, pytest.mark.in_order, pytest.mark.usefixtures("device")]

# Function -> (units of the last place in float32 and in float64, ranges). docs/math.md has them.
LIMITS = {
    "acos": (1, 1, [(-1, 1), (0.99, 1), (-0.51, -0.49), (0.49, 0.51)]),
    "acosh": (1, 2, [(1, 1.01), (1, 9), (1e6, 1e10)]),
    "asin": (1, 1, [(-1, 1), (-1e-3, 1e-3), (0.99, 1), (0.49, 0.51)]),
    "asinh": (1, 2, [(-3, 3), (-1e-3, 1e-3), (-1e10, 1e10)]),
    "atan": (1, 1, [(-3, 3), (-1e-3, 1e-3), (0.43, 0.45), (0.68, 0.7), (2.4, 2.5), (-1e9, 1e9)]),
    "atanh": (1, 1.5, [(-1, 1), (-1e-3, 1e-3), (0.999, 1)]),
    "cbrt": (1, 1, [(-1000, 1000), (-1e-37, 1e-37)]),
    "cos": (1, 1, [(-4, 4), (-1000, 1000), (-1.7e6, 1.7e6), (1.57, 1.58), (1e30, 1e32)]),
    "cosh": (1, 1, [(-1, 1), (-88, 88)]),
    "erf": (1, 1.5, [(-1.1, 1.1), (-5, 5), (-1e-3, 1e-3)]),
    "erfc": (1, 5, [(-6, 3), (0.4, 0.6), (0, 9), (-1e-3, 1e-3)]),
    "exp": (1, 1, [(-87, 88), (-1, 1), (-103, -87)]),
    "exp2": (1, 1, [(-126, 127), (-1, 1), (-149, -126)]),
    "expm1": (1, 1.5, [(-80, 80), (-2, 2), (-1e-3, 1e-3)]),
    "log": (1, 1, [(0, 1000), (0.7, 1.5), (0.999, 1.001), (0, 1e-38)]),
    "log10": (1, 1, [(0, 1000), (0.7, 1.5), (0.999, 1.001), (0, 1e-38)]),
    "log1p": (1, 1, [(-1, 100), (-0.3, 0.5), (-1e-3, 1e-3)]),
    "log2": (1, 1, [(0, 1000), (0.7, 1.5), (0.999, 1.001), (0, 1e-38)]),
    "sin": (1, 1, [(-4, 4), (-1000, 1000), (-1.7e6, 1.7e6), (3.14, 3.15), (1e30, 1e32)]),
    "sinh": (1, 1, [(-1.1, 1.1), (-1e-3, 1e-3), (-88, 88)]),
    "tan": (1, 1.5, [(-4, 4), (-1000, 1000), (-1.7e6, 1.7e6), (1.57, 1.58), (1e30, 1e32)]),
    "tanh": (1, 1.5, [(-0.7, 0.7), (-1e-3, 1e-3), (-20, 20)]),
    "atan2": (1, 1.5, [(-5, 5), (-1e30, 1e30)]),
    "hypot": (1, 1, [(-5, 5), (-1e30, 1e30), (-1e-30, 1e-30)]),
    "pow": (1, 1, [(0, 9), (0.9, 1.1), (0, 40)]),
}
OF_TWO = ("atan2", "hypot", "pow")
IN_NUMPY = ("cbrt", "exp2", "log2")
KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64])


def limit_of(name, kind, device):
    """The units of the last place that a function may be off on a device."""
    if device.kind == "cpu":
        return LIMITS[name][kind is np.float64]
    return DOCUMENTED[name][kind is np.float64] + 0.5


def called(name):
    listed = "x[i], y[i]" if name in OF_TWO else "x[i]"
    return f"{'np' if name in IN_NUMPY else 'math'}.{name}({listed})"


def evaluated(names, x, y):
    """What kernels make of the functions, a row each."""
    known = {"cuda": cuda, "math": math, "np": np}
    lines = ["def kernel(x, y, out):", "    i = cuda.grid(1)", "    if i < x.size:"]
    lines += [f"        out[{n}, i] = {called(name)}" for n, name in enumerate(names)]
    exec("\n".join(lines), known)
    out = cuda.device_array((len(names), x.size), x.dtype)
    cuda.jit(known["kernel"]).forall(x.size)(cuda.to_device(x), cuda.to_device(y), out)
    return out.copy_to_host()


def values(ranges, kind, count, seed):
    random = np.random.default_rng(seed)
    parts = [random.uniform(low, high, count) for low, high in ranges]
    return np.concatenate(parts).astype(kind)


@KINDS
@pytest.mark.parametrize("name", LIMITS)
def test_functions_are_as_accurate_as_the_table_says(name, kind, device):
    mpmath = pytest.importorskip("mpmath", reason="the numbers to compare with are mpmath's")
    ranges = LIMITS[name][2]
    x, y = values(ranges, kind, 150, 1), values(ranges[::-1], kind, 150, 2)
    (got,) = evaluated([name], x, y)
    special = {"exp2": lambda z: mpmath.mpf(2) ** z, "log2": lambda z: mpmath.log(z, 2)}
    special["cbrt"] = lambda z: mpmath.sign(z) * mpmath.cbrt(abs(z))
    special["pow"] = mpmath.power
    function = special.get(name) or getattr(mpmath, name)
    worst = 0.0
    with mpmath.workdps(50):
        for place, made in enumerate(got):
            given = [mpmath.mpf(float(each[place])) for each in (x, y)[: 1 + (name in OF_TWO)]]
            if given[0] == 0:
                continue
            exact = function(*given)
            rounded = kind(float(exact))
            if not np.isfinite(rounded):
                assert made == rounded, given
                continue
            off = abs(mpmath.mpf(float(made)) - exact) / float(np.spacing(abs(rounded)))
            worst = max(worst, float(off))
    assert worst <= limit_of(name, kind, device)


def edges(kind):
    limits = np.finfo(kind)
    sizes = [0, np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal, limits.eps]
    sizes += [1, 0.5, 2, 2.5, 3, 1e-10, 1e10, 2.0**52, 2.0**53 - 1, 1.7e6, 1e30]
    sizes += [88.8, 103.9, 104, 709.8, 745.2, 1022, 1074.5, 1.570796326794896, 0.7071]
    x = np.array(sizes, kind)
    with np.errstate(all="ignore"):
        neighbours = [np.nextafter(x, kind(0)), np.nextafter(x, kind(np.inf))]
    return np.concatenate([x, -x, *neighbours])


NUMPY = {
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("cos", "cosh", "sin", "sinh", "tan")},
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "pow": np.power,
}


@KINDS
@pytest.mark.parametrize("name", LIMITS)
def test_functions_at_zeros_infinities_nans_and_subnormals(name, kind, device):
    x, y = edges(kind), np.ones(1, kind)
    x, y = (np.repeat(x, x.size), np.tile(x, x.size)) if name in OF_TWO else (x, np.ones_like(x))
    (got,) = evaluated([name], x, y)
    wide = np.float64 if name in ("erf", "erfc") else np.longdouble
    with np.errstate(all="ignore"):
        given = (x.astype(wide), y.astype(wide))[: 1 + (name in OF_TWO)]
        expected = NUMPY.get(name, getattr(np, name, None))(*given).astype(kind)
        same = (got == expected) & (np.signbit(got) == np.signbit(expected))
        same |= np.isnan(got) & np.isnan(expected)
        # An infinity is one unit beyond the largest number.
        beyond = np.ldexp(np.longdouble(1), np.finfo(kind).maxexp)
        numbers = np.where(np.isinf(got), np.copysign(beyond, got), got)
        off = np.abs(numbers - expected) / np.spacing(np.abs(expected))
    limit = limit_of(name, kind, device) + 0.5
    wrong = ~same & ~(off <= limit)
    assert not wrong.any(), (x[wrong][:5], y[wrong][:5], got[wrong][:5], expected[wrong][:5])


@KINDS
def test_bits_do_not_depend_on_the_way_threads_are_run(kind, monkeypatch):
    x = np.concatenate([edges(kind), values([(-3, 3), (-100, 100), (-1e7, 1e7)], kind, 60, 3)])
    y = np.roll(x, 7)
    made = []
    for way in WAYS:
        monkeypatch.setenv("HAULAGE_CPU_THREADS", way)
        rows = evaluated(list(LIMITS), x, y)
        made.append(np.where(np.isnan(rows), 0, rows.view(f"u{x.itemsize}")))
    for other in made[1:]:
        np.testing.assert_array_equal(made[0], other)
