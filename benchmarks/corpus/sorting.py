"""Sorting, searching, merging, selecting."""

import numpy as np
from numba import float32, float64, int32, prange

from benchmarks.corpus.program import Launch, Made, over, parallel, program
from haulage import cuda


@cuda.jit
def bitonic_in_block(x, out):
    room = cuda.shared.array(256, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    room[t] = x[i]
    cuda.syncthreads()
    k = 2
    while k <= 256:
        j = k // 2
        while j > 0:
            other = t ^ j
            if other > t:
                a, b = room[t], room[other]
                if (t & k) == 0:
                    if a > b:
                        room[t], room[other] = b, a
                elif a < b:
                    room[t], room[other] = b, a
            cuda.syncthreads()
            j //= 2
        k *= 2
    out[i] = room[t]


@parallel
def sort_rows_256(x, out):
    for block in prange(x.size // 256):
        out[block * 256 : block * 256 + 256] = np.sort(x[block * 256 : block * 256 + 256])


@program("bitonic-in-shared", 1 << 17, 1024)
def _(n, rng):
    x, out = rng.random(n, np.float32), np.zeros(n, np.float32)
    return Made(
        [Launch(bitonic_in_block, n // 256, 256, (x, out))],
        lambda: [(out, np.sort(x.reshape(-1, 256)).ravel())],
        [(sort_rows_256, (x, out))],
    )


@cuda.jit
def bitonic_step(x, j, k):
    i = cuda.grid(1)
    other = i ^ j
    if i < x.size and other > i:
        up = (i & k) == 0
        if (x[i] > x[other]) == up:
            x[i], x[other] = x[other], x[i]


@parallel
def bitonic_step_loop(x, j, k):
    for i in prange(x.size):
        other = i ^ j
        if other > i:
            up = (i & k) == 0
            if (x[i] > x[other]) == up:
                x[i], x[other] = x[other], x[i]


@program("bitonic-global-steps", 1 << 15, 1 << 8)
def _(n, rng):
    x = rng.permutation(n).astype(np.float64)
    steps = [(1 << b, 1 << (a + 1)) for a in range(n.bit_length() - 1) for b in range(a, -1, -1)]
    return Made(
        [Launch(bitonic_step, over(n, 256), 256, (x, j, k)) for j, k in steps],
        lambda: [(x, np.sort(x))],
        [(bitonic_step_loop, (x, j, k)) for j, k in steps],
        restore=(x,),
    )


@cuda.jit
def odd_even_in_block(x, out):
    room = cuda.shared.array(64, int32)
    t, start = cuda.threadIdx.x, cuda.blockIdx.x * 64
    room[t] = x[start + t]
    cuda.syncthreads()
    for phase in range(64):
        if t % 2 == phase % 2 and t + 1 < 64 and room[t] > room[t + 1]:
            room[t], room[t + 1] = room[t + 1], room[t]
        cuda.syncthreads()
    out[start + t] = room[t]


@parallel
def odd_even_loop(x, out):
    for block in prange(x.size // 64):
        room = x[block * 64 : block * 64 + 64].copy()
        for phase in range(64):
            for t in range(phase % 2, 63, 2):
                if room[t] > room[t + 1]:
                    room[t], room[t + 1] = room[t + 1], room[t]
        out[block * 64 : block * 64 + 64] = room


@program("odd-even-transposition", 1 << 15, 640)
def _(n, rng):
    x, out = rng.integers(0, 1 << 20, n, np.int32), np.zeros(n, np.int32)
    return Made(
        [Launch(odd_even_in_block, n // 64, 64, (x, out))],
        lambda: [(out, np.sort(x.reshape(-1, 64)).ravel())],
        [(odd_even_loop, (x, out))],
    )


@cuda.jit
def rank_sort(x, out):
    i = cuda.grid(1)
    n = x.size
    if i < n:
        rank = 0
        for j in range(n):
            if x[j] < x[i] or (x[j] == x[i] and j < i):
                rank += 1
        out[rank] = x[i]


@parallel
def rank_sort_loop(x, out):
    n = x.size
    for i in prange(n):
        rank = 0
        for j in range(n):
            if x[j] < x[i] or (x[j] == x[i] and j < i):
                rank += 1
        out[rank] = x[i]


@program("rank-sort", 4000, 130)
def _(n, rng):
    x, out = rng.integers(0, n, n).astype(np.float32), np.zeros(n, np.float32)
    return Made(
        [Launch(rank_sort, over(n, 128), 128, (x, out))],
        lambda: [(out, np.sort(x))],
        [(rank_sort_loop, (x, out))],
    )


@cuda.jit
def lower_bounds(table, queries, out):
    i = cuda.grid(1)
    if i < queries.size:
        low, high = 0, table.size
        while low < high:
            middle = (low + high) // 2
            if table[middle] < queries[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low


@parallel
def lower_bounds_loop(table, queries, out):
    for i in prange(queries.size):
        low, high = 0, table.size
        while low < high:
            middle = (low + high) // 2
            if table[middle] < queries[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low


@program("binary-search", 1 << 17, 1200)
def _(n, rng):
    table, queries, out = np.sort(rng.random(10007)), rng.random(n), np.zeros(n, np.int64)
    return Made(
        [Launch(lower_bounds, over(n, 256), 256, (table, queries, out))],
        lambda: [(out, np.searchsorted(table, queries))],
        [(lower_bounds_loop, (table, queries, out))],
    )


@cuda.jit
def merge_by_ranks(a, b, out):
    """Each element finds its place by a search in the other array."""
    i = cuda.grid(1)
    n, m = a.size, b.size
    if i < n:
        low, high = 0, m
        while low < high:
            mid = (low + high) >> 1
            if b[mid] < a[i]:
                low = mid + 1
            else:
                high = mid
        out[i + low] = a[i]
    elif i < n + m:
        j = i - n
        low, high = 0, n
        while low < high:
            mid = (low + high) >> 1
            if a[mid] <= b[j]:
                low = mid + 1
            else:
                high = mid
        out[j + low] = b[j]


@program("merge-by-ranks", 1 << 16, 700)
def _(n, rng):
    a, b = np.sort(rng.integers(0, n, n)), np.sort(rng.integers(0, n, n + 99))
    out = np.zeros(2 * n + 99, np.int64)
    return Made(
        [Launch(merge_by_ranks, over(out.size, 128), 128, (a, b, out))],
        lambda: [(out, np.sort(np.concatenate([a, b])))],
    )


@cuda.jit
def sort_local(x, out):
    row = cuda.grid(1)
    if row >= x.shape[0]:
        return
    own = cuda.local.array(16, float64)
    for k in range(16):
        value = x[row, k]
        j = k - 1
        while j >= 0 and own[j] > value:
            own[j + 1] = own[j]
            j -= 1
        own[j + 1] = value
    for k in range(16):
        out[row, k] = own[k]


@parallel
def sort_local_loop(x, out):
    for row in prange(x.shape[0]):
        own = np.empty(16)
        for k in range(16):
            value = x[row, k]
            j = k - 1
            while j >= 0 and own[j] > value:
                own[j + 1] = own[j]
                j -= 1
            own[j + 1] = value
        for k in range(16):
            out[row, k] = own[k]


@program("insertion-sort-local-array", 20000, 140)
def _(n, rng):
    x, out = rng.random((n, 16)), np.zeros((n, 16))
    return Made(
        [Launch(sort_local, over(n, 64), 64, (x, out))],
        lambda: [(out, np.sort(x, axis=1))],
        [(sort_local_loop, (x, out))],
    )


@cuda.jit
def best_five(x, out):
    """The five largest of a row, kept in order in an array of the thread's own."""
    row = cuda.grid(1)
    if row < x.shape[0]:
        best = cuda.local.array(5, float32)
        for k in range(5):
            best[k] = -1e30
        for j in range(x.shape[1]):
            value = x[row, j]
            if value > best[4]:
                k = 4
                while k > 0 and best[k - 1] < value:
                    best[k] = best[k - 1]
                    k -= 1
                best[k] = value
        for k in range(5):
            out[row, k] = best[k]


@parallel
def best_five_loop(x, out):
    for row in prange(x.shape[0]):
        best = np.full(5, float32(-1e30))
        for j in range(x.shape[1]):
            value = x[row, j]
            if value > best[4]:
                k = 4
                while k > 0 and best[k - 1] < value:
                    best[k] = best[k - 1]
                    k -= 1
                best[k] = value
        for k in range(5):
            out[row, k] = best[k]


@program("five-largest-of-rows", 5000, 90)
def _(n, rng):
    x, out = rng.random((n, 200), np.float32), np.zeros((n, 5), np.float32)
    return Made(
        [Launch(best_five, over(n, 64), 64, (x, out))],
        lambda: [(out, -np.sort(-x, axis=1)[:, :5])],
        [(best_five_loop, (x, out))],
    )


@cuda.jit
def split_by_bit(x, bit, out):
    """One step of a radix sort in a block: zeros first, by a scan of flags."""
    ones = cuda.shared.array(128, int32)
    t, start = cuda.threadIdx.x, cuda.blockIdx.x * 128
    value = x[start + t]
    flag = (value >> bit) & 1
    ones[t] = flag
    cuda.syncthreads()
    step = 1
    while step < 128:
        before = ones[t - step] if t >= step else 0
        cuda.syncthreads()
        ones[t] += before
        cuda.syncthreads()
        step *= 2
    zeros = 128 - ones[127]
    place = zeros + ones[t] - 1 if flag else t - ones[t]
    out[start + place] = value


@parallel
def split_by_bit_loop(x, bit, out):
    for block in prange(x.size // 128):
        place = block * 128
        for wanted in range(2):
            for i in range(block * 128, block * 128 + 128):
                if ((x[i] >> bit) & 1) == wanted:
                    out[place] = x[i]
                    place += 1


@program("radix-split", 1 << 20, 640)
def _(n, rng):
    x, out = rng.integers(0, 1 << 16, n, np.int32), np.zeros(n, np.int32)

    def expect():
        rows = x.reshape(-1, 128)
        order = np.argsort((rows >> 3) & 1, axis=1, kind="stable")
        return [(out, np.take_along_axis(rows, order, 1).ravel())]

    return Made(
        [Launch(split_by_bit, n // 128, 128, (x, 3, out))],
        expect,
        [(split_by_bit_loop, (x, 3, out))],
    )


@cuda.jit
def median_of_five(x, out):
    i = cuda.grid(1)
    n = x.size
    if i < 2 or i >= n - 2:
        if i < n:
            out[i] = x[i]
        return
    a, b, c, d, e = x[i - 2], x[i - 1], x[i], x[i + 1], x[i + 2]
    a, b = min(a, b), max(a, b)
    d, e = min(d, e), max(d, e)
    low = max(a, d)
    high = min(b, e)
    c = max(min(c, max(low, high)), min(low, high))
    out[i] = c


@parallel
def median_of_five_loop(x, out):
    n = x.size
    for i in prange(n):
        if i < 2 or i >= n - 2:
            out[i] = x[i]
        else:
            a, b, c, d, e = x[i - 2], x[i - 1], x[i], x[i + 1], x[i + 2]
            a, b = min(a, b), max(a, b)
            d, e = min(d, e), max(d, e)
            low = max(a, d)
            high = min(b, e)
            out[i] = max(min(c, max(low, high)), min(low, high))


@program("median-of-five", 1 << 21, 1000)
def _(n, rng):
    x, out = rng.random(n), np.zeros(n)

    def expect():
        windows = np.lib.stride_tricks.sliding_window_view(x, 5)
        return [(out, np.concatenate([x[:2], np.median(windows, axis=1), x[-2:]]))]

    return Made(
        [Launch(median_of_five, over(n, 256), 256, (x, out))],
        expect,
        [(median_of_five_loop, (x, out))],
    )


@cuda.jit
def bracket(edges, x, out):
    """The cell of a few edges that each value lies in, by a linear search."""
    i = cuda.grid(1)
    if i < x.size:
        for k in range(edges.size):
            if x[i] < edges[k]:
                out[i] = k
                return
        out[i] = edges.size


@parallel
def bracket_loop(edges, x, out):
    for i in prange(x.size):
        out[i] = edges.size
        for k in range(edges.size):
            if x[i] < edges[k]:
                out[i] = k
                break


@program("linear-search-early-return", 1 << 18, 1000)
def _(n, rng):
    edges, x = np.sort(rng.random(20)), rng.random(n)
    out = np.zeros(n, np.int32)
    return Made(
        [Launch(bracket, over(n, 128), 128, (edges, x, out))],
        lambda: [(out, np.searchsorted(edges, x, "right"))],
        [(bracket_loop, (edges, x, out))],
    )


@cuda.jit
def interpolate(xs, ys, at, out):
    i = cuda.grid(1)
    if i < at.size:
        low, high = 0, xs.size - 1
        while high - low > 1:
            mid = (low + high) // 2
            if xs[mid] <= at[i]:
                low = mid
            else:
                high = mid
        t = (at[i] - xs[low]) / (xs[low + 1] - xs[low])
        out[i] = float64(ys[low] * (1 - t) + ys[low + 1] * t)


@parallel
def interpolate_loop(xs, ys, at, out):
    for i in prange(at.size):
        low, high = 0, xs.size - 1
        while high - low > 1:
            mid = (low + high) // 2
            if xs[mid] <= at[i]:
                low = mid
            else:
                high = mid
        t = (at[i] - xs[low]) / (xs[low + 1] - xs[low])
        out[i] = ys[low] * (1 - t) + ys[low + 1] * t


@program("interpolation-in-a-table", 1 << 17, 900)
def _(n, rng):
    xs = np.concatenate([[0.0], np.sort(rng.random(500)), [1.0]])
    ys, at, out = rng.random(502), rng.random(n), np.zeros(n)
    return Made(
        [Launch(interpolate, over(n, 192), 192, (xs, ys, at, out))],
        lambda: [(out, np.interp(at, xs, ys))],
        [(interpolate_loop, (xs, ys, at, out))],
    )
