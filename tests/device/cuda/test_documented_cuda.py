"""What Numba's pages on the memory of CUDA devices promise, sentence by sentence.

The pages are "Memory management" of Numba's CUDA guide, in its oldest and its last form, and
"Memory Management" of its CUDA reference. A promise that both vocabularies can keep is tested in
both; each docstring says in our words what is promised.
"""

import gc
import importlib
import inspect

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda, roc
from haulage.backends.base import MAPPED, PORTABLE, WRITE_COMBINED
from haulage.errors import CompileError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@pytest.fixture(params=[cuda, roc], ids=["cuda", "roc"])
def words(request):
    """The vocabulary."""
    return request.param


@cuda.jit
def cuda_double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


@roc.jit
def roc_double(a):
    i = roc.get_global_id(0)
    if i < a.size:
        a[i] *= 2


@cuda.jit
def cuda_copy(source, target):
    i = cuda.grid(1)
    if i < target.size:
        target[i] = source[i]


@roc.jit
def roc_copy(source, target):
    i = roc.get_global_id(0)
    if i < target.size:
        target[i] = source[i]


DOUBLE = {cuda: cuda_double, roc: roc_double}
COPY = {cuda: cuda_copy, roc: roc_copy}
ARRAYS = {cuda: "haulage.cuda.cudadrv.devicearray", roc: "haulage.roc.hsadrv.devicearray"}
DRIVER = {cuda: "haulage.cuda.cudadrv.driver", roc: "haulage.roc.hsadrv.driver"}
# numba.roc had no records and no mapped arrays, so their classes are in the vocabulary itself.
CLASSES = {cuda: "haulage.cuda.cudadrv.devicearray", roc: "haulage.roc"}
RECORD = np.dtype([("weight", np.float64), ("count", np.int16), ("name", "S3")])


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def pinned(words, values):
    array = words.pinned_array(values.shape, values.dtype)
    array[...] = values
    return array


def in_use(device, kind="device"):
    gc.collect()
    usage = haulage.memory.stats().get(str(device), {}).get(kind)
    return usage.in_use if usage else 0


# ---- host arrays given to kernels ---------------------------------------------------------------


def test_a_host_array_is_moved_to_the_kernel_and_always_back(words):
    """Host arrays can be arguments; what the kernel wrote is in them when it has finished."""
    host = numbers(100)
    DOUBLE[words][2, 64](host)
    np.testing.assert_array_equal(host, numbers(100) * 2)


def test_to_device_avoids_the_transfer_back(words):
    """By moving an array oneself, one keeps a kernel's writes off the host array."""
    host = numbers(100)
    there = words.to_device(host)
    DOUBLE[words][2, 64](there)
    np.testing.assert_array_equal(host, numbers(100))
    np.testing.assert_array_equal(there.copy_to_host(), numbers(100) * 2)


# ---- to_device ----------------------------------------------------------------------------------


def test_to_device_allocates_and_transfers_an_array(words, device):
    """to_device takes memory on the device and copies a NumPy array to it."""
    before = in_use(device)
    ary = np.arange(10)
    d_ary = words.to_device(ary)
    assert in_use(device) == before + ary.nbytes
    np.testing.assert_array_equal(d_ary.copy_to_host(), np.arange(10))


def test_to_device_transfers_a_structured_scalar(words):
    """to_device also takes a structured scalar, which becomes a record on the device."""
    classes = importlib.import_module(CLASSES[words])
    scalar = np.array([(2.5, 7, b"abc")], RECORD)[0]
    there = words.to_device(scalar)
    assert isinstance(there, classes.DeviceRecord)
    assert there.dtype == RECORD
    assert there.copy_to_host() == scalar


