"""The private side of numba.cuda that programs use: bytes, pointers, streams by number, errors."""

import ctypes

import numpy as np
import pytest

from haulage import cuda
from haulage.cuda.cudadrv import devicearray, devices, driver, drvapi, enums, error, ndarray

pytestmark = pytest.mark.usefixtures("device")


def test_bytes_are_copied_between_buffers_and_the_device():
    memory = cuda.current_context().memalloc(16)
    source = (ctypes.c_int * 4)(1, 2, 3, 4)
    driver.host_to_device(memory, source, 16)
    other = cuda.current_context().memalloc(16)
    driver.device_to_device(other, memory, 16)
    driver.device_memset(other, 0xFF, 4)
    target = np.zeros(4, np.int32)
    driver.device_to_host(target, other, 16)
    assert target.tolist() == [-1, 2, 3, 4]
    driver.device_to_host(target.ctypes.data, memory, 4)
    assert target.tolist() == [1, 2, 3, 4]
    driver.host_to_device(memory, b"abc", 3)
    back = bytearray(3)
    driver.device_to_host(back, memory, 3)
    assert back == b"abc"


def test_copies_in_a_stream_keep_its_order():
    stream = cuda.stream()
    host = cuda.pinned_array(1000, np.uint8)
    host[:] = 7
    memory = cuda.current_context().memalloc(1000)
    driver.host_to_device(memory, host, 1000, stream)
    driver.device_memset(memory, 9, 500, stream)
    target = cuda.pinned_array(1000, np.uint8)
    driver.device_to_host(target, memory, 1000, stream)
    stream.synchronize()
    assert target.tolist() == [9] * 500 + [7] * 500


@pytest.mark.parametrize(
    ("copy", "error"),
    [
        (lambda m, h: driver.host_to_device(m, h, 17), ValueError),
        (lambda m, h: driver.host_to_device(m, h[:3], 16), ValueError),
        (lambda m, h: driver.device_to_host(h, m, 17), ValueError),
        (lambda m, h: driver.device_to_host(b"read-only bytes.", m, 16), ValueError),
        (lambda m, h: driver.host_to_device(h, h, 16), TypeError),
        (lambda m, h: driver.device_memset(m, 256, 16), ValueError),
        (lambda m, h: driver.device_memset(m, 0, 17), ValueError),
    ],
)
def test_copies_beyond_the_memory_change_nothing(copy, error):
    host = np.arange(4, dtype=np.int32)
    array = cuda.to_device(host)
    with pytest.raises(error):
        copy(array, host)
    assert array.copy_to_host().tolist() == host.tolist() == [0, 1, 2, 3]


def test_memory_tells_its_size_and_addresses():
    array = cuda.to_device(np.arange(8.0))
    part = array[2:4]
    assert driver.is_device_memory(part)
    assert driver.device_memory_size(part) == 16
    assert driver.device_pointer(part) == array.device_pointer + 16
    start, end = driver.device_extents(part)
    assert start <= array.device_pointer < array.device_pointer + 64 <= end
    assert isinstance(driver.device_ctypes_pointer(part), drvapi.cu_device_ptr)
    assert driver.device_ctypes_pointer(None).value is None
    with pytest.raises(TypeError, match="Not a CUDA memory object"):
        driver.require_device_memory(np.zeros(1))
    assert driver.is_device_memory(cuda.mapped_array(3)[1:])
    assert not driver.is_device_memory(cuda.mapped_array(3).copy())


def test_the_hosts_memory_is_described_from_its_lowest_byte():
    host = np.arange(10.0)
    start = host.ctypes.data
    assert driver.host_memory_extents(host[::-1]) == (start, start + 80)
    assert driver.host_pointer(host[:4:-2]) == start + 40
    assert driver.host_pointer(1234) == 1234
    assert driver.host_memory_size(np.datetime64("2020-01-01")[None]) == 8
    assert driver.memory_size_from_info((3, 4), (80, 8), 8) == 192
    host.flags.writeable = False
    assert driver.host_pointer(host, readonly=True) == start
    with pytest.raises(ValueError, match="read-only"):
        driver.host_pointer(host)


def test_references_to_memory_are_counted():
    memory = cuda.current_context().memalloc(64)
    assert memory.refct == 1
    view = memory.view(8)
    further = view.view(8)
    assert memory.refct == view.refct == 3
    assert (view.handle.value, further.handle) == (memory.handle + 8, memory.handle + 16)
    assert further.owner == memory
    del view
    assert memory.refct == 2


def test_a_pointer_of_a_program_is_used_in_place_and_given_back_once():
    host = np.arange(4.0)
    freed = []
    pointer = cuda.MemoryPointer(
        cuda.current_context(),
        ctypes.c_void_p(host.ctypes.data),
        32,
        finalizer=lambda: freed.append(1),
    )
    if not cuda.get_current_device().properties.host_memory_is_device_memory:
        pytest.skip("an address of the host's is none of this device")
    array = cuda.DeviceNDArray(4, 8, np.float64, gpu_data=pointer)
    array[1] = 7
    assert host.tolist() == [0, 7, 2, 3]
    pointer.own().view(8)
    del pointer
    assert freed == []
    assert array.copy_to_host().tolist() == [0, 7, 2, 3]
    del array
    assert freed == [1]


def test_pinned_host_memory_is_unpinned_with_its_pointer():
    host = np.arange(4.0)
    context = cuda.current_context()
    for mapped, kind in ((True, cuda.MappedMemory), (False, cuda.PinnedMemory)):
        memory = context.mempin(host, host.ctypes.data, 32, mapped=mapped)
        assert type(memory) is kind
        assert np.asarray(memory).view(np.float64).tolist() == [0, 1, 2, 3]
        del memory
    assert len(context.deallocations) == 0


