"""Words of warps: shuffles, votes, matches, waiting for lanes; 32 lanes in cuda, 64 in roc."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import haulage
from haulage import cuda, roc
from haulage.errors import BarrierError, CompileError

pytestmark = [pytest.mark.ptx, pytest.mark.ptx_always]

FULL = 0xFFFFFFFF
VALUES = [np.int32, np.int64, np.uint32, np.uint64, np.float32, np.float64]


@pytest.fixture(params=["auto", "coroutines"])
def any_way(request, monkeypatch):
    """Run the test as Haulage chooses, and again with every thread a coroutine."""
    monkeypatch.setenv("HAULAGE_CPU_THREADS", request.param)
    return request.param


def way_taken(kernel, signature, block=64):
    return haulage.compile(kernel, signature, block=block).metadata["strategy"]


def numbers(dtype, count=96, seed=0):
    random = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.floating):
        return random.normal(size=count).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, count, dtype)


def by_warps(x, pick):
    """What each of 32 lanes gets if lane `i` takes the value of lane `pick(i)`."""
    lanes = np.arange(len(x))
    return x[lanes // 32 * 32 + np.array([pick(int(lane)) for lane in lanes % 32])]


# ---- who am I -------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [(100,), (8, 6), (4, 3, 5)])
def test_lanes_follow_the_order_of_threads(device, way, block):
    @cuda.jit
    def lanes(out):
        x, y, z = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        thread = x + cuda.blockDim.x * (y + cuda.blockDim.y * z)
        out[thread, 0] = cuda.laneid
        out[thread, 1] = cuda.warpsize
        out[thread, 2] = cuda.lanemask_lt()

    threads = math.prod(block)
    out = cuda.device_array((threads, 3), np.int64)
    lanes[1, block](out)
    numbers = np.arange(threads) % 32
    expected = np.stack([numbers, np.full(threads, 32), 2**numbers - 1], axis=1)
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_the_size_of_a_warp_is_that_of_the_kernels_vocabulary(device, way):
    @cuda.jit(device=True)
    def number():
        return cuda.laneid + 100 * cuda.warpsize

    def body(out):
        out[cuda.grid(1)] = number()

    of_cuda, of_roc = cuda.device_array(100, np.int64), roc.device_array(100, np.int64)
    cuda.jit(body)[1, 100](of_cuda)
    roc.jit(body)[1, 100](of_roc)
    np.testing.assert_array_equal(of_cuda.copy_to_host(), np.arange(100) % 32 + 3200)
    np.testing.assert_array_equal(of_roc.copy_to_host(), np.arange(100) % 64 + 6400)


def test_laneid_and_warpsize_are_int32():
    @cuda.jit
    def kinds(out):
        out[0] = cuda.laneid
        out[1] = cuda.warpsize

    text = haulage.compile(kinds, "void(int32[::1])").stages["clean"]
    assert "sext" not in text


# ---- shuffles -------------------------------------------------------------------------------


@cuda.jit
def shuffled(x, number, out):
    i = cuda.grid(1)
    out[0, i] = cuda.shfl_sync(FULL, x[i], number)
    out[1, i] = cuda.shfl_up_sync(FULL, x[i], number)
    out[2, i] = cuda.shfl_down_sync(FULL, x[i], number)
    out[3, i] = cuda.shfl_xor_sync(FULL, x[i], number)


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("number", [0, 1, 5, 16, 31])
def test_shuffles_of_every_type(device, way, dtype, number):
    x = numbers(dtype)
    out = cuda.device_array((4, 96), dtype)
    shuffled[1, 96](cuda.to_device(x), number, out)
    expected = [
        by_warps(x, lambda lane: number),
        by_warps(x, lambda lane: lane - number if lane >= number else lane),
        by_warps(x, lambda lane: lane + number if lane + number < 32 else lane),
        by_warps(x, lambda lane: lane ^ number),
    ]
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@pytest.mark.parametrize("number", [32, 37, -1, 1 << 40])
def test_the_low_five_bits_of_a_lane_count(device, way, number):
    x = numbers(np.int64)
    out, expected = (cuda.device_array((4, 96), np.int64) for _ in range(2))
    shuffled[1, 96](cuda.to_device(x), number, out)
    shuffled[1, 96](cuda.to_device(x), number % 32, expected)
    np.testing.assert_array_equal(out.copy_to_host(), expected.copy_to_host())


def test_each_lane_may_name_another(device, way):
    @cuda.jit
    def permuted(x, lanes, out):
        i = cuda.grid(1)
        out[i] = cuda.shfl_sync(mask=FULL, value=x[i], src_lane=lanes[i])

    x, lanes = numbers(np.float64), np.random.default_rng(3).permutation(96) % 32
    out = cuda.device_array(96)
    permuted[1, 96](cuda.to_device(x), cuda.to_device(lanes), out)
    np.testing.assert_array_equal(out.copy_to_host(), x[np.arange(96) // 32 * 32 + lanes])


@pytest.mark.parametrize(("dtype", "kind"), [(np.int8, "i4"), (np.uint16, "i4"), (np.bool_, "i4")])
def test_smaller_ints_are_shuffled_as_int32(device, way, dtype, kind):
    @cuda.jit
    def up(x, out):
        i = cuda.grid(1)
        out[i] = cuda.shfl_up_sync(FULL, x[i], 1) * 1000

    x = np.arange(32).astype(dtype)
    out = cuda.device_array(32, np.int64)
    up[1, 32](cuda.to_device(x), out)
    expected = x[[0, *range(31)]].astype(kind).astype(np.int64) * 1000
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit(device=True)
def sum_of_warp(value):
    step = cuda.warpsize // 2
    while step > 0:
        value += cuda.shfl_down_sync(FULL, value, step)
        step //= 2
    return value


@cuda.jit
def sums(x, out):
    parts = cuda.shared.array(32, np.float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    value = x[i] if i < x.size else 0.0
    value = sum_of_warp(value)
    if cuda.laneid == 0:
        parts[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = parts[t] if t < cuda.blockDim.x // 32 else 0.0
        value = sum_of_warp(value)
        if t == 0:
            cuda.atomic.add(out, 0, value)


@pytest.mark.parametrize("block", [32, 128, 1024])
def test_the_sum_of_a_block_by_shuffles(device, any_way, block):
    x = np.random.default_rng(1).integers(0, 1000, 5000).astype(np.float64)
    out = cuda.to_device(np.zeros(1))
    sums[-(-5000 // block), block](cuda.to_device(x), out)
    assert out.copy_to_host()[0] == x.sum()


def test_words_that_all_threads_reach_are_cut():
    assert way_taken(shuffled, "void(float64[::1], int64, float64[:, ::1])") == "regions"
    assert way_taken(votes, "void(int64[::1], int64[:, ::1])") == "regions"
    assert way_taken(matches, "void(int64[::1], int64[:, ::1])") == "regions"
    assert way_taken(sums, "void(float64[::1], float64[::1])", 128) == "regions"


def test_the_room_of_warps_is_no_shared_memory_of_the_kernel():
    metadata = haulage.compile(sums, "void(float64[::1], float64[::1])", block=128).metadata
    assert metadata["shared_bytes"] == 256


def test_a_prefix_sum_by_shuffles(device, way):
    @cuda.jit
    def scan(x, out):
        i = cuda.grid(1)
        value = x[i]
        for k in range(5):
            other = cuda.shfl_up_sync(FULL, value, 1 << k)
            if cuda.laneid >= 1 << k:
                value += other
        out[i] = value

    x = numbers(np.int32, 128)
    out = cuda.device_array(128, np.int32)
    scan[2, 64](cuda.to_device(x), out)
    expected = np.cumsum(x.reshape(4, 32), axis=1, dtype=np.int32).ravel()
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_half_a_warp_shuffles_while_the_others_wait_for_the_block(device, any_way):
    @cuda.jit
    def half(x, out):
        t = cuda.threadIdx.x
        value = x[t]
        if cuda.laneid < 16:
            for step in (8, 4, 2, 1):
                value += cuda.shfl_down_sync(0xFFFF, value, step)
        cuda.syncthreads()
        out[t] = value

    x = np.arange(64)
    out = cuda.device_array(64, np.int64)
    half[1, 64](cuda.to_device(x), out)
    result = out.copy_to_host()
    assert [result[0], result[32]] == [x[:16].sum(), x[32:48].sum()]
    np.testing.assert_array_equal(result[[*range(16, 32), *range(48, 64)]], x[x % 32 >= 16])


def test_exchanges_of_different_widths_at_one_time(device, any_way):
    """Lanes of one warp that went different ways do not write over each other's values."""

    @cuda.jit
    def widths(x, y, out):
        t = cuda.threadIdx.x
        if t % 2:
            out[t] = cuda.shfl_xor_sync(0xAAAAAAAA, x[t], 2)
        else:
            out[t] = cuda.shfl_xor_sync(0x55555555, y[t], 2)

    x, y = numbers(np.int64, 64), numbers(np.int32, 64)
    out = cuda.device_array(64, np.int64)
    widths[1, 64](cuda.to_device(x), cuda.to_device(y), out)
    t = np.arange(64)
    np.testing.assert_array_equal(out.copy_to_host(), np.where(t % 2, x[t ^ 2], y[t ^ 2]))


