"""`vectorize` compared with NumPy's own ufuncs."""

import math
import warnings
from collections import namedtuple

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import haulage
from haulage import cuda, roc
from haulage.errors import CompileError, DeviceMismatch, ShapeMismatch
from haulage.kernel import CUDA

SIGNATURES = ["int32(int32, int32)", "float32(float32, float32)", "float64(float64, float64)"]

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@cuda.vectorize(SIGNATURES)
def add(a, b):
    """The sum."""
    return a + b


@cuda.vectorize(["int64(int64, int64, int64)", "float64(float64, float64, float64)"])
def scaled(x, scale, shift):
    return x * scale - shift


@cuda.vectorize
def any_sum(a, b):
    return a + b


# ---- results, against NumPy ---------------------------------------------------------------------


@st.composite
def cut_up(draw, shape, dtype):
    """An array of a shape, over memory with gaps, turned round, transposed or repeated."""
    steps = draw(st.tuples(*(st.sampled_from([1, 1, 2, -1, -3]) for _ in shape)))
    order = draw(st.permutations(range(len(shape))))
    whole = tuple(n * abs(step) for n, step in zip(shape, steps, strict=True))
    values = draw(hnp.arrays(dtype, [whole[axis] for axis in order], elements=st.integers(-99, 99)))
    back = [list(order).index(axis) for axis in range(len(shape))]
    return np.asarray(values.transpose(back)[tuple(slice(None, None, step) for step in steps)])


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_shapes_and_strides_as_numpy_has_them(data):
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=20)
    )
    dtype = data.draw(st.sampled_from([np.float64, np.int32]))
    values = [data.draw(cut_up(shape, dtype)) for shape in shapes.input_shapes]
    expected = np.add(*values)
    args = [cuda.to_device(x) if data.draw(st.booleans()) else x for x in values]
    if data.draw(st.booleans()):
        result = data.draw(cut_up(shapes.result_shape, np.float64))
        assert add(*args, out=result) is result
    else:
        result = add(*args)
        assert result.dtype == dtype
        is_there = any(isinstance(x, cuda.DeviceNDArray) for x in args)
        assert isinstance(result, cuda.DeviceNDArray) == is_there
        result = result.copy_to_host() if is_there else result
    assert result.shape == expected.shape
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("shape", [(1000,), (37, 70), (300, 3), (5, 1, 2, 40)])
def test_both_ways_of_the_cpu_device_agree(way, shape):
    x = np.random.default_rng(1).random(shape)
    assert np.array_equal(add(x, x.T.copy().T), x + x)
    assert np.array_equal(add(x[..., :1], x[0]), x[..., :1] + x[0])


@pytest.mark.parametrize("size", [1, 255, 256, 257, 100_001])
def test_sizes_around_whole_blocks(size):
    x = np.random.default_rng(size).random(size).astype(np.float32)
    assert np.array_equal(add(x, x), x + x)
    there = add(cuda.to_device(x), 1)
    assert isinstance(there, cuda.DeviceNDArray)
    assert np.array_equal(there.copy_to_host(), x + np.float32(1))


def test_the_result_is_where_the_arguments_are():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert type(add(x, x)) is np.ndarray
    assert type(add([1.5, 2], (3, 4))) is np.ndarray
    assert type(add(np.float32(1), 2)) is np.float32
    assert type(add(np.array(1.5), 2)) is np.float64
    mapped = cuda.mapped_array(3, np.float32)
    mapped[:] = 1
    for result in (add(cuda.to_device(x), x), add(x, mapped), add(1, cuda.to_device(x[0, 0]))):
        assert isinstance(result, cuda.DeviceNDArray)
    point = namedtuple("point", "x y z")(1.0, 2.0, 3.0)
    assert np.array_equal(add(point, point), [2, 4, 6])


def test_results_keep_fortran_order_where_all_arguments_have_it():
    x = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    assert add(x, 1).flags.f_contiguous
    assert add(cuda.to_device(x), x).is_f_contiguous()
    assert add(x, np.ascontiguousarray(x)).flags.c_contiguous


