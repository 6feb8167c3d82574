"""`math`, operators and NumPy's functions on scalars against Python and NumPy, over edge values."""

import cmath
import math
import operator

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import KernelError
from support.libdevice_references import allowed

INTS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
FLOATS = ["f4", "f8"]
COMPLEX = ["c8", "c16"]

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


def edge_values(kind, seed=0):
    """32 values of a dtype, its edges among them."""
    random, dtype = np.random.default_rng(seed), np.dtype(kind)
    if dtype.kind == "b":
        return random.integers(0, 2, 32).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = random.integers(max(limits.min, -6), 7, 32).astype(dtype)
        x[:4] = [0, 1, limits.max, limits.min]
        return x
    x = (2 * random.standard_normal(32)).astype(dtype)
    limits = np.finfo(dtype)
    edges = [0, np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal, 1, 2.5]
    x[:16] = [sign * edge for edge in edges for sign in (1, -1)]
    return x


def evaluated(expressions, arrays, kind, vocabulary=cuda):
    """What a kernel makes of expressions in `a`, `b` (one element of each array): an array each."""
    names = ["a", "b", "c"][: len(arrays)]
    index = "vocabulary.grid(1)" if vocabulary is cuda else "vocabulary.get_global_id(0)"
    lines = [f"def kernel({', '.join(f'x{name}' for name in names)}, out):", f"    i = {index}"]
    lines += ["    if i >= out.shape[1]: return"]
    lines += [f"    {name} = x{name}[i]" for name in names]
    lines += [f"    out[{n}, i] = {text}" for n, text in enumerate(expressions)]
    known = {"vocabulary": vocabulary, "math": math, "cmath": cmath, "np": np, "op": operator}
    exec("\n".join(lines), known)
    out = cuda.device_array((len(expressions), len(arrays[0])), kind)
    vocabulary.jit(known["kernel"])[2, 16](*[cuda.to_device(x) for x in arrays], out)
    return out.copy_to_host()


def errors_in_ulp(got, expected):
    """How far numbers are off, in units of the last place of those expected, 0 for equal NaNs.

    An infinity is one unit beyond the largest number.
    """
    with np.errstate(all="ignore"):
        same = (np.isnan(got) & np.isnan(expected)) | (got == expected)
        off = np.abs(unbounded(got) - expected) / np.spacing(np.abs(expected))
    return np.where(same, 0, np.where(np.isfinite(off), off, np.inf)).astype(float)


def unbounded(numbers):
    """Wide floats with infinities as numbers, which continue the others."""
    beyond = np.ldexp(np.longdouble(1), np.finfo(numbers.dtype).maxexp)
    wide = numbers.astype(np.longdouble)
    return np.where(np.isinf(wide), np.copysign(beyond, wide), wide)


NAMES = """cos cosh sin sinh tan tanh exp expm1 log log2 log10 log1p sqrt cbrt fabs degrees radians
acos acosh asin asinh atan atanh"""
UNARY = {
    f"math.{name}": getattr(np, f"arc{name[1:]}" if name[0] == "a" else name)
    for name in NAMES.split()
}
BINARY = {
    "math.atan2": np.arctan2,
    "math.copysign": np.copysign,
    "math.fmod": np.fmod,
    "math.hypot": np.hypot,
    "math.pow": np.power,
}


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", INTS + FLOATS)
def test_functions_of_one_number(kind, device):
    x = edge_values(kind)
    floating = np.dtype("f4" if kind == "f4" else "f8")
    names = [name for name in UNARY if hasattr(math, name[5:])]
    got = evaluated([f"{name}(a)" for name in names], [x], floating)
    for name, row in zip(names, got, strict=True):
        with np.errstate(all="ignore"):
            expected = UNARY[name](x.astype(floating))
        most = allowed(name.removeprefix("math."), kind != "f4", 2, device)
        assert errors_in_ulp(row, expected).max() <= most, name


