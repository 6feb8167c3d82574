"""Words of warps: shuffles, votes, and what is made of them."""

import numpy as np
from numba import float32, float64, int32, prange

from benchmarks.corpus.program import Launch, Made, loop, over, parallel, program
from haulage import cuda

ALL = 0xFFFFFFFF


@cuda.jit
def warp_sums(x, out):
    i = cuda.grid(1)
    value = x[i] if i < x.size else float32(0)
    for k in range(5):
        value += cuda.shfl_xor_sync(ALL, value, 1 << k)
    if cuda.laneid == 0 and i < x.size:
        out[i // 32] = value


@parallel
def warp_sums_loop(x, out):
    for w in prange(out.size):
        total = float32(0)
        for i in range(w * 32, w * 32 + 32):
            total += x[i]
        out[w] = total


@program("warp-sums-xor", 1 << 22, 3200)
def _(n, rng):
    x, out = rng.random(n, np.float32), np.zeros(n // 32, np.float32)
    return Made(
        [Launch(warp_sums, over(n, 256), 256, (x, out))],
        lambda: [(out, x.reshape(-1, 32).sum(1))],
        [(warp_sums_loop, (x, out))],
    )


@cuda.jit
def warp_scan(x, out):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x % 32
    value = x[i]
    step = 1
    while step < 32:
        other = cuda.shfl_up_sync(ALL, value, step)
        if lane >= step:
            value += other
        step *= 2
    out[i] = value


@parallel
def warp_scan_loop(x, out):
    for w in prange(x.size // 32):
        total = 0
        for i in range(w * 32, w * 32 + 32):
            total += x[i]
            out[i] = total


@program("warp-scan-up", 1 << 22, 3200)
def _(n, rng):
    x, out = rng.integers(0, 50, n, np.int32), np.zeros(n, np.int32)
    return Made(
        [Launch(warp_scan, n // 64, 64, (x, out))],
        lambda: [(out, np.cumsum(x.reshape(-1, 32), axis=1).ravel())],
        [(warp_scan_loop, (x, out))],
    )


@cuda.jit
def scan_of_warps(x, out):
    """A scan of 256 elements: in warps by shuffles, then of the eight sums, then both together."""
    sums = cuda.shared.array(32, float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    lane, warp = t & 31, t >> 5
    value = x[i]
    for k in range(5):
        other = cuda.shfl_up_sync(ALL, value, 1 << k)
        if lane >= (1 << k):
            value += other
    if lane == 31:
        sums[warp] = value
    cuda.syncthreads()
    if warp == 0:
        total = sums[lane] if lane < 8 else 0.0
        for k in range(5):
            other = cuda.shfl_up_sync(ALL, total, 1 << k)
            if lane >= (1 << k):
                total += other
        sums[lane] = total
    cuda.syncthreads()
    if warp > 0:
        value += sums[warp - 1]
    out[i] = value


@parallel
def scan_256_loop(x, out):
    for block in prange(x.size // 256):
        total = 0.0
        for i in range(block * 256, block * 256 + 256):
            total += x[i]
            out[i] = total


@program("scan-of-warps", 1 << 21, 2560)
def _(n, rng):
    x, out = rng.random(n), np.zeros(n)
    return Made(
        [Launch(scan_of_warps, n // 256, 256, (x, out))],
        lambda: [(out, np.cumsum(x.reshape(-1, 256), axis=1).ravel())],
        [(scan_256_loop, (x, out))],
    )


@cuda.jit
def vote_counts(x, limit, counts):
    i = cuda.grid(1)
    above = i < x.size and x[i] > limit
    votes = cuda.ballot_sync(ALL, above)
    if cuda.laneid == 0:
        counts[i // 32] = cuda.popc(votes)


@parallel
def vote_counts_loop(x, limit, counts):
    for w in prange(counts.size):
        total = 0
        for i in range(w * 32, min(w * 32 + 32, x.size)):
            total += x[i] > limit
        counts[w] = total


@program("ballot-counts", 1 << 23, 2560)
def _(n, rng):
    x, counts = rng.random(n, np.float32), np.zeros(n // 32, np.int32)
    args = (x, np.float32(0.3), counts)
    return Made(
        [Launch(vote_counts, n // 128, 128, args)],
        lambda: [(counts, (x > np.float32(0.3)).reshape(-1, 32).sum(1))],
        [(vote_counts_loop, args)],
    )


@cuda.jit
def compact_by_ballots(x, limit, out, count):
    """One atomic operation a warp: lanes find their places by the votes below them."""
    i = cuda.grid(1)
    lane = cuda.laneid
    keep = i < x.size and x[i] > limit
    votes = cuda.ballot_sync(ALL, keep)
    place = 0
    if lane == 0:
        place = cuda.atomic.add(count, 0, cuda.popc(votes))
    place = cuda.shfl_sync(ALL, place, 0)
    if keep:
        out[place + cuda.popc(votes & ((1 << lane) - 1))] = x[i]


@loop
def compact_loop(x, limit, out, count):
    found = 0
    for i in range(x.size):
        if x[i] > limit:
            out[found] = x[i]
            found += 1
    count[0] = found


@program("compaction-by-ballots", 1 << 19, 2560)
def _(n, rng):
    x, out, count = rng.integers(0, 1000, n, np.int32), np.zeros(n, np.int32), np.zeros(1, np.int32)
    args = (x, 600, out, count)
    return Made(
        [Launch(compact_by_ballots, n // 128, 128, args)],
        lambda: [(count, [(x > 600).sum()])],
        [(compact_loop, args)],
        restore=(count,),
    )


@cuda.jit
def warp_argmin(x, best, where):
    i = cuda.grid(1)
    value = x[i]
    place = int32(i)
    step = 16
    while step > 0:
        other = cuda.shfl_down_sync(ALL, value, step)
        other_place = cuda.shfl_down_sync(ALL, place, step)
        if other < value:
            value = other
            place = other_place
        step //= 2
    if cuda.threadIdx.x % 32 == 0:
        best[i // 32] = value
        where[i // 32] = place


@parallel
def warp_argmin_loop(x, best, where):
    for w in prange(best.size):
        value, place = x[w * 32], w * 32
        for i in range(w * 32 + 1, w * 32 + 32):
            if x[i] < value:
                value, place = x[i], i
        best[w] = value
        where[w] = place


@program("warp-argmin", 1 << 22, 1280)
def _(n, rng):
    x = rng.permutation(n).astype(np.float32)
    best, where = np.zeros(n // 32, np.float32), np.zeros(n // 32, np.int32)

    def expect():
        rows = x.reshape(-1, 32)
        return [(best, rows.min(1)), (where, rows.argmin(1) + 32 * np.arange(n // 32))]

    return Made(
        [Launch(warp_argmin, n // 128, 128, (x, best, where))],
        expect,
        [(warp_argmin_loop, (x, best, where))],
    )


@cuda.jit
def any_above(x, limit, flags):
    i = cuda.grid(1)
    if cuda.any_sync(ALL, x[i] > limit):
        flags[i] = 2 if cuda.all_sync(ALL, x[i] > limit) else 1
    else:
        flags[i] = 0


@program("any-and-all", 1 << 22, 1280)
def _(n, rng):
    x, flags = rng.random(n, np.float32), np.zeros(n, np.int8)
    limit = np.float32(0.97)
    above = (x > limit).reshape(-1, 32)

    def expect():
        told = np.where(above.all(1), 2, above.any(1).astype(int))
        return [(flags, np.repeat(told, 32))]

    return Made([Launch(any_above, n // 256, 256, (x, limit, flags))], expect)