@pytest.mark.parametrize("dtype", ["b1", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_dtypes_without_signatures(dtype):
    x = np.arange(5).astype(dtype)
    assert np.array_equal(any_sum(x, x[::-1]), x.astype(complex) + x[::-1] * (1 + 0j))


def test_dates_and_spans_of_time():
    later = cuda.vectorize(lambda day, span: day + span)
    days = np.array(["2020-02-28", "2021-02-28"], "M8[D]")
    assert np.array_equal(later(days, np.timedelta64(1, "D")), days + np.timedelta64(1, "D"))


def test_fields_of_packed_records_are_read_and_written():
    table = np.zeros(9, [("flag", "i1"), ("x", "f8")])
    table["x"] = np.arange(9)
    there = cuda.to_device(table)
    assert np.array_equal(add(table["x"], 1), np.arange(9) + 1.0)
    add(table["x"], 1, out=table["x"])
    add(there["x"], 1, out=there["x"])
    assert np.array_equal(there.copy_to_host(), table)
    assert np.array_equal(table["x"], np.arange(9) + 1.0)
    assert not table["flag"].any()


def test_swapped_bytes_and_read_only_arguments():
    x = np.arange(5, dtype=">f8")
    assert np.array_equal(add(x, np.broadcast_to(x[1], 5)), np.arange(5) + 1.0)


# ---- out= ---------------------------------------------------------------------------------------


def test_out_on_host_and_device():
    x = np.arange(10, dtype=np.float32)
    there = cuda.to_device(x)
    for out in (np.empty(10, np.float32), cuda.device_array(10, np.float32)):
        for arg in (x, there):
            assert add(arg, 1, out=out) is out
            assert add(arg, 2, out=(out,)) is out
            assert add(arg, 3, out) is out
            assert np.array_equal(np.asarray(out), x + 3)
    wide = np.empty((3, 10), np.float64)
    assert np.array_equal(add(x, 1, out=wide), np.broadcast_to(x + 1, (3, 10)))


def test_out_that_overlaps_gets_what_it_would_without():
    x = np.arange(2000.0)
    there = cuda.to_device(x)
    assert np.array_equal(add(x[:-1], 1, out=x[1:]), np.arange(1.0, 2000))
    add(there[:-1], 1, out=there[1:])
    assert np.array_equal(there.copy_to_host(), x)
    add(x, x[::-1], out=x)
    assert np.array_equal(x[1:], np.full(1999, 1999.0) + np.r_[np.zeros(1998), 0])


def test_bad_out_is_refused_and_nothing_is_written():
    x = np.arange(3, dtype=np.float32)
    out = np.zeros(3, np.int32)
    with pytest.raises(TypeError, match="out has dtype int32"):
        add(x, x, out=out)
    with pytest.raises(ShapeMismatch, match="expected"):
        add(x, x, out=np.zeros((3, 1), np.float32))
    with pytest.raises(ShapeMismatch):
        add(x, x, out=np.zeros(4, np.float32))
    with pytest.raises(TypeError, match="expected an array"):
        add(x, x, out=[0, 0, 0])
    with pytest.raises(ValueError, match="positional and keyword"):
        add(x, x, out, out=out)
    with pytest.raises(ValueError, match="tuple of 1"):
        add(x, x, out=(out, out))
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        add(x, x, out=frozen)
    assert not out.any()
    assert not frozen.any()


# ---- which signature ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "dtype"),
    [
        ((np.zeros(2, np.int32), np.zeros(2, np.int32)), np.int32),
        ((np.zeros(2, np.float32), 2.5), np.float32),
        ((np.zeros(2, np.int32), 2.5), np.float64),
        ((np.zeros(2, np.int16), True), np.int32),
        ((np.zeros(2, np.int64), 1), np.float64),
        ((np.zeros(2, np.int16), np.zeros(2, np.float32)), np.float32),
        ((np.float32(1), 2), np.float32),
        ((np.zeros(2, np.float32), np.float64(1)), np.float64),
        ((1, 2), np.float64),
        ((1.0, 2), np.float64),
    ],
)
def test_the_first_signature_that_is_safe(args, dtype):
    assert add(*args).dtype == dtype
    assert np.array_equal(add(*args), np.add(*args).astype(dtype))


def test_numpy_scalars_give_way_where_nothing_else_fits():
    only = cuda.vectorize("float32(float32, float32)")(lambda a, b: a * b)
    assert only(np.ones(2, np.float32), np.float64(2)).dtype == np.float32
    with pytest.raises(TypeError, match=r"no matching signature for \(float32, float64\)"):
        only(np.ones(2, np.float32), np.ones(2))
    with pytest.raises(TypeError, match="ff->f"):
        only(1j, 2)
    with pytest.raises(OverflowError):
        cuda.vectorize(["uint8(uint8, uint8)"])(lambda a, b: a)(np.ones(2, np.uint8), 256)


@pytest.mark.parametrize(
    "signature",
    ["float32(int32)", numba.float32(numba.int32), (numba.int32,), [(np.int32,)], ["(int32,)"]],
    ids=str,
)
def test_forms_of_signatures(signature):
    half = cuda.vectorize(signature)(lambda x: np.float32(x) / np.float32(2))
    assert half(np.arange(3, dtype=np.int32)).dtype == np.float32
    assert half.types == ["i->f"]


def test_the_result_is_converted_to_what_the_signature_says():
    to_int = cuda.vectorize("int16(float64)")(lambda x: x * 2)
    assert list(to_int(np.array([1.6, -1.6]))) == [3, -3]
    assert to_int(np.array([1.6])).dtype == np.int16
    is_big = cuda.vectorize("boolean(float64)")(lambda x: x > 2)
    assert list(is_big([1, 3])) == [False, True]


def test_what_a_ufunc_tells_of_itself():
    assert (add.__name__, add.__doc__, add.__module__) == ("add", "The sum.", __name__)
    assert (add.nin, add.nout, add.nargs, add.identity) == (2, 1, 3, None)
    assert add.types == ["ii->i", "ff->f", "dd->d"]
    assert repr(add) == "<cuda ufunc add>"


# ---- functions ----------------------------------------------------------------------------------


@cuda.jit(device=True)
def power(x, y):
    return x**y


def test_device_functions_and_math_are_called_from_within():
    raised = cuda.vectorize(["float64(float64, float64)"])(lambda x, y: power(x, y) + math.sin(y))
    x = np.linspace(0.5, 2, 50)
    assert np.allclose(raised(x, x[::-1]), x ** x[::-1] + np.sin(x[::-1]))
    assert np.allclose(cuda.vectorize(power)(x, 2.0), x**2)


def test_kernels_call_a_ufunc_with_numbers():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = add(x[i], 1)

    out = np.zeros(5)
    kernel[1, 32](np.arange(5.0), out)
    assert list(out) == [1, 2, 3, 4, 5]


def test_functions_that_cannot_be_ufuncs():
    with pytest.raises(CompileError, match="nothing_such"):
        cuda.vectorize(["float64(float64)"])(lambda x: x.nothing_such)
    with pytest.raises(TypeError, match="is no number"):
        cuda.vectorize(["float64(float64)"])(lambda x: (x, x))
    with pytest.raises(TypeError, match="takes 2 arguments"):
        cuda.vectorize(["float64(float64)"])(lambda x, y: x)
    with pytest.raises(TypeError, match="is no number"):
        cuda.vectorize(["float64(float64[:])"])(lambda x: x[0])
    with pytest.raises(TypeError, match="by position"):
        cuda.vectorize(lambda *x: x)
    with pytest.raises(TypeError, match="takes a Python function"):
        cuda.vectorize([])(3)


# ---- options and calls --------------------------------------------------------------------------


def test_options():
    def same(x):
        return x

    for error, options in (
        (TypeError, {"nonexistent": 1}),
        (KeyError, {"nonexistent": 1}),
        (TypeError, {"nopython": False}),
        (ValueError, {"target": "cpu"}),
        (ValueError, {"identity": 7}),
    ):
        with pytest.raises(error):
            cuda.vectorize(["f8(f8)"], **options)(same)
    with pytest.warns(RuntimeWarning, match="redundant"):
        cuda.vectorize(["f8(f8)"], nopython=True)(same)
    assert repr(cuda.vectorize(target="roc")(same)).startswith("<roc ufunc")


def test_kernels_are_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path))

    def kept():
        return {path for path in tmp_path.rglob("*") if path.is_file()}

    def called(factor):
        scale = cuda.vectorize(["f8(f8, f8)"], cache=True)(lambda x, y: x * factor + y)
        rows = cuda.guvectorize(["(f8[:], f8[:])"], "(n)->(n)", cache=True)(_twice)
        return scale(np.arange(4.0), 1), scale.reduce(np.ones(3)), rows(np.ones(9))

    def _twice(x, out):
        for i in range(x.shape[0]):
            out[i] = x[i] * 2

    first = called(3)
    files = kept()
    assert files
    for one, other in zip(first, called(3), strict=True):
        assert np.array_equal(one, other)
    assert kept() == files
    assert list(called(5)[0]) == [1, 6, 11, 16]
    assert kept() > files


