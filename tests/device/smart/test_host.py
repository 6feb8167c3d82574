"""How the host writes to SmartArrays: views that are noticed, `host(mode)`, and what it costs."""

import contextlib
import gc
import os
import re
import sys
import threading
import time
import warnings

import numba
import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from haulage._core.coherence import acquire
from haulage.errors import CoherenceError, Unsupported
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.coherence import eviction
from haulage.runtime.geometry.ranges import Ranges

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True


@cuda.jit
def double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


@cuda.jit
def add(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += b[i]


def numbers(n=20):
    return np.arange(n, dtype=np.float32)


def moves(a):
    return [("down" if t.target == "host" else "up", t.nbytes) for t in a.coherence.transfers]


def line():
    return sys._getframe(1).f_lineno


# ---- views that NumPy writes through -------------------------------------------------------------


def test_what_is_written_through_a_view_is_noticed():
    a = SmartArray(numbers())
    a.get()[3] = 50
    double[1, 32](a)
    a.get("host")[4:6] = 7
    np.add(a.get(), 1, out=a.get())
    double[1, 32](a)
    expected = numbers()
    expected[3] = 50
    expected *= 2
    expected[4:6] = 7
    np.testing.assert_array_equal(a, (expected + 1) * 2)


def test_a_view_that_lives_counts_at_each_launch_and_one_that_is_gone_once():
    a = SmartArray(numbers())
    view = a.get()[5:10]
    for n in range(3):
        view[0] = n
        double[1, 32](a)
        a.get("host", "r")
        assert view[0] == 2 * n
    assert moves(a) == [("up", 80), ("down", 80)] * 3
    del view
    for _ in range(3):
        double[1, 32](a)
        np.asarray(a)
    assert moves(a)[6:] == [("up", 80)] + [("down", 80)] * 3


def test_a_view_of_a_part_counts_for_that_part():
    a = SmartArray(numbers())
    double[1, 32](a)
    np.asarray(a)
    view = a[4:8].get()
    view[1] = 100
    double[1, 32](a)
    assert moves(a)[2:] == [("up", 16)]
    assert a[5] == 200


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: array[::2],
        lambda array: array.reshape(4, 5).T,
        lambda array: array.view(np.int32),
        memoryview,
        lambda array: np.asarray(memoryview(array)),
        lambda array: np.from_dlpack(array),
        lambda array: array.flat,
    ],
    ids=["slice", "shape", "view", "memoryview", "of memoryview", "dlpack", "flat"],
)
def test_everything_that_numpy_makes_of_a_view_is_one(hold):
    a = SmartArray(numbers())
    held = hold(a.get())
    double[1, 32](a)
    np.asarray(a)
    assert moves(a) == [("up", 80), ("down", 80)]
    double[1, 32](a)
    assert moves(a)[2:] == [("up", 80)]
    del held
    gc.collect()
    np.asarray(a)
    double[1, 32](a)
    double[1, 32](a)
    # Nothing was written through it since it was brought up.
    assert [way for way, _ in moves(a)[3:]] == ["down"]


def test_copies_of_a_view_are_none():
    a = SmartArray(numbers())
    copied = a.get().copy() + a.get()[[1]]
    double[1, 32](a)
    np.asarray(a)
    double[1, 32](a)
    assert moves(a) == [("up", 80), ("down", 80)]
    assert copied.flags.writeable


def test_reading_moves_nothing_up():
    a = SmartArray(numbers())
    double[1, 32](a)
    seen = np.asarray(a), a.get("host", "r"), a[3:5], a.sum()
    double[1, 32](a)
    assert moves(a) == [("up", 80), ("down", 80)]
    assert seen[0] is not None


