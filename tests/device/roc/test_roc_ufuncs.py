"""Ufuncs of roc: by numba's decorators with `target="roc"`, and by the classes behind them."""

import numba
import numpy as np
import pytest

import haulage
from haulage import roc
from haulage.roc.dispatch import HSAGenerializedUFunc, HsaUFuncDispatcher
from haulage.roc.vectorizers import HsaGUFuncVectorize, HsaVectorize

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture
def installed():
    haulage.install()
    yield
    haulage.uninstall()


def line(slope, x, start):
    return slope * x + start


def line_of_arrays(slope, x, start, out):
    for i in range(x.size):
        out[i] = slope * x[i] + start[i]


def sum_of_arrays(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


def total(x, out):
    out[0] = 0
    for value in x:
        out[0] += value


def close(got, expected):
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)


# ---- of numbers ---------------------------------------------------------------------------------


def test_a_ufunc_built_from_its_signatures():
    builder = HsaVectorize(line)
    builder.add("float32(float32, float32, float32)")
    builder.add("intp(intp, intp, intp)")
    ufunc = builder.build_ufunc()
    assert isinstance(ufunc, HsaUFuncDispatcher)
    for dtype in (np.intp, np.float32):
        x, y, z = np.arange(300, dtype=dtype).reshape(3, 100)
        close(ufunc(x, y, z), x * y + z)


@pytest.mark.parametrize("slope", [3, 2.3])
def test_numbas_vectorize_for_roc_and_a_number_among_arrays(installed, slope):
    made = numba.vectorize(
        ["float32(float32, float32, float32)", "intp(intp, intp, intp)"], target="roc"
    )(line)
    assert isinstance(made, HsaUFuncDispatcher)
    dtype = np.intp if isinstance(slope, int) else np.float32
    x, start = np.arange(200, dtype=dtype).reshape(2, 100)
    close(made(slope, x, start), (slope * x + start).astype(dtype))


def test_a_ufunc_writes_into_an_array_of_the_device(installed):
    x, out = np.arange(10.0), roc.to_device(np.zeros(10))
    plus_one = numba.vectorize(["float64(float64)"], target="roc")(lambda x: x + 1)
    plus_one(x, out=out)
    np.testing.assert_array_equal(out.copy_to_host(), x + 1)


# ---- of arrays ----------------------------------------------------------------------------------


def test_a_gufunc_built_from_its_signatures():
    builder = HsaGUFuncVectorize(sum_of_arrays, "(n),(n)->(n)")
    builder.add("(float32[:], float32[:], float32[:])")
    builder.add("void(intp[:], intp[:], intp[:])")
    gufunc = builder.build_ufunc()
    assert isinstance(gufunc, HSAGenerializedUFunc)
    for dtype in (np.intp, np.float32):
        for shape in ((100,), (50, 2), (5, 10, 2)):
            x = np.arange(100, dtype=dtype).reshape(shape)
            close(gufunc(x, 2 * x), 3 * x)


def test_a_gufunc_gives_one_number_for_each_row():
    builder = HsaGUFuncVectorize(total, "(n)->()")
    builder.add("void(int32[:], int32[:])")
    x = np.arange(300, dtype=np.int32).reshape(100, 3)
    np.testing.assert_array_equal(builder.build_ufunc()(x), x.sum(axis=1))


def gufunc_of_a_builder():
    builder = HsaGUFuncVectorize(line_of_arrays, "(),(n),(n)->(n)")
    builder.add("void(float32, float32[:], float32[:], float32[:])")
    return builder.build_ufunc()


def gufunc_of_the_decorator():
    signature = ["void(float32, float32[:], float32[:], float32[:])"]
    return numba.guvectorize(signature, "(),(n),(n)->(n)", target="roc")(line_of_arrays)


@pytest.mark.parametrize("make", [gufunc_of_a_builder, gufunc_of_the_decorator])
def test_a_gufunc_takes_numbers_for_all_rows_or_for_each(installed, make):
    gufunc = make()
    x, start = np.arange(20, dtype=np.float32).reshape(2, 5, 2)
    for slope in (np.float32(2), np.arange(5, dtype=np.float32)):
        close(gufunc(slope, x, start), slope.reshape(-1, 1) * x + start)
    close(gufunc(np.float32(2), x[0], start[0]), 2 * x[0] + start[0])
    # A row is an array of one axis; without any axis but that of numbers, each is a slope's.
    close(gufunc(np.float32(3), x.ravel(), start.ravel()), 3 * x.ravel() + start.ravel())
