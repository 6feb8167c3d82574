"""The `Runtime`: enclosing devices, watchers, subscriptions, and the order of what it calls."""

import threading

import pytest

from haulage.runtime.process.runtime import AfterWait, Runtime


@pytest.fixture
def made():
    return Runtime()


def test_devices_are_entered_and_left_in_the_order_of_blocks(made):
    first, second = object(), object()
    made.enter(first)
    made.enter(second)
    assert made.entered.get() is second
    made.leave()
    assert made.entered.get() is first
    made.leave()
    assert made.entered.get() is None
    with pytest.raises(RuntimeError, match="push it first"):
        made.leave()


def test_what_a_thread_enters_is_its_own(made):
    here, seen = object(), []
    made.enter(here)
    thread = threading.Thread(target=lambda: seen.append(made.entered.get()))
    thread.start()
    thread.join()
    assert seen == [None]
    assert made.entered.get() is here
    assert Runtime().entered.get() is None


def test_a_device_has_one_context(made):
    made.new_context = lambda device: [device]
    assert made.context_of("a") is made.context_of("a")
    assert made.context_of("b") is not made.context_of("a")


def test_a_watcher_is_told_as_long_as_it_wants(made):
    one, two = object(), object()
    made.watch(one)
    made.watch(two)
    assert made.watchers == (one, two)
    made.unwatch(one)
    made.unwatch(one)
    assert made.watchers == (two,)


def test_what_subscribes_when_it_is_needed_does_so_once(made):
    def subscribe(which):
        which.after_wait.append(AfterWait(lambda *given: heard.append(given), ([1],)))

    heard = []
    made.once(subscribe)
    made.once(subscribe)
    made.waited("device")
    made.waited("device", "stream")
    assert heard == [("device", None), ("device", "stream")]


def test_who_subscribes_while_it_is_called_is_called_the_next_time(made):
    heard = []

    def first(device, stream):
        heard.append(1)
        made.after_wait.append(AfterWait(lambda device, stream: heard.append(2), ([1],)))

    made.after_wait.append(AfterWait(first, ([1],)))
    made.waited("device")
    assert heard == [1]
    made.waited("device")
    assert heard == [1, 1, 2]


def test_exits_and_forks_come_in_the_order_of_the_lists(made):
    heard = []
    for number in range(3):
        made.at_exit.append(lambda number=number: heard.append(("exit", number)))
        made.in_child.append(lambda number=number: heard.append(("child", number)))
    made.exit()
    made.forked()
    assert heard == [(what, number) for what in ("exit", "child") for number in range(3)]
