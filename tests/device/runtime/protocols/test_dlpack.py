"""DLPack, out of device arrays and into them; NumPy is the other side."""

import gc
import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import haulage
from haulage import cuda
from haulage.errors import DeviceMismatch, DeviceNotFound, KernelError
from haulage.runtime import memory
from haulage.runtime.protocols.dlpack_structs import IS_COPIED, READ_ONLY, inside

pytestmark = pytest.mark.usefixtures("device")

quick = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
dtypes = st.sampled_from(
    ["?", "i1", "u2", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"],
)


@pytest.fixture
def on_host(device):
    """The device's memory is the host's, so that NumPy can look at it."""
    if not device.properties.host_memory_is_device_memory:
        pytest.skip(f"NumPy cannot address the memory of {device}")


@st.composite
def host_arrays(draw):
    """A host array that may be transposed, stepped and flipped."""
    dtype = np.dtype(draw(dtypes))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    array = (np.arange(np.prod(shape)) % 2).astype(dtype).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 1, 2, -1, -2]))) for _ in array.shape)
    return array[(*steps, ...)]


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def in_use():
    gc.collect()
    usage = memory.stats().get(str(cuda.get_current_device()), {}).get("device")
    return usage.in_use if usage else 0


class OnlyDLPack:
    """An array of a library that has DLPack and nothing else."""

    def __init__(self, array, place=None):
        self.array = array
        self.place = place
        self.asked = []

    def __dlpack__(self, **options):
        self.asked.append(options)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.place or self.array.__dlpack_device__()


class BeforeOne(OnlyDLPack):
    """Such an array of a library from before DLPack 1.0."""

    def __dlpack__(self, stream=None):
        self.asked.append({"stream": stream})
        return self.array.__dlpack__(stream=stream)


class Capsule:
    """An exporter of one capsule that the test has made."""

    def __init__(self, capsule, place=(1, 0)):
        self.capsule = capsule
        self.place = place

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return self.place


# ---- out ----------------------------------------------------------------------------------------


@quick
@given(host_arrays())
def test_numpy_sees_any_array_of_the_device_in_place(on_host, array):
    there = cuda.to_device(array)
    seen = np.from_dlpack(there)
    assert (seen.shape, seen.dtype) == (array.shape, array.dtype)
    assert np.array_equal(seen, array)
    seen[...] = 1
    assert np.array_equal(there.copy_to_host(), np.ones_like(array))


@quick
@given(
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5).flatmap(
        lambda shape: st.tuples(
            st.just(shape), hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)
        )
    )
)
def test_numpy_sees_any_view_in_place(on_host, case):
    shape, key = case
    host = numbers(*shape)
    there = cuda.to_device(host)
    view = there[key]
    if not isinstance(view, cuda.DeviceNDArray):
        return
    seen = np.from_dlpack(view)
    assert np.array_equal(seen, host[key])
    seen[...] = -1
    host[key] = -1
    assert np.array_equal(there.copy_to_host(), host)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((1, 3), "dltensor_versioned"),
        ((2, 0), "dltensor_versioned"),
    ],
)
def test_a_capsule_is_of_the_version_that_the_consumer_takes(version, name):
    assert f'"{name}"' in repr(cuda.to_device(numbers(3)).__dlpack__(max_version=version))


def test_a_capsule_names_device_dtype_shape_strides_and_address(device):
    there = cuda.to_device(numbers(4, 6))[::-1, ::2]
    tensor = inside(there.__dlpack__(max_version=(1, 0))).dl_tensor
    number = {"cpu": 1, "nvidia": 2, "amd": 10}[device.kind]
    assert there.__dlpack_device__() == (number, device.id)
    assert (tensor.device.device_type, tensor.device.device_id) == (number, device.id)
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (2, 32, 1)
    assert tensor.ndim == 2
    assert (tensor.shape[:2], tensor.strides[:2]) == ([4, 3], [-6, 2])
    assert tensor.data + tensor.byte_offset == there.device_pointer