def test_to_device_in_a_stream_is_asynchronous(words, hold_up):
    """With a stream, the transfer is a part of that stream: it runs after what is in it."""
    stream = words.stream()
    source = pinned(words, numbers(1000))
    with hold_up(stream):
        d_ary = words.to_device(source, stream=stream)
        assert not stream.query()
        source[...] = 5
    stream.synchronize()
    np.testing.assert_array_equal(d_ary.copy_to_host(), np.full(1000, 5, np.float32))


def test_to_device_without_a_stream_has_copied_when_it_returns(words):
    """Without a stream the function returns after the copy: the source may change then."""
    source = pinned(words, numbers(100_000))
    there = words.to_device(source)
    source[...] = -1
    np.testing.assert_array_equal(there.copy_to_host(), numbers(100_000))


def test_to_device_gives_a_device_array_that_kernels_expect(words):
    """The result is a DeviceNDArray; a kernel takes it where it takes such an array."""
    devicearray = importlib.import_module(ARRAYS[words])
    source = words.to_device(numbers(50))
    assert isinstance(source, devicearray.DeviceNDArray)
    target = words.to_device(np.zeros(50, np.float32))
    COPY[words][1, 64](source, target)
    host = np.zeros(50, np.float32)
    COPY[words][1, 64](source, host)
    np.testing.assert_array_equal(target.copy_to_host(), numbers(50))
    np.testing.assert_array_equal(host, numbers(50))


def test_to_device_has_the_documented_arguments():
    """cuda.to_device(obj, stream=0, copy=True, to=None), in this order."""
    there = cuda.device_array(4, np.float32)
    assert cuda.to_device(numbers(4), 0, True, there) is there
    np.testing.assert_array_equal(there.copy_to_host(), numbers(4))
    only_room = cuda.to_device(numbers(4), 0, False)
    assert (only_room.shape, only_room.dtype) == ((4,), np.float32)


def test_memory_of_a_device_array_goes_with_its_last_reference(words, device):
    """The memory is managed for the user: once nothing refers to it, it is given back."""
    before = in_use(device)
    there = words.to_device(numbers(1000))
    view = there[10:20]
    del there
    assert in_use(device) == before + 4000
    del view
    assert in_use(device) == before


# ---- device_array, device_array_like ------------------------------------------------------------


def test_device_array_is_like_numpy_empty(words, device):
    """device_array takes shape, dtype, strides and order, and initialises nothing."""
    assert words.device_array(5).dtype == np.float64
    for order in "CF":
        expected = np.empty((3, 4), np.int16, order=order)
        made = words.device_array((3, 4), np.int16, order=order)
        assert (made.shape, made.dtype, made.strides) == ((3, 4), np.int16, expected.strides)
    with_gaps = words.device_array((3, 4), np.int16, (16, 4))
    assert with_gaps.strides == (16, 4)
    with_gaps[...] = numbers(3, 4, dtype=np.int16)
    np.testing.assert_array_equal(with_gaps.copy_to_host(), numbers(3, 4, dtype=np.int16))
    assert with_gaps.device is device


def test_device_array_takes_a_stream():
    """cuda.device_array(..., stream): copies of the array use it."""
    stream = cuda.stream()
    assert cuda.device_array(3, np.float32, None, "C", stream).stream == stream
    assert cuda.device_array_like(numbers(3), stream).stream == stream


def test_device_array_like_takes_what_it_needs_from_an_array(words):
    """device_array_like allocates by an array's shape, dtype and order, on host or device."""
    host = np.asfortranarray(numbers(3, 4, dtype=np.int16))
    for given in (host, words.to_device(host)):
        made = words.device_array_like(given)
        assert (made.shape, made.dtype, made.strides) == ((3, 4), np.int16, host.strides)


# ---- pinned and mapped --------------------------------------------------------------------------


