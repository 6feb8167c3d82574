"""Arrays that compiled code makes: each test also runs with Python's way, to which it is held."""

import copy
import gc
import itertools
import os
import pickle
import random
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import haulage
from haulage import cuda
from haulage.api import arrays as api_arrays
from haulage.runtime.memory import allocation
from haulage.runtime.memory.block import Block, live_blocks
from haulage.runtime.process import call_sites, finalize, runtime

pytestmark = [pytest.mark.in_order, pytest.mark.usefixtures("device", "way")]

ALSO_FAR = True


@pytest.fixture(params=["compiled", "python"])
def way(request, monkeypatch):
    """How arrays are made during the test where nothing is out of the ordinary."""
    if runtime.current.adversary_seed is not None or os.environ.get("HAULAGE_MEMORY") == "driver":
        pytest.skip("nothing is pooled in this run, so that all is out of the ordinary")
    if request.param == "python":
        monkeypatch.setattr(cuda, "device_array", api_arrays._device_array)
        monkeypatch.setattr(cuda, "empty", python_empty)
        monkeypatch.setattr(api_arrays, "device_array", api_arrays._device_array)
        monkeypatch.setattr(allocation, "allocate_at_once", lambda *_: None)
    return request.param


def python_empty(shape, dtype=np.float64, order="C", stream=0):
    return api_arrays._device_array(shape, dtype, None, order, stream)


# A frame of it is none of the program.
python_empty.__code__ = python_empty.__code__.replace(co_filename=api_arrays.__file__)


@pytest.fixture
def python_makes(monkeypatch):
    """How many blocks Python has made, by a call."""
    made = []
    real = allocation.allocate_of_driver
    monkeypatch.setattr(
        allocation, "allocate_of_driver", lambda *args: made.append(args) or real(*args)
    )
    return lambda: len(made)


def learnt(way, *shapes, dtype=np.float32):
    """Ask for arrays once, so that the dtype is known and there are free blocks for them."""
    for shape in shapes:
        cuda.device_array(shape, dtype)


def held(device):
    return haulage.memory.stats()[str(device)]["device"]


# ---- the arrays themselves ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, float, "i2", np.dtype("c16"), bool, np.uint8, None])
@pytest.mark.parametrize("shape", [7, (7,), (3, 5), (2, 3, 4), (), (1, 1, 1, 1, 1, 1, 1, 1)])
def test_array_is_as_python_makes_it(way, shape, dtype):
    made = [cuda.device_array(shape, dtype) for _ in range(3)]
    del made
    first, second = cuda.device_array(shape, dtype), cuda.device_array(shape, dtype)
    host = np.empty(shape, dtype)
    for array in (first, second):
        assert (array.shape, array.strides, array.dtype) == (host.shape, host.strides, host.dtype)
        assert (array.size, array.nbytes, array.ndim) == (host.size, host.nbytes, host.ndim)
        assert array.is_c_contiguous()
        assert array.stream == 0
        assert not array.readonly
        assert array.device_pointer == array.block.device_ptr
        assert array.device is haulage.runtime.devices.registry.current_device()
        assert isinstance(array.block, Block)
        assert array.block.nbytes == host.nbytes
        assert array.device_pointer % 256 == 0
    assert first.device_pointer != second.device_pointer
    assert first.block.generation != second.block.generation
    values = np.arange(host.size).reshape(shape).astype(host.dtype)
    first.copy_to_device(values)
    second.copy_to_device(np.zeros_like(values))
    assert (first.copy_to_host() == values).all()


@pytest.mark.parametrize(
    ("shape", "dtype", "error"),
    [
        (-1, np.float32, ValueError),
        ((3, -2), np.float32, ValueError),
        (2**70, np.float32, Exception),
        ((2**40, 2**40), np.float32, Exception),
        ("a", np.float32, TypeError),
        (1.5, np.float32, TypeError),
        (4, object, TypeError),
        (4, "no such dtype", TypeError),
    ],
)
def test_what_is_refused_leaves_nothing_behind(way, device, shape, dtype, error):
    learnt(way, 4)
    gc.collect()
    before = held(device).in_use
    for _ in range(3):
        with pytest.raises(error):
            cuda.device_array(shape, dtype)
    assert held(device).in_use == before


