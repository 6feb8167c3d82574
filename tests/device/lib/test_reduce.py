"""`cuda.reduce` compared with functools.reduce and NumPy."""

import functools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import haulage
from haulage import cuda, roc
from haulage.errors import CompileError

pytestmark = pytest.mark.ptx

add = cuda.reduce(lambda a, b: a + b)
multiply = cuda.Reduce(operator.mul)
largest = cuda.reduce(max)


@cuda.reduce
def exclusive_or(a, b):
    return a ^ b


@cuda.reduce
def longest(a, b):
    return a if abs(a) > abs(b) else b


INTS = [np.dtype(kind) for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]
FLOATS = [np.dtype(kind) for kind in ("f4", "f8", "c8", "c16")]

# One element, around a row of a block, around a block's share, and shares beyond the least.
SIZES = [1, 2, 3, 127, 255, 256, 257, 511, 513, 8191, 8192, 8193, 8449, 65_537, 300_007, 2_097_153]


@pytest.mark.parametrize("size", SIZES)
def test_every_element_takes_part_once(device, size):
    x = np.random.default_rng(size).integers(-1000, 1000, size)
    assert add(cuda.to_device(x)) == x.sum()
    assert largest(cuda.to_device(x - 2000), init=-5000) == x.max() - 2000


@pytest.mark.parametrize("size", [1, 300, 70_000])
def test_both_ways_of_the_cpu_device_agree(device, way, size):
    x = np.random.default_rng(size).integers(0, 2**63, size)
    assert exclusive_or(x) == np.bitwise_xor.reduce(x)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, np.dtype(bool)], ids=str)
def test_number_dtypes(device, dtype):
    x = np.random.default_rng(6).integers(0, 100, 1000).astype(dtype)
    result = add(x, init=1)
    assert type(result) is dtype.type
    with np.errstate(over="ignore"):
        assert result == x.sum(dtype=dtype) + dtype.type(1)


def test_each_step_is_converted_to_the_dtype_of_the_array(device):
    add_a_bit_more = cuda.reduce(lambda a, b: a + b + 0.5)
    # So many that a thread takes three of them, where the halves would add up.
    x = np.arange(3 * 65_536)
    assert add_a_bit_more(x) == x.sum()


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_array_as_functools_reduces_it(data):
    x = data.draw(hnp.arrays(data.draw(st.sampled_from(INTS)), st.integers(0, 700)))
    size = data.draw(st.none() | st.integers(0, x.size))
    step = data.draw(st.sampled_from([1, 2, -1, -3]))
    init = data.draw(st.integers(0, 127))
    on_device = data.draw(st.booleans())
    part = x[::step]
    size = None if size is None else min(size, part.size)
    given_array = cuda.to_device(x)[::step] if on_device else part
    expected = functools.reduce(lambda a, b: a ^ b, part[:size], x.dtype.type(init))
    result = exclusive_or(given_array, size=size, init=init)
    assert (result, result.dtype) == (expected, x.dtype)


def test_floats_are_summed_as_exactly_as_numpy_does(device):
    x = np.random.default_rng(7).standard_normal(200_000)
    np.testing.assert_allclose(add(x), x.sum(), rtol=1e-10)
    x32 = x.astype(np.float32)
    np.testing.assert_allclose(add(x32), x32.sum(), rtol=1e-4)
    assert np.isnan(add(np.append(x, np.nan)))


def test_init_always_takes_part(device):
    x = np.arange(1, 11)
    assert add(x, init=3) == 58
    assert multiply(x) == 0
    assert multiply(x, init=1) == 3_628_800
    assert largest(-x) == 0
    assert longest(np.array([3 + 4j, 1j]), init=-5.5) == -5.5


@pytest.mark.parametrize("size", [None, 0])
def test_no_elements_give_init(device, size):
    x = np.ones(0 if size is None else 5, np.float32)
    for array in (x, cuda.to_device(x)):
        result = add(array, size=size, init=2.5)
        assert (result, type(result)) == (2.5, np.float32)
    res = cuda.to_device(np.zeros(1, np.float32))
    assert add(cuda.to_device(x), size=size, res=res, init=2.5) is None
    assert list(res.copy_to_host()) == [2.5]


@pytest.mark.parametrize("elements", [10, 1000])
@pytest.mark.parametrize("on_device", [True, False])
def test_res_gets_the_result_in_its_first_element(device, elements, on_device):
    x = np.arange(elements, dtype=np.float64)
    res = cuda.to_device(np.full(3, -1.0))
    assert add(cuda.to_device(x) if on_device else x, res=res, init=2) is None
    assert list(res.copy_to_host()) == [x.sum() + 2, -1, -1]


