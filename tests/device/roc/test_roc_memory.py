"""Memory of programs for numba.roc: arrays of the device and of the host, copies in streams, what
arrays and contexts are called there."""

import threading

import numpy as np
import pytest

import haulage
from haulage import roc
from haulage.errors import DeviceMismatch
from haulage.roc.hsadrv import devicearray, devices, driver, error
from haulage.runtime.devices.device import Device

pytestmark = pytest.mark.usefixtures("device")

HOST_ARRAYS = ["coarsegrain_array", "finegrain_array"]


def some_numbers(count=512, dtype=np.int32):
    return np.arange(1, count + 1, dtype=dtype)


@roc.jit
def copied(target, source):
    i = roc.get_global_id(0)
    if i < target.size:
        target[i] = source[i]


@roc.jit
def plus_one(target, source):
    i = roc.get_global_id(0)
    if i < target.size:
        target[i] = source[i] + 1


# ---- arrays as arguments ------------------------------------------------------------------------


def test_arrays_of_the_host_come_back_by_themselves():
    out = np.zeros(512, np.int32)
    copied[4, 128](out, some_numbers())
    np.testing.assert_array_equal(out, some_numbers())


def test_arrays_of_the_device_stay_there():
    out = roc.device_array_like(some_numbers())
    copied[4, 128](out, roc.to_device(some_numbers()))
    np.testing.assert_array_equal(out.copy_to_host(), some_numbers())


@pytest.mark.parametrize("make", HOST_ARRAYS)
def test_arrays_that_both_see_are_arguments(make):
    out = getattr(roc, make)(shape=512, dtype=np.int32)
    out.fill(0)
    copied[4, 128](out, some_numbers())
    roc.synchronize()
    np.testing.assert_array_equal(out, some_numbers())


# ---- arrays that both see -----------------------------------------------------------------------


@pytest.mark.parametrize("make", HOST_ARRAYS)
def test_arrays_that_both_see_are_numpys(make):
    array = getattr(roc, make)(shape=(3, 5), dtype=np.float32)
    assert isinstance(array, devicearray.HostArray)
    assert isinstance(array, np.ndarray)
    array[:] = expected = np.arange(15).reshape(3, 5)
    np.testing.assert_array_equal(array + 1, expected + 1)
    assert array.__hsa_memory__
    assert array.device_ctypes_pointer.value
    # What NumPy makes of it is in ordinary memory.
    assert not getattr(array + 1, "__hsa_memory__", False)
    assert getattr(roc, make)(7).dtype == np.float64


# ---- copies -------------------------------------------------------------------------------------


def test_one_array_of_the_device_is_copied_to_another():
    source, target = roc.to_device(some_numbers()), roc.to_device(np.zeros(512, np.int32))
    target.copy_to_device(source)
    source.fill(0)
    np.testing.assert_array_equal(target.copy_to_host(), some_numbers())


@pytest.mark.parametrize("make", [*HOST_ARRAYS, "device_array"])
def test_to_device_copies_what_the_device_sees_already(make):
    """numba.cuda's gives such arrays as they are; programs for numba.roc go on using both."""
    source = getattr(roc, make)((2, 4), np.int32, order="F")
    numbers = some_numbers(8).reshape(2, 4)
    source.copy_to_device(numbers)
    for stream in (None, roc.stream()):
        there = roc.to_device(source, stream=stream)
        if stream is not None:
            stream.synchronize()
        assert isinstance(there, roc.DeviceNDArray)
        assert there.strides == source.strides
        there.fill(0)
        np.testing.assert_array_equal(source.copy_to_host(), numbers)
    assert roc.to_device(source, copy=False).device_pointer != source.device_pointer
    assert roc.to_device(numbers, to=there) is there


def test_a_copy_of_a_slice_has_no_gaps():
    source = roc.to_device(some_numbers(20))[::2]
    there = roc.to_device(source)
    assert there.strides == (4,)
    np.testing.assert_array_equal(there.copy_to_host(), some_numbers(20)[::2])


def test_copies_to_the_device_and_back_wait_in_their_stream(hold_up):
    source, target = roc.coarsegrain_array(512, np.int32), roc.coarsegrain_array(512, np.int32)
    source[:] = some_numbers()
    target[:] = 0
    stream = roc.stream()
    with hold_up(stream):
        there = roc.to_device(source, stream=stream)
        there.copy_to_host(target, stream=stream)
        assert not stream.query()
        assert not target.any()
    stream.synchronize()
    assert stream.query()
    np.testing.assert_array_equal(target, some_numbers())


def test_a_copy_without_a_stream_comes_after_those_in_streams(hold_up):
    there = roc.to_device(np.zeros(512, np.int32))
    source = roc.coarsegrain_array(512, np.int32)
    source[:] = some_numbers()
    stream = roc.stream()
    got = []
    copying = threading.Thread(target=lambda: got.append(there.copy_to_host()))
    with hold_up(stream):
        there.copy_to_device(source, stream=stream)
        copying.start()
        copying.join(0.1)
        assert not got
    copying.join()
    np.testing.assert_array_equal(got[0], some_numbers())


