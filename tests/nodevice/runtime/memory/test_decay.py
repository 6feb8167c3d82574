"""Free memory of the host goes back by itself once it was not used for a second."""

import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import haulage
from doubles.far import far_device, registered
from haulage import cuda
from haulage._core.memory import conditions
from haulage.runtime.memory import decay

MIB = 1 << 20
KEPT = decay.LEAST_KEPT


class Clock:
    """A clock that goes on when it is told to; the thread does not run by it."""

    def __init__(self):
        self.now = time.monotonic()

    def passes(self, seconds):
        """Look at all times at which the thread would."""
        until = self.now + seconds
        while self.now < until:
            self.now += decay.PERIOD / 2
            if not decay.look():
                conditions.decay_runs = False
                break
        self.now = until


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.delenv("HAULAGE_MEMORY", raising=False)
    clock = Clock()
    haulage.memory.trim()
    if (
        conditions.decay_runs
    ):  # for what tests before this one had; now there is nothing for it to do
        assert decay._gone.acquire(timeout=60)
        decay._gone.release()
    monkeypatch.setattr(decay, "start", lambda: not setattr(conditions, "decay_runs", True))
    monkeypatch.setattr(decay, "clock", lambda: clock.now)
    with haulage.use("cpu"):
        cuda.device_array(100 * MIB, np.uint8)
        haulage.memory.trim()
        yield clock
        haulage.memory.trim()
        conditions.decay_runs = False


def reserved():
    stats = haulage.memory.stats("cpu")
    assert stats.reserved >= stats.in_use
    return stats.reserved


def unused():
    stats = haulage.memory.stats("cpu")
    return stats.reserved - stats.in_use


@pytest.mark.parametrize(
    "sizes", [[400 * MIB], [MIB] * 300, [7 * MIB, 3 * MIB, 11 * MIB] * 20, [100_000] * 3000]
)
def test_what_was_not_used_for_a_second_goes_back(clock, sizes):
    arrays = [cuda.device_array(n, np.uint8) for n in sizes]
    del arrays
    assert unused() >= 200 * MIB
    clock.passes(0.5)
    assert unused() >= 200 * MIB
    clock.passes(1.5)
    assert unused() <= KEPT + 4 * MIB
    assert not decay.is_owed()


def test_what_is_used_again_within_a_second_stays(clock):
    cuda.device_array(300 * MIB, np.uint8)
    for _ in range(40):
        clock.passes(0.5)
        address = cuda.device_array(300 * MIB, np.uint8).device_pointer
        assert unused() >= 300 * MIB
    assert cuda.device_array(300 * MIB, np.uint8).device_pointer == address


def test_of_two_only_the_one_that_is_used_stays(clock):
    pair = [cuda.device_array(200 * MIB, np.uint8) for _ in range(2)]
    del pair
    for _ in range(10):
        clock.passes(0.5)
        cuda.device_array(100 * MIB, np.uint8)
    assert 100 * MIB <= unused() <= 100 * MIB + KEPT + 4 * MIB


def test_a_share_of_what_is_in_use_stays(clock):
    live = cuda.device_array(2000 * MIB, np.uint8)
    cuda.device_array(400 * MIB, np.uint8)
    clock.passes(3)
    assert unused() == pytest.approx(live.nbytes / decay.KEPT_SHARE, abs=4 * MIB)
    live.close()
    clock.passes(3)
    assert unused() <= KEPT + 4 * MIB


def test_memory_of_small_arrays_goes_back(clock):
    arrays = [cuda.device_array(20_000, np.uint8) for _ in range(10_000)]
    clock.passes(3)
    held = reserved()
    del arrays
    assert reserved() == held
    clock.passes(3)
    assert reserved() <= held - 100 * MIB
    assert unused() <= KEPT + 4 * MIB


def test_what_cannot_go_back_is_not_looked_at_for_ever(clock):
    arrays = [cuda.device_array(60_000, np.uint8) for _ in range(4000)]
    del arrays[1::2]  # each slab has arrays in use
    clock.passes(3)
    assert unused() > 100 * MIB
    assert not decay.is_owed()
    del arrays
    assert decay.is_owed()
    clock.passes(3)
    assert unused() <= KEPT + 4 * MIB


def test_mapped_memory_goes_back_too(clock):
    arrays = [cuda.mapped_array(30 * MIB, np.uint8) for _ in range(8)]
    del arrays
    clock.passes(3)
    assert haulage.memory.stats("cpu").by_kind["mapped"].reserved <= KEPT


