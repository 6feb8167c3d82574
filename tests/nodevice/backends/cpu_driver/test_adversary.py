"""The adversary of the CPU's streams: what runs, when, and in which order."""

import ctypes
import itertools
import os
import random
import threading
import time

import numpy as np
import pytest

from haulage import config
from haulage.backends.base import NON_BLOCKING
from haulage.backends.cpu import CPUBackend
from haulage.backends.cpu_driver.adversary import Adversary, Garbage
from haulage.backends.cpu_driver.events import Events
from haulage.backends.cpu_driver.streams import Streams
from haulage.backends.cpu_driver.threads import Threads

LONG = 10  # seconds that no test takes unless it fails
SEEDS = range(20)


def nothing_known():
    return lambda task: ()


def opposed(seed=0, touched=nothing_known):
    streams = Streams(Threads)
    streams.oppose(Adversary(streams, seed, touched))
    return streams


class Diary:
    """Work that notes its name, in streams that are made when first named."""

    def __init__(self, seed=0, touched=nothing_known):
        self.streams = opposed(seed, touched)
        self.events = Events(self.streams)
        self.handles = {"0": 0}
        self.done = []

    def stream(self, name):
        if name not in self.handles:
            self.handles[name] = self.streams.stream_create(0)
        return self.handles[name]

    def hand_over(self, stream, name, **options):
        return self.streams.submit(self.stream(stream), self.done.append, name, **options)

    def order(self, first, second):
        """Later work of the stream `second` comes after present work of `first`."""
        event = self.events.create(False)
        self.events.record(event, self.stream(first))
        self.events.wait_in(event, self.stream(second))


# ---- late ---------------------------------------------------------------------------------------


def test_nothing_runs_before_somebody_waits():
    diary = Diary()
    for stream in "10120":
        diary.hand_over(stream, stream)
    time.sleep(0.05)
    assert diary.done == []
    diary.streams.synchronize()
    assert sorted(diary.done) == ["0", "0", "1", "1", "2"]


def test_a_wait_runs_what_it_needs_and_nothing_else():
    diary = Diary()
    diary.hand_over("1", "a")
    diary.order("1", "2")
    diary.hand_over("1", "not needed")
    diary.hand_over("2", "b")
    diary.hand_over("2", "c")
    diary.hand_over("3", "not needed")
    diary.streams.stream_synchronize(diary.stream("2"))
    time.sleep(0.02)
    assert diary.done == ["a", "b", "c"]


def test_a_wait_for_an_event_runs_what_is_before_its_record():
    diary = Diary()
    event = diary.events.create(True)
    diary.hand_over("1", "before")
    diary.events.record(event, diary.stream("1"))
    diary.hand_over("1", "after")
    diary.events.synchronize(event)
    time.sleep(0.02)
    assert diary.done == ["before"]


def test_an_event_of_an_idle_stream_is_reached_at_once():
    diary = Diary()
    event = diary.events.create(True)
    diary.events.record(event, diary.stream("1"))
    assert diary.events.query(event)


def test_the_default_stream_keeps_its_rules():
    diary = Diary()
    free = diary.streams.stream_create(NON_BLOCKING)
    diary.streams.submit(free, diary.done.append, "free")
    diary.hand_over("1", "earlier")
    diary.hand_over("0", "default")
    diary.hand_over("2", "later")
    diary.streams.stream_synchronize(diary.stream("2"))
    assert diary.done == ["earlier", "default", "later"]
    diary.streams.synchronize()
    assert diary.done[-1] == "free"


def test_each_poll_lets_one_task_run_and_a_query_none():
    diary = Diary()
    event = diary.events.create(True)
    for name in "abc":
        diary.hand_over("1", name)
    diary.events.record(event, diary.stream("1"))
    diary.hand_over("1", "d")
    for _ in range(10):
        assert not diary.events.query(event)
    time.sleep(0.02)
    assert diary.done == []
    assert not diary.events.poll(event)
    wait_until(lambda: diary.done == ["a"])
    time.sleep(0.02)
    assert diary.done == ["a"]
    wait_until(lambda: diary.events.poll(event))
    assert diary.done == ["a", "b", "c"]
    wait_until(lambda: diary.streams.stream_poll(diary.stream("1")))
    assert diary.done[-1] == "d"


def wait_until(reached):
    end = time.monotonic() + LONG
    while not reached():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


# ---- reordered ----------------------------------------------------------------------------------

