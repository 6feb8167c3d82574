"""Arrays of libraries that work in streams of their own: the order of their work and of ours.

The device is that of `doubles.far`, which counts as NVIDIA's here.
"""

import contextlib
import dataclasses
import gc
import threading
import weakref

import numpy as np
import pytest

import haulage
from doubles.far import FarBackend
from doubles.library import Library
from haulage import cuda
from haulage.backends.base import NON_BLOCKING
from haulage.errors import CompileError
from haulage.platforms import PLATFORMS
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import Driver
from haulage.runtime.process import runtime
from haulage.runtime.protocols.dlpack_structs import inside


class CountingBackend(FarBackend):
    """Counts the events that are recorded."""

    recorded = 0

    def event_record(self, event, stream):
        self.recorded += 1
        super().event_record(event, stream)


@pytest.fixture(scope="module")
def made():
    return Device("nvidia", CountingBackend(), 0)


@pytest.fixture
def gpu(made, monkeypatch):
    protocols = PLATFORMS["nvidia"].protocols
    driver = Driver("nvidia", FarBackend.probe, lambda: made.backend, protocols=protocols)
    monkeypatch.setitem(runtime.current.drivers, "nvidia", driver)
    monkeypatch.setitem(runtime.current.found, "nvidia", (made,))
    monkeypatch.setitem(PLATFORMS, "nvidia", dataclasses.replace(PLATFORMS["cpu"], name="nvidia"))
    with haulage.use(made):
        yield made
        made.synchronize()


@pytest.fixture
def library(gpu):
    made = Library(gpu)
    yield made
    gpu.synchronize()
    made.close()


@pytest.fixture
def hold_up(gpu):
    @contextlib.contextmanager
    def held_up(handle):
        opened = threading.Event()
        gpu.activate()
        gpu.backend.stream_callback(handle, lambda: opened.wait(60))
        try:
            yield
        finally:
            opened.set()

    return held_up


@cuda.jit
def double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


@cuda.jit
def add_to(out, a, b):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += a[i] + b[i]


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


KINDS = ["with_exchange_api", "with_interface"]


def launched_before(launcher, *arguments):
    """Launch twice, so that the next launch is one that is repeated."""
    launcher(*arguments)
    launcher(*arguments)
    cuda.synchronize()


# ---- kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "before_exchange_api"])
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("in_stream", [False, True])
def test_a_kernel_waits_for_what_the_library_has_queued(
    gpu, library, hold_up, kind, repeated, in_stream
):
    there = cuda.to_device(numbers(5))
    theirs = getattr(library, kind)(there)
    stream = cuda.stream() if in_stream else cuda.default_stream()
    launcher = double[1, 8, stream if in_stream else 0]
    if repeated:
        launched_before(launcher, theirs)
    source = cuda.to_device(-numbers(5))
    with hold_up(library.current):
        there.copy_to_device(source, stream=cuda.external_stream(library.current))
        launcher(theirs)
        assert not stream.query()
    stream.synchronize()
    assert np.array_equal(there.copy_to_host(), -2 * numbers(5))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeated", [False, True])
def test_the_librarys_later_work_waits_for_a_kernel(library, hold_up, kind, repeated):
    there, before = cuda.to_device(numbers(5)), cuda.to_device(np.zeros(5, np.float32))
    theirs = getattr(library, kind)(there)
    stream = cuda.stream()
    launcher = double[1, 8, stream]
    if repeated:
        launched_before(launcher, theirs)
    with hold_up(stream.handle):
        there.copy_to_device(before, stream=stream)
        launcher(theirs)
        assert library.busy()
    stream.synchronize()
    cuda.external_stream(library.current).synchronize()
    assert not library.busy()


