"""The CUDA array interface: what descriptions are taken, and what they make."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haulage import cuda, memory
from haulage.errors import DeviceError

pytestmark = pytest.mark.usefixtures("device")

quick = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
dtypes = st.sampled_from(["?", "i1", "u2", ">i4", "f2", "f8", "c16", "S3", "M8[ns]"])


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def described(array, **changes):
    """A description of a device array, with some keys changed, or left out if they are `...`."""
    made = {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.device_pointer, False),
        "strides": array.strides,
        "version": 3,
    } | changes
    return {key: value for key, value in made.items() if value is not ...}


class Foreign:
    """An array of a library that has the interface."""

    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = described(array, **changes)


# ---- what is taken ------------------------------------------------------------------------------


@quick
@given(st.data())
def test_any_array_can_be_described(data):
    dtype = np.dtype(data.draw(dtypes))
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    count = int(np.prod(shape)) * dtype.itemsize
    host = (np.arange(count, dtype=np.uint8) % 2).view(dtype).reshape(shape)
    there = cuda.to_device(host)
    key = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in shape)
    view, expected = there[(*key, ...)], host[(*key, ...)]
    made = cuda.from_cuda_array_interface(described(view), owner=there)
    assert (made.shape, made.strides, made.dtype) == (view.shape, view.strides, dtype)
    assert made.copy_to_host().tobytes() == expected.tobytes()
    if view.size:
        assert made.device_pointer == view.device_pointer


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("strides", [None, ..., (12, 4), [12, 4]])
def test_all_versions_are_taken_and_no_strides_mean_c_order(version, strides):
    there = cuda.to_device(numbers(2, 3))
    made = cuda.from_cuda_array_interface(described(there, version=version, strides=strides))
    assert made.is_c_contiguous()
    made[1, 2] = 9
    assert there[1, 2] == 9


def test_shapes_and_addresses_can_be_numpy_integers():
    there = cuda.to_device(numbers(4))
    desc = described(there, shape=[np.int64(4)], data=(np.uint64(there.device_pointer), False))
    assert np.array_equal(cuda.from_cuda_array_interface(desc).copy_to_host(), numbers(4))


@pytest.mark.parametrize("address", [0, None])
def test_an_array_without_elements_needs_no_address(address):
    there = cuda.to_device(numbers(0, 3))
    made = cuda.from_cuda_array_interface(described(there, data=(address, False)))
    assert made.shape == (0, 3)
    assert made.copy_to_host().shape == (0, 3)


def test_records_take_their_fields_from_descr():
    host = np.array([(1, 2.5), (3, 4.5)], np.dtype([("a", "i4"), ("b", "f8")], align=True))
    there = cuda.to_device(host)
    desc = described(there, typestr="|V16", descr=host.dtype.descr)
    made = cuda.from_cuda_array_interface(desc)
    assert made.dtype["b"] == np.float64
    assert np.array_equal(made["b"].copy_to_host(), [2.5, 4.5])
    plain = cuda.from_cuda_array_interface(described(there, typestr="|V16", descr=[("", "|V16")]))
    assert plain.dtype == "V16"


def test_the_read_only_flag_is_honoured():
    there = cuda.to_device(numbers(3))
    made = cuda.from_cuda_array_interface(described(there, data=(there.device_pointer, True)))
    assert made.flags["WRITEABLE"] is False
    assert made[1:].flags["WRITEABLE"] is False
    with pytest.raises(ValueError, match="read-only"):
        made[0] = 1
    assert there[0] == 0


def test_the_owner_lives_as_long_as_the_array():
    class Owner:
        pass

    owner, there = Owner(), cuda.to_device(numbers(3))
    alive = weakref.ref(owner)
    made = cuda.from_cuda_array_interface(described(there), owner=owner)
    view = made[1:]
    del owner, made
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


# ---- streams ------------------------------------------------------------------------------------


def test_no_stream_and_the_default_stream_bind_to_none(device):
    there = cuda.to_device(numbers(3))
    for stream in (None, 0 if device.kind == "amd" else 1, ...):
        assert not cuda.from_cuda_array_interface(described(there, stream=stream)).stream


def test_the_number_of_anothers_default_stream_is_refused(device):
    there = cuda.to_device(numbers(3))
    number, expected = (1, r"\[0\]") if device.kind == "amd" else (0, r"\[1, 2\]")
    with pytest.raises(ValueError, match=f"stream {number} .* expected {expected}"):
        cuda.from_cuda_array_interface(described(there, stream=number))


def test_stream_2_is_the_per_thread_default_stream(device):
    if device.kind not in ("cpu", "nvidia"):
        pytest.skip(f"the driver of {device} has no such stream")
    there = cuda.to_device(numbers(3))
    made = cuda.from_cuda_array_interface(described(there, stream=2))
    assert made.stream == cuda.external_stream(2)
    assert int(made.stream) == 2


@pytest.mark.parametrize("sync", [True, False])
def test_the_array_is_bound_to_the_stream_which_the_host_does_not_wait_for(hold_up, sync):
    stream = cuda.stream()
    there, source = cuda.to_device(numbers(3)), cuda.to_device(-numbers(3))
    with hold_up(stream):
        there.copy_to_device(source, stream=stream)
        made = cuda.as_cuda_array(Foreign(there, stream=stream.handle), sync)
        assert made.stream == stream
        assert not stream.query()
    assert np.array_equal(made.copy_to_host(), -numbers(3))


# ---- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["shape", "typestr", "data", "version"])
def test_a_missing_key_is_named(key):
    with pytest.raises(ValueError, match=f"has no '{key}'"):
        cuda.from_cuda_array_interface(described(cuda.to_device(numbers(3)), **{key: ...}))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"version": 4}, ValueError, "version 4 .* expected 0, 1, 2 or 3"),
        ({"mask": object()}, NotImplementedError, "Masked arrays are not supported"),
        ({"shape": (-3,)}, ValueError, "no axis can be negative"),
        ({"shape": "3"}, TypeError, "shape '3'"),
        ({"strides": (4, 4)}, ValueError, "strides .* do not fit shape"),
        ({"typestr": "|O"}, TypeError, "Python objects"),
        ({"typestr": "float99"}, TypeError, "float99"),
        ({"typestr": "|V4", "descr": [("a", "<f8")]}, ValueError, "8 bytes, typestr '|V4' 4"),
        ({"data": 7}, TypeError, r"expected \(address, read-only\)"),
        ({"data": ("here", False)}, TypeError, r"expected \(address, read-only\)"),
        ({"data": (0, False)}, ValueError, "address 0 for shape"),
        ({"stream": -1}, ValueError, "stream -1"),
        ({"stream": "1"}, TypeError, "stream '1'"),
    ],
)
def test_a_wrong_description_is_an_error(changes, error, message):
    there = cuda.to_device(numbers(3))
    with pytest.raises(error, match=message.replace("|", r"\|")):
        cuda.from_cuda_array_interface(described(there, **changes))


def test_a_launch_tells_what_is_wrong_with_a_description():
    @cuda.jit
    def nothing(a, b):
        pass

    there = cuda.to_device(numbers(3))
    with pytest.raises(TypeError, match=r"nothing: data 7 .* expected \(address, read-only\)"):
        nothing[1, 1](there, Foreign(there, data=7))
    with pytest.raises(TypeError, match="nothing, argument 'b': a kernel cannot take"):
        nothing[1, 1](Foreign(there, data=7), object())


def test_a_description_that_is_no_dictionary_is_a_type_error():
    with pytest.raises(TypeError, match="expected a dict"):
        cuda.from_cuda_array_interface(cuda.to_device(numbers(3)))


def test_elements_that_are_not_aligned_are_refused():
    there = cuda.to_device(np.zeros(17, np.uint8))
    data = (there.device_pointer + 1, False)
    for strides in (None, (8,)):
        desc = described(there, shape=(2,), typestr="<f8", data=data, strides=strides)
        with pytest.raises(BufferError, match="not aligned"):
            cuda.from_cuda_array_interface(desc)
    cuda.from_cuda_array_interface(described(there, shape=(16,), data=data))


@pytest.mark.parametrize("address", [16, 0x7F0000000000, 2**64 - 8, 2**70])
def test_an_address_of_another_memory_is_a_device_error_on_the_cpu(device, address):
    if not device.properties.host_memory_is_device_memory:
        pytest.skip("the driver of a GPU sees to its own addresses")
    there = cuda.to_device(numbers(16))
    with pytest.raises(DeviceError, match=f"cannot reach 64 bytes at {address:#x}"):
        cuda.from_cuda_array_interface(described(there, data=(address, False)))


def test_an_end_beyond_the_memory_is_a_device_error_on_the_cpu(device):
    if not device.properties.host_memory_is_device_memory:
        pytest.skip("the driver of a GPU sees to its own addresses")
    there = cuda.to_device(numbers(4))
    with pytest.raises(DeviceError, match="cannot reach"):
        cuda.from_cuda_array_interface(described(there, shape=(1 << 60,)))


# ---- as_cuda_array and is_cuda_array ------------------------------------------------------------


def test_our_own_arrays_are_given_back():
    there = cuda.to_device(numbers(3))
    assert cuda.as_cuda_array(there) is there
    mapped = cuda.mapped_array(3, np.float32)
    view = cuda.as_cuda_array(mapped)
    view[0] = 5
    assert isinstance(view, cuda.DeviceNDArray)
    assert mapped[0] == 5


def test_arrays_with_the_interface_are_used_in_place():
    there = cuda.to_device(numbers(3))
    cuda.as_cuda_array(Foreign(there))[0] = 5
    assert there[0] == 5


def test_arrays_with_dlpack_are_used_in_place():
    class OnlyDLPack:
        def __dlpack__(self, **options):
            return there.__dlpack__(**options)

        def __dlpack_device__(self):
            return there.__dlpack_device__()

    there = cuda.to_device(numbers(3))
    cuda.as_cuda_array(OnlyDLPack())[0] = 5
    assert there[0] == 5


def test_a_class_whose_array_was_used_keeps_no_memory(device):
    gc.collect()
    before = memory.stats(device).in_use
    test_arrays_with_dlpack_are_used_in_place()
    gc.collect()  # a class is in a cycle with itself
    assert memory.stats(device).in_use == before


@pytest.mark.parametrize("obj", [np.zeros(3), np.float32(1), [1, 2], None])
def test_what_is_on_no_device_is_a_type_error(obj):
    with pytest.raises(TypeError, match=r"does not implement the cuda array interface.*to_device"):
        cuda.as_cuda_array(obj)


def test_is_cuda_array():
    there = cuda.to_device(numbers(3))
    assert cuda.is_cuda_array(there)
    assert cuda.is_cuda_array(Foreign(there))
    assert not cuda.is_cuda_array(numbers(3))


def test_the_interface_is_exported_on_nvidia_only(device):
    there = cuda.to_device(numbers(2, 3))
    assert hasattr(there, "__cuda_array_interface__") == (device.kind == "nvidia")
    if device.kind != "nvidia":
        with pytest.raises(AttributeError, match=r"NVIDIA.*DLPack"):
            _ = there.__cuda_array_interface__
        record = cuda.to_device(np.zeros(1, [("a", np.int32)])[0])
        with pytest.raises(AttributeError, match=r"NVIDIA.*DLPack"):
            _ = record.__cuda_array_interface__
