"""`Streams.hold_idle`: all streams of the CPU device at rest."""

import threading

import pytest

from haulage.backends.base import NON_BLOCKING
from haulage.backends.cpu_driver.streams import Streams
from haulage.backends.cpu_driver.threads import Threads

LONG = 10  # seconds that no test takes unless it fails


@pytest.fixture
def streams():
    return Streams(Threads)


@pytest.fixture
def run():
    """Call a function in a thread of its own; what it gives is joined at the end."""
    begun = []

    def run(function, *args):
        thread = threading.Thread(target=function, args=args)
        begun.append(thread)
        thread.start()
        return thread

    yield run
    for thread in begun:
        thread.join(LONG)
        assert not thread.is_alive()


def each_kind(streams):
    """The default stream, a blocking and a non-blocking one."""
    return [0, streams.stream_create(0), streams.stream_create(NON_BLOCKING)]


def test_it_waits_for_the_work_of_each_kind_of_stream(streams, run):
    for stream in each_kind(streams):
        opened, log = threading.Event(), []

        def work(opened=opened, log=log):
            assert opened.wait(LONG)
            log.append("work")

        def hold(log=log):
            with streams.hold_idle():
                log.append("idle")

        worker = run(streams.submit, stream, work)
        while not worker_holds(streams):
            pass
        holder = run(hold)
        holder.join(0.05)
        assert log == []
        opened.set()
        holder.join(LONG)
        worker.join(LONG)
        assert log == ["work", "idle"]


def worker_holds(streams):
    """Whether some stream has work."""
    return not all(streams.stream_query(stream) for stream in list(streams._streams))


def test_work_that_is_handed_over_meanwhile_begins_after_it(streams):
    kinds = each_kind(streams)
    log = []
    with streams.hold_idle():
        kinds += [streams.stream_create(0), streams.stream_create(NON_BLOCKING)]
        for stream in kinds:
            streams.submit(stream, log.append, stream)
            assert not streams.stream_query(stream)
        threading.Event().wait(0.05)
        assert log == []
    streams.synchronize()
    assert sorted(log) == sorted(kinds)


def test_streams_are_as_before_it(streams):
    kinds = each_kind(streams)
    with streams.hold_idle():
        pass
    assert all(streams.stream_query(stream) for stream in kinds)
    assert not streams._busy
    where = []
    streams.submit(0, lambda: where.append(threading.get_ident()))
    assert where == [threading.get_ident()]
    for stream in kinds:
        streams.submit(stream, where.append, stream)
        streams.stream_synchronize(stream)
    assert where[1:] == kinds


def test_a_stream_that_was_busy_is_not_remembered_as_busy(streams):
    stream = streams.stream_create(NON_BLOCKING)
    opened = threading.Event()
    streams.submit(stream, opened.wait, LONG)
    threading.Timer(0.05, opened.set).start()
    with streams.hold_idle():
        assert opened.is_set()
    assert streams.stream_query(stream)
    assert not streams._busy


def test_an_error_inside_lets_the_streams_go_on(streams):
    def fail():
        with streams.hold_idle():
            streams.submit(0, list)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    streams.synchronize()


def test_an_interrupted_wait_keeps_the_order_of_the_streams(streams, run, monkeypatch):
    opened, log = threading.Event(), []
    stream = streams.stream_create(NON_BLOCKING)

    def work():
        assert opened.wait(LONG)
        log.append("first")

    streams.submit(stream, work)

    def interrupted(tasks):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(streams, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt), streams.hold_idle():
            log.append("never")
    streams.submit(stream, log.append, "second")
    opened.set()
    streams.synchronize()
    assert log == ["first", "second"]


def test_two_threads_take_turns(streams, run):
    inside, log = [0], []

    def hold(number):
        for _ in range(50):
            with streams.hold_idle():
                inside[0] += 1
                log.append(inside[0])
                inside[0] -= 1

    threads = [run(hold, number) for number in range(4)]
    for thread in threads:
        thread.join(LONG)
    assert log == [1] * 200
