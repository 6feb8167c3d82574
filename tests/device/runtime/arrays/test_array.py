"""Device arrays: allocation, copies, views, elements, and the life of their memory."""

import copy
import ctypes
import gc
import pickle
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import haulage
from haulage import cuda, roc
from haulage.errors import OutOfMemory
from haulage.runtime import memory

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True

quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
dtypes = st.sampled_from(
    [np.int8, np.bool_, np.float32, np.float64, np.complex128, "S3", "M8[s]", ">i4", "i4,f8"]
)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def host_arrays(draw, kinds=dtypes):
    """A host array that may be transposed, stepped and flipped."""
    shape, dtype = draw(shapes), np.dtype(draw(kinds))
    count = int(np.prod(shape)) * dtype.itemsize
    array = (np.arange(count, dtype=np.uint8) % 2).view(dtype).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 1, 2, -1]))) for _ in array.shape)
    return array[(*steps, ...)]


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def in_use(kind="device"):
    gc.collect()
    usage = memory.stats().get(str(cuda.get_current_device()), {}).get(kind)
    return usage.in_use if usage else 0


# ---- there and back -----------------------------------------------------------------------------


@quick
@given(host_arrays())
def test_any_host_array_goes_to_the_device_and_back(array):
    there = cuda.to_device(array)
    assert (there.shape, there.dtype, there.size) == (array.shape, array.dtype, array.size)
    assert there.ndim == array.ndim
    assert there.nbytes == array.nbytes
    back = there.copy_to_host()
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@quick
@given(host_arrays(), st.data())
def test_any_view_is_copied_to_any_host_array(array, data):
    key = data.draw(hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True))
    expected = array[key]
    got = cuda.to_device(array)[key]
    if not isinstance(expected, np.ndarray):
        if array.dtype.names is not None:
            got = got.copy_to_host()[()]
        assert type(got) is type(expected)
        assert got == expected
        return
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.copy_to_host(), expected)
    target = np.zeros(expected.shape[::-1], expected.dtype).T
    assert got.copy_to_host(target) is target
    np.testing.assert_array_equal(target, expected)


@quick
@given(host_arrays(st.just(np.int16)), st.data())
def test_any_view_is_written_as_numpys_is(array, data):
    key = data.draw(hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True))
    expected = np.array(array, order="K")
    there = cuda.to_device(array)
    shape = expected[key].shape
    ones = tuple(data.draw(st.sampled_from([n, 1])) for n in shape)
    value = np.arange(np.prod(ones), dtype=np.int16).reshape(ones) + 5
    values = [value, value.astype(np.float64) + 0.5, 7, 7.5, *([value[None]] if shape else [])]
    value = data.draw(st.sampled_from(values))
    expected[key] = value
    there[key] = value
    np.testing.assert_array_equal(there.copy_to_host(), expected)
    if isinstance(value, np.ndarray) and value.dtype == np.int16:
        there[...] = 0
        there[key] = cuda.to_device(value)
        expected[...] = 0
        expected[key] = value
        np.testing.assert_array_equal(there.copy_to_host(), expected)


def test_a_copy_is_a_copy():
    host = numbers(8)
    there = cuda.to_device(host)
    host[:] = -1
    np.testing.assert_array_equal(there.copy_to_host(), numbers(8))
    back = there.copy_to_host()
    back[:] = -2
    np.testing.assert_array_equal(there.copy_to_host(), numbers(8))


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_of_axes_is_kept(order):
    host = np.asarray(numbers(3, 4, 5), order=order)
    there = cuda.to_device(host)
    assert there.strides == host.strides
    assert there.layout == order
    back = there.copy_to_host()
    assert back.flags.c_contiguous == host.flags.c_contiguous
    assert cuda.device_array_like(host).strides == host.strides
    assert cuda.pinned_array_like(host).strides == host.strides


def test_lists_and_scalars_go_to_the_device():
    assert cuda.to_device([1, 2, 3]).copy_to_host().tolist() == [1, 2, 3]
    scalar = cuda.to_device(np.float32(2.5))
    assert scalar.shape == ()
    assert scalar[()] == 2.5
    assert type(scalar[()]) is np.float32


def test_an_array_with_a_stride_of_0_takes_the_room_of_its_values():
    there = cuda.device_array((1000, 3), np.float32, strides=(0, 4))
    assert there.alloc_size == 12
    host = np.broadcast_to(numbers(3), (1000, 3))
    there.copy_to_device(host)
    np.testing.assert_array_equal(there.copy_to_host(), host)
    with pytest.raises(ValueError, match="stride 0"):
        there.copy_to_device(np.zeros((1000, 3), np.float32))
    there[...] = np.float32(4)
    assert there[999, 2] == 4