@pytest.mark.parametrize("wait", ["device", "stream", "get"])
def test_a_view_shows_what_a_kernel_wrote_once_it_was_waited_for(wait):
    a, stream = SmartArray(numbers()), cuda.stream()
    view = a.get()
    double[1, 32, stream](a)
    if wait == "device":
        cuda.synchronize()
    elif wait == "stream":
        stream.synchronize()
    else:
        a.get()
    np.testing.assert_array_equal(view, numbers() * 2)
    view[0] = 9
    double[1, 32](a)
    assert a[0] == 18
    # Nobody waits for what nobody sees.
    del view
    double[1, 32](a)
    before = len(moves(a))
    cuda.synchronize()
    assert len(moves(a)) == before


def test_a_wait_brings_what_views_that_live_show_and_no_more():
    a = SmartArray(numbers())
    kept, gone = a[:10].get(), a[5:].get()
    double[1, 32](a)
    del gone
    cuda.synchronize()
    double[1, 32](a)
    assert moves(a) == [("up", 80), ("down", 40), ("up", 40)]
    assert kept[9] == 18


def test_waiting_for_another_stream_than_that_which_writes_brings_nothing(hold_up):
    a, first, second = SmartArray(numbers(), where="pinned"), cuda.stream(), cuda.stream()
    view = a.get()
    with hold_up(first):
        double[1, 32, first](a)  # which does not wait for the stream
        view_before = view.copy()
        second.synchronize()
        np.testing.assert_array_equal(view, view_before)
    first.synchronize()
    np.testing.assert_array_equal(view, numbers() * 2)


def test_what_is_written_after_a_launch_that_reads_is_for_the_next_one(device, hold_up):
    a, stream = SmartArray(numbers(), where="pinned"), cuda.stream()
    view = a.get()
    with hold_up(stream):
        block = a.coherence.acquire_device(device, "r", stream, "a test")
        view[...] = 5
    stream.synchronize()
    there = DeviceNDArray(20, 4, np.float32, 0, block)
    np.testing.assert_array_equal(there.copy_to_host(), numbers())
    double[1, 32](a)
    assert a[0] == 10


def overlapping(a, view):
    double[1, 32](a)
    launched = line() - 1
    view[2] = 5
    return launched


LOOKS = {
    "kernel": lambda a: double[1, 32](a),
    "look": np.asarray,
    "get": lambda a: a.get(),
    "synchronize": lambda a: cuda.synchronize(),
    "the view goes": None,
}


@pytest.mark.parametrize("look", LOOKS)
def test_writing_on_both_sides_is_an_error_that_names_both_lines(look):
    a = SmartArray(numbers())
    view, taken = a.get(), line()
    launched = overlapping(a, view)
    pattern = re.escape(f"{__file__}:{launched} in overlapping") + ".*"
    pattern += re.escape(f"{__file__}:{taken} in test_writing")
    if look == "kernel":
        double[1, 32](a)  # which needs nothing of the host
        look = "look"
    elif look == "the view goes":
        del view
        look = "kernel"
    with pytest.raises(CoherenceError, match=pattern):
        LOOKS[look](a)
    # What the device has is there still, and it is told once.
    expected = numbers() * 2
    assert a[3] in (expected[3], 2 * expected[3])


def test_a_view_is_noticed_after_an_error_about_it_too():
    a = SmartArray(numbers())
    view = a.get()
    double[1, 32](a[:10])
    view[...] = 5
    for _ in range(2):
        double[1, 32](a[:10])
    with pytest.raises(CoherenceError):
        np.asarray(a)
    np.testing.assert_array_equal(a, [*(numbers()[:10] * 8), *[5] * 10])
    view[0] = view[12] = 1
    double[1, 32](a)
    assert (a[0], a[12]) == (2, 2)


def test_an_error_about_a_view_is_told_once_and_the_next_wait_brings_it_up_to_date():
    arrays = [SmartArray(numbers()) for _ in range(3)]
    views = [array.get() for array in arrays]
    for array in arrays:
        double[1, 32](array)
    views[1][3] = 50
    with pytest.raises(CoherenceError, match="which is lost"):
        cuda.synchronize()
    for other in (0, 2):
        np.testing.assert_array_equal(views[other], numbers() * 2)
    cuda.synchronize()
    np.testing.assert_array_equal(views[1], numbers() * 2)
    views[1][4] = 50
    assert (arrays[1][3], arrays[1][4]) == (6, 50)


