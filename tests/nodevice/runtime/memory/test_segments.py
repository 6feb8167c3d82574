"""Segments of a driver's memory: what is given back, and what lies there afterwards."""

import pytest

from haulage.errors import DeviceError
from haulage.runtime.memory.arena import Arena, Segments

MIB = 1 << 20
START = 1 << 40


class Driver:
    """Gives memory at the same address each time, as drivers do that have it back."""

    def __init__(self):
        self.given = {}
        self.fails = False

    def allocate(self, nbytes):
        address = START
        while address in self.given:
            address += 64 * MIB
        self.given[address] = nbytes
        return address, 0

    def release(self, address, host):
        del self.given[address]
        if self.fails:
            raise DeviceError("of a kernel that failed before")


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def arena(driver):
    return Arena(Segments(driver.allocate, driver.release))


def test_a_segment_where_another_one_ended_is_one_again(arena, driver):
    """It was never given back: two parts that touched stayed two."""
    small = arena.allocate(100 << 10)
    end = small + driver.given[small]
    arena.free(small, 100 << 10)
    arena.trim()
    assert not driver.given
    large = arena.allocate(end - small)
    rest = arena.allocate(5 * MIB)
    assert (large, rest) == (small, end)
    arena.free(large, end - small)
    arena.free(rest, 5 * MIB)
    assert arena.trim() == 20 * MIB
    assert not driver.given


def test_segments_that_touch_stay_apart(arena, driver, monkeypatch):
    at = iter(range(START, START + 100 * MIB, 2 * MIB))

    def next_to_it(nbytes):
        address = next(at)
        driver.given[address] = nbytes
        return address, 0

    monkeypatch.setattr(driver, "allocate", next_to_it)
    arena = Arena(Segments(driver.allocate, driver.release))
    blocks = [arena.allocate(MIB) for _ in range(5)]
    for block in blocks:
        arena.free(block, MIB)
    assert arena.trim() == 6 * MIB
    assert not driver.given


def test_a_release_that_fails_is_done_and_not_done_again(arena, driver):
    for size in (MIB, 5 * MIB):
        block = arena.allocate(size)
        arena.free(block, size)
    driver.fails = True
    with pytest.raises(DeviceError, match="failed before"):
        arena.trim()
    driver.fails = False
    arena.trim()
    assert not driver.given
    assert arena.space.reserved == 0
