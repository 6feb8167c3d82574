"""SmartArrays that make room: their copies on a device go where it has none left."""

import contextlib
import gc
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haulage import cuda, memory
from haulage.errors import OutOfMemory
from haulage.smart import SmartArray
from support.full_devices import room_for

pytestmark = pytest.mark.usefixtures("short_collections", "device")
ALSO_FAR = True

SIZE = 10_000


@cuda.jit
def add(array, number):
    i = cuda.grid(1)
    if i < array.size:
        array[i] += number


def smart(number, where="host"):
    return SmartArray(np.full(SIZE, number, np.uint8), where=where)


def places(array):
    return [str(place) for place in array.coherence.current()]


def last(array):
    return array.coherence.transfers[-1]


def line_of_next_call():
    import sys

    return sys._getframe(1).f_lineno + 1


def test_a_copy_that_is_current_elsewhere_is_dropped_without_a_copy(device):
    array = smart(1)
    add[64, 256](array, 2)
    np.asarray(array)
    moved = len(array.coherence.transfers)
    with room_for(device, 1000):
        line = line_of_next_call()
        other = cuda.device_array(SIZE, np.uint8)
    assert places(array) == ["host"]
    assert len(array.coherence.transfers) == moved + 1
    assert (last(array).source, last(array).target, last(array).nbytes) == (str(device), "host", 0)
    assert last(array).why == f"dropped: {device} had no room for 10,000 bytes at {__file__}:{line}"
    del other
    add[64, 256](array, 3)
    assert set(np.asarray(array)) == {6}


def test_what_is_current_on_the_device_only_is_copied_to_the_host_first(device):
    array = smart(1)
    add[64, 256](array, 2)
    with room_for(device, 1000):
        line = line_of_next_call()
        other = cuda.device_array(SIZE, np.uint8)
        assert places(array) == ["host"]
    assert (last(array).source, last(array).nbytes) == (str(device), SIZE)
    assert last(array).why == f"spilled: {device} had no room for 10,000 bytes at {__file__}:{line}"
    assert set(np.asarray(array)) == {3}
    del other
    add[64, 256](array, 3)
    assert set(np.asarray(array)) == {6}


def test_a_new_array_is_spilled_to_pinned_memory_where_that_is_faster(device):
    before = memory.stats(device).by_kind.get("pinned")
    array = SmartArray(shape=SIZE, dtype=np.uint8, where="gpu")
    array.get("gpu").copy_to_device(np.full(SIZE, 7, np.uint8))
    array.mark_changed("gpu")
    with room_for(device, 1000):
        other = cuda.device_array(SIZE, np.uint8)
    after = memory.stats(device).by_kind.get("pinned")
    grown = (after.in_use if after else 0) - (before.in_use if before else 0)
    assert grown == (0 if device.properties.host_memory_is_device_memory else SIZE)
    assert set(array.get()) == {7}
    del other


def test_copies_that_need_no_copy_go_first_and_the_least_recently_used_of_them(device):
    dirty, old, new, stale = (smart(n) for n in range(4))
    for array in (dirty, old, new, stale):
        add[64, 256](array, 1)
    for array in (new, old):
        np.asarray(array)
    stale[...] = 9
    gone = []
    held = []
    with room_for(device, 0):
        for _ in range(4):
            held.append(cuda.device_array(SIZE, np.uint8))
            gone.append(
                [
                    name
                    for name, one in zip("dons", (dirty, old, new, stale), strict=True)
                    if device not in one.coherence.state.replicas
                ]
            )
    assert gone == [["s"], ["o", "s"], ["o", "n", "s"], ["d", "o", "n", "s"]]
    assert [int(array[5]) for array in (dirty, old, new, stale)] == [1, 2, 3, 9]


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: array,
        lambda array: array[5:],
        lambda array: array.gpu_data,
        lambda array: array.__dlpack__(),
    ],
    ids=["array", "view", "span", "dlpack"],
)
def test_what_the_program_holds_stays_where_it_is(device, hold):
    array = smart(1)
    got = array.get("gpu")
    kept = hold(got)
    address = got.device_pointer
    del got
    with room_for(device, 1000):
        with pytest.raises(OutOfMemory):
            cuda.device_array(SIZE, np.uint8)
        assert str(device) in places(array)
        assert array.get("gpu").device_pointer == address
        del kept
        gc.collect()
        assert cuda.device_array(SIZE, np.uint8).size == SIZE
    assert places(array) == ["host"]


