"""Counts and sums by key, with atomic words."""

import numpy as np
from numba import float32, int32, prange

from benchmarks.corpus.program import Launch, Made, loop, over, parallel, program
from haulage import cuda


@cuda.jit
def histogram_private(data, bins, low, width):
    """Bins of the block in shared memory, added to those of all at its end."""
    own = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if t < 64:
        own[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), data.size, cuda.gridsize(1)):
        b = int((data[i] - low) / width)
        if 0 <= b < 64:
            cuda.atomic.add(own, b, 1)
    cuda.syncthreads()
    if t < 64:
        cuda.atomic.add(bins, t, own[t])


@loop
def histogram_loop(data, bins, low, width):
    for i in range(data.size):
        b = int((data[i] - low) / width)
        if 0 <= b < bins.size:
            bins[b] += 1


def _bins(data, low, width, n):
    b = ((data - low) / width).astype(np.int64)
    ok = (b >= 0) & (b < n) & (data >= low - width)
    return np.bincount(b[ok], minlength=n)


@program("histogram-of-floats-private", 1 << 20, 3000)
def _(n, rng):
    data, bins = rng.normal(size=n).astype(np.float32), np.zeros(64, np.int32)
    args = (data, bins, np.float32(-3), np.float32(0.125))
    expected = _bins(data, np.float32(-3), np.float32(0.125), 64)
    return Made(
        [Launch(histogram_private, 16, 256, args)],
        lambda: [(bins, expected)],
        [(histogram_loop, args)],
        restore=(bins,),
    )


@cuda.jit
def histogram_bounds(data, lower, upper, counts):
    """Bins by bounds and their number, straight into the global counts."""
    nbins = counts.shape[0]
    width = (upper - lower) / nbins
    start, stride = cuda.grid(1), cuda.gridsize(1)
    for i in range(start, data.shape[0], stride):
        place = np.int32((data[i] - lower) / width)
        if place >= 0 and place < nbins:
            cuda.atomic.add(counts, place, 1)


@program("histogram-global-atomics", 1 << 20, 2000)
def _(n, rng):
    data, counts = rng.random(n), np.zeros(16, np.int32)
    return Made(
        [Launch(histogram_bounds, 32, 128, (data, 0.0, 1.0, counts))],
        lambda: [(counts, _bins(data, 0.0, 1 / 16, 16))],
        [(histogram_loop, (data, counts, 0.0, 1 / 16))],
        restore=(counts,),
    )


@cuda.jit
def histogram_2d(points, grid):
    i = cuda.grid(1)
    if i < points.shape[0]:
        x, y = int(points[i, 0] * grid.shape[0]), int(points[i, 1] * grid.shape[1])
        cuda.atomic.add(grid, (x, y), 1)


@loop
def histogram_2d_loop(points, grid):
    for i in range(points.shape[0]):
        x, y = int(points[i, 0] * grid.shape[0]), int(points[i, 1] * grid.shape[1])
        grid[x, y] += 1


@program("histogram-2d", 1 << 19, 2000)
def _(n, rng):
    points, grid = rng.random((n, 2)), np.zeros((40, 60), np.int64)

    def expect():
        cells = (points * (40, 60)).astype(int)
        return [(grid, np.bincount(cells[:, 0] * 60 + cells[:, 1], minlength=2400).reshape(40, 60))]

    return Made(
        [Launch(histogram_2d, over(n, 256), 256, (points, grid))],
        expect,
        [(histogram_2d_loop, (points, grid))],
        restore=(grid,),
    )


@cuda.jit
def weighted_counts(keys, weights, sums):
    i = cuda.grid(1)
    if i < keys.size:
        cuda.atomic.add(sums, keys[i], weights[i])


@loop
def weighted_counts_loop(keys, weights, sums):
    for i in range(keys.size):
        sums[keys[i]] += weights[i]


@program("group-sums-float64", 1 << 21, 2000)
def _(n, rng):
    keys, weights, sums = rng.integers(0, 1000, n, np.int32), rng.random(n), np.zeros(1000)
    return Made(
        [Launch(weighted_counts, over(n, 128), 128, (keys, weights, sums))],
        lambda: [(sums, np.bincount(keys, weights, 1000))],
        [(weighted_counts_loop, (keys, weights, sums))],
        restore=(sums,),
    )


@cuda.jit
def maxima_by_key(keys, x, best):
    i = cuda.grid(1)
    if i < keys.size:
        cuda.atomic.max(best, keys[i], x[i])


@loop
def maxima_by_key_loop(keys, x, best):
    for i in range(keys.size):
        best[keys[i]] = max(best[keys[i]], x[i])


@program("group-maxima", 1 << 21, 2000)
def _(n, rng):
    keys, x = rng.integers(0, 500, n, np.int32), rng.integers(0, 1 << 30, n, np.int32)
    best = np.zeros(500, np.int32)
    expected = best.copy()
    np.maximum.at(expected, keys, x)
    return Made(
        [Launch(maxima_by_key, over(n, 256), 256, (keys, x, best))],
        lambda: [(best, expected)],
        [(maxima_by_key_loop, (keys, x, best))],
        restore=(best,),
    )


