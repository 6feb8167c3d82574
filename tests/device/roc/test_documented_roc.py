"""What Numba's page on the memory of ROC devices promises, where it differs from the CUDA pages.

The promises that both make are in `test_documented_cuda.py`, which runs in both vocabularies.
"""

import importlib

import numpy as np
import pytest

import haulage
from haulage import roc

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@roc.jit
def double(a):
    i = roc.get_global_id(0)
    if i < a.size:
        a[i] *= 2


@roc.jit
def add(a, b, out):
    i = roc.get_global_id(0)
    if i < out.size:
        out[i] = a[i] + b[i]


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


# ---- data transfer ------------------------------------------------------------------------------


def test_read_only_arrays_need_not_be_transferred_back():
    """Host arrays come back after each kernel; to_device controls the transfer by hand."""
    host, out = numbers(64), np.zeros(64, np.float32)
    there = roc.to_device(host)
    add[1, 64](there, host, out)
    np.testing.assert_array_equal(out, numbers(64) * 2)
    np.testing.assert_array_equal(host, numbers(64))


def test_to_device_has_the_documented_arguments(device):
    """roc.to_device(obj, stream=None, context=None, copy=True, to=None), in this order."""
    there = roc.to_device(numbers(4), None, device, True, None)
    assert there.device is device
    assert roc.to_device(numbers(4), None, None, True, there) is there
    room = roc.to_device(numbers(3), copy=False)
    assert (room.shape, room.dtype) == ((3,), np.float32)
    stream = roc.stream()
    there = roc.to_device(numbers(4), stream)
    np.testing.assert_array_equal(there.copy_to_host(), numbers(4))


def test_device_array_has_the_documented_arguments():
    """roc.device_array(shape, dtype, strides, order) and device_array_like(ary)."""
    made = roc.device_array((3, 4), np.int16, None, "F")
    assert made.strides == (2, 6)
    assert roc.device_array(3).dtype == np.float64
    assert roc.device_array_like(made).strides == (2, 6)


def test_copies_take_stream_none():
    """Where numba.cuda has stream=0, numba.roc has stream=None: the copy is then synchronous."""
    there = roc.device_array(10, np.float32)
    there.copy_to_device(numbers(10), stream=None)
    target = np.zeros(10, np.float32)
    assert there.copy_to_host(target, stream=None) is target
    np.testing.assert_array_equal(target, numbers(10))


def test_the_documented_classes_are_those_of_arrays_and_streams():
    """numba.roc.hsadrv.devicearray.DeviceNDArray and numba.roc.hsadrv.driver.Stream."""
    devicearray = importlib.import_module("haulage.roc.hsadrv.devicearray")
    driver = importlib.import_module("haulage.roc.hsadrv.driver")
    there = roc.to_device(numbers(6))
    assert isinstance(there, devicearray.DeviceNDArray)
    assert isinstance(roc.stream(), driver.Stream)
    assert there.is_c_contiguous()
    assert there.is_f_contiguous()
    assert there.reshape(2, 3).ravel().shape == (6,)


# ---- data registration --------------------------------------------------------------------------


def test_register_in_a_with_deregisters_at_its_end(hold_up):
    """`with roc.register(a, b):` registers both arrays, and deregisters them by itself."""
    array_a, array_b = np.arange(10), np.arange(10)
    stream = roc.stream()
    there = roc.to_device(np.full(10, 7))
    with roc.register(array_a, array_b):
        double[1, 32](array_a)
        with hold_up(stream):
            there.copy_to_host(array_b, stream=stream)
            assert not stream.query()
    np.testing.assert_array_equal(array_a, np.arange(10) * 2)
    np.testing.assert_array_equal(array_b, np.full(10, 7))
    with pytest.raises(ValueError, match="not pinned"):
        roc.deregister(array_a)


def test_register_holds_until_deregister():
    """register(*arrays) as a function registers every array; deregister(*arrays) undoes that."""
    arrays = [np.arange(10), np.arange(20), np.arange(30)]
    roc.register(*arrays)
    try:
        for array in arrays:
            with pytest.raises(ValueError, match="pinned already"):
                roc.register(array)
    finally:
        roc.deregister(*arrays)
    with roc.register(*arrays):
        pass


def test_what_is_no_array_is_not_registered():
    """register and deregister take NumPy arrays; for something else they raise a TypeError."""
    host = np.arange(10)
    with pytest.raises(TypeError, match="list"):
        roc.register(host, [1, 2])
    with roc.register(host), pytest.raises(TypeError, match="list"):
        roc.deregister([1, 2])


# ---- shared memory and barriers -----------------------------------------------------------------


@roc.jit
def reverse_groups_local(x):
    room = roc.shared.array(16, np.int32)
    t = roc.get_local_id(0)
    i = roc.get_global_id(0)
    room[t] = x[i]
    roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
    x[i] = room[15 - t]


