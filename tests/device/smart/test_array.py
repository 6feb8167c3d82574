"""SmartArray on each device: what it holds, where it is, and what is moved when."""

import copy
import pickle
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import haulage
from haulage import SmartArray, cuda, roc
from haulage.errors import CoherenceError, DeviceNotFound, LaunchError
from haulage.runtime.launch.kinds import key_of

pytestmark = pytest.mark.usefixtures("device")

ONE_WARP = (1, 32)


@cuda.jit
def scale(a, factor):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= factor


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def transpose(a, out):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        out[j, i] = a[i, j]


@cuda.jit
def add_pair(pair):
    i = cuda.grid(1)
    if i < pair[0].size:
        pair[0][i] += pair[1][i]


@roc.jit
def increment(a):
    i = roc.get_global_id(0)
    if i < a.size:
        a[i] += 1


def moves(a):
    """(direction, bytes) of each transfer so far."""
    return [("down" if t.target == "host" else "up", t.nbytes) for t in a.coherence.transfers]


def numbers(n=20):
    return np.arange(n, dtype=np.float32)


# ---- moving --------------------------------------------------------------------------------------


def test_kernels_in_a_row_move_the_array_once_and_a_look_brings_it_back_once():
    a = SmartArray(numbers())
    assert moves(a) == []
    for _ in range(10):
        scale[ONE_WARP](a, 2)
    assert moves(a) == [("up", 80)]
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(a), numbers() * 1024)
    assert moves(a) == [("up", 80), ("down", 80)]


def test_each_transfer_says_who_needed_the_bytes(device):
    a = SmartArray(numbers())
    scale[ONE_WARP](a, 2)
    a[3]
    up, down = a.coherence.transfers
    assert (up.source, up.target, up.why) == ("host", str(device), "kernel scale")
    assert (down.source, down.target, down.why) == (str(device), "host", "reading a[...]")
    assert "(20,) float32" in up.array


def test_assigning_on_the_host_sends_what_was_assigned_up_again():
    a = SmartArray(numbers())
    scale[ONE_WARP](a, 2)
    a[4:6] = 1
    scale[ONE_WARP](a, 10)
    expected = numbers() * 20
    expected[4:6] = 10
    np.testing.assert_array_equal(a.get(), expected)
    assert moves(a) == [("up", 80), ("up", 8), ("down", 80)]


@pytest.mark.parametrize("key", [..., slice(None)])
def test_assigning_to_the_whole_array_brings_nothing_to_the_host(key):
    a = SmartArray(numbers())
    scale[ONE_WARP](a, 2)
    a[key] = 3
    assert moves(a) == [("up", 80)]
    np.testing.assert_array_equal(a.get(), np.full(20, 3))


def test_an_assignment_that_fails_loses_nothing_of_the_device():
    a = SmartArray(numbers())
    scale[ONE_WARP](a, 2)
    with pytest.raises(ValueError, match="broadcast"):
        a[...] = [1, 2, 3]
    np.testing.assert_array_equal(a.get(), numbers() * 2)


def test_an_array_can_be_assigned_to_itself():
    a = SmartArray(numbers())
    scale[ONE_WARP](a, 2)
    a[...] = a
    np.testing.assert_array_equal(a.get(), numbers() * 2)


def test_a_new_array_is_not_moved_to_the_first_kernel_that_fills_it():
    a, b = SmartArray(numbers()), SmartArray(numbers())
    out = SmartArray(shape=20, dtype=np.float32, where="gpu")
    add[ONE_WARP](a, b, out)
    np.testing.assert_array_equal(out, numbers() * 2)
    assert moves(out) == [("down", 80)]


def test_it_starts_where_it_was_asked_to(device):
    a = SmartArray(numbers(), where="gpu")
    assert moves(a) == [("up", 80)]
    assert repr(a) == f"<SmartArray shape=(20,) dtype=float32 current on host, {device}>"
    scale[ONE_WARP](a, 1)
    assert len(moves(a)) == 1


def test_showing_it_moves_nothing(device):
    a = SmartArray(numbers())
    scale[ONE_WARP](a, 1)
    assert repr(a) == f"<SmartArray shape=(20,) dtype=float32 current on {device}>"
    assert moves(a) == [("up", 80)]