def test_what_a_stream_still_uses_goes_back_when_it_is_done(clock):
    opened = threading.Event()
    stream = cuda.stream()
    array = cuda.device_array(300 * MIB, np.uint8)
    try:
        stream.add_callback(lambda *_: opened.wait(60))
        array.fill(1, stream)
        del array
        clock.passes(3)
        assert reserved() >= 300 * MIB
        assert decay.is_owed()
    finally:
        opened.set()
    cuda.synchronize()
    clock.passes(3)
    assert unused() <= KEPT + 4 * MIB


def test_memory_of_a_device_of_its_own_stays(clock):
    with registered(far_device()) as far, haulage.use(far):
        haulage.memory.trim()
        array = cuda.device_array(300 * MIB, np.uint8)
        name = str(array.device)
        held = haulage.memory.stats(name).reserved
        del array
        clock.passes(5)
        assert haulage.memory.stats(name).reserved == held
        haulage.memory.trim()


# ---- processes ----------------------------------------------------------------------------------


def run(program, seconds=120, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(HEAD) + textwrap.dedent(program)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "HAULAGE_DEVICE": "cpu", **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Exception ignored" not in done.stderr
    return done.stdout.split()


HEAD = """
import os, resource, sys, time
import numpy as np
import haulage
from haulage import cuda
from haulage._core.memory import conditions
from haulage.runtime.memory import decay

MIB = 1 << 20


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def limit_to(more):
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, resource.RLIM_INFINITY))


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


def fill(count=6, nbytes=30 * MIB):
    return [cuda.to_device(np.ones(nbytes, np.uint8)) for _ in range(count)]
"""

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its memory")


@linux
def test_an_idle_process_gives_memory_back_and_has_no_thread_then():
    run("""
        arrays = fill()
        full = resident()
        del arrays
        until(lambda: resident() < full - 100 * MIB)
        assert haulage.memory.stats().reserved < 64 * MIB
        until(lambda: not conditions.decay_runs)
        arrays = fill()  # and so again
        full = resident()
        del arrays
        until(lambda: resident() < full - 100 * MIB)
    """)


@linux
def test_a_process_ends_well_while_something_is_to_go_back():
    assert run("""
        arrays = fill(3)
        del arrays
        assert conditions.decay_runs
        print("end")
    """) == ["end"]


@linux
def test_a_forked_child_gives_its_memory_back_by_itself():
    assert "child" in run("""
        arrays = fill()
        del arrays
        arrays = fill()
        child = os.fork()
        if not child:
            full = resident()
            assert not conditions.decay_runs
            del arrays
            until(lambda: resident() < full - 100 * MIB)
            print("child", flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """)


LIMITED = """
    resource.setrlimit(resource.RLIMIT_AS, (2500 * MIB, resource.RLIM_INFINITY))
"""


@linux
def test_numpy_gets_memory_under_a_limit_of_addresses():
    run(
        LIMITED
        + """
    sizes = [50 * MIB] * 10 + [7 * MIB] * 50 + [130 * MIB] * 3 + [MIB] * 200
    arrays = [cuda.device_array(n, np.uint8) for n in sizes]
    np.empty(50 * MIB, np.uint8)
    del arrays
    np.empty(1500 * MIB, np.uint8)
    until(lambda: haulage.memory.stats().reserved < 64 * MIB)
    np.empty(2000 * MIB, np.uint8)
    again = fill(3)
    assert all(array[5] == 1 for array in again)
    """
    )


@linux
def test_a_copy_to_the_host_takes_what_a_device_has_free_under_a_limit():
    run("""
        resource.setrlimit(resource.RLIMIT_AS, (2500 * MIB, resource.RLIM_INFINITY))
        decay.LEAST_KEPT = 1 << 40  # nothing goes back by itself
        wide = cuda.device_array((200, MIB), np.uint8, strides=(0, 1))
        wide[0] = 7
        (heap,) = sys.modules["haulage.runtime.memory.heap"].heaps.values()
        heap.spare = 1 << 40
        limit_to(300 * MIB)
        cached = [cuda.device_array(20 * MIB, np.uint8) for _ in range(8)]
        del cached
        try:
            np.empty(200 * MIB, np.uint8)
        except MemoryError:
            pass
        else:
            raise AssertionError("there is room anyway")
        assert wide.copy_to_host()[199, 5] == 7
    """)


@linux
def test_a_limit_may_come_after_the_first_use():
    run("""
        live = cuda.to_device(np.arange(1000))
        arrays = [cuda.device_array(20 * MIB, np.uint8) for _ in range(30)]
        resource.setrlimit(resource.RLIMIT_AS, (2500 * MIB, resource.RLIM_INFINITY))
        del arrays
        until(lambda: haulage.memory.stats().reserved < 64 * MIB)
        np.empty(1000 * MIB, np.uint8)
        assert live[999] == 999
        assert cuda.to_device(np.ones(30 * MIB, np.uint8))[5] == 1
    """)