def test_the_driver_answers_through_pointers():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.driver.cuMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    assert 0 < free.value <= total.value == cuda.current_context().get_memory_info().total
    count = ctypes.c_int()
    driver.driver.cuDeviceGetCount(ctypes.pointer(count))
    assert count.value == driver.driver.get_device_count() == len(cuda.gpus)
    version = ctypes.c_int()
    driver.driver.cuDriverGetVersion(ctypes.byref(version))
    assert divmod(version.value, 1000) == (driver.get_version()[0], 10 * driver.get_version()[1])
    driver.driver.cuInit(0)
    driver.driver.cuCtxSynchronize()
    driver.driver.ensure_initialized()
    assert driver.driver.is_initialized
    assert driver.driver.get_device(0) == cuda.gpus[0]._device
    with driver.driver.get_active_context() as context:
        assert context == cuda.current_context()
    with pytest.raises(driver.CudaSupportError):
        driver.driver.get_device(10**6)
    with pytest.raises(AttributeError, match="no call 'cuModuleLoad': it is NVIDIA's own"):
        driver.driver.cuModuleLoad()


def test_a_stream_of_the_driver_is_an_external_one():
    handle = drvapi.cu_stream()
    driver.driver.cuStreamCreate(ctypes.byref(handle), 0)
    stream = cuda.external_stream(handle.value)
    assert stream.external
    assert stream.handle.value == handle.value == int(stream)
    assert repr(stream).startswith("<External CUDA stream")
    array = cuda.to_device(np.arange(3), stream)
    assert array.copy_to_host(stream=stream).tolist() == [0, 1, 2]
    driver.driver.cuStreamSynchronize(handle)
    del array, stream
    driver.driver.cuStreamDestroy(handle)
    with pytest.raises(driver.CudaAPIError):
        cuda.external_stream(handle.value)


def test_a_device_answers_as_an_entry_of_gpus_does():
    device = devices.gpus[0]
    assert device._device is device
    assert device.name.decode() == device.name == device._device.name.decode("utf-8")
    assert device.primary_context == devices.get_context() == device.get_primary_context()
    assert devices.get_context().device is device
    assert devices.get_context().handle.value == device.primary_context.handle
    extras = devices.get_context().extras
    extras["mine"] = 1
    assert devices.get_context().extras.pop("mine") == 1


def test_every_attribute_that_programs_list_is_answered():
    # As the device queries of numba.cuda's courses go.
    names = [name for name in dir(enums) if name.startswith("CU_DEVICE_ATTRIBUTE_")]
    device = cuda.get_current_device()
    figures = {name: getattr(device, name.removeprefix("CU_DEVICE_ATTRIBUTE_")) for name in names}
    assert len(figures) > 90
    assert all(isinstance(figure, int) for figure in figures.values())
    assert figures["CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK"] == device.MAX_THREADS_PER_BLOCK > 0
    with pytest.raises(AttributeError, match="dir\\(device\\) lists"):
        device.NO_SUCH_FIGURE  # noqa: B018


def test_arrays_are_made_like_others():
    host = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    like = devicearray.from_array_like(host)
    assert (like.shape, like.strides, like.dtype) == (host.shape, host.strides, host.dtype)
    there, is_new = devicearray.auto_device(host)
    assert is_new
    assert devicearray.auto_device(there) == (there, False)
    assert devicearray.auto_device(3)[0].copy_to_host() == 3
    shown = np.broadcast_to(np.arange(3), (4, 3))
    assert devicearray.array_core(shown).tolist() == [0, 1, 2]
    assert devicearray.is_contiguous(shown)
    assert not devicearray.is_contiguous(host)
    devicearray.check_array_compatibility(there, host[None])
    with pytest.raises(ValueError, match="incompatible shape"):
        devicearray.check_array_compatibility(there, host.T)
    with pytest.raises(TypeError, match="incompatible dtype"):
        devicearray.check_array_compatibility(there, host.astype(int))
    with pytest.raises(ValueError, match="require an cuda ndarray"):
        devicearray.verify_cuda_ndarray_interface(host)
    assert ndarray.ndarray_device_allocate_data(host).size == 48


def test_errors_are_of_numbas_classes_and_have_cudas_numbers():
    with pytest.raises(driver.CudaAPIError) as found:
        cuda.device_array(1 << 60, np.uint8)
    assert found.value.code == enums.CUDA_ERROR_OUT_OF_MEMORY
    assert found.value.msg == str(found.value)
    with pytest.raises(error.CudaSupportError) as missing:
        cuda.select_device(10**6)
    assert isinstance(missing.value, ImportError)
    assert missing.value.code == enums.CUDA_ERROR_NO_DEVICE
    assert missing.value.msg == str(missing.value)


def test_what_is_nvidias_says_so():
    for use in (
        lambda: driver.Linker.new(cc=(5, 3)),
        lambda: driver.Linker(),
        lambda: driver.launch_kernel(1),
        lambda: cuda.current_context().create_module_ptx("ptx"),
    ):
        with pytest.raises(NotImplementedError, match=r"cuda\.jit"):
            use()
    with pytest.raises(AttributeError, match=r"numba\.cuda\.cudadrv\.nvvm has no 'compile_ir'"):
        cuda.cudadrv.nvvm.compile_ir  # noqa: B018
    with pytest.raises(AttributeError, match=r"numba\.cuda\.cudadrv has no 'no_such'"):
        cuda.cudadrv.no_such  # noqa: B018
    assert not cuda.cudadrv.nvvm.is_available()