def test_res_may_be_the_array_itself(device):
    x = np.arange(1000)
    d_x = cuda.to_device(x)
    add(d_x, res=d_x)
    np.testing.assert_array_equal(d_x.copy_to_host(), [x.sum(), *x[1:]])


def test_what_is_handed_over_is_unchanged(device):
    x = np.arange(1000.0)
    d_x = cuda.to_device(x)
    add(x, size=500)
    add(d_x, size=500)
    np.testing.assert_array_equal(x, np.arange(1000))
    np.testing.assert_array_equal(d_x.copy_to_host(), x)
    x.flags.writeable = False
    assert add(np.broadcast_to(x[3:4], 70)) == 210


def test_all_of_it_happens_in_the_stream(device, hold_up):
    x = np.arange(70_000)
    d_x, res = cuda.to_device(x), cuda.to_device(np.zeros(1, x.dtype))
    stream = cuda.stream()
    add(d_x, res=res, stream=stream)
    stream.synchronize()
    with hold_up(stream):
        add(d_x, res=res, init=1, stream=stream)
        add(d_x, size=0, res=d_x[5:], init=-1, stream=stream)
        assert not stream.query()
    assert res.copy_to_host(stream=stream)[0] == x.sum() + 1
    x[5] = -1
    assert add(x, stream=stream) == x.sum()
    assert add(d_x, stream=stream) == x.sum()


def test_its_memory_is_given_back_when_it_returns(device):
    def in_use():
        return haulage.memory.stats()[str(device)]["device"].in_use

    x = np.arange(70_000)
    d_x, res = cuda.to_device(x), cuda.to_device(np.zeros(1, x.dtype))
    before = in_use()
    for _ in range(3):
        add(x)
        add(d_x)
        add(d_x, res=res)
        cuda.synchronize()
        assert in_use() == before


def test_a_device_function_can_be_given(device):
    @cuda.jit(device=True)
    def smaller(a, b):
        return a if a < b else b

    assert cuda.reduce(smaller)(np.arange(5, 900), init=99) == 5


def test_a_function_compiled_by_numba_can_be_given(device):
    import numba

    @numba.njit
    def larger_square(a, b):
        return max(a * a, b * b)

    assert cuda.reduce(larger_square)(np.array([0.5, 1, -1])) == 1


def test_functions_that_differ_in_what_they_captured_are_different(device):
    def capped_at(limit):
        return cuda.reduce(lambda a, b: min(a + b, limit))

    x = np.full(1000, 3)
    assert [capped_at(limit)(x) for limit in (100, 2000, 9000)] == [100, 2000, 3000]


def test_times(device):
    latest = cuda.reduce(lambda a, b: a if a > b else b)
    days = np.datetime64("2020-01-01", "s") + np.arange(5000).astype("m8[D]")
    assert latest(days, init=days[0]) == days[-1]
    assert latest(days, init=np.datetime64("2055-05-05")) == np.datetime64("2055-05-05", "s")
    spans = np.arange(3000).astype("m8[ms]")
    assert add(spans) == spans.sum()
    assert add(spans, init=np.timedelta64(1, "m")) == spans.sum() + np.timedelta64(1, "m")
    assert np.isnat(add(np.append(spans, np.timedelta64("NaT", "ms"))))
    result = add(spans, size=0, init=5)
    assert (result, result.dtype) == (np.timedelta64(5, "ms"), spans.dtype)


def test_arrays_that_host_and_device_share(device, hold_up):
    stream = cuda.stream()
    mapped = cuda.mapped_array(70_000, np.int64)
    managed, res = cuda.managed_array(1000), cuda.managed_array(2)
    managed[:] = np.arange(1000)
    mapped[:], res[:] = 1, 0
    with hold_up(stream):
        set_to_index[274, 256, stream](mapped)
        add(managed, res=res, stream=stream)
        add(mapped[::2], res=cuda.device_array(1, np.int64), stream=stream)
        assert not stream.query()
    assert add(mapped, stream=stream) == np.arange(70_000).sum()
    stream.synchronize()
    assert res.tolist() == [499_500, 0]