def test_making_room_copies_nothing_over_what_is_written_on_the_host(device):
    array = smart(1)
    add[-(-SIZE // 64), 64](array, 1)
    assert places(array) == [str(device)]
    with array.host("w") as host:
        host[...] = 3
        with room_for(device, 1000), contextlib.suppress(OutOfMemory):
            cuda.device_array(SIZE, np.uint8)
        assert set(host) == {3}
    assert set(np.asarray(array)) == {3}
    add[-(-SIZE // 64), 64](array, 1)
    assert set(np.asarray(array)) == {4}


def test_what_was_acquired_and_not_released_stays(device):
    coherence = smart(1).coherence
    coherence.acquire_device(device, "rw", 0, "a test")
    with room_for(device, 1000):
        with pytest.raises(OutOfMemory):
            cuda.device_array(SIZE, np.uint8)
        coherence.release(device, "rw")
        assert cuda.device_array(SIZE, np.uint8).size == SIZE


def test_what_was_written_through_get_and_is_told_later_is_not_lost(device):
    array, other = smart(1), smart(2)
    add[64, 256](array.get("gpu"), 4)
    with room_for(device, 1000):
        with pytest.raises(OutOfMemory):
            cuda.device_array(SIZE, np.uint8)
        array.mark_changed("gpu")
        made = cuda.device_array(SIZE, np.uint8)
    assert set(np.asarray(array)) == {5}
    del made

    add[64, 256](other, 1)
    add[64, 256](other.get("gpu"), 4)
    with room_for(device, 1000):
        made = cuda.device_array(SIZE, np.uint8)
        other.mark_changed("gpu")
    assert set(np.asarray(other)) == {7}
    del made


def test_what_was_written_through_get_beside_a_view_and_is_told_later_is_not_lost(device):
    array = smart(1)
    view = array.get()
    add[64, 256](array.get("gpu"), 4)
    with room_for(device, 1000):
        with pytest.raises(OutOfMemory):
            cuda.device_array(SIZE, np.uint8)
        array.mark_changed("gpu")
        assert set(np.asarray(array)) == {5}
        array.get("gpu")
        view[3] = 7  # on the host alone, so that the copy is not needed
        made = cuda.device_array(SIZE, np.uint8)
    assert (array[2], array[3]) == (5, 7)
    del made


def test_an_array_that_needs_room_takes_that_of_others_and_not_its_own(device):
    first, second = smart(1), smart(2)
    add[64, 256](first, 1)
    with room_for(device, 1000):
        add[64, 256](second, 1)
        assert (places(first), places(second)) == (["host"], [str(device)])
        add[64, 256](first, 1)
        assert (places(first), places(second)) == ([str(device)], ["host"])
    assert (set(np.asarray(first)), set(np.asarray(second))) == ({3}, {3})


def test_arguments_of_one_launch_do_not_make_room_for_each_other(device):
    first, second = smart(1), smart(2)

    @cuda.jit
    def both(a, b):
        i = cuda.grid(1)
        if i < a.size:
            a[i] += b[i]

    with room_for(device, SIZE + 1000), pytest.raises(OutOfMemory):
        both[64, 256](first, second)
    both[64, 256](first, second)
    assert set(np.asarray(first)) == {3}


def test_work_that_is_queued_is_done_before_a_copy_goes(device, hold_up):
    array = smart(1)
    stream = cuda.stream()
    add[64, 256, stream](array, 1)
    got = []

    def want():
        with device:
            got.append(cuda.device_array(SIZE, np.uint8))

    with room_for(device, 1000):
        with hold_up(stream):
            add[64, 256, stream](array, 1)
            thread = threading.Thread(target=want)
            thread.start()
            thread.join(0.1)
            assert got == []
        thread.join(20)
        assert len(got) == 1
    assert set(np.asarray(array)) == {3}


def test_a_callback_that_uses_the_array_that_needs_room_changes_it_for_good(device):
    array, kept = smart(1), [cuda.device_array(SIZE, np.uint8)]

    def use(*_):
        if kept:
            kept.clear()
            add[64, 256](array, 1)
            kept.append(None)

    with room_for(device, 1000), memory.on_out_of_memory(use):
        add[64, 256](array, 1)
    assert set(np.asarray(array)) == {3}


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["kernel", "stream", "host", "read", "get", "write", "hold", "let go"]),
        ),
        min_size=10,
        max_size=30,
    ),
    room=st.integers(1, 4),
)
def test_arrays_under_a_tight_limit_are_as_numpys(device, steps, room):
    arrays = [smart(n) for n in range(5)]
    oracle = [np.full(SIZE, n, np.uint8) for n in range(5)]
    held = {}
    stream = cuda.stream()
    with room_for(device, room * SIZE + 500):
        for number, what in steps:
            array, expected = arrays[number], oracle[number]
            try:
                if what in ("kernel", "stream"):
                    add[64, 256, stream if what == "stream" else 0](array, 1)
                    expected += 1
                elif what == "host":
                    array[3:77] = 200
                    expected[3:77] = 200
                elif what == "read":
                    np.testing.assert_array_equal(array, expected)
                elif what == "get":
                    np.testing.assert_array_equal(array.get("gpu").copy_to_host(), expected)
                elif what == "write":
                    add[64, 256](array.get("gpu"), 3)
                    array.mark_changed("gpu")
                    expected += 3
                elif what == "hold":
                    held[number] = array.get("gpu")
                else:
                    held.pop(number, None)
            except OutOfMemory:
                assert len(held) >= room
            assert memory.stats(device).in_use <= memory.stats(device).peak
        for array, expected in zip(arrays, oracle, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_threads_with_more_than_fits_keep_their_values(device):
    arrays = [smart(n) for n in range(6)]
    wrong = []

    def work(mine):
        with device:
            for turn in range(15):
                for number in mine:
                    try:
                        add[64, 256](arrays[number], 1)
                    except OutOfMemory as error:
                        wrong.append(str(error))
                        return
                if turn % 4 == 0:
                    found = set(np.asarray(arrays[mine[0]]))
                    if found != {mine[0] + turn + 1}:
                        wrong.append((mine, turn, found))

    with room_for(device, 4 * SIZE):
        threads = [threading.Thread(target=work, args=([n, n + 3],)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert [set(np.asarray(array)) for array in arrays] == [{n + 15} for n in range(6)]


def test_a_copy_gives_way_where_a_view_may_have_written_the_host(device):
    array = smart(1)
    array.get("gpu")
    view = array.get()
    view[...] = 5
    with room_for(device, 1000):
        cuda.device_array(SIZE, np.uint8)
    assert places(array) == ["host"]
    assert (last(array).target, last(array).nbytes) == ("host", 0)
    assert set(np.asarray(array)) == {5}
