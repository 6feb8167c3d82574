"""Memory of the host that devices work with: pinned, mapped and managed arrays, and files."""

import copy
import gc
import io
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import haulage
from haulage import cuda, roc
from haulage.backends.base import ATTACH_HOST, MANAGED, MAPPED, PINNED, PORTABLE, WRITE_COMBINED
from haulage.errors import DeviceError

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True

quick = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@cuda.jit
def double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


@cuda.jit
def number(a):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        a[i, j] = 10 * i + j


@roc.jit
def roc_double(a):
    i = roc.get_global_id(0)
    if i < a.size:
        a[i] *= 2


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def mapped(*shape, dtype=np.float32, words=cuda):
    array = words.mapped_array(shape, dtype)
    array[...] = numbers(*shape, dtype=dtype)
    return array


def managed(*shape, dtype=np.float32, words=cuda):
    array = words.managed_array(shape, dtype)
    array[...] = numbers(*shape, dtype=dtype)
    return array


both = pytest.mark.parametrize("make", [mapped, managed], ids=["mapped", "managed"])


def in_use(device, kind):
    gc.collect()
    usage = haulage.memory.stats().get(str(device), {}).get(kind)
    return usage.in_use if usage else 0


@pytest.fixture(autouse=True)
def settled(device):
    """Work that an earlier test left pending holds back memory, which tests here count."""
    cuda.synchronize()


@pytest.fixture
def driver_calls(device, monkeypatch):
    """What the driver was asked for: names of copying calls, and (kind, flags) of allocations."""
    monkeypatch.setenv("HAULAGE_MEMORY", "driver")
    asked = []
    for name in ("copy", "copy_nd", "fill", "alloc", "register"):
        call = getattr(device.backend, name)

        def noting(*args, call=call, name=name):
            asked.append((name, *args[1:3]) if name == "alloc" else (name,))
            return call(*args)

        monkeypatch.setattr(device.backend, name, noting)
    return asked


# ---- pinned -------------------------------------------------------------------------------------


def test_pinned_arrays_are_plain_numpy_arrays_in_pinned_memory(device):
    before = in_use(device, PINNED)
    like = np.asfortranarray(numbers(3, 4))
    made = cuda.pinned_array((3, 4), np.float32, order="F")
    as_like = cuda.pinned_array_like(like)
    for array in (made, as_like):
        assert type(array) is np.ndarray
        assert (array.shape, array.dtype, array.strides) == (like.shape, like.dtype, like.strides)
        array[...] = like
        np.testing.assert_array_equal(array, like)
    assert in_use(device, PINNED) == before + 2 * like.nbytes
    view = made[1:, ::2].T
    del made, as_like, array
    assert in_use(device, PINNED) == before + like.nbytes
    np.testing.assert_array_equal(view, like[1:, ::2].T)
    del view
    assert in_use(device, PINNED) == before


@pytest.mark.parametrize("shape", [(), 0, 5, (3, 4), (2, 0)])
@pytest.mark.parametrize("dtype", ["f8", "i2", "?", "c16", "S3", "i4,f8", "M8[s]"])
def test_pinned_zeros_are_zeros(shape, dtype):
    expected = np.zeros(shape, dtype)
    made = cuda.pinned_zeros(shape, dtype)
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    assert made.tobytes() == expected.tobytes()
    assert cuda.pinned_zeros(3).dtype == np.float64
    assert cuda.pinned_zeros((3, 4), order="F").flags.f_contiguous


def test_pinned_memory_is_given_back_with_each_array(device):
    """numba keeps up to ten of any size (numba#9507)."""
    before = in_use(device, PINNED)
    for _ in range(5):
        cuda.pinned_array(1_000_000, np.uint8)
        assert in_use(device, PINNED) == before