# (stream, name) in the order of handing over; "first>second" is an event. `a` comes before `b` in
# none of them, and b is to run first.
TWO_UNORDERED = {
    "nothing else": "1a 2b",
    "earlier work on the first stream": "1p 1a 2b",
    "earlier work on the second stream": "2p 1a 2b",
    "earlier work on both": "1p 2q 1a 2b",
    "earlier work of the default stream": "0p 1a 2b",
    "a later task of a third stream needs both": "1a 2b 1>3 2>3 3c",
    "a later task of the first stream needs both": "1a 2b 2>1 1c",
    "a later task of the second stream needs both": "1a 2b 1>2 2c",
    "a later task of the default stream needs both": "1a 2b 0c",
    "an event of the first that nobody waits for": "1a 1>3 2b",
    "an event that both wait for": "3p 3>1 3>2 1a 2b",
}


def run_program(diary, text):
    for step in text.split():
        if ">" in step:
            diary.order(*step.split(">"))
        else:
            diary.hand_over(step[0], step[1])
    diary.streams.synchronize()
    return diary.done


@pytest.mark.parametrize("text", TWO_UNORDERED.values(), ids=TWO_UNORDERED.keys())
@pytest.mark.parametrize("seed", SEEDS)
def test_of_two_tasks_without_an_ordering_the_later_one_runs_first(seed, text):
    done = run_program(Diary(seed), text)
    assert sorted(done) == sorted(step[1] for step in text.split() if ">" not in step)
    assert done.index("b") < done.index("a")


def same_memory(names):
    """Tasks of a diary with these names write the same memory; others use none."""

    def touched(task):
        return [(1, True)] if task.args[0] in names else []

    return lambda: touched


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_that_use_the_same_memory_are_turned_round_first(seed):
    text = "1a 2b 1c"
    assert run_program(Diary(seed, same_memory("ab")), text) == ["b", "a", "c"]
    assert run_program(Diary(seed, same_memory("bc")), text) == ["a", "c", "b"]


def test_where_not_all_can_be_turned_round_the_seed_chooses():
    orders = {tuple(run_program(Diary(seed, same_memory("abc")), "1a 2b 1c")) for seed in SEEDS}
    assert orders == {("b", "a", "c"), ("a", "c", "b")}


def test_two_that_only_read_are_no_reason_to_turn_them_round():
    def touched(task):
        return {"a": [(1, False)], "b": [(1, False), (2, False)], "c": [(2, True)]}[task.args[0]]

    for seed in SEEDS:
        assert run_program(Diary(seed, lambda: touched), "1a 2b 1c") == ["a", "c", "b"]


@pytest.mark.parametrize("seed", range(5))
def test_every_order_is_one_that_the_rules_allow(seed):
    """Random programs: each task after all that it must follow, each exactly once."""

    choice = random.Random(seed)
    for _ in range(40):
        diary = Diary(seed, same_memory("abcdefgh"))
        names = itertools.cycle("abcdefghijklmnop")
        before, needs, last = {}, {}, {}
        for name, _ in zip(names, range(16), strict=False):
            stream = choice.choice("123")
            if choice.random() < 0.4:
                other = choice.choice("123")
                diary.order(other, stream)
                before.setdefault(stream, set()).update({last[other]} if other in last else ())
            needs[name] = {last[stream]} if stream in last else set()
            needs[name] |= before.pop(stream, set())
            diary.hand_over(stream, name)
            last[stream] = name
        diary.streams.synchronize()
        assert sorted(diary.done) == sorted(needs)
        place = {name: i for i, name in enumerate(diary.done)}
        assert all(place[early] < place[late] for late in needs for early in needs[late])