@roc.jit
def reverse_groups_global(x, scratch):
    i = roc.get_global_id(0)
    scratch[i] = x[i]
    roc.barrier(roc.CLK_GLOBAL_MEM_FENCE)
    x[i] = scratch[roc.get_group_id(0) * 16 + 15 - roc.get_local_id(0)]


@roc.jit
def reverse_groups_by_number(x):
    room = roc.shared.array(shape=(16,), dtype=np.int32)
    t = roc.get_local_id(0)
    i = roc.get_global_id(0)
    room[t] = x[i]
    roc.barrier(1)
    mirrored = room[15 - t]
    roc.barrier()
    room[t] = mirrored
    x[i] = room[t]


def reversed_groups():
    return numbers(4, 16, dtype=np.int32)[:, ::-1].ravel()


def test_each_group_has_its_shared_array():
    """shared.array is one array for all work-items of a group; a local barrier makes it seen."""
    there = roc.to_device(numbers(64, dtype=np.int32))
    reverse_groups_local[4, 16](there)
    np.testing.assert_array_equal(there.copy_to_host(), reversed_groups())


def test_a_global_barrier_makes_global_memory_seen_in_the_group():
    """barrier(CLK_GLOBAL_MEM_FENCE) orders the group's accesses to global memory."""
    there = roc.to_device(numbers(64, dtype=np.int32))
    reverse_groups_global[4, 16](there, roc.device_array(64, np.int32))
    np.testing.assert_array_equal(there.copy_to_host(), reversed_groups())


def test_barriers_take_the_number_or_nothing():
    """Programs write barrier(1) and barrier(), too; shared.array takes a tuple."""
    there = roc.to_device(numbers(64, dtype=np.int32))
    reverse_groups_by_number[4, 16](there)
    np.testing.assert_array_equal(there.copy_to_host(), reversed_groups())
    assert (roc.CLK_LOCAL_MEM_FENCE, roc.CLK_GLOBAL_MEM_FENCE) == (0, 1)


@roc.jit
def reverse_wavefronts(x):
    room = roc.shared.array(128, np.int32)
    t, i = roc.get_local_id(0), roc.get_global_id(0)
    room[t] = x[i]
    roc.wavebarrier()
    x[i] = room[t ^ 63]


def test_a_wavebarrier_synchronises_a_wavefront():
    """wavebarrier is an execution barrier across a wavefront."""
    there = roc.to_device(numbers(4, 64, dtype=np.int32).ravel())
    reverse_wavefronts[2, 128](there)
    reversed_rows = numbers(4, 64, dtype=np.int32)[:, ::-1].ravel()
    np.testing.assert_array_equal(there.copy_to_host(), reversed_rows)


def test_a_kernel_returns_nothing():
    """A signature of a kernel with a result is refused."""

    def one(a):
        return 1

    with pytest.raises(TypeError, match="void"):
        roc.jit("int32(int32[:])")(one)[1, 1](roc.to_device(numbers(4, dtype=np.int32)))


# ---- memory of the host -------------------------------------------------------------------------


@pytest.mark.parametrize("make", ["coarsegrain_array", "finegrain_array"])
def test_host_arrays_that_the_device_reaches(make):
    """coarsegrain_array and finegrain_array (shape, dtype, strides, order) are NumPy arrays."""
    array = getattr(roc, make)((64,), np.float32, None, "C")
    assert isinstance(array, np.ndarray)
    array[...] = numbers(64)
    double[1, 64](array)
    roc.synchronize()
    np.testing.assert_array_equal(array, numbers(64) * 2)
    of_columns = getattr(roc, make)((3, 4), np.int16, order="F")
    assert of_columns.strides == (2, 6)
    with_gaps = getattr(roc, make)((3, 4), np.int16, strides=(16, 4))
    assert with_gaps.strides == (16, 4)


def test_agents_are_the_devices(device):
    """roc.agents lists them."""
    assert device in list(roc.agents)
    assert len(roc.agents) == len([d for d in haulage.devices() if d.kind == device.kind])
    assert roc.is_available() is True


def test_the_context_leads_to_the_agent_and_its_wavefronts(device):
    """Programs take the size of wavefronts from roc.get_context().agent."""
    assert roc.get_context().agent is device

    @roc.jit
    def lanes_of_wavefronts(out):
        i = roc.get_global_id(0)
        out[i] = roc.ds_bpermute(0, np.int32(i))

    size = roc.get_context().agent.wavefront_size
    out = np.zeros(2 * size, np.int32)
    lanes_of_wavefronts[1, 2 * size](out)
    np.testing.assert_array_equal(out, np.repeat([0, size], size))