def test_to_device_without_copy_allocates_and_into_fills():
    host = numbers(2, 3)
    there = cuda.to_device(host, copy=False)
    assert (there.shape, there.dtype) == (host.shape, host.dtype)
    assert cuda.to_device(host, to=there) is there
    np.testing.assert_array_equal(there.copy_to_host(), host)
    assert cuda.to_device(there) is there
    np.testing.assert_array_equal(roc.to_device(host, None, None, True).copy_to_host(), host)


def test_device_to_device_copies_take_any_strides():
    source = cuda.to_device(numbers(4, 6))
    target = cuda.device_array((3, 2), np.float32, order="F")
    target.copy_to_device(source[1:, ::-3])
    np.testing.assert_array_equal(target.copy_to_host(), numbers(4, 6)[1:, ::-3])


def test_copies_within_one_array_may_overlap():
    there = cuda.to_device(numbers(10))
    there[1:] = there[:-1]
    expected = numbers(10)
    expected[1:] = numbers(10)[:-1]
    np.testing.assert_array_equal(there.copy_to_host(), expected)
    there[::-1] = there
    np.testing.assert_array_equal(there.copy_to_host(), expected[::-1])


def test_numpy_sees_a_device_array_by_copying_it():
    there = cuda.to_device(numbers(5))
    np.testing.assert_array_equal(np.asarray(there), numbers(5))
    assert np.asarray(there, np.int64).dtype == np.int64
    assert there.__array__(np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        there.__array__(copy=False)


# ---- shapes and memory --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [0, 5, np.int32(5), (), (2, 3), [4, 1], (0, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_new_arrays_have_the_shape_that_was_asked_for(shape, order):
    expected = np.empty(shape, np.int16, order=order)
    made = cuda.device_array(shape, np.int16, order=order)
    pinned = cuda.pinned_array(shape, np.int16, order=order)
    for array in (made, pinned):
        assert (array.shape, array.dtype, array.nbytes) == (
            expected.shape,
            expected.dtype,
            expected.nbytes,
        )
        for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS"):
            assert array.flags[flag] == expected.flags[flag]
    assert made.is_c_contiguous() == expected.flags.c_contiguous
    assert made.is_f_contiguous() == expected.flags.f_contiguous
    pinned[...] = 3
    assert (pinned == 3).all()


def test_default_dtype_and_explicit_strides_are_numpys():
    assert cuda.device_array(3).dtype == np.float64
    assert cuda.pinned_array(3).dtype == np.float64
    made = cuda.device_array((2, 3), np.float32, strides=(32, 8))
    assert made.alloc_size == 32 + 2 * 8 + 4
    made[...] = numbers(2, 3)
    np.testing.assert_array_equal(made.copy_to_host(), numbers(2, 3))
    pinned = cuda.pinned_array((2, 3), np.float32, strides=(-12, 4))
    pinned[...] = numbers(2, 3)
    np.testing.assert_array_equal(pinned, numbers(2, 3))


def test_addresses_are_those_of_the_elements():
    there = cuda.to_device(numbers(4, 6))
    view = there[1, 2:]
    assert view.device_pointer == there.device_pointer + 24 + 8
    assert isinstance(view.device_ctypes_pointer, ctypes.c_size_t)
    assert view.device_ctypes_pointer.value == view.device_pointer
    assert view.gpu_data.device_pointer == view.device_pointer
    assert view.gpu_data.size == view.alloc_size == 16
    backwards = there[0, ::-1]
    assert backwards.gpu_data.device_pointer == there.device_pointer
    assert there.device_pointer % 256 == 0


def test_an_array_can_be_put_on_memory_that_is_there():
    there = cuda.to_device(numbers(12))
    shown = cuda.DeviceNDArray((3, 4), (16, 4), np.float32, gpu_data=there.gpu_data)
    shown[1, 1] = 99
    assert there[5] == 99
    with pytest.raises(ValueError, match="takes 52 bytes, the memory given has 48"):
        cuda.DeviceNDArray((13,), (4,), np.float32, gpu_data=there.gpu_data)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"shape": (2, -1)}, ValueError, "negative"),
        ({"shape": 2.5}, TypeError, "whole number"),
        ({"shape": 3, "order": "K"}, ValueError, "'C' or 'F'"),
        ({"shape": 3, "dtype": object}, TypeError, "Python objects"),
        ({"shape": (3, 3), "strides": (8,)}, ValueError, "one for each axis"),
        ({"shape": 3, "stream": 7}, TypeError, r"stream 7.*made by stream\(\)"),
    ],
)
def test_arrays_that_cannot_be_made_say_why(arguments, error, message):
    with pytest.raises(error, match=message):
        cuda.device_array(**arguments)