def test_pinned_memory_waits_for_the_stream_that_reads_it(device, hold_up):
    before = in_use(device, PINNED)
    stream = cuda.stream()
    there = cuda.device_array(10, np.float32)
    with hold_up(stream):
        source = cuda.pinned_array(10, np.float32)
        source[...] = numbers(10)
        there.copy_to_device(source, stream=stream)
        del source
        assert in_use(device, PINNED) == before + 40
    stream.synchronize()
    assert in_use(device, PINNED) == before
    np.testing.assert_array_equal(there.copy_to_host(), numbers(10))


def test_pinned_pins_for_the_body_also_if_it_fails(driver_calls):
    first, second = numbers(10), np.asfortranarray(numbers(3, 4))
    with pytest.raises(KeyError), cuda.pinned(first, second):
        raise KeyError
    with cuda.pinned(first, second):
        pass
    with cuda.pinned():
        pass
    assert driver_calls == [("register",)] * 4


def test_all_arrays_are_unpinned_where_the_wait_for_the_device_fails(device, monkeypatch):
    first, second = numbers(10), numbers(20)

    def lost():
        raise DeviceError("the device is lost")

    patching = monkeypatch.context()
    with patching as patch, pytest.raises(DeviceError, match="lost"), cuda.pinned(first, second):
        patch.setattr(device.backend, "synchronize", lost)
    with cuda.pinned(second, first):
        pass


def test_a_part_of_a_pinned_array_is_pinned(hold_up):
    host, stream = np.zeros((4, 6), np.float32), cuda.stream()
    there = cuda.to_device(numbers(2, 3))
    with cuda.pinned(host):
        with hold_up(stream):
            there.copy_to_host(host[1:3, ::2], stream=stream)
            assert not host.any()
        stream.synchronize()
    np.testing.assert_array_equal(host[1:3, ::2], numbers(2, 3))
    assert np.count_nonzero(host) == 5


# ---- mapped() -----------------------------------------------------------------------------------


def test_mapped_of_one_array_gives_one_device_array():
    host = numbers(64)
    with cuda.mapped(host) as there:
        assert isinstance(there, cuda.DeviceNDArray)
        assert (there.shape, there.dtype, there.strides) == (host.shape, host.dtype, host.strides)
        double[2, 32](there)
        cuda.synchronize()
        np.testing.assert_array_equal(host, numbers(64) * 2)
        host[:] = 1
        double[2, 32](there)
        cuda.synchronize()
    np.testing.assert_array_equal(host, np.full(64, 2, np.float32))


def test_mapped_of_several_arrays_gives_a_list():
    first, second = numbers(64), np.asfortranarray(numbers(3, 4))
    with cuda.mapped(first, second) as both:
        assert isinstance(both, list)
        assert [there.shape for there in both] == [(64,), (3, 4)]
        assert both[1].strides == second.strides
        double[2, 32](both[0])
        number[1, (3, 4)](both[1])
        cuda.synchronize()
    np.testing.assert_array_equal(first, numbers(64) * 2)
    np.testing.assert_array_equal(second, 10 * np.arange(3)[:, None] + np.arange(4))


def test_mapped_takes_a_stream_and_waits_for_its_work_at_the_end(hold_up):
    host, stream = numbers(64), cuda.stream()
    with cuda.mapped(host, stream=stream) as there:
        assert there.stream == stream
        double[2, 32, stream](there)
    np.testing.assert_array_equal(host, numbers(64) * 2)


def test_what_mapped_gave_cannot_be_used_afterwards():
    host = numbers(64)
    with cuda.mapped(host) as there:
        pass
    with pytest.raises(ValueError, match=r"close|mapped"):
        there.copy_to_host()
    with pytest.raises(ValueError, match=r"close|mapped"):
        double[2, 32](there)
    with pytest.raises(KeyError), cuda.mapped(host):
        raise KeyError
    with cuda.mapped(host):
        pass


def test_a_read_only_host_array_is_mapped_read_only():
    host = numbers(8)
    host.flags.writeable = False
    with cuda.mapped(host) as there:
        assert there.readonly
        np.testing.assert_array_equal(there.copy_to_host(), numbers(8))
        with pytest.raises(ValueError, match="read-only"):
            there[0] = 1