@pytest.mark.parametrize("vocabulary", [cuda, roc], ids=["cuda", "roc"])
def test_functions_in_both_vocabularies_and_ways(way, vocabulary):
    x = edge_values("f8")
    got = evaluated(["math.sin(a)", "math.floor(2 * a) / 2"], [x[8:]], "f8", vocabulary)[:, 8:]
    np.testing.assert_allclose(got, [np.sin(x[16:]), np.floor(2 * x[16:]) / 2], rtol=1e-15)


@pytest.mark.parametrize("kind", INTS + FLOATS)
def test_functions_of_two_numbers(kind, device):
    x, y = edge_values(kind), np.roll(edge_values(kind, 1), 5)
    # A power of the least int64 is an error of Numba's.
    if kind == "i8":
        y[y == np.iinfo(kind).min] = -3
    floating = np.dtype("f4" if kind == "f4" else "f8")
    got = evaluated([f"{name}(a, b)" for name in BINARY], [x, y], floating)
    for row, (name, function) in zip(got, BINARY.items(), strict=True):
        with np.errstate(all="ignore"):
            expected = function(x.astype(floating), y.astype(floating))
        most = allowed(name.removeprefix("math."), kind != "f4", 2, device)
        assert errors_in_ulp(row, expected).max() <= most, name


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", FLOATS)
def test_zeros_keep_their_sign(kind):
    zeros = np.tile(np.array([0.0, -0.0], kind), 16)
    names = ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p"]
    got = evaluated([f"math.{name}(a)" for name in [*names, "sqrt", "cbrt"]], [zeros], kind)
    assert not got.any()
    np.testing.assert_array_equal(np.signbit(got), np.broadcast_to(np.signbit(zeros), got.shape))


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", FLOATS)
def test_special_functions(kind):
    x = np.linspace(0.1, 6.1, 32).astype(kind)
    got = evaluated(["math.erf(a)", "math.erfc(a)", "math.gamma(a)", "math.lgamma(a)"], [x], kind)
    for row, function in zip(got, [math.erf, math.erfc, math.gamma, math.lgamma], strict=True):
        expected = np.array([function(float(value)) for value in x]).astype(kind)
        # Python's own lgamma is off near its zeros, so their neighbours count as ones.
        off = np.abs(row - expected) / np.maximum(np.abs(expected), 1)
        assert off.max() <= 16 * np.finfo(kind).eps, function


@pytest.mark.parametrize("kind", INTS)
def test_whole_numbers_stay_as_they_are_when_rounded(kind):
    x = edge_values(kind)
    result = np.uint64 if kind == "u8" else np.int64
    got = evaluated(["math.floor(a)", "math.ceil(a)", "math.trunc(a)"], [x], result)
    np.testing.assert_array_equal(got, np.broadcast_to(x.astype(result), got.shape))


@pytest.mark.parametrize("kind", ["f2", *FLOATS])
def test_floats_stay_floats_of_their_kind_when_rounded(way, kind):
    x = edge_values(kind)
    got = evaluated(["math.floor(a)", "math.ceil(a)", "math.trunc(a)"], [x], kind)
    for row, function in zip(got, [np.floor, np.ceil, np.trunc], strict=True):
        np.testing.assert_array_equal(row, function(x))
        np.testing.assert_array_equal(np.signbit(row), np.signbit(function(x)))
    fraction = cuda.vectorize(lambda a: a - math.floor(a))
    assert fraction(x[14:]).dtype == kind


def test_the_cube_root_of_a_negative_zero_is_one(way):
    x = np.tile([-0.0, 0.0, -8.0, 27.0], 8)
    (got,) = evaluated(["np.cbrt(a)"], [x], "f8")
    np.testing.assert_allclose(got, np.cbrt(x), rtol=1e-15)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


