"""Warps of one block that go their own ways between the barriers of the block."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

FULL = 0xFFFFFFFF


def thread_in_block():
    x, y, z = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    return x + cuda.blockDim.x * (y + cuda.blockDim.y * z)


in_block = cuda.jit(device=True)(thread_in_block)


@cuda.jit
def block_sums(x, out):
    room = cuda.shared.array(32, np.float64)
    t = in_block()
    size = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    value = x[cuda.blockIdx.x * size + t]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(FULL, value, step)
        step //= 2
    if t % 32 == 0:
        room[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = room[t] if t < size // 32 else 0.0
        for k in range(5):
            value += cuda.shfl_xor_sync(FULL, value, 1 << k)
        if t == 0:
            room[0] = value
    cuda.syncthreads()
    out[cuda.blockIdx.x * size + t] = room[0]


@pytest.mark.parametrize("block", [256, (64, 4), (32, 2, 2)])
def test_the_first_warp_adds_what_all_warps_found(way, block):
    size = int(np.prod(block))
    x = np.random.default_rng(1).random(3 * size)
    out = cuda.device_array(3 * size, np.float64)
    block_sums[3, block](cuda.to_device(x), out)
    expected = np.repeat(x.reshape(3, -1).sum(axis=1), size)
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-12)


@cuda.jit
def own_turns(x, out):
    room = cuda.shared.array(256, np.int64)
    t = cuda.threadIdx.x
    warp = t // 32
    value = x[t]
    for turn in range(warp + 1):
        value += cuda.shfl_up_sync(FULL, value, 1 + turn)
    room[t] = value
    cuda.syncthreads()
    out[t] = room[cuda.blockDim.x - 1 - t] + cuda.shfl_sync(FULL, value, warp)


@pytest.mark.parametrize("threads", [32, 96, 256])
def test_each_warp_makes_its_own_number_of_turns(way, threads):
    x = np.random.default_rng(2).integers(0, 1000, threads)
    out = cuda.device_array(threads, np.int64)
    own_turns[1, threads](cuda.to_device(x), out)
    value = x.reshape(-1, 32).copy()
    for warp, lanes in enumerate(value):
        for turn in range(warp + 1):
            lanes += np.concatenate([lanes[: 1 + turn], lanes[: 31 - turn]])
    first = np.repeat([lanes[warp] for warp, lanes in enumerate(value)], 32)
    np.testing.assert_array_equal(out.copy_to_host(), value.ravel()[::-1] + first)


@cuda.jit
def those_who_stay(x, out, n):
    i = cuda.grid(1)
    if i >= n:
        return
    value = x[i]
    lanes = cuda.ballot_sync(FULL, value > 0)
    turns = 0
    while cuda.any_sync(FULL, value > turns):
        turns += 1
    out[i] = cuda.popc(lanes) * 1000 + turns


@pytest.mark.parametrize("n", [1, 31, 32, 40, 100, 160])
@pytest.mark.parametrize("block", [160, 70])
def test_votes_count_those_that_have_not_left(way, n, block):
    x = np.random.default_rng(n).integers(-9, 10, 160)
    out = cuda.to_device(np.full(160, -1))
    those_who_stay[-(-160 // block), block](cuda.to_device(x), out, min(n, 160))
    expected = np.full(160, -1)
    for first in range(0, 160, block):
        for low in range(first, min(first + block, n), 32):
            lanes = x[low : min(low + 32, first + block, n)]
            expected[low : low + len(lanes)] = (lanes > 0).sum() * 1000 + max(lanes.max(), 0)
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit
def warps_that_leave(x, out):
    room = cuda.shared.array(8, np.int64)
    t = cuda.threadIdx.x
    if t // 32 == cuda.blockIdx.x:
        return
    ones = cuda.popc(cuda.ballot_sync(FULL, x[t] == 1))
    if t % 32 == 0:
        room[t // 32] = ones
    cuda.syncthreads()
    if t % 32 == 3:
        out[cuda.blockIdx.x, t // 32] = room[(t // 32 + 4) % 8] if ones > 0 else room[t // 32]


def test_warps_that_left_are_not_waited_for(way):
    x = np.random.default_rng(3).integers(0, 2, 256)
    out = cuda.to_device(np.full((3, 8), -1))
    warps_that_leave[3, 256](cuda.to_device(x), out)
    ones = x.reshape(8, 32).sum(axis=1)
    found = out.copy_to_host()
    for block in range(3):
        for warp in range(8):
            if warp == block:
                assert found[block, warp] == -1
            elif (warp + 4) % 8 != block:
                assert found[block, warp] == ones[(warp + 4) % 8]


@cuda.jit
def votes_of_two_arms(x, out):
    t = cuda.threadIdx.x
    if t < 64:
        out[t] = cuda.ballot_sync(FULL, x[t] > 3)
    else:
        out[t] = cuda.match_any_sync(FULL, x[t])


def test_arms_that_whole_warps_take_ask_for_themselves(way):
    x = np.random.default_rng(4).integers(0, 8, 128)
    out = cuda.device_array(128, np.int64)
    votes_of_two_arms[1, 128](cuda.to_device(x), out)
    expected = []
    for t, value in enumerate(x):
        warp = x[t // 32 * 32 : t // 32 * 32 + 32]
        chosen = warp > 3 if t < 64 else warp == value
        mask = sum(1 << lane for lane in np.flatnonzero(chosen).tolist())
        expected.append(mask - (mask >> 31 << 32))
    np.testing.assert_array_equal(out.copy_to_host(), expected)