@pytest.mark.parametrize(
    ("shape", "axes"),
    [(True, 1), (np.int64(4), 4), ([4], 4), (np.array(4), 4), ((np.int32(4),), 4), ((True,), 1)],
    ids=repr,
)
def test_other_numbers_make_the_array_of_the_int(way, shape, axes):
    learnt(way, 4, 1, (1,), (4,))
    array = cuda.device_array(shape, np.float32)
    assert array.shape == (axes,)
    assert all(type(axis) is int for axis in array.shape)


def test_without_elements_there_is_no_memory(way):
    for _ in range(4):
        array = cuda.device_array((0, 3), np.float32)
        assert array.shape == (0, 3)
        assert array.device_pointer == 0
        assert array.block.nbytes == 0


def test_order_strides_and_stream_are_as_asked(way, device):
    learnt(way, (3, 4))
    stream = cuda.stream()
    for _ in range(3):
        assert cuda.device_array((3, 4), np.float32, order="F").strides == (4, 12)
        assert cuda.device_array((3, 4), np.float32, strides=(32, 4)).strides == (32, 4)
        bound = cuda.device_array((3, 4), np.float32, stream=stream)
        assert bound.stream is stream
        assert cuda.device_array((3, 4), np.float32).strides == (16, 4)


def test_arrays_are_copied_pickled_and_watched_as_others(way):
    learnt(way, 6)
    array = cuda.device_array(6, np.float32)
    array.copy_to_device(np.arange(6, dtype=np.float32))
    for twin in (copy.copy(array), copy.deepcopy(array), pickle.loads(pickle.dumps(array))):
        assert twin.copy_to_host().tolist() == list(range(6))
        assert twin.block is not array.block
    gone = []
    of_array = weakref.ref(array, lambda _: gone.append("array"))
    of_block = weakref.ref(array.block, lambda _: gone.append("block"))
    assert any(found is array for found in gc.get_referrers(array.block))
    view = array[2:]
    del array
    assert gone == ["array"]
    assert of_array() is None
    assert of_block() is view.block
    del view
    assert gone == ["array", "block"]
    assert of_block() is None


# ---- who owns what ------------------------------------------------------------------------------


def ask_from_a_line_of_its_own():
    return cuda.device_array(50, np.float32)


class Named(cuda.cudadrv.devicearray.DeviceNDArray):
    """A program's own class of arrays, with attributes."""


def test_an_array_has_nothing_of_those_that_were_in_its_place(way):
    """Arrays may be made of the memory that arrays before them had."""
    for _ in range(2):
        before = [cuda.to_device(np.full((2, n + 1), n, np.float32)) for n in range(100)]
        before.append(Named((3,), (8,), np.float64))
        before[-1].name = "a"
        seen = [(array[1, 0], weakref.ref(array)) for array in before[:-1]]
        del before
        later = [cuda.to_device(np.arange(n, n + 4, dtype=np.int16)) for n in range(101)]
        for n, array in enumerate(later):
            assert (array[2], array.shape, array.strides) == (n + 2, (4,), (2,))
            assert type(array) is not Named
            assert gc.is_tracked(array)
            with pytest.raises(AttributeError):
                array.name = "b"
        assert all(dead() is None for _, dead in seen)


def test_the_owner_is_the_line_that_asked(way):
    learnt(way, 50)
    ask_from_a_line_of_its_own()
    array = ask_from_a_line_of_its_own()
    code = ask_from_a_line_of_its_own.__code__
    ((of, _at),) = array.block.call_site
    assert of is code
    site = haulage.runtime.process.call_sites.site(array.block.call_site)
    assert (site.filename, site.line) == (__file__, code.co_firstlineno + 1)
    assert "ask_from_a_line_of_its_own" in str(haulage.memory.report())


