"""The memory that an array stands on, as `gpu_data` and a context give it."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = pytest.mark.usefixtures("device")


def test_memory_is_equal_where_it_is_the_same_bytes():
    array = cuda.to_device(np.arange(6.0))
    memory = array.gpu_data
    for view in (array, array.view(np.int64), array.reshape(2, 3), array[::-1]):
        assert view.gpu_data == memory
        assert hash(view.gpu_data) == hash(memory)
    for other in (array[1:], array[:5], cuda.device_array_like(array), array[:0]):
        assert other.gpu_data != memory
    assert memory != memory.device_pointer


def test_a_view_of_memory_is_the_bytes_that_are_named():
    array = cuda.to_device(np.arange(6.0))
    memory = array.gpu_data
    assert memory.view(8) == array[1:].gpu_data
    assert memory.view(8, 40) == array[1:5].gpu_data
    assert memory.view(0) == memory == memory.own()
    assert memory.view(48).size == 0
    assert memory.view(8).device_pointer_value == array[1:].device_pointer
    middle = cuda.DeviceNDArray(2, 8, np.float64, gpu_data=memory.view(16, 32))
    assert middle.copy_to_host().tolist() == [2, 3]


@pytest.mark.parametrize(("start", "stop"), [(-1, None), (49, None), (0, 49), (8, 7)])
def test_a_view_beyond_the_memory_is_refused(start, stop):
    memory = cuda.to_device(np.arange(6.0)).gpu_data
    with pytest.raises(ValueError, match="of 48: expected a part of them"):
        memory.view(start, stop)


def test_a_view_of_memory_keeps_it_alive():
    part = cuda.to_device(np.arange(6.0)).gpu_data.view(8)
    others = [cuda.to_device(np.full(6, -1.0)) for _ in range(20)]
    seen = cuda.DeviceNDArray(5, 8, np.float64, gpu_data=part)
    assert seen.copy_to_host().tolist() == [1, 2, 3, 4, 5]
    assert len(others) == 20


def test_memset_writes_bytes_in_the_order_of_its_stream():
    array = cuda.to_device(np.zeros(4, np.uint32))
    array.gpu_data.memset(0xAB)
    assert array.copy_to_host().tolist() == [0xABABABAB] * 4
    array.gpu_data.memset(1, 5)
    assert array.copy_to_host().tolist() == [0x01010101, 0xABABAB01, 0xABABABAB, 0xABABABAB]
    stream = cuda.stream()
    array.gpu_data.memset(0, stream=stream)
    array[1:].gpu_data.memset(2, stream=stream)
    stream.synchronize()
    assert array.copy_to_host().tolist() == [0, *[0x02020202] * 3]
    array[:0].gpu_data.memset(7)
    assert array.copy_to_host().tolist() == [0, *[0x02020202] * 3]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((256,), "memset: byte 256"), ((-1,), "memset: byte -1"), ((0, 17), "bytes 0 to 17 of 16")],
)
def test_memset_of_what_is_not_there_writes_nothing(arguments, expected):
    array = cuda.to_device(np.arange(4, dtype=np.uint32))
    with pytest.raises(ValueError, match=expected):
        array.gpu_data.memset(*arguments)
    assert array.copy_to_host().tolist() == [0, 1, 2, 3]


def test_freed_memory_cannot_be_used():
    array = cuda.to_device(np.arange(4.0))
    memory = array[1:].gpu_data
    memory.free()
    for use in (array.copy_to_host, lambda: memory.memset(0)):
        with pytest.raises(ValueError, match="given back"):
            use()


def test_numba_types_an_array_as_kernels_do():
    numba = pytest.importorskip("numba")
    host = np.zeros((4, 6), np.float32)
    there = cuda.to_device(host)
    frozen = cuda.to_device(host)
    frozen.readonly = True
    expected = {
        "array(float32, 2d, C)": there,
        "array(float32, 2d, F)": there.T,
        "array(float32, 2d, A)": there[::2],
        "array(float32, 1d, C)": there[1],
        "array(float32, 1d, A)": cuda.device_array(3, np.float32, strides=0),
        "readonly array(float32, 2d, C)": frozen,
    }
    assert {str(numba.typeof(array)): array for array in expected.values()} == expected
    record = cuda.to_device(np.zeros(2, [("a", "i4"), ("b", "f8")])[0])
    assert numba.typeof(record) == numba.typeof(record.copy_to_host()[()])
