"""`guvectorize` compared with NumPy's own functions of small arrays."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haulage import cuda, roc
from haulage.errors import CompileError, ShapeMismatch

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@cuda.guvectorize(
    ["void(float32[:,:], float32[:,:], float32[:,:])", "(f8[:,:], f8[:,:], f8[:,:])"],
    "(m, n),(n, p)->(m, p)",
)
def matmul(a, b, c):
    """Matrix products."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@cuda.guvectorize(["void(int64[:], int64[:], int64[:])"], "(n)->(),()")
def extremes(x, low, high):
    low[0] = high[0] = x[0]
    for each in x:
        low[0] = min(low[0], each)
        high[0] = max(high[0], each)


@cuda.guvectorize(["void(float32, float32[:], float32[:], float32[:])"], "(),(t),(t)->(t)")
def saxpy(a, x, y, out):
    for i in range(out.shape[0]):
        out[i] = a * x[i] + y[i]


@cuda.guvectorize("(n)->()")
def total(x, out):
    out[0] = 0
    for each in x:
        out[0] += each


# ---- results ------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_loop_axes_as_numpy_has_them(data):
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(
            signature="(m,n),(n,p)->(m,p)", max_dims=2, min_side=0, max_side=5
        )
    )
    drawn = [
        data.draw(hnp.arrays(np.float64, shape, elements=st.integers(-9, 9)))
        for shape in shapes.input_shapes
    ]
    values = [np.asfortranarray(x) if data.draw(st.booleans()) else x[..., ::-1] for x in drawn]
    args = [cuda.to_device(x) if data.draw(st.booleans()) else x for x in values]
    expected = np.matmul(*values)
    result = matmul(*args)
    if isinstance(result, cuda.DeviceNDArray):
        result = result.copy_to_host()
    assert result.shape == expected.shape
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 5000])
@pytest.mark.parametrize("length", [3, 40])
def test_counts_around_whole_blocks(count, length):
    x = np.random.default_rng(count).integers(-1000, 1000, (count, length))
    low, high = extremes(x)
    assert np.array_equal(low, x.min(axis=1))
    assert np.array_equal(high, x.max(axis=1))


def test_both_ways_of_the_cpu_device_agree(way):
    a, b = np.random.default_rng(3).random((2, 30, 4, 4))
    assert np.allclose(matmul(a, b), a @ b)
    assert np.allclose(
        matmul(a.reshape(5, 6, 4, 4)[:, ::2], b[0]), a.reshape(5, 6, 4, 4)[:, ::2] @ b[0]
    )


def test_numbers_for_inputs_without_core_dimensions():
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    assert np.array_equal(saxpy(2, x, x), 3 * x)
    assert np.array_equal(saxpy(np.float64(2), x, x), 3 * x)
    a = np.arange(5, dtype=np.float32)
    assert np.array_equal(saxpy(a, x, x), a[:, None] * x + x)
    there = saxpy(cuda.to_device(a), x, cuda.to_device(x[0]))
    assert np.array_equal(there.copy_to_host(), a[:, None] * x + x[0])


def test_a_number_or_an_array_of_one_where_there_are_no_core_dimensions():
    number = cuda.guvectorize(["void(int32, int32[:])"], "()->()")(_twice_number)
    array = cuda.guvectorize(["void(int32[:], int32[:])"], "()->()")(_twice_array)
    for twice in (number, array):
        assert twice(10) == 20
        assert type(twice(10)) is np.int32
        x = np.arange(12, dtype=np.int32).reshape(3, 4)
        assert np.array_equal(twice(x[:, ::2]), 2 * x[:, ::2])
        assert twice(x, out=x) is x
        assert np.array_equal(x, 2 * np.arange(12).reshape(3, 4))


def _twice_number(x, out):
    out[0] = 2 * x


def _twice_array(x, out):
    out[0] = 2 * x[0]


@pytest.mark.parametrize("layout", ["(3),(3)->(3)", "( 3 ) , (3)\n-> (3)"])
def test_a_core_dimension_of_a_fixed_size(layout):
    @cuda.guvectorize(["(f8[:], f8[:], f8[:])"], layout)
    def cross(a, b, c):
        c[0] = a[1] * b[2] - a[2] * b[1]
        c[1] = a[2] * b[0] - a[0] * b[2]
        c[2] = a[0] * b[1] - a[1] * b[0]

    a, b = np.random.default_rng(1).random((2, 50, 3))
    assert np.allclose(cross(a, b), np.cross(a, b))
    with pytest.raises(ValueError, match=r"is 4 in input 0 .* and 3 in the layout"):
        cross(np.ones(4), np.ones(4))


