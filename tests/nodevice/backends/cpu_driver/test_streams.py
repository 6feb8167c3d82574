"""Streams and events of the CPU device: order, failures, threads. Work is gated by events."""

import ctypes
import struct
import threading
import time

import pytest

from haulage._core.cpu_streams import GridStart, cost_of
from haulage.backends.base import NON_BLOCKING, KernelStopped
from haulage.backends.cpu import CPUBackend
from haulage.backends.cpu_driver import crashes, threads
from haulage.backends.cpu_driver.events import Events
from haulage.backends.cpu_driver.pool import POOL
from haulage.backends.cpu_driver.streams import Streams
from haulage.errors import DeviceError

LONG = 10  # seconds that no test takes unless it fails


@pytest.fixture
def streams():
    return Streams(threads.Threads)


@pytest.fixture
def events(streams):
    return Events(streams)


class Gate:
    """Work that waits until it is opened, and notes that it has begun."""

    def __init__(self):
        self.begun, self._open = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        assert self._open.wait(LONG), "nobody opened the gate"

    def open(self):
        self._open.set()


def test_work_of_two_streams_overlaps(streams):
    meet = threading.Barrier(2, timeout=LONG)
    one, two = streams.stream_create(0), streams.stream_create(0)
    streams.submit(one, meet.wait)
    streams.submit(two, meet.wait)
    streams.synchronize()


def test_the_default_stream_runs_at_once_in_the_caller(streams):
    where = []
    streams.submit(0, lambda: where.append(threading.get_ident()))
    assert where == [threading.get_ident()]


def test_short_work_of_an_idle_stream_is_done_by_its_caller(streams):
    where = []

    def note():
        where.append(threading.get_ident())

    stream = streams.stream_create(0)
    for _ in range(3):
        streams.submit(stream, note, short=True)
        assert streams.stream_query(stream)
    assert where == [threading.get_ident()] * 3


@pytest.mark.parametrize("before", ["its own", "the default", "an event of another"])
def test_short_work_waits_for_what_is_before_it_and_not_in_its_caller(streams, events, before):
    gate, log = Gate(), []
    one, two = streams.stream_create(0), streams.stream_create(0)
    streams.submit(two if before == "its own" else one, gate)
    if before == "the default":
        streams.submit(0, log.append, "default")
    elif before == "an event of another":
        event = events.create(False)
        events.record(event, one)
        events.wait_in(event, two)
    streams.submit(two, log.append, "short", short=True)
    assert "short" not in log
    gate.open()
    streams.stream_synchronize(two)
    assert log[-1] == "short"


_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)


class Launches:
    """Launches of a kernel that notes where its blocks run, and then waits for `wait`."""

    def __init__(self, streams, fault=0):
        self.streams, self.fault = streams, fault
        self.where, self.wait = [], threading.Event()
        self.wait.set()
        self._kernel = _ENTRY(self._run)
        self.function = ctypes.cast(self._kernel, ctypes.c_void_p).value

    def _run(self, launch, first, last):
        self.where.append(threading.get_ident())
        assert self.wait.wait(LONG)
        return self.fault

    def note(self, ns):
        """Say what a block took the last time."""
        cost_of(self.function).note(1, ns)

    def _perform(self, function, launch):
        POOL.run(function, launch)
        self.note(1000)

    def __call__(self, stream, blocks=1):
        launch = struct.pack("=8I", blocks, 1, 1, 1, 1, 1, 0, 0)
        start = GridStart(self.streams, POOL, self.function, blocks, self._perform, crashes.stopped)
        start(stream, launch)


def test_a_kernel_of_an_idle_stream_is_run_by_its_caller_if_it_was_short(streams):
    launches, stream = Launches(streams), streams.stream_create(0)
    here = threading.get_ident()
    launches(stream)
    streams.synchronize()
    assert launches.where.pop() != here
    launches(stream)
    assert launches.where.pop() == here
    launches.note(1_000_000)
    launches(stream)
    streams.synchronize()
    assert launches.where.pop() != here


def test_what_many_blocks_take_decides_who_runs_them(streams):
    cost = cost_of(-1)
    assert not cost.is_short(1)
    cost.note(10, 10_000)
    assert cost.is_short(10)
    assert not cost.is_short(1_000_000)
    assert cost_of(-1) is cost