def test_threads_that_wait_at_once_each_find_their_views_up_to_date():
    double[1, 32](SmartArray(numbers()))  # a thread could not skip the test
    together = threading.Barrier(4)
    both = SmartArray(np.ones(40, np.float32))
    arrays = [*(SmartArray(np.ones(20, np.float32)) for _ in range(2)), both[:20], both[20:]]
    errors = []

    def wait(array):
        view = array.get()
        try:
            for n in range(1, 31):
                double[1, 32](array)
                if n % 2:
                    together.wait(60)
                cuda.synchronize()
                assert set(view) == {2.0**n}
        except BaseException as error:
            errors.append(error)
            together.abort()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=wait, args=(array,)) for array in arrays]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors, errors


def test_each_argument_has_what_was_written_through_a_view():
    a = SmartArray(numbers())
    view = a.get()
    add[1, 32](a[:5], a[10:15])
    view[12] = 100
    add[1, 32](a[:5], a[10:15])
    np.testing.assert_array_equal(a[:5], [20, 23, 2 + 12 + 100, 29, 32])


def test_a_view_that_is_out_of_date_stays_so_where_an_assignment_fails():
    a = SmartArray(numbers())
    view = a.get()
    double[1, 32](a)
    with pytest.raises(ValueError, match="broadcast"):
        a[...] = [1, 2, 3]
    with pytest.raises(ZeroDivisionError), a.host("w"):
        raise ZeroDivisionError
    view[0] = 5
    with pytest.raises(CoherenceError):
        np.asarray(a)


def test_only_the_program_brings_views_up_to_date_by_waiting():
    a, out = SmartArray(numbers()), cuda.device_array(1, np.int64)
    view = a.get()
    double[1, 32](a)
    assert out[0] is not None  # which waits
    cuda.to_device(numbers()).copy_to_host()
    assert moves(a) == [("up", 80)]
    cuda.synchronize()
    assert moves(a) == [("up", 80), ("down", 80)]
    assert view[3] == 6


def test_writing_what_a_kernel_was_not_given_is_none():
    a = SmartArray(numbers())
    view = a.get()
    double[1, 32](a[:10])
    view[15] = 100
    double[1, 32](a[14:16])
    cuda.synchronize()
    np.testing.assert_array_equal(view[:10], numbers()[:10] * 2)
    assert (view[14], view[15]) == (28, 200)


def test_a_view_that_is_not_written_does_no_harm():
    a = SmartArray(numbers())
    view = a.get()
    for _ in range(5):
        double[1, 32](a)
    assert moves(a) == [("up", 80)]
    np.testing.assert_array_equal(a, numbers() * 32)
    np.testing.assert_array_equal(view, numbers() * 32)


