"""What arrays on GPUs tell other libraries, on a back end that does nothing."""

import numpy as np
import pytest

import haulage
from haulage.backends.null import NullBackend
from haulage.errors import DeviceMismatch
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import external_stream, per_thread_default_stream
from haulage.runtime.exchange import foreign
from haulage.runtime.protocols import offered
from haulage.runtime.protocols.cuda_array_interface import number_of, stream_numbered
from haulage.runtime.protocols.dlpack_structs import IS_COPIED, inside


class Recorder(NullBackend):
    """Notes which stream waits for which; its streams are busy as long as `busy` names them."""

    def __init__(self):
        super().__init__()
        self.busy = set()
        self.recorded = {}
        self.waits = []

    def stream_query(self, stream):
        return stream not in self.busy

    def event_record(self, event, stream):
        self.recorded[event] = stream

    def stream_wait_event(self, stream, event):
        self.waits.append((stream, self.recorded[event]))


@pytest.fixture(params=["nvidia", "amd"])
def gpu(request):
    return Device(request.param, Recorder(), 1)


@pytest.fixture
def nvidia():
    return Device("nvidia", Recorder(), 1)


def array_on(device, *shape, dtype="f4"):
    strides = np.empty(shape, dtype).strides
    return DeviceNDArray(shape, strides, dtype, device=device)


class Exporter:
    """Another library's array on a GPU; it gives what one of ours gives."""

    def __init__(self, array):
        self.array = array
        self.asked = []

    def __dlpack__(self, **options):
        self.asked.append(options)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Given:
    """Another library's array whose capsule the test has made."""

    def __init__(self, capsule, place):
        self.capsule = capsule
        self.place = place

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return self.place


# ---- DLPack -------------------------------------------------------------------------------------


def test_a_capsule_says_on_which_gpu_its_memory_is(gpu):
    there = array_on(gpu, 4, 6)[::-1, ::2]
    for version in (None, (1, 0)):
        tensor = inside(there.__dlpack__(max_version=version)).dl_tensor
        place = (tensor.device.device_type, tensor.device.device_id)
        assert place == there.__dlpack_device__() == ({"nvidia": 2, "amd": 10}[gpu.kind], 1)
        assert tensor.data == there.device_pointer
        assert (tensor.shape[:2], tensor.strides[:2]) == ([4, 3], [-6, 2])


def test_numpy_refuses_it(gpu):
    with pytest.raises((BufferError, RuntimeError), match=r"[Dd]evice"):
        np.from_dlpack(array_on(gpu, 3))