def test_a_launch_that_fails_leaves_the_host_current():
    a = SmartArray(numbers())
    with pytest.raises(LaunchError):
        scale[ONE_WARP](a, "two")
    np.testing.assert_array_equal(a.get(), numbers())
    assert ("down", 80) not in moves(a)


# ---- kernels -------------------------------------------------------------------------------------


def test_kernels_take_it_with_device_arrays_and_host_arrays_and_twice():
    a = SmartArray(numbers())
    out = np.zeros(20, np.float32)
    add[ONE_WARP](a, cuda.to_device(numbers()), out)
    np.testing.assert_array_equal(out, numbers() * 2)
    add[ONE_WARP](a, a, a)
    np.testing.assert_array_equal(a, numbers() * 2)


@pytest.mark.parametrize("make", [tuple, lambda pair: namedtuple("Pair", "x y")(*pair)])
def test_kernels_take_it_within_tuples(make):
    a, b = SmartArray(numbers()), SmartArray(numbers())
    add_pair[ONE_WARP](make([a, b]))
    np.testing.assert_array_equal(a, numbers() * 2)


def test_kernels_of_the_other_vocabulary_take_it():
    a = SmartArray(numbers())
    increment[1, 64](a)
    np.testing.assert_array_equal(a, numbers() + 1)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_kernel_sees_its_axes_in_either_order(order):
    values = np.arange(12.0).reshape(3, 4)
    a = SmartArray(values, order=order)
    out = SmartArray(shape=(4, 3), order=order)
    transpose[1, (8, 8)](a, out)
    np.testing.assert_array_equal(out, values.T)
    assert out.strides == np.empty((4, 3), order=order).strides


def test_a_kernel_in_a_stream_has_ended_when_someone_looks(device, hold_up):
    a = SmartArray(numbers())
    scale[ONE_WARP](a, 1)
    first, second = cuda.stream(), cuda.stream()
    with hold_up(first):
        scale[1, 32, first](a, 2)
        scale[1, 32, second](a, 3)
        assert not second.query()
    np.testing.assert_array_equal(a, numbers() * 6)
    assert moves(a) == [("up", 80), ("down", 80)]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from(["kernel", "stream", "set", "all", "look", "host", "gpu"])))
def test_any_use_gives_what_one_numpy_array_would(device, uses):
    a, oracle = SmartArray(numbers()), numbers()
    stream = cuda.stream()
    for n, use in enumerate(uses):
        if use == "kernel":
            scale[ONE_WARP](a, 2)
            oracle *= 2
        elif use == "stream":
            scale[1, 32, stream](a, 3)
            oracle *= 3
        elif use == "set":
            a[5:9] = oracle[5:9] = n
        elif use == "all":
            a[...] = oracle[...] = n
        elif use == "look":
            np.testing.assert_array_equal(a[2:7], oracle[2:7])
        elif use == "host":
            a.get("host")[3] = oracle[3] = n
            a.mark_changed("host")
        else:
            a.get("gpu")[4] = oracle[4] = n
            a.mark_changed("gpu")
    np.testing.assert_array_equal(a, oracle)
    changes = [use for use in uses if use not in ("look",)]
    assert sum(nbytes for _, nbytes in moves(a)) <= 80 * (2 * len(changes) + 1)


class Anywhere:
    """An array that moves itself, of its own class, and notes what the launch asks of it."""

    def __init__(self, error=None):
        self.array = cuda.to_device(numbers())
        self.error = error
        self.notes = []

    def __haulage_describe__(self):
        return self.array.dtype, 1, "C", False, True

    def __haulage_acquire__(self, stream, why, mode, whole=False, ways=2):
        self.notes.append((stream, why, mode))
        return self.array, self.release

    def __haulage_shares__(self, other):
        return other is self

    def release(self, handed):
        self.notes.append("released" if handed else "failed")
        if self.error:
            raise self.error


def test_any_class_with_the_protocol_says_which_device_array_a_kernel_gets(device):
    a, stream = Anywhere(), cuda.stream()
    for _ in range(2):
        scale[1, 32, stream](a, 2)
        assert a.notes == [(stream, "kernel scale", "rw"), "released"]
        a.notes.clear()
    scale[ONE_WARP](a, 1)
    assert a.notes[0][0] == device.default_stream
    np.testing.assert_array_equal(a.array.copy_to_host(), numbers() * 4)


