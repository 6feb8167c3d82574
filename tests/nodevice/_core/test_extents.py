"""Free ranges: what is put in and taken out, against sets of numbers."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulage._core.extents import Extents

MOST = 60
STEPS = st.lists(
    st.tuples(st.sampled_from("atcm"), st.integers(0, MOST - 1), st.integers(1, 12)), max_size=80
)


def runs(numbers, walls):
    """Those that follow each other, as (first, how many), cut at the walls."""
    found = []
    for number in sorted(numbers):
        if found and sum(found[-1]) == number and number not in walls:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found


@given(steps=STEPS, walls=st.sets(st.integers(0, MOST), max_size=4))
def test_ranges_are_those_of_a_set_of_numbers(steps, walls):
    ranges, other, model, there = Extents(walls), Extents(walls), set(), set()
    for what, start, size in steps:
        if what == "a":
            wanted = set(range(start, start + size))
            # Memory is given back in pieces that were given, which no wall cuts.
            if not wanted & (model | there) and not walls & set(range(start + 1, start + size)):
                ranges.add(start, size)
                model |= wanted
        elif what == "t":
            fitting = [(n, at) for at, n in runs(model, walls) if n >= size]
            taken = ranges.take(size)
            assert taken == (min(fitting)[1] if fitting else None)
            model -= set() if taken is None else set(range(taken, taken + size))
        elif what == "c":
            held = [
                (at, n) for at, n in runs(model, walls) if at <= start and start + size <= at + n
            ]
            if held:
                ranges.cut(start, size, held[0][0])
                model -= set(range(start, start + size))
            elif all(at != start for at, _ in runs(model, walls)):
                with pytest.raises(KeyError):
                    ranges.cut(start, size)
        else:
            ranges.move_to(other)
            model, there = set(), there | model
        expected = runs(model, walls)
        assert list(ranges) == expected
        assert (len(ranges), ranges.nbytes) == (len(expected), len(model))
        assert ranges.largest == max((n for _, n in expected), default=0)
        for end in {at + n for at, n in expected} | {start}:
            before = [n for at, n in expected if at + n == end]
            assert ranges.ending_at(end, across=True) == sum(before)
            assert ranges.ending_at(end) == (0 if end in walls else sum(before))
    assert list(other) == runs(there, walls)


def test_many_ranges_are_kept_in_order():
    ranges = Extents()
    for number in range(5000):
        ranges.add((number * 7919 % 5000) * 10, 1 + number % 9)
    assert len(ranges) == 5000
    assert all(start + size <= after for (start, size), (after, _) in pairwise(ranges))
    sizes = []
    while (address := ranges.take(4)) is not None:
        sizes.append(address)
    assert ranges.largest < 4
    assert len(set(sizes)) == len(sizes)