def test_both_halves_shuffle_by_themselves(device, any_way):
    """A different number of times each, at different words."""

    @cuda.jit
    def halves(x, out):
        t = cuda.threadIdx.x
        value = x[t]
        if cuda.laneid < 16:
            for _ in range(3):
                value = cuda.shfl_xor_sync(0x0000FFFF, value, 1) + 1
        else:
            for _ in range(t // 32 + 1):
                value = cuda.shfl_xor_sync(0xFFFF0000, value, 15) * 2
        out[t] = value

    x = numbers(np.int32, 96).astype(np.int64)
    expected = x.copy()
    for warp in range(3):
        low, high = expected[32 * warp : 32 * warp + 16], expected[32 * warp + 16 : 32 * warp + 32]
        for _ in range(3):
            low[:] = low[np.arange(16) ^ 1] + 1
        for _ in range(warp + 1):
            high[:] = high[::-1] * 2
    out = cuda.device_array(96, np.int64)
    halves[1, 96](cuda.to_device(x), out)
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    block=st.integers(1, 100),
    chosen=st.integers(0, FULL),
    seed=st.integers(0, 99),
)
def test_lanes_that_were_voted_for_go_on_together(device, block, chosen, seed):
    """Every warp's chosen lanes go round their values; the rest goes another way, or ends."""
    x = numbers(np.int64, block, seed)
    out = cuda.to_device(np.full(block, -1))
    rotated[1, block](cuda.to_device(x), chosen, out)
    expected = np.full(block, -1)
    for first in range(0, block, 32):
        lanes = [i for i in range(first, min(first + 32, block)) if chosen >> i % 32 & 1]
        expected[lanes] = x[np.roll(lanes, -1)] if lanes else []
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit
def rotated(x, chosen, out):
    i = cuda.grid(1)
    lane = cuda.laneid
    is_chosen = (chosen >> lane) & 1 != 0
    mask = cuda.ballot_sync(FULL, is_chosen)
    if is_chosen:
        following = lane
        for k in range(1, 33):
            if following == lane and (mask >> ((lane + k) % 32)) & 1:
                following = (lane + k) % 32
                if following == lane:
                    break
        out[i] = cuda.shfl_sync(mask, x[i], following)