def test_work_of_others_waits_for_a_kernel_that_its_caller_runs(streams):
    """Of its stream, of the default stream, and who waits for it."""
    launches, stream, log = Launches(streams), streams.stream_create(0), []

    def wait():
        streams.stream_synchronize(stream)
        log.append(2)

    for _ in range(20):
        launches.note(1000)
        launches.wait.clear()
        launches.where.clear()
        caller = threading.Thread(target=launches, args=(stream,))
        caller.start()
        while not launches.where:
            time.sleep(0.0001)
        assert launches.where == [caller.ident]
        log.clear()
        waiter = threading.Thread(target=wait)
        streams.submit(stream, log.append, 1, short=True)
        streams.submit(0, log.append, 1)
        waiter.start()
        time.sleep(0.001)
        assert (log, streams.stream_query(stream)) == ([], False)
        launches.wait.set()
        streams.synchronize()
        for thread in (caller, waiter):
            thread.join()
        assert sorted(log) == [1, 1, 2]


def test_a_fault_of_a_kernel_that_its_caller_runs_is_its_streams(streams):
    launches, stream = Launches(streams, fault=7), streams.stream_create(0)
    launches.note(1000)
    launches(stream)
    streams.stream_synchronize(0)
    with pytest.raises(KernelStopped) as stopped:
        streams.stream_synchronize(stream)
    assert (stopped.value.function, stopped.value.code) == (launches.function, 7)
    streams.synchronize()


def test_the_default_stream_never_blocks_the_caller(streams):
    gate, log = Gate(), []
    stream = streams.stream_create(0)
    streams.submit(stream, gate)
    streams.submit(0, log.append, "default")
    assert log == []
    assert not streams.stream_query(0)
    gate.open()
    streams.stream_synchronize(0)
    assert log == ["default"]


def test_blocking_streams_wait_for_the_default_stream_of_another_thread(streams):
    gate, log = Gate(), []
    blocking, free = streams.stream_create(0), streams.stream_create(NON_BLOCKING)
    other = threading.Thread(target=streams.submit, args=(0, gate))
    other.start()
    assert gate.begun.wait(LONG)
    streams.submit(blocking, log.append, "blocking")
    streams.submit(free, log.append, "free")
    streams.stream_synchronize(free)
    time.sleep(0.01)
    assert log == ["free"]
    gate.open()
    streams.synchronize()
    other.join()
    assert log == ["free", "blocking"]


def test_the_default_stream_orders_two_blocking_streams(streams):
    gate, log = Gate(), []
    one, two = streams.stream_create(0), streams.stream_create(0)
    streams.submit(one, gate)
    streams.submit(0, log.append, "default")
    streams.submit(two, log.append, "two")
    streams.submit(one, log.append, "one")
    time.sleep(0.01)
    assert log == []
    gate.open()
    streams.synchronize()
    assert log[0] == "default"
    assert sorted(log[1:]) == ["one", "two"]


def test_blocking_streams_do_not_wait_for_each_other(streams):
    gate, log = Gate(), []
    one, two = streams.stream_create(0), streams.stream_create(0)
    streams.submit(one, gate)
    streams.submit(two, log.append, "two")
    streams.stream_synchronize(two)
    assert log == ["two"]
    assert not streams.stream_query(one)
    gate.open()
    streams.synchronize()


def test_a_wait_hangs_on_the_record_of_its_time(streams, events):
    first, second, log = Gate(), Gate(), []
    one, two = streams.stream_create(0), streams.stream_create(0)
    event = events.create(True)
    streams.submit(one, first)
    events.record(event, one)
    events.wait_in(event, two)
    streams.submit(two, log.append, "two")
    streams.submit(one, second)
    events.record(event, one)
    first.open()
    streams.stream_synchronize(two)
    assert log == ["two"]
    assert not events.query(event)
    second.open()
    events.synchronize(event)


def test_a_record_in_the_default_stream_waits_for_blocking_streams(streams, events):
    gate = Gate()
    stream, event = streams.stream_create(0), events.create(True)
    streams.submit(stream, gate)
    events.record(event, 0)
    assert not events.query(event)
    gate.open()
    events.synchronize(event)