def test_the_host_is_given_a_copy_unless_that_is_forbidden(gpu):
    there = array_on(gpu, 3)
    managed = inside(there.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
    assert managed.flags == IS_COPIED
    assert managed.dl_tensor.device.device_type == 1
    assert np.from_dlpack(there, device="cpu").shape == (3,)
    with pytest.raises(BufferError, match="without a copy"):
        there.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(ValueError, match="on the host expected None"):
        there.__dlpack__(dl_device=(1, 0), stream=1)
    with pytest.raises(BufferError, match="asked for on kDLCUDA:0"):
        there.__dlpack__(dl_device=(2, 0))


def test_the_consumers_stream_waits_for_the_streams_that_use_the_array(gpu):
    there, user = array_on(gpu, 3), Stream.create(gpu)
    there.block.use(user)
    consumer = Stream.create(gpu)
    handle = 1 << 32
    gpu.backend.busy = {user.handle, 0}
    there.__dlpack__(stream=handle)
    assert sorted(gpu.backend.waits) == [(handle, 0), (handle, user.handle)]
    gpu.backend.waits.clear()
    gpu.backend.busy = {user.handle}
    there.__dlpack__()
    assert gpu.backend.waits == [(0, user.handle)]
    gpu.backend.waits.clear()
    there.__dlpack__(stream=-1)
    assert gpu.backend.waits == []
    gpu.backend.busy.clear()
    there.__dlpack__(stream=consumer.handle + (1 << 33))
    assert gpu.backend.waits == []


def test_streams_are_numbered_as_the_protocols_do():
    nvidia, amd = (Device(kind, NullBackend(), 0) for kind in ("nvidia", "amd"))
    for device, number in ((nvidia, None), (nvidia, 1), (amd, None), (amd, 0)):
        assert stream_numbered(device, number) is device.default_stream
    assert stream_numbered(nvidia, 1 << 32).handle == 1 << 32
    assert number_of(nvidia.default_stream) == 1
    assert number_of(amd.default_stream) == 0
    assert number_of(Stream(amd, 1 << 32)) == 1 << 32
    assert stream_numbered(nvidia, 2).handle == 2
    assert number_of(stream_numbered(nvidia, 2)) == 2
    for device, number in ((nvidia, 0), (nvidia, -2), (amd, 1), (amd, 2), (amd, -2)):
        with pytest.raises(ValueError, match=f"stream {number} of {device}"):
            stream_numbered(device, number)


def test_the_drivers_own_stream_of_a_thread_is_waited_for_in_the_default_one(nvidia):
    """Another thread, such as one that gives memory back, cannot ask for it."""
    of_thread = external_stream(nvidia, 2)
    assert (of_thread.handle, int(of_thread)) == (2, 2)
    there = array_on(nvidia, 3)
    there.block.use(of_thread)
    consumer = 1 << 32
    there.__dlpack__(stream=consumer)
    assert nvidia.backend.waits == [(consumer, 0)]
    there.__dlpack__(stream=2)
    assert nvidia.backend.waits[1:] == [(2, 0)]
    nvidia.backend.recorded.clear()
    del there
    assert set(nvidia.backend.recorded.values()) == {0}


def test_a_thread_has_a_stream_of_ours_besides(nvidia):
    ours = per_thread_default_stream(nvidia)
    assert ours is per_thread_default_stream(nvidia)
    assert int(ours) == ours.handle != 2
    assert ours.__cuda_stream__() == (0, ours.handle)


def test_a_tensor_of_the_same_gpu_is_used_in_place(gpu):
    exporter = Exporter(array_on(gpu, 4, 6)[::-1, ::2])
    taken = foreign.from_dlpack(exporter, device=gpu)
    assert taken.device is gpu
    assert taken.device_pointer == exporter.array.device_pointer
    assert taken.strides == exporter.array.strides
    number = {"nvidia": 1, "amd": 0}[gpu.kind]
    assert exporter.asked == [{"stream": number, "max_version": (1, 1)}]
    stream = Stream(gpu, 1 << 32)
    argument = offered.as_argument(DeviceNDArray, exporter, stream)
    assert argument.device_pointer == exporter.array.device_pointer
    assert exporter.asked[-1]["stream"] == 1 << 32


def test_the_producer_finds_its_structure_as_it_was(gpu):
    there = array_on(gpu, 3)
    capsule = there.__dlpack__(max_version=(1, 0))
    managed = inside(capsule)
    taken = foreign.from_dlpack(Given(capsule, there.__dlpack_device__()), device=gpu)
    assert repr(capsule).startswith('<capsule object "used_')
    assert managed.dl_tensor.device.device_type == there.__dlpack_device__()[0]
    assert managed.dl_tensor.device.device_id == 1
    assert taken.device_pointer == there.device_pointer


def test_a_tensor_of_the_host_is_copied_to_a_gpu_unless_that_is_forbidden(gpu):
    host = np.arange(3.0)
    assert foreign.from_dlpack(host, device=gpu).device is gpu
    with pytest.raises(BufferError, match=f"kDLCPU:0 cannot be used on {gpu} without a copy"):
        foreign.from_dlpack(host, device=gpu, copy=False)


def test_our_arrays_go_from_device_to_device_by_copies_only(gpu):
    with haulage.use("cpu") as cpu:
        there = array_on(gpu, 3)
        assert foreign.from_dlpack(there).device is gpu
        assert foreign.from_dlpack(there, device=cpu).device is cpu
        with pytest.raises(BufferError, match="without a copy"):
            foreign.from_dlpack(there, device=cpu, copy=False)


def test_kernels_and_arrays_of_two_gpus_do_not_mix(gpu):
    other = Device(gpu.kind, NullBackend(), 0)
    with pytest.raises(DeviceMismatch, match=rf":1 cannot be used in .*:0.*use\('{gpu.kind}:1'\)"):
        offered.as_argument(DeviceNDArray, Exporter(array_on(gpu, 3)), other.default_stream)


def test_a_foreign_tensor_on_a_gpu_is_copied_to_the_cpu_by_its_library(gpu):
    with haulage.use("cpu") as cpu:
        exporter = Exporter(array_on(gpu, 3))
        taken = foreign.from_dlpack(exporter)
        assert taken.device is cpu
        assert exporter.asked == [{"max_version": (1, 1), "dl_device": (1, 0)}]
        assert offered.is_on_device(exporter)
        assert not offered.is_on_device(Exporter(foreign.from_dlpack(np.arange(3))))


# ---- the CUDA array interface -------------------------------------------------------------------


def test_the_interface_describes_an_array(nvidia):
    there = array_on(nvidia, 2, 3)
    assert there.__cuda_array_interface__ == {
        "version": 3,
        "shape": (2, 3),
        "strides": None,
        "typestr": "<f4",
        "descr": [("", "<f4")],
        "data": (there.device_pointer, False),
        "stream": None,
    }
    view = there[::-1, ::2]
    view.readonly = True
    assert view.__cuda_array_interface__["strides"] == (-12, 8)
    assert view.__cuda_array_interface__["data"] == (there.device_pointer + 12, True)
    assert array_on(nvidia, 0, 3).__cuda_array_interface__["data"] == (0, False)


def test_the_interface_describes_records(nvidia):
    dtype = np.dtype([("a", "<i4"), ("b", "<f8")])
    described = array_on(nvidia, 3, dtype=dtype).__cuda_array_interface__
    assert described["typestr"] == "|V12"
    assert described["descr"] == [("a", "<i4"), ("b", "<f8")]
    desc = foreign.from_cuda_array_interface
    with haulage.use(nvidia):
        assert desc(described).dtype == dtype


def test_the_interface_names_a_stream_after_which_all_work_is_done(nvidia):
    user, bound = Stream.create(nvidia), Stream.create(nvidia)
    there = array_on(nvidia, 3).bind(bound)
    there.block.use(user)
    there.block.use(bound)
    nvidia.backend.busy = {user.handle}
    assert there.__cuda_array_interface__["stream"] == bound.handle
    assert nvidia.backend.waits == [(bound.handle, user.handle)]
    nvidia.backend.busy = {0}
    assert array_on(nvidia, 3).__cuda_array_interface__["stream"] == 1


def test_closed_arrays_have_no_interface_to_use(nvidia):
    there = array_on(nvidia, 3)
    there.close()
    with pytest.raises(ValueError, match="close"):
        _ = there.__cuda_array_interface__


def test_only_nvidia_has_the_interface():
    assert not hasattr(array_on(Device("amd", NullBackend(), 0), 3), "__cuda_array_interface__")