def test_pinned_array_is_a_numpy_array_in_page_locked_memory(words, device):
    """pinned_array gives an np.ndarray, like np.empty, whose buffer is pinned."""
    assert words.pinned_array(3).dtype == np.float64
    made = words.pinned_array((3, 4), np.int16, order="F")
    assert type(made) is np.ndarray
    assert made.strides == np.empty((3, 4), np.int16, order="F").strides
    assert words.pinned_array((3, 4), np.int16, (16, 4)).strides == (16, 4)
    before = in_use(device, "pinned")
    kept = words.pinned_array(1000, np.uint8)
    assert in_use(device, "pinned") == before + kept.nbytes


def test_copies_to_pinned_memory_are_asynchronous(words, hold_up):
    """What pinning is for: a copy in a stream returns before it has run."""
    stream = words.stream()
    target = pinned(words, np.zeros(10, np.float32))
    there = words.to_device(numbers(10))
    with hold_up(stream):
        there.copy_to_host(target, stream=stream)
        assert not target.any()
    stream.synchronize()
    np.testing.assert_array_equal(target, numbers(10))


def test_pinned_pins_for_a_while(words, hold_up):
    """`with pinned(a, b)` pins host arrays inside of it and no longer."""
    stream, first, second = words.stream(), np.zeros(10, np.float32), np.zeros(10, np.float32)
    there = words.to_device(numbers(10))
    with words.pinned(first, second):
        with hold_up(stream):
            there.copy_to_host(first, stream=stream)
            there.copy_to_host(second, stream=stream)
            assert not first.any()
            assert not second.any()
        stream.synchronize()
        np.testing.assert_array_equal(first, numbers(10))
        np.testing.assert_array_equal(second, numbers(10))
    first[...] = 0
    there.copy_to_host(first, stream=stream)
    np.testing.assert_array_equal(first, numbers(10))


def test_mapped_array_is_host_memory_that_the_device_sees(words, device):
    """mapped_array is like np.empty; its buffer is pinned and the device addresses it."""
    classes = importlib.import_module(CLASSES[words])
    assert words.mapped_array(3).dtype == np.float64
    before = in_use(device)
    mapped = words.mapped_array((100,), np.float32, None, "C", 0)
    assert isinstance(mapped, classes.MappedNDArray)
    assert isinstance(mapped, np.ndarray)
    mapped[...] = numbers(100)
    DOUBLE[words][2, 64](mapped)
    words.synchronize()
    np.testing.assert_array_equal(mapped, numbers(100) * 2)
    assert in_use(device) == before


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, 0),
        ({"portable": True}, PORTABLE),
        ({"wc": True}, WRITE_COMBINED),
        ({"portable": True, "wc": True}, PORTABLE | WRITE_COMBINED),
    ],
    ids=["plain", "portable", "wc", "both"],
)
def test_mapped_array_asks_the_driver_for_portable_and_write_combined(
    words, device, monkeypatch, options, flags
):
    """portable: usable on several devices; wc: faster to write by the host. Both are honoured."""
    monkeypatch.setenv("HAULAGE_MEMORY", "driver")
    asked = []
    alloc = device.backend.alloc

    def noting(nbytes, kind, flags):
        asked.append((kind, flags))
        return alloc(nbytes, kind, flags)

    monkeypatch.setattr(device.backend, "alloc", noting)
    mapped = words.mapped_array(10, np.float32, **options)
    assert asked == [(MAPPED, flags)]
    mapped[...] = numbers(10)
    DOUBLE[words][1, 32](mapped)
    words.synchronize()
    np.testing.assert_array_equal(mapped, numbers(10) * 2)


def test_mapped_maps_for_a_while(words):
    """`with mapped(a, b)` shows host arrays to the device inside of it: one each, by order."""
    first, second = numbers(64), numbers(64)
    with words.mapped(first) as there:
        DOUBLE[words][2, 32](there)
        words.synchronize()
        np.testing.assert_array_equal(first, numbers(64) * 2)
    with words.mapped(first, second) as both:
        COPY[words][2, 32](both[0], both[1])
        words.synchronize()
    np.testing.assert_array_equal(second, numbers(64) * 2)


# ---- device arrays ------------------------------------------------------------------------------