def test_the_time_of_birth_is_that_of_the_monotonic_clock(way):
    learnt(way, 50)
    before = time.monotonic()
    array = cuda.device_array(50, np.float32)
    # The clock that is read may be some milliseconds behind.
    assert before - 0.1 < array.block.born <= time.monotonic()


def test_counters_are_those_of_all_blocks(way, device):
    learnt(way, 50, (4, 5))
    gc.collect()
    haulage.memory.reset_peak()
    before = held(device)
    arrays = [cuda.device_array(50, np.float32) for _ in range(20)]
    arrays += [cuda.device_array((4, 5), np.float32) for _ in range(20)]
    now = held(device)
    assert now.in_use == before.in_use + 20 * 200 + 20 * 80
    assert now.allocations == before.allocations + 40
    assert now.peak == now.in_use
    mine = {id(array.block) for array in arrays}
    assert mine <= {id(block) for block in live_blocks()}
    del arrays
    after = held(device)
    assert after.in_use == before.in_use
    assert after.peak == now.peak
    assert not any(block.nbytes in (200, 80) and id(block) in mine for block in live_blocks())


def test_memory_is_reused_at_once_and_last_in_first_out(way):
    learnt(way, 50)
    arrays = [cuda.device_array(50, np.float32) for _ in range(5)]
    addresses = [array.device_pointer for array in arrays]
    while arrays:
        arrays.pop(0)
    again = [cuda.device_array(50, np.float32) for _ in range(5)]
    assert [array.device_pointer for array in again] == addresses[::-1]


def test_a_closed_array_says_where_and_its_memory_serves_again(way, device):
    learnt(way, 50)
    before = held(device).in_use
    array = cuda.device_array(50, np.float32)
    address = array.device_pointer
    array.close()
    array.close()
    assert held(device).in_use == before
    with pytest.raises(ValueError, match=r"test_new_arrays.py:\d+"):
        array.copy_to_host()
    other = cuda.device_array(50, np.float32)
    assert other.device_pointer == address
    del array
    assert cuda.device_array(50, np.float32).device_pointer != address
    assert held(device).in_use == before + 200
    del other


def test_a_block_used_on_another_stream_waits_for_it(way, device, hold_up):
    learnt(way, 50)
    stream = cuda.stream()
    values = cuda.pinned_array(50, np.float32)
    array = cuda.device_array(50, np.float32)
    address = array.device_pointer
    with hold_up(stream):
        array.copy_to_device(values, stream=stream)
        del array
        others = [cuda.device_array(50, np.float32) for _ in range(10)]
        assert address not in [other.device_pointer for other in others]
    stream.synchronize()


# ---- what switches it off, and on again ---------------------------------------------------------


def test_defer_cleanup_keeps_the_memory(way, device):
    learnt(way, 50)
    array = cuda.device_array(50, np.float32)
    address = array.device_pointer
    with cuda.defer_cleanup():
        del array
        assert cuda.device_array(50, np.float32).device_pointer != address
    assert finalize.waiting() == 0
    learnt(way, 50)


def test_an_observer_is_told_of_each_block(way, monkeypatch):
    learnt(way, 50)

    class Observer:
        def __init__(self):
            self.seen = []

        def allocated(self, block):
            self.seen.append(("allocated", block.nbytes))

        def freed(self, block):
            self.seen.append(("freed", block.nbytes))

    before = cuda.device_array(50, np.float32)
    observer = Observer()
    monkeypatch.setattr(runtime.current, "observer", observer)
    del before
    cuda.device_array(50, np.float32)
    assert observer.seen == [("freed", 200), ("allocated", 200), ("freed", 200)]
    monkeypatch.setattr(runtime.current, "observer", None)
    learnt(way, 50)


def test_a_limit_holds(way, device):
    learnt(way, 50)
    haulage.memory.limit(held(device).in_use + 300, device)
    try:
        first = cuda.device_array(50, np.float32)
        with pytest.raises(MemoryError):
            cuda.device_array(50, np.float32)
    finally:
        haulage.memory.limit(None, device)
    del first
    learnt(way, 50)


