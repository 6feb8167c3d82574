"""What is tried, in which order, before an allocation fails; and the error when it does."""

import contextlib
import gc
import threading

import numpy as np
import pytest

from haulage import cuda, memory
from haulage.errors import OutOfMemory
from haulage.runtime.memory import out_of_memory
from haulage.runtime.process import runtime
from support.full_devices import room_for

pytestmark = pytest.mark.usefixtures("short_collections", "device")
ALSO_FAR = True


def new(nbytes, stream=0):
    return cuda.device_array(nbytes, np.uint8, stream=stream)


class Once:
    """An allocator with room for one block."""

    def __init__(self):
        self.upstream = memory.Pool()
        self.is_full = False

    def allocate(self, nbytes):
        if self.is_full:
            raise MemoryError("one at a time")
        self.is_full = True
        return self.upstream.allocate(nbytes)

    def deallocate(self, address, nbytes):
        self.is_full = False
        self.upstream.deallocate(address, nbytes)


@pytest.fixture
def called(monkeypatch):
    """The names of the steps that were made, in order."""
    made = []

    def noted(name, function):
        def step(*args):
            made.append(name)
            return function(*args)

        return step

    for name in ("_reap", "_trim", "_wait", "_collect"):
        monkeypatch.setattr(out_of_memory, name, noted(name, getattr(out_of_memory, name)))
    for name in ("evict", "spill"):
        nothing = [noted(name, lambda device, nbytes, enough: 0)]
        monkeypatch.setattr(runtime.current, name, nothing)
    return made


def outermost(made):
    """Without the trims that other steps end with."""
    return [
        name
        for before, name in zip(["", *made], made, strict=False)
        if name != "_trim" or before == "_reap"
    ]


def test_the_steps_come_in_order_and_the_callbacks_last(device, called):
    kept = new(10_000)
    with (
        room_for(device, 1000),
        memory.on_out_of_memory(lambda *_: called.append("first")),
        memory.on_out_of_memory(lambda *_: called.append("second")),
        pytest.raises(OutOfMemory),
    ):
        new(5000)
    assert outermost(called) == [
        *("_reap", "_trim", "_wait", "_collect"),
        *("evict", "evict", "spill", "spill"),
        *("first", "second"),
    ]
    del kept


def test_what_can_never_fit_lets_no_copies_go(device, called):
    with room_for(device, 1000), pytest.raises(OutOfMemory):
        new(1 << 40)
    assert outermost(called) == ["_reap", "_trim", "_wait", "_collect"]


def test_the_first_step_that_makes_room_is_the_last(device, called):
    cycle = [new(6000)]
    cycle.append(cycle)
    gc.disable()
    try:
        memory.limit(memory.stats(device).in_use + 1000, device)
        del cycle
        assert new(5000).size == 5000
    finally:
        memory.limit(None, device)
        gc.enable()
    assert outermost(called) == ["_reap", "_trim", "_wait", "_collect"]


def test_memory_that_a_held_up_stream_uses_is_waited_for(device, hold_up):
    stream = cuda.stream()
    array = new(6000)
    with room_for(device, 1000):
        with hold_up(stream):
            array.setitem(Ellipsis, np.uint8(1), stream)
            del array
            got = []
            wants = threading.Thread(target=lambda: got.append(of(device, 5000)))
            wants.start()
            wants.join(0.1)
            assert got == []
        wants.join(20)
    assert [array.size for array in got] == [5000]


def of(device, nbytes):
    with device:
        return new(nbytes)