def test_a_device_array_is_made_of_shape_strides_and_dtype(words):
    """DeviceNDArray(shape, strides, dtype, stream=0, ..., gpu_data=None) is public."""
    devicearray = importlib.import_module(ARRAYS[words])
    made = devicearray.DeviceNDArray((3, 4), (16, 4), np.dtype(np.float32))
    made.copy_to_device(numbers(3, 4))
    shown = devicearray.DeviceNDArray(
        shape=(12,), strides=(4,), dtype=np.dtype(np.int32), stream=0, gpu_data=made.gpu_data
    )
    np.testing.assert_array_equal(shown.copy_to_host(), numbers(12).view(np.int32))


def test_copy_to_device_takes_host_and_device_memory(words):
    """copy_to_device copies into the array, from the host or from another device array."""
    target = words.device_array(10, np.float32)
    target.copy_to_device(numbers(10))
    np.testing.assert_array_equal(target.copy_to_host(), numbers(10))
    target.copy_to_device(words.to_device(-numbers(10)))
    np.testing.assert_array_equal(target.copy_to_host(), -numbers(10))


@pytest.mark.parametrize("of", ["host", "device"])
def test_copy_to_device_takes_a_stream(words, hold_up, of):
    """copy_to_device in a stream runs as a part of it."""
    stream = words.stream()
    target = words.to_device(np.zeros(10, np.float32))
    seen = pinned(words, np.zeros(10, np.float32))
    source = pinned(words, numbers(10)) if of == "host" else words.to_device(numbers(10))
    with hold_up(stream):
        target.copy_to_device(source, stream=stream)
        target.copy_to_host(seen, stream=stream)
        assert not stream.query()
    stream.synchronize()
    np.testing.assert_array_equal(seen, numbers(10))


def test_copy_to_host_gives_a_new_array_or_the_one_it_was_given(words):
    """copy_to_host makes a host array where it gets none, and always returns the host array."""
    d_ary = words.to_device(numbers(3, 4))
    hary = d_ary.copy_to_host()
    assert type(hary) is np.ndarray
    np.testing.assert_array_equal(hary, numbers(3, 4))
    ary = np.empty(shape=d_ary.shape, dtype=d_ary.dtype)
    assert d_ary.copy_to_host(ary) is ary
    np.testing.assert_array_equal(ary, numbers(3, 4))
    assert d_ary.copy_to_host(ary=ary, stream=0) is ary


def test_copy_to_host_in_a_stream(words, hold_up):
    """The new array of a copy in a stream has its values once the stream is synchronised."""
    stream = words.stream()
    d_ary = words.to_device(numbers(10), stream=stream)
    hary = d_ary.copy_to_host(stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(hary, numbers(10))
    target = pinned(words, np.zeros(10, np.float32))
    with hold_up(stream):
        assert d_ary.copy_to_host(target, stream=stream) is target
        assert not stream.query()
    stream.synchronize()
    np.testing.assert_array_equal(target, numbers(10))


def test_copy_to_host_without_a_stream_is_done_when_it_returns(words):
    """Otherwise the copy is synchronous, and sees the kernels launched before."""
    target = pinned(words, np.zeros(100_000, np.float32))
    d_ary = words.to_device(numbers(100_000))
    DOUBLE[words][400, 256](d_ary)
    d_ary.copy_to_host(target)
    np.testing.assert_array_equal(target, numbers(100_000) * 2)


def test_the_example_of_copy_to_host(words):
    """There, through a kernel of 100 blocks of 100 threads, and back."""
    arr = np.arange(1000)
    d_arr = words.to_device(arr)
    DOUBLE[words][100, 100](d_arr)
    result_array = d_arr.copy_to_host()
    np.testing.assert_array_equal(result_array, np.arange(1000) * 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers(3, 4),
        lambda: np.asfortranarray(numbers(3, 4)),
        lambda: numbers(5),
        lambda: numbers(4, 1),
        lambda: np.empty((0, 3), np.float32),
        lambda: np.float32(3)[...],
    ],
    ids=["C", "F", "1-d", "one column", "empty", "0-d"],
)
def test_contiguity_is_numpys(words, make):
    """is_c_contiguous and is_f_contiguous tell the order of the array."""
    host = make()
    there = words.to_device(host)
    assert there.is_c_contiguous() is bool(host.flags.c_contiguous)
    assert there.is_f_contiguous() is bool(host.flags.f_contiguous)