def test_failures_arrive_as_they_do_otherwise():
    streams = opposed()
    one, two = streams.stream_create(0), streams.stream_create(0)
    streams.submit(one, lambda: 1 // 0)
    streams.submit(0, lambda: [][0])
    streams.stream_synchronize(two)
    with pytest.raises(ZeroDivisionError):
        streams.stream_synchronize(one)
    with pytest.raises(IndexError):
        streams.synchronize()
    streams.synchronize()


# ---- callbacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["0", "1"])
def test_a_callback_that_nobody_waits_for_runs_with_all_before_it(stream):
    diary, called = Diary(), threading.Event()
    diary.hand_over("2", "other")
    diary.hand_over(stream, "before")
    diary.streams.submit(diary.stream(stream), called.set, callback=True)
    diary.hand_over(stream, "after")
    assert called.wait(LONG)
    assert diary.done == (["other", "before"] if stream == "0" else ["before"])
    diary.streams.synchronize()


def test_a_callback_that_blocks_stops_no_other_wait():
    diary, opened = Diary(), threading.Event()
    diary.streams.submit(diary.stream("1"), lambda: opened.wait(LONG), callback=True)
    called = threading.Event()
    diary.streams.submit(diary.stream("2"), called.set, callback=True)
    assert called.wait(LONG / 2)
    diary.hand_over("3", "third")
    diary.streams.stream_synchronize(diary.stream("3"))
    assert diary.done == ["third"]
    # Even if the same wait needs both, and what opens the one comes after it.
    diary.streams.submit(diary.stream("2"), opened.set, callback=True)
    before = time.monotonic()
    diary.streams.synchronize()
    assert time.monotonic() - before < LONG / 2


# ---- on and off ---------------------------------------------------------------------------------


def test_what_is_held_is_let_go_when_the_adversary_leaves():
    diary = Diary()
    diary.hand_over("1", "a")
    diary.order("1", "2")
    diary.hand_over("2", "b")
    diary.streams.oppose(None)
    wait_until(lambda: diary.done == ["a", "b"])
    diary.streams.synchronize()
    diary.hand_over("0", "at once")
    assert diary.done[-1] == "at once"


def test_a_wait_that_is_under_way_ends_when_the_adversary_leaves():
    diary, gate, begun = Diary(), threading.Event(), threading.Event()
    diary.streams.submit(diary.stream("1"), lambda: (begun.set(), gate.wait(LONG)))
    diary.order("1", "2")
    diary.hand_over("2", "b")
    waiter = threading.Thread(target=diary.streams.synchronize)
    waiter.start()
    assert begun.wait(LONG)
    diary.streams.oppose(None)
    time.sleep(0.3)  # longer than a turn of the wait
    assert diary.done == []
    gate.set()
    waiter.join(LONG)
    assert diary.done == ["b"]


def test_the_end_drops_what_nobody_waited_for():
    diary = Diary()
    diary.hand_over("1", "never")
    event = diary.events.create(False)
    diary.events.record(event, diary.stream("1"))
    diary.streams.submit(diary.stream("1"), diary.done.append, "nor this", callback=True)
    diary.streams.close()
    diary.events.synchronize(event)
    diary.streams.synchronize()
    diary.hand_over("0", "at the end")
    assert diary.done == ["at the end"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork_the_child_holds_nothing_and_still_opposes():
    streams, log = opposed(), []
    stream = streams.stream_create(0)
    streams.submit(stream, log.append, "the parent's")
    child = os.fork()
    if child == 0:
        streams.renew()
        streams.submit(stream, log.append, "the child's")
        held_back = log == []
        streams.synchronize()
        os._exit(0 if held_back and log == ["the child's"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    streams.synchronize()
    assert log == ["the parent's"]


# ---- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [1, 7, 4096, 1_000_003])
def test_memory_starts_and_ends_as_garbage(nbytes):

    room = np.zeros(nbytes + 2, np.uint8)
    garbage = Garbage(3)
    address = room.ctypes.data + 1
    garbage.into_new(address, nbytes)
    new = room.copy()
    assert new[0] == new[-1] == 0
    assert (new[1:-1] > 0).all()
    garbage.into_freed(address, nbytes)
    assert (room[1:-1] > 0).all()
    if nbytes > 7:
        for kind in (np.float64, np.float32):
            floats = new[1:-1][: nbytes // 8 * 8].view(kind)
            assert np.isfinite(floats).all()
            assert (abs(floats) > 2).all()
        assert (room != new).any()
    again = np.zeros(nbytes + 2, np.uint8)
    Garbage(3).into_new(again.ctypes.data + 1, nbytes)
    assert (again == new).all()


def test_the_back_end_fills_what_it_allocates_and_frees(monkeypatch):

    backend = CPUBackend()
    backend.adversary(5)
    kept, _ = backend.alloc(1000, "device")
    assert 0 not in ctypes.string_at(kept, 1000)
    backend.fill(kept, b"\x00", 1000, 0)
    backend.synchronize()
    filled = []
    into_freed = Garbage.into_freed
    monkeypatch.setattr(
        Garbage,
        "into_freed",
        lambda self, at, n: (into_freed(self, at, n), filled.append(ctypes.string_at(at, n))),
    )
    backend.free(kept, kept, "device")
    assert len(filled[0]) == 1000
    assert 0 not in filled[0]
    backend.adversary(None)
    backend.free(*backend.alloc(1000, "device"), "device")
    assert len(filled) == 1


# ---- the setting --------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "seed"), [("", None), (" 7 ", 7), ("-3", -3)])
def test_the_seed_comes_from_the_environment(monkeypatch, text, seed):
    monkeypatch.setenv("HAULAGE_ADVERSARY", text)
    assert config.adversary_seed() == seed


def test_a_seed_that_is_no_number_is_an_error(monkeypatch):
    monkeypatch.setenv("HAULAGE_ADVERSARY", "on")
    with pytest.raises(ValueError, match="HAULAGE_ADVERSARY='on'"):
        CPUBackend()
