"""Neighbours, clusters, layers of networks."""

import math

import numpy as np
from numba import float32, float64, int32, prange

from benchmarks.corpus.program import Launch, Made, over, over2, parallel, program
from haulage import cuda


@cuda.jit
def nearest_five(points, queries, out):
    """The squared distances to the nearest five, in order."""
    q = cuda.grid(1)
    if q >= queries.shape[0]:
        return
    best = cuda.local.array(5, float64)
    for k in range(5):
        best[k] = 1e30
    for p in range(points.shape[0]):
        d = 0.0
        for k in range(points.shape[1]):
            d += (points[p, k] - queries[q, k]) ** 2
        if d < best[4]:
            k = 4
            while k > 0 and best[k - 1] > d:
                best[k] = best[k - 1]
                k -= 1
            best[k] = d
    for k in range(5):
        out[q, k] = best[k]


@parallel
def nearest_five_loop(points, queries, out):
    for q in prange(queries.shape[0]):
        best = np.full(5, 1e30)
        for p in range(points.shape[0]):
            d = 0.0
            for k in range(points.shape[1]):
                d += (points[p, k] - queries[q, k]) ** 2
            if d < best[4]:
                k = 4
                while k > 0 and best[k - 1] > d:
                    best[k] = best[k - 1]
                    k -= 1
                best[k] = d
        for k in range(5):
            out[q, k] = best[k]


@program("nearest-neighbours", 800, 40)
def _(n, rng):
    points, queries, out = rng.random((n, 4)), rng.random((n, 4)), np.zeros((n, 5))

    def expect():
        d = ((points[None] - queries[:, None]) ** 2).sum(2)
        return [(out, np.sort(d, axis=1)[:, :5])]

    return Made(
        [Launch(nearest_five, over(n, 64), 64, (points, queries, out))],
        expect,
        [(nearest_five_loop, (points, queries, out))],
    )


@cuda.jit
def assign_clusters(points, centres, labels):
    i = cuda.grid(1)
    if i < points.shape[0]:
        nearest = 0
        least = math.inf
        for c in range(centres.shape[0]):
            d = 0.0
            for k in range(points.shape[1]):
                off = points[i, k] - centres[c, k]
                d += off * off
            if d < least:
                least = d
                nearest = c
        labels[i] = nearest


@parallel
def assign_clusters_loop(points, centres, labels):
    for i in prange(points.shape[0]):
        nearest = 0
        least = math.inf
        for c in range(centres.shape[0]):
            d = 0.0
            for k in range(points.shape[1]):
                off = points[i, k] - centres[c, k]
                d += off * off
            if d < least:
                least = d
                nearest = c
        labels[i] = nearest


@program("k-means-assignment", 30000, 200)
def _(n, rng):
    points, centres, labels = rng.random((n, 3)), rng.random((12, 3)), np.zeros(n, np.int32)
    args = (points, centres, labels)

    def expect():
        return [(labels, ((points[:, None] - centres) ** 2).sum(2).argmin(1))]

    return Made(
        [Launch(assign_clusters, over(n, 128), 128, args)], expect, [(assign_clusters_loop, args)]
    )


@cuda.jit
def update_clusters(points, labels, sums, counts):
    i = cuda.grid(1)
    if i < points.shape[0]:
        c = labels[i]
        cuda.atomic.add(counts, c, 1)
        for k in range(points.shape[1]):
            cuda.atomic.add(sums, (c, k), points[i, k])


@program("k-means-sums-by-atomics", 400000, 300)
def _(n, rng):
    points, labels = rng.random((n, 3)), rng.integers(0, 12, n, np.int32)
    sums, counts = np.zeros((12, 3)), np.zeros(12, np.int32)

    def expect():
        totals = np.stack([np.bincount(labels, points[:, k], 12) for k in range(3)], axis=1)
        return [(sums, totals), (counts, np.bincount(labels, minlength=12))]

    return Made(
        [Launch(update_clusters, over(n, 256), 256, (points, labels, sums, counts))],
        expect,
        restore=(sums, counts),
    )


