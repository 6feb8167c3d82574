"""What is given back at once, put aside, deferred, and reported where no call can raise it."""

import gc
import sys

import pytest

from haulage.runtime.process import finalize


@pytest.fixture
def done():
    finalize.drain(deferred=True)
    return []


def test_it_is_given_back_at_once(done):
    finalize.give_back(done.append, 1)
    finalize.give_back_handle(done.append, 2)
    assert done == [1, 2]


def test_later_is_the_next_occasion(done):
    finalize.later(done.append, 1)
    assert (done, finalize.waiting()) == ([], 1)
    finalize.give_back(done.append, 2)
    assert (done, finalize.waiting()) == ([1, 2], 0)


class InCircle:
    def __init__(self, done, *calls):
        self.own, self.done, self.calls = self, done, calls

    def __del__(self):
        for give_back, value in self.calls:
            give_back(self.done.append, value)
        self.done.append((finalize.has_to_wait(), finalize.waiting()))


def test_what_a_collection_finds_waits_and_handles_go_last(done):
    InCircle(done, (finalize.give_back_handle, "stream"), (finalize.give_back, "memory"))
    gc.collect()
    assert done == [(True, 2)]
    assert not finalize.has_to_wait()
    finalize.drain()
    assert done[1:] == ["memory", "stream"]


def test_inside_of_callbacks_of_drivers_nothing_is_given_back(done):
    with finalize.without_driver_calls():
        assert finalize.has_to_wait()
        finalize.give_back(done.append, 1)
        finalize.drain()
        assert done == []
    finalize.drain()
    assert done == [1]


def test_deferring_holds_until_the_outermost_end_or_until_room_is_needed(done):
    with finalize.defer_cleanup():
        with finalize.defer_cleanup():
            finalize.give_back(done.append, 1)
        finalize.drain()
        assert finalize.deferring()
        assert done == []
        finalize.drain(deferred=True)
        assert done == [1]
        finalize.give_back(done.append, 2)
    assert done == [1, 2]
    assert not finalize.deferring()


def test_an_action_that_fails_is_raised_and_the_others_wait(done):
    finalize.later(lambda: 1 / 0)
    finalize.later(done.append, 1)
    with pytest.raises(ZeroDivisionError):
        finalize.drain()
    assert done == []
    finalize.drain()
    assert done == [1]


def test_actions_can_give_back_themselves(done):
    def again():
        finalize.give_back(done.append, "inner")
        done.append("outer")

    finalize.later(again)
    finalize.drain()
    assert done == ["inner", "outer"]


def test_after_a_fork_nothing_of_the_parents_is_given_back(done):
    finalize.later(done.append, 1)
    finalize.forget()
    finalize.drain()
    assert (done, finalize.waiting()) == ([], 0)


def test_what_no_call_can_raise_is_reported_with_a_name(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    finalize.call_unraisable(int, "3", name="a finaliser")
    assert told == []
    finalize.call_unraisable(int, "x", name="a finaliser")
    (one,) = told
    assert one.exc_type is ValueError
    assert repr(one.object) == "a finaliser"