def test_a_capsule_without_elements_has_no_address():
    tensor = inside(cuda.to_device(numbers(3, 0)).__dlpack__(max_version=(1, 0))).dl_tensor
    assert tensor.data is None
    assert tensor.shape[:2] == [3, 0]


def test_an_export_waits_for_work_that_uses_the_array(on_host, hold_up):
    stream = cuda.stream()
    there = cuda.to_device(numbers(1000))
    other = cuda.to_device(-numbers(1000))
    seen = []
    with hold_up(stream):
        there.copy_to_device(other, stream=stream)
        exporting = threading.Thread(target=lambda: seen.append(np.from_dlpack(there).copy()))
        exporting.start()
        exporting.join(0.1)
        assert exporting.is_alive()
    exporting.join()
    assert np.array_equal(seen[0], -numbers(1000))


def test_an_export_does_not_wait_for_work_on_other_arrays(on_host, hold_up):
    stream = cuda.stream()
    there, other = cuda.to_device(numbers(10)), cuda.to_device(numbers(10))
    source = cuda.pinned_array(10, np.float32)
    with hold_up(stream):
        other.copy_to_device(source, stream=stream)
        # The default stream waits for all others, so none of its work is handed over here.
        assert np.array_equal(np.from_dlpack(there), numbers(10))
        assert not stream.query()


@cuda.jit
def fails(a):
    a[cuda.grid(1)] = 1
    raise ValueError("no")


def test_an_export_raises_what_failed_in_a_kernel_that_uses_the_array(on_host):
    there = cuda.to_device(numbers(1))
    stream = cuda.stream()
    fails[1, 1, stream](there)
    with pytest.raises(KernelError, match="no"):
        there.__dlpack__()
    assert np.array_equal(np.from_dlpack(there), [1])


def test_the_cpu_has_no_streams_for_consumers(on_host):
    with pytest.raises(ValueError, match=r"stream 1: .* expected None"):
        cuda.to_device(numbers(3)).__dlpack__(stream=1)


def test_copy_true_gives_memory_that_nobody_else_uses(on_host):
    there = cuda.to_device(numbers(6))[::-2]
    capsule = there.__dlpack__(max_version=(1, 0), copy=True)
    assert inside(capsule).flags == IS_COPIED
    seen = np.from_dlpack(there, copy=True)
    seen[:] = 0
    assert np.array_equal(there.copy_to_host(), [5, 3, 1])


def test_copy_false_shares_the_memory(on_host):
    there = cuda.to_device(numbers(6))
    assert inside(there.__dlpack__(max_version=(1, 0), copy=False)).flags == 0
    np.from_dlpack(there, copy=False)[0] = 9
    assert there[0] == 9


def test_an_array_can_be_asked_for_on_its_own_device_and_the_host_only(device):
    there = cuda.to_device(numbers(3))
    there.__dlpack__(dl_device=there.__dlpack_device__())
    assert np.array_equal(np.from_dlpack(there, device="cpu"), numbers(3))
    with pytest.raises(BufferError, match=r"kDLCUDA:7.*kDLCPU:0"):
        there.__dlpack__(dl_device=(2, 7))


