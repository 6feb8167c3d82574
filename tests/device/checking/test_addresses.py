"""Accesses of what is no memory, as `haulage check` finds them."""

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.checking.session import Session
from haulage.errors import IllegalAddress

FAR = -(1 << 40)


@cuda.jit
def scatter(target, places):
    at = cuda.grid(1)
    target[places[at]] = 1


def found(checks, places):
    session = Session(checks)
    session.begin()
    try:
        scatter[2, 2](np.zeros(4), np.array(places))
        line = line_before()
        cuda.synchronize()
    finally:
        session.end()
    return list(session.findings), line


def line_before():
    """The line before that of the call."""
    import sys

    return sys._getframe(1).f_lineno - 1


def test_an_access_outside_of_all_memory_is_found_at_its_line():
    (finding,), _ = found(["race", "memory"], [0, 1, 2, FAR])
    assert finding.kind == "address"
    assert finding.access.place.line == scatter.py_func.__code__.co_firstlineno + 3
    assert (finding.access.kernel, finding.access.block) == ("scatter", (1, 0, 0))
    assert finding.access.thread == (1, 0, 0)


def test_where_accesses_are_not_told_of_it_is_the_line_of_the_launch():
    (finding,), line = found(["memory"], [0, 1, 2, FAR])
    assert (finding.kind, finding.access.what) == ("address", "launch")
    assert finding.access.place.line == line


def test_with_the_check_of_indices_it_is_one_out_of_bounds():
    (finding,), _ = found(["bounds", "race", "memory"], [0, 1, 2, FAR])
    assert (finding.kind, finding.array) == ("bounds", "target")


def test_who_does_not_ask_for_it_gets_the_error():
    with pytest.raises(IllegalAddress):
        found(["race"], [0, 1, 2, FAR])
    assert found(["race", "memory"], [0, 1, 2, 3])[0] == []


def test_the_program_goes_on():
    with haulage.check(only=["race", "memory"], raises=False) as result:
        scatter[1, 1](np.zeros(4), np.array([FAR]))
        after = np.zeros(4)
        scatter[1, 4](after, np.arange(4))
        cuda.synchronize()
    assert [each.kind for each in result] == ["address"]
    assert after.sum() == 4
    assert "no memory" in str(result)


def test_an_index_out_of_bounds_says_which_element_and_who_allocated_the_array():
    with haulage.check(only="bounds", raises=False) as result:
        target = cuda.to_device(np.zeros(4))
        scatter[1, 4](target, np.array([0, 1, 9, 2]))
    (finding,) = result
    assert (finding.index, finding.element) == ((9,), "target[9]")
    assert finding.allocated.line == line_before() - 3
