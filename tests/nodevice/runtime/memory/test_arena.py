"""The arena below the pools of memory: any sequence of blocks, over pages and over segments."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles.interrupts import at_each_place
from haulage.errors import OutOfMemory
from haulage.runtime.memory.arena import QUANTUM, Arena, Segments, Virtual

PAGE = 1 << 21
MIB = 1 << 20


class Driver:
    """Memory that is counted page by page, as a driver with `room` bytes gives it."""

    def __init__(self, room: int = 1 << 50) -> None:
        self.room = room
        self.held: dict[int, int] = {}  # address -> bytes, of pages or of segments
        self._next = 1 << 40
        self.ranges: dict[int, int] = {}
        self.most: int | None = None

    @property
    def nbytes(self) -> int:
        return sum(self.held.values())

    def reserve(self, nbytes: int) -> int:
        address, self._next = self._next, self._next + nbytes
        self.ranges[address] = nbytes
        if self.most is not None and sum(self.ranges.values()) > self.most:
            del self.ranges[address]
            raise OutOfMemory(f"{nbytes} addresses asked")
        return address

    def map(self, address: int, nbytes: int) -> None:
        self._check(nbytes)
        assert address % PAGE == nbytes % PAGE == 0
        for page in range(address, address + nbytes, PAGE):
            assert page not in self.held, "mapped twice"
            self.held[page] = PAGE

    def unmap(self, address: int, nbytes: int) -> None:
        for page in range(address, address + nbytes, PAGE):
            del self.held[page]

    def allocate(self, nbytes: int) -> tuple[int, int]:
        self._check(nbytes)
        address = self.reserve(nbytes)
        del self.ranges[address]
        self.held[address] = nbytes
        return address, address

    def release(self, address: int, host_or_bytes: int) -> None:
        """Give a segment back, or the addresses of a range or its end, without memory."""
        for start, size in self.ranges.items():
            if start <= address < start + size:
                assert address + host_or_bytes == start + size
                assert not any(address <= page < start + size for page in self.held)
                self.ranges[start] = address - start
                break
        else:
            del self.held[address]

    def limit(self) -> int | None:
        """How many addresses there may be."""
        return self.most

    def has(self, address: int, nbytes: int) -> bool:
        """Whether there is memory behind all of the bytes."""
        covered = 0
        for start, size in self.held.items():
            covered += max(0, min(start + size, address + nbytes) - max(start, address))
        return covered == nbytes

    def _check(self, nbytes: int) -> None:
        if self.nbytes + nbytes > self.room:
            raise OutOfMemory(f"{nbytes} bytes asked, {self.room - self.nbytes} free")


def virtual(driver: Driver) -> Arena:
    return Arena(Virtual(driver, PAGE, 64 * MIB, False))


def segments(driver: Driver) -> Arena:
    return Arena(Segments(driver.allocate, driver.release))


both = pytest.mark.parametrize("make", [virtual, segments])
SIZES = st.one_of(st.integers(1, 64), st.integers(1, 10_000)).map(lambda n: n * QUANTUM)
STEPS = st.lists(st.tuples(st.sampled_from("aaffft"), SIZES, st.integers(0, 1 << 20)), max_size=60)


def replay(
    arena: Arena, steps: list[tuple[str, int, int]], look: Callable[[dict[int, int]], Any]
) -> dict[int, int]:
    """Allocate, free and trim as the steps say; `look` is shown the live blocks after each."""
    live: dict[int, int] = {}
    for what, nbytes, which in steps:
        if what == "a":
            address = arena.allocate(nbytes)
            assert address not in live
            live[address] = nbytes
        elif what == "t":
            arena.trim(nbytes)
        elif live:
            address = sorted(live)[which % len(live)]
            arena.free(address, live.pop(address))
        look(live)
    return live


@both
@settings(deadline=None)
@given(steps=STEPS)
def test_blocks_never_overlap_are_aligned_and_have_memory(
    make: Callable[[Driver], Arena], steps: list[tuple[str, int, int]]
) -> None:
    driver = Driver()
    arena = make(driver)

    def look(live: dict[int, int]) -> None:
        both = sorted([*live.items(), *arena.free_extents])
        assert all(start + size <= after for (start, size), (after, _) in pairwise(both))
        assert all(
            address % QUANTUM == 0 and driver.has(address, live[address]) for address in live
        )
        assert arena.reserved == driver.nbytes == sum(live.values()) + arena.free_bytes
        assert sum(size for _, size in arena.space.ranges()) == arena.reserved

    replay(arena, steps, look)


@both
@settings(deadline=None)
@given(steps=STEPS)
def test_all_that_is_freed_becomes_whole_again_and_goes_back(
    make: Callable[[Driver], Arena], steps: list[tuple[str, int, int]]
) -> None:
    driver = Driver()
    arena = make(driver)
    for address, nbytes in replay(arena, steps, lambda live: None).items():
        arena.free(address, nbytes)
    # One extent for each run of memory: none of them touch within a range or a segment.
    assert list(arena.free_extents) == arena.space.ranges()
    held = arena.reserved
    assert arena.trim() == held
    assert driver.nbytes == arena.reserved == arena.free_bytes == 0


@both
@settings(deadline=None)
@given(steps=STEPS, nbytes=SIZES)
def test_the_smallest_free_piece_that_fits_is_taken_the_lowest_of_these(
    make: Callable[[Driver], Arena], steps: list[tuple[str, int, int]], nbytes: int
) -> None:
    arena = make(Driver())
    replay(arena, steps, lambda live: None)
    fitting = [(size, address) for address, size in arena.free_extents if size >= nbytes]
    before = arena.reserved
    address = arena.allocate(nbytes)
    if fitting:
        assert address == min(fitting)[1]
        assert arena.reserved == before


@both
@settings(deadline=None)
@given(steps=STEPS, enough=SIZES)
def test_trim_gives_what_it_says_and_never_what_is_in_use(
    make: Callable[[Driver], Arena], steps: list[tuple[str, int, int]], enough: int
) -> None:
    driver = Driver()
    arena = make(driver)
    live = replay(arena, steps, lambda live: None)
    before = driver.nbytes
    given_back = arena.trim(enough)
    assert before - driver.nbytes == given_back
    assert all(driver.has(address, nbytes) for address, nbytes in live.items())


@both
@settings(deadline=None)
@given(steps=STEPS, room=st.integers(1, 60))
def test_where_the_device_has_no_room_nothing_changes(
    make: Callable[[Driver], Arena], steps: list[tuple[str, int, int]], room: int
) -> None:
    driver = Driver(room * PAGE)
    arena = make(driver)
    live: dict[int, int] = {}
    for what, nbytes, which in steps:
        if what == "a":
            try:
                live[arena.allocate(nbytes)] = nbytes
            except OutOfMemory:
                assert arena.largest_free < nbytes
        elif live:
            address = sorted(live)[which % len(live)]
            arena.free(address, live.pop(address))
        assert arena.reserved == driver.nbytes == sum(live.values()) + arena.free_bytes
        assert all(driver.has(address, size) for address, size in live.items())


def test_free_memory_at_the_end_counts_for_a_larger_block() -> None:
    driver = Driver()
    arena = virtual(driver)
    arena.allocate(PAGE)
    last = arena.allocate(PAGE)
    arena.free(last, PAGE)
    assert arena.allocate(3 * PAGE) == last
    assert driver.nbytes == 4 * PAGE


@both
def test_blocks_that_grow_do_not_pile_up_what_the_smaller_ones_had(
    make: Callable[[Driver], Arena],
) -> None:
    arena = make(Driver())
    size, before = 12 * MIB, []
    for _ in range(24):
        # Of the last batch some live on, so that it leaves holes.
        blocks = [(arena.allocate(size), size) for _ in range(20)]
        in_use = arena.reserved - arena.free_bytes
        assert arena.reserved <= 1.5 * in_use
        for block in before + blocks[::2]:
            arena.free(*block)
        before = blocks[1::2]
        size = (size + size // 8) // QUANTUM * QUANTUM


def test_where_addresses_are_limited_few_are_reserved_and_those_without_memory_go_back() -> None:
    driver = Driver()
    driver.most = 1 << 30
    arena = virtual(driver)
    taken = [(arena.allocate(nbytes), nbytes) for nbytes in (40 * MIB, MIB, 100 * MIB, 3 * MIB)]
    assert sum(driver.ranges.values()) <= 200 * MIB
    for address, nbytes in taken:
        assert driver.has(address, nbytes)
    for address, nbytes in taken[1:]:
        arena.free(address, nbytes)
    arena.trim()
    assert sum(driver.ranges.values()) < 100 * MIB
    assert driver.has(*taken[0])
    arena.free(*taken[0])
    arena.trim()
    assert (sum(driver.ranges.values()), driver.nbytes, arena.reserved) == (0, 0, 0)
    again = arena.allocate(30 * MIB)
    arena.repair()
    assert driver.has(again, 30 * MIB)
    assert arena.reserved == driver.nbytes


def test_addresses_go_back_before_there_are_none_for_a_block() -> None:
    driver = Driver()
    driver.most = 1 << 30
    arena = virtual(driver)
    for _ in range(5):
        address = arena.allocate(700 * MIB)
        arena.free(address, 700 * MIB)
        arena.trim()
        other = arena.allocate(900 * MIB)
        arena.free(other, 900 * MIB)
        arena.trim()
    assert driver.nbytes == 0


def test_an_interrupt_loses_no_more_than_what_was_asked():
    driver, much = Driver(), 64 << 30
    arena = Arena(Virtual(driver, PAGE, much, False))

    def work() -> None:
        first, second = arena.allocate(3 * PAGE), arena.allocate(QUANTUM)
        arena.free(first, 3 * PAGE)
        arena.trim(PAGE)
        arena.free(second, QUANTUM)
        arena.trim()

    places = 0
    for places in at_each_place(work, {"haulage.runtime.memory.arena"}):
        arena.repair()
        assert arena.reserved - arena.free_bytes <= (places + 1) * 4 * PAGE
        assert list(driver.ranges.values()) == [much]
    assert places > 30