def test_a_view_with_gaps_is_contiguous_in_no_order(words):
    """is_c_contiguous and is_f_contiguous are False where elements are left out."""
    view = words.to_device(numbers(6, 6))[::2, ::2]
    assert view.is_c_contiguous() is False
    assert view.is_f_contiguous() is False


def test_ravel_flattens_like_numpys(words):
    """ravel(order='C', stream=0) gives the same contents with one axis."""
    host = numbers(3, 4)
    there = words.to_device(host)
    np.testing.assert_array_equal(there.ravel().copy_to_host(), host.ravel())
    np.testing.assert_array_equal(there.ravel("C", 0).copy_to_host(), host.ravel())
    of_columns = words.to_device(np.asfortranarray(host))
    np.testing.assert_array_equal(of_columns.ravel(order="F").copy_to_host(), host.ravel(order="F"))
    np.testing.assert_array_equal(there.copy_to_host(), host)
    stream = words.stream()
    assert there.ravel(stream=stream).stream == stream


def test_reshape_is_numpys_with_the_example(words):
    """reshape(*newshape, order=...) gives the same contents in another shape."""
    host = np.arange(1000)
    d_arr = words.to_device(host)
    d_arr = d_arr.reshape(20, 50, order="F")
    assert d_arr.shape == (20, 50)
    np.testing.assert_array_equal(d_arr.copy_to_host(), host.reshape(20, 50, order="F"))
    there = words.to_device(host)
    np.testing.assert_array_equal(there.reshape(20, 50).copy_to_host(), host.reshape(20, 50))
    np.testing.assert_array_equal(there.reshape((10, 100)).copy_to_host(), host.reshape(10, 100))
    np.testing.assert_array_equal(there.copy_to_host(), host)


@pytest.mark.parametrize(("n", "section"), [(12, 4), (10, 4), (3, 5), (5, 5)])
def test_split_gives_equal_sections_and_a_smaller_last_one(words, n, section):
    """split(section): sections of that many elements; what is left over is the last one."""
    host = numbers(n)
    expected = [host[start : start + section] for start in range(0, n, section)]
    parts = list(words.to_device(host).split(section))
    assert len(parts) == len(expected)
    for part, values in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part.copy_to_host(), values)


def test_split_takes_a_stream(words):
    """split(section, stream): the sections use it, so that they can be copied in it."""
    stream = words.stream()
    parts = list(words.to_device(numbers(10)).split(5, stream))
    assert [part.stream for part in parts] == [stream, stream]


def test_array_methods_are_for_the_host_only(words):
    """The methods are called in host code; a kernel that calls one can't be compiled."""
    if words is cuda:

        @cuda.jit
        def kernel(a):
            a.copy_to_host()
    else:

        @roc.jit
        def kernel(a):
            a.copy_to_host()

    with pytest.raises(CompileError, match="copy_to_host"):
        kernel[1, 1](words.to_device(numbers(4)))


# ---- records ------------------------------------------------------------------------------------


def record(weight=2.5, count=7, name=b"abc"):
    return np.array([(weight, count, name)], RECORD)[0]


def test_a_record_is_made_of_a_dtype(words):
    """DeviceRecord(dtype, stream=0, gpu_data=None) is public."""
    classes = importlib.import_module(CLASSES[words])
    made = classes.DeviceRecord(RECORD)
    made.copy_to_device(record())
    shown = classes.DeviceRecord(dtype=RECORD, stream=0, gpu_data=made.gpu_data)
    assert shown.copy_to_host() == record()


