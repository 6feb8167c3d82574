"""Memory under threads, signals, collections, Ctrl-C and forks: none is lost, or given twice."""

import contextlib
import gc
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from haulage import cuda, memory
from haulage.runtime.devices import pending
from haulage.runtime.memory import heap, limits
from haulage.runtime.process import call_sites, runtime

pytestmark = pytest.mark.usefixtures("device")

SIZES = (1, 300, 5000, 60_000, 70_000, 300_000)

pooled = pytest.mark.skipif(
    runtime.current.adversary_seed is not None,
    reason="the adversarial mode takes all memory from the driver",
)


@contextlib.contextmanager
def nothing_is_lost(device):
    """At the end as much memory is in use as before, and no byte is held twice."""
    gc.collect()
    device.synchronize()
    before = memory.stats(device).in_use
    yield
    gc.collect()
    device.synchronize()
    pending.flush(device)
    assert memory.stats(device).in_use == before
    parts = [part for part in memory.snapshot()["blocks"] if part["device"] == str(device)]
    parts = sorted((p["address"], p["nbytes"]) for p in parts if p["state"] != "adopted")
    for (start, nbytes), (other, _) in itertools.pairwise(parts):
        assert start + nbytes <= other


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


def test_threads_keep_their_bytes_apart(device):
    """Eight threads allocate, write, launch, copy, hand on and free; one more collects."""
    wrong, shared, ended = [], [], threading.Event()
    add_one[1, 32](cuda.to_device(np.zeros(3, np.uint8)))

    def work(number):
        choose = random.Random(number)
        stream = cuda.stream()
        mine = []
        try:
            for step in range(60):
                what = choose.random()
                if what < 0.5:
                    value = choose.randrange(1, 250)
                    host = np.full(choose.choice(SIZES), value, np.uint8)
                    array = cuda.to_device(host, stream=stream)
                    if host.size <= 5000:
                        add_one[(host.size + 255) // 256, 256, stream](array)
                        value += 1
                    mine.append((array, value))
                elif what < 0.75 and mine:
                    array, value = mine.pop(choose.randrange(len(mine)))
                    if not (array.copy_to_host(stream=stream) == value).all():
                        wrong.append((number, step, value))
                    if what < 0.6:
                        array.close()
                    elif what < 0.7:
                        stream.synchronize()
                        shared.append(array)  # another thread frees it
                elif what < 0.85:
                    with contextlib.suppress(IndexError):
                        shared.pop()
                elif what < 0.9:
                    ring = [cuda.device_array(choose.choice(SIZES), np.uint8)]
                    ring.append(ring)
                elif what < 0.92:
                    memory.trim(device)
                elif what < 0.94:
                    memory.stats(device)
                    memory.report(device)
            for array, value in mine:
                if not (array.copy_to_host(stream=stream) == value).all():
                    wrong.append((number, "end", value))
        except BaseException as error:
            wrong.append(error)

    def collect():
        while not ended.wait(0.01):
            gc.collect(0)

    with nothing_is_lost(device):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        collector = threading.Thread(target=collect)
        for thread in (*threads, collector):
            thread.start()
        for thread in threads:
            thread.join()
        ended.set()
        collector.join()
        assert not wrong
        shared.clear()


def test_a_limit_holds_for_all_threads_together(device):
    held = memory.stats(device).in_use
    most, seen = 400_000, []

    def work():
        mine = []
        for _ in range(25):
            try:
                mine.append(cuda.device_array(90_000, np.uint8))
            except MemoryError:
                mine.clear()
            seen.append(limits.room(device, "device"))

    with nothing_is_lost(device):
        memory.limit(held + most, device)
        try:
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            memory.limit(None, device)
    assert min(seen) >= 0


def test_a_block_that_is_closed_while_it_is_being_closed_is_given_back_once(device, monkeypatch):
    """As another thread or a signal's handler may do."""
    for nbytes in (1000, 300_000):
        array = cuda.device_array(nbytes, np.uint8)
        mark = call_sites.current

        def close_too(*args, block=array.block, mark=mark):
            monkeypatch.setattr(call_sites, "current", mark)
            block.close()
            return mark(*args)

        before = memory.stats(device).in_use
        monkeypatch.setattr(call_sites, "current", close_too)
        array.block.close()
        assert memory.stats(device).in_use == before - nbytes
        new = [cuda.device_array(nbytes, np.uint8) for _ in range(3)]
        assert len({each.device_pointer for each in new}) == 3


# ---- what comes in between ----------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")
def test_a_signals_handler_may_allocate_and_free(device):
    kept, failed = [], []
    goes_on = [True]

    def handler(number, frame):
        try:
            for nbytes in (100, 100_000):
                kept.append(cuda.device_array(nbytes, np.uint8))
            del kept[: len(kept) // 2]
            memory.stats(device)
            memory.trim(device)
        except BaseException as error:
            failed.append(error)
        # Not by an interval: where this takes longer it would come into itself again and again.
        if goes_on:
            signal.setitimer(signal.ITIMER_REAL, 0.0007)

    with nothing_is_lost(device):
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        try:
            choose = random.Random(1)
            arrays = []
            end = time.monotonic() + 1
            while time.monotonic() < end:
                value = choose.randrange(256)
                array = cuda.to_device(np.full(choose.choice(SIZES), value, np.uint8))
                arrays.append((array, value))
                if len(arrays) > 20:
                    array, value = arrays.pop(choose.randrange(20))
                    assert (array.copy_to_host() == value).all()
        finally:
            goes_on.clear()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert not failed
        assert all((array.copy_to_host() == value).all() for array, value in arrays)
        del array, arrays
        kept.clear()


def test_finalisers_may_allocate_and_free(device):
    class Holder:
        def __init__(self):
            self.array = cuda.device_array(70_000, np.uint8)
            self.ring = self

        def __del__(self):
            made.append(cuda.device_array(70_000, np.uint8))
            made.append(cuda.device_array(100, np.uint8))

    made = []
    with nothing_is_lost(device):
        for _ in range(30):
            holder = Holder()
            watched = weakref.ref(holder, lambda _: made.append(cuda.device_array(500)))
            del holder
            cuda.device_array(300_000, np.uint8)
        gc.collect()
        del watched
        assert len(made) >= 60
        made.clear()


@pooled
def test_the_memory_itself_is_never_entered_twice_by_a_thread(device):
    """What comes in while a heap changes gets memory from the driver, and gives it back later."""
    own = heap.heap_of(device, "device", 0, lambda: pytest.fail("there is none"))
    with nothing_is_lost(device):
        old = cuda.device_array(300_000, np.uint8)
        with own._held():
            inside = cuda.device_array(200_000, np.uint8)
            old_address = old.device_pointer
            del old
            assert cuda.device_array(300_000, np.uint8).device_pointer != old_address
            assert memory.trim(device) == 0
        inside.copy_to_device(np.ones(200_000, np.uint8))
        assert inside.copy_to_host().all()
        memory.stats(device)
        del inside


def interrupted_at_any_time(monkeypatch, seconds, work):
    """Call `work()` again and again, with Ctrl-C in its midst; how often that came out of it."""
    # Of a `__del__` it does not come out; the block is closed by then.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    armed = []  # empty: what comes now would come out of the test

    def handler(number, frame):
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    rounds = 0
    moments = random.Random(1)
    before = signal.signal(signal.SIGALRM, handler)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            try:
                armed.append(True)
                signal.setitimer(signal.ITIMER_REAL, moments.random() / 1000)
                for _ in range(300):  # what is raised in a `__del__` ends there
                    work()
                armed.clear()
            except KeyboardInterrupt:
                rounds += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return rounds


@pooled
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")
@pytest.mark.parametrize("nbytes", [3000, 100_000, 3_000_000])
def test_ctrl_c_at_any_time_loses_no_memory(device, monkeypatch, nbytes):
    """The timer raises in the midst of allocations; what they had is there again: all that is held
    is some block's or free."""

    def work():
        cuda.device_array(nbytes, np.uint8).close()

    work()
    with nothing_is_lost(device):
        before = neither_held_nor_free(device)
        rounds = interrupted_at_any_time(monkeypatch, 1, work)
        assert rounds > 10
        del work
        gc.collect()
        pending.flush(device)
        assert neither_held_nor_free(device) == before


def neither_held_nor_free(device):
    """Bytes of regions in which no block lies, about: what is rounded up is in them."""
    shot = memory.snapshot()
    regions = [part["nbytes"] for part in shot["regions"] if part["device"] == str(device)]
    blocks = [part for part in shot["blocks"] if part["device"] == str(device)]
    return sum(regions) - sum(p["nbytes"] for p in blocks if p["state"] != "adopted")


# ---- ends ---------------------------------------------------------------------------------------

AT_EXIT = """
import threading, time
import numpy as np
from haulage import cuda
kept = [cuda.device_array(n, np.uint8) for n in (10, 100_000)]
cuda.device_array(5000)
stream = cuda.stream()
device = stream.device
device.backend.stream_callback(stream.handle, lambda: time.sleep(0.2))
late = cuda.device_array(70_000, np.uint8)
late.block.use(stream)
del late
ring = [kept[0]]; ring.append(ring)
def work():
    while True:
        cuda.device_array(70_000, np.uint8)
        cuda.device_array(70, np.uint8)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
print("done")
"""


def test_the_interpreter_ends_with_memory_of_all_sorts_and_threads_that_run():
    run = subprocess.run(
        [sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_has_its_memory_whatever_threads_were_doing_at_the_fork(device):
    if device.kind != "cpu":
        pytest.skip("a child cannot use another device than the cpu that its parent has used")
    ended = threading.Event()

    def work():
        while not ended.is_set():
            arrays = [cuda.device_array(n, np.uint8) for n in SIZES]
            del arrays

    arrays = [cuda.to_device(np.full(n, 9, np.uint8)) for n in SIZES]
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    signal.alarm(30)
                    more = [cuda.to_device(np.full(n, 8, np.uint8)) for n in SIZES]
                    right = all((each.copy_to_host() == 9).all() for each in arrays)
                    right &= all((each.copy_to_host() == 8).all() for each in more)
                    more.clear()
                    memory.trim(device)
                    code = 0 if right else 2
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        ended.set()
        for thread in threads:
            thread.join()
