"""Arrays and streams of others on NVIDIA's driver, for which `doubles.libcuda` stands in."""

from support.nvidia_children import needs_compiler, run

pytestmark = needs_compiler

START = """
    import threading
    import numpy as np
    import haulage
    from cuda.bindings import driver, runtime
    from haulage import cuda
    from haulage.backends.base import NON_BLOCKING
    from haulage.runtime.protocols.dlpack_structs import inside

    haulage.use("nvidia")
    device = cuda.get_current_device()
    numbers = np.arange(6, dtype=np.float32)

    class Theirs:
        def __init__(self, array, stream):
            self.__cuda_array_interface__ = array.__cuda_array_interface__ | {"stream": stream}

    def stream_of_theirs():
        device.activate()
        return driver.cuStreamCreateWithPriority(NON_BLOCKING, 0)[1]

    def is_busy(stream):
        return driver.cuStreamQuery(stream)[0] == driver.CUresult.CUDA_ERROR_NOT_READY
"""


def test_streams_of_the_drivers_own_classes_and_numbers_are_taken():
    run(
        START
        + """
    theirs = stream_of_theirs()
    # As cuda-bindings 13.0 has it, without the protocol.
    def as_number(self):
        return int(theirs)
    methods = {"__module__": "cuda.bindings.driver", "__int__": as_number}
    of_13_0 = type("CUstream", (), methods)()
    handles = [theirs, of_13_0, runtime.cudaStream_t(int(theirs))]
    handles.append(cuda.external_stream(int(theirs)))
    for stream in handles + [cuda.external_stream(1), cuda.external_stream(2)]:
        there = cuda.to_device(numbers, stream=stream)
        assert np.array_equal(there.copy_to_host(stream=stream), numbers)
        assert int(there.stream) == int(stream)
    assert cuda.external_stream(1).handle == 0
    assert cuda.external_stream(2).handle == 2
    ours = cuda.stream()
    assert ours.__cuda_stream__() == (0, ours.handle)
    assert cuda.per_thread_default_stream().handle not in (0, 1, 2)
    """
    )


def test_memory_that_was_used_in_a_threads_own_stream_goes_back_in_another_thread():
    run(
        START
        + """
    opened, arrays = threading.Event(), []

    def use():
        stream = cuda.external_stream(2)
        there = cuda.to_device(numbers, stream=stream)
        device.activate()
        device.backend.stream_callback(2, lambda: opened.wait(30))
        there.fill(1, stream=stream)
        arrays.append(there)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    address = arrays[0].device_pointer
    assert cuda.external_stream(2).query()  # this thread's own, which has no work
    del arrays[0]
    again = cuda.device_array(6, np.float32)
    assert again.device_pointer != address
    opened.set()
    cuda.synchronize()
    """
    )


def test_arrays_tell_where_they_are_and_the_drivers_addresses_are_known():
    run(
        START
        + """
    there = cuda.to_device(numbers)
    described = there.__cuda_array_interface__
    assert described["data"] == (there.device_pointer, False) and described["stream"] is None
    assert there.__dlpack_device__() == (2, 0)
    consumer = cuda.stream()
    for stream in (None, -1, 1, 2, consumer.handle):
        capsule = there.__dlpack__(stream=stream, max_version=(1, 1))
        assert inside(capsule).dl_tensor.data == there.device_pointer
    for make, number in ((cuda.managed_array, 13), (cuda.mapped_array, 3)):
        array = make(6, np.float32)
        assert array.__cuda_array_interface__["shape"] == (6,)
        tensor = inside(array.__dlpack__(dl_device=(number, 0), max_version=(1, 1))).dl_tensor
        assert (tensor.device.device_type, tensor.data) == (number, array.ctypes.data)
    try:
        cuda.from_cuda_array_interface(described | {"data": (16, False)})
    except haulage.errors.DeviceError as error:
        assert "0x10" in str(error)
    else:
        raise AssertionError("an address that the driver does not know was taken")
    """
    )


def test_work_on_an_array_is_ordered_with_its_librarys_both_ways():
    run(
        START
        + """
    there, source = cuda.to_device(numbers), cuda.to_device(-numbers)
    target = cuda.to_device(np.zeros(6, np.float32))
    theirs, ours = stream_of_theirs(), cuda.stream()
    opened = threading.Event()
    device.backend.stream_callback(int(theirs), lambda: opened.wait(30))
    there.copy_to_device(source, stream=theirs)
    made = cuda.as_cuda_array(Theirs(there, int(theirs)))
    target.copy_to_device(made, stream=ours)
    assert not ours.query()
    opened.set()
    ours.synchronize()
    assert np.array_equal(target.copy_to_host(), -numbers)

    opened.clear()
    device.backend.stream_callback(ours.handle, lambda: opened.wait(30))
    target.copy_to_device(Theirs(there, int(theirs)), stream=ours)
    assert is_busy(theirs)
    target.copy_to_device(made, stream=ours)
    del made
    opened.set()
    assert not driver.cuStreamSynchronize(theirs)[0]
    assert not is_busy(theirs)
    """
    )