# ---- mapped and managed arrays ------------------------------------------------------------------


@both
@pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
@pytest.mark.parametrize("shape", [(), 0, 5, (3, 4), (2, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_they_have_the_shape_that_was_asked_for(make, words, shape, order):
    expected = np.empty(shape, np.int16, order=order)
    made = getattr(words, f"{make.__name__}_array")(shape, np.int16, order=order)
    assert isinstance(made, np.ndarray)
    assert (made.shape, made.dtype) == (expected.shape, np.int16)
    assert made.strides == expected.strides or not made.size
    assert made.is_c_contiguous() == expected.flags.c_contiguous
    assert made.is_f_contiguous() == expected.flags.f_contiguous
    assert getattr(words, f"{make.__name__}_array")(3).dtype == np.float64
    made[...] = 3
    assert (np.array(made) == 3).all()


@both
def test_they_take_strides(make):
    made = getattr(cuda, f"{make.__name__}_array")((2, 3), np.float32, strides=(-32, 8))
    made[...] = numbers(2, 3)
    assert made.strides == (-32, 8)
    np.testing.assert_array_equal(made.copy_to_host(), numbers(2, 3))


@both
def test_their_memory_is_counted_and_given_back(make, device):
    kind = MAPPED if make is mapped else MANAGED
    before = in_use(device, kind)
    array = make(1000)
    assert in_use(device, kind) == before + 4000
    view = array[10:20]
    del array
    assert in_use(device, kind) == before + 4000
    np.testing.assert_array_equal(np.array(view), numbers(1000)[10:20])
    del view
    assert in_use(device, kind) == before


@pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
def test_hints_are_handed_to_the_driver(words, driver_calls):
    words.mapped_array(3, portable=True)
    words.mapped_array_like(numbers(3), wc=True)
    words.managed_array(3)
    words.managed_array(3, attach_global=False)
    assert [call[1:] for call in driver_calls if call[0] == "alloc"] == [
        (MAPPED, PORTABLE),
        (MAPPED, WRITE_COMBINED),
        (MANAGED, 0),
        (MANAGED, ATTACH_HOST),
    ]


def test_mapped_array_like_keeps_shape_dtype_and_order():
    like = np.asfortranarray(numbers(3, 4, dtype=np.int16))
    for given_array in (like, cuda.to_device(like), cuda.mapped_array_like(like)):
        made = cuda.mapped_array_like(given_array)
        assert isinstance(made, type(cuda.mapped_array(1)))
        assert (made.shape, made.dtype, made.strides) == ((3, 4), np.int16, like.strides)


@both
@pytest.mark.parametrize("kernel", [double, roc_double], ids=["cuda", "roc"])
def test_a_kernel_works_on_them_without_copies(make, kernel, driver_calls):
    array = make(100)
    del driver_calls[:]
    kernel[2, 64](array)
    cuda.synchronize()
    np.testing.assert_array_equal(np.array(array), numbers(100) * 2)
    assert driver_calls == []


@both
def test_a_launch_on_them_does_not_wait(make, hold_up):
    """Unlike one on an ordinary host array: the host sees the writes after a synchronise."""
    array, stream = make(64), cuda.stream()
    with hold_up(stream):
        double[2, 32, stream](array)
        assert not stream.query()
        np.testing.assert_array_equal(np.array(array), numbers(64))
    stream.synchronize()
    np.testing.assert_array_equal(np.array(array), numbers(64) * 2)


@both
def test_a_kernel_sees_what_the_host_wrote(make):
    array = make(64)
    for factor in (2, 3):
        array[...] = factor
        double[2, 32](array)
        cuda.synchronize()
        assert (np.array(array) == 2 * factor).all()


VIEWS = {
    "slice": lambda a: a[1:3],
    "step": lambda a: a[::2, ::-2],
    "row": lambda a: a[1],
    "ellipsis": lambda a: a[..., 1:],
    "newaxis": lambda a: a[None, 1:],
    "reshape": lambda a: a.reshape(6, 4),
    "ravel": lambda a: a.ravel(),
    "T": lambda a: a.T,
    "transpose": lambda a: a.transpose(1, 0),
    "squeeze": lambda a: a[None].squeeze(),
    "view": lambda a: a.view(np.int32),
    "view()": lambda a: a.view(),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "diagonal": lambda a: a.diagonal()[:],
    "np.expand_dims": lambda a: np.expand_dims(a, 0),
    "of a view": lambda a: a[1:].T[::2].reshape(-1, 3)[:1],
}


@both
@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_views_stay_what_they_are(make, view):
    """numba loses the device's memory there (numba#2987)."""
    array, expected = make(4, 6), numbers(4, 6)
    seen, wanted = view(array), view(expected)
    assert type(seen) is type(array)
    assert seen.device is array.device
    assert seen.gpu_data.block is array.gpu_data.block
    offset = seen.__array_interface__["data"][0] - array.__array_interface__["data"][0]
    assert seen.device_pointer == array.device_pointer + offset
    np.testing.assert_array_equal(np.array(seen), wanted)
    np.testing.assert_array_equal(seen.copy_to_host(), wanted)


@both
def test_a_kernel_writes_to_their_views(make):
    array, expected = make(6, 8), numbers(6, 8)
    number[1, (3, 4)](array[::2, ::-2])
    cuda.synchronize()
    expected[::2, ::-2] = 10 * np.arange(3)[:, None] + np.arange(4)
    np.testing.assert_array_equal(np.array(array), expected)


COPIES = {
    "copy": lambda a: a.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "np.array": np.array,
    "add": lambda a: a + 1,
    "negative": lambda a: -a,
    "np.sqrt": lambda a: np.sqrt(a),
    "compare": lambda a: a > 3,
    "astype": lambda a: a.astype(np.int64),
    "mask": lambda a: a[a > 3],
    "take": lambda a: a[[0, 2]],
    "flatten": lambda a: a.flatten(),
    "ravel of T": lambda a: a.T.ravel(),
    "reshape of T": lambda a: a.T.reshape(24),
    "copy_to_host": lambda a: a.copy_to_host() if hasattr(a, "copy_to_host") else a,
    "where": lambda a: np.where(a > 3, a, 0),
    "sum of axis": lambda a: a.sum(axis=0),
    "tolist": lambda a: np.asarray(a.tolist(), np.float32),
}


@both
@pytest.mark.parametrize("make_copy", COPIES.values(), ids=list(COPIES))
def test_copies_of_them_are_plain(make, make_copy):
    array = make(4, 6)
    made = make_copy(array)
    assert type(made) is np.ndarray
    assert not np.shares_memory(made, np.asarray(array))
    np.testing.assert_array_equal(made, make_copy(numbers(4, 6)))


@both
def test_single_elements_are_numpys_scalars(make):
    array = make(4, 6)
    assert type(array[1, 2]) is np.float32
    assert type(array.sum()) is np.float32
    assert type(array.getitem((1, 2))) is np.float32
    assert array.getitem((1, 2)) == 8
    assert array.max() == 23
    assert float(array[3, 5]) == 23


@both
def test_they_are_changed_in_place(make):
    array, expected = make(4, 6), numbers(4, 6)
    kind, pointer = type(array), array.device_pointer
    array += 1
    expected += 1
    np.multiply(array, 2, out=array)
    expected *= 2
    array.setitem(slice(1, 3), numbers(2, 6))
    expected[1:3] = numbers(2, 6)
    array.fill(0)
    expected.fill(0)
    array[1] = numbers(6)
    expected[1] = numbers(6)
    array.sort()
    expected.sort()
    assert type(array) is kind
    assert array.device_pointer == pointer
    cuda.synchronize()
    np.testing.assert_array_equal(np.array(array), expected)


@both
def test_copies_in_streams_are_in_order(make, hold_up):
    stream, array = cuda.stream(), make(10)
    there, target = cuda.to_device(numbers(10) + 100), cuda.pinned_zeros(10, np.float32)
    with hold_up(stream):
        array.copy_to_device(there, stream=stream)
        array.copy_to_host(target, stream=stream)
        assert not stream.query()
        np.testing.assert_array_equal(np.array(array), numbers(10))
    stream.synchronize()
    np.testing.assert_array_equal(np.array(array), numbers(10) + 100)
    np.testing.assert_array_equal(target, numbers(10) + 100)


@both
def test_they_are_bound_to_streams(make, hold_up):
    stream, target = cuda.stream(), cuda.pinned_zeros(5, np.float32)
    array = make(10).bind(stream)
    assert array.stream == stream
    assert array[::2].stream == stream
    assert array.reshape(2, 5).stream == stream
    assert array.bind().stream == 0
    with hold_up(stream):
        array[::2].copy_to_host(target)
        assert not target.any()
    stream.synchronize()
    np.testing.assert_array_equal(target, numbers(10)[::2])


@both
def test_memory_outlives_its_last_reference_while_a_kernel_uses_it(make, device, hold_up):
    kind = MAPPED if make is mapped else MANAGED
    before = in_use(device, kind)
    stream, array = cuda.stream(), make(64)
    with hold_up(stream):
        double[2, 32, stream](array)
        del array
        assert in_use(device, kind) == before + 256
    stream.synchronize()
    assert in_use(device, kind) == before


@both
def test_a_closed_one_is_used_by_no_device(make):
    array = make(64)
    array.close()
    for use in (array.copy_to_host, lambda: double[2, 32](array), lambda: array[1:].gpu_data):
        with pytest.raises(ValueError, match=r"close\(\)"):
            use()
    array.close()
    with make(3) as short:
        pass
    with pytest.raises(ValueError, match=r"close\(\)"):
        short.copy_to_host()


@both
def test_closing_leaves_the_memory_to_those_who_see_it(make, device):
    if device.kind != "cpu":
        pytest.skip(f"{device} does not fill the memory that is freed")
    with haulage.adversary(1):  # what is freed holds garbage
        array = make(64)
        array[...] = np.arange(64)
        view, plain = array[5:], np.asarray(array)
        array.close()
        np.testing.assert_array_equal(array, np.arange(64))
        del array
        gc.collect()
        np.testing.assert_array_equal(view, np.arange(5, 64))
        del view
        gc.collect()
        np.testing.assert_array_equal(plain, np.arange(64))


@both
def test_read_only_ones_are_not_written_to(make):
    array = make(8)
    array.flags.writeable = False
    for write in (
        lambda: array.copy_to_device(numbers(8)),
        lambda: array[2:].copy_to_device(numbers(6)),
        lambda: array.setitem(0, 1),
        lambda: array.fill(1),
        lambda: array.fill(1, stream=cuda.stream()),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    np.testing.assert_array_equal(np.array(array), numbers(8))
    np.testing.assert_array_equal(cuda.to_device(array).copy_to_host(), numbers(8))


@both
def test_an_array_that_numpy_made_from_them_goes_to_kernels_as_a_host_array(make):
    """Some NumPy functions make arrays of the same class in ordinary memory."""
    made = np.concatenate([make(10), make(10)])
    double[1, 32](made)
    np.testing.assert_array_equal(np.array(made), 2 * np.concatenate([numbers(10)] * 2))
    there = cuda.to_device(np.empty_like(make(5)))
    assert there.shape == (5,)


@both
def test_they_show_their_elements(make):
    assert repr(make(3)) == f"{type(make(3)).__name__}([0., 1., 2.], dtype=float32)"
    assert str(make(3)) == "[0. 1. 2.]"


@both
def test_they_are_pickled_with_their_elements(make):
    array = make(3, 4)
    again = pickle.loads(pickle.dumps(array))
    assert type(again) is type(array)
    assert again.device_pointer != array.device_pointer
    np.testing.assert_array_equal(np.array(again), numbers(3, 4))
    of_view = pickle.loads(pickle.dumps(array.T[::2]))
    np.testing.assert_array_equal(np.array(of_view), numbers(3, 4).T[::2])
    double[1, 32](again.ravel())
    cuda.synchronize()
    np.testing.assert_array_equal(np.array(again), 2 * numbers(3, 4))


def test_pinned_arrays_are_pickled_as_plain_ones(device):
    before = in_use(device, PINNED)
    pinned = cuda.pinned_zeros(4)
    again = pickle.loads(pickle.dumps(pinned))
    assert type(again) is np.ndarray
    assert in_use(device, PINNED) == before + 32


# ---- other libraries ----------------------------------------------------------------------------


def pinned(*shape, dtype=np.float32):
    array = cuda.pinned_array(shape, dtype)
    array[...] = numbers(*shape, dtype=dtype)
    return array


each = pytest.mark.parametrize("make", [pinned, mapped, managed], ids=lambda make: make.__name__)


@each
def test_the_buffer_protocol_shows_their_memory(make):
    array = make(3, 4)
    view = memoryview(array)
    assert (view.shape, view.strides, view.format, view.readonly) == ((3, 4), (16, 4), "f", False)
    view[1, 2] = 99
    assert array[1, 2] == 99
    assert bytes(make(2)) == numbers(2).tobytes()


@each
def test_the_buffer_protocol_keeps_their_memory(make, device):
    kind = {pinned: PINNED, mapped: MAPPED, managed: MANAGED}[make]
    before = in_use(device, kind)
    view = memoryview(make(100))
    assert in_use(device, kind) == before + 400
    assert view[99] == 99
    view.release()
    assert in_use(device, kind) == before


@each
def test_dlpack_shows_their_memory(make):
    array = make(3, 4)
    seen = np.from_dlpack(array)
    np.testing.assert_array_equal(seen, numbers(3, 4))
    array[1, 2] = 99
    assert seen[1, 2] == 99


@both
def test_from_dlpack_takes_them(make):
    array = make(3, 4)
    there = cuda.from_dlpack(array)
    assert isinstance(there, cuda.DeviceNDArray)
    np.testing.assert_array_equal(there.copy_to_host(), numbers(3, 4))


@both
def test_they_are_cuda_arrays_and_go_to_the_device_as_they_are(make):
    array = make(10)
    assert cuda.is_cuda_array(array)
    view = cuda.as_cuda_array(array)
    array[3] = 99
    assert view[3] == 99


# ---- files --------------------------------------------------------------------------------------


@each
def test_they_are_saved_and_loaded(make, tmp_path):
    array = make(3, 4)
    np.save(tmp_path / "array.npy", array)
    np.testing.assert_array_equal(np.load(tmp_path / "array.npy"), numbers(3, 4))
    np.savez(tmp_path / "arrays.npz", a=array, b=array.T)
    with np.load(tmp_path / "arrays.npz") as saved:
        np.testing.assert_array_equal(saved["b"], numbers(3, 4).T)


def test_a_device_array_is_saved_by_its_elements(tmp_path):
    np.save(tmp_path / "array.npy", cuda.to_device(numbers(3, 4)))
    np.testing.assert_array_equal(np.load(tmp_path / "array.npy"), numbers(3, 4))


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
def test_memory_mapped_files_are_sources(words, mode, tmp_path):
    np.save(tmp_path / "array.npy", numbers(100, 6))
    file = np.load(tmp_path / "array.npy", mmap_mode=mode)
    assert isinstance(file, np.memmap)
    there = words.to_device(file)
    assert not there.readonly
    np.testing.assert_array_equal(there.copy_to_host(), numbers(100, 6))
    there.copy_to_device(file)
    part = words.to_device(file[10:20, ::2])
    np.testing.assert_array_equal(part.copy_to_host(), numbers(100, 6)[10:20, ::2])
    there[50:60] = file[:10]
    np.testing.assert_array_equal(there[50:60].copy_to_host(), numbers(100, 6)[:10])
    stream = words.stream()
    in_stream = words.to_device(file, stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(in_stream.copy_to_host(), numbers(100, 6))


def test_memory_mapped_files_are_targets(tmp_path):
    file = np.memmap(tmp_path / "numbers", np.float32, "w+", shape=(10, 6))
    cuda.to_device(numbers(5, 6)).copy_to_host(file[::2])
    file.flush()
    expected = np.zeros((10, 6), np.float32)
    expected[::2] = numbers(5, 6)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "numbers", np.float32), expected.ravel())


def test_a_read_only_file_is_no_target(tmp_path):
    np.save(tmp_path / "array.npy", numbers(4))
    file = np.load(tmp_path / "array.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="host array is read-only"):
        cuda.to_device(numbers(4)).copy_to_host(file)


def test_host_memory_of_other_kinds_is_a_source():
    """Whatever NumPy sees as an array: buffers, arrays of other modules, subclasses."""
    import array

    assert cuda.to_device(array.array("d", [1, 2])).copy_to_host().tolist() == [1, 2]
    assert cuda.to_device(bytearray(b"ab")).copy_to_host().tolist() == [97, 98]
    assert cuda.to_device(memoryview(b"ab")).copy_to_host().tolist() == [97, 98]
    buffer = io.BytesIO(numbers(4).tobytes()).getbuffer()
    there = cuda.to_device(np.frombuffer(buffer, np.float32))
    np.testing.assert_array_equal(there.copy_to_host(), numbers(4))
    matrix = np.array([[1, 2], [3, 4]]).view(np.matrix)
    assert cuda.to_device(matrix).shape == (2, 2)


def test_masked_arrays_do_not_lose_their_mask_silently():
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(TypeError, match="mask"):
        cuda.to_device(masked)


# ---- against NumPy ------------------------------------------------------------------------------


@both
@quick
@given(data=st.data())
def test_any_index_gives_what_numpys_gives(make, data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=5))
    array, expected = make(*shape, dtype=np.int16), numbers(*shape, dtype=np.int16)
    for _ in range(2):
        key = data.draw(hnp.basic_indices(expected.shape, allow_newaxis=True))
        array, expected = array[key], expected[key]
        if not isinstance(expected, np.ndarray):
            assert type(array) is type(expected)
            assert array == expected
            return
        assert array.shape == expected.shape
        np.testing.assert_array_equal(np.array(array), expected)
        np.testing.assert_array_equal(array.copy_to_host(), expected)
        np.testing.assert_array_equal(array.gpu_data.size, array.alloc_size)


def test_managed_memory_is_moved_ahead_and_advised_without_a_change():
    managed = cuda.managed_array((4, 6), np.float32)
    managed[...] = np.arange(24).reshape(4, 6)
    for part in (managed, managed[1:, ::2]):
        part.prefetch()
        part.prefetch(to_host=True, stream=cuda.stream())
        part.advise("set_preferred_location", on_host=True)
        part.advise("unset_preferred_location", on_host=True)
    cuda.synchronize()
    assert np.array_equal(managed, np.arange(24).reshape(4, 6))
    with pytest.raises(ValueError, match="advice 'love': expected one of set_read_mostly"):
        managed.advise("love")
    managed.close()
    with pytest.raises(ValueError, match="given back by close"):
        managed.prefetch()


@pytest.mark.parametrize("make", [cuda.pinned_array, cuda.mapped_array, cuda.managed_array])
def test_memory_that_is_pinned_anyway_is_pinned_and_mapped_like_other_memory(make):
    host = make(100)
    host[:] = np.arange(100)
    stream = cuda.stream()
    with cuda.pinned(host[10:]):
        there = cuda.to_device(host, stream=stream)
        with pytest.raises(ValueError, match="pinned already"), cuda.pinned(host):
            pass
    assert there.copy_to_host().tolist() == list(range(100))
    with cuda.mapped(host[:50], stream=stream) as mapped:
        double[1, 64, stream](mapped)
    assert host[:7].tolist() == [0, 2, 4, 6, 8, 10, 12]
    with cuda.pinned(host):
        pass
