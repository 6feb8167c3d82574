"""Sums of what comes before, in groups and wavefronts of roc: by barriers, by waiting for
wavefronts, and by handing values from lane to lane."""

import numpy as np
import pytest

from haulage import roc

pytestmark = pytest.mark.usefixtures("device")

WAVE = 64


def small_numbers(*shape, dtype=np.int64):
    return np.random.default_rng(sum(shape)).integers(0, 5, shape).astype(dtype)


def before(rows):
    """For each number of each row the sum of those before it."""
    return rows.cumsum(axis=1) - rows


# ---- by barriers of the group -------------------------------------------------------------------


@roc.jit(device=True)
def sum_up_a_tree(room, item):
    """Leave in `room` the sums of what comes before, and give the sum of all; a power of two."""
    step = 1
    while step < room.size:
        roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
        last = 2 * step * (item + 1) - 1
        if last < room.size:
            room[last] += room[last - step]
        step *= 2
    roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
    total = room[room.size - 1]
    roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
    if item == 0:
        room[room.size - 1] = 0
    while step > 1:
        step //= 2
        roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
        last = 2 * step * (item + 1) - 1
        if last < room.size:
            room[last - step], room[last] = room[last], room[last] + room[last - step]
    roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
    return total


def scan_of_groups(items):
    @roc.jit
    def scan(x, totals):
        room = roc.shared.array(items, np.int64)
        item, i = roc.get_local_id(0), roc.get_global_id(0)
        room[item] = x[i]
        total = sum_up_a_tree(room, item)
        x[i] = room[item]
        totals[roc.get_group_id(0), item] = total

    return scan


@pytest.mark.parametrize(("groups", "items"), [(1, 64), (3, 64), (3, 128)])
def test_each_group_sums_what_comes_before(groups, items):
    x = small_numbers(groups, items)
    got, totals = x.flatten(), np.zeros((groups, items), np.int64)
    scan_of_groups(items)[groups, items](got, totals)
    np.testing.assert_array_equal(got.reshape(x.shape), before(x))
    np.testing.assert_array_equal(totals, np.repeat(x.sum(axis=1), items).reshape(x.shape))


# ---- by waiting for wavefronts ------------------------------------------------------------------


@roc.jit(device=True)
def sum_in_the_wavefront(room, item):
    """Leave in `room` the sum of each element and those before it in the wavefront."""
    lane = item % WAVE
    step = 1
    while step < WAVE:
        roc.wavebarrier()
        below = room[item - step] if lane >= step else 0
        roc.wavebarrier()
        room[item] += below
        step *= 2
    roc.wavebarrier()


def scan_of_wavefronts(items):
    waves = items // WAVE

    @roc.jit
    def scan(x, totals):
        room = roc.shared.array(items, np.int64)
        ends = roc.shared.array(WAVE, np.int64)
        item, i = roc.get_local_id(0), roc.get_global_id(0)
        wave = item // WAVE
        room[item] = x[i]
        if wave == 0:
            ends[item] = 0
        sum_in_the_wavefront(room, item)
        roc.barrier()
        if item % WAVE == WAVE - 1:
            ends[wave] = room[item]
        roc.barrier()
        # The first wavefront alone.
        if wave == 0:
            sum_in_the_wavefront(ends, item)
        roc.barrier()
        earlier = ends[wave - 1] if wave > 0 else 0
        x[i] = room[item] + earlier - x[i]
        totals[roc.get_group_id(0), item] = ends[waves - 1]

    return scan


@pytest.mark.parametrize(("groups", "items"), [(1, 64), (1, 256), (3, 128)])
def test_wavefronts_sum_and_the_first_one_joins_them(groups, items):
    x = small_numbers(groups, items)
    got, totals = x.flatten(), np.zeros((groups, items), np.int64)
    scan_of_wavefronts(items)[groups, items](got, totals)
    np.testing.assert_array_equal(got.reshape(x.shape), before(x))
    np.testing.assert_array_equal(totals, np.repeat(x.sum(axis=1), items).reshape(x.shape))


# ---- from lane to lane --------------------------------------------------------------------------


@roc.jit(device=True)
def moved(value, lanes):
    """`value` of the lane that is `lanes` below this one, in a ring."""
    return roc.ds_permute((roc.get_local_id(0) + lanes) % WAVE, value)


@roc.jit
def move(x, out, lanes):
    i = roc.get_global_id(0)
    out[i] = moved(x[i], lanes)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_values_go_round_a_wavefront_by_any_number_of_lanes(dtype):
    x = np.linspace(0, 100, WAVE).astype(dtype)
    out = np.zeros_like(x)
    for lanes in range(-WAVE, WAVE + 1):
        move[1, WAVE](x, out, lanes)
        np.testing.assert_array_equal(out, np.roll(x, lanes))


def test_each_wavefront_of_a_group_is_a_ring_of_its_own():
    x = np.arange(2 * WAVE, dtype=np.int32)
    out = np.zeros_like(x)
    move[1, 2 * WAVE](x, out, 1)
    np.testing.assert_array_equal(out.reshape(2, WAVE), np.roll(x.reshape(2, WAVE), 1, axis=1))


@roc.jit
def give_and_ask(x, lanes, given, asked):
    i = roc.get_global_id(0)
    given[i] = roc.ds_permute(lanes[i], x[i])
    asked[i] = roc.ds_bpermute(lanes[i], x[i])


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_values_go_to_the_lanes_that_are_named_and_come_from_them(dtype):
    x = np.random.default_rng(5).random(WAVE).astype(dtype) + np.arange(WAVE, dtype=dtype)
    for seed in range(3):
        lanes = np.random.default_rng(seed).permutation(WAVE)
        given, asked = np.zeros_like(x), np.zeros_like(x)
        give_and_ask[1, WAVE](x, lanes, given, asked)
        np.testing.assert_array_equal(given[lanes], x)
        np.testing.assert_array_equal(asked, x[lanes])


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_a_value_of_one_lane_for_all(dtype):
    x = np.linspace(-1, 100, WAVE).astype(dtype)
    given, asked = np.zeros_like(x), np.zeros_like(x)
    for lane in range(0, WAVE, 9):
        give_and_ask[1, WAVE](x, np.full(WAVE, lane), given, asked)
        np.testing.assert_array_equal(asked, x[lane])


@roc.jit(device=True)
def sum_by_handing_on(value):
    """The sum of the `value`s of this lane and those below it."""
    lane = roc.get_local_id(0) % WAVE
    step = 1
    while step < WAVE:
        below = moved(value, step)
        if lane >= step:
            value = np.int32(value + below)
        step *= 2
    return value


@roc.jit
def handed_on(x, out):
    ends = roc.shared.array(2, np.int32)
    item = roc.get_local_id(0)
    total = sum_by_handing_on(x[item])
    if item % WAVE == WAVE - 1:
        ends[item // WAVE] = total
    roc.barrier()
    out[item] = total + (ends[0] if item >= WAVE else 0)


@pytest.mark.parametrize("items", [WAVE, 2 * WAVE])
def test_lanes_sum_what_comes_before_by_handing_on(items):
    x = small_numbers(1, items, dtype=np.int32)[0]
    out = np.zeros_like(x)
    handed_on[1, items](x, out)
    np.testing.assert_array_equal(out, x.cumsum())