@pytest.mark.ptx_always
@pytest.mark.filterwarnings("ignore:(divide by zero|overflow) encountered:RuntimeWarning")
@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8"])
def test_remainders_of_ints_are_those_of_numpy(way, kind):
    limits = np.iinfo(kind)
    edges = np.array([limits.min, limits.min + 1, -7, -1, 0, 2, 5, limits.max], kind)
    x, y = np.repeat(edges, 8), np.tile(edges, 8)
    names = ["remainder", "fmod", "mod"]
    parts = [
        evaluated([*(f"np.{name}(a, b)" for name in names), "np.divmod(a, b)[1]"], pair, kind)
        for pair in zip(np.split(x, 2), np.split(y, 2), strict=True)
    ]
    got = np.concatenate(parts, axis=1)
    expected = [*(getattr(np, name)(x, y) for name in names), np.remainder(x, y)]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_reciprocals_of_unsigned_ints_are_those_of_numpy(way, kind):
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = np.reciprocal(x[i])

    x, out = np.arange(32).astype(kind), np.full(32, 7, kind)
    kernel[1, 32](x, out)
    assert out.tolist() == [0, 1] + 30 * [0]


def test_bools_become_numbers(way):
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[0, i] = float(x[i] > 3)
        out[1, i] = complex(x[i] > 3)
        out[2, i] = float(True) + complex(False) + int(x[i] > 3)

    x, out = np.arange(8), np.full((3, 8), np.nan, np.complex128)
    kernel[1, 8](x, out)
    assert out.tolist() == [(x > 3).tolist(), (x > 3).tolist(), ((x > 3) + 1).tolist()]


def test_a_negative_power_of_zero_is_infinite(way):
    zero, minus = np.tile([0.0, -0.0], 16), np.full(32, -1)
    got = evaluated(["a**-1", "a**b", "math.pow(a, b)", "1 / a"], [zero, minus], "f8")
    np.testing.assert_array_equal(got, np.broadcast_to(np.copysign(np.inf, zero), got.shape))


def test_a_negative_power_of_zero_raises_in_a_debug_kernel():
    @cuda.jit(debug=True, opt=False)
    def inverse(x):
        x[0] = x[0] ** -1

    with pytest.raises(KernelError, match="ZeroDivisionError"):
        inverse[1, 1](cuda.to_device(np.zeros(1)))


def test_one_function_under_two_names_in_one_kernel():
    x = np.abs(edge_values("f8"))
    got = evaluated(["math.sqrt(a)", "np.sqrt(a)", "math.fabs(a)", "np.fabs(a)"], [x], "f8")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got[:2], [np.sqrt(x)] * 2)
    np.testing.assert_array_equal(got[2:], [np.fabs(x)] * 2)


@pytest.mark.parametrize("kind", FLOATS)
def test_neighbours_of_a_number(kind):
    x, y = edge_values(kind), np.roll(edge_values(kind), 3)
    names = ["np.nextafter(a, b)", "np.spacing(a)", "math.nextafter(a, b)"]
    after, spacing, of_math = evaluated(names, [x, y], kind)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(after, np.nextafter(x, y))
        np.testing.assert_array_equal(of_math, np.nextafter(x, y))
        np.testing.assert_array_equal(spacing, np.spacing(x))


def test_rounding_to_decimals():
    # In float32, 0.3425 times 1000 is 342.5; the number itself is a little more.
    x = np.tile(np.array([0.3425, 2.5, -1.25, 1234.5, 0.1, np.inf, -np.inf, -0.0], "f4"), 4)
    got = evaluated(["round(a, 3)", "round(a, 1)", "round(a, -2)"], [x], "f4")
    for row, digits in zip(got, [3, 1, -2], strict=True):
        expected = [round(float(value), digits) for value in x]
        np.testing.assert_array_equal(row, np.array(expected, "f4"))
    np.testing.assert_array_equal(np.signbit(got[0, 7::8]), True)