# ---- votes ----------------------------------------------------------------------------------


@cuda.jit
def votes(x, out):
    i = cuda.grid(1)
    out[0, i] = cuda.all_sync(FULL, x[i])
    out[1, i] = cuda.any_sync(FULL, x[i])
    out[2, i] = cuda.eq_sync(FULL, x[i])
    out[3, i] = cuda.ballot_sync(FULL, x[i])


@pytest.mark.parametrize("dtype", [*VALUES, np.bool_, np.int8])
@pytest.mark.parametrize("threads", [1, 32, 45, 96])
def test_votes(device, way, dtype, threads):
    for x in (
        np.zeros(threads, dtype),
        np.ones(threads, dtype),
        np.arange(threads) % 3 == 1,
        np.arange(threads) < threads - 1,
        np.arange(threads) >= 32,
    ):
        x = x.astype(dtype)
        if dtype in (np.float32, np.float64):
            x = x / 4
        out = cuda.device_array((4, threads), np.int64)
        votes[1, threads](cuda.to_device(x), out)
        expected = np.empty((4, threads), np.int64)
        for first in range(0, threads, 32):
            warp = x[first : first + 32].astype(bool)
            ballot = sum(1 << lane for lane, vote in enumerate(warp) if vote)
            ballot -= (ballot >> 31) << 32
            equal = warp.all() or not warp.any()
            columns = slice(first, first + 32)
            expected[:, columns] = np.array([[warp.all(), warp.any(), equal, ballot]]).T
        np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit
def votes_with_a_bound(x, limit, out):
    i = cuda.grid(1)
    out[i] = cuda.ballot_sync(FULL, i < x.size and x[i] > limit)


def test_a_vote_on_two_conditions(device, way):
    x, out = cuda.to_device(np.arange(40)), cuda.device_array(64, np.int64)
    votes_with_a_bound[1, 64](x, 30, out)
    assert [*out.copy_to_host()] == [*[-(1 << 31)] * 32, *[0xFF] * 32]


def test_votes_of_the_lanes_in_a_mask(device, any_way):
    @cuda.jit
    def masked(x, out):
        t = cuda.threadIdx.x
        if t % 2:
            out[t, 0] = cuda.ballot_sync(0xAAAAAAAA, x[t])
            out[t, 1] = cuda.all_sync(0xAAAAAAAA, t % 2)
        else:
            out[t, 0] = cuda.ballot_sync(0x55555555, x[t])
            out[t, 1] = cuda.all_sync(0x55555555, t % 2)
        cuda.syncthreads()

    x = np.random.default_rng(2).integers(0, 2, 64)
    out = cuda.device_array((64, 2), np.int64)
    masked[1, 64](cuda.to_device(x), out)
    bits = x.reshape(2, 32) << np.arange(32)
    expected = np.empty((2, 32, 2), np.int64)
    for odd in (0, 1):
        ballots = bits[:, odd::2].sum(axis=1).astype(np.uint32).astype(np.int32)
        expected[:, odd::2, 0] = ballots[:, None]
        expected[:, odd::2, 1] = odd
    np.testing.assert_array_equal(out.copy_to_host(), expected.reshape(64, 2))


@cuda.jit
def without_the_ended(n, out):
    i = cuda.grid(1)
    if i >= n:
        return
    out[i, 0] = cuda.ballot_sync(FULL, True)
    out[i, 1] = cuda.all_sync(FULL, i < n)


@pytest.mark.parametrize("n", [0, 1, 20, 32, 50, 64])
def test_lanes_that_have_ended_have_no_vote(device, any_way, n):
    out = cuda.to_device(np.full((64, 2), -1))
    without_the_ended[1, 64](n, out)
    expected = np.full((64, 2), -1)
    for first in (0, 32):
        there = min(max(n - first, 0), 32)
        expected[first : first + there, 0] = np.uint32(2**there - 1).astype(np.int32)
        expected[first : first + there, 1] = 1
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_lanes_may_end_one_by_one_between_votes(device, any_way):
    @cuda.jit
    def rounds(out):
        i = cuda.grid(1)
        for k in range(64):
            out[k, i] = cuda.ballot_sync(FULL, True)
            if cuda.laneid <= k:
                return

    out = cuda.to_device(np.zeros((64, 32), np.int64))
    rounds[1, 32](out)
    expected = np.zeros((64, 32), np.int64)
    for k in range(32):
        expected[k, k:] = np.uint32(FULL >> k << k & FULL).astype(np.int32)
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_a_loop_until_a_warp_agrees(device, any_way):
    @cuda.jit
    def until(x, out):
        i = cuda.grid(1)
        value, turns = x[i], 0
        while cuda.any_sync(FULL, value > 0):
            value -= 1
            turns += 1
        out[i] = turns

    x = np.random.default_rng(4).integers(0, 40, 128)
    out = cuda.device_array(128, np.int64)
    until[2, 64](cuda.to_device(x), out)
    expected = np.repeat(x.reshape(4, 32).max(axis=1), 32)
    np.testing.assert_array_equal(out.copy_to_host(), expected)