@pytest.mark.parametrize("kind", KINDS)
def test_two_arrays_of_a_library_are_ordered_once(gpu, library, kind):
    a, b, out = (getattr(library, kind)(cuda.to_device(numbers(5))) for _ in range(3))
    launched_before(add_to[1, 8], out, a, b)
    before = gpu.backend.recorded
    add_to[1, 8](out, a, b)
    assert gpu.backend.recorded - before == 2  # one before the kernel, one behind it


@pytest.mark.parametrize("kind", KINDS)
def test_in_the_librarys_own_stream_nothing_is_ordered(gpu, library, kind):
    a, b, out = (cuda.to_device(numbers(5)) for _ in range(3))
    theirs = [getattr(library, kind)(each) for each in (out, a, b)]
    launcher = add_to[1, 8, cuda.external_stream(library.current)]
    launched_before(launcher, *theirs)
    before = gpu.backend.recorded
    launcher(*theirs)
    assert gpu.backend.recorded == before
    cuda.synchronize()
    assert np.array_equal(out.copy_to_host(), 7 * numbers(5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_library_that_works_in_the_default_stream_needs_no_order(gpu, library, kind):
    own, library.current = library.current, 1
    try:
        theirs = getattr(library, kind)(cuda.to_device(numbers(5)))
        if kind == "with_exchange_api":
            library.current = 0  # as PyTorch calls it
        launched_before(double[1, 8], theirs)
        before = gpu.backend.recorded
        double[1, 8](theirs)
        assert gpu.backend.recorded == before
    finally:
        library.current = own


def test_the_order_can_be_left_to_the_program(gpu, library, monkeypatch, hold_up):
    monkeypatch.setenv("NUMBA_CUDA_ARRAY_INTERFACE_SYNC", "0")
    theirs = library.with_interface(cuda.to_device(numbers(5)))
    with hold_up(library.current):
        for _ in range(3):
            double[1, 8](theirs)
        made = cuda.as_cuda_array(theirs)
        cuda.default_stream().synchronize()
    assert np.array_equal(made.copy_to_host(), 8 * numbers(5))
    monkeypatch.setenv("NUMBA_CUDA_ARRAY_INTERFACE_SYNC", "maybe")
    with pytest.raises(ValueError, match=r"INTERFACE_SYNC='maybe': expected 1, or 0"):
        cuda.as_cuda_array(theirs)


def test_a_tensor_without_a_stream_in_its_interface_goes_by_dlpack(library):
    theirs = library.before_exchange_api(cuda.to_device(numbers(5)))
    double[1, 8](theirs)
    stream = cuda.stream()
    double[1, 8, stream](theirs)
    made = cuda.as_cuda_array(theirs)
    assert library.asked == [1, stream.handle, 1]
    assert np.array_equal(made.copy_to_host(), 4 * numbers(5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_launch_tells_shapes_dtypes_and_strides_apart(library, kind):
    @cuda.jit
    def number(x):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            x[i, j] = 10 * i + j

    launcher = number[1, (8, 8)]
    for dtype in (np.int32, np.float32, np.int64, np.float32):
        for view in (np.s_[:2, :3], np.s_[::2, ::2], np.s_[2:, 5:2:-1], np.s_[:0], np.s_[:1, :1]):
            there = cuda.to_device(np.zeros((4, 6), dtype))
            expected = np.zeros((4, 6), dtype)
            rows, columns = expected[view].shape
            expected[view] = 10 * np.arange(rows)[:, None] + np.arange(columns)
            for _ in range(3):
                launcher(getattr(library, kind)(there[view]))
                assert np.array_equal(there.copy_to_host(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_elements_that_are_not_aligned_are_refused_each_time(library, kind):
    raw = cuda.to_device(np.zeros(33, np.uint8))
    whole, shifted = raw[:32].view(np.float32), raw[:32].view(np.float32)
    shifted.device_pointer += 1
    launcher = double[1, 8]
    launched_before(launcher, getattr(library, kind)(whole))
    for _ in range(2):
        with pytest.raises(BufferError, match="not aligned"):
            launcher(getattr(library, kind)(shifted))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_cannot_write_to_a_read_only_array(library, kind):
    there = cuda.to_device(numbers(5))
    launched_before(double[1, 8], getattr(library, kind)(there))
    kept = there.copy_to_host()
    there.readonly = True
    for _ in range(2):
        with pytest.raises(CompileError):
            double[1, 8](getattr(library, kind)(there))
    assert np.array_equal(there.copy_to_host(), kept)
    out = cuda.to_device(np.zeros(5, np.float32))
    for _ in range(3):
        add_to[1, 8](out, *[getattr(library, kind)(there)] * 2)
    assert np.array_equal(out.copy_to_host(), 6 * kept)


def test_every_tensor_of_the_c_api_is_given_back(library):
    theirs = library.with_exchange_api(cuda.to_device(numbers(5)))
    launched_before(double[1, 8], theirs)
    assert not library.held


def test_tensors_of_pytorch_take_the_short_way(library):
    there = cuda.to_device(numbers(5))
    theirs = library.with_exchange_api(there, library.Tensor)
    for _ in range(3):
        double[1, 8](theirs)
    assert np.array_equal(there.copy_to_host(), 8 * numbers(5))
    assert next(library._contexts) == 1  # none was made


def test_another_version_of_the_c_api_is_not_used(library):
    table = library.Array._kept[1]
    table.version.major = 2
    there = cuda.to_device(numbers(5))
    theirs = library.with_exchange_api(there)
    for _ in range(2):
        double[1, 8](theirs)
    assert np.array_equal(there.copy_to_host(), 4 * numbers(5))
    assert library.asked == [1, 1]


def test_a_tensor_of_another_version_is_refused_and_given_back(library):
    theirs = library.with_exchange_api(cuda.to_device(numbers(5)))
    launched_before(double[1, 8], theirs)
    library.version = (2, 0)
    for _ in range(2):
        with pytest.raises(BufferError, match=r"another version than 1\.x"):
            double[1, 8](theirs)
    assert not library.held


def test_a_tensor_without_strides_is_in_c_order(library):
    library.tells_strides = False
    there = cuda.to_device(numbers(3, 4))

    @cuda.jit
    def number(x):
        i, j = cuda.grid(2)
        x[i, j] = 10 * i + j

    for _ in range(3):
        there.fill(0)
        number[1, (3, 4)](library.with_exchange_api(there))
        assert there.copy_to_host()[2].tolist() == [20, 21, 22, 23]


@pytest.mark.parametrize("tells_strides", [True, False])
def test_a_tensor_without_axes_is_an_element(library, tells_strides):
    @cuda.jit
    def more(x):
        x[()] += 1

    library.tells_strides = tells_strides
    there = cuda.to_device(np.float32(0))
    for kind in (library.Array, library.Tensor):
        for _ in range(3):
            more[1, 1](library.with_exchange_api(there, kind))
    assert there.copy_to_host() == 6


def test_a_tensor_of_the_host_is_used_by_the_cpu_and_copied_to_a_gpu(gpu):
    """As a tensor of PyTorch's on the CPU."""
    with haulage.use("cpu") as cpu:
        library, on_host = Library(cpu), cuda.to_device(numbers(5))
        theirs = library.with_exchange_api(on_host)
        for _ in range(3):
            double[1, 8](theirs)
        assert np.array_equal(np.from_dlpack(on_host), 8 * numbers(5))
    for _ in range(3):
        double[1, 8](theirs)
    assert np.array_equal(np.from_dlpack(on_host), 64 * numbers(5))
    library.close()


def test_masks_are_refused_each_time(library):
    there = cuda.to_device(numbers(5))
    launched_before(double[1, 8], library.with_interface(there))
    with pytest.raises(NotImplementedError, match="Masked"):
        double[1, 8](library.with_interface(there, mask=object()))


# ---- arrays that are kept -----------------------------------------------------------------------


def imports(library, there):
    yield lambda: cuda.as_cuda_array(library.with_interface(there))
    yield lambda: cuda.to_device(library.with_interface(there))
    yield lambda: cuda.as_cuda_array(library.with_exchange_api(there))
    yield lambda: cuda.from_dlpack(library.with_exchange_api(there))


@pytest.mark.parametrize("how", range(4))
def test_work_on_an_import_waits_for_the_library_and_the_host_does_not(gpu, library, hold_up, how):
    there, source = cuda.to_device(numbers(5)), cuda.to_device(-numbers(5))
    handle = gpu.backend.stream_create(NON_BLOCKING)
    unordered = cuda.external_stream(handle)
    with hold_up(library.current):
        there.copy_to_device(source, stream=cuda.external_stream(library.current))
        made = list(imports(library, there))[how]()
        double[1, 8, unordered](made)
        assert not unordered.query()
    unordered.synchronize()
    assert np.array_equal(made.copy_to_host(), -2 * numbers(5))
    del made
    gpu.synchronize()
    gpu.backend.stream_destroy(handle)


@pytest.mark.parametrize("how", range(4))
def test_when_an_import_is_gone_the_library_waits_for_what_used_it(library, hold_up, how):
    there, before = cuda.to_device(numbers(5)), cuda.to_device(numbers(5))
    stream = cuda.stream()
    made = list(imports(library, there))[how]()
    cuda.external_stream(library.current).synchronize()
    with hold_up(stream.handle):
        there.copy_to_device(before, stream=stream)
        double[1, 8, stream](made)
        assert not library.busy()
        with cuda.defer_cleanup():
            del made
            assert library.busy()
    stream.synchronize()


def test_an_import_is_bound_to_the_stream_of_its_interface(library):
    made = cuda.as_cuda_array(library.with_interface(cuda.to_device(numbers(5))))
    assert made.stream.handle == library.current


def test_a_copy_waits_for_the_library_and_the_library_for_the_copy(library, hold_up):
    there, source = cuda.to_device(numbers(5)), cuda.to_device(-numbers(5))
    target, stream = cuda.to_device(numbers(5)), cuda.stream()
    with hold_up(library.current):
        there.copy_to_device(source, stream=cuda.external_stream(library.current))
        target.copy_to_device(library.with_interface(there), stream=stream)
        assert not stream.query()
    stream.synchronize()
    assert np.array_equal(target.copy_to_host(), -numbers(5))
    cuda.synchronize()
    with hold_up(stream.handle):
        target.copy_to_device(library.with_interface(there), stream=stream)
        assert library.busy()


# ---- arrays that others take --------------------------------------------------------------------


@pytest.mark.parametrize(("make", "number"), [(cuda.mapped_array, 3), (cuda.managed_array, 13)])
def test_memory_of_the_host_is_given_as_what_it_is_asked_for(gpu, make, number):
    array = make(6, np.float32)
    array[:] = numbers(6)
    assert array.__dlpack_device__() == (1, 0)
    for place, pointer in (
        ((1, 0), array.ctypes.data),
        ((number, 0), array.ctypes.data),
        ((2, 0), array.device_pointer),
    ):
        tensor = inside(array[2:].__dlpack__(dl_device=place, max_version=(1, 1))).dl_tensor
        assert (tensor.device.device_type, tensor.device.device_id) == place
        assert tensor.data == pointer + 8
    with pytest.raises(BufferError, match="was asked for on"):
        array.__dlpack__(dl_device=(16 - number, 0), max_version=(1, 1))
    assert np.array_equal(np.from_dlpack(array, device="cpu"), numbers(6))


@pytest.mark.parametrize("make", [cuda.mapped_array, cuda.managed_array])
def test_mapped_and_managed_arrays_have_the_interface(gpu, library, make):
    array = make((4, 6), np.float32, stream=cuda.external_stream(library.current))
    described = array[::2].__cuda_array_interface__
    assert described["data"] == (array.device_pointer, False)
    assert (described["shape"], described["strides"]) == ((2, 6), (48, 4))
    assert not hasattr(array + 1, "__cuda_array_interface__")
    array.flags.writeable = False
    assert array.__cuda_array_interface__["data"][1] is True


def test_the_interface_names_the_stream_of_work_that_is_not_done(gpu, library, hold_up):
    array = cuda.mapped_array(6, np.float32)
    assert array.__cuda_array_interface__["stream"] is None
    with hold_up(library.current):
        array.fill(1, stream=cuda.external_stream(library.current))
        assert array.__cuda_array_interface__["stream"] == 1


@pytest.mark.parametrize("make", [cuda.device_array, cuda.mapped_array, cuda.managed_array])
def test_the_interface_names_the_stream_that_an_array_is_bound_to(gpu, library, make):
    stream = cuda.stream()
    array = make(6, np.float32, stream=stream)
    assert array.__cuda_array_interface__["stream"] == int(stream)
    assert array[::2].__cuda_array_interface__["stream"] == int(stream)
    assert make(6, np.float32).__cuda_array_interface__["stream"] is None


# ---- streams of others --------------------------------------------------------------------------


class TheirStream:
    """A stream object of a library, which owns its stream."""

    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


def test_a_stream_of_theirs_lives_until_our_work_in_it_is_done(gpu, library, hold_up):
    theirs = TheirStream(library.current)
    alive = weakref.ref(theirs)
    own = cuda.to_device(numbers(5))
    with hold_up(library.current):
        double[1, 8, theirs](own)
        double[1, 8, theirs](own)
        del theirs
        gc.collect()
        assert alive() is not None
    gpu.synchronize()
    assert np.array_equal(own.copy_to_host(), 4 * numbers(5))
    del own
    gc.collect()
    assert alive() is None


def test_a_launch_is_in_the_stream_that_was_named(gpu, library, hold_up):
    """An object may give another stream each time that it is asked, such as a current one."""
    theirs, own = TheirStream(library.current), cuda.to_device(numbers(5))
    launcher = double[1, 8, theirs]
    theirs.handle = 0
    with hold_up(library.current):
        launcher(own)
        launcher(own)
        double[1, 8, theirs](cuda.to_device(numbers(5)))
        cuda.default_stream().synchronize()
        assert library.busy()
    assert launcher.stream.__cuda_stream__() == (0, library.current)


def test_streams_that_take_turns_are_told_apart(gpu, hold_up):
    ours, own = [cuda.stream() for _ in range(3)], cuda.to_device(np.zeros(5, np.float32))
    for stream in ours * 2:
        double[1, 8, stream](own)
    others = [cuda.to_device(numbers(5)) for _ in ours]
    with hold_up(ours[1].handle):
        for stream, other in zip(ours, others, strict=True):
            double[1, 8, stream](other)
        ours[0].synchronize()
        ours[2].synchronize()
        assert not ours[1].query()


def test_a_stream_is_not_kept_by_the_kernels_that_ran_in_it(gpu):
    stream = cuda.stream()
    alive = weakref.ref(stream)
    own = cuda.to_device(numbers(5))
    double[1, 8, stream](own)
    double[1, 8, stream](own)
    stream.synchronize()
    del stream, own
    gc.collect()
    assert alive() is None


def test_a_stream_of_pytorch_before_its_protocol_is_taken(gpu, library):
    class Stream:
        cuda_stream = library.current

    own = cuda.to_device(numbers(5))
    double[1, 8, Stream()](own)
    assert np.array_equal(own.copy_to_host(stream=Stream()), 2 * numbers(5))


@pytest.mark.parametrize("given", [True, 1.5, None, "1"])
def test_a_handle_that_is_no_number_is_refused(gpu, given):
    with pytest.raises(TypeError, match=r"its handle is .*; expected an int"):
        double[1, 8, TheirStream(given)]
