"""Kernels called as Python functions are: names, defaults, and what does not fit."""

import numpy as np
import pytest
from numba import carray, float64, typeof, types, void

from haulage import cuda, roc
from haulage.errors import LaunchError, LaunchTypeError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@pytest.fixture
def out():
    return cuda.to_device(np.zeros(4))


def store(out, first, second=20, third=0.5):
    out[0] = first
    out[1] = second
    out[2] = third


@pytest.fixture(params=[cuda, roc], ids=["cuda", "roc"])
def kernel(request):
    return request.param.jit(store)


@pytest.mark.parametrize(
    ("args", "named", "expected"),
    [
        ((1,), {}, [1, 20, 0.5]),
        ((1, 2), {}, [1, 2, 0.5]),
        ((1, 2, 3.0), {}, [1, 2, 3]),
        ((), {"first": 1}, [1, 20, 0.5]),
        ((1,), {"third": 4.5}, [1, 20, 4.5]),
        ((), {"third": 3, "second": 2, "first": 1}, [1, 2, 3]),
    ],
)
def test_arguments_by_name_and_defaults(kernel, out, args, named, expected):
    kernel[1, 1](out, *args, **named)
    np.testing.assert_array_equal(out.copy_to_host()[:3], expected)
    kernel.forall(1)(
        out=out, **dict(zip(("first", "second", "third"), args, strict=False)), **named
    )
    np.testing.assert_array_equal(out.copy_to_host()[:3], expected)


def test_names_compile_nothing_anew(kernel, out):
    kernel[1, 1](out, 1, 20, 0.5)
    kernel[1, 1](first=1, out=out)
    assert len(kernel.signatures) == 1


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((), {}, r"takes 4 arguments, got 1: missing 'first'"),
        ((1, 2, 3, 4), {}, "takes 4 arguments, got 5"),
        ((1,), {"fourth": 1, "fifth": 2}, "has no argument 'fourth', 'fifth'"),
        ((1,), {"first": 1}, "got twice 'first'"),
        ((1,), {"second": [1]}, r"'second'.*cannot take \[1\]"),
        ((1,), {"third": "x"}, "'third'.*cannot take 'x'"),
    ],
)
def test_arguments_that_do_not_fit_are_named(kernel, out, args, named, message):
    with pytest.raises(LaunchError, match=message) as refused:
        kernel[1, 1](out, *args, **named)
    assert isinstance(refused.value, TypeError)
    assert "store" in str(refused.value)
    np.testing.assert_array_equal(out.copy_to_host(), np.zeros(4))


def test_every_missing_argument_is_named(kernel):
    with pytest.raises(LaunchError, match="missing 'out', 'first'"):
        kernel[1, 1]()


def test_none_is_an_argument(out, way):
    @cuda.jit
    def optional(out, other=None):
        if other is None:
            out[0] = 1
        else:
            out[0] = other

    for given, expected in ((), 1), ((5,), 5), ((None,), 1):
        optional[1, 1](out, *given)
        assert out[0] == expected


def test_none_in_a_tuple_and_in_a_signature(out):
    @cuda.jit("void(float64[:], none)")
    def declared(out, other):
        out[0] = 1 if other is None else 2

    declared[1, 1](out, None)
    assert out[0] == 1
    with pytest.raises(LaunchTypeError, match="No matching definition"):
        declared[1, 1](out, 3)

    @cuda.jit
    def inside(out, both):
        out[1] = both[1] if both[0] is None else 2

    inside[1, 1](out, (None, 7))
    assert out[1] == 7


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.dtype("int16"), np.dtype("f4")])
def test_a_dtype_is_that_of_arrays_and_numbers_of_the_kernel(out, dtype):
    @cuda.jit
    def thirds(out, dtype):
        room = cuda.shared.array(4, dtype)
        room[cuda.threadIdx.x] = 5 / 3
        cuda.syncthreads()
        out[0] = room[cuda.threadIdx.x]

    thirds[1, 1](out, dtype)
    assert out[0] == np.array(5 / 3).astype(dtype)
    made = thirds.specialize(out, dtype)
    assert made.get_shared_mem_per_block() == 4 * np.dtype(dtype).itemsize
    declared = cuda.jit(void(float64[:], typeof(dtype)))(thirds.py_func)
    declared[1, 1](out, dtype)
    with pytest.raises(LaunchTypeError, match="No matching definition"):
        declared[1, 1](out, np.int64)