class Foreign:
    """An array of a library that has the CUDA array interface."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.device_pointer, False),
            "strides": array.strides,
            "version": 3,
        }


def test_arrays_of_other_libraries_and_smart_arrays(device):
    x, res = np.arange(1000), cuda.to_device(np.zeros(1, int))
    assert add(Foreign(cuda.to_device(x)[::3])) == x[::3].sum()
    assert add(x, res=Foreign(res)) is None
    assert res[0] == x.sum()
    assert add(haulage.SmartArray(x)) == x.sum()
    assert add([3, 4]) == 7


@cuda.jit
def set_to_index(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = i


def test_reduce_and_its_repr():
    assert cuda.reduce is cuda.Reduce
    assert roc.reduce is roc.Reduce is cuda.Reduce
    assert repr(exclusive_or) == "<reduction by exclusive_or>"
    with pytest.raises(TypeError, match="expected a function of two elements"):
        cuda.reduce(5)


def test_arrays_that_cannot_be_reduced(device):
    for array in (np.ones((2, 3)), cuda.to_device(np.ones((2, 3))), 5):
        with pytest.raises(TypeError, match="only support 1D array"):
            add(array)
    for dtype in ("S3", [("a", "i4"), ("b", "f4")]):
        with pytest.raises(TypeError, match=r"an array of dtype .*; expected numbers or times"):
            add(np.zeros(3, dtype))
    with pytest.raises(CompileError, match=r"reduce\(three\)"):
        cuda.reduce(three)(np.ones(3))


def three(a, b, c):
    return a + b + c


@pytest.mark.parametrize("size", [-1, 11])
def test_a_size_beyond_the_array(device, size):
    for array in (np.ones(10), cuda.to_device(np.ones(10))):
        with pytest.raises(ValueError, match=rf"size={size}, the array has 10 elements"):
            add(array, size=size)


def test_a_size_that_is_no_int(device):
    with pytest.raises(TypeError, match=r"size=2\.5; expected an int"):
        add(np.ones(10), size=2.5)


@pytest.mark.parametrize(
    ("dtype", "init"),
    [
        (np.uint8, -1),
        (np.int8, 200),
        (np.int64, 0.5),
        (np.int64, np.nan),
        (bool, 2),
        (np.float64, "x"),
        (np.float32, 1j),
        (np.float32, None),
        ("M8[s]", 0),
        ("M8[D]", np.datetime64("2020-01-01T05:00")),
        ("m8[s]", 0.5),
        ("m8[s]", np.timedelta64(1, "ms")),
    ],
)
def test_an_init_that_is_no_value_of_the_dtype(device, dtype, init):
    with pytest.raises(ValueError, match=r"init=.* is no value of dtype"):
        add(np.ones(10, dtype), init=init)


def test_a_res_that_cannot_take_the_result(device):
    x = np.ones(10)
    for res in (np.zeros(1), cuda.to_device(np.zeros((1, 1))), 5):
        with pytest.raises(TypeError, match="expected a device array with one axis"):
            add(x, res=res)
    with pytest.raises(TypeError, match="dtype float32; expected the array's, float64"):
        add(x, res=cuda.to_device(np.zeros(1, np.float32)))
    with pytest.raises(ValueError, match="no elements"):
        add(x, res=cuda.device_array(0))


@pytest.mark.parametrize("words", ["cuda", "roc"])
def test_a_sum_in_shared_memory(device, way, words):
    """The example of Numba's documentation, in our own words: a block adds up its elements."""
    elements = 1024
    kernel = sum_of_cuda(elements) if words == "cuda" else sum_of_roc(elements)
    x = np.arange(2 * elements)
    d_x = cuda.to_device(x)
    kernel[2, elements](d_x)
    sums = d_x.copy_to_host()[::elements]
    np.testing.assert_array_equal(sums, x.reshape(2, elements).sum(axis=1))


def sum_of_cuda(elements):
    @cuda.jit
    def kernel(x):
        room = cuda.shared.array(elements, np.int32)
        t = cuda.threadIdx.x
        room[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        distance = 1
        while distance < cuda.blockDim.x:
            if t % (2 * distance) == 0:
                room[t] += room[t + distance]
            distance *= 2
            cuda.syncthreads()
        if t == 0:
            x[cuda.grid(1)] = room[0]

    return kernel


def sum_of_roc(elements):
    @roc.jit
    def kernel(x):
        room = roc.shared.array(elements, np.int32)
        t = roc.get_local_id(0)
        room[t] = x[roc.get_global_id(0)]
        roc.barrier()
        distance = 1
        while distance < roc.get_local_size(0):
            if t % (2 * distance) == 0:
                room[t] += room[t + distance]
            distance *= 2
            roc.barrier()
        if t == 0:
            x[roc.get_global_id(0)] = room[0]

    return kernel