def test_more_frames_are_kept_where_asked(way):
    learnt(way, 50)
    haulage.memory.track(frames=3)
    try:
        assert len(ask_from_a_line_of_its_own().block.call_site) == 3
    finally:
        haulage.memory.track(frames=1)
    assert len(ask_from_a_line_of_its_own().block.call_site) == 1


def test_the_way_of_memory_can_change(way, monkeypatch):
    learnt(way, 50)
    monkeypatch.setenv("HAULAGE_MEMORY", "driver")
    arrays = [cuda.device_array(50, np.float32) for _ in range(3)]
    assert all(array.block.release is not None for array in arrays)
    monkeypatch.delenv("HAULAGE_MEMORY")
    learnt(way, 50)


@pytest.mark.parametrize(
    ("shape", "order"), [(50, "C"), ((30, 40), "F"), (24_000, "C"), ((), "F"), (300_000, "C")]
)
def test_python_is_asked_only_where_something_is_out_of_the_ordinary(
    way, shape, order, python_makes
):
    haulage.memory.trim()
    stream = cuda.stream()
    for named in (0, stream, None):
        cuda.device_array(shape, np.float32, order=order, stream=named)
        before = python_makes()
        cuda.device_array(shape, np.float32, order=order, stream=named)
        assert python_makes() - before == (way == "python")


# ---- bad days -----------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=60))
def test_sequences_keep_memory_apart_and_counted(steps):
    kinds = [(8, "f4"), ((3, 4), np.float64), (70_000, np.int8), (300_000, np.complex128)]
    device = cuda.device_array(8, np.float32).device
    gc.collect()
    before = held(device).in_use
    arrays = []
    for action, choice in steps:
        if action < 4:
            shape, dtype = kinds[action]
            arrays.append(cuda.device_array(shape, dtype))
        elif arrays:
            array = arrays.pop(choice % len(arrays))
            if action == 5:
                array.close()
            del array
        assert held(device).in_use == before + sum(array.nbytes for array in arrays)
    spans = sorted((array.device_pointer, array.nbytes) for array in arrays)
    for (start, nbytes), (following, _) in itertools.pairwise(spans):
        assert start + nbytes <= following
    alive = {id(block) for block in live_blocks()}
    assert all(id(array.block) in alive for array in arrays)


def test_threads_and_a_collector_at_once(way, device):
    learnt(way, 50, (4, 5))
    gc.collect()
    before = held(device).in_use
    failures, done = [], threading.Event()

    def work(seed):
        chance = random.Random(seed)
        mine = []
        try:
            for step in range(1500):
                pick = chance.random()
                if pick < 0.5 or not mine:
                    array = cuda.device_array(
                        chance.choice([50, (4, 5), 9, 20_000, (300, 900)]), np.float32
                    )
                    if step % 10 == 0:
                        array[:] = seed
                        mine.append((array, seed))
                    else:
                        mine.append((array, None))
                elif pick < 0.9:
                    array, value = mine.pop(chance.randrange(len(mine)))
                    if value is not None and not (array.copy_to_host() == value).all():
                        failures.append("memory was given out twice")
                elif pick < 0.95:
                    array, _ = mine.pop()
                    cycle = [array]
                    cycle.append(cycle)
                    del array, cycle
                elif pick < 0.97:
                    mine.pop()[0].close()
                elif pick < 0.98:
                    haulage.memory.trim()
        except BaseException as error:
            failures.append(error)

    def collect():
        while not done.is_set():
            gc.collect(0)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    collector = threading.Thread(target=collect)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in (*threads, collector):
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        done.set()
        collector.join()
        sys.setswitchinterval(interval)
    assert not failures
    gc.collect()
    assert held(device).in_use == before


