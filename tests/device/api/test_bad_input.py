"""Calls that cannot be met: one error that names what was given, and nothing is changed by them."""

import contextlib
import gc
import os
import subprocess
import sys
import traceback

import numpy as np
import pytest

import haulage
from haulage import cuda, roc
from haulage.errors import DeviceMismatch, OutOfMemory, ShapeMismatch

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("short_collections", "device")]


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def there(*shape, dtype=np.float32):
    """A device array with numbers in it."""
    return cuda.to_device(numbers(*shape, dtype=dtype))


def read_only(array):
    array.flags.writeable = False
    return array


def contents(array):
    """All bytes of the memory that an array stands on, and what it says about itself."""
    said = (array.shape, array.strides, array.dtype)
    if isinstance(array, np.ndarray):
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return said, owner.tobytes()
    block = array.block
    whole = cuda.DeviceNDArray((block.nbytes,), (1,), np.uint8, gpu_data=block)
    return said, whole.copy_to_host().tobytes()


def held():
    """Bytes in use, by device and kind of memory."""
    gc.collect()
    stats = haulage.memory.stats()
    return {
        (device, kind): usage.in_use
        for device, kinds in stats.items()
        for kind, usage in kinds.items()
        if usage.in_use
    }


@contextlib.contextmanager
def refused(error, match, *arrays):
    """The body raises `error` with a message that fits, and leaves all arrays and memory be."""
    before = [contents(array) for array in arrays]
    held_before = held()
    with pytest.raises(error, match=match) as caught:
        yield
    # The frames of the calls that failed hold what these were given.
    traceback.clear_frames(caught.tb)
    assert [contents(array) for array in arrays] == before
    assert held() == held_before


# ---- shapes that differ -------------------------------------------------------------------------

WRONG_SHAPES = [(4, 3), (12,), (3, 5), (2, 4), (3, 4, 2), (), (0,), (3, 1)]


@pytest.mark.parametrize("shape", WRONG_SHAPES, ids=str)
def test_a_copy_to_the_host_of_another_shape(shape):
    source, target = there(3, 4), np.full(shape, 7, np.float32)
    with refused(ShapeMismatch, r"incompatible shape: \(3, 4\).* vs\. \(", source, target):
        source.copy_to_host(target)


@pytest.mark.parametrize("shape", WRONG_SHAPES, ids=str)
@pytest.mark.parametrize("of", ["host", "device", "pinned"])
def test_a_copy_to_the_device_of_another_shape(shape, of):
    target, source = there(3, 4), np.full(shape, 7, np.float32)
    if of == "device":
        source = cuda.to_device(source)
    elif of == "pinned":
        source = cuda.pinned_array_like(source)
        source[...] = 7
    with refused(ShapeMismatch, r"incompatible shape: \(3, 4\).* vs\. \(", source, target):
        target.copy_to_device(source)


def test_a_wrong_shape_is_both_a_value_error_and_a_type_error():
    """NumPy programs expect the one, programs of numba.roc the other."""
    target, source = there(3), numbers(4)
    for error in (ValueError, TypeError):
        with refused(error, r"^incompatible shape", source, target):
            target.copy_to_device(source)


def test_an_assignment_that_does_not_broadcast():
    target = there(3, 4)
    for value in (np.ones(3), np.ones((2, 4)), np.ones((1, 1, 3, 4, 1)), there(3), there(2, 4)):
        with refused(ValueError, r"could not broadcast .* into shape \(3,4\)", target):
            target[...] = value
    with refused(ValueError, r"from shape \(3,\) into shape \(2,2\)", target):
        target[1:, ::2] = [1, 2, 3]


@pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
def test_to_device_into_an_array_of_another_shape_or_dtype(words):
    target, source = there(3, 4), numbers(3, 5)
    with refused(ShapeMismatch, "incompatible shape", source, target):
        words.to_device(source, to=target)
    other = numbers(3, 4, dtype=np.int16)
    with refused(TypeError, "incompatible dtype: float32.* vs. int16", other, target):
        words.to_device(other, to=target)


