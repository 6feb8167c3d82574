"""The bound of the CPU device's queues, and what a long queue costs."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from haulage import config
from haulage.backends.cpu_driver.adversary import Adversary
from haulage.backends.cpu_driver.events import Events
from haulage.backends.cpu_driver.failures import Failures
from haulage.backends.cpu_driver.graphs import Graphs
from haulage.backends.cpu_driver.pool import POOL
from haulage.backends.cpu_driver.streams import Streams
from haulage.backends.cpu_driver.tasks import Stream
from haulage.backends.cpu_driver.threads import Threads

LONG = 10  # seconds that no test takes unless it fails
DEPTH = 16


@pytest.fixture(autouse=True)
def depth(monkeypatch):
    monkeypatch.setenv("HAULAGE_QUEUE_DEPTH", str(DEPTH))


@pytest.fixture
def streams():
    return Streams(Threads)


class Work:
    """Work that is held up until it is opened, handed over by a thread of its own; it counts."""

    def __init__(self, hand_over, times=10 * DEPTH):
        self.handed = self.done = self.most = 0
        self.open, self.many = threading.Event(), threading.Event()
        self._hand_over, self._times = hand_over, times
        self.thread = threading.Thread(target=self._all)
        self.thread.start()

    def _all(self):
        for _ in range(self._times):
            self._hand_over(self)
            self.handed += 1
            if self.handed > 3 * DEPTH:
                self.many.set()

    def __call__(self):
        self.most = max(self.most, self.handed - self.done)
        assert self.open.wait(LONG)
        self.done += 1

    def is_held_up(self):
        """Whether no more is handed over while nothing runs."""
        return not self.many.wait(0.3)

    def finish(self):
        self.open.set()
        self.thread.join(LONG)
        assert not self.thread.is_alive()
        return self.most


def test_work_waits_for_room_in_the_queue_of_its_stream(streams):
    stream = streams.stream_create(0)
    work = Work(lambda work: streams.submit(stream, work))
    assert work.is_held_up()
    assert work.finish() <= DEPTH + 1
    streams.synchronize()
    assert work.done == 10 * DEPTH


def test_so_does_work_of_the_default_stream(streams):
    gate, stream = threading.Event(), streams.stream_create(0)
    streams.submit(stream, gate.wait, LONG)
    work = Work(lambda work: streams.submit(0, work))
    assert work.is_held_up()
    gate.set()
    assert work.finish() <= DEPTH + 1


def test_so_do_events_and_waits_for_them(streams):
    events = Events(streams)
    one, two = streams.stream_create(0), streams.stream_create(0)
    event, gate = events.create(False), threading.Event()
    streams.submit(one, gate.wait, LONG)
    streams.submit(two, gate.wait, LONG)

    def record(work):
        events.record(event, one)
        events.wait_in(event, two)

    work = Work(record)
    assert work.is_held_up()
    gate.set()
    work.finish()
    streams.synchronize()


def test_so_do_launches_of_a_graph_of_several_parts(streams):
    graphs = Graphs(streams, lambda function, launch: None, POOL)
    events, one, two = Events(streams), streams.stream_create(0), streams.stream_create(0)
    gate, done = threading.Event(), []

    def held_up():
        assert gate.wait(LONG)
        done.append(1)

    graphs.begin(one)
    event = events.create(False)
    events.record(event, one)
    graphs.join(two, events.find(event).record)
    events.wait_in(event, two)
    for _ in range(10 * DEPTH):  # what is recorded waits for nothing
        streams.submit(one, held_up)
        streams.submit(two, lambda: None)
    events.record(event, two)
    events.wait_in(event, one)
    number, _ = graphs.end(one)
    work = Work(lambda _: graphs.launch(number, one))
    assert work.is_held_up()
    gate.set()
    work.finish()
    streams.synchronize()
    assert len(done) == (10 * DEPTH) ** 2


def test_another_stream_has_a_queue_of_its_own(streams):
    full, other = streams.stream_create(0), streams.stream_create(0)
    work = Work(lambda work: streams.submit(full, work))
    assert work.is_held_up()
    done = threading.Event()
    streams.submit(other, done.set)
    assert done.wait(LONG)
    work.finish()


def test_a_callback_hands_over_to_its_own_full_stream(streams):
    stream, done = streams.stream_create(0), []

    def callback():
        for i in range(10 * DEPTH):
            streams.submit(stream, done.append, i)

    streams.submit(stream, callback, callback=True)
    streams.stream_synchronize(stream)  # what the callback handed over came after this began
    streams.stream_synchronize(stream)
    assert done == list(range(10 * DEPTH))


def test_callbacks_of_two_streams_that_hand_over_to_each_other(streams):
    handles = [streams.stream_create(0), streams.stream_create(0)]
    both, done = threading.Barrier(2, timeout=LONG), []

    def callback(to):
        both.wait()
        for _ in range(5 * DEPTH):
            streams.submit(to, done.append, to)

    streams.submit(handles[0], callback, handles[1], callback=True)
    streams.submit(handles[1], callback, handles[0], callback=True)
    for _ in range(2):
        streams.synchronize()
    assert len(done) == 10 * DEPTH


@pytest.mark.parametrize("seed", range(3))
def test_what_an_adversary_holds_back_is_let_go_where_a_queue_is_full(streams, seed):
    streams.oppose(Adversary(streams, seed, lambda: lambda task: ()))
    stream, done, most = streams.stream_create(0), [], 0
    for i in range(10 * DEPTH):
        streams.submit(stream, done.append, i)
        most = max(most, i + 1 - len(done))
    assert DEPTH // 2 <= most <= DEPTH
    streams.synchronize()
    assert done == list(range(10 * DEPTH))


def test_an_adversarys_full_queue_that_waits_for_another_one(streams):
    streams.oppose(Adversary(streams, 0, lambda: lambda task: ()))
    events, log = Events(streams), []
    one, two = streams.stream_create(0), streams.stream_create(0)
    event = events.create(False)
    streams.submit(one, log.append, "one")
    events.record(event, one)
    events.wait_in(event, two)
    for i in range(2 * DEPTH):
        streams.submit(two, log.append, i)
    assert log[:2] == ["one", 0]
    streams.synchronize()


def test_threads_that_share_a_stream_share_its_queue(streams):
    stream, counts, most, open_ = streams.stream_create(0), [0, 0], [0], threading.Event()

    def work():
        most[0] = max(most[0], counts[0] - counts[1])
        assert open_.wait(LONG)
        counts[1] += 1

    def hand_over():
        for _ in range(5 * DEPTH):
            streams.submit(stream, work)
            counts[0] += 1

    everyone = [threading.Thread(target=hand_over) for _ in range(4)]
    for thread in everyone:
        thread.start()
    open_.set()
    for thread in everyone:
        thread.join(LONG)
        assert not thread.is_alive()
    streams.synchronize()
    assert counts[1] == 20 * DEPTH
    assert most[0] <= DEPTH + 5


def test_the_end_of_many_pieces_of_work_takes_time_in_proportion(monkeypatch, streams):
    """What they took to be handed over is the measure: the time of a loop of the same length."""
    monkeypatch.setenv("HAULAGE_QUEUE_DEPTH", "1000000")
    gate, stream = threading.Event(), streams.stream_create(0)
    begun = time.process_time()
    streams.submit(stream, gate.wait, LONG)
    for _ in range(50_000):
        streams.submit(stream, int)
    handed = time.process_time()
    threading.Timer(0.1, gate.set).start()
    streams.close()
    # About a third; it was twenty times as much where each of them was looked for in all.
    assert time.process_time() - handed < 3 * (handed - begun)


def test_a_block_asks_few_of_the_streams_that_use_it(monkeypatch):
    from haulage import cuda
    from haulage.runtime.devices.stream import Stream as Handle

    there, asked, idle = cuda.device_array(10, np.float32), [], Handle.idle
    monkeypatch.setattr(Handle, "idle", lambda stream: asked.append(stream) or idle(stream))
    gate, opened, event, target = (
        threading.Event(),
        cuda.stream(),
        cuda.event(),
        cuda.pinned_array(10, np.float32),
    )
    opened.add_callback(lambda *_: gate.wait(LONG))
    event.record(opened)
    kept = [cuda.stream() for _ in range(200)]
    try:
        for stream in kept:
            event.wait(stream)
            there.copy_to_device(target, stream=stream)
    finally:
        gate.set()
    cuda.synchronize()
    assert len(asked) < 20 * len(kept)


def test_of_many_failures_of_a_stream_one_is_kept():
    failures, stream, other = Failures(), Stream(3, True), Stream(4, True)
    for i in range(1000):
        failures.add(stream, ValueError(i))
    failures.add(other, KeyError())
    assert len(failures.first) == 2
    with pytest.raises(ValueError, match="0") as raised:
        failures.raise_first(stream)
    assert raised.value.__notes__ == ["999 later tasks failed as well; this is the first"]
    failures.raise_first(stream)
    assert [type(error) for error in failures.take()] == [KeyError]
    assert not failures


@pytest.mark.parametrize("text", ["1", "0", "-5", "many", "1e3", "²"])
def test_a_senseless_depth_is_an_error(monkeypatch, text):
    monkeypatch.setenv("HAULAGE_QUEUE_DEPTH", text)
    with pytest.raises(ValueError, match="HAULAGE_QUEUE_DEPTH"):
        config.queue_depth()


# ---- whole programs -----------------------------------------------------------------------------

SETUP = """
import os, signal, sys, threading, time
import numpy as np
from haulage import cuda