def test_words_of_roc():
    @roc.vectorize(["int64(int64)"])
    def group(x):
        return x + 0 * roc.get_local_id(0)

    assert list(group(np.arange(3))) == [0, 1, 2]


def test_bad_calls():
    x = np.ones(3)
    with pytest.raises(TypeError, match="takes 2 arguments"):
        add(x)
    with pytest.raises(TypeError, match="unexpected keyword"):
        add(x, x, where=True)
    with pytest.raises(ShapeMismatch, match="broadcast together"):
        add(x, np.ones(4))
    with pytest.raises(TypeError, match="dtype <U1"):
        add("a", "b")
    with pytest.raises(TypeError, match="dtype object"):
        add(x, [None, 1, 2])
    with pytest.raises(ValueError, match="stream"):
        add(x, x, stream="fast")


@pytest.mark.parametrize("most", [1, 7, 100, 10_000])
def test_max_blocksize_bounds_the_block(most):
    width = cuda.vectorize(lambda x: x * 0 + cuda.blockDim.x * cuda.blockDim.y)
    width.max_blocksize = most
    assert width(np.zeros(300, np.int64)).max() == min(most, 256)
    assert width(np.zeros((30, 6), np.int64)[:, ::2]).max() <= most
    with pytest.raises(ValueError, match="max_blocksize 0: expected a whole number from 1"):
        width.max_blocksize = 0