def test_too_much_memory_says_how_much():
    with pytest.raises(OutOfMemory, match=r"\d"):
        cuda.device_array(1 << 60, np.uint8)


# ---- views --------------------------------------------------------------------------------------


def test_views_share_memory_and_keep_it():
    there = cuda.to_device(numbers(6, 4))
    view = there[::2, 1:3].T
    view[...] = -1
    expected = numbers(6, 4)
    expected[::2, 1:3] = -1
    np.testing.assert_array_equal(there.copy_to_host(), expected)
    del there
    gc.collect()
    assert (view.copy_to_host() == -1).all()


@quick
@given(host_arrays(st.just(np.int32)), st.data())
def test_transposed_and_squeezed_views_are_numpys(array, data):
    axes = data.draw(st.none() | st.permutations(range(array.ndim)))
    there = cuda.to_device(array)
    np.testing.assert_array_equal(there.transpose(axes).copy_to_host(), array.transpose(axes))
    named = there.transpose(axes=axes).copy_to_host()
    np.testing.assert_array_equal(named, array.transpose(axes))
    if axes:
        with pytest.raises(TypeError, match="given twice"):
            there.transpose(*axes, axes=axes)
        separate = there.transpose(*axes).copy_to_host()
        np.testing.assert_array_equal(separate, array.transpose(*axes))
    np.testing.assert_array_equal(there.T.copy_to_host(), array.T)
    np.testing.assert_array_equal(there.squeeze().copy_to_host(), array.squeeze())


def test_reshape_and_ravel_give_views_or_say_that_they_cannot():
    there = cuda.to_device(numbers(4, 6))
    for shape in [(24,), (2, 12), (-1, 8), (4, 1, 6)]:
        np.testing.assert_array_equal(
            there.reshape(*shape).copy_to_host(), numbers(4, 6).reshape(shape)
        )
    np.testing.assert_array_equal(there.reshape((3, 8)).copy_to_host(), numbers(3, 8))
    np.testing.assert_array_equal(
        there.T.reshape(8, 3, order="F").copy_to_host(), numbers(4, 6).T.reshape(8, 3, order="F")
    )
    np.testing.assert_array_equal(there.ravel().copy_to_host(), numbers(24))
    np.testing.assert_array_equal(there.T.ravel("F").copy_to_host(), numbers(24))
    np.testing.assert_array_equal(there.T.ravel("A").copy_to_host(), numbers(24))
    with pytest.raises(NotImplementedError, match="requires copying"):
        there.T.ravel()
    with pytest.raises(NotImplementedError, match="requires copying"):
        there[:, :4].reshape(16)
    with pytest.raises(ValueError, match="changes the size"):
        there.reshape(5, 5)
    with pytest.raises(ValueError, match="expected 'C', 'F' or 'A'"):
        there.reshape(24, order="K")


def test_views_as_another_dtype_are_numpys():
    host = numbers(4, 6)
    there = cuda.to_device(host)
    for dtype in (np.int32, np.uint8, np.complex64, "V8"):
        seen = there.view(dtype)
        np.testing.assert_array_equal(seen.copy_to_host(), host.view(dtype))
    with pytest.raises(ValueError, match="must be contiguous"):
        there.T.view(np.uint8)
    with pytest.raises(ValueError, match=r"larger dtype.*\n.*last axis has 24 bytes"):
        there.view(np.complex128)[..., :1].T.view("V5").view("V16")


