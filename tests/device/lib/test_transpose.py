"""`transpose` of numba.cuda's module of kernels."""

import numpy as np
import pytest

from haulage import cuda
from haulage.cuda.kernels.transpose import transpose
from haulage.errors import ShapeMismatch

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

RECORD = np.dtype([("i", np.int32), ("j", np.float32, (3, 2))])


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.bool_, RECORD])
@pytest.mark.parametrize("shape", [(2, 3), (16, 17), (1, 5), (0, 4)])
def test_a_transpose_is_an_array_in_c_order(shape, dtype):
    x = np.zeros(shape, dtype)
    x.view(np.uint8).reshape(-1)[...] = np.arange(x.nbytes) % 2
    there = transpose(cuda.to_device(x))
    assert isinstance(there, cuda.DeviceNDArray)
    assert there.is_c_contiguous()
    np.testing.assert_array_equal(there.copy_to_host(), x.T)


def test_a_transpose_goes_where_it_is_wanted():
    x = np.arange(12.0).reshape(3, 4)
    strided = cuda.to_device(x)[::2, ::-1]
    on_device, on_host = cuda.device_array((4, 2)), np.empty((4, 2))
    assert transpose(strided, on_device) is on_device
    np.testing.assert_array_equal(on_device.copy_to_host(), x[::2, ::-1].T)
    assert transpose(strided, on_host) is on_host
    np.testing.assert_array_equal(on_host, x[::2, ::-1].T)
    np.testing.assert_array_equal(transpose(x).copy_to_host(), x.T)


def test_a_transpose_happens_in_the_stream_of_its_array():
    stream = cuda.stream()
    x = np.arange(600.0).reshape(20, 30)
    there = transpose(cuda.to_device(x, stream))
    assert there.stream == stream
    np.testing.assert_array_equal(there.copy_to_host(stream=stream), x.T)


@pytest.mark.parametrize(
    ("x", "out", "error"),
    [
        (np.zeros(3), None, TypeError),
        (np.zeros((2, 3)), np.zeros((2, 3)), ShapeMismatch),
        (np.zeros((2, 3)), np.zeros((3, 2), np.float32), TypeError),
        (np.zeros((2, 3)), [[0, 0]], TypeError),
    ],
)
def test_what_is_no_transpose_is_an_error(x, out, error):
    with pytest.raises(error):
        transpose(cuda.to_device(x), out)
