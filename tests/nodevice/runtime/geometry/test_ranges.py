"""Sets of bytes as runs, against Python's sets."""

from hypothesis import given
from hypothesis import strategies as st

from haulage.runtime.geometry.ranges import Ranges

SIZE = 24
sets = st.frozensets(st.integers(0, SIZE - 1))


def ranges(numbers):
    """By the definition: the longest runs that there are, in order."""
    runs = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number:
            runs[-1] = runs[-1][0], number + 1
        else:
            runs.append((number, number + 1))
    return Ranges(tuple(runs))


@given(sets, sets)
def test_their_operators_are_those_of_sets(a, b):
    one, other = ranges(a), ranges(b)
    assert one | other == ranges(a | b)
    assert one & other == ranges(a & b)
    assert one - other == ranges(a - b)
    assert one.covers(other) == (a >= b)
    assert (one.nbytes, bool(one), list(one)) == (len(a), bool(a), list(one.runs))


@given(st.integers(0, SIZE), st.integers(0, SIZE))
def test_a_run_has_the_bytes_from_its_start_before_its_stop(start, stop):
    assert Ranges.of(start, stop) == ranges(range(start, stop))


@given(sets, sets, st.integers(1, 5))
def test_they_are_joined_by_as_few_bytes_as_can_be(a, allowed, most):
    found = ranges(a).joined(most, ranges(allowed | a))
    added = set().union(*(range(*run) for run in found)) - a
    assert ranges(a | added) == found
    assert added <= allowed
    gaps = [run for run in ranges(set(range(SIZE)) - a) if run[0] and run[1] < SIZE]
    if not a or len(ranges(a).runs) <= most:
        assert not added
        return
    gaps = [run for run in gaps if min(a) < run[0] and run[1] <= max(a)]
    fit = sorted(stop - start for start, stop in gaps if set(range(start, stop)) <= allowed)
    assert len(added) == sum(fit[: len(ranges(a).runs) - most])


@given(sets, st.integers(1, SIZE), st.integers(1, SIZE))
def test_the_blocks_that_bytes_are_in(numbers, size, stop):
    own = {number for number in numbers if number < stop}
    blocks = {number // size for number in own}
    expected = {number for number in range(stop) if number // size in blocks}
    assert ranges(own).blocks(size, stop) == ranges(expected)
