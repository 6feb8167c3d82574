"""Prefix sums, and what is made of them."""

import numpy as np
from numba import float32, float64, int32, prange

from benchmarks.corpus.program import Launch, Made, loop, over, parallel, program
from haulage import cuda


@cuda.jit
def hillis_steele(x, out, totals):
    room = cuda.shared.array(256, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    room[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    step = 1
    while step < 256:
        value = float32(0)
        if t >= step:
            value = room[t - step]
        cuda.syncthreads()
        room[t] += value
        cuda.syncthreads()
        step *= 2
    if i < x.size:
        out[i] = room[t]
    if t == 255:
        totals[cuda.blockIdx.x] = room[t]


@parallel
def scan_blocks_loop(x, out, totals):
    for block in prange(totals.size):
        total = float32(0)
        for i in range(block * 256, block * 256 + 256):
            total += x[i]
            out[i] = total
        totals[block] = total


@program("scan-hillis-steele", 1 << 20, 1024)
def _(n, rng):
    x = rng.integers(0, 5, n).astype(np.float32)
    out, totals = np.zeros(n, np.float32), np.zeros(n // 256, np.float32)

    def expect():
        sums = np.cumsum(x.reshape(-1, 256), axis=1)
        return [(out, sums.ravel()), (totals, sums[:, -1])]

    return Made(
        [Launch(hillis_steele, n // 256, 256, (x, out, totals))],
        expect,
        [(scan_blocks_loop, (x, out, totals))],
    )


@cuda.jit
def scan_double_buffer(x, out):
    """Two rooms in dynamic shared memory, read and written in turn."""
    room = cuda.shared.array(0, int32)
    n = cuda.blockDim.x
    i, t = cuda.grid(1), cuda.threadIdx.x
    now, then = 0, 1
    room[t] = x[i]
    cuda.syncthreads()
    step = 1
    while step < n:
        now, then = then, now
        if t >= step:
            room[now * n + t] = room[then * n + t] + room[then * n + t - step]
        else:
            room[now * n + t] = room[then * n + t]
        cuda.syncthreads()
        step *= 2
    out[i] = room[now * n + t]


@parallel
def scan_128_loop(x, out):
    for block in prange(x.size // 128):
        total = 0
        for i in range(block * 128, block * 128 + 128):
            total += x[i]
            out[i] = total


@program("scan-double-buffer", 1 << 21, 640)
def _(n, rng):
    x, out = rng.integers(0, 100, n, np.int32), np.zeros(n, np.int32)
    return Made(
        [Launch(scan_double_buffer, n // 128, 128, (x, out), 128 * 2 * 4)],
        lambda: [(out, np.cumsum(x.reshape(-1, 128), axis=1).ravel())],
        [(scan_128_loop, (x, out))],
    )


@cuda.jit
def add_totals(out, totals):
    i = cuda.grid(1)
    if cuda.blockIdx.x > 0 and i < out.size:
        out[i] += totals[cuda.blockIdx.x - 1]


@cuda.jit
def scan_totals(totals):
    """One thread adds them up."""
    if cuda.grid(1) == 0:
        for k in range(1, totals.size):
            totals[k] += totals[k - 1]


@loop
def cumulative_loop(x, out):
    total = x[0] * 0
    for i in range(x.size):
        total += x[i]
        out[i] = total


@program("scan-of-all-in-three-launches", 1 << 20, 1024)
def _(n, rng):
    x = rng.integers(0, 2, n).astype(np.float32)
    out, totals = np.zeros(n, np.float32), np.zeros(n // 256, np.float32)
    return Made(
        [
            Launch(hillis_steele, n // 256, 256, (x, out, totals)),
            Launch(scan_totals, 1, 32, (totals,)),
            Launch(add_totals, n // 256, 256, (out, totals)),
        ],
        lambda: [(out, np.cumsum(x))],
        [(cumulative_loop, (x, out))],
    )


@cuda.jit
def row_cumulative(a, out):
    row = cuda.grid(1)
    if row < a.shape[0]:
        total = 0.0
        for j in range(a.shape[1]):
            total += a[row, j]
            out[row, j] = total


@parallel
def row_cumulative_loop(a, out):
    for row in prange(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[row, j]
            out[row, j] = total


@program("cumulative-sums-of-rows", 4000, 65)
def _(n, rng):
    a, out = rng.random((n, 400)), np.zeros((n, 400))
    return Made(
        [Launch(row_cumulative, over(n, 64), 64, (a, out))],
        lambda: [(out, np.cumsum(a, axis=1))],
        [(row_cumulative_loop, (a, out))],
    )


@cuda.jit
def column_cumulative(a, out):
    col = cuda.grid(1)
    if col < a.shape[1]:
        total = 0.0
        for i in range(a.shape[0]):
            total += a[i, col]
            out[i, col] = total


@parallel
def column_cumulative_loop(a, out):
    for col in prange(a.shape[1]):
        total = 0.0
        for i in range(a.shape[0]):
            total += a[i, col]
            out[i, col] = total


@program("cumulative-sums-of-columns", 4000, 65)
def _(n, rng):
    a, out = rng.random((400, n)), np.zeros((400, n))
    return Made(
        [Launch(column_cumulative, over(n, 128), 128, (a, out))],
        lambda: [(out, np.cumsum(a, axis=0))],
        [(column_cumulative_loop, (a, out))],
    )


@cuda.jit
def compact_by_atomics(x, limit, out, count):
    i = cuda.grid(1)
    if i < x.size and x[i] > limit:
        place = cuda.atomic.add(count, 0, 1)
        out[place] = x[i]


@cuda.jit
def sum_of_kept(out, count, total):
    """A sum that does not depend on the order in which they were kept."""
    if cuda.grid(1) == 0:
        for k in range(count[0]):
            total[0] += out[k]


@loop
def compact_loop(x, limit, out, count):
    found = 0
    for i in range(x.size):
        if x[i] > limit:
            out[found] = x[i]
            found += 1
    count[0] = found


@program("compaction-used-atomics", 1 << 19, 3000)
def _(n, rng):
    x, out = rng.integers(0, 1000, n), np.zeros(n, np.int64)
    count, total = np.zeros(1, np.int32), np.zeros(1, np.int64)
    return Made(
        [
            Launch(compact_by_atomics, over(n, 256), 256, (x, 700, out, count)),
            Launch(sum_of_kept, 1, 1, (out, count, total)),
        ],
        lambda: [(count, [(x > 700).sum()]), (total, [x[x > 700].sum()])],
        restore=(count, total),
    )


@program("compaction-alone", 1 << 20, 3000)
def _(n, rng):
    x, out, count = rng.integers(0, 1000, n), np.zeros(n, np.int64), np.zeros(1, np.int32)
    return Made(
        [Launch(compact_by_atomics, over(n, 256), 256, (x, 500, out, count))],
        lambda: [(count, [(x > 500).sum()])],
        [(compact_loop, (x, 500, out, count))],
        restore=(count,),
    )


@cuda.jit
def compact_in_block(x, limit, out, counts):
    """Each block keeps its own in order: flags, a scan in shared memory, a scatter."""
    room = cuda.shared.array(128, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    keep = i < x.size and x[i] > limit
    room[t] = 1 if keep else 0
    cuda.syncthreads()
    step = 1
    while step < 128:
        value = room[t - step] if t >= step else 0
        cuda.syncthreads()
        room[t] += value
        cuda.syncthreads()
        step <<= 1
    if keep:
        out[cuda.blockIdx.x * 128 + room[t] - 1] = x[i]
    if t == 127:
        counts[cuda.blockIdx.x] = room[127]


@parallel
def compact_in_block_loop(x, limit, out, counts):
    for block in prange(counts.size):
        found = 0
        for i in range(block * 128, min(block * 128 + 128, x.size)):
            if x[i] > limit:
                out[block * 128 + found] = x[i]
                found += 1
        counts[block] = found


@program("compaction-by-scan", 1 << 19, 1280)
def _(n, rng):
    x, out, counts = rng.random(n), np.zeros(n), np.zeros(n // 128, np.int32)

    def expect():
        rows, kept = x.reshape(-1, 128), np.zeros((n // 128, 128))
        for row, into in zip(rows, kept, strict=True):
            found = row[row > 0.6]
            into[: found.size] = found
        return [(out, kept.ravel()), (counts, (rows > 0.6).sum(1))]

    return Made(
        [Launch(compact_in_block, n // 128, 128, (x, 0.6, out, counts))],
        expect,
        [(compact_in_block_loop, (x, 0.6, out, counts))],
    )


@cuda.jit
def running_maximum(x, out, width):
    """Of the last `width` elements, by a loop of each thread."""
    i = cuda.grid(1)
    if i < x.size:
        best = x[i]
        for k in range(max(0, i - width + 1), i):
            best = max(best, x[k])
        out[i] = best


@parallel
def running_maximum_loop(x, out, width):
    for i in prange(x.size):
        best = x[i]
        for k in range(max(0, i - width + 1), i):
            best = max(best, x[k])
        out[i] = best


@program("running-maximum", 1 << 18, 1003)
def _(n, rng):
    x, out = rng.random(n), np.zeros(n)
    padded = np.concatenate([np.full(15, -1.0), x])
    return Made(
        [Launch(running_maximum, over(n, 256), 256, (x, out, 16))],
        lambda: [(out, np.lib.stride_tricks.sliding_window_view(padded, 16).max(1))],
        [(running_maximum_loop, (x, out, 16))],
    )


@cuda.jit
def linear_recurrence(a, b, out):
    """y = a y + b along rows whose elements are far apart: a row a thread."""
    row = cuda.grid(1)
    if row < a.shape[0]:
        y = float64(0)
        for k in range(a.shape[1]):
            y = a[row, k] * y + b[row, k]
        out[row] = y


@parallel
def linear_recurrence_loop(a, b, out):
    for row in prange(a.shape[0]):
        y = float64(0)
        for k in range(a.shape[1]):
            y = a[row, k] * y + b[row, k]
        out[row] = y


@program("linear-recurrence-rows", 6000, 70)
def _(n, rng):
    a, b, out = rng.random((n, 256)), rng.random((n, 256)), np.zeros(n)

    def expect():
        y = np.zeros(n)
        for k in range(256):
            y = a[:, k] * y + b[:, k]
        return [(out, y)]

    return Made(
        [Launch(linear_recurrence, over(n, 64), 64, (a, b, out))],
        expect,
        [(linear_recurrence_loop, (a, b, out))],
    )
