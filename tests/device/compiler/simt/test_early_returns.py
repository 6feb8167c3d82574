"""Barriers of a block go on without the threads that have left, and miss those that went round."""

import numpy as np
import pytest

import haulage
from haulage import cuda, roc
from haulage.errors import BarrierError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

WAYS = ("regions", "scalar", "coroutines")
THREADS = 64


@cuda.jit
def guarded_by_return(x, out, n):
    room = cuda.shared.array(THREADS, np.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    room[t] = 0
    cuda.syncthreads()
    if i >= n:
        return
    room[t] = x[i]
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            room[t] += room[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = room[0]


@cuda.jit
def guarded_whole(x, out, n):
    room = cuda.shared.array(THREADS, np.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    room[t] = 0
    cuda.syncthreads()
    if i < n:
        room[t] = x[i]
        cuda.syncthreads()
        step = THREADS // 2
        while step > 0:
            if t < step:
                room[t] += room[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            out[cuda.blockIdx.x] = room[0]


@cuda.jit
def guarded_whole_with_else(x, out, n):
    room = cuda.shared.array(THREADS, np.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    room[t] = 0
    cuda.syncthreads()
    if i < n:
        room[t] = x[i]
        cuda.syncthreads()
        if t == 0:
            for k in range(THREADS):
                out[cuda.blockIdx.x] += room[k]
    else:
        x[i] = 0


@cuda.jit
def leaving_one_half_after_another(x, out, n):
    room = cuda.shared.array(THREADS, np.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    room[t] = x[i] if i < n else 0.0
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t >= step:
            return
        room[t] += room[t + step]
        cuda.syncthreads()
        step //= 2
    out[cuda.blockIdx.x] = room[0]


@cuda.jit
def returning_amid_a_pair_of_loops(x, out, n):
    room = cuda.shared.array(THREADS, np.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    room[t] = x[i] if i < n else 0.0
    for first in range(8):
        for second in range(8):
            cuda.syncthreads()
            if t == first * 8 + second:
                if t == THREADS - 1:
                    out[cuda.blockIdx.x] = room[t]
                    return
                room[t + 1] += room[t]
                return


@pytest.mark.parametrize(
    "kernel",
    [
        guarded_by_return,
        guarded_whole,
        guarded_whole_with_else,
        leaving_one_half_after_another,
        returning_amid_a_pair_of_loops,
    ],
    ids=lambda kernel: kernel.py_func.__name__,
)
@pytest.mark.parametrize("n", [0, 1, 64, 130, 256])
def test_sums_of_blocks_whose_threads_leave_before_the_barriers(way, kernel, n):
    x = np.random.default_rng(n).random(256)
    out = cuda.to_device(np.zeros(4))
    kernel[4, THREADS](cuda.to_device(x), out, n)
    expected = np.where(np.arange(256) < n, x, 0).reshape(4, THREADS).sum(axis=1)
    np.testing.assert_allclose(out.copy_to_host(), expected)


@pytest.mark.parametrize(
    "kernel",
    [guarded_by_return, guarded_whole, leaving_one_half_after_another],
    ids=lambda kernel: kernel.py_func.__name__,
)
@pytest.mark.emitted
def test_the_others_still_go_on_in_step(kernel):
    code = haulage.compile(kernel, "void(float64[::1], float64[::1], int64)", block=THREADS)
    assert code.metadata["strategy"] == "regions"


@cuda.jit
def tiled_product(a, b, c):
    rows = cuda.shared.array((8, 8), np.float64)
    columns = cuda.shared.array((8, 8), np.float64)
    i, j = cuda.grid(2)
    y, x = cuda.threadIdx.x, cuda.threadIdx.y
    if i >= c.shape[0] or j >= c.shape[1]:
        return
    total = 0.0
    for tile in range(a.shape[1] // 8):
        rows[y, x] = a[i, tile * 8 + x]
        columns[y, x] = b[tile * 8 + y, j]
        cuda.syncthreads()
        for k in range(8):
            total += rows[y, k] * columns[k, x]
        cuda.syncthreads()
    c[i, j] = total


def test_a_tiled_product_on_a_grid_that_is_larger_than_the_matrix(way):
    a, b = np.random.default_rng(1).random((2, 24, 24))
    c = np.zeros((24, 24))
    tiled_product[(5, 4), (8, 8)](a, b, c)
    np.testing.assert_allclose(c, a @ b)


@cuda.jit
def counted(out):
    t = cuda.threadIdx.x
    if t % 3 == 0:
        return
    out[t, 0] = cuda.syncthreads_count(t % 2)
    if t > 40:
        return
    out[t, 1] = cuda.syncthreads_and(t % 3)
    out[t, 2] = cuda.syncthreads_or(t == 42)


def test_gathering_barriers_ask_those_that_are_there(way):
    out = cuda.to_device(np.full((50, 3), -1))
    counted[1, 50](out)
    t = np.arange(50)
    expected = np.full((50, 3), -1)
    expected[t % 3 > 0, 0] = np.sum((t % 3 > 0) & (t % 2 == 1))
    expected[(t % 3 > 0) & (t <= 40), 1:] = 1, 0
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@roc.jit
def of_a_group(x, n):
    room = roc.shared.array(THREADS, np.int64)
    i, t = roc.get_global_id(0), roc.get_local_id(0)
    if i >= n:
        return
    room[t] = x[i]
    roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
    x[i] = room[t ^ 1] * 2
    roc.wavebarrier()
    room[t] = x[i]
    roc.barrier()
    x[i] += room[t ^ 1]


def test_groups_and_wavefronts_go_on_without_work_items_that_have_left(way):
    x = np.arange(128)
    d = roc.to_device(x)
    of_a_group[2, THREADS](d, 90)
    expected = np.where(x < 90, 2 * (x ^ 1) + 2 * x, x)
    np.testing.assert_array_equal(d.copy_to_host(), expected)


@cuda.jit
def lanes_and_blocks(x, n):
    room = cuda.shared.array(THREADS, np.int64)
    t = cuda.threadIdx.x
    if t >= n:
        return
    votes = cuda.ballot_sync(0xFFFFFFFF, x[t] > 3)
    room[t] = cuda.popc(votes)
    cuda.syncwarp()
    if t % 2 and t > 40:
        return
    cuda.syncthreads()
    x[t] = room[0] + (room[32] if n > 32 else 0)


def test_words_of_warps_and_barriers_go_on_without_lanes_that_have_left(way):
    for n in (64, 45, 20):
        x = np.arange(THREADS) % 7
        d = cuda.to_device(x)
        lanes_and_blocks[1, THREADS](d, n)
        t = np.arange(THREADS)
        expected = np.where((t < n) & ~((t % 2 == 1) & (t > 40)), np.sum(x[:n] > 3), x)
        np.testing.assert_array_equal(d.copy_to_host(), expected)


@cuda.jit
def over_the_grid(x, n):
    room = cuda.shared.array(16, np.int64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    grid = cuda.cg.this_grid()
    room[t] = i
    cuda.syncthreads()
    if t >= n:
        return
    room[t] = i + 100
    cuda.syncthreads()
    x[i] = room[t ^ 1]
    grid.sync()
    if t >= 8:
        return
    room[t] = x[x.size - 1 - i]
    cuda.syncthreads()
    grid.sync()
    x[i] = room[t ^ 1]


def test_barriers_of_block_and_grid_behind_returns(way):
    i = np.arange(64)
    t = i % 16
    for n in (16, 10, 1):
        x = cuda.to_device(np.full(64, -1))
        over_the_grid[4, 16](x, n)
        swapped = np.where(t < n, (i ^ 1) + np.where(t ^ 1 < n, 100, 0), -1)
        room = np.where(t < min(n, 8), swapped[::-1], np.where(t < n, i + 100, i))
        expected = np.where(t < min(n, 8), room[i ^ 1], swapped)
        np.testing.assert_array_equal(x.copy_to_host(), expected)


@cuda.jit
def barriers_of_those_at_work(x, out):
    room = cuda.shared.array(THREADS, np.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    room[t] = x[i]
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        if t % (2 * step) == 0:
            room[t] += room[t + step]
            cuda.syncthreads()
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = room[0]


@pytest.mark.parametrize("threads", ["auto", "scalar", "coroutines"])
def test_threads_that_do_nothing_more_are_not_missed(monkeypatch, threads):
    monkeypatch.setenv("HAULAGE_CPU_THREADS", threads)
    x = np.random.default_rng(2).random(128)
    out = cuda.to_device(np.zeros(2))
    barriers_of_those_at_work[2, THREADS](cuda.to_device(x), out)
    np.testing.assert_allclose(out.copy_to_host(), x.reshape(2, THREADS).sum(axis=1))


@cuda.jit
def in_strides(x):
    for row in range(x.shape[0]):
        for i in range(cuda.threadIdx.x, x.shape[1], THREADS):
            x[row, i] += i
            cuda.syncthreads()


@cuda.jit
def in_pairs_in_place(x):
    t = cuda.threadIdx.x
    step = 1
    while step < THREADS:
        if t % (2 * step) == 0:
            x[0, t] += x[0, t + step]
            cuda.syncthreads()
        step *= 2


@cuda.jit
def as_often_as_each_likes(x):
    t = cuda.threadIdx.x
    for k in range(t // 16):
        x[0, t] += k
        cuda.syncthreads()
        if t % 2 == 0:
            return
        cuda.syncthreads()
    if x.shape[0] > 9:
        x[0, 0] = 1


@cuda.jit
def in_strides_and_once_more(x):
    for i in range(cuda.threadIdx.x, x.shape[1], THREADS):
        cuda.syncthreads()
        x[0, i] += 1
    cuda.syncthreads()


def _once_more(x):
    x[0] += 1
    return x


def _in_strides(x):
    return x + np.arange(x.shape[1])


def _in_pairs(x):
    for step in 2 ** np.arange(6):
        x[0, : THREADS : 2 * step] += x[0, step : THREADS : 2 * step]
    return x


def _each_as_it_likes(x):
    t = np.arange(THREADS)
    turns = np.where(t % 2 == 0, np.minimum(t // 16, 1), t // 16)
    x[0, :THREADS] += turns * (turns - 1) // 2
    return x


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (in_strides, _in_strides),
        (in_strides_and_once_more, _once_more),
        (in_pairs_in_place, _in_pairs),
        (as_often_as_each_likes, _each_as_it_likes),
    ],
    ids=lambda value: getattr(value, "py_func", value).__name__,
)
@pytest.mark.parametrize("threads", ["auto", "scalar", "coroutines"])
def test_threads_that_leave_loops_with_barriers_and_end_are_not_missed(
    monkeypatch, threads, kernel, expected
):
    monkeypatch.setenv("HAULAGE_CPU_THREADS", threads)
    x = np.random.default_rng(3).random((3, 100))
    d = cuda.to_device(x)
    kernel[1, THREADS](d)
    np.testing.assert_allclose(d.copy_to_host(), expected(x))


@cuda.jit
def round_it_with_a_last_return(x):
    if cuda.threadIdx.x < 16:
        x[1] = 3
        cuda.syncthreads()
    x[0] = 1
    return


@cuda.jit
def round_it_to_the_end(x):
    if cuda.threadIdx.x < 16:
        cuda.syncthreads()


@cuda.jit
def round_it_in_a_loop(x):
    for k in range(5):
        if cuda.threadIdx.x > k:
            x[k] = 3
            cuda.syncthreads()
    x[5] = 1


@cuda.jit
def left_and_round_it(x):
    if cuda.threadIdx.x == 3:
        return
    x[0] = 3
    cuda.syncthreads()
    if cuda.threadIdx.x < 16:
        x[1] = 3
        cuda.syncthreads()
    x[2] = 1


@cuda.jit
def round_it_before_a_loop(x):
    if cuda.threadIdx.x < 16:
        x[0] = 3
        cuda.syncthreads()
    for k in range(x.size):
        if x[k] > 8:
            return
        x[k] = 1


@cuda.jit
def round_it_in_some_turns(x):
    t = cuda.threadIdx.x
    for k in range(t % 3):
        if t < 16:
            x[k] = 3
            cuda.syncthreads()
        elif t == 20:
            x[k] = 4
    if x.size > 99:
        x[0] = 1


@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        (round_it_with_a_last_return, 4),
        (round_it_to_the_end, 3),
        (round_it_in_a_loop, 5),
        (left_and_round_it, 8),
        (round_it_before_a_loop, 4),
        (round_it_in_some_turns, 6),
    ],
    ids=lambda value: value.py_func.__name__ if hasattr(value, "py_func") else "",
)
@pytest.mark.parametrize("threads", ["auto", "scalar", "coroutines"])
def test_a_barrier_that_threads_go_round_is_an_error(monkeypatch, threads, kernel, line):
    monkeypatch.setenv("HAULAGE_CPU_THREADS", threads)
    kernel[1, 32](cuda.to_device(np.zeros(8)))
    line += kernel.py_func.__code__.co_firstlineno
    name = kernel.py_func.__name__
    with pytest.raises(BarrierError, match=rf"{name}.*test_early_returns\.py:{line}\b"):
        cuda.synchronize()