def test_views_go_in_any_thread():
    a = SmartArray(numbers())
    double[1, 32](a)
    views = [a.get() for _ in range(8)]
    views[3][0] = 11
    threads = [threading.Thread(target=views.pop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    double[1, 32](a)
    double[1, 32](a)
    assert moves(a) == [("up", 80), ("down", 80), ("up", 80)]
    assert a[0] == 44


@pytest.mark.parametrize(
    "order", ["view first", "view last", "only part", "launched before", "gone"]
)
def test_what_a_view_wrote_while_the_program_has_the_device_array_is_not_lost(order):
    a = SmartArray(numbers())
    there = a.get("gpu") if order == "view last" else None
    view, taken = a.get(), line()
    if there is None:
        there = a.get("gpu")[2:]
    if order == "launched before":
        add[1, 32](numbers(), a)  # moves what counts as written
    view[5] = 50
    there[1] = 7
    if order == "gone":
        del view
    same = rf"host was written last at .*:{taken} in .*; call get\('[^']+'\) before"
    with pytest.raises(CoherenceError, match=same):
        (a[3:9] if order == "only part" else a).mark_changed("gpu")
    expected = numbers()
    expected[5] = 50
    np.testing.assert_array_equal(a, expected)
    there = a.get("gpu")
    there[1] = 7
    a.mark_changed("gpu")
    expected[1] = 7
    np.testing.assert_array_equal(a, expected)


def test_a_view_and_the_device_array_can_be_written_at_different_places_or_times():
    a = SmartArray(numbers())
    view, there = a.get(), a.get("gpu")
    view[:10] = 50
    there[10:] = 7
    a[10:].mark_changed("gpu")
    expected = numbers()
    expected[:10], expected[10:] = 50, 7
    np.testing.assert_array_equal(a, expected)
    for n in range(3):
        a[2] = expected[2] = n
        double[1, 32](a)
        a.get("gpu")
        there[3] = n
        a.mark_changed("gpu")
        expected *= 2
        expected[3] = n
        cuda.synchronize()
        view[4] = expected[4] = -n
        np.testing.assert_array_equal(a, expected)


# ---- host(mode) ----------------------------------------------------------------------------------


def test_host_gives_the_elements_for_as_long_as_the_with():
    a, expected = SmartArray(numbers()), numbers()
    double[1, 32](a)
    expected *= 2
    with a.host("r") as array:
        np.testing.assert_array_equal(array, expected)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    double[1, 32](a)
    expected *= 2
    with a.host() as array:
        array += 1
    expected += 1
    del array
    double[1, 32](a)
    expected *= 2
    with a[5:10].host("w") as array:
        array[...] = expected[5:10] = 3
    del array
    assert moves(a) == [("up", 80), ("down", 80), ("down", 80), ("up", 80)]
    np.testing.assert_array_equal(a, expected)
    with pytest.raises(ValueError, match="mode 'x'"), a.host("x"):
        pass


def test_a_view_that_outlives_its_with_is_noticed():
    a = SmartArray(numbers())
    for mode in ("rw", "w"):
        with a.host(mode) as array:
            array[...] = 1
        array[0] = 7
        double[1, 32](a)
        assert a[0] == 14


def test_what_raises_while_it_overwrites_loses_nothing():
    a = SmartArray(numbers())
    double[1, 32](a)
    with pytest.raises(ZeroDivisionError), a.host("w") as array:
        array[:7] = 5 // 0
    np.testing.assert_array_equal(a, numbers() * 2)
    with pytest.raises(ZeroDivisionError), a.host("rw") as array:
        array[3], array[4] = 5, 5 // (array.size - 20)
    np.testing.assert_array_equal(a, numbers() * 2)


@pytest.mark.parametrize("mode", ["rw", "w"])
def test_a_kernel_that_writes_in_the_with_is_an_error_at_its_end(mode):
    a = SmartArray(numbers())
    double[1, 32](a)
    context = a.host(mode)
    array = context.__enter__()
    array[...] = 3
    double[1, 32](a)
    launched = line() - 1
    array[...] = 5
    with pytest.raises(CoherenceError, match=re.escape(f"{__file__}:{launched} in")):
        context.__exit__(None, None, None)
    np.testing.assert_array_equal(a, np.full(20, 6))


def test_a_device_array_that_is_written_in_the_with_is_an_error_that_is_told_once():
    a = SmartArray(numbers())
    double[1, 32](a)
    there = a.get("gpu")
    with a.host("w") as array:
        array[...] = 5
        there[...] = 7
        with pytest.raises(CoherenceError, match="host was written last"):
            a.mark_changed("gpu")
    np.testing.assert_array_equal(a, np.full(20, 5))


@pytest.mark.parametrize("mode", ["rw", "w"])
def test_what_was_written_in_the_with_is_there_for_who_needs_it_before_its_end(mode):
    a, b = SmartArray(numbers()), SmartArray(numbers() * 0)
    double[1, 32](a)
    with a.host(mode) as array:
        array[...] = 3
        assert a[1] == a.sum() / 20 == 3
        assert array[1] == 3
        add[1, 32](b, a)
        array[...] = 4
        add[1, 32](b, a)
    np.testing.assert_array_equal(b, np.full(20, 7))
    np.testing.assert_array_equal(a, np.full(20, 4))
    double[1, 32](a)
    with contextlib.suppress(ZeroDivisionError), a.host(mode) as array:
        array[...] = 3
        add[1, 32](b[:5], a[:5])
        raise ZeroDivisionError
    np.testing.assert_array_equal(a, np.full(20, 3))


def test_a_replica_is_not_evicted_over_what_is_overwritten_on_the_host(device):
    a = SmartArray(numbers())
    double[1, 32](a)
    (there,) = (place for place in a.coherence.current() if place != "host")
    with a.host("w") as array:
        array[...] = 3
        eviction.evict(a.coherence.state, there, True, "a test")
        assert array[1] == 3
    np.testing.assert_array_equal(a, np.full(20, 3))


def overwrite_and_fail(array):
    array[...] = 5
    raise ZeroDivisionError


def test_what_raises_while_it_overwrites_what_the_host_has_counts_as_written():
    """The device went on with what was there before."""
    a = SmartArray(numbers())
    double[1, 32](a)
    np.asarray(a[:5])
    with pytest.raises(ZeroDivisionError), a.host("w") as array:
        overwrite_and_fail(array)
    expected = numbers() * 2
    expected[:5] = 5
    np.testing.assert_array_equal(a.get("gpu").copy_to_host(), expected)
    array[1] = 7  # which is a view as any other
    expected[1] = 7
    double[1, 32](a)
    np.testing.assert_array_equal(a, expected * 2)


@numba.njit
def total(x):
    return x.sum()


@numba.njit
def clear(x):
    x[...] = 0


def test_functions_of_numbas_only_read_in_host_r():
    a = SmartArray(numbers())
    double[1, 32](a)
    with a.host("r"):
        assert total(a) == total(a[:]) == 380
        with pytest.raises(numba.TypingError, match=r"[Rr]ead-?only|readonly"):
            clear(a)
    double[1, 32](a)
    assert moves(a) == [("up", 80), ("down", 80)]
    assert total(a[:3]) == 12
    double[1, 32](a)
    assert moves(a)[2:] == [("down", 12), ("up", 12)]
    clear(a[1:])
    assert a.sum() == 0


def test_dlpack_gives_the_hosts_elements_which_can_be_written():
    a = SmartArray(numbers())
    double[1, 32](a)
    assert a.__dlpack_device__() == (1, 0)
    seen = np.from_dlpack(a)
    np.testing.assert_array_equal(seen, numbers() * 2)
    del seen
    double[1, 32](a)
    assert moves(a) == [("up", 80), ("down", 80), ("up", 80)]


def test_the_array_interface_is_for_reading():
    class Theirs:
        def __init__(self, a):
            self.held = a
            self.__array_interface__ = a.__array_interface__

    a = SmartArray(numbers())
    double[1, 32](a)
    seen = np.asarray(Theirs(a[2:]))
    np.testing.assert_array_equal(seen, numbers()[2:] * 2)
    assert not seen.flags.writeable
    assert moves(a) == [("up", 80), ("down", 72)]


# ---- memory of the host --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mapped", "managed"])
def test_memory_that_both_reach_is_never_moved(device, kind, hold_up):
    a, expected = SmartArray(numbers(), where=kind), numbers()
    stream = cuda.stream()
    view = a.get()
    for n in range(4):
        double[1, 32](a)
        double[1, 32, stream](a[5:])
        expected *= 2
        expected[5:] *= 2
        np.testing.assert_array_equal(a, expected)
        a[3] = expected[3] = n
        cuda.synchronize()
        view[7] = expected[7] = n
    with hold_up(stream):
        double[1, 32, stream](a)
        threading.Timer(0.1, lambda: None).start()
    np.testing.assert_array_equal(a, expected * 2)
    np.testing.assert_array_equal(a.get("gpu").copy_to_host(), expected * 2)
    assert moves(a) == []
    assert repr(a) == f"<SmartArray shape=(20,) dtype=float32 current on host, {device}>"


@cuda.jit
def fill(a, value):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = value


def test_a_view_shows_what_one_device_overwrites_in_mapped_memory_after_another_one(devices):
    _, other = devices
    a = SmartArray(numbers(), where="mapped")
    view = a.get()
    with haulage.use(other):
        double[1, 32](a)
    fill[1, 32](a, 3)
    cuda.synchronize()
    view[0] = 7
    with haulage.use(other):
        double[1, 32](a)
    np.testing.assert_array_equal(a, [14, *[6] * 19])


def test_mapped_memory_is_written_when_a_device_has_read_it(devices):
    _, other = devices
    a, stream = SmartArray(numbers(), where="mapped"), cuda.stream()
    out = cuda.to_device(np.zeros(20, np.float32))
    try:
        stream.add_callback(lambda *_: time.sleep(0.1))
    except Unsupported:
        pytest.skip("there are no callbacks to hold a stream up with")
    add[1, 32, stream](out, a)
    with haulage.use(other):
        double[1, 32](a)
    double[1, 32](a)
    np.testing.assert_array_equal(a, numbers() * 4)
    np.testing.assert_array_equal(out.copy_to_host(stream=stream), numbers())


def test_what_stands_on_a_mapped_array_is_not_moved_either():
    mapped = cuda.mapped_array(20, np.float32)
    mapped[...] = numbers()
    a = SmartArray(mapped[4:], copy=False)
    double[1, 32](a)
    np.testing.assert_array_equal(a, numbers()[4:] * 2)
    assert moves(a) == []
    assert mapped[5] == 10


def test_pinned_memory_of_the_host(hold_up):
    a, stream = SmartArray(numbers(), where="pinned"), cuda.stream()
    view = a.get()
    with hold_up(stream):
        pass
    double[1, 32, stream](a)
    np.testing.assert_array_equal(a, numbers() * 2)
    view[0] = 4
    double[1, 32, stream](a)
    assert a[0] == 8
    assert SmartArray(shape=3, where="pinned").get().shape == (3,)


def test_memory_of_the_host_is_asked_for_of_new_arrays_only():
    with pytest.raises(ValueError, match=r"copy=False, where='pinned'"):
        SmartArray(numbers(), copy=False, where="pinned")
    with pytest.raises(ValueError, match="or memory of the host: 'pinned', 'mapped', 'managed'"):
        SmartArray(numbers(), where="moon")
    with pytest.raises(ValueError, match="where='pinned'"):
        SmartArray(numbers()).get("pinned")


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "not at once"])
@pytest.mark.parametrize("whole", [True, False], ids=["overwritten", "written"])
def test_an_interrupt_of_a_launch_leaves_one_value_of_each_element(device, whole, at_once):
    """It may come when the kernel was handed over and nobody has said so."""
    a = SmartArray(numbers(), where="gpu")
    stream = device.default_stream
    there = None
    if at_once:
        double[1, 32](a)
        there = acquire(a, device, stream, 0, "rw", 2, [])
    else:
        there, _ = a.__haulage_acquire__(stream, "a kernel", "rw", whole)
    assert there is not None
    if whole:
        fill[1, 32](there, 7)
    else:
        double[1, 32](there)
    seen = np.array(a)
    np.testing.assert_array_equal(a.get("gpu").copy_to_host(), seen)
    assert seen[2] in (2, 4, 7, 8)