def test_a_stream_orders_the_work(hold_up):
    stream = cuda.stream()
    x = cuda.to_device(np.arange(1000.0), stream)
    with hold_up(stream):
        y = add(add(x, 1, stream=stream), x, stream=stream)
        assert not stream.query()
    assert np.array_equal(y.copy_to_host(stream=stream), 2 * np.arange(1000.0) + 1)


def test_a_failing_element_is_an_exception():
    def checked(x):
        if x < 0:
            raise ValueError("negative")
        return x

    with pytest.raises(ValueError, match="negative"):
        cuda.vectorize(checked)(np.array([1.0, -1.0]))


def test_host_arrays_go_by_copies_where_kernels_cannot_use_them(by_copies):
    # As on a GPU, and in the adversarial mode: all that a kernel works on is copied.
    with by_copies():
        x = np.arange(60.0).reshape(3, 20)
        out = np.full((3, 40), -1.0)
        add(x[:, ::-1], x[:1], out=out[:, ::2])
    assert np.array_equal(out[:, ::2], x[:, ::-1] + x[:1])
    assert (out[:, 1::2] == -1).all()
    assert np.array_equal(x, np.arange(60.0).reshape(3, 20))
    assert np.array_equal(add(x, x), x + x)


# ---- reduce -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100, 1025, 8193, 70000])
def test_reduce(size):
    x = np.arange(size, dtype=np.int32) % 1000
    stream = cuda.stream()
    assert add.reduce(x) == x.sum()
    assert add.reduce(x[::-1]).dtype == np.int32
    there = cuda.to_device(x)
    assert add.reduce(there, stream=stream) == x.sum()
    assert np.array_equal(there.copy_to_host(), x)


@pytest.mark.parametrize("size", [5, 16, 40, 8200, 50000])
def test_reduce_keeps_the_order_of_elements(size):
    # Composition of the functions x -> a * x + b, as complex numbers: associative, not commutative.
    compose = cuda.vectorize(lambda f, g: complex(g.real * f.real, g.real * f.imag + g.imag))
    random = np.random.default_rng(size)
    x = random.choice([-1.0, 1.0], 2 * size) + 1j * random.integers(-9, 9, 2 * size)
    for there, here in [(x, x), (cuda.to_device(x)[::-2], x[::-2])]:
        a, b = 1, 0
        for each in here:
            a, b = each.real * a, each.real * b + each.imag
        assert compose.reduce(there) == complex(a, b)


def test_reduce_converts_each_step_to_the_types_of_the_signature():
    mean = cuda.vectorize(["int16(float32, float32)"])(lambda a, b: a * 0.5 + b * 0.5)
    assert mean.reduce(np.array([7, 4, 2], np.int16)) == 3


def test_reduce_widens_where_the_function_does_and_knows_its_identity():
    total = cuda.vectorize(identity=0)(lambda a, b: a + b)
    x = np.full(301, 2**30, np.int32)
    assert total.reduce(x) == 301 * 2**30
    assert total.reduce(cuda.to_device(x)).dtype == np.int64
    assert total.reduce(x[:0]) == 0
    with pytest.raises(TypeError, match="empty"):
        add.reduce(x[:0])
    with pytest.raises(TypeError, match="one axis"):
        add.reduce(np.ones((2, 2)))
    with pytest.raises(TypeError, match="binary"):
        scaled.reduce(x)


# ---- under Numba's names ------------------------------------------------------------------------


def test_numbas_own_decorators_answer_after_install():
    haulage.install()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tripled = numba.vectorize(["f8(f8)"], target="cuda")(lambda x: 3 * x)
            total = numba.guvectorize(["(f8[:], f8[:])"], "(n)->()", target="cuda")(_sum)
    finally:
        haulage.uninstall()
    assert list(tripled(cuda.to_device(np.arange(3.0))).copy_to_host()) == [0, 3, 6]
    assert list(total(np.ones((2, 5)))) == [5, 5]
    assert CUDA.name in repr(tripled)


def _sum(x, out):
    out[0] = 0
    for each in x:
        out[0] += each


def test_arrays_of_two_devices_are_refused():
    if len(haulage.devices()) < 2:
        pytest.skip("there is one device")
    one, other = haulage.devices()[:2]
    with haulage.use(one):
        x = cuda.to_device(np.ones(3))
    with haulage.use(other):
        y = cuda.to_device(np.ones(3))
    with pytest.raises(DeviceMismatch):
        add(x, y)