def test_split_gives_sections_of_one_axis():
    there = cuda.to_device(numbers(10))
    parts = [part.copy_to_host() for part in there.split(4)]
    assert [part.tolist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with pytest.raises(ValueError, match="1d"):
        there.reshape(2, 5).split(2)
    with pytest.raises(ValueError, match="1 element or more"):
        there.split(0)


def test_len_and_iteration_go_over_the_first_axis():
    there = cuda.to_device(numbers(3, 2))
    assert len(there) == 3
    assert [row.copy_to_host().tolist() for row in there] == numbers(3, 2).tolist()
    assert list(cuda.to_device(numbers(3))) == [0, 1, 2]
    scalar = cuda.to_device(np.float32(1))
    with pytest.raises(TypeError, match=r"len\(\)"):
        len(scalar)
    with pytest.raises(TypeError, match="iteration"):
        iter(scalar)


def test_an_array_shows_what_it_is_but_not_its_elements(device):
    text = repr(cuda.device_array((2, 3), np.float32))
    assert text == f"<DeviceNDArray shape=(2, 3) dtype=float32 on {device}>"


# ---- elements -----------------------------------------------------------------------------------


def test_scalars_are_numpys_own():
    there = cuda.to_device(numbers(3, 4))
    assert type(there[1, 2]) is np.float32
    assert there[-1, -1] == 11
    assert there.getitem((0, 1)) == 1
    there.setitem((0, 1), 5)
    assert there[0, 1] == 5
    assert isinstance(there[1, 2, ...], cuda.DeviceNDArray)


@pytest.mark.parametrize("key", [np.zeros(3, bool), [0, 1], np.array([1]), (slice(None), [True])])
def test_masks_and_index_arrays_say_what_to_do_instead(key):
    there = cuda.to_device(numbers(3, 4))
    with pytest.raises(IndexError, match=r"copy_to_host\(\)"):
        there[key]
    with pytest.raises(IndexError, match=r"copy_to_host\(\)"):
        there[key] = 1


def test_slicing_a_huge_array_is_arithmetic_only():
    pretended = cuda.device_array((1 << 40,), np.uint8, strides=(0,))
    assert pretended[5::3].shape == (((1 << 40) - 5 + 2) // 3,)


def test_assignment_converts_as_numpy_does():
    there = cuda.to_device(np.zeros(4, np.uint8))
    there[:2] = [1.9, 2.9]
    there[2:] = np.array([300.0 - 256, 7])
    assert there.copy_to_host().tolist() == [1, 2, 44, 7]
    with pytest.raises(OverflowError):
        there[0] = 300
    with pytest.raises(ValueError, match=r"could not convert|invalid literal"):
        there[0] = "x"
    records = cuda.to_device(np.zeros(2, "i4,f8"))
    records[1] = (3, 0.5)
    assert records[1].copy_to_host().tolist() == (3, 0.5)


def test_assignment_of_what_does_not_fit_says_what_was_given():
    there = cuda.to_device(numbers(3, 4))
    with pytest.raises(ValueError, match=r"from shape \(3,\) into shape \(3,4\)"):
        there[...] = np.zeros(3)
    with pytest.raises(ValueError, match=r"from shape \(2,4\) into shape \(3,4\)"):
        there[...] = there[:2]
    with pytest.raises(TypeError, match=r"incompatible dtype: float32.* vs. int64"):
        there[...] = cuda.to_device(np.zeros((3, 4), np.int64))


# ---- copies that cannot be ----------------------------------------------------------------------


def test_copies_name_both_sides_of_what_does_not_fit():
    there = cuda.device_array((3, 4), np.float32)
    with pytest.raises(TypeError, match=r"incompatible dtype: float32.* vs. float64"):
        there.copy_to_host(np.empty((3, 4)))
    with pytest.raises(ValueError, match=r"incompatible shape: \(3, 4\).* vs. \(4, 3\)"):
        there.copy_to_host(np.empty((4, 3), np.float32))
    with pytest.raises(TypeError, match=r"incompatible dtype: float32.* vs. int64"):
        there.copy_to_device(np.zeros((3, 4), np.int64))
    with pytest.raises(ValueError, match=r"incompatible shape: \(3, 4\).* vs. \(12,\)"):
        there.copy_to_device(cuda.device_array(12, np.float32))
    with pytest.raises(TypeError, match="expected a NumPy array"):
        there.copy_to_host([0.0] * 12)
    with pytest.raises(TypeError, match="copy_to_device"):
        there.copy_to_host(cuda.device_array((3, 4), np.float32))


def test_axes_of_length_one_do_not_hinder_a_copy():
    there = cuda.to_device(numbers(3))
    target = np.empty((1, 3, 1), np.float32)
    there.copy_to_host(target)
    np.testing.assert_array_equal(target.ravel(), numbers(3))


def test_read_only_targets_are_refused():
    there = cuda.to_device(numbers(3))
    frozen = np.empty(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="host array is read-only"):
        there.copy_to_host(frozen)
    there.readonly = True
    with pytest.raises(ValueError, match="is read-only"):
        there[0] = 1
    with pytest.raises(ValueError, match="is read-only"):
        there[1:].copy_to_device(numbers(2))
    assert there.flags["WRITEABLE"] is False


@quick
@given(host_arrays())
def test_pickling_takes_the_values_along_and_keeps_the_order_of_axes(array):
    there = cuda.to_device(array)
    back = pickle.loads(pickle.dumps(there))
    assert type(back) is type(there)
    assert back.block is not there.block
    assert (back.shape, back.dtype, back.readonly) == (there.shape, there.dtype, False)
    if array.size:
        sizes = [
            (n, a, b) for n, a, b in zip(array.shape, back.strides, there.strides, strict=True)
        ]
        assert all(a == b for n, a, b in sizes if n > 1)
    np.testing.assert_array_equal(back.copy_to_host(), array)


def test_a_pickled_view_takes_its_own_elements_only():
    there = cuda.to_device(numbers(1000))
    assert len(pickle.dumps(there[::-250])) < 500
    back = pickle.loads(pickle.dumps(there[::-250]))
    assert back.copy_to_host().tolist() == [999, 749, 499, 249]


def test_a_pickled_array_stays_read_only():
    there = cuda.to_device(numbers(3))
    there.readonly = True
    back = pickle.loads(pickle.dumps(there))
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_by_the_copy_module_are_as_numpy_makes_them(copied, device):
    host = numbers(2, 3, 4).transpose(1, 2, 0)
    there = cuda.to_device(host)
    there.readonly = True
    other = copied(there)
    assert other.strides == copied(host).strides
    assert other.device is device
    assert not other.readonly
    other[...] = 0
    np.testing.assert_array_equal(there.copy_to_host(), host)


def test_deepcopy_keeps_that_two_names_are_one_array():
    there = cuda.to_device(numbers(3))
    first, second = copy.deepcopy([there, there])
    assert first is second


def test_a_closed_array_is_not_pickled_or_copied():
    there = cuda.to_device(numbers(3))
    there.close()
    for action in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ValueError, match="given back"):
            action(there)


# ---- the life of memory -------------------------------------------------------------------------


def test_memory_is_given_back_with_the_last_reference():
    before = in_use()
    there = cuda.device_array(1000, np.uint8)
    view = there[10:20]
    assert in_use() == before + 1000
    del there
    assert in_use() == before + 1000
    del view
    assert memory.stats()[str(cuda.get_current_device())]["device"].in_use == before


def test_the_ledger_counts_by_kind_and_keeps_the_peak(device):
    start = memory.stats().get(str(device), {}).get("pinned")
    pinned = cuda.pinned_array(5000, np.uint8)
    middle = haulage.memory.stats()[str(device)]["pinned"]
    assert middle.in_use == (start.in_use if start else 0) + 5000
    assert middle.peak >= middle.in_use
    assert middle.allocations == (start.allocations if start else 0) + 1
    view = pinned[::7]
    del pinned
    assert in_use("pinned") == middle.in_use
    del view
    assert in_use("pinned") == middle.in_use - 5000


def test_memory_in_reference_cycles_is_given_back_by_the_collector():
    before = in_use()
    cycle = [cuda.device_array(1000, np.uint8)]
    cycle.append(cycle)
    del cycle
    assert in_use() == before


def test_memory_can_be_given_back_by_another_thread():
    before = in_use()
    kept = [cuda.device_array(1000, np.uint8)]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert in_use() == before


def test_closed_arrays_say_so(device):
    before = in_use()
    there = cuda.to_device(numbers(8))
    view = there[2:]
    there.close()
    assert in_use() == before
    there.close()
    for use in (
        view.copy_to_host,
        lambda: view[0],
        lambda: view.copy_to_device(numbers(6)),
        lambda: view.setitem(0, 1),
        lambda: cuda.to_device(numbers(6)).copy_to_device(view),
    ):
        with pytest.raises(ValueError, match=r"given back by close\(\)"):
            use()


def test_no_two_blocks_have_the_same_generation():
    seen = {cuda.device_array(10).block.generation for _ in range(50)}
    assert len(seen) == 50


def test_arrays_without_bytes_take_no_memory():
    before = in_use()
    empty = cuda.to_device(np.empty((0, 3), np.float32))
    assert in_use() == before
    assert empty.device_pointer == 0
    assert empty.copy_to_host().shape == (0, 3)
    empty[...] = 3
    assert cuda.pinned_array((0, 3)).shape == (0, 3)


def test_in_looks_at_the_elements():
    there = cuda.to_device(numbers(3, 4))
    assert 7 in there
    assert 7.5 not in there
    assert 1 not in there[:, ::2]
    assert there.copy_to_host()[1, 1] in there