def test_two_threads_that_run_out_at_once_wait_for_the_same_memory(device, hold_up):
    stream = cuda.stream()
    arrays = [new(6000), new(6000)]
    got = []
    with room_for(device, 1000):
        with hold_up(stream):
            for array in arrays:
                array.setitem(Ellipsis, np.uint8(1), stream)
            del array
            arrays.clear()
            threads = [
                threading.Thread(target=lambda: got.append(of(device, 5500))) for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            threads[0].join(0.1)
            assert got == []
        for thread in threads:
            thread.join(20)
    assert [array.size for array in got] == [5500, 5500]


def test_a_limit_holds_for_threads(device):
    taken = []

    def work():
        with device:
            for _ in range(4):
                with contextlib.suppress(MemoryError):
                    taken.append(new(3000))

    with room_for(device, 35_000):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 11
    taken.clear()


def test_memory_that_cleanup_is_deferred_for_is_taken(device):
    array = new(6000)
    with room_for(device, 1000), cuda.defer_cleanup():
        del array
        assert new(5000).size == 5000


def test_free_memory_of_other_kinds_goes_back_first(device):
    if not device.properties.host_memory_is_device_memory:
        pytest.skip("pinned memory is not the device's there")
    pinned = cuda.pinned_array(10_000_000, np.uint8)
    del pinned
    with pytest.raises(OutOfMemory):
        new(1 << 50)
    assert memory.stats(device)[str(device)]["pinned"].reserved < 10_000_000


# ---- callbacks ----------------------------------------------------------------------------------


def test_a_callback_that_frees_a_part_is_asked_again(device):
    kept = [new(2000) for _ in range(5)]
    asked = []

    def drop(where, nbytes):
        asked.append(nbytes)
        kept.pop()
        return True

    with room_for(device, 0), memory.on_out_of_memory(drop):
        assert new(5000).size == 5000
    assert asked == [5000] * 3


@pytest.mark.parametrize(
    "callback", [None, 5, lambda: None, lambda nbytes: None, lambda a, b, c: None, lambda **k: None]
)
def test_a_callback_that_cannot_be_called_with_device_and_bytes_is_refused_at_once(callback):
    with pytest.raises(TypeError, match=r"expected a function of \(device, nbytes\)"):
        memory.on_out_of_memory(callback)


@pytest.mark.parametrize("callback", [print, lambda *a: None, lambda device, nbytes, more=1: None])
def test_a_callback_that_can_be_called_with_device_and_bytes_is_taken(callback):
    with memory.on_out_of_memory(callback) as registration:
        assert registration.callback is callback


def test_a_callback_need_not_say_that_it_freed_something(device):
    kept = [new(6000)]
    with room_for(device, 0), memory.on_out_of_memory(lambda *_: kept.clear()):
        assert new(5000).size == 5000


def test_a_callback_that_always_says_so_is_not_believed_for_ever(device):
    asked = []

    def claim(where, nbytes):
        asked.append(where)
        return True

    with room_for(device, 0), memory.on_out_of_memory(claim), pytest.raises(OutOfMemory):
        new(5000)
    assert asked == [device] * 16


def test_what_a_callback_raises_comes_out_and_the_next_one_is_not_asked(device):
    def fail(*_):
        raise ZeroDivisionError("no")

    asked = []
    with (
        room_for(device, 0),
        memory.on_out_of_memory(fail),
        memory.on_out_of_memory(lambda *_: asked.append(1)),
        pytest.raises(ZeroDivisionError),
    ):
        new(5000)
    assert asked == []
    assert new(5000).size == 5000


def test_a_callback_can_ask_for_memory_itself_and_is_not_called_for_that(device):
    asked, kept = [], [new(6000)]

    def move(where, nbytes):
        asked.append(nbytes)
        with pytest.raises(OutOfMemory):
            new(4000)
        assert new(500).size == 500
        kept.clear()

    with room_for(device, 1000), memory.on_out_of_memory(move):
        assert new(5000).size == 5000
    assert asked == [5000]


def test_a_callback_that_was_removed_is_not_called(device):
    asked = []
    registration = memory.on_out_of_memory(lambda *_: asked.append(1))
    registration.remove()
    registration.remove()
    with room_for(device, 0), pytest.raises(OutOfMemory):
        new(5000)
    assert asked == []


# ---- memory of others ---------------------------------------------------------------------------


def test_an_allocator_of_the_program_is_asked_after_the_same_steps(device, called):
    kept = []

    def drop(*_):
        called.append("callback")
        kept.clear()

    with memory.using_allocator(Once()), memory.on_out_of_memory(drop):
        kept.append(new(1000))
        assert new(2000).size == 2000
    assert outermost(called) == [
        *("_reap", "_trim", "_wait", "_collect"),
        *("evict", "evict", "spill", "spill", "callback"),
    ]


def test_the_error_of_an_allocator_comes_out_with_a_note_of_who_holds_memory(device):
    with memory.using_allocator(Once()):
        kept = new(1000)
        with pytest.raises(MemoryError, match="one at a time") as raised:
            new(2000)
        (told,) = [note for note in raised.value.__notes__ if "has no room" in note]
        assert "2,000 bytes of device memory" in told
        assert __file__ in told
        assert raised.value.__cause__ is None
        del kept


def test_a_limit_holds_for_an_allocator_of_the_program(device):
    with memory.using_allocator(memory.Pool()), room_for(device, 5000):
        first = new(4000)
        with pytest.raises(OutOfMemory, match=r"limit\(\)"):
            new(2000)
        del first
        assert new(4500).size == 4500


# ---- the error ----------------------------------------------------------------------------------


def test_the_error_is_one_and_nothing_is_changed(device):
    kept = new(100_000)
    with room_for(device, 1000):
        before = memory.stats(device).in_use
        with pytest.raises(OutOfMemory) as raised:
            cuda.to_device(np.zeros(5000, np.uint8))
        assert memory.stats(device).in_use == before
    error = raised.value
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    lines = str(error).splitlines()
    assert lines[0].startswith(f"{device} has no room for 5,000 bytes of device memory, asked for")
    assert "1,000 of them are left" in lines[1]
    assert any("100,000 bytes in 1 block" in line and __file__ in line for line in lines)
    assert kept.size == 100_000


def test_what_others_hold_is_told_without_pinned_memory_of_the_host(far):
    pinned = cuda.pinned_array(50_000_000, np.uint8)
    array = new(1000)
    with pytest.raises(OutOfMemory) as raised:
        new(1 << 40)
    reserved = memory.stats(far)[str(far)]["device"].reserved
    assert "held by others: 0\n" in str(raised.value)
    assert f"held by this program: {reserved:,} bytes" in str(raised.value)
    assert "50,000,000" not in str(raised.value)
    del pinned, array