# ---- dtypes that differ -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    ["f8", "i4", "u4", ">f4", "c8", "?", "S4", "V4", "M8[s]", [("a", "f4")]],
    ids=str,
)
def test_copies_of_another_dtype(dtype):
    host = np.zeros(12, dtype)
    target, of_device = there(12), cuda.to_device(host)
    name = r"incompatible dtype: float32 .* vs\. "
    with refused(TypeError, name, target, host):
        target.copy_to_device(host)
    with refused(TypeError, name, target, of_device):
        target.copy_to_device(of_device)
    with refused(TypeError, name, target, host):
        target.copy_to_host(host)
    with refused(TypeError, name, target, of_device):
        target[...] = of_device


def test_fields_in_another_order_are_another_dtype():
    target = cuda.to_device(np.zeros(3, [("a", "i4"), ("b", "i4")]))
    source = np.ones(3, [("b", "i4"), ("a", "i4")])
    with refused(TypeError, "incompatible dtype", target, source):
        target.copy_to_device(source)


def test_values_that_no_conversion_gives():
    target = there(4)
    for value, error, message in (
        ("many", ValueError, "could not convert string to float"),
        (1j, TypeError, "complex"),
        (object(), TypeError, "object"),
    ):
        with refused(error, message, target):
            target[1:3] = value
    of_bytes = cuda.to_device(np.zeros(4, np.uint8))
    with refused(OverflowError, "300", of_bytes):
        of_bytes[0] = 300


# ---- read-only targets --------------------------------------------------------------------------


def test_a_read_only_host_array_is_no_target():
    source, target = there(6), read_only(np.zeros(6, np.float32))
    with refused(ValueError, "host array is read-only", source, target):
        source.copy_to_host(target)
    with refused(ValueError, "host array is read-only", source, target):
        source[::2].copy_to_host(target[::2])


@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.copy_to_device(numbers(6)),
        lambda a: a.copy_to_device(there(6)),
        lambda a: a[1:3].copy_to_device(numbers(2)),
        lambda a: a.reshape(2, 3)[0].copy_to_device(numbers(3)),
        lambda a: a.view(np.int32).setitem(0, 1),
        lambda a: a.T.setitem(0, 1),
        lambda a: a.ravel().fill(3),
        lambda a: a.squeeze().setitem(slice(None), there(6)),
        lambda a: next(a.split(2)).setitem(0, 3),
        lambda a: a.bind(cuda.stream()).fill(3),
        lambda a: cuda.to_device(numbers(6), to=a),
    ],
    ids=[
        *("copy", "device copy", "slice", "reshape", "view", "T", "ravel", "squeeze", "split"),
        *("bind", "to="),
    ],
)
def test_a_read_only_device_array_and_its_views_are_no_targets(write):
    target = there(6)
    target.readonly = True
    with refused(ValueError, "is read-only", target):
        write(target)
    assert target.flags["WRITEABLE"] is False


# ---- views that cannot be -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.T.reshape(24),
        lambda a: a.T.ravel(),
        lambda a: a.ravel(order="F"),
        lambda a: a[:, :4].reshape(-1),
        lambda a: a[::2, ::2].ravel("A"),
        lambda a: a[:, ::-1].reshape(24),
    ],
    ids=["T", "T.ravel", "ravel F", "gaps", "ravel A", "backwards"],
)
def test_a_reshape_that_would_need_a_copy(change):
    array = there(4, 6)
    with refused(
        NotImplementedError, r"requires copying: the new shape \(.*of shape \(.*strides", array
    ):
        change(array)


@pytest.mark.parametrize("shape", [(5, 5), (-1, 7), (-1, -1), (-2, -12), (0, -1), (25,), ()])
def test_a_reshape_to_another_number_of_elements(shape):
    array = there(4, 6)
    with refused(ValueError, r"24|one unknown dimension", array):
        array.reshape(shape)


@pytest.mark.parametrize("shape", [(2.5,), ("ab",), (None,), (2, 12.0)])
def test_a_reshape_to_what_is_no_shape(shape):
    array = there(4, 6)
    with refused(TypeError, r"reshape.*expected a whole number or a tuple", array):
        array.reshape(*shape)