def test_an_error_of_one_argument_after_the_launch_leaves_none_out():
    add[ONE_WARP](Anywhere(), Anywhere(), SmartArray(numbers()))  # is skipped where none can run
    a, b, out = Anywhere(CoherenceError("the first")), Anywhere(), SmartArray(numbers())
    with pytest.raises(CoherenceError, match="the first"):
        add[ONE_WARP](a, b, out)
    assert b.notes[-1] == "released"
    np.testing.assert_array_equal(out, numbers() * 2)


# ---- get and mark_changed ------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["gpu", "cuda", "device", "name", "object"])
def test_get_gives_the_device_array_for_each_name_of_the_device(device, where):
    a = SmartArray(numbers())
    there = a.get({"name": str(device), "object": device}.get(where, where))
    assert there.device is device
    assert there is a.get("gpu")
    np.testing.assert_array_equal(there.copy_to_host(), numbers())


def test_get_gives_the_same_host_memory_each_time_and_its_changes_are_told():
    a = SmartArray(numbers())
    host = a.get()
    scale[ONE_WARP](a, 2)
    assert np.shares_memory(host, a.get("host"))
    host[0] = 7
    a.mark_changed()
    scale[ONE_WARP](a, 2)
    a.get()
    assert (host[0], host[1]) == (14, 4)


def test_changes_on_the_device_are_told():
    a = SmartArray(numbers())
    a.get("gpu")[2] = 50
    a.mark_changed("gpu")
    assert a[2] == 50


def test_marking_a_place_that_is_out_of_date_is_an_error(device):
    a = SmartArray(numbers())
    host = a.get()
    scale[ONE_WARP](a, 2)
    host[0] = 7
    last = rf"{device} was written last at \S*test_array.py:\d+ in \w+; call get\('host'\)"
    with pytest.raises(CoherenceError, match=last):
        a.mark_changed("host")


@pytest.mark.parametrize("where", ["moon", "", 3, None, "HOST"])
def test_an_unknown_place_is_an_error_that_lists_them(where):
    for call in (SmartArray(1.0).get, SmartArray(1.0).mark_changed):
        with pytest.raises(ValueError, match="expected 'host', 'gpu' for the current device, or"):
            call(where)


def test_a_device_that_is_not_there_is_an_error():
    with pytest.raises(DeviceNotFound, match="cpu:7"):
        SmartArray(1.0, where="cpu:7")


# ---- making one ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        np.arange(24.0).reshape(2, 3, 4),
        np.arange(24.0).reshape(2, 3, 4).T,
        np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0),
        np.arange(24)[::-2],
        np.broadcast_to(np.arange(3), (2, 3)),
        np.array(5, "M8[s]"),
        np.zeros((0, 3)),
        np.zeros(3, "V0"),
        np.array([(1, 2.5)], "i4,f8"),
        [[1, 2], [3, 4]],
        7,
    ],
    ids=lambda values: str(getattr(values, "strides", values)),
)
def test_it_has_the_shape_dtype_and_values_of_what_it_was_made_of(values):
    a, like = SmartArray(values), np.array(values, order="K")
    assert (a.shape, a.dtype, a.ndim) == (like.shape, like.dtype, like.ndim)
    assert (a.size, a.nbytes) == (like.size, like.nbytes)
    a.get("gpu")
    a.mark_changed("gpu")
    np.testing.assert_array_equal(a.get(), like)
    if like.nbytes:
        assert a.strides == like.strides


def test_a_copy_is_a_copy_and_copy_false_is_none():
    values = numbers()
    a, b = SmartArray(values), SmartArray(values, copy=False)
    scale[ONE_WARP](a, 2)
    scale[ONE_WARP](b, 3)
    a.get()
    np.testing.assert_array_equal(values, numbers())
    b.get()
    np.testing.assert_array_equal(values, numbers() * 3)


def test_copy_false_of_a_smart_array_shares_its_elements():
    a = SmartArray(numbers())
    b = SmartArray(a, copy=False)
    scale[ONE_WARP](b, 2)
    np.testing.assert_array_equal(a, numbers() * 2)
    np.testing.assert_array_equal(SmartArray(a), b)