def test_without_signatures_the_outputs_tell_their_dtypes():
    x = np.arange(12).reshape(3, 4)
    out = np.empty(3, np.float32)
    assert total(x, out) is out
    assert list(out) == list(x.sum(axis=1))
    there = cuda.device_array(3, np.int16)
    assert total(cuda.to_device(x.astype("i2")), out=there) is there
    assert list(there.copy_to_host()) == list(x.sum(axis=1))
    with pytest.raises(TypeError, match="give arrays for all of them"):
        total(x)


def test_outputs_that_are_given():
    x = np.arange(8).reshape(2, 4)
    low, high = np.empty(2, np.int64), cuda.device_array(2, np.int64)
    assert extremes(x, out=(low, high)) == (low, high)
    assert list(low) == [0, 4]
    assert list(high.copy_to_host()) == [3, 7]
    given_low, made_high = extremes(cuda.to_device(x), out=(low, None))
    assert given_low is low
    assert isinstance(made_high, cuda.DeviceNDArray)
    every_other = np.zeros((2, 2), np.int64)
    extremes(x, low, every_other[:, 1])
    assert every_other.tolist() == [[0, 3], [0, 7]]
    # An output may be larger than what the inputs give, and they are broadcast.
    low, high = np.zeros((2, 3, 2), np.int64)
    extremes(x, low, high)
    assert low.tolist() == [[0, 4]] * 3


def test_an_output_that_is_an_input_as_well():
    a = np.random.default_rng(5).random((20, 3, 3))
    expected = a @ a
    there = cuda.to_device(a)
    matmul(there, there, out=there)
    assert np.allclose(there.copy_to_host(), expected)
    matmul(a, a, out=a)
    assert np.allclose(a, expected)


def test_inputs_that_the_function_writes_to():
    @cuda.guvectorize(["(f8[:], f8[:])"], "(n)->()")
    def spoiled(x, out):
        out[0] = 0
        for i in range(x.shape[0]):
            out[0] += x[i]
            x[i] = -1

    x = np.arange(6.0).reshape(2, 3)
    assert list(spoiled(x)) == [3, 12]
    assert np.array_equal(x, np.arange(6.0).reshape(2, 3))
    there = cuda.to_device(x)
    assert list(spoiled(there).copy_to_host()) == [3, 12]
    assert (there.copy_to_host() == -1).all()
    x.flags.writeable = False
    assert list(spoiled(x)) == [3, 12]


def test_loops_without_places_give_empty_outputs():
    assert matmul(np.ones((0, 2, 3)), np.ones((3, 4))).shape == (0, 2, 4)
    assert np.array_equal(matmul(np.ones((5, 2, 0)), np.ones((0, 4))), np.zeros((5, 2, 4)))


def test_host_arrays_go_by_copies_where_kernels_cannot_use_them(by_copies):
    # As on a GPU, and in the adversarial mode: all that a kernel works on is copied.
    with by_copies():
        x = np.arange(24).reshape(2, 3, 4)
        out = np.full((2, 6), -1)
        low, high = extremes(x[:, :, ::-1], out=(out[:, ::2], None))
    assert np.array_equal(low, x.min(axis=2))
    assert np.array_equal(high, x.max(axis=2))
    assert (out[:, 1::2] == -1).all()


def test_a_stream_orders_the_work(hold_up):
    stream = cuda.stream()
    a = np.random.default_rng(2).random((50, 3, 3))
    there = cuda.to_device(a, stream)
    with hold_up(stream):
        result = matmul(matmul(there, there, stream=stream), there, stream=stream)
        assert not stream.query()
    assert np.allclose(result.copy_to_host(stream=stream), a @ a @ a)


# ---- types --------------------------------------------------------------------------------------


def test_exact_signatures_come_first_then_casts_within_the_kind():
    a = np.arange(8).reshape(2, 2, 2)
    assert matmul(a.astype("f4"), a.astype("f4")).dtype == np.float32
    assert matmul(a, a).dtype == np.float64
    assert np.array_equal(matmul(cuda.to_device(a), a).copy_to_host(), a @ a)
    x = np.arange(4.0)
    assert saxpy(1, x, x).dtype == np.float32
    with pytest.raises(TypeError, match=r"does not support .astype\(\)"):
        saxpy(1, cuda.to_device(x), x)
    with pytest.raises(TypeError, match="no matching signature"):
        extremes(x)
    with pytest.raises(TypeError, match="output 1 has dtype int32"):
        extremes(np.arange(3), out=(None, np.array(0, np.int32)))