def test_arrays_are_made_inside_what_runs_at_an_array_s_end(way, device):
    learnt(way, 50)
    gc.collect()
    before = held(device).in_use
    made = []

    class Ends:
        def __init__(self):
            self.array = cuda.device_array(50, np.float32)

        def __del__(self):
            made.append(cuda.device_array(50, np.float32).device_pointer)

    for _ in range(50):
        Ends()
        array = cuda.device_array(50, np.float32)
        weakref.finalize(array, lambda: made.append(cuda.device_array(50, np.float32).nbytes))
        weakref.finalize(array.block, lambda: made.append(cuda.device_array(50, np.float32).nbytes))
        del array
        cycle = [Ends()]
        cycle.append(cycle)
    del cycle
    gc.collect()
    assert len(made) == 200
    assert held(device).in_use == before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")
def test_arrays_are_made_inside_handlers_of_signals(way, device):
    learnt(way, 50)
    gc.collect()
    before = held(device).in_use
    kept, count = [], [0]

    def handle(*_):
        count[0] += 1
        kept.append(cuda.device_array(50, np.float32))
        del kept[:-3]

    earlier = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        end = time.monotonic() + 0.4
        while time.monotonic() < end:
            array = cuda.device_array(50, np.float32)
            assert array.device_pointer not in [each.device_pointer for each in kept]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
    assert count[0] > 10
    del array
    kept.clear()
    assert held(device).in_use == before


def test_an_exception_on_its_way_is_kept(way):
    learnt(way, 50)

    def fails():
        array = cuda.device_array(50, np.float32)
        used = cuda.device_array(50, np.float32)
        used.block.use(cuda.stream())
        raise KeyError(array.shape)

    for _ in range(5):
        with pytest.raises(KeyError, match="50"):
            fails()


def test_no_reference_is_lost_or_leaked(way):
    learnt(way, 50)
    array = cuda.device_array(50, np.float32)
    things = [
        None, False, 0, np.float32, array.dtype, array.shape, array.device, type(array),
        array.block.pool, type(array.block), ask_from_a_line_of_its_own.__code__,
    ]  # fmt: skip
    ask_from_a_line_of_its_own()
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(20_000):
        ask_from_a_line_of_its_own()
    after = [sys.getrefcount(thing) for thing in things]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 100


def test_empty_and_device_array_like_are_plain_cases_too(way):
    like = np.zeros((3, 2), np.float32)
    for make in (
        lambda: cuda.empty((3, 2), np.float32),
        lambda: cuda.device_array_like(like),
        lambda: cuda.device_array_like(cuda.device_array((3, 2), np.float32)),
    ):
        for _ in range(3):
            array = make()
        assert (array.shape, array.dtype, array.strides) == ((3, 2), np.float32, (8, 4))
        site = call_sites.site(array.block.call_site)
        assert (site.filename, site.line) == (__file__, make.__code__.co_firstlineno)
    assert cuda.device_array_like(np.asfortranarray(like)).strides == (4, 12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [5, (3, 4), (1, 7), (7, 1), (2, 1, 3), (0, 3), (3, 0), ()])
def test_layout_is_numpys(way, shape, order):
    for _ in range(2):
        array = cuda.device_array(shape, np.int16, order=order)
        host = np.empty(shape, np.int16, order=order)
        assert array.strides == host.strides or not host.size
        assert array.is_c_contiguous() == host.flags.c_contiguous
        assert array.is_f_contiguous() == host.flags.f_contiguous


def test_equal_dtypes_stay_apart(way):
    """`array.dtype` is the one that was given, with what it says of itself."""
    noted = np.dtype(np.int64, metadata={"unit": "m"})
    for dtype in (np.dtype(np.int64), noted, np.dtype(np.longlong)):
        for _ in range(2):
            array = cuda.device_array(4, dtype)
        assert array.dtype is dtype
    record = np.dtype([("x", "f4"), ("y", "i2")])
    for _ in range(2):
        assert cuda.device_array(4, record).dtype is record
        assert cuda.device_array(4, np.dtype(("f4", (2,)))).shape == (4, 2)


def test_an_array_too_large_for_any_device_is_refused_in_words(way, device):
    for shape in ((2**40, 2**40), 2**62, (2**31, 2**31, 2**31)):
        with pytest.raises(MemoryError, match="bytes"):
            cuda.device_array(shape, np.float64)