@cuda.jit
def digit_counts(x, shift, counts):
    """The first part of a radix sort: how often each digit of four bits is in each block."""
    own = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        own[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(own, (x[i] >> shift) & 15, 1)
    cuda.syncthreads()
    if t < 16:
        counts[t, cuda.blockIdx.x] = own[t]


@parallel
def digit_counts_loop(x, shift, counts):
    for block in prange(counts.shape[1]):
        for d in range(16):
            counts[d, block] = 0
        for i in range(block * 256, min(block * 256 + 256, x.size)):
            counts[(x[i] >> shift) & 15, block] += 1


@program("radix-digit-counts", 1 << 21, 2000)
def _(n, rng):
    x = rng.integers(0, 1 << 30, n, np.uint32)
    blocks = over(n, 256)
    counts = np.zeros((16, blocks), np.int32)

    def expect():
        digits = ((x >> np.uint32(8)) & np.uint32(15)).astype(int)
        flat = digits * blocks + np.arange(n) // 256
        return [(counts, np.bincount(flat, minlength=16 * blocks).reshape(16, blocks))]

    args = (x, np.uint32(8), counts)
    return Made([Launch(digit_counts, blocks, 256, args)], expect, [(digit_counts_loop, args)])


@cuda.jit
def private_local(x, counts):
    """Each thread counts eight kinds in an array of its own, over a stretch of the data."""
    t = cuda.grid(1)
    own = cuda.local.array(8, int32)
    for k in range(8):
        own[k] = 0
    for i in range(t * 64, min(t * 64 + 64, x.size)):
        own[x[i]] += 1
    for k in range(8):
        if own[k]:
            cuda.atomic.add(counts, k, own[k])


@loop
def count_kinds_loop(x, counts):
    for i in range(x.size):
        counts[x[i]] += 1


@program("histogram-local-arrays", 1 << 21, 5000)
def _(n, rng):
    x, counts = rng.integers(0, 8, n, np.uint8), np.zeros(8, np.int32)
    return Made(
        [Launch(private_local, over(over(n, 64), 64), 64, (x, counts))],
        lambda: [(counts, np.bincount(x, minlength=8))],
        [(count_kinds_loop, (x, counts))],
        restore=(counts,),
    )


@cuda.jit
def deposit(x, charge, dx, rho):
    """Particles to a grid: each adds to the two points around it."""
    i = cuda.grid(1)
    if i < x.size:
        place = x[i] / dx
        left = int(place)
        part = float32(place - left)
        cuda.atomic.add(rho, left, charge[i] * (1 - part))
        cuda.atomic.add(rho, left + 1, charge[i] * part)


@loop
def deposit_loop(x, charge, dx, rho):
    for i in range(x.size):
        place = x[i] / dx
        left = int(place)
        part = float32(place - left)
        rho[left] += charge[i] * (1 - part)
        rho[left + 1] += charge[i] * part


@program("particles-to-grid", 1 << 19, 1500)
def _(n, rng):
    x, charge = rng.random(n), rng.normal(size=n).astype(np.float32)
    rho = np.zeros(130, np.float64)
    left = (x / (1 / 128)).astype(int)
    part = (x / (1 / 128) - left).astype(np.float32)

    def expect():
        sums = np.bincount(left, charge * (1 - part.astype(np.float64)), 130)
        return [(rho, sums + np.bincount(left + 1, charge * part.astype(np.float64), 130))]

    args = (x, charge, 1 / 128, rho)
    return Made(
        [Launch(deposit, over(n, 256), 256, args)],
        expect,
        [(deposit_loop, args)],
        restore=(rho,),
        tolerance=1e-4,
    )


@cuda.jit
def hash_insert(keys, table):
    """Open addressing by compare and swap: how many slots are taken does not depend on order."""
    i = cuda.grid(1)
    if i < keys.size:
        size = table.size
        slot = (keys[i] * 40503) % size
        while True:
            found = cuda.atomic.compare_and_swap(table[slot:], -1, keys[i])
            if found == -1 or found == keys[i]:
                break
            slot = (slot + 1) % size


@program("hash-table-compare-and-swap", 1 << 16, 400)
def _(n, rng):
    keys = rng.integers(0, n, n, np.int32)
    table, counted = np.full(2 * n + 1, -1, np.int32), np.zeros(1, np.int64)
    found = np.unique(keys)
    return Made(
        [
            Launch(hash_insert, over(n, 128), 128, (keys, table)),
            Launch(sum_of_taken, 1, 1, (table, counted)),
        ],
        lambda: [(counted, [found.astype(np.int64).sum()])],
        restore=(table, counted),
    )


@cuda.jit
def sum_of_taken(table, counted):
    for k in range(table.size):
        if table[k] >= 0:
            counted[0] += table[k]