# ---- complex numbers ----------------------------------------------------------------------------


def relative(got, expected):
    return np.abs(got - expected) / np.abs(expected)


@pytest.mark.parametrize("kind", COMPLEX)
def test_powers_of_complex_numbers(way, kind):
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((2, 32)) + 1j * random.standard_normal((2, 32))).astype(kind)
    b[:8] = [0, 1, -1, 2, 0.5, 7, -100, 1j]
    expressions = ["a**b", "pow(a, b)", "op.pow(a, b)", "np.power(a, b)", "np.float_power(a, b)"]
    got = evaluated(expressions, [a, b], kind)
    expected = a.astype("c16") ** b.astype("c16")
    assert relative(got, expected).max() < 300 * np.finfo(kind).eps


def test_powers_of_complex_zeros_and_whole_powers_are_exact():
    a = np.tile([0j, 0j, 0j, 0j, 2 + 1j, complex(np.inf, 0), 1j, 3 + 0j], 4)
    b = np.tile([0j, 2 + 0j, -1 + 0j, 1j, -1 + 0j, 1 + 0j, 4 + 0j, 3 + 0j], 4)
    got = evaluated(["a**b"], [a, b], "c16")[0, :8]
    nothing = complex(np.nan, np.nan)
    expected = [1, 0, nothing, nothing, 0.4 - 0.2j, complex(np.inf, 0), 1, 27]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind", COMPLEX)
def test_complex_division_by_zero_is_numpys(way, kind):
    a = np.tile(np.array([1 + 2j, -1j, 0, 3], kind), 8)
    b = np.tile(np.array([0, 0, 0, 2j], kind), 8)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluated(["a / b"], [a, b], kind)[0], a / b)


def test_complex_quotients_are_numpys_also_of_infinities(way):
    parts = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
    numbers = np.array([complex(x, y) for x in parts for y in parts])
    a, b = np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))
    found = np.zeros_like(a)

    @cuda.jit
    def divide(a, b, found):
        i = cuda.grid(1)
        if i < a.size:
            found[i] = a[i] / b[i]

    divide[(a.size + 63) // 64, 64](a, b, found)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, a / b, rtol=1e-15)


def test_complex_division_by_zero_raises_in_a_debug_kernel():
    @cuda.jit(debug=True, opt=False)
    def divide(x):
        x[0] = x[0] / x[1]

    with pytest.raises(KernelError, match=r"ZeroDivisionError.*: complex division by zero"):
        divide[1, 1](cuda.to_device(np.zeros(2, np.complex128)))


PARTS = [0.0, -0.0, 1.0, -2.5, 1e-310, -1e308, 1.7e308, np.inf, -np.inf, np.nan, 0.6, -0.8]


@pytest.mark.parametrize("kind", COMPLEX)
@pytest.mark.parametrize("name", ["log", "sqrt"])
def test_complex_logarithms_and_roots(kind, name):
    with np.errstate(all="ignore"):
        z = np.array([complex(x, y) for x in PARTS for y in PARTS], kind)[
            : len(PARTS) ** 2 // 32 * 32
        ]
        for part in np.split(z, len(z) // 32):
            got = evaluated([f"cmath.{name}(a)", f"np.{name}(a)"], [part], kind)
            expected = getattr(np, name)(part.astype("c16")).astype(kind)
            for row in got:
                assert errors_in_ulp(row.real, expected.real).max() <= 3
                assert errors_in_ulp(row.imag, expected.imag).max() <= 3


def test_the_logarithm_beside_a_magnitude_of_one():
    z = np.exp(1j * np.linspace(-3, 3, 32)) * (1 + np.linspace(-1e-3, 1e-3, 32))
    expected = [cmath.log(value) for value in z]
    got = evaluated(["cmath.log(a)"], [z], "c16")[0]
    np.testing.assert_allclose(got.real, np.real(expected), rtol=1e-13, atol=1e-17)
