"""Calls of ufuncs that are repeated, which follow what the first one found out."""

import pickle

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.kernel.kernel import Kernel
from haulage.runtime.launch.placement import in_place
from haulage.runtime.process import runtime

pytestmark = pytest.mark.usefixtures("device")


@cuda.vectorize(["float32(float32, float32)", "float64(float64, float64)"])
def diff(x, y):
    return x - y


@cuda.guvectorize(["void(float64[:], float64[:], float64[:])"], "(n),(n)->(n)")
def backwards(x, y, out):
    for i in range(x.shape[0]):
        out[i] = x[x.shape[0] - 1 - i] - y[i]


def to_host(value):
    return value.copy_to_host() if isinstance(value, cuda.DeviceNDArray) else value


@pytest.fixture
def no_choice(device, monkeypatch):
    """Makes calls fail that find out anything about a kernel's arguments."""
    if not in_place(device):
        pytest.skip(f"{device} takes copies of the host's arrays, which are made at each call")

    def launch(*_):
        raise AssertionError("this call does not repeat another one")

    def forbid():
        monkeypatch.setattr(Kernel, "launch", launch)

    return forbid


SHAPES = [
    (lambda x: x, lambda y: y),
    (lambda x: x[::2], lambda y: y[:, None][::2]),
    (lambda x: x[::-1], lambda y: y),
    (lambda x: x.reshape(3, 4), lambda y: y.reshape(3, 4)),
    (lambda x: x.reshape(3, 4).T, lambda y: y.reshape(3, 4).T),
    (lambda x: x, lambda y: 2.5),
    (lambda x: np.float64(x[0]), lambda y: 3.5),
]


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_a_repeated_call_has_the_results_of_its_own_arguments(first, second, on_device, no_choice):
    for repetition in range(3):
        x, y = first(np.arange(12.0) * (1 + repetition)), second(np.arange(12.0) ** 2)
        expected = x - y
        if on_device and isinstance(x, np.ndarray):
            x = first(cuda.to_device(np.arange(12.0) * (1 + repetition)))
        result = diff(x, y)
        assert isinstance(result, cuda.DeviceNDArray) is isinstance(x, cuda.DeviceNDArray)
        np.testing.assert_array_equal(to_host(result), expected)
        assert type(to_host(result)) is type(expected)
        if not repetition and runtime.current.adversary_seed is None:
            no_choice()


@pytest.mark.parametrize("function", [diff, backwards])
def test_repetitions_take_outputs(function):
    x, y = np.arange(6.0), np.ones(6)
    expected = to_host(function(x, y))
    out, there = np.zeros(6), cuda.device_array(6)
    for _ in range(3):
        assert function(x, y, out=out) is out
        assert function(cuda.to_device(x), y, out=there) is there
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(there.copy_to_host(), expected)
        out[:] = 0
        there[:] = 0


@pytest.mark.parametrize("function", [diff, backwards])
@pytest.mark.parametrize("step", [1, 2])
def test_a_repetition_whose_output_overlaps_gets_what_it_would_without(function, step):
    for place in (np.array, cuda.to_device):
        apart, together = place(np.arange(20.0)), place(np.arange(20.0))
        y, free = np.ones(6), place(np.arange(20.0))
        inside = slice(0, 6 * step, step)
        moved = slice(2, 2 + 6 * step, step)
        function(apart[inside], y, out=free[moved])
        expected = to_host(free[moved])
        function(together[inside], y, out=together[moved])
        np.testing.assert_array_equal(to_host(together[moved]), expected)


def test_a_repetition_with_an_array_that_is_closed_is_refused():
    x, out = cuda.to_device(np.arange(6.0)), cuda.device_array(6)
    for _ in range(2):
        diff(x, 1.0, out=out)
    out.close()
    with pytest.raises(ValueError, match="given back by close"):
        diff(x, 1.0, out=out)


def test_what_changes_the_call_is_no_repetition():
    x = np.arange(4.0)
    assert list(diff(x, x[::-1])) == [-3, -1, 1, 3]
    assert diff(x.astype(np.float32), np.float32(1)).dtype == np.float32
    assert diff(x, 1).dtype == np.float64
    with pytest.raises(ValueError, match="broadcast"):
        diff(x, np.arange(3.0))
    out = np.zeros(4)
    diff(x, x, out=out)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        diff(x, x, out=out)
    unaligned = np.zeros(33, np.uint8)[1:].view(np.float64)
    unaligned[:] = x
    for _ in range(2):
        assert list(diff(unaligned, 1.0)) == [-1, 0, 1, 2]


def test_repetitions_are_in_the_stream_of_each_call():
    x = cuda.to_device(np.arange(5.0))
    for stream in (0, cuda.stream(), cuda.stream()):
        result = diff(x, x, stream=stream)
        assert result.stream == stream
        assert not result.copy_to_host(stream=stream).any()


def test_a_repetition_works_by_copies_in_the_adversarial_mode(device):
    if device.kind != "cpu":
        pytest.skip("GPUs have no adversarial mode")
    x = np.arange(5.0)
    for _ in range(2):
        assert list(diff(x, 1.0)) == [-1, 0, 1, 2, 3]
    with haulage.adversary(3):
        for _ in range(2):
            assert list(diff(x, 1.0)) == [-1, 0, 1, 2, 3]


def test_more_shapes_than_are_kept_are_no_matter():
    for _ in range(2):
        for size in range(1, 300):
            assert diff(np.ones(size), 1.0).shape == (size,)


def test_fewer_threads_hold_for_repetitions_too():
    @cuda.vectorize(["float64(float64)"])
    def block_of(x):
        return cuda.blockDim.x + x

    assert list(block_of(np.zeros(2))) == [256, 256]
    block_of.max_blocksize = 64
    assert list(block_of(np.zeros(2))) == [64, 64]
    assert list(block_of(np.zeros(2))) == [64, 64]


def test_a_signature_that_is_added_holds_for_repetitions():
    @cuda.vectorize(["float64(float64)"])
    def half(x):
        return x / 2

    assert half(np.arange(2, dtype=np.float32)).dtype == np.float64
    half.add("float32(float32)")
    assert half(np.arange(2, dtype=np.float32)).dtype == np.float32


def test_ufuncs_of_modules_are_pickled_by_name():
    for function in (diff, backwards):
        assert pickle.loads(pickle.dumps(function)) is function


def test_other_ufuncs_are_pickled_with_their_code():
    @cuda.vectorize(["float64(float64, float64)"], identity=1)
    def product(x, y):
        return x * y

    @cuda.guvectorize("(n)->()")
    def first(x, out):
        out[0] = x[0]

    product.max_blocksize = 64
    for _ in range(2):
        product, first = pickle.loads(pickle.dumps((product, first)))
    assert product.types == ["dd->d"]
    assert product.max_blocksize == 64
    assert product.reduce(np.arange(0.0)) == 1
    assert product.reduce(np.arange(1.0, 6)) == 120
    assert first(np.array([[4.0, 5.0]]), out=np.zeros(1)) == [4]
