"""Arrays of a device whose memory the host cannot address, as a GPU's, on the double of one."""

import numpy as np
import pytest

import haulage
from doubles.far import FAR
from haulage import cuda
from haulage.errors import DeviceError, OutOfMemory

pytestmark = pytest.mark.usefixtures("far")


def described(pointer, count):
    return {"version": 3, "shape": (count,), "typestr": "<f8", "data": (pointer, False)}


def test_the_device_is_found_by_name_only_while_it_is_registered(far):
    assert far in haulage.devices()
    with haulage.use("far:0") as found:
        assert found is far


def test_device_memory_has_no_address_of_the_host():
    array = cuda.to_device(np.arange(4.0))
    assert array.block.host_ptr == 0
    assert array.device_pointer >= FAR
    assert not hasattr(array, "__array_interface__")


@pytest.mark.parametrize("kind", ["mapped", "pinned"])
def test_host_memory_has_two_addresses(kind, far):
    array = getattr(cuda, f"{kind}_array")(4)
    block = haulage.runtime.buffers.pinned_memory.block_of(array)
    assert block.host_ptr == array.ctypes.data
    assert block.device_ptr == array.ctypes.data + FAR


def test_numpy_gets_no_view_of_device_memory_but_a_copy():
    array = cuda.to_device(np.arange(4.0))
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(array)
    host = np.from_dlpack(array, device="cpu", copy=True)
    host[0] = 9
    assert array.copy_to_host().tolist() == [0, 1, 2, 3]


def test_an_address_of_the_host_is_no_memory_of_the_device():
    host = np.arange(4.0)
    with pytest.raises(DeviceError, match="no memory"):
        cuda.from_cuda_array_interface(described(host.ctypes.data, 4), owner=host)


def test_an_array_past_its_memory_is_refused():
    array = cuda.to_device(np.arange(4.0))
    end = array.block.device_ptr + (1 << 33)  # more than it reserves for a device of 1 GiB
    with pytest.raises(DeviceError, match="no memory"):
        cuda.from_cuda_array_interface(described(end, 4), owner=array)


def test_the_device_has_the_memory_that_it_says(far):
    free, total = cuda.current_context().get_memory_info()
    assert total == far.properties.total_memory
    with pytest.raises(OutOfMemory):
        cuda.device_array(total + 1, np.uint8)
    assert cuda.current_context().get_memory_info().free >= min(free, total - (1 << 20))


def test_a_kernel_works_on_far_memory_and_on_copies_of_host_arrays():
    @cuda.jit
    def double(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= 2

    there, host = cuda.to_device(np.arange(8.0)), np.arange(8.0)
    double[1, 8](there)
    double[1, 8](host)
    assert np.array_equal(there.copy_to_host(), 2 * np.arange(8.0))
    assert np.array_equal(host, 2 * np.arange(8.0))