def test_a_thousand_streams_share_few_threads(streams):
    before = set(threading.enumerate())  # other tests' threads may still be idle
    handles = [streams.stream_create(0) for _ in range(1000)]
    done = []
    for handle in handles:
        for _ in range(3):
            streams.submit(handle, done.append, handle)
    streams.synchronize()
    assert sorted(done) == sorted(handles * 3)
    serving = [t for t in threading.enumerate() if t.name == "haulage-stream" and t not in before]
    assert 0 < len(serving) <= threads.MOST_THREADS


def test_idle_threads_end(monkeypatch):
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.05)
    streams = Streams(threads.Threads)
    before = threading.active_count()
    who = []
    streams.submit(streams.stream_create(0), lambda: who.append(threading.current_thread()))
    streams.synchronize()
    who[0].join(LONG)
    assert not who[0].is_alive()
    assert threading.active_count() <= before
    streams.submit(streams.stream_create(0), lambda: who.append(threading.current_thread()))
    streams.synchronize()
    assert len(who) == 2


def test_what_fails_in_a_stream_is_raised_once_and_its_thread_goes_on(streams):
    stream, other, log = streams.stream_create(0), streams.stream_create(0), []
    streams.submit(stream, lambda: 1 // 0)
    streams.submit(stream, log.append, "after")
    streams.stream_synchronize(other)
    with pytest.raises(ZeroDivisionError):
        streams.stream_synchronize(stream)
    streams.stream_synchronize(stream)
    streams.synchronize()
    assert log == ["after"]


def test_many_failures_are_one_exception_that_says_so(streams):
    stream = streams.stream_create(0)
    for _ in range(3):
        streams.submit(stream, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError) as raised:
        streams.synchronize()
    assert "2 later tasks failed" in raised.value.__notes__[0]
    streams.synchronize()


def test_a_destroyed_streams_failure_is_the_devices(streams):
    gate = Gate()
    stream = streams.stream_create(0)
    streams.submit(stream, gate)
    streams.submit(stream, lambda: 1 // 0)
    streams.stream_destroy(stream)
    gate.open()
    with pytest.raises(ZeroDivisionError):
        streams.synchronize()


def test_a_bug_in_work_run_at_once_is_raised_at_once(streams):
    with pytest.raises(ZeroDivisionError):
        streams.submit(0, lambda: 1 // 0)
    streams.synchronize()
    assert streams.stream_query(0)


def test_a_callbacks_failure_is_raised_by_the_next_synchronise():
    backend = CPUBackend()
    for stream in (0, backend.stream_create()):
        backend.stream_callback(stream, lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            backend.stream_synchronize(stream)


def test_unknown_handles_are_named(streams, events):
    stream, event = streams.stream_create(0), events.create(True)
    streams.stream_destroy(stream)
    events.destroy(event)
    with pytest.raises(DeviceError, match=f"no stream {stream:#x}"):
        streams.submit(stream, print)
    with pytest.raises(DeviceError, match=f"no event {event:#x}"):
        events.record(event, 0)
    with pytest.raises(DeviceError, match="default stream"):
        streams.stream_destroy(0)


def test_elapsed_time_of_two_records(streams, events):
    stream, start, end = streams.stream_create(0), *(events.create(True) for _ in "ab")
    events.record(start, stream)
    streams.submit(stream, time.sleep, 0.02)
    events.record(end, stream)
    events.synchronize(end)
    assert 20 <= events.elapsed(start, end) < 1000 * LONG


def test_threads_hand_over_at_the_same_time(streams):
    """Each thread's own stream keeps its order; the default stream's total is exact."""
    total = [0]
    logs = {streams.stream_create(i % 2 * NON_BLOCKING): [] for i in range(6)}

    def count():
        seen = total[0]
        time.sleep(0)
        total[0] = seen + 1

    def hand_over(handle, log):
        for i in range(100):
            streams.submit(handle, log.append, i)
            if i % 5 == 0:
                streams.submit(0, count)

    workers = [threading.Thread(target=hand_over, args=item) for item in logs.items()]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    streams.synchronize()
    assert all(log == list(range(100)) for log in logs.values())
    assert total[0] == 6 * 20


def test_a_callback_of_the_default_stream_does_not_run_in_its_caller(streams):
    gate, log = Gate(), []
    streams.submit(0, gate, callback=True)
    streams.submit(0, log.append, "later")
    assert gate.begun.wait(LONG)
    assert log == []
    gate.open()
    streams.stream_synchronize(0)
    assert log == ["later"]