def test_an_unknown_order():
    array = there(4, 6)
    for order in ("K", "c", "", None, 0):
        with refused(ValueError, "order .*expected 'C'", array):
            array.reshape(24, order=order)
        with refused(ValueError, "order .*expected 'C'", array):
            array.ravel(order)
    for make in (cuda.device_array, cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
        with refused(ValueError, "order 'K'.*expected 'C' or 'F'"):
            make(3, order="K")


@pytest.mark.parametrize("section", [0, -1, -12])
def test_split_into_sections_of_nothing(section):
    array = there(12)
    with refused(ValueError, rf"{section}.*expected sections of 1 element or more", array):
        array.split(section)


@pytest.mark.parametrize("section", [2.5, 2.0, "2", None, [2], (2, 4)])
def test_split_by_what_is_no_number(section):
    array = there(12)
    with refused(TypeError, "split.*whole number", array):
        array.split(section)


def test_split_of_more_axes_than_one():
    array = there(3, 4)
    with refused(ValueError, "1d.*2 axes", array):
        array.split(2)


def test_transposes_and_squeezes_that_name_wrong_axes():
    array = there(3, 1, 4)
    for axes, expected in {
        (0, 1): r"axes don't match.*\(0, 1\).*3 axes",
        (0, 1, 1): "repeated axis",
        (0, 1, 3): "axis 3 is out of bounds",
        (0, 1, 2, 3): "axes don't match.*3 axes",
    }.items():
        with refused(ValueError, expected, array):
            array.transpose(axes)
    for axis in (0, 3, (1, 0), (1, 1), -1):
        with refused(ValueError, r"cannot squeeze axis", array):
            array.squeeze(axis)


def test_views_as_dtypes_that_do_not_fit():
    array = there(3, 5)
    with refused(ValueError, "contiguous", array):
        array.T.view(np.float64)
    with refused(ValueError, r"larger dtype.*\n.*20 bytes", array):
        array.view(np.float64)
    with refused(TypeError, "Python objects", array):
        array.view(object)
    with refused(TypeError, "no such type", array):
        array.view("no such type")


# ---- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "index 3 is out of bounds for axis 0 with size 3"),
        (-4, "index -4 is out of bounds for axis 0 with size 3"),
        ((0, 4), "index 4 is out of bounds for axis 1 with size 4"),
        ((slice(None), None, 7), "index 7 is out of bounds for axis 1 with size 4"),
        ((0, 0, 0), "too many indices: the array has 2 axes, 3 are indexed"),
        ((0, None, 1, 1), "too many indices: the array has 2 axes, 3 are indexed"),
        ((Ellipsis, Ellipsis), "one Ellipsis"),
        (1.0, "1.0 is a float.*expected whole numbers, slices"),
        (np.float32(1), "float32.*expected whole numbers, slices"),
    ],
    ids=str,
)
def test_keys_that_select_nothing(key, message):
    array = there(3, 4)
    with refused(IndexError, message, array):
        array[key]
    with refused(IndexError, message, array):
        array[key] = 1


def test_a_field_of_an_array_without_fields():
    array = there(3, 4)
    with refused((IndexError, ValueError), "no field of name 'a'.*float32", array):
        array["a"]
    with refused((IndexError, ValueError), "no field of name 'a'.*float32", array):
        array["a"] = 1


def test_a_slice_with_step_zero():
    array = there(3, 4)
    with refused(ValueError, "zero", array):
        array[::0]


@pytest.mark.parametrize(
    "key",
    [np.ones((3, 4), bool), [0, 2], np.array([0, 1]), (0, [1]), True, np.True_, (slice(None), [])],
    ids=str,
)
def test_masks_and_index_arrays(key):
    array = there(3, 4)
    with refused(IndexError, r"copy_to_host\(\)", array):
        array[key]
    with refused(IndexError, r"copy_to_host\(\)", array):
        array[key] = 1