def test_a_record_is_copied_from_host_and_device(words):
    """copy_to_device of a record copies from host memory or from another record."""
    there = words.to_device(record())
    there.copy_to_device(record(1.5, -1, b"x"))
    assert there.copy_to_host() == record(1.5, -1, b"x")
    there.copy_to_device(words.to_device(record()))
    assert there.copy_to_host() == record()


def test_a_record_is_copied_to_the_host(words):
    """copy_to_host of a record returns host memory, new or given, also in a stream."""
    stream = words.stream()
    there = words.to_device(record(), stream=stream)
    target = np.zeros((), RECORD)
    assert there.copy_to_host(target) is target
    assert target[()] == record()
    assert there.copy_to_host().dtype == RECORD
    back = there.copy_to_host(stream=stream)
    stream.synchronize()
    assert back == record()


# ---- mapped arrays' methods ---------------------------------------------------------------------


def test_mapped_arrays_are_copied_like_device_arrays(words):
    """A MappedNDArray has copy_to_device and copy_to_host, for host and device memory."""
    mapped = words.mapped_array(10, np.float32)
    mapped.copy_to_device(numbers(10))
    words.synchronize()
    np.testing.assert_array_equal(np.array(mapped), numbers(10))
    mapped.copy_to_device(words.to_device(-numbers(10)))
    words.synchronize()
    np.testing.assert_array_equal(np.array(mapped), -numbers(10))
    target = np.zeros(10, np.float32)
    assert mapped.copy_to_host(target) is target
    np.testing.assert_array_equal(target, -numbers(10))
    new = mapped.copy_to_host()
    mapped[...] = 0
    np.testing.assert_array_equal(new, -numbers(10))


def test_mapped_arrays_are_copied_in_streams(words, hold_up):
    """copy_to_host(ary, stream) of a mapped array is a part of the stream."""
    stream = words.stream()
    mapped = words.mapped_array(10, np.float32)
    mapped[...] = numbers(10)
    target = pinned(words, np.zeros(10, np.float32))
    with hold_up(stream):
        assert mapped.copy_to_host(target, stream=stream) is target
        assert not stream.query()
    stream.synchronize()
    np.testing.assert_array_equal(target, numbers(10))


