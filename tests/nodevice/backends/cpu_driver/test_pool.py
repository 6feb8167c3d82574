"""The native worker threads: every block once, faults, interrupts, several launches at a time."""

import signal
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from haulage._core.pool import COPY_BYTES
from haulage.backends.base import KernelStopped
from haulage.backends.cpu import CPUBackend
from haulage.backends.cpu_driver import copies, processor
from haulage.backends.cpu_driver.pool import POOL
from nodevice.backends.cpu_driver.cpu_objects import host_object

pytestmark = pytest.mark.timeout(method="thread")  # the alarms here take the other method's timer


@pytest.fixture(scope="module")
def backend():
    return CPUBackend()


@pytest.fixture(scope="module")
def kernels(backend):
    module = backend.load(host_object())
    return {name: backend.function(module, name) for name in ("count", "spin", "fault")}


class Counters:
    """A counter for each block, and before them the turns that a block of `spin` takes."""

    def __init__(self, blocks, turns=0):
        self._all = np.zeros(blocks + 1, np.int64)
        self._all[0] = turns
        self.counts = self._all[1:]
        self.args = struct.pack("@P", self.counts.__array_interface__["data"][0])


def launch(backend, function, grid, counters, stream=0):
    backend.launch(function, grid, (32, 1, 1), 0, stream, counters.args)


@pytest.mark.parametrize("blocks", [1, 2, 31, 32, 33, 63, 64, 65, 1000, 100_003])
def test_every_block_runs_once(backend, kernels, blocks):
    counters = Counters(blocks)
    for _ in range(5):
        launch(backend, kernels["count"], (blocks, 1, 1), counters)
    assert (counters.counts == 5).all()


def test_blocks_of_three_dimensional_grids_run_once(backend, kernels):
    counters = Counters(3 * 5 * 7)
    launch(backend, kernels["count"], (3, 5, 7), counters)
    assert (counters.counts == 1).all()