# ---- shapes of new arrays -----------------------------------------------------------------------

makers = pytest.mark.parametrize(
    ("words", "make"),
    [
        *((cuda, "device_array"), (cuda, "pinned_array"), (cuda, "mapped_array")),
        *((cuda, "managed_array"), (cuda, "zeros"), (cuda, "ones"), (cuda, "empty")),
        *((cuda, "pinned_zeros"), (roc, "device_array"), (roc, "finegrain_array")),
        (roc, "coarsegrain_array"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__.rpartition(".")[2],
)


@makers
def test_negative_shapes(words, make):
    for shape in (-1, (3, -1), (-2, -3), (0, -1)):
        with refused(ValueError, r"shape \(.*-.*negative"):
            getattr(words, make)(shape)


@makers
def test_shapes_that_are_none(words, make):
    for shape in (2.5, "ab", None, (2, 1.5), (2, None), {}):
        with refused(TypeError, r"shape .*expected a whole number or a tuple"):
            getattr(words, make)(shape)


@makers
def test_huge_shapes(words, make):
    for shape in (1 << 58, (1 << 31, 1 << 31), (1 << 62, 1 << 62), 1 << 80, (10**12,) * 3):
        with refused((OutOfMemory, ValueError), r"\d"):
            getattr(words, make)(shape, np.float64)


@makers
def test_python_objects_as_elements(words, make):
    for dtype in (object, [("a", "f4"), ("b", object)]):
        with refused(TypeError, "Python objects.*numeric dtype"):
            getattr(words, make)(3, dtype)


@pytest.mark.parametrize("values", [[object()], [None], [{}, 1], None, np.array([1, "a"], object)])
@pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
def test_python_objects_to_the_device(words, values):
    with refused(TypeError, "Python objects"):
        words.to_device(values)


def test_strides_that_do_not_fit_the_shape():
    for make in (cuda.device_array, cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
        for strides in ((8,), (8, 8, 8)):
            with refused(ValueError, "one for each axis"):
                make((3, 3), np.float64, strides)


def test_memory_that_is_too_small_for_an_array():
    array = there(12)
    with refused(ValueError, "takes 52 bytes, the memory given has 48", array):
        cuda.DeviceNDArray((13,), (4,), np.float32, gpu_data=array.gpu_data)
    with refused(ValueError, "takes 92 bytes, the memory given has 48", array):
        cuda.DeviceNDArray((12,), (8,), np.float32, gpu_data=array.gpu_data)


# ---- overlaps -----------------------------------------------------------------------------------


def test_a_target_that_shows_one_element_repeatedly():
    """Only such an overlap is refused, see `test_copying.py`: source and target may overlap."""
    target = cuda.device_array((4, 3), np.float32, strides=(0, 4))
    target.copy_to_device(np.broadcast_to(numbers(3), (4, 3)))
    for source in (numbers(4, 3), there(4, 3)):
        with refused(ValueError, r"4 values to axis 0.*stride 0", target, source):
            target.copy_to_device(source)
    with refused(ValueError, r"4 values to axis 0.*stride 0", target):
        target[...] = numbers(4, 3)


# ---- objects that are no arrays -----------------------------------------------------------------


def test_copies_to_what_is_no_array():
    source = there(3)
    for target in ([0.0] * 3, 3, "text", bytearray(12), np.float32(1), source):
        with refused(TypeError, "copy_to_host into a .*expected a NumPy array", source):
            source.copy_to_host(target)


def test_copies_of_what_is_no_array():
    target = there(3)
    for source in (None, object(), {1: 2}, lambda: 0):
        kind = type(source).__name__
        with refused(TypeError, f"{kind} object: expected an array", target):
            target.copy_to_device(source)
        with refused(TypeError, f"{kind} object: expected an array", target):
            cuda.to_device(source)
    with refused(TypeError, r"incompatible dtype: float32 \(device\) vs. <U3 \(ary\)", target):
        target.copy_to_device("abc")


@pytest.mark.parametrize("to", [np.zeros(3, np.float32), [0, 0, 0], 3, "there"], ids=repr)
@pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
def test_to_device_into_what_is_no_device_array(words, to):
    arrays = [to] if isinstance(to, np.ndarray) else []
    with refused(TypeError, "to=.*expected an array or record on the device", *arrays):
        words.to_device(numbers(3), to=to)


@pytest.mark.parametrize(
    ("words", "make"),
    [
        *((cuda, "device_array_like"), (cuda, "pinned_array_like"), (cuda, "mapped_array_like")),
        *((cuda, "zeros_like"), (cuda, "ones_like"), (cuda, "empty_like"), (cuda, "full_like")),
        (roc, "device_array_like"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__.rpartition(".")[2],
)
def test_arrays_like_what_is_no_array(words, make):
    more = (1,) if make == "full_like" else ()
    for given in (None, 3, [1, 2], "text"):
        with refused(TypeError, rf"{type(given).__name__}.*expected an array"):
            getattr(words, make)(given, *more)


@pytest.mark.parametrize("given", [None, 3, [1, 2], b"bytes", (1,)], ids=repr)
def test_pinning_what_is_no_array(given):
    host = numbers(3)
    with refused(TypeError, rf"{type(given).__name__}.*expected a NumPy array", host):
        roc.register(host, given)
    with (
        refused(TypeError, rf"{type(given).__name__}.*expected a NumPy array", host),
        cuda.pinned(host, given),
    ):
        pytest.fail("the body must not run")
    with (
        refused(TypeError, rf"{type(given).__name__}.*expected a NumPy array", host),
        cuda.mapped(host, given),
    ):
        pytest.fail("the body must not run")
    with roc.register(host):
        pass


def test_pinning_with_gaps_or_twice_pins_nothing():
    host, gaps = numbers(10), numbers(10)[::2]
    with refused(ValueError, "has gaps", host, gaps):
        roc.register(host, gaps)
    with refused(ValueError, "pinned already", host):
        roc.register(host, host)
    with refused(ValueError, "part of it, is pinned already", host):
        roc.register(host[:6], host[4:])
    with refused(ValueError, "not pinned", host):
        roc.deregister(host)


@pytest.mark.parametrize("stream", [7, -1, "0", 1.5, object(), [], cuda.event])
def test_streams_that_are_none(stream):
    array, host = there(4), numbers(4)
    for call in (
        lambda: array.copy_to_host(host, stream=stream),
        lambda: array.copy_to_device(host, stream=stream),
        lambda: array.setitem(0, 5, stream=stream),
        lambda: array.getitem(0, stream=stream),
        lambda: array.fill(5, stream=stream),
        lambda: array.bind(stream),
        lambda: array.ravel(stream=stream),
        lambda: array.squeeze(stream=stream),
        lambda: array.split(2, stream=stream),
        lambda: cuda.to_device(host, stream=stream),
        lambda: cuda.device_array(4, stream=stream),
        lambda: cuda.device_array_like(host, stream=stream),
        lambda: cuda.event().record(stream),
        lambda: cuda.event().wait(stream),
        lambda: roc.to_device(host, stream=stream),
    ):
        with refused(TypeError, r"stream .*expected a stream made by stream\(\)", array, host):
            call()


def test_events_that_are_none():
    mark = cuda.event()
    for call in (
        lambda: mark.elapsed_time(3),
        lambda: cuda.event_elapsed_time(mark, None),
        lambda: cuda.event_elapsed_time(None, mark),
        lambda: cuda.stream().wait(3),
    ):
        with refused(TypeError, r"expected an event made by event\(\)"):
            call()


# ---- closed arrays ------------------------------------------------------------------------------


@pytest.mark.parametrize("given_back", ["array", "view"])
def test_a_closed_array_is_used_by_nothing(given_back):
    array, host, other = there(4), numbers(4), there(4)
    view = array[:]
    (array if given_back == "array" else view).close()

    @cuda.jit
    def kernel(a):
        a[0] = 1

    for used in (array, view, array.reshape(2, 2).ravel()):
        for call in (
            lambda used=used: used.copy_to_host(),
            lambda used=used: used.copy_to_host(host),
            lambda used=used: used.copy_to_device(host),
            lambda used=used: used.copy_to_device(other),
            lambda used=used: other.copy_to_device(used),
            lambda used=used: used[0],
            lambda used=used: used.setitem(0, 1),
            lambda used=used: used.setitem(slice(None), host),
            lambda used=used: other.setitem(slice(None), used),
            lambda used=used: used.fill(1),
            lambda used=used: np.asarray(used),
            lambda used=used: cuda.to_device(host, to=used),
            lambda used=used: cuda.to_device(used),
            lambda used=used: kernel[1, 1](used),
            lambda used=used: used.get_ipc_handle(),
            lambda used=used: used.__dlpack__(),
        ):
            with refused(ValueError, r"given back by close\(\).*allocate a new array", host, other):
                call()
        assert repr(used).endswith(", closed>")
    array.close()


@pytest.mark.parametrize("make", [cuda.mapped_array, cuda.managed_array])
def test_a_closed_array_of_the_hosts_memory_is_not_on_the_device(make):
    array = make(4)
    array.close()
    with pytest.raises(ValueError, match=r"given back by close\(\)"):
        cuda.to_device(array)


def test_the_end_of_a_with_closes():
    with there(4) as array:
        assert array[1] == 1
    with refused(ValueError, r"given back by close\(\)"):
        array.copy_to_host()


# ---- other devices ------------------------------------------------------------------------------


def test_streams_and_arrays_of_another_device(two_nulls):
    with haulage.use("null:0"):
        array, stream, mark = cuda.device_array(4), cuda.stream(), cuda.event()
    with haulage.use("null:1"):
        other, other_stream = cuda.device_array(4), cuda.stream()
    host = np.zeros(4)
    for call in (
        lambda: array.copy_to_host(host, stream=other_stream),
        lambda: array.copy_to_device(host, stream=other_stream),
        lambda: array.setitem(0, 1, stream=other_stream),
        lambda: array.fill(1, stream=other_stream),
        lambda: array.bind(other_stream),
        lambda: array.split(2, other_stream),
        lambda: mark.record(other_stream),
        lambda: cuda.to_device(array, stream=other_stream),
        lambda: cuda.to_device(host, to=array, stream=other_stream),
        lambda: roc.to_device(host, stream, other.device),
        lambda: roc.to_device(array, other_stream, array.device),
    ):
        with refused(DeviceMismatch, r"null:0.*null:1|null:1.*null:0", host):
            call()
    assert roc.to_device(array, None, other.device).device == other.device


def test_arrays_of_another_driver(two_nulls):
    with haulage.use("cpu"):
        other = cuda.to_device(np.zeros(4))
    with haulage.use("null:0"):
        array = cuda.device_array(4)
    for call in (
        lambda: array.copy_to_device(other),
        lambda: array.setitem(slice(None), other),
        lambda: other.copy_to_device(array),
    ):
        with refused(DeviceMismatch, "null:0.*cpu:0|cpu:0.*null:0", other):
            call()


@pytest.mark.parametrize("name", ["gpu", "cuda", "cpu:x", "cpu:99", "nvidia:99", "7"])
def test_an_environment_that_names_no_device(name):
    """The first use names the variable and what it could have been; no other device is taken."""
    program = (
        "import numpy as np\n"
        "from haulage import cuda\n"
        "from haulage.errors import DeviceNotFound\n"
        "try:\n"
        "    cuda.to_device(np.arange(3))\n"
        "except DeviceNotFound as error:\n"
        "    print(error)\n"
        "else:\n"
        "    raise SystemExit('no error')\n"
        "assert not cuda.is_available()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "HAULAGE_DEVICE": name},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert f"HAULAGE_DEVICE {name!r}" in result.stdout
    assert "cpu" in result.stdout or "nvidia" in result.stdout


def test_a_context_that_is_no_device():
    with refused(TypeError, "expected a name such as 'cpu'"):
        roc.to_device(numbers(3), context=7)