@pytest.mark.parametrize(
    ("signature", "layout", "error", "message"),
    [
        ("int32(int32[:], int32[:])", "(m)->(m)", TypeError, "cannot return values"),
        ("void(int32[:])", "(m)->(m)", TypeError, "has 2 arguments"),
        ("void(int32[:,:], int32[:])", "(m)->(m)", ValueError, "signature mismatch"),
        ("void(int32[:], int32)", "(m)->()", ValueError, "signature mismatch"),
        ("void(int32, int32[:])", "(m)->(m)", ValueError, "signature mismatch"),
        ("void(int32[:], int32[:])", "(m)->", ValueError, "layout"),
        ("void(int32[:], int32[:])", "m->m", ValueError, "layout"),
        ("void(int32[:], int32[:])", 3, TypeError, "layout"),
    ],
)
def test_signatures_and_layouts_that_do_not_fit(signature, layout, error, message):
    with pytest.raises(error, match=message):
        cuda.guvectorize([signature], layout)(_twice_array)


def test_functions_that_return_something_or_cannot_be_compiled():
    with pytest.raises(TypeError, match="cannot return values"):
        cuda.guvectorize(["(f8[:], f8[:])"], "(n)->(n)")(lambda x, out: x[0])
    with pytest.raises(CompileError, match="nothing_such"):
        cuda.guvectorize(["(f8[:], f8[:])"], "(n)->(n)")(lambda x, out: x.nothing_such)


# ---- shapes, calls and options ------------------------------------------------------------------


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"'n' of .* is 4 in input 1 .* and 3 in input 0"):
        matmul(np.ones((2, 3)), np.ones((4, 5)))
    with pytest.raises(ValueError, match="too few axes"):
        matmul(np.ones(3), np.ones((3, 5)))
    with pytest.raises(ShapeMismatch, match="broadcast together"):
        matmul(np.ones((2, 2, 2)), np.ones((3, 2, 2)))
    with pytest.raises(ValueError, match="output 0"):
        matmul(np.ones((2, 2)), np.ones((2, 2)), out=np.ones((2, 3)))
    with pytest.raises(ShapeMismatch, match="loop axes"):
        matmul(np.ones((4, 2, 2)), np.ones((2, 2)), out=np.ones((2, 2)))
    with pytest.raises(ValueError, match="no input tells core dimension 'k'"):
        cuda.guvectorize(["(f8[:], f8[:])"], "(n)->(k)")(_twice_array)(np.ones(3))


def test_an_output_alone_can_tell_a_core_dimension():
    powers = cuda.guvectorize(["(f8, f8[:])"], "()->(k)")(_powers)
    assert powers(2.0, out=np.empty(4)).tolist() == [1, 2, 4, 8]


def _powers(x, out):
    power = 1.0
    for i in range(out.shape[0]):
        out[i] = power
        power *= x


def test_bad_calls():
    a = np.ones((2, 2))
    for args in ((a,), (a, a, a, a)):
        with pytest.raises(TypeError, match=r"accepts 2 positional arguments .* or 3 positional"):
            matmul(*args)
    with pytest.raises(TypeError, match="Got 1 positional argument"):
        matmul(a, out=a)
    with pytest.raises(ValueError, match="both positional and keyword"):
        matmul(a, a, a, out=a)
    with pytest.raises(ValueError, match="tuple of 2 arrays"):
        extremes(np.arange(3), out=np.array(0))
    with pytest.raises(TypeError, match="unexpected keyword"):
        matmul(a, a, axis=0)


def test_options():
    for error, options in (
        (TypeError, {"nonexistent": 1}),
        (TypeError, {"nopython": False}),
        (ValueError, {"target": "parallel"}),
        (NotImplementedError, {"writable_args": (0,)}),
    ):
        with pytest.raises(error):
            cuda.guvectorize(["(f8[:], f8[:])"], "(n)->(n)", **options)(_twice_array)
    with pytest.raises(TypeError, match="a layout"):
        cuda.guvectorize()
    made = roc.guvectorize([numba.void(numba.f8[:], numba.f8[:])], "(n)->(n)", nopython=True)
    assert repr(made(_twice_array)) == "<roc gufunc _twice_array (n)->(n)>"


def test_max_blocksize_bounds_the_block():
    width = cuda.guvectorize(["(i8[:], i8[:])"], "()->()")(_width)
    width.max_blocksize = 48
    assert (width(np.zeros(300, np.int64)) == 48).all()


def _width(x, out):
    out[0] = cuda.blockDim.x


def test_what_a_gufunc_tells_of_itself():
    assert (matmul.__name__, matmul.__doc__) == ("matmul", "Matrix products.")
    assert (matmul.nin, matmul.nout, matmul.nargs) == (2, 1, 3)
    assert (matmul.types, matmul.signature) == (["ff->f", "dd->d"], "(m, n),(n, p)->(m, p)")


def test_kernels_cannot_call_a_gufunc():
    @cuda.jit
    def kernel(x, out):
        total(x, out)

    with pytest.raises(CompileError, match="total"):
        kernel[1, 1](np.ones(3), np.ones(1))
