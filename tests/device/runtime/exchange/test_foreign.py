"""Arrays of other libraries as arguments of kernels and as sources of copies."""

import gc
import weakref

import numpy as np
import pytest

from haulage import cuda
from haulage.errors import CompileError, DeviceError, DeviceMismatch

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture
def on_host(device):
    """The device's memory is the host's, so that NumPy can look at it."""
    if not device.properties.host_memory_is_device_memory:
        pytest.skip(f"NumPy cannot address the memory of {device}")


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


class OnlyDLPack:
    """An array of a library that has DLPack and nothing else."""

    def __init__(self, array, place=None):
        self.array = array
        self.place = place

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.place or self.array.__dlpack_device__()


class BeforeOne(OnlyDLPack):
    """Such an array of a library from before DLPack 1.0."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__(stream=stream)


class OnlyCAI:
    """An array of a library that has the CUDA array interface and nothing else."""

    def __init__(self, array, readonly=False, stream=None):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "strides": array.strides,
            "data": (array.device_pointer, readonly),
            "version": 3,
            "stream": stream,
        }


@cuda.jit
def double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


@cuda.jit
def first_of_two(pair, out):
    out[0] = pair[0][1] + pair[1]


def test_a_kernel_takes_arrays_that_have_dlpack_only(on_host):
    host, there = numbers(5), cuda.to_device(numbers(5))
    double[1, 8](OnlyDLPack(host))
    assert np.array_equal(host, 2 * numbers(5))
    double[1, 8](BeforeOne(host))
    assert np.array_equal(host, 4 * numbers(5))
    double[1, 8](OnlyDLPack(there))
    assert np.array_equal(there.copy_to_host(), 2 * numbers(5))


def test_a_kernel_takes_such_arrays_in_tuples(on_host):
    out = cuda.to_device(np.zeros(1, np.float32))
    first_of_two[1, 1]((OnlyDLPack(numbers(3)), np.float32(10)), out)
    assert out[0] == 11


def test_a_kernel_refuses_tensors_of_other_devices(device):
    with pytest.raises(DeviceMismatch, match="device type 8:5"):
        double[1, 8](OnlyDLPack(numbers(5), place=(8, 5)))


def test_copies_take_arrays_that_have_dlpack_only():
    there = cuda.to_device(np.zeros((2, 5), np.float32))
    there[0].copy_to_device(OnlyDLPack(numbers(5)))
    there[1] = OnlyDLPack(numbers(5)[::-1])
    assert np.array_equal(there.copy_to_host(), [numbers(5), numbers(5)[::-1]])
    there[1] = OnlyDLPack(cuda.to_device(-numbers(5)))
    assert np.array_equal(there[1].copy_to_host(), -numbers(5))
    with pytest.raises(ValueError, match="shape"):
        there.copy_to_device(OnlyDLPack(numbers(3)))
    with pytest.raises(TypeError, match="dtype"):
        there[0].copy_to_device(OnlyDLPack(numbers(5, dtype=np.int64)))


def test_to_device_copies_tensors_of_the_host():
    host = numbers(5)
    there = cuda.to_device(OnlyDLPack(host))
    host[:] = 0
    assert there.dtype == np.float32
    assert np.array_equal(there.copy_to_host(), numbers(5))


def test_a_kernel_takes_arrays_that_have_the_cuda_array_interface_only():
    there = cuda.to_device(numbers(5))
    double[1, 8](OnlyCAI(there))
    double[1, 8](OnlyCAI(there[1::2]))
    assert np.array_equal(there.copy_to_host(), [0, 4, 4, 12, 8])
    out = cuda.to_device(np.zeros(1, np.float32))
    first_of_two[1, 1]((OnlyCAI(there), np.float32(1)), out)
    assert out[0] == 5


def test_a_kernel_cannot_write_to_an_array_that_says_it_is_read_only():
    there = cuda.to_device(numbers(5))
    with pytest.raises(CompileError):
        double[1, 8](OnlyCAI(there, readonly=True))
    assert np.array_equal(there.copy_to_host(), numbers(5))


def test_a_kernel_waits_for_the_stream_that_an_interface_names(hold_up):
    there, source = cuda.to_device(numbers(5)), cuda.to_device(numbers(5) + 10)
    theirs, ours = cuda.stream(), cuda.stream()
    with hold_up(theirs):
        there.copy_to_device(source, stream=theirs)
        double[1, 8, ours](OnlyCAI(there, stream=theirs.handle))
        assert not ours.query()
    ours.synchronize()
    assert np.array_equal(there.copy_to_host(), 2 * (numbers(5) + 10))


class Watched(np.ndarray):
    """A NumPy array that a weak reference can watch."""


def test_a_kernel_keeps_the_memory_of_its_arguments(on_host, hold_up):
    host = numbers(5).view(Watched)
    there = cuda.from_dlpack(host)
    owner = OnlyCAI(there)
    owner.host, alive = host, weakref.ref(host)
    stream = cuda.stream()
    with hold_up(stream):
        double[1, 8, stream](owner)
        del host, there, owner
        gc.collect()
        assert alive() is not None
    stream.synchronize()
    cuda.synchronize()
    gc.collect()
    assert alive() is None


def test_a_kernel_refuses_addresses_that_the_cpu_does_not_have(on_host):
    there = OnlyCAI(cuda.to_device(numbers(5)))
    there.__cuda_array_interface__["data"] = (0x7F0000000000, False)
    with pytest.raises(DeviceError, match="cannot reach 20 bytes at 0x7f0000000000"):
        double[1, 8](there)


def test_copies_take_arrays_that_have_the_cuda_array_interface_only():
    there = cuda.to_device(np.zeros(5, np.float32))
    there.copy_to_device(OnlyCAI(cuda.to_device(numbers(5))))
    assert np.array_equal(there.copy_to_host(), numbers(5))
    there[::2] = OnlyCAI(cuda.to_device(-numbers(3)))
    assert np.array_equal(there.copy_to_host(), [0, 1, -1, 3, -2])


def test_to_device_gives_arrays_that_are_on_the_device_back_uncopied():
    there = cuda.to_device(numbers(5))
    same = cuda.to_device(OnlyCAI(there))
    same[0] = 9
    assert there[0] == 9


def test_what_is_no_array_is_refused_as_before():
    class Other:
        pass

    with pytest.raises(ValueError, match="a kernel cannot take"):
        double[1, 8](Other())