# ---- matches --------------------------------------------------------------------------------


@cuda.jit
def matches(x, out):
    i = cuda.grid(1)
    out[0, i] = cuda.match_any_sync(FULL, x[i])
    out[1, i], out[2, i] = cuda.match_all_sync(FULL, x[i])


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("threads", [1, 10, 32, 80])
@pytest.mark.parametrize("different", [1, 2, 7])
def test_matches(device, way, dtype, threads, different):
    x = numbers(dtype, different)[np.random.default_rng(5).integers(0, different, threads)]
    x[: threads // 32 * 16] = x[0]
    out = cuda.device_array((3, threads), np.int64)
    matches[1, threads](cuda.to_device(x), out)
    expected = np.empty((3, threads), np.int64)
    for i in range(threads):
        warp = x[i // 32 * 32 : i // 32 * 32 + 32]
        lanes = np.flatnonzero(warp == x[i])
        alike = np.uint32(sum(1 << int(lane) for lane in lanes)).astype(np.int32)
        every = len(lanes) == len(warp)
        expected[:, i] = [alike, alike if every else 0, every]
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_floats_match_by_their_bits(device, way):
    x = np.zeros(32)
    x[1:3] = np.nan
    x[3:8] = -0.0
    out = cuda.device_array((3, 32), np.int64)
    matches[1, 32](cuda.to_device(x), out)
    alike = out.copy_to_host()[0].astype(np.uint32)
    assert [alike[n] for n in (0, 1, 3)] == [0xFFFFFF01, 0b110, 0b11111000]


def test_one_value_in_several_matches(device, way):
    @cuda.jit
    def twice(x, out):
        i = cuda.grid(1)
        value = x[i]
        first, _ = cuda.match_all_sync(FULL, value)
        second = cuda.match_any_sync(FULL, value)
        out[i] = first + second

    out = cuda.device_array(64, np.int64)
    twice[1, 64](cuda.to_device(np.arange(64)), out)
    expected = np.tile([*(2 ** np.arange(31)), -(2**31)], 2)
    np.testing.assert_array_equal(out.copy_to_host(), expected)


# ---- who is here ----------------------------------------------------------------------------


def test_the_active_lanes_of_branches(device, any_way):
    @cuda.jit
    def branches(out):
        i = cuda.grid(1)
        if i % 2 == 0:
            out[i] = cuda.activemask()
        else:
            out[i] = cuda.activemask()

    out = cuda.device_array(64, np.uint32)
    branches[1, 64](out)
    np.testing.assert_array_equal(out.copy_to_host(), np.tile([0x55555555, 0xAAAAAAAA], 32))


def test_the_active_lanes_where_all_come(device, way):
    @cuda.jit
    def everybody(out):
        out[cuda.grid(1)] = cuda.activemask()

    out = cuda.device_array(45, np.uint32)
    everybody[1, 45](out)
    np.testing.assert_array_equal(out.copy_to_host(), [FULL] * 32 + [0x1FFF] * 13)


def test_the_active_lanes_of_a_loop_that_lanes_leave(device, any_way):
    """Those behind the loop wait there until the others come, too."""

    @cuda.jit
    def loop(out):
        i = cuda.grid(1)
        for k in range(cuda.laneid % 4):
            out[i, k] = cuda.activemask()
        out[i, 3] = cuda.activemask()

    out = cuda.to_device(np.zeros((64, 4), np.uint32))
    loop[1, 64](out)
    masks = [0xEEEEEEEE, 0xCCCCCCCC, 0x88888888]
    expected = [[*masks[: i % 4], *[0] * (3 - i % 4), FULL] for i in range(64)]
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_lanes_meet_again_behind_a_loop_in_a_function_compiled_before(device, any_way):
    @cuda.jit(device=True)
    def who():
        return cuda.activemask()

    @cuda.jit
    def first(out):
        out[cuda.grid(1), 0] = who()

    @cuda.jit
    def loop(out):
        i = cuda.grid(1)
        for k in range(cuda.laneid % 3):
            out[i, k] = cuda.activemask()
        out[i, 2] = who()

    out = cuda.to_device(np.zeros((32, 3), np.uint32))
    first[1, 32](out)
    loop[1, 32](out)
    leaves = [[], [0xB6DB6DB6], [0xB6DB6DB6, 0x24924924]]
    expected = [[*leaves[i % 3], *[0] * (2 - i % 3), FULL] for i in range(32)]
    expected = np.array(expected, np.uint32)
    expected[::3, 0] = FULL
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_one_lane_adds_for_all_that_are_here(device, any_way):
    """The usual way to take places in a list with one atomic addition per warp."""

    @cuda.jit
    def taken(x, count, out):
        i = cuda.grid(1)
        if i < x.size and x[i] > 0:
            active = cuda.activemask()
            below = active & cuda.lanemask_lt()
            leader = rank = 0
            for lane in range(32):
                if (active >> lane) & 1 and leader == lane and (active & ((1 << lane) - 1)) == 0:
                    leader = lane
                elif leader == lane:
                    leader += 1
                rank += (below >> lane) & 1
            total = 0
            for lane in range(32):
                total += (active >> lane) & 1
            start = 0
            if cuda.laneid == leader:
                start = cuda.atomic.add(count, 0, total)
            start = cuda.shfl_sync(active, start, leader)
            out[start + rank] = x[i]

    x = np.random.default_rng(6).integers(-50, 50, 300)
    count, out = cuda.to_device(np.zeros(1, np.int64)), cuda.to_device(np.zeros(300, np.int64))
    taken[3, 128](cuda.to_device(x), count, out)
    kept = x[x > 0]
    assert count.copy_to_host()[0] == len(kept)
    np.testing.assert_array_equal(np.sort(out.copy_to_host()[: len(kept)]), np.sort(kept))


# ---- waiting --------------------------------------------------------------------------------


def test_syncwarp_shows_what_lanes_wrote(device, way):
    @cuda.jit
    def reversed_warps(x, out):
        room = cuda.shared.array(128, np.float32)
        t = cuda.threadIdx.x
        room[t] = x[t]
        cuda.syncwarp()
        value = room[t ^ 31]
        cuda.syncwarp(FULL)
        room[t] = 2 * value
        cuda.syncwarp(mask=0xFFFFFFFF)
        out[t] = room[t ^ 1]

    x = np.arange(128, dtype=np.float32)
    out = cuda.device_array(128, np.float32)
    reversed_warps[1, 128](cuda.to_device(x), out)
    lanes = np.arange(128)
    np.testing.assert_array_equal(out.copy_to_host(), 2 * x[lanes ^ 1 ^ 31])


def test_syncwarp_of_some_lanes_in_different_places(device, any_way):
    @cuda.jit
    def quarters(out):
        room = cuda.shared.array(64, np.int64)
        t = cuda.threadIdx.x
        room[t] = t
        if cuda.laneid % 2 == 0:
            cuda.syncwarp(0x55555555)
            out[t] = room[t ^ 2]
        elif t > 40:
            cuda.syncwarp(0xAAAAAAAA)
            out[t] = room[t ^ 4]
        else:
            cuda.syncwarp(0xAAAAAAAA)
            out[t] = -room[t ^ 8]
        cuda.syncthreads()

    out = cuda.device_array(64, np.int64)
    quarters[1, 64](out)
    t = np.arange(64)
    expected = np.where(t % 2 == 0, t ^ 2, np.where(t > 40, t ^ 4, -(t ^ 8)))
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit
def waiting_for_nobody(x):
    t = cuda.threadIdx.x
    if cuda.laneid < 16:
        x[t] = cuda.shfl_sync(FULL, x[t], 0)
    cuda.syncthreads()


def test_a_lane_in_the_mask_that_waits_elsewhere(device):
    """An error that names the kernel and the line; and the device goes on."""
    line = waiting_for_nobody.py_func.__code__.co_firstlineno + 4
    waiting_for_nobody[1, 64](cuda.to_device(np.zeros(64)))
    message = rf"waiting_for_nobody: some threads of a warp wait in .*test_warp\.py:{line}\b"
    with pytest.raises(BarrierError, match=message):
        cuda.synchronize()
    cuda.synchronize()


def test_different_masks_never_meet(device):
    @cuda.jit
    def different(x):
        x[cuda.threadIdx.x] = cuda.ballot_sync(FULL - cuda.laneid * 2, True)
        if cuda.laneid == 0:
            cuda.syncthreads()

    different[1, 32](cuda.to_device(np.zeros(32)))
    with pytest.raises(BarrierError, match="different: some threads of a warp wait"):
        cuda.synchronize()


# ---- roc ------------------------------------------------------------------------------------


@roc.jit
def permuted(x, lanes, out):
    i = roc.get_global_id(0)
    out[0, i] = roc.ds_permute(lanes[i], x[i])
    out[1, i] = roc.ds_bpermute(lanes[i], x[i])


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32])
@pytest.mark.parametrize("items", [64, 100, 128])
def test_ds_permute_and_bpermute(device, way, dtype, items):
    x = numbers(dtype, items)
    lanes = np.random.default_rng(7).integers(0, 64, items)
    out = roc.device_array((2, items), dtype)
    permuted[1, items](roc.to_device(x), roc.to_device(lanes), out)
    expected = np.zeros((2, items), dtype)
    for i in range(items):
        to = i // 64 * 64 + lanes[i]
        if to < items:
            # The last that gives something is the one that counts.
            expected[0, to] = x[i]
            expected[1, i] = x[to]
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_the_low_bits_of_lanes_that_are_permuted_count(device, way):
    x = numbers(np.int32, 64)
    lanes = np.arange(64)[::-1] - 64
    out = roc.device_array((2, 64), np.int32)
    permuted[1, 64](roc.to_device(x), roc.to_device(lanes), out)
    np.testing.assert_array_equal(out.copy_to_host(), [x[::-1], x[::-1]])