# ---- kernels in streams -------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["synchronize", "auto_synchronize"])
def test_kernels_and_copies_of_a_stream_go_in_order(wait):
    start, out = roc.coarsegrain_array(1000, np.int32), roc.coarsegrain_array(1000, np.int32)
    start[:] = some_numbers(1000)
    out[:] = 0
    stream = roc.stream()
    result = roc.device_array_like(start)

    def work():
        there = roc.to_device(start, stream=stream)
        for _ in range(20):
            plus_one[4, 256, stream](result, there)
            there.copy_to_device(result, stream=stream)
        result.copy_to_host(out, stream=stream)

    if wait == "synchronize":
        work()
        stream.synchronize()
    else:
        with stream.auto_synchronize() as given:
            assert given is stream
            work()
    np.testing.assert_array_equal(out, some_numbers(1000) + 20)
    np.testing.assert_array_equal(start, some_numbers(1000))


# ---- what arrays are called ---------------------------------------------------------------------


def test_an_array_over_the_memory_of_another():
    there = roc.to_device(some_numbers(12))
    assert there.__hsa_memory__
    assert there.__hsa_ndarray__
    assert there.dgpu_data == there.as_hsa_arg() == there.gpu_data
    assert there.alloc_size == 48
    over = devicearray.DeviceNDArray(
        shape=(3, 4), strides=(16, 4), dtype=np.dtype(np.int32), dgpu_data=there.dgpu_data
    )
    over.copy_to_device(some_numbers(12).reshape(3, 4) * 2)
    np.testing.assert_array_equal(there.copy_to_host(), some_numbers(12) * 2)
    like = devicearray.from_array_like(some_numbers(6), dgpu_data=there.dgpu_data)
    np.testing.assert_array_equal(like.copy_to_host(), some_numbers(6) * 2)


def test_which_arrays_are_on_the_device():
    host, there = some_numbers(), roc.to_device(some_numbers())
    assert devicearray.is_hsa_ndarray(there)
    assert not devicearray.is_hsa_ndarray(host)
    assert driver.is_device_memory(there)
    devicearray.verify_hsa_ndarray_interface(there)
    with pytest.raises(ValueError, match="ndarray"):
        devicearray.require_hsa_ndarray(host)
    context = roc.get_context()
    assert devicearray.auto_device(there, context) == (there, False)
    moved, is_new = devicearray.auto_device(host, context)
    assert is_new
    np.testing.assert_array_equal(moved.copy_to_host(), host)


def test_what_does_not_fit_the_array_of_the_host_is_a_type_error():
    there = roc.to_device(some_numbers(6))
    with pytest.raises(TypeError, match="incompatible dtype"):
        there.copy_to_host(np.zeros(6))
    with pytest.raises(TypeError, match="incompatible shape"):
        there.copy_to_host(np.zeros(7, np.int32))


# ---- contexts and agents ------------------------------------------------------------------------


def test_a_context_that_is_not_that_of_the_array_is_an_error(device):
    there = roc.to_device(some_numbers(), context=roc.get_context())
    there.copy_to_device(2 * some_numbers(), None, roc.get_context())
    there.copy_to_device(some_numbers(), context=device)
    other = next((each for each in haulage.devices() if each is not device), None)
    if other is None:
        other = Device("other", device.backend, device.id)
    with pytest.raises(error.HsaContextMismatchError, match="different context: expect that of"):
        there.copy_to_device(2 * some_numbers(), context=other)
    np.testing.assert_array_equal(there.copy_to_host(), some_numbers())
    assert issubclass(error.HsaContextMismatchError, error.HsaDriverError)
    assert error.HsaContextMismatchError is DeviceMismatch


def test_the_driver_and_the_list_of_devices(device):
    assert driver.dgpu_present is True
    assert driver.dgpu_count() == len(roc.agents) == devices.get_num_gpus()
    assert device in driver.hsa.agents
    assert driver.hsa.components == driver.hsa.agents
    assert driver.hsa.is_available
    assert isinstance(driver.hsa.create_stream(), driver.Stream)
    driver.hsa.implicit_sync()
    assert devices.get_context() == roc.get_context()
    assert devices.get_gpu(device.id) is device
    assert [context.agent for context in devices.get_all_contexts()] == list(devices.cus)
    assert devices.get_cpu_context().agent.kind == "cpu"
    assert driver.Context(device) == roc.get_context()


def test_an_agent_runs_kernels_in_wavefronts(device):
    agent = roc.get_context().agent
    assert isinstance(agent, driver.Agent)
    assert agent.is_component
    assert 2**agent.wavebits == agent.wavefront_size == 64
    assert [each for each in roc.agents if each.is_component] == list(roc.agents)


def test_what_is_hsas_own_is_not_there_and_says_so():
    with pytest.raises(ImportError, match="no 'Queue': it is a part of HSA's runtime"):
        from haulage.roc.hsadrv.driver import Queue  # noqa: F401
    with pytest.raises(AttributeError, match=r"hsa_memory_copy.*not called"):
        _ = driver.hsa.hsa_memory_copy