def test_copy_false_stands_on_fortran_order_too():
    values = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    out = SmartArray(values, copy=False)
    transpose[1, (8, 8)](np.full((4, 3), 2.0), out)
    assert out.get()[1, 1] == values[1, 1] == 2


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (np.arange(6)[::2], {}, "has gaps"),
        (np.broadcast_to(1, 6), {}, "read-only"),
        ([1, 2], {}, "of a list"),
        (np.arange(6), {"dtype": "f4"}, "cannot make dtype float32"),
        (np.zeros((2, 3)), {"order": "F"}, "order 'F'"),
    ],
)
def test_copy_false_is_an_error_where_a_copy_would_be_needed(values, options, message):
    with pytest.raises(ValueError, match=message):
        SmartArray(values, copy=False, **options)


def test_what_it_is_made_of_is_either_an_array_or_a_shape():
    with pytest.raises(TypeError, match="got neither"):
        SmartArray()
    with pytest.raises(TypeError, match="got both"):
        SmartArray([1], shape=1)
    with pytest.raises(TypeError, match="Python objects"):
        SmartArray([None, 1])
    with pytest.raises(TypeError, match="Python objects"):
        SmartArray(shape=3, dtype=object)
    with pytest.raises(ValueError, match="order 'K'"):
        SmartArray([1], order="K")


def test_a_new_array_and_a_converted_one_have_the_dtype_asked_for():
    assert SmartArray(shape=(2, 3)).dtype == np.float64
    assert SmartArray(shape=(2, 3), dtype="i2").get().nbytes == 12
    np.testing.assert_array_equal(SmartArray([1.5, 2.5], dtype=np.int32), [1, 2])


# ---- as an array on the host ---------------------------------------------------------------------


def test_numpy_and_python_see_its_elements():
    a = SmartArray(numbers())
    scale[ONE_WARP](a, 2)
    assert (len(a), a[1], np.sum(a), max(a)) == (20, 2, 380, 38)
    np.testing.assert_array_equal(a[[1, 3]], [2, 6])
    np.testing.assert_array_equal(a[a.get() > 34], [36, 38])
    np.testing.assert_array_equal(numbers() + a, numbers() * 3)
    assert not SmartArray(0)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(a)
    with pytest.raises(TypeError, match="without axes"):
        len(SmartArray(1))


def test_conversion_copies_where_asked_or_needed_only():
    a = SmartArray(numbers())
    assert np.shares_memory(np.asarray(a), a.get())
    for made in (a.__array__(copy=True), a.__array__(np.float64), a.__array__(np.float32, True)):
        assert made.flags.writeable
        assert not np.shares_memory(made, a.get())
    with pytest.raises(ValueError, match="without a copy"):
        a.__array__(np.int8, copy=False)


@pytest.mark.parametrize("view", [np.asarray, lambda a: a.get("host", "r"), lambda a: a.flat.base])
def test_a_view_that_would_hide_writes_cannot_be_written(view):
    seen = view(SmartArray(numbers()))
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        seen.flags.writeable = True


@pytest.mark.parametrize(
    "again", [lambda a: pickle.loads(pickle.dumps(a)), copy.copy, copy.deepcopy]
)
def test_pickling_and_copying_give_an_array_of_its_own(again):
    a = SmartArray(numbers())
    scale[ONE_WARP](a, 2)
    made = again(a)
    scale[ONE_WARP](a, 2)
    np.testing.assert_array_equal(made, numbers() * 2)


def test_structured_elements_are_assigned_as_in_numpy():
    a = SmartArray(shape=2, dtype="i4,f8")
    a[0], a[1] = (1, 2.5), (3, 4.5)
    assert a[1].item() == (3, 4.5)