def test_a_read_only_array_stays_so(on_host):
    host = numbers(3)
    host.flags.writeable = False
    there = cuda.from_dlpack(host)
    assert inside(there.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    assert not np.from_dlpack(there).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        there.__dlpack__()
    # A copy is the consumer's own.
    assert inside(there.__dlpack__(max_version=(1, 0), copy=True)).flags == IS_COPIED
    there.__dlpack__(copy=True)


@pytest.mark.parametrize("dtype", ["M8[ns]", "m8[s]", "S3", "U2", ">f4", "i4,f8", "V5", "g", "G"])
def test_a_dtype_that_dlpack_lacks_is_a_buffer_error(dtype):
    there = cuda.to_device(np.zeros(3, dtype))
    for options in ({}, {"max_version": (1, 0)}, {"copy": True}):
        with pytest.raises(BufferError, match="DLPack has no dtype"):
            there.__dlpack__(**options)


def test_strides_within_elements_are_a_buffer_error_unless_copied(on_host):
    records = np.zeros(3, "u1,f8")
    records["f1"] = [1, 2, 3]
    field = cuda.to_device(records)["f1"]
    assert field.strides == (9,)
    with pytest.raises(BufferError, match="not multiples of the 8 bytes"):
        field.__dlpack__(max_version=(1, 0))
    assert np.array_equal(np.from_dlpack(field, copy=True), [1, 2, 3])


def test_the_memory_lives_as_long_as_the_consumer_holds_it(on_host):
    before = in_use()
    there = cuda.to_device(numbers(1000))
    seen = np.from_dlpack(there)
    del there
    assert in_use() == before + 4000
    assert np.array_equal(seen[::-1], numbers(1000)[::-1])
    view = seen[5:]
    del seen
    assert in_use() == before + 4000
    del view
    assert in_use() == before


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_nobody_consumed_gives_the_memory_back(version):
    before = in_use()
    capsule = cuda.to_device(numbers(1000)).__dlpack__(max_version=version)
    assert in_use() == before + 4000
    del capsule
    assert in_use() == before


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_consumer_that_refuses_a_capsule_gives_the_memory_back(version):
    before = in_use()
    capsules = [cuda.to_device(numbers(1000)).__dlpack__(max_version=version)]
    inside(capsules[0]).dl_tensor.dtype.code = 99

    class GivesAway(Capsule):
        def __dlpack__(self, **options):
            return capsules.pop()

    # NumPy drops the last reference while its own error is under way.
    with pytest.raises((BufferError, RuntimeError), match=r"Unsupported (dtype|device)"):
        np.from_dlpack(GivesAway(None))
    assert in_use() == before


def test_closing_leaves_the_memory_to_those_who_have_it(on_host):
    before = in_use()
    there = cuda.to_device(numbers(1000))
    seen = np.from_dlpack(there)
    with haulage.adversary(1):  # what is freed holds garbage
        there.close()
        with pytest.raises(ValueError, match="close"):
            there.__dlpack__()
        assert np.array_equal(seen, numbers(1000))
        del there
        assert np.array_equal(seen, numbers(1000))
    del seen
    assert in_use() == before


def test_consumers_of_other_threads_give_the_memory_back(on_host):
    before = in_use()

    def consume():
        for _ in range(20):
            np.from_dlpack(cuda.to_device(numbers(100)))[:] = 1

    with_device = [threading.Thread(target=consume) for _ in range(4)]
    for thread in with_device:
        thread.start()
    for thread in with_device:
        thread.join()
    assert in_use() == before


def run(program, device):
    """Run a program in a process of its own; it must end well and say nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env={**os.environ, "HAULAGE_DEVICE": str(device)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_process_ends_well_with_tensors_held(device, on_host):
    run(
        """
        import atexit, sys
        import numpy as np
        from haulage import cuda

        def last():
            assert seen.sum() == 45
            late.append(np.from_dlpack(there))

        atexit.register(last)
        there = cuda.to_device(np.arange(10.0))
        seen = np.from_dlpack(there)
        taken = cuda.from_dlpack(np.arange(10.0))
        capsule = there.__dlpack__()
        late = [seen, capsule]
        sys.held = (seen, capsule, taken, late)
        """,
        device,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_process_can_use_and_drop_tensors(device, on_host):
    run(
        """
        import os, warnings
        import numpy as np
        from haulage import cuda

        there = cuda.to_device(np.arange(10.0))
        seen, capsule = np.from_dlpack(there), there.__dlpack__()
        host = np.arange(10.0)
        taken = cuda.from_dlpack(host)
        warnings.simplefilter("ignore")  # newer Pythons warn of forks with threads
        child = os.fork()
        if child == 0:
            assert seen.sum() == 45 and taken.copy_to_host().sum() == 45
            del seen, capsule, there, taken
            seen = np.from_dlpack(cuda.to_device(np.ones(3)))
            os._exit(0 if seen.sum() == 3 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert seen.sum() == 45
        """,
        device,
    )


# ---- in -----------------------------------------------------------------------------------------


@quick
@given(host_arrays())
def test_any_numpy_array_can_be_used_in_place(on_host, array):
    taken = cuda.from_dlpack(array)
    assert (taken.shape, taken.dtype) == (array.shape, array.dtype)
    assert np.array_equal(taken.copy_to_host(), array)
    if array.size:
        assert taken.device_pointer == array.ctypes.data
        taken.copy_to_device(np.ones_like(array))
        assert np.array_equal(array, np.ones_like(array))


@quick
@given(host_arrays())
def test_any_numpy_array_can_be_copied_in(array):
    kept = array.copy()
    taken = cuda.from_dlpack(array, copy=True)
    assert np.array_equal(taken.copy_to_host(), kept)
    taken.fill(1)
    assert np.array_equal(array, kept)


@quick
@given(host_arrays())
def test_our_arrays_go_through_dlpack_and_back(array):
    there = cuda.to_device(array)
    back = cuda.from_dlpack(OnlyDLPack(there))
    assert back.device_pointer == there.device_pointer or not array.size
    assert (back.shape, back.dtype) == (there.shape, there.dtype)
    assert np.array_equal(back.copy_to_host(), array)


def test_exporters_are_asked_for_the_newest_version(on_host):
    exporter = OnlyDLPack(numbers(3))
    cuda.from_dlpack(exporter)
    cuda.from_dlpack(exporter, copy=False)
    assert exporter.asked == [{"max_version": (1, 1)}, {"max_version": (1, 1), "copy": False}]


@pytest.mark.parametrize("copy", [None, False, True])
def test_exporters_from_before_dlpack_1_can_be_used_and_written(on_host, copy):
    host = numbers(3)
    taken = cuda.from_dlpack(BeforeOne(host), copy=copy)
    taken[0] = 5
    assert host[0] == (0 if copy else 5)


def test_a_type_error_of_an_exporter_is_seen():
    class Broken(OnlyDLPack):
        def __dlpack__(self, **options):
            raise TypeError("broken")

    with pytest.raises(TypeError, match="broken"):
        cuda.from_dlpack(Broken(numbers(3)))


def test_a_read_only_tensor_cannot_be_written(on_host):
    host = numbers(3)
    host.flags.writeable = False
    taken = cuda.from_dlpack(host)
    assert taken.flags["WRITEABLE"] is False
    with pytest.raises(ValueError, match="read-only"):
        taken[0] = 1
    assert cuda.from_dlpack(host, copy=True).flags["WRITEABLE"] is True


class Watched(np.ndarray):
    """A NumPy array that a weak reference can watch."""


def watched(*shape):
    host = numbers(*shape).view(Watched)
    return host, weakref.ref(host)


def test_the_producer_gets_its_tensor_back_once_the_last_view_is_gone(on_host):
    host, alive = watched(10)
    taken = cuda.from_dlpack(host)
    view = taken[2:4]
    del host, taken
    gc.collect()
    assert alive() is not None
    assert np.array_equal(view.copy_to_host(), [2, 3])
    del view
    gc.collect()
    assert alive() is None


def test_the_producer_gets_its_tensor_back_only_after_work_that_uses_it(on_host, hold_up):
    host, alive = watched(10)
    taken = cuda.from_dlpack(host)
    other = cuda.to_device(numbers(10))
    stream = cuda.stream()
    with hold_up(stream):
        other.copy_to_device(taken, stream=stream)
        del host, taken
        gc.collect()
        assert alive() is not None
    stream.synchronize()
    memory.reap()
    gc.collect()
    assert alive() is None


def test_close_gives_the_tensor_back_to_the_producer(on_host):
    host, alive = watched(10)
    taken = cuda.from_dlpack(host)
    del host
    taken.close()
    gc.collect()
    assert alive() is None
    with pytest.raises(ValueError, match="close"):
        taken.copy_to_host()


def test_our_own_arrays_give_views(device):
    there = cuda.to_device(numbers(4))
    view = cuda.from_dlpack(there)
    view[0] = 9
    assert there[0] == 9
    assert cuda.from_dlpack(there, device=str(device)).block is there.block
    copied = cuda.from_dlpack(there, copy=True)
    copied[0] = 1
    assert there[0] == 9


def test_mapped_arrays_give_views(device):
    mapped = cuda.mapped_array(4, np.float32)
    mapped[:] = 1
    view = cuda.from_dlpack(mapped)
    view[0] = 9
    assert mapped[0] == 9
    assert view.block is mapped.block


def test_what_has_no_dlpack_is_a_type_error():
    with pytest.raises(TypeError, match=r"from_dlpack\(list\).*to_device"):
        cuda.from_dlpack([1, 2])

    class Half:
        def __dlpack__(self):
            return None

    with pytest.raises(TypeError, match="__dlpack_device__"):
        cuda.from_dlpack(Half())


def test_a_tensor_whose_memory_is_not_all_of_it_is_refused():
    class Negative(OnlyDLPack):
        """As PyTorch's imaginary part of a conjugate: DLPack gives it without the sign."""

        requires_grad = False

        def is_conj(self):
            return False

        def is_neg(self):
            return True

    with pytest.raises(BufferError, match=r"Negative object that is a negative view.*resolve_neg"):
        cuda.from_dlpack(Negative(numbers(3)))


def test_what_jax_traces_has_no_elements():
    tracer = type("Tracer", (), {"__module__": "jax._src.core", "__dlpack__": None})
    with pytest.raises(TypeError, match=r"a value that JAX traces has no elements.*pure_callback"):
        cuda.from_dlpack(type("DynamicJaxprTracer", (tracer,), {})())


def test_an_array_that_was_deleted_says_so():
    class Deleted(OnlyDLPack):
        def __dlpack_device__(self):
            return len(None)

        def is_deleted(self):
            return True

    with pytest.raises(ValueError, match="Deleted object that was deleted or donated"):
        cuda.from_dlpack(Deleted(numbers(3)))
    Deleted.is_deleted = lambda self: False
    with pytest.raises(TypeError, match="NoneType"):
        cuda.from_dlpack(Deleted(numbers(3)))


def test_a_tensor_of_another_device_is_asked_for_on_the_host():
    class Elsewhere(OnlyDLPack):
        def __dlpack__(self, *, dl_device=None, **options):
            assert dl_device == (1, 0)
            return self.array.__dlpack__(copy=True, **options)

    taken = cuda.from_dlpack(Elsewhere(numbers(3), place=(8, 5)))
    assert np.array_equal(taken.copy_to_host(), numbers(3))


def test_a_tensor_of_another_device_that_is_not_copied_names_both(device):
    with pytest.raises(DeviceMismatch, match=f"device type 8:5.*{device}"):
        cuda.from_dlpack(BeforeOne(numbers(3), place=(8, 5)))

    class Refuses(OnlyDLPack):
        def __dlpack__(self, *, copy=None, dl_device=None, **options):
            assert copy is False
            raise BufferError("never")

    with pytest.raises(DeviceMismatch, match="never"):
        cuda.from_dlpack(Refuses(numbers(3), place=(8, 5)), copy=False)


def test_an_exporter_that_gives_another_place_than_it_named_is_refused():
    capsule = numbers(3).__dlpack__(max_version=(1, 0))
    inside(capsule).dl_tensor.device.device_type = 8
    with pytest.raises(BufferError, match="device type 8:0"):
        cuda.from_dlpack(Capsule(capsule))


@pytest.mark.parametrize("kind", [1, 3, 11, 13])
def test_all_memory_of_the_host_is_understood(on_host, kind):
    host = numbers(3)
    capsule = host.__dlpack__(max_version=(1, 0))
    inside(capsule).dl_tensor.device.device_type = kind
    taken = cuda.from_dlpack(Capsule(capsule, (kind, 0)))
    taken[0] = 7
    assert host[0] == 7


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_offsets_count_and_missing_strides_mean_c_order(on_host, version):
    host = numbers(2, 3)
    capsule = host.__dlpack__(max_version=version)
    tensor = inside(capsule).dl_tensor
    tensor.strides = None
    tensor.shape[0] = 1
    tensor.byte_offset = 12
    assert np.array_equal(cuda.from_dlpack(Capsule(capsule)).copy_to_host(), host[1:])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("code", 4, "bfloat16"),
        ("code", 17, "type code 17"),
        ("bits", 4, "4 bits"),
        ("lanes", 4, "4"),
    ],
)
def test_elements_without_a_numpy_dtype_are_a_buffer_error(field, value, message):
    host, alive = watched(3)
    exporter = Capsule(host.__dlpack__(max_version=(1, 0)))
    setattr(inside(exporter.capsule).dl_tensor.dtype, field, value)
    del host
    with pytest.raises(BufferError, match=message):
        cuda.from_dlpack(exporter)
    assert alive() is not None
    del exporter
    gc.collect()
    assert alive() is None