def test_a_pointer_is_the_address_of_elements(out):
    @cuda.jit(void(types.CPointer(float64), types.uint32))
    def double(pointer, n):
        i = cuda.grid(1)
        if i < n:
            whole = carray(pointer, n)
            pointer[i] += whole[i]

    out[:] = np.arange(4.0)
    double[1, 32](out.device_ctypes_pointer.value, 3)
    assert out.copy_to_host().tolist() == [0, 2, 4, 3]
    for wrong in (out, 1.5, None):
        with pytest.raises(LaunchTypeError, match="No matching definition"):
            double[1, 32](wrong, 3)


def test_keyword_only_and_positional_only_parameters(out):
    @cuda.jit
    def both(out, /, first, *, second=7):
        out[0] = first
        out[1] = second

    both[1, 1](out, 3)
    np.testing.assert_array_equal(out.copy_to_host()[:2], [3, 7])
    both[1, 1](out, first=4, second=5)
    np.testing.assert_array_equal(out.copy_to_host()[:2], [4, 5])
    with pytest.raises(LaunchError, match="takes 2 arguments, got 3 by position"):
        both[1, 1](out, 3, 7)
    with pytest.raises(LaunchError, match="has no argument 'out'"):
        both[1, 1](out=out, first=3)


def test_parameters_with_a_star(out):
    @cuda.jit
    def total(out, *rest):
        for number in rest:
            out[0] += number

    @cuda.jit
    def named(out, **rest):
        out[0] = 1

    @cuda.jit
    def count(out, *rest):
        out[0] = len(rest)

    total[1, 1](out, 1, 2, 3)
    assert out[0] == 6
    total[1, 1](out, 4)
    assert out[0] == 10
    count[1, 1](out, 1, 2.5)
    assert out[0] == 2
    count[1, 1](out)
    assert out[0] == 0
    with pytest.raises(LaunchError, match="keyword parameters have no place in a kernel"):
        named[1, 1](out)


def test_defaults_with_a_declared_signature(out):
    kernel = cuda.jit("void(float64[:], int64, int32, float64)")(store)
    kernel[1, 1](out, 1)
    kernel[1, 1](out, second=2, first=1)
    np.testing.assert_array_equal(out.copy_to_host()[:3], [1, 2, 0.5])
    with pytest.raises(LaunchError, match="only"):
        kernel[1, 1](out, 1, second=2.5)


def test_a_host_array_by_name_comes_back(kernel):
    host = np.zeros(3)
    kernel[1, 1](out=cuda.InOut(host), first=9)
    np.testing.assert_array_equal(host, [9, 20, 0.5])


def test_programs_for_numba_find_its_words_in_errors(kernel, out):
    with pytest.raises(ValueError, match="launch configuration was not specified"):
        kernel(out)
    with pytest.raises(
        ValueError, match=r"griddim must be .* 1, 2 or 3 integers, got \[1, 2, 3, 4\]"
    ):
        kernel[(1, 2, 3, 4), 1]
    with pytest.raises(
        ValueError, match=r"blockdim must be .* 1, 2 or 3 integers, got \[1, 2, 3, 4\]"
    ):
        kernel[1, (1, 2, 3, 4)]
    with pytest.raises(TypeError, match=r"griddim must be a sequence of integers, got \[2.0\]"):
        kernel[2.0, 1]
    with pytest.raises(TypeError, match=r"blockdim must be a sequence of integers, got \[2.0\]"):
        kernel[1, 2.0]
    with pytest.raises(ValueError, match="Can't create ForAll with negative task count"):
        kernel.forall(-1)
    with pytest.raises(TypeError, match="forall: tasks"):
        kernel.forall(2.5)