# ---- what happens to the memory ------------------------------------------------------------------


def test_a_copy_whose_memory_was_given_back_is_current_nowhere(device):
    a = SmartArray(numbers())
    double[1, 32](a)
    np.asarray(a)
    a.get("gpu").close()
    assert repr(a).endswith("current on host>")
    with pytest.raises(CoherenceError, match="not current"):
        a.mark_changed("gpu")
    np.testing.assert_array_equal(a, numbers() * 2)


def test_a_wait_tells_that_what_a_view_is_to_show_is_lost():
    a = SmartArray(numbers())
    view = a.get()
    double[1, 32](a)
    a.get("gpu").close()
    with pytest.raises(CoherenceError, match="are lost"):
        cuda.synchronize()
    a[...] = 3
    assert set(view) == {3}


@pytest.mark.parametrize("how", ["reset", "close"])
def test_what_was_only_on_a_device_whose_memory_is_given_back_is_told_to_be_lost(device, how):
    only_there, on_both, only_here = (SmartArray(numbers()) for _ in range(3))
    for a in (only_there, on_both):
        double[1, 32](a)
    np.asarray(on_both)
    if how == "reset":
        device.reset()
        given_back = line() - 1
    else:
        for a in (only_there, on_both):
            a.get("gpu").close()
        given_back = line() - 1
    with pytest.raises(CoherenceError, match=re.escape(f"{__file__}:{given_back} in test_what")):
        np.asarray(only_there)
    only_there[...] = 1
    for a in (only_there, on_both, only_here):
        double[1, 32](a)
    assert (only_there[1], on_both[1], only_here[1]) == (2, 4, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_the_elements(device):
    if device.kind in ("nvidia", "amd", "opencl"):
        pytest.skip("a GPU's driver does not live on in a forked child")
    a = SmartArray(numbers())
    double[1, 32](a)
    cuda.synchronize()  # what is queued stays the parent's
    a[3] = 50
    thread_has_it, release = threading.Event(), threading.Event()

    def hold():
        with a.coherence.state.lock:
            thread_has_it.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    thread_has_it.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        status = 1
        with contextlib.suppress(BaseException):
            a[4] = 60
            status = not (a[3] == 50 and a[4] == 60 and a[5] == 10)
        os._exit(status)
    release.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(a[3:6], [50, 8, 10])


def test_work_that_another_thread_hands_over_between_is_waited_for(device):
    a = SmartArray(numbers())
    first, second = cuda.stream(), cuda.stream()
    part = Ranges.of(0, 40)
    a.coherence.acquire_device(device, "rw", first, "a test", part)
    try:
        second.add_callback(lambda *_: time.sleep(0.1))
    except Unsupported:
        pytest.skip("there are no callbacks to hold a stream up with")
    double[1, 32, second](a[10:])
    a.coherence.release(device, "rw", first, part)
    np.testing.assert_array_equal(a, [*range(10), *range(20, 40, 2)])


@pytest.mark.parametrize("mode", ["rw", "w"])
def test_what_a_thread_writes_is_left_alone_by_looks_of_others_beside_it(mode):
    a, expected = SmartArray(numbers(400)), numbers(400)
    double[2, 256](a)
    expected *= 2
    if mode == "rw":
        np.asarray(a)
        for start in range(0, 400, 20):  # so many pieces are moved with what lies between them
            double[1, 32](a[start : start + 10])
            expected[start : start + 10] *= 2
    part = Ranges.of(60, 72)
    host = a.coherence.acquire_host(mode, "a test", part)
    host[60:72].view(np.float32)[:] = expected[15:18] = 7
    assert a[1] == expected[1]
    a.coherence.release("host", mode, part=part)
    np.testing.assert_array_equal(a, expected)


def test_threads_share_an_array():
    double[1, 32](SmartArray(numbers()))  # a thread could not skip the test
    a = SmartArray(np.zeros(400, np.float32))
    failed = []

    def work(n):
        part = a[100 * n : 100 * n + 100]
        try:
            for turn in range(10):
                part[turn] = turn
                double[4, 32](part)
                part += 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    one = np.zeros(100, np.float32)
    for turn in range(10):
        one[turn] = turn
        one *= 2
        one += 1
    np.testing.assert_array_equal(a, np.tile(one, 4))
