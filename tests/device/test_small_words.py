"""Small words of kernels: bits, choices, single functions; results compared with plain Python."""

from fractions import Fraction

import numba
import numpy as np
import pytest

from haulage import cuda
from haulage.errors import CompileError

INTS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
FLOATS = ["f4", "f8"]

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture(params=["cut", "coroutines"])
def way(request, monkeypatch):
    """Run the test with the threads of a block run as loops, and again as coroutines."""
    monkeypatch.setenv("HAULAGE_CPU_THREADS", request.param)
    return request.param


def refused(call, message, **arguments):
    """Check that a kernel `x[0] = call` is not compiled, for a reason."""
    names = {"cuda": cuda, "np": np, **arguments}
    exec(f"def kernel(x):\n    x[0] = cuda.{call}\n", names)
    with pytest.raises(CompileError, match=message):
        cuda.jit(names["kernel"])[1, 1](cuda.to_device(np.zeros(2)))


# ---- bits ---------------------------------------------------------------------------------------


@cuda.jit
def bits(x, counted, leading, lowest, back, magnitude):
    i = cuda.grid(1)
    counted[i] = cuda.popc(x[i])
    leading[i] = cuda.clz(x[i])
    lowest[i] = cuda.ffs(x[i])
    back[i] = cuda.brev(x[i])
    magnitude[i] = x[i].bit_count()


@pytest.mark.parametrize("kind", INTS)
def test_bits_of_ints(way, kind):
    limits = np.iinfo(kind)
    random = np.random.default_rng(1)
    x = random.integers(limits.min, limits.max, 64, kind, endpoint=True)
    x[:6] = [0, 1, limits.max, limits.min, limits.max - 1, 8]
    out = [cuda.device_array(64, np.int64) for _ in range(3)]
    back = cuda.device_array(64, np.uint64)
    magnitude = cuda.device_array(64, np.int64)
    bits[2, 32](cuda.to_device(x), *out, back, magnitude)
    width, wide = limits.bits, max(limits.bits, 32)
    patterns = [f"{int(value) % 2**width:0{width}b}" for value in x]
    whole = [f"{int(value) % 2**wide:0{wide}b}" for value in x]
    counted, leading, lowest = (each.copy_to_host().tolist() for each in out)
    assert counted == [pattern.count("1") for pattern in patterns]
    assert leading == [len(pattern) - len(pattern.lstrip("0")) for pattern in patterns]
    assert lowest == [len(p) - p.rfind("1") if "1" in p else 0 for p in patterns]
    assert back.copy_to_host().tolist() == [int(pattern[::-1], 2) for pattern in whole]
    assert magnitude.copy_to_host().tolist() == [int(value).bit_count() for value in x]


def test_words_about_bits_have_the_types_of_numba():
    @cuda.jit
    def kinds(a, b, out):
        # An unsigned difference of 32 or 64 bits wraps where one of another type does not.
        out[0] = cuda.popc(a[0]) - np.uint8(9)
        out[1] = cuda.ffs(a[0])
        out[2] = cuda.clz(b[0])
        out[3] = cuda.brev(a[0]) >> np.uint32(24)
        out[4] = cuda.brev(b[0]) >> np.uint64(56)

    signature = numba.void(numba.int8[::1], numba.int64[::1], numba.int64[::1])
    out = cuda.to_device(np.zeros(5, np.int64))
    cuda.jit(signature)(kinds.py_func)[1, 1](
        cuda.to_device(np.array([-1], np.int8)), cuda.to_device(np.array([1])), out
    )
    assert out.copy_to_host().tolist() == [-1, 1, 63, 255, 128]


def test_words_about_bits_take_constants(way):
    @cuda.jit
    def constants(out):
        out[0] = cuda.popc(0b1011)
        out[1] = cuda.clz(1)
        out[2] = cuda.ffs(40)
        out[3] = cuda.brev(np.uint32(1))
        out[4] = (-7).bit_count()

    out = cuda.device_array(5, np.int64)
    constants[1, 1](out)
    assert out.copy_to_host().tolist() == [3, 63, 4, 2**31, 3]


@pytest.mark.parametrize("word", ["popc", "clz", "ffs", "brev"])
def test_words_about_bits_take_no_floats(word):
    refused(f"{word}(x[0])", rf"{word}\(x\): x: expected an int; got float64")


# ---- choice -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*INTS, *FLOATS, "?", "c8", "c16"])
def test_selp_chooses_one_of_two(way, kind):
    @cuda.jit
    def choose(test, a, b, out):
        i = cuda.grid(1)
        out[i, 0] = cuda.selp(test[i] > 1, a[i], b[i])
        out[i, 1] = cuda.selp(test[i], a[i], b[i])

    test = np.arange(32) % 3
    a, b = np.arange(32).astype(kind), np.arange(50, 18, -1).astype(kind)
    out = cuda.device_array((32, 2), kind)
    choose[2, 16](cuda.to_device(test), cuda.to_device(a), cuda.to_device(b), out)
    expected = [np.where(test > 1, a, b), np.where(test, a, b)]
    np.testing.assert_array_equal(out.copy_to_host().T, expected)


def test_selp_refuses_values_of_two_types():
    refused("selp(x[0] > 1, x[0], np.float32(1))", "a and b: expected numbers of one type; got flo")
    refused("selp(x[0], x[0], x[0])", r"selp\(test, a, b\): test: expected a bool; got float64")
    refused("selp(True, x, x)", "a and b: expected numbers of one type; got array")


# ---- functions ----------------------------------------------------------------------------------


@cuda.jit
def fused(a, b, c, out):
    i = cuda.grid(1)
    out[i] = cuda.fma(a[i], b[i], c[i])


@pytest.mark.parametrize("kind", FLOATS)
def test_fma_rounds_once(way, kind):
    random = np.random.default_rng(2)
    a, b = random.standard_normal((2, 64)).astype(kind)
    # So near to the product that little more than its rounding is left.
    c = -(a * b)
    out = cuda.device_array(64, kind)
    fused[2, 32](cuda.to_device(a), cuda.to_device(b), cuda.to_device(c), out)
    exact = [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    expected = np.array([float(value) for value in exact], kind)
    assert expected.any()
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_fma_of_mixed_numbers_is_one_of_doubles(way):
    @cuda.jit
    def mixed(a, out):
        out[0] = cuda.fma(a[0], 3, np.float64(0.1))

    out = cuda.device_array(1)
    mixed[1, 1](cuda.to_device(np.array([2], np.float32)), out)
    assert out[0] == 6.1


@cuda.jit
def cube_roots(x, out):
    i = cuda.grid(1)
    out[i] = cuda.cbrt(x[i])


@pytest.mark.parametrize("kind", FLOATS)
def test_cbrt(way, kind):
    x = np.array([0.0, -0.0, 1, -8, 27, 1e-30, np.inf, -np.inf, np.nan, 2.5], kind)
    out = cuda.device_array(10, kind)
    cube_roots[1, 10](cuda.to_device(x), out)
    result = out.copy_to_host()
    np.testing.assert_allclose(result, np.cbrt(x), rtol=2 * np.finfo(kind).eps)
    np.testing.assert_array_equal(np.signbit(result[:2]), [False, True])


def test_functions_of_real_numbers_refuse_others():
    refused(
        "fma(1j, x[0], x[0])", r"fma\(x, y, z\): expected real numbers; got complex128, float64"
    )
    refused("cbrt(x)", r"cbrt\(x\): expected real numbers; got array")