def test_launches_from_many_threads_and_streams(backend, kernels):
    """Jobs come and go in the pool's list in every order."""
    rounds, sizes = 150, (1, 2, 40, 64, 500, 3000)
    all_counters = [[Counters(n) for n in sizes] for _ in range(8)]

    def work(mine, stream):
        for _ in range(rounds):
            for size, counters in zip(sizes, mine, strict=True):
                launch(backend, kernels["count"], (size, 1, 1), counters, stream)
        backend.stream_synchronize(stream)

    streams = [backend.stream_create() if i % 2 else 0 for i in range(8)]
    threads = [
        threading.Thread(target=work, args=item) for item in zip(all_counters, streams, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    backend.synchronize()
    assert all((c.counts == rounds).all() for mine in all_counters for c in mine)


@pytest.mark.parametrize("blocks", [2, 8, 9, 63, 5000])
def test_a_kernel_that_takes_longer_than_before_runs_each_block_once(backend, kernels, blocks):
    """What one thread begins alone, as it was short the last times, others then take part in."""
    for turns in (0, 0, 100_000_000 // blocks, 0, 0, 2_000_000 // blocks, 0):
        counters = Counters(blocks, turns=turns)
        time.sleep(0.002)  # so that workers sleep
        for _ in range(3):
            launch(backend, kernels["spin"], (blocks, 1, 1), counters)
        assert (counters.counts == 3).all()


@pytest.mark.parametrize("cache", [1 << 20, 1 << 30])
@pytest.mark.parametrize("shift", [-12_000_000, -5, 0, 5, 12_000_000])
def test_large_copies_are_whole_wherever_their_ends_are(
    backend, kernels, shift, cache, monkeypatch
):
    """Also of memory over itself, which no two threads can share."""
    monkeypatch.setattr(copies, "last_cache", lambda: cache)
    launch(backend, kernels["count"], (64, 1, 1), Counters(64))
    nbytes, source = (10 << 20) + 7, 13_000_003
    memory = np.random.default_rng(1).integers(0, 256, 40_000_000, np.uint8)
    expected, start = memory.copy(), memory.__array_interface__["data"][0]
    expected[source + shift : source + shift + nbytes] = memory[source : source + nbytes]
    backend.copy(start + source + shift, start + source, nbytes, 0)
    backend.synchronize()
    assert (memory == expected).all()


@pytest.mark.parametrize("past_caches", [False, True])
def test_shared_copies_are_whole_from_any_address_to_any(backend, kernels, past_caches):
    """A copy past the caches writes whole lines of 64 bytes, the ends in another way."""
    launch(backend, kernels["count"], (64, 1, 1), Counters(64))
    random = np.random.default_rng(2)
    for nbytes in (1, 63, 64, 255, 256, 319, COPY_BYTES - 1, COPY_BYTES, 3 * COPY_BYTES + 77):
        for _ in range(4):
            source = random.integers(0, 256, nbytes + 128, np.uint8)
            target = random.integers(0, 256, nbytes + 128, np.uint8)
            (begin, into), expected = random.integers(0, 64, 2), target.copy()
            expected[into : into + nbytes] = source[begin : begin + nbytes]
            addresses = (array.__array_interface__["data"][0] for array in (target, source))
            to, of = (address + at for address, at in zip(addresses, (into, begin), strict=True))
            if POOL.copy(int(to), int(of), nbytes, past_caches=past_caches):
                assert (target == expected).all()
            else:
                assert not past_caches  # one thread alone leaves the others to the C library
                assert processor.threads() == 1


def test_an_idle_pool_takes_no_processor_time(backend, kernels):
    launch(backend, kernels["spin"], (1000, 1, 1), Counters(1000, turns=10_000))
    before = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - before < 0.2


@pytest.mark.parametrize("blocks", [8, 5000])
def test_a_fault_is_kept_and_all_blocks_run(backend, kernels, blocks):
    for _ in range(3):
        counters = Counters(blocks)
        launch(backend, kernels["fault"], (blocks, 1, 1), counters)
        launch(backend, kernels["count"], (blocks, 1, 1), counters)
        with pytest.raises(KernelStopped) as stopped:
            backend.synchronize()
        assert (stopped.value.function, stopped.value.code) == (kernels["fault"], 99)
        assert (counters.counts == 2).all()
        backend.synchronize()


def test_a_long_launch_outlives_its_time_budget(backend, kernels):
    """It is left and taken up again several times on the way."""
    counters = Counters(2000, turns=500_000)
    start = time.perf_counter()
    launch(backend, kernels["spin"], (2000, 1, 1), counters)
    assert time.perf_counter() - start > 0.1
    assert (counters.counts == 1).all()


class Alarm(Exception):
    pass


@pytest.fixture
def alarm():
    """A function that has Alarm raised in the main thread after some seconds."""

    def ring(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_signal_ends_a_launch_and_leaves_nothing_running(backend, kernels, alarm):
    counters = Counters(100_000, turns=1_000_000)
    alarm(0.1)
    with pytest.raises(Alarm):
        launch(backend, kernels["spin"], (100_000, 1, 1), counters)
    ran = counters.counts.sum()
    assert 0 < ran < 100_000
    time.sleep(0.05)
    assert counters.counts.sum() == ran
    backend.synchronize()
    again = Counters(1000)
    launch(backend, kernels["count"], (1000, 1, 1), again)
    assert (again.counts == 1).all()


def test_ctrl_c_ends_a_launch(backend, kernels):
    counters = Counters(100_000, turns=1_000_000)
    main = threading.main_thread().ident
    timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        launch(backend, kernels["spin"], (100_000, 1, 1), counters)
    timer.join()
    backend.synchronize()


def test_ctrl_c_ends_a_wait_and_the_kernels_that_it_is_for(backend, kernels):
    counters, stream = Counters(100_000, turns=2_000_000), backend.stream_create()
    for _ in range(3):
        launch(backend, kernels["spin"], (100_000, 1, 1), counters, stream)
    main = threading.main_thread().ident
    timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        backend.stream_synchronize(stream)
    timer.join()
    assert backend.stream_query(stream)
    assert 0 < counters.counts.sum() < 100_000
    again = Counters(1000)
    launch(backend, kernels["count"], (1000, 1, 1), again, stream)
    backend.stream_synchronize(stream)
    assert (again.counts == 1).all()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signals_at_any_moment_of_short_launches_do_no_harm(backend, kernels, alarm):
    """Exceptions out of signals hit the launch path everywhere; work in streams stays in order."""
    stream, event = backend.stream_create(), backend.event_create()
    seen = 0
    launch(backend, kernels["count"], (64, 1, 1), Counters(64))  # its first launch makes the pool
    for i in range(300):
        counters = Counters(64)
        try:
            alarm(0.00005 + i % 50 * 0.00001)
            for _ in range(1000):  # a finaliser may swallow the Alarm
                launch(backend, kernels["count"], (64, 1, 1), counters)
                launch(backend, kernels["count"], (64, 1, 1), counters, stream)
                backend.event_record(event, stream)
                launch(backend, kernels["count"], (1, 1, 1), counters)
        except Alarm:
            seen += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        backend.synchronize()
        assert backend.stream_query(stream)
        assert backend.stream_query(0)
    assert seen > 200


def test_the_pool_begins_while_another_thread_links_a_kernel():
    program = """
import threading
from haulage.backends.cpu_driver import loader
from haulage.backends.cpu_driver.pool import POOL

with loader.LINKING:
    starts = threading.Thread(target=POOL.start, daemon=True)
    starts.start()
    starts.join(30)
    assert POOL.started
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