@cuda.jit
def add_one(x):
    x[0] += 1

x, stream = cuda.to_device(np.zeros(1)), cuda.stream()
add_one[1, 1, stream](x)
stream.synchronize()
gate = threading.Event()
stream.add_callback(lambda *_: gate.wait(10))
handed = 1

def launch(times):
    global handed
    for _ in range(times):
        add_one[1, 1, stream](x)
        handed += 1
"""


def output(program, **settings):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SETUP + program],
        env={**os.environ, "HAULAGE_DEVICE": "cpu", **settings},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


HELD_UP = """
thread = threading.Thread(target=launch, args=(5000,), daemon=True)
thread.start()
before = -1
while handed != before:
    before = handed
    time.sleep(0.3)
"""


def test_a_program_holds_about_a_thousand_launches():
    program = HELD_UP + "print(handed); gate.set(); thread.join(); print(x.copy_to_host()[0])"
    held, total = output(program, HAULAGE_QUEUE_DEPTH="")
    assert 500 <= int(held) <= 1026
    assert float(total) == 5001


def test_ctrl_c_comes_into_a_wait_for_room_and_nothing_is_half_done():
    program = """
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    launch(1_000_000)
except KeyboardInterrupt:
    gate.set()
    stream.synchronize()
    print(x.copy_to_host()[0], handed < 100)
launch(100)
stream.synchronize()
print(x.copy_to_host()[0])
"""
    # What waited in the queue is dropped; nothing is half done.
    assert output(program) == ["1.0", "True", "101.0"]


def test_the_end_while_a_thread_waits_for_room():
    assert output(HELD_UP + "print('end')") == ["end"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_a_thread_waits_for_room():
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        + HELD_UP
        + """
child = os.fork()
if not child:
    add_one[1, 1, stream](x)
    for _ in range(100):
        add_one[1, 1, stream](x)
    stream.synchronize()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
gate.set()
thread.join()
stream.synchronize()
print(x.copy_to_host()[0] == handed)
"""
    )
    assert output(program) == ["0", "True"]