def test_ds_bpermute_among_the_work_items_that_are_here(device, any_way):
    @roc.jit
    def branches(x, out):
        i = roc.get_global_id(0)
        if x[i] % 2 == 0:
            out[i] = roc.ds_bpermute(i + 1, x[i])
        else:
            out[i] = -roc.ds_bpermute(i + 2, x[i])
        roc.barrier()

    x = np.arange(1, 129, dtype=np.int32)
    out = roc.device_array(128, np.int64)
    branches[1, 128](roc.to_device(x), out)
    i = np.arange(128)
    expected = np.where(x % 2 == 0, 0, -x[i // 64 * 64 + (i + 2) % 64])
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@pytest.mark.parametrize("dtype", VALUES)
def test_activelanepermute(device, way, dtype):
    @roc.jit
    def lane_by_lane(x, lanes, identity, use, out):
        i = roc.get_global_id(0)
        out[i] = roc.activelanepermute_wavewidth(x[i], lanes[i], identity[i], use[i])

    random = np.random.default_rng(8)
    x, identity = numbers(dtype, 100), numbers(dtype, 100, 1)
    lanes, use = random.integers(0, 64, 100), random.integers(0, 2, 100).astype(bool)
    out = roc.device_array(100, dtype)
    lane_by_lane[1, 100](*map(roc.to_device, (x, lanes, identity, use)), out)
    source = np.arange(100) // 64 * 64 + lanes
    outside = use | (source >= 100)
    expected = np.where(outside, identity, x[np.where(outside, 0, source)])
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_identity_becomes_of_the_type_of_what_is_permuted(device, way, dtype):
    @roc.jit
    def next_or_seven(x, out):
        i = roc.get_global_id(0)
        out[i] = roc.activelanepermute_wavewidth(x[i], i + 1, 7, i % 2 == 0)

    x, out = numbers(dtype, 64), roc.device_array(64, dtype)
    next_or_seven[1, 64](roc.to_device(x), out)
    expected = np.where(np.arange(64) % 2 == 0, 7, np.roll(x, -1))
    np.testing.assert_array_equal(out.copy_to_host(), expected.astype(dtype))


def test_cuda_kernels_permute_among_32_lanes(device, way):
    @cuda.jit
    def rolled(x, out):
        i = cuda.grid(1)
        out[i] = roc.ds_bpermute(cuda.laneid + 1, x[i])

    x = numbers(np.int32)
    out = cuda.device_array(96, np.int32)
    rolled[1, 96](cuda.to_device(x), out)
    np.testing.assert_array_equal(out.copy_to_host(), by_warps(x, lambda lane: (lane + 1) % 32))


# ---- what is refused ------------------------------------------------------------------------


def refused(kernel, signature, message):
    with pytest.raises(CompileError, match=message):
        haulage.compile(kernel, signature)


def test_arguments_that_are_refused():
    def mask(x):
        cuda.syncwarp(x[0])

    def lane(x):
        x[0] = cuda.shfl_sync(FULL, x[0], x[1])

    def delta(x):
        x[0] = cuda.shfl_down_sync(FULL, x[0], 1.5)

    def value(x):
        x[0] = cuda.shfl_xor_sync(FULL, x, 1)

    def complex_value(x):
        cuda.match_any_sync(FULL, x[0] * 1j)

    def predicate(x):
        x[0] = cuda.any_sync(FULL, x)

    def wide(x):
        x[0] = roc.ds_permute(0, x[0])

    def wide_too(x):
        x[0] = roc.ds_bpermute(0, x[0])

    def identity(x):
        x[0] = roc.activelanepermute_wavewidth(x[0], 0, 1j, True)

    signature = "void(float64[::1])"
    refused(mask, signature, "syncwarp: mask must be an int; got float64")
    refused(lane, signature, "shfl_sync: src_lane must be an int; got float64")
    refused(delta, signature, "shfl_down_sync: delta must be an int; got float64")
    refused(value, signature, r"shfl_xor_sync: value must be an int or a float; got ar")
    refused(complex_value, signature, "match_any_sync: value must be an int.*got complex128")
    refused(predicate, signature, "any_sync: predicate must be a bool or a number; got array")
    refused(wide, signature, "ds_permute: src must have 32 bits; got float64")
    refused(wide_too, signature, "ds_bpermute: src must have 32 bits; got float64")
    refused(identity, signature, "identity must be an int or a float; got complex128")


@pytest.mark.parametrize(
    "use",
    [
        lambda: cuda.syncwarp(),
        lambda: cuda.shfl_sync(FULL, 1, 0),
        lambda: cuda.ballot_sync(FULL, True),
        lambda: cuda.match_any_sync(FULL, 1),
        lambda: cuda.match_all_sync(FULL, 1),
        lambda: cuda.activemask(),
        lambda: cuda.lanemask_lt(),
    ],
)
def test_masks_of_32_lanes_in_kernels_with_64(use):
    called = roc.jit(device=True)(use)

    @roc.jit
    def kernel(x):
        called()

    refused(kernel, "void(float64[::1])", "has masks of 32 lanes.*this kernel has 64")