def test_mapped_arrays_are_split(words):
    """split of a mapped array gives sections of it, which stand on the same memory."""
    mapped = words.mapped_array(10, np.float32)
    mapped[...] = numbers(10)
    parts = list(mapped.split(4))
    assert [np.array(part).tolist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    DOUBLE[words][1, 32](parts[2])
    words.synchronize()
    assert mapped[8:].tolist() == [16, 18]


# ---- streams ------------------------------------------------------------------------------------


def test_a_stream_is_of_the_documented_class(words):
    """stream() creates and returns a Stream."""
    driver = importlib.import_module(DRIVER[words])
    first, second = words.stream(), words.stream()
    assert isinstance(first, driver.Stream)
    assert first != second


def test_a_stream_is_a_command_queue(words, hold_up):
    """Work given to a stream runs in the order in which it was given."""
    stream = words.stream()
    there = words.to_device(numbers(64))
    between, after = pinned(words, np.zeros(64, "f4")), pinned(words, np.zeros(64, "f4"))
    with hold_up(stream):
        DOUBLE[words][2, 32, stream](there)
        there.copy_to_host(between, stream=stream)
        DOUBLE[words][2, 32, stream](there)
        there.copy_to_host(after, stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(between, numbers(64) * 2)
    np.testing.assert_array_equal(after, numbers(64) * 4)


def test_synchronize_commits_pending_transfers(words):
    """After stream.synchronize() all of its commands have run, and host arrays are written."""
    stream, host = words.stream(), numbers(64)
    DOUBLE[words][2, 32, stream](host)
    stream.synchronize()
    np.testing.assert_array_equal(host, numbers(64) * 2)
    assert stream.query()


def test_auto_synchronize_waits_at_the_end_of_the_body(words):
    """`with stream.auto_synchronize():` synchronises when it ends."""
    stream = words.stream()
    target = pinned(words, np.zeros(100_000, np.float32))
    with stream.auto_synchronize():
        there = words.to_device(numbers(100_000), stream=stream)
        DOUBLE[words][400, 256, stream](there)
        there.copy_to_host(target, stream=stream)
    np.testing.assert_array_equal(target, numbers(100_000) * 2)


# ---- shared memory ------------------------------------------------------------------------------


@cuda.jit
def reverse_blocks(x):
    room = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    room[t] = x[i]
    cuda.syncthreads()
    x[i] = room[cuda.blockDim.x - 1 - t]


def test_each_block_has_its_shared_array(device):
    """shared.array is seen by all threads of one block; each fills one element, then all wait."""
    there = cuda.to_device(numbers(256))
    reverse_blocks[4, 64](there)
    expected = numbers(4, 64)[:, ::-1].ravel()
    np.testing.assert_array_equal(there.copy_to_host(), expected)


@cuda.jit
def transpose_tile(x, out):
    tile = cuda.shared.array((8, 9), np.int32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    tile[i, j] = x[i, j]
    cuda.syncthreads()
    out[i, j] = tile[j, i] + tile.shape[1]


def test_a_shared_array_has_the_shape_of_a_tuple(device):
    """The shape is a number or a tuple of numbers, one for each axis."""
    host = numbers(8, 8, dtype=np.int32)
    out = cuda.device_array((8, 8), np.int32)
    transpose_tile[1, (8, 8)](cuda.to_device(host), out)
    np.testing.assert_array_equal(out.copy_to_host(), host.T + 9)


def turning(element):
    @cuda.jit
    def turn(x):
        room = cuda.shared.array(16, element)
        t = cuda.threadIdx.x
        room[t] = x[t]
        cuda.syncthreads()
        x[t] = room[15 - t]

    return turn


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "float32", "float64", "complex64"])
def test_a_shared_array_has_elements_of_a_numba_type(device, kind):
    """The type is one of Numba's; NumPy's of the same name does as well."""
    numba = importlib.import_module("numba")
    for element in (getattr(numba, kind), np.dtype(kind).type):
        there = cuda.to_device(np.arange(16).astype(kind))
        turning(element)[1, 16](there)
        np.testing.assert_array_equal(there.copy_to_host(), np.arange(15, -1, -1).astype(kind))


@cuda.jit(device=True)
def neighbour(x, t, n):
    room = cuda.shared.array(32, np.float32)
    room[t] = x[t]
    cuda.syncthreads()
    return room[(t + 1) % n]


@cuda.jit
def shift(x):
    t = cuda.threadIdx.x
    x[t] = neighbour(x, t, 32)


def test_a_device_function_can_have_a_shared_array(device):
    """shared.array is called on the device, in a kernel or in a device function."""
    there = cuda.to_device(numbers(32))
    shift[1, 32](there)
    np.testing.assert_array_equal(there.copy_to_host(), np.roll(numbers(32), -1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: cuda.shared.array(16, np.float32),
        lambda: cuda.local.array(16, np.float32),
        lambda: cuda.syncthreads(),
        lambda: roc.shared.array(16, np.float32),
        lambda: roc.barrier(1),
    ],
    ids=["shared.array", "local.array", "syncthreads", "roc.shared.array", "roc.barrier"],
)
def test_kernel_words_are_refused_on_the_host(call):
    """These functions must be called on the device; on the host they say so."""
    with pytest.raises((RuntimeError, TypeError), match="kernel"):
        call()


@cuda.jit
def count_and_sum(x, sums):
    room = cuda.shared.array(128, np.float64)
    t = cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            room[t] += room[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = room[0]


def test_syncthreads_waits_for_all_threads_of_the_block(device):
    """A thread goes on from syncthreads() once every thread of its block has called it."""
    host = np.random.default_rng(1).random((8, 128))
    sums = cuda.device_array(8, np.float64)
    count_and_sum[8, 128](cuda.to_device(host.ravel()), sums)
    np.testing.assert_allclose(sums.copy_to_host(), host.sum(axis=1))


# ---- local memory -------------------------------------------------------------------------------


@cuda.jit
def own_history(x, out):
    room = cuda.local.array((4, 2), np.int64)
    i = cuda.grid(1)
    for k in range(4):
        room[k, 0] = x[i] + k
        room[k, 1] = i
    cuda.syncthreads()
    total = 0
    for k in range(4):
        total += room[k, 0] * (room[k, 1] + 1)
    out[i] = total


def test_local_arrays_are_private_to_a_thread(device):
    """local.array is scratch memory of one thread; others do not see or change it."""
    host = np.arange(96) * 3
    out = cuda.device_array(96, np.int64)
    own_history[3, 32](cuda.to_device(host), out)
    i = np.arange(96)
    np.testing.assert_array_equal(out.copy_to_host(), (4 * host + 6) * (i + 1))


# ---- SmartArray ---------------------------------------------------------------------------------


def test_a_smart_array_has_the_documented_arguments():
    """SmartArray(obj=None, copy=True, shape=None, dtype=None, order=None, where='host')."""
    parameters = inspect.signature(SmartArray).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "obj": None,
        "copy": True,
        "shape": None,
        "dtype": None,
        "order": None,
        "where": "host",
    }
    made = SmartArray(shape=(3, 4), dtype=np.int16, order="F", where="gpu")
    assert (made.shape, made.dtype, made.strides) == ((3, 4), np.int16, (2, 6))


def test_a_smart_array_stands_where_a_numpy_array_does():
    """It can take the place of an ndarray in most uses."""
    smart, host = SmartArray(numbers(3, 4)), numbers(3, 4)
    assert (smart.shape, smart.dtype, smart.size, len(smart)) == ((3, 4), np.float32, 12, 3)
    np.testing.assert_array_equal(np.asarray(smart), host)
    assert np.sum(smart) == host.sum()
    np.testing.assert_array_equal(np.add(smart, 1), host + 1)
    assert smart[1, 2] == host[1, 2]
    np.testing.assert_array_equal(smart[1:, ::2], host[1:, ::2])
    smart[0] = -1
    host[0] = -1
    np.testing.assert_array_equal(np.asarray(smart), host)


def test_a_smart_array_moves_to_a_kernel_and_stays_there(words):
    """A kernel brings it to the device unless it is there; the result stays there until needed."""
    smart = SmartArray(numbers(100))
    DOUBLE[words][1, 128](smart)
    DOUBLE[words][1, 128](smart)
    assert [t.target == "host" for t in smart.coherence.transfers] == [False]
    np.testing.assert_array_equal(np.asarray(smart), numbers(100) * 4)
    assert [t.target == "host" for t in smart.coherence.transfers] == [False, True]


def test_the_host_side_of_a_smart_array_is_updated_for_who_looks_at_it(words):
    """get('host') gives the current values; mark_changed tells of writes to what get gave."""
    smart = SmartArray(numbers(100))
    DOUBLE[words][1, 128](smart)
    host = smart.get("host")
    np.testing.assert_array_equal(host, numbers(100) * 2)
    host[...] = 1
    smart.mark_changed("host")
    DOUBLE[words][1, 128](smart)
    np.testing.assert_array_equal(smart.get(), np.full(100, 2, np.float32))
    there = smart.get("gpu")
    there[...] = 9
    smart.mark_changed("gpu")
    np.testing.assert_array_equal(smart.get(), np.full(100, 9, np.float32))
