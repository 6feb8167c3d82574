"""Sums, extremes and norms: of all elements, of blocks, of rows and columns."""

import math

import numpy as np
from numba import float32, float64, int32, prange

from benchmarks.corpus.program import Launch, Made, over, parallel, program
from haulage import cuda


@cuda.jit
def sum_in_two_steps(x, parts):
    room = cuda.shared.array(256, float64)
    t = cuda.threadIdx.x
    total = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    room[t] = total
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            room[t] += room[t + s]
        cuda.syncthreads()
        s >>= 1
    if t == 0:
        parts[cuda.blockIdx.x] = room[0]


@parallel
def sum_loop(x, out):
    total = 0.0
    for i in prange(x.size):
        total += x[i]
    out[0] = total


@program("sum-grid-stride-then-tree", 1 << 22, 5003)
def _(n, rng):
    x, parts, out = rng.random(n), np.zeros(64), np.zeros(1)
    return Made(
        [
            Launch(sum_in_two_steps, 64, 256, (x, parts)),
            Launch(sum_in_two_steps, 1, 256, (parts, out)),
        ],
        lambda: [(out, [x.sum()])],
        [(sum_loop, (x, out))],
    )


@cuda.jit
def sum_interleaved(x, out):
    """The tree with neighbours first, whose threads are those with an index of a multiple."""
    room = cuda.shared.array(128, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    room[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    s = 1
    while s < cuda.blockDim.x:
        if t % (2 * s) == 0:
            room[t] += room[t + s]
        cuda.syncthreads()
        s *= 2
    if t == 0:
        cuda.atomic.add(out, 0, room[0])


@parallel
def sum_int_loop(x, out):
    total = 0
    for i in prange(x.size):
        total += x[i]
    out[0] = total


@program("sum-interleaved-tree", 1 << 21, 3001)
def _(n, rng):
    x, out = rng.integers(-9, 9, n, np.int32), np.zeros(1, np.int32)
    return Made(
        [Launch(sum_interleaved, over(n, 128), 128, (x, out))],
        lambda: [(out, [x.sum()])],
        [(sum_int_loop, (x, out))],
        restore=(out,),
    )


@cuda.jit
def dot_dynamic(x, y, out):
    room = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    i = cuda.grid(1)
    while i < x.size:
        total += x[i] * y[i]
        i += cuda.gridsize(1)
    room[t] = total
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s != 0:
        if t < s:
            room[t] += room[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        cuda.atomic.add(out, 0, room[0])


@parallel
def dot_loop(x, y, out):
    total = float32(0)
    for i in prange(x.size):
        total += x[i] * y[i]
    out[0] = total


@program("dot-dynamic-shared", 1 << 22, 4001)
def _(n, rng):
    x, y = rng.random(n, np.float32), rng.random(n, np.float32)
    out = np.zeros(1, np.float32)
    return Made(
        [Launch(dot_dynamic, 48, 128, (x, y, out), 128 * 4)],
        lambda: [(out, [np.dot(x.astype(np.float64), y)])],
        [(dot_loop, (x, y, out))],
        restore=(out,),
        # One thread after another adds up with more error than blocks do.
        tolerance=1e-2,
    )


@cuda.jit
def argmax_of_blocks(x, best, where):
    values = cuda.shared.array(256, float32)
    places = cuda.shared.array(256, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    values[t] = x[i] if i < x.size else float32(-np.inf)
    places[t] = i
    cuda.syncthreads()
    s = 128
    while s > 0:
        if t < s and values[t + s] > values[t]:
            values[t] = values[t + s]
            places[t] = places[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        best[cuda.blockIdx.x] = values[0]
        where[cuda.blockIdx.x] = places[0]


@parallel
def argmax_loop(x, best, where):
    for block in prange(best.size):
        value, place = x[block * 256], block * 256
        for i in range(block * 256 + 1, min(block * 256 + 256, x.size)):
            if x[i] > value:
                value, place = x[i], i
        best[block] = value
        where[block] = place


@program("argmax-of-blocks", 1 << 22, 2560)
def _(n, rng):
    x = rng.permutation(n).astype(np.float32)
    best, where = np.zeros(n // 256, np.float32), np.zeros(n // 256, np.int32)

    def expect():
        rows = x.reshape(-1, 256)
        return [(best, rows.max(1)), (where, rows.argmax(1) + 256 * np.arange(len(rows)))]

    return Made(
        [Launch(argmax_of_blocks, n // 256, 256, (x, best, where))],
        expect,
        [(argmax_loop, (x, best, where))],
    )


@cuda.jit
def extremes(x, low, high):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.min(low, 0, x[i])
        cuda.atomic.max(high, 0, x[i])


@parallel
def extremes_loop(x, low, high):
    least, most = low[0], high[0]
    for i in prange(x.size):
        least = min(least, x[i])
        most = max(most, x[i])
    low[0] = least
    high[0] = most


@program("min-and-max-by-atomics", 1 << 19, 1500)
def _(n, rng):
    x = rng.normal(size=n)
    low, high = np.array([np.inf]), np.array([-np.inf])
    return Made(
        [Launch(extremes, over(n, 256), 256, (x, low, high))],
        lambda: [(low, [x.min()]), (high, [x.max()])],
        [(extremes_loop, (x, low, high))],
        restore=(low, high),
    )


@cuda.jit
def row_statistics(a, mean, deviation):
    row = cuda.grid(1)
    if row < a.shape[0]:
        total = 0.0
        for j in range(a.shape[1]):
            total += a[row, j]
        m = total / a.shape[1]
        squares = 0.0
        for j in range(a.shape[1]):
            squares += (a[row, j] - m) ** 2
        mean[row] = m
        deviation[row] = math.sqrt(squares / a.shape[1])


@parallel
def row_statistics_loop(a, mean, deviation):
    for row in prange(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[row, j]
        m = total / a.shape[1]
        squares = 0.0
        for j in range(a.shape[1]):
            squares += (a[row, j] - m) ** 2
        mean[row] = m
        deviation[row] = math.sqrt(squares / a.shape[1])


@program("mean-and-deviation-of-rows", 8000, 101)
def _(n, rng):
    a, mean, deviation = rng.random((n, 300)), np.zeros(n), np.zeros(n)
    return Made(
        [Launch(row_statistics, over(n, 32), 32, (a, mean, deviation))],
        lambda: [(mean, a.mean(1)), (deviation, a.std(1))],
        [(row_statistics_loop, (a, mean, deviation))],
    )


@cuda.jit
def column_sums_atomic(a, out):
    j, i = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        cuda.atomic.add(out, j, a[i, j])


@parallel
def column_sums_loop(a, out):
    for j in prange(a.shape[1]):
        total = 0.0
        for i in range(a.shape[0]):
            total += a[i, j]
        out[j] = total


@program("column-sums-by-atomics", 1400, 31)
def _(n, rng):
    a, out = rng.random((n, n)), np.zeros(n)
    grid = (over(n, 32), over(n, 8))
    return Made(
        [Launch(column_sums_atomic, grid, (32, 8), (a, out))],
        lambda: [(out, a.sum(0))],
        [(column_sums_loop, (a, out))],
        restore=(out,),
    )


@cuda.jit
def count_above(x, limit, counts):
    i = cuda.grid(1)
    above = i < x.size and x[i] > limit
    total = cuda.syncthreads_count(above)
    if cuda.threadIdx.x == 0:
        counts[cuda.blockIdx.x] = total


@parallel
def count_above_loop(x, limit, counts):
    for block in prange(counts.size):
        total = 0
        for i in range(block * 128, min(block * 128 + 128, x.size)):
            total += x[i] > limit
        counts[block] = total


@program("count-of-a-block", 1 << 22, 1280)
def _(n, rng):
    x, counts = rng.random(n, np.float32), np.zeros(n // 128, np.int32)
    return Made(
        [Launch(count_above, n // 128, 128, (x, np.float32(0.75), counts))],
        lambda: [(counts, (x > np.float32(0.75)).reshape(-1, 128).sum(1))],
        [(count_above_loop, (x, np.float32(0.75), counts))],
    )


@cuda.jit
def segment_sums(starts, x, out):
    s = cuda.grid(1)
    if s < out.size:
        total = 0.0
        for k in range(starts[s], starts[s + 1]):
            total += x[k]
        out[s] = total


@parallel
def segment_sums_loop(starts, x, out):
    for s in prange(out.size):
        total = 0.0
        for k in range(starts[s], starts[s + 1]):
            total += x[k]
        out[s] = total


@program("segment-sums", 60000, 150)
def _(n, rng):
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 40, n))]).astype(np.int32)
    x, out = rng.random(starts[-1]), np.zeros(n)
    sums = np.concatenate([[0.0], np.cumsum(x)])
    return Made(
        [Launch(segment_sums, over(n, 128), 128, (starts, x, out))],
        lambda: [(out, sums[starts[1:]] - sums[starts[:-1]])],
        [(segment_sums_loop, (starts, x, out))],
        tolerance=1e-6,
    )


@cuda.jit
def normalise_with_grid_barrier(x, parts, out):
    """One cooperative launch: the sum of squares, then each element by its root."""
    room = cuda.shared.array(128, float64)
    t = cuda.threadIdx.x
    total = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i] * x[i]
    room[t] = total
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            room[t] += room[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        parts[cuda.blockIdx.x] = room[0]
    cuda.cg.this_grid().sync()
    total = 0.0
    for k in range(parts.size):
        total += parts[k]
    scale = 1.0 / math.sqrt(total)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = x[i] * scale


@parallel
def normalise_loop(x, parts, out):
    total = 0.0
    for i in prange(x.size):
        total += x[i] * x[i]
    scale = 1.0 / math.sqrt(total)
    for i in prange(x.size):
        out[i] = x[i] * scale


@program("normalise-grid-barrier", 1 << 21, 2000)
def _(n, rng):
    x, parts, out = rng.random(n), np.zeros(8), np.zeros(n)
    return Made(
        [Launch(normalise_with_grid_barrier, 8, 128, (x, parts, out))],
        lambda: [(out, x / np.linalg.norm(x))],
        [(normalise_loop, (x, parts, out))],
    )
