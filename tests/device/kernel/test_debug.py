"""Kernels with debug=True: failures are the launch's, with thread and block.

PYTEST_DONT_REWRITE: an `assert` in a kernel is to stay as it is written.
"""

import pickle

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import KernelError, thread_error

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


WORDS = pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
DEBUG = {"debug": True, "opt": False}


def divide(x, y):
    i = cuda.grid(1)
    y[i] = 10 // x[i]


@WORDS
@pytest.mark.parametrize("stream", [False, True])
def test_division_by_zero_fails_the_launch(words, way, stream):
    x, y = np.ones(64, np.int64), cuda.to_device(np.zeros(64, np.int64))
    x[37] = 0
    with pytest.raises(ZeroDivisionError, match=r"divide.*test_debug\.py, line \d+") as failed:
        words.jit(**DEBUG)(divide)[2, 32, cuda.stream() if stream else 0](cuda.to_device(x), y)
    assert isinstance(failed.value, KernelError)
    assert "tid=[5, 0, 0] ctaid=[1, 0, 0]" in str(failed.value)
    cuda.synchronize()
    # The other threads went on.
    np.testing.assert_array_equal(y.copy_to_host(), np.where(x == 0, 0, 10))


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("operation", [lambda a, b: a / b, lambda a, b: a // b, lambda a, b: a % b])
def test_division_by_zero_is_an_error_in_debug_only(dtype, operation, way):
    inner = cuda.jit(device=True, **DEBUG)(operation)
    plain = cuda.jit(device=True)(operation)

    @cuda.jit(**DEBUG)
    def strict(x, y):
        y[0] = inner(x[0], x[1])

    @cuda.jit
    def lenient(x, y):
        y[0] = plain(x[0], x[1])

    x, y = cuda.to_device(np.array([1, 0], dtype)), cuda.to_device(np.zeros(1))
    lenient[1, 1](x, y)
    cuda.synchronize()
    with pytest.raises(ZeroDivisionError, match="ctaid"):
        strict[1, 1](x, y)
    strict[1, 1](cuda.to_device(np.array([6, 3], dtype)), y)
    assert y[0] == operation(6, 3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_divide_by_zero_in_fast_debug_kernels_and_ints_do_not(dtype, way):
    @cuda.jit(debug=True, fastmath=True)
    def floats(x, y):
        x[0] = x[0] / y

    @cuda.jit(debug=True, fastmath=True)
    def ints(x, y):
        x[0] = x[0] // y

    @cuda.jit(debug=True, fastmath={"contract", "arcp"})
    def less_fast(x, y):
        x[0] = x[0] / y

    one = np.ones(1, dtype)
    floats[1, 1](one.copy(), dtype(0))
    for kernel, x, zero in ((ints, np.ones(1, np.int32), 0), (less_fast, one.copy(), dtype(0))):
        with pytest.raises(ZeroDivisionError):
            kernel[1, 1](x, zero)
        assert x[0] == 1


def test_thread_and_block_in_three_dimensions(way):
    @cuda.jit(**DEBUG)
    def kernel(x):
        place = cuda.threadIdx.x + 10 * cuda.threadIdx.y + 100 * cuda.threadIdx.z
        if place == 123 and cuda.blockIdx.x == 2 and cuda.blockIdx.y == 1 and cuda.blockIdx.z == 3:
            raise ValueError("on purpose", 5)
        x[0] = 1

    with pytest.raises(ValueError, match=r"raised ValueError\. In function 'kernel'") as failed:
        kernel[(3, 2, 4), (4, 3, 2)](cuda.to_device(np.zeros(1)))
    assert str(failed.value).endswith(", tid=[3, 2, 1] ctaid=[2, 1, 3]: on purpose, 5")


def test_the_first_of_several_failing_threads_is_named(way):
    @cuda.jit(**DEBUG)
    def kernel(x):
        i = cuda.grid(1)
        assert x[i] < 50, "too large"

    x = cuda.to_device(np.arange(128))
    for _ in range(3):
        with pytest.raises(AssertionError, match=r"tid=\[18, 0, 0\] ctaid=\[1, 0, 0\]: too large"):
            kernel[4, 32](x)
    kernel[1, 32](x)


def test_failures_in_functions_that_a_debug_kernel_calls(way):
    @cuda.jit(device=True)
    def check(value):
        if value == 3:
            raise IndexError("three")
        return value

    @cuda.jit(**DEBUG)
    def kernel(x):
        x[cuda.threadIdx.x] = check(cuda.threadIdx.x)

    with pytest.raises(IndexError, match=r"'check'.*tid=\[3, 0, 0\] ctaid=\[0, 0, 0\]: three"):
        kernel[1, 8](cuda.to_device(np.zeros(8)))


def test_a_failure_between_barriers():
    @cuda.jit(**DEBUG)
    def kernel(x):
        room = cuda.shared.array(32, np.int64)
        t = cuda.threadIdx.x
        room[t] = x[t]
        cuda.syncthreads()
        y = 10 // room[31 - t]
        x[t] = y

    x = np.arange(32)
    with pytest.raises(ZeroDivisionError, match=r"tid=\[31, 0, 0\]"):
        kernel[1, 32](cuda.to_device(x))


def test_without_debug_failures_wait_for_a_synchronise(device):
    @cuda.jit
    def kernel(x):
        if x[0] == 0:
            raise KeyError("plain words")

    kernel[1, 1](cuda.to_device(np.zeros(1)))
    with pytest.raises(KeyError) as failed:
        cuda.synchronize()
    assert isinstance(failed.value, KernelError)
    assert "plain words" in str(failed.value)
    assert "tid" not in str(failed.value)
    cuda.synchronize()


class MadeItsOwnWay(Exception):
    def __new__(cls, one, two):
        return super().__new__(cls)


class TakesTwo(Exception):
    def __init__(self, one, two):
        super().__init__(one)


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        (ZeroDivisionError, ZeroDivisionError),
        (KeyError, LookupError),
        (OSError, OSError),
        (UnicodeDecodeError, ValueError),
        (TakesTwo, TakesTwo),
        (MadeItsOwnWay, KernelError),
        (ExceptionGroup, KernelError),
        (SystemExit, KernelError),
        (KernelError, KernelError),
    ],
)
def test_what_a_thread_raised_is_of_its_class_too(raised, caught):
    for error in (
        thread_error(raised, "a message"),
        pickle.loads(pickle.dumps(thread_error(raised, "a message"))),
    ):
        assert isinstance(error, (caught, KernelError))
        assert isinstance(error, caught)
        assert isinstance(error, KernelError)
        assert not isinstance(error, SystemExit)
        assert str(error) == "a message"


def test_debug_kernels_use_host_arrays_and_overloads_as_others_do(way):
    kernel = cuda.jit("void(int64[:], int64[:])", **DEBUG)(divide)
    x, y = np.arange(1, 33), np.zeros(32, np.int64)
    kernel[1, 32](x, y)
    np.testing.assert_array_equal(y, 10 // x)
    assert kernel.hints == {"opt": False}
    with pytest.raises(ZeroDivisionError):
        kernel[1, 32](np.zeros(32, np.int64), y)


@cuda.jit(device=True)
def inner():
    raise ValueError("of a function")


@pytest.mark.parametrize("debug", [False, True])
def test_what_a_function_of_a_kernel_raises_is_told_as_what_it_is(way, debug):
    @cuda.jit(debug=debug, opt=not debug)
    def outer():
        inner()

    def launch_and_wait():
        outer[1, 1]()
        cuda.synchronize()

    with pytest.raises(ValueError, match="of a function"):
        launch_and_wait()