@cuda.jit
def softmax_rows(a, out):
    """A row a block: its maximum, its sum, then its elements."""
    room = cuda.shared.array(128, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    n = a.shape[1]
    most = float32(-1e30)
    for j in range(t, n, 128):
        most = max(most, a[row, j])
    room[t] = most
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            room[t] = max(room[t], room[t + s])
        cuda.syncthreads()
        s //= 2
    most = room[0]
    cuda.syncthreads()
    total = float32(0)
    for j in range(t, n, 128):
        total += math.exp(a[row, j] - most)
    room[t] = total
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            room[t] += room[t + s]
        cuda.syncthreads()
        s //= 2
    for j in range(t, n, 128):
        out[row, j] = math.exp(a[row, j] - most) / room[0]


@parallel
def softmax_rows_loop(a, out):
    for row in prange(a.shape[0]):
        most = float32(-1e30)
        for j in range(a.shape[1]):
            most = max(most, a[row, j])
        total = float32(0)
        for j in range(a.shape[1]):
            total += math.exp(a[row, j] - most)
        for j in range(a.shape[1]):
            out[row, j] = math.exp(a[row, j] - most) / total


@program("softmax-of-rows", 1500, 20)
def _(n, rng):
    a, out = rng.normal(size=(n, 500)).astype(np.float32), np.zeros((n, 500), np.float32)

    def expect():
        e = np.exp(a - a.max(1, keepdims=True))
        return [(out, e / e.sum(1, keepdims=True))]

    return Made([Launch(softmax_rows, n, 128, (a, out))], expect, [(softmax_rows_loop, (a, out))])


@cuda.jit
def attention_rows(q, k, v, out, scale):
    """Attention of one query a thread, with a running maximum and sum."""
    i = cuda.grid(1)
    if i >= q.shape[0]:
        return
    sums = cuda.local.array(16, float32)
    for d in range(16):
        sums[d] = 0
    most = float32(-1e30)
    total = float32(0)
    for j in range(k.shape[0]):
        score = float32(0)
        for d in range(16):
            score += q[i, d] * k[j, d]
        score *= scale
        higher = max(most, score)
        shrink = math.exp(most - higher)
        weight = math.exp(score - higher)
        total = total * shrink + weight
        for d in range(16):
            sums[d] = sums[d] * shrink + weight * v[j, d]
        most = higher
    for d in range(16):
        out[i, d] = sums[d] / total


@parallel
def attention_rows_loop(q, k, v, out, scale):
    for i in prange(q.shape[0]):
        sums = np.zeros(16, np.float32)
        most = float32(-1e30)
        total = float32(0)
        for j in range(k.shape[0]):
            score = float32(0)
            for d in range(16):
                score += q[i, d] * k[j, d]
            score *= scale
            higher = max(most, score)
            shrink = math.exp(most - higher)
            weight = math.exp(score - higher)
            total = total * shrink + weight
            for d in range(16):
                sums[d] = sums[d] * shrink + weight * v[j, d]
            most = higher
        for d in range(16):
            out[i, d] = sums[d] / total


def _attention(q, k, v, scale):
    s = q.astype(float) @ k.T * scale
    e = np.exp(s - s.max(1, keepdims=True))
    return e @ v / e.sum(1, keepdims=True)


@program("attention-a-query-a-thread", 384, 70)
def _(n, rng):
    q, k, v = (rng.normal(size=(n, 16)).astype(np.float32) for _ in range(3))
    out = np.zeros((n, 16), np.float32)
    args = (q, k, v, out, np.float32(0.25))
    return Made(
        [Launch(attention_rows, over(n, 32), 32, args)],
        lambda: [(out, _attention(q, k, v, 0.25))],
        [(attention_rows_loop, args)],
    )


@cuda.jit
def attention_block(q, k, v, out, scale):
    """Attention of one query a block: scores in shared memory, then a column a thread."""
    scores = cuda.shared.array(256, float32)
    room = cuda.shared.array(64, float32)
    i, t = cuda.blockIdx.x, cuda.threadIdx.x
    n = k.shape[0]
    for j in range(t, n, 64):
        s = float32(0)
        for d in range(q.shape[1]):
            s += q[i, d] * k[j, d]
        scores[j] = s * scale
    cuda.syncthreads()
    most = float32(-1e30)
    for j in range(n):
        most = max(most, scores[j])
    cuda.syncthreads()
    total = float32(0)
    for j in range(t, n, 64):
        scores[j] = math.exp(scores[j] - most)
        total += scores[j]
    room[t] = total
    cuda.syncthreads()
    s2 = 32
    while s2 > 0:
        if t < s2:
            room[t] += room[t + s2]
        cuda.syncthreads()
        s2 //= 2
    if t < v.shape[1]:
        value = float32(0)
        for j in range(n):
            value += scores[j] * v[j, t]
        out[i, t] = value / room[0]


@parallel
def attention_block_loop(q, k, v, out, scale):
    for i in prange(q.shape[0]):
        n = k.shape[0]
        scores = np.empty(n, np.float32)
        most = float32(-1e30)
        for j in range(n):
            s = float32(0)
            for d in range(q.shape[1]):
                s += q[i, d] * k[j, d]
            scores[j] = s * scale
            most = max(most, scores[j])
        total = float32(0)
        for j in range(n):
            scores[j] = math.exp(scores[j] - most)
            total += scores[j]
        for d in range(v.shape[1]):
            out[i, d] = 0
        for j in range(n):
            for d in range(v.shape[1]):
                out[i, d] += scores[j] * v[j, d] / total


@program("attention-a-query-a-block", 256, 60)
def _(n, rng):
    q, k, v = (rng.normal(size=(n, 32)).astype(np.float32) for _ in range(3))
    out = np.zeros((n, 32), np.float32)
    args = (q, k, v, out, np.float32(0.2))
    return Made(
        [Launch(attention_block, n, 64, args)],
        lambda: [(out, _attention(q, k, v, 0.2))],
        [(attention_block_loop, args)],
    )


@cuda.jit
def layer_norm(x, gain, bias, out):
    row = cuda.grid(1)
    if row < x.shape[0]:
        n = x.shape[1]
        mean = float32(0)
        for j in range(n):
            mean += x[row, j]
        mean /= n
        spread = float32(0)
        for j in range(n):
            spread += (x[row, j] - mean) * (x[row, j] - mean)
        inverse = 1.0 / math.sqrt(spread / n + 1e-5)
        for j in range(n):
            out[row, j] = (x[row, j] - mean) * inverse * gain[j] + bias[j]


@parallel
def layer_norm_loop(x, gain, bias, out):
    for row in prange(x.shape[0]):
        n = x.shape[1]
        mean = float32(0)
        for j in range(n):
            mean += x[row, j]
        mean /= n
        spread = float32(0)
        for j in range(n):
            spread += (x[row, j] - mean) * (x[row, j] - mean)
        inverse = 1.0 / math.sqrt(spread / n + 1e-5)
        for j in range(n):
            out[row, j] = (x[row, j] - mean) * inverse * gain[j] + bias[j]


@program("layer-norm-a-row-a-thread", 3000, 60)
def _(n, rng):
    x = rng.normal(size=(n, 256)).astype(np.float32)
    gain, bias = rng.random(256, np.float32), rng.random(256, np.float32)
    out = np.zeros((n, 256), np.float32)

    def expect():
        mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
        return [(out, (x - mean) / np.sqrt(var + 1e-5) * gain + bias)]

    args = (x, gain, bias, out)
    return Made([Launch(layer_norm, over(n, 64), 64, args)], expect, [(layer_norm_loop, args)])


@cuda.jit
def dense_relu(x, w, b, out):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        total = b[j]
        for k in range(x.shape[1]):
            total += x[i, k] * w[k, j]
        out[i, j] = total if total > 0 else float32(0)


@parallel
def dense_relu_loop(x, w, b, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            total = b[j]
            for k in range(x.shape[1]):
                total += x[i, k] * w[k, j]
            out[i, j] = total if total > 0 else float32(0)


@program("dense-layer-relu", 1600, 30)
def _(n, rng):
    x, w = rng.normal(size=(n, 128)).astype(np.float32), rng.normal(size=(128, 100))
    w, b = w.astype(np.float32), rng.normal(size=100).astype(np.float32)
    out = np.zeros((n, 100), np.float32)
    args = (x, w, b, out)
    return Made(
        [Launch(dense_relu, over2((100, n), (32, 8)), (32, 8), args)],
        lambda: [(out, np.maximum(x.astype(float) @ w + b, 0))],
        [(dense_relu_loop, args)],
    )


@cuda.jit
def pool_2x2(x, out):
    j, i, c = cuda.grid(3)
    if c < out.shape[0] and i < out.shape[1] and j < out.shape[2]:
        best = x[c, 2 * i, 2 * j]
        for di in range(2):
            for dj in range(2):
                best = max(best, x[c, 2 * i + di, 2 * j + dj])
        out[c, i, j] = best


@parallel
def pool_2x2_loop(x, out):
    for c in prange(out.shape[0]):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                best = x[c, 2 * i, 2 * j]
                for di in range(2):
                    for dj in range(2):
                        best = max(best, x[c, 2 * i + di, 2 * j + dj])
                out[c, i, j] = best


@program("max-pooling", 64, 3)
def _(n, rng):
    x = rng.random((n, 200, 260), np.float32)
    out = np.zeros((n, 100, 130), np.float32)
    return Made(
        [Launch(pool_2x2, over2((130, 100, n), (16, 16, 1)), (16, 16, 1), (x, out))],
        lambda: [(out, x.reshape(n, 100, 2, 130, 2).max((2, 4)))],
        [(pool_2x2_loop, (x, out))],
    )


@cuda.jit
def pairwise(a, b, out):
    """Distances by tiles of 16 rows of both in shared memory."""
    rows_a = cuda.shared.array((16, 17), float64)
    rows_b = cuda.shared.array((16, 17), float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.y * 16 + ty, cuda.blockIdx.x * 16 + tx
    total = 0.0
    for start in range(0, a.shape[1], 16):
        rows_a[ty, tx] = a[i, start + tx]
        rows_b[ty, tx] = b[cuda.blockIdx.x * 16 + ty, start + tx]
        cuda.syncthreads()
        for k in range(16):
            off = rows_a[ty, k] - rows_b[tx, k]
            total += off * off
        cuda.syncthreads()
    out[i, j] = math.sqrt(total)


@parallel
def pairwise_loop(a, b, out):
    for i in prange(a.shape[0]):
        for j in range(b.shape[0]):
            total = 0.0
            for k in range(a.shape[1]):
                off = a[i, k] - b[j, k]
                total += off * off
            out[i, j] = math.sqrt(total)


@program("pairwise-distances-tiles", 320, 32)
def _(n, rng):
    a, b, out = rng.random((n, 64)), rng.random((n, 64)), np.zeros((n, n))

    def expect():
        return [(out, np.sqrt(((a[:, None] - b) ** 2).sum(2)))]

    return Made(
        [Launch(pairwise, (n // 16, n // 16), (16, 16), (a, b, out))],
        expect,
        [(pairwise_loop, (a, b, out))],
    )


@cuda.jit
def walk_trees(x, feature, limit, left, value, out):
    """Decision trees of a forest: each thread goes down all of them with its sample."""
    i = cuda.grid(1)
    if i >= x.shape[0]:
        return
    total = float32(0)
    for tree in range(feature.shape[0]):
        node = 0
        while left[tree, node] > 0:
            if x[i, feature[tree, node]] <= limit[tree, node]:
                node = left[tree, node]
            else:
                node = left[tree, node] + 1
        total += value[tree, node]
    out[i] = total


@parallel
def walk_trees_loop(x, feature, limit, left, value, out):
    for i in prange(x.shape[0]):
        total = float32(0)
        for tree in range(feature.shape[0]):
            node = 0
            while left[tree, node] > 0:
                if x[i, feature[tree, node]] <= limit[tree, node]:
                    node = left[tree, node]
                else:
                    node = left[tree, node] + 1
            total += value[tree, node]
        out[i] = total


@program("decision-trees", 8000, 90)
def _(n, rng):
    trees, depth, features = 16, 6, 10
    nodes = 2 ** (depth + 1) - 1
    x, out = rng.random((n, features), np.float32), np.zeros(n, np.float32)
    feature = rng.integers(0, features, (trees, nodes), np.int32)
    limit, value = rng.random((trees, nodes), np.float32), rng.random((trees, nodes), np.float32)
    left = np.tile(2 * np.arange(nodes, dtype=np.int32) + 1, (trees, 1))
    left[:, 2**depth - 1 :] = 0
    left[rng.random((trees, nodes)) < 0.15] = 0

    def expect():
        total = np.zeros(n)
        for t in range(trees):
            node = np.zeros(n, int)
            for _ in range(depth):
                right = x[np.arange(n), feature[t, node]] > limit[t, node]
                node = np.where(left[t, node] > 0, left[t, node] + right, node)
            total += value[t, node]
        return [(out, total)]

    args = (x, feature, limit, left, value, out)
    return Made([Launch(walk_trees, over(n, 128), 128, args)], expect, [(walk_trees_loop, args)])


@cuda.jit
def logistic_gradient(x, y, w, gradient):
    """Partial sums of a block in shared memory, one column after another, then atomics."""
    room = cuda.shared.array(128, float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    off = 0.0
    if i < x.shape[0]:
        z = 0.0
        for k in range(w.size):
            z += x[i, k] * w[k]
        off = 1.0 / (1.0 + math.exp(-z)) - y[i]
    for k in range(w.size):
        room[t] = off * x[i, k] if i < x.shape[0] else 0.0
        cuda.syncthreads()
        s = 64
        while s > 0:
            if t < s:
                room[t] += room[t + s]
            cuda.syncthreads()
            s //= 2
        if t == 0:
            cuda.atomic.add(gradient, k, room[0])
        cuda.syncthreads()


@program("logistic-regression-gradient", 80000, 300)
def _(n, rng):
    x, w, gradient = rng.normal(size=(n, 8)), rng.normal(size=8), np.zeros(8)
    y = rng.integers(0, 2, n).astype(float)

    def expect():
        return [(gradient, (1 / (1 + np.exp(-x @ w)) - y) @ x)]

    return Made(
        [Launch(logistic_gradient, over(n, 128), 128, (x, y, w, gradient))],
        expect,
        restore=(gradient,),
    )


@cuda.jit
def embed(tokens, table, places, out):
    d, t = cuda.grid(2)
    if t < tokens.size and d < table.shape[1]:
        out[t, d] = table[tokens[t], d] + places[t % places.shape[0], d]


@parallel
def embed_loop(tokens, table, places, out):
    for t in prange(tokens.size):
        for d in range(table.shape[1]):
            out[t, d] = table[tokens[t], d] + places[t % places.shape[0], d]


@program("embedding-rows", 40000, 90)
def _(n, rng):
    tokens = rng.integers(0, 500, n, np.int32)
    table, places = rng.random((500, 64), np.float32), rng.random((128, 64), np.float32)
    out = np.zeros((n, 64), np.float32)
    args = (tokens, table, places, out)
    return Made(
        [Launch(embed, (1, over(n, 4)), (64, 4), args)],
        lambda: [(out, table[tokens] + places[np.arange(n) % 128])],
        [(embed_loop, args)],
    )


@cuda.jit
def conv_channels(x, w, out):
    """A convolution of 3 x 3 over channels; the grid's third axis is the output channel."""
    j, i, o = cuda.grid(3)
    if i < out.shape[1] and j < out.shape[2] and o < out.shape[0]:
        total = float32(0)
        for c in range(x.shape[0]):
            for p in range(3):
                for q in range(3):
                    total += w[o, c, p, q] * x[c, i + p, j + q]
        out[o, i, j] = total


@parallel
def conv_channels_loop(x, w, out):
    for o in prange(out.shape[0]):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                total = float32(0)
                for c in range(x.shape[0]):
                    for p in range(3):
                        for q in range(3):
                            total += w[o, c, p, q] * x[c, i + p, j + q]
                out[o, i, j] = total


@program("convolution-layer", 256, 12)
def _(n, rng):
    x, w = rng.random((8, n + 2, n + 2), np.float32), rng.random((16, 8, 3, 3), np.float32)
    out = np.zeros((16, n, n), np.float32)

    def expect():
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
        return [(out, np.einsum("cijpq,ocpq->oij", windows, w))]

    return Made(
        [Launch(conv_channels, (over(n, 16), over(n, 8), 16), (16, 8, 1), (x, w, out))],
        expect,
        [(conv_channels_loop, (x, w, out))],
    )


@cuda.jit
def confusion(truth, guess, matrix):
    own = cuda.shared.array((10, 10), int32)
    t = cuda.threadIdx.x
    if t < 100:
        own[t // 10, t % 10] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < truth.size:
        cuda.atomic.add(own, (truth[i], guess[i]), 1)
    cuda.syncthreads()
    if t < 100 and own[t // 10, t % 10] > 0:
        cuda.atomic.add(matrix, (t // 10, t % 10), own[t // 10, t % 10])


@program("confusion-matrix-shared", 1 << 18, 900)
def _(n, rng):
    truth, guess = (rng.integers(0, 10, n, np.uint8) for _ in "ab")
    matrix = np.zeros((10, 10), np.int32)

    def expect():
        flat = truth.astype(int) * 10 + guess
        return [(matrix, np.bincount(flat, minlength=100).reshape(10, 10))]

    return Made(
        [Launch(confusion, over(n, 128), 128, (truth, guess, matrix))],
        expect,
        restore=(matrix,),
    )