def test_a_smart_array_that_no_kernel_uses_needs_no_compiler(device):
    code = (
        "import sys, numpy, haulage\n"
        f"haulage.use({str(device)!r})\n"
        "a = haulage.SmartArray(numpy.arange(3.0))\n"
        "a.get('gpu')[1] = 5\n"
        "a.mark_changed('gpu')\n"
        "assert list(a) == [0, 5, 2]\n"
        "assert not {'numba', 'llvmlite'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_it_is_a_name_of_the_package():
    assert haulage.SmartArray is SmartArray
    assert "SmartArray" in dir(haulage)


# ---- what kernels do with their arguments --------------------------------------------------------


@cuda.jit
def fill(a, value):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = value


@cuda.jit
def copy_to(a, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i]


@cuda.jit
def sizes(a, out):
    out[0] = a.size


@cuda.jit
def copy_pair(pair):
    i = cuda.grid(1)
    if i < pair[1].size:
        pair[1][i] = pair[0][i]


def test_what_a_kernel_only_reads_stays_current_on_the_host():
    a, out = SmartArray(numbers()), SmartArray(numbers())
    for _ in range(3):
        copy_to[ONE_WARP](a, out)
        np.asarray(a)
    assert moves(a) == [("up", 80)]
    copy_pair[ONE_WARP]((a, out))
    np.asarray(a)
    assert moves(a) == [("up", 80)]


def test_what_a_kernel_overwrites_is_not_moved_to_it():
    a, out = SmartArray(numbers()), SmartArray(numbers())
    copy_to[ONE_WARP](a, out)
    assert moves(out) == []
    np.testing.assert_array_equal(out, numbers())
    out[...] = 5
    copy_pair[ONE_WARP]((a, out))
    np.testing.assert_array_equal(out, numbers())
    assert moves(out) == [("down", 80)] * 2


def test_what_a_launch_leaves_out_is_kept():
    out = SmartArray(numbers(40))
    fill[ONE_WARP](out, 7)  # of 40 elements, 32
    np.testing.assert_array_equal(out, [*[7] * 32, *range(32, 40)])
    spread = SmartArray(numbers())
    fill[ONE_WARP](spread[::2], 9)  # between which others lie
    np.testing.assert_array_equal(spread[:4], [9, 1, 9, 3])


def test_what_a_kernel_does_not_touch_is_not_moved():
    a, out = SmartArray(numbers()), SmartArray(shape=1, dtype=np.int64)
    sizes[1, 1](a, out)
    assert moves(a) == []
    assert out[0] == 20


def test_two_arguments_of_one_storage_are_read_before_they_are_overwritten():
    a = SmartArray(numbers())
    copy_to[ONE_WARP](a, a)
    np.testing.assert_array_equal(a, numbers())
    b = SmartArray(numbers())
    copy_to[1, 10](b[10:], b[:10])
    np.testing.assert_array_equal(b[:10], numbers()[10:])


def test_what_is_read_by_the_array_of_get_is_there_before_it_is_overwritten():
    for launch in (
        lambda there, a: copy_to[ONE_WARP](there, a),
        lambda there, a: copy_pair[ONE_WARP]((there, a)),
        lambda there, a: copy_to[ONE_WARP](there[:], a),
    ):
        a = SmartArray(numbers() * 0)
        there = a.get("gpu")
        a[...] = numbers()
        launch(there, a)
        np.testing.assert_array_equal(a, numbers())


def test_a_launch_that_fails_has_overwritten_nothing():
    @cuda.jit
    def fill_by_shared(a):
        room = cuda.shared.array(0, np.float32)
        i = cuda.grid(1)
        room[cuda.threadIdx.x] = i
        if i < a.size:
            a[i] = room[cuda.threadIdx.x]

    a = SmartArray(numbers())
    scale[ONE_WARP](a, 2)
    a[...] = 4
    with pytest.raises(LaunchError, match="dynamic"):
        fill_by_shared[ONE_WARP](a)
    np.testing.assert_array_equal(a, np.full(20, 4))
    fill_by_shared[1, 32, 0, 128](a)
    np.testing.assert_array_equal(a, numbers())
    assert fill_by_shared.access("void(float32[::1])")["a"].wholes


@pytest.mark.parametrize("key", [..., slice(1, None), (slice(None, None, 2),)])
def test_code_is_chosen_as_for_the_device_array(key):
    for where in ("host", "mapped"):
        for values in (
            numbers(),
            np.zeros((4, 3)),
            np.zeros((4, 3), order="F"),
            np.zeros(3, "i1,f8"),
        ):
            a = SmartArray(values, where=where)[key]
            for each in (a, a["f1"]) if values.dtype.names else (a,):
                assert key_of(each) == key_of(each.get("gpu"))