def test_a_capsule_of_another_major_version_is_a_buffer_error():
    capsule = numbers(3).__dlpack__(max_version=(1, 0))
    inside(capsule).version.major = 2
    with pytest.raises(BufferError, match=r"version 2\.0: expected 1\.x"):
        cuda.from_dlpack(Capsule(capsule))


def test_a_capsule_can_be_consumed_once(on_host):
    exporter = Capsule(numbers(3).__dlpack__(max_version=(1, 0)))
    cuda.from_dlpack(exporter)
    with pytest.raises(BufferError, match="consumed"):
        cuda.from_dlpack(exporter)
    with pytest.raises(BufferError, match="not a DLPack capsule"):
        cuda.from_dlpack(Capsule("capsule"))


def test_elements_that_are_not_aligned_are_copied_or_refused(on_host):
    raw = np.zeros(17, np.uint8)
    host = raw[1:].view(np.float64)
    host[:] = [1, 2]
    taken = cuda.from_dlpack(host)
    assert np.array_equal(taken.copy_to_host(), [1, 2])
    assert taken.device_pointer % 8 == 0
    with pytest.raises(BufferError, match="not aligned"):
        cuda.from_dlpack(host, copy=False)


def test_the_array_is_bound_to_the_stream_that_is_given(device):
    stream = cuda.stream()
    assert cuda.from_dlpack(numbers(3), stream=stream).stream == stream
    assert cuda.from_dlpack(cuda.to_device(numbers(3)), stream=stream).stream == stream
    assert cuda.from_dlpack(numbers(3)).stream == 0
    # A value is waited for in the default stream, unless it was named.
    assert type(cuda.from_dlpack(numbers(3)).stream) is int
    assert cuda.from_dlpack(numbers(3), stream=cuda.default_stream()).stream


def test_the_device_can_be_named(device):
    assert cuda.from_dlpack(numbers(3), device=str(device)).device is device
    assert cuda.from_dlpack(numbers(3), device=device).device is device
    with pytest.raises(DeviceNotFound, match="from_dlpack: device 'abacus'"):
        cuda.from_dlpack(numbers(3), device="abacus")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_torch_and_haulage_share_memory(on_host):
    torch = importlib.import_module("torch")
    there = cuda.to_device(numbers(2, 3))
    tensor = torch.from_dlpack(there)
    tensor[0, 0] = 9
    assert there[0, 0] == 9
    back = cuda.from_dlpack(tensor.T)
    assert back.device_pointer == there.device_pointer
    assert np.array_equal(back.copy_to_host(), there.copy_to_host().T)
