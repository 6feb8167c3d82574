"""Accesses of what is no memory, as `haulage check` finds them."""

from unittest.mock import ANY

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


@cuda.jit
def copy(x, out, others):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]  # here


def unaligned(checks, x, out, others):
    """What is found of a copy, and the line of the access."""
    with haulage.check(only=checks, raises=False) as result:
        copy[1, 4](x, out, others)
    return list(result), copy.py_func.__code__.co_firstlineno + 4


def test_elements_that_are_not_aligned(device):
    room = cuda.to_device(np.zeros(40, np.uint8))
    whole, odd = room[8:24].view(np.float32), room[9:25].view(np.float32)
    assert unaligned("race,memory", whole, np.zeros(4), whole) == ([], ANY)
    # Nobody accesses it.
    assert unaligned("race,memory", whole, np.zeros(4), odd) == ([], ANY)
    (finding,), line = unaligned("race,memory", odd, np.zeros(4), odd)
    assert (finding.kind, finding.element, finding.access.place.line) == ("address", "x[0]", line)
    assert (finding.access.kernel, finding.access.what) == ("copy", "read")
    assert finding.message.startswith("x[0] lies at no multiple of 4 bytes, which float32 needs")


def test_steps_that_are_no_multiple_of_the_alignment(device):
    records = cuda.to_device(np.zeros(4, [("a", "f8"), ("b", "i1"), ("c", "i1")]))
    (finding,), line = unaligned("race,memory", records["a"], np.zeros(4), np.zeros(1))
    assert (finding.element, finding.access.place.line) == ("x[1]", line)
    # Fields of one byte may lie anywhere, and packed records as a whole.
    assert unaligned("race,memory", records["b"], np.zeros(4), np.zeros(1)) == ([], ANY)


def test_elements_that_are_not_aligned_where_only_memory_is_checked(device):
    odd = cuda.to_device(np.zeros(40, np.uint8))[1:33].view(np.float64)
    found, _ = unaligned("memory", odd, np.zeros(4), np.zeros(1))
    (finding,) = found
    assert (finding.access.what, finding.access.place.file) == ("launch", __file__)
