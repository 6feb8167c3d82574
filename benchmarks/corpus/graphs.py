"""Graphs in compressed rows."""

import numpy as np
from numba import prange

from benchmarks.corpus.program import Launch, Made, over, over2, parallel, program
from haulage import cuda


def _graph(n, degree, rng):
    """Offsets and neighbours of n vertices, in both directions, sorted and without doubles."""
    a, b = rng.integers(0, n, n * degree // 2), rng.integers(0, n, n * degree // 2)
    pairs = np.unique(np.concatenate([a * n + b, b * n + a])[np.tile(a != b, 2)])
    source, target = pairs // n, pairs % n
    offsets = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=n))])
    return offsets.astype(np.int32), target.astype(np.int32)


@cuda.jit
def bfs_level(offsets, neighbours, level, now, changed):
    v = cuda.grid(1)
    if v < level.size and level[v] == now:
        for e in range(offsets[v], offsets[v + 1]):
            w = neighbours[e]
            if level[w] < 0:
                level[w] = now + 1
                changed[0] = 1


@parallel
def bfs_level_loop(offsets, neighbours, level, now, changed):
    for v in prange(level.size):
        if level[v] == now:
            for e in range(offsets[v], offsets[v + 1]):
                w = neighbours[e]
                if level[w] < 0:
                    level[w] = now + 1
                    changed[0] = 1


@program("breadth-first-levels", 1 << 16, 300)
def _(n, rng):
    offsets, neighbours = _graph(n, 8, rng)
    level, changed = np.full(n, -1, np.int32), np.zeros(1, np.int32)
    level[0] = 0

    def expect():
        out, sources = level.copy(), np.repeat(np.arange(n), np.diff(offsets))
        for now in range(6):
            reached = neighbours[out[sources] == now]
            out[reached[out[reached] < 0]] = now + 1
        return [(level, out)]

    calls = [(offsets, neighbours, level, now, changed) for now in range(6)]
    return Made(
        [Launch(bfs_level, over(n, 256), 256, args) for args in calls],
        expect,
        [(bfs_level_loop, args) for args in calls],
        restore=(level, changed),
    )


@cuda.jit
def page_rank(offsets, neighbours, degree, rank, new, damping):
    v = cuda.grid(1)
    n = rank.size
    if v < n:
        total = 0.0
        for e in range(offsets[v], offsets[v + 1]):
            u = neighbours[e]
            total += rank[u] / degree[u]
        new[v] = (1 - damping) / n + damping * total


@parallel
def page_rank_loop(offsets, neighbours, degree, rank, new, damping):
    n = rank.size
    for v in prange(n):
        total = 0.0
        for e in range(offsets[v], offsets[v + 1]):
            u = neighbours[e]
            total += rank[u] / degree[u]
        new[v] = (1 - damping) / n + damping * total


@program("page-rank-pull", 1 << 16, 250)
def _(n, rng):
    offsets, neighbours = _graph(n, 10, rng)
    degree = np.maximum(np.diff(offsets), 1).astype(np.int32)
    rank, new = rng.random(n), np.zeros(n)
    args = (offsets, neighbours, degree, rank, new, 0.85)

    def expect():
        given = (rank / degree)[neighbours]
        sums = np.bincount(np.repeat(np.arange(n), np.diff(offsets)), given, n)
        return [(new, 0.15 / n + 0.85 * sums)]

    return Made([Launch(page_rank, over(n, 128), 128, args)], expect, [(page_rank_loop, args)])


@cuda.jit
def relax_edges(source, target, weight, distance):
    e = cuda.grid(1)
    if e < source.size:
        d = distance[source[e]]
        if d < 1 << 29:
            cuda.atomic.min(distance, target[e], d + weight[e])


@program("bellman-ford-atomic-min", 1 << 16, 600)
def _(n, rng):
    vertices = n // 4
    source, target = (rng.integers(0, vertices, n, np.int32) for _ in "ab")
    weight = rng.integers(1, 50, n, np.int32)
    distance = np.full(vertices, 1 << 29, np.int32)
    distance[0] = 0
    # Enough rounds for the end, which does not depend on the order.
    rounds = 16

    def expect():
        out = distance.copy()
        while True:
            before = out.copy()
            np.minimum.at(out, target, np.minimum(out[source], 1 << 29) + weight)
            out = np.minimum(out, 1 << 29)
            if (before == out).all():
                return [(distance, out)]

    args = (source, target, weight, distance)
    return Made(
        [Launch(relax_edges, over(n, 256), 256, args)] * 40 * (rounds // 16),
        expect,
        restore=(distance,),
    )


@cuda.jit
def least_labels(offsets, neighbours, label, new):
    v = cuda.grid(1)
    if v >= label.size:
        return
    best = label[v]
    for e in range(offsets[v], offsets[v + 1]):
        best = min(best, label[neighbours[e]])
    new[v] = best


@parallel
def least_labels_loop(offsets, neighbours, label, new):
    for v in prange(label.size):
        best = label[v]
        for e in range(offsets[v], offsets[v + 1]):
            best = min(best, label[neighbours[e]])
        new[v] = best


@program("component-labels", 1 << 17, 333)
def _(n, rng):
    offsets, neighbours = _graph(n, 4, rng)
    label, new = rng.permutation(n).astype(np.int32), np.zeros(n, np.int32)

    def expect():
        out = label.copy()
        np.minimum.at(out, np.repeat(np.arange(n), np.diff(offsets)), label[neighbours])
        return [(new, out)]

    args = (offsets, neighbours, label, new)
    return Made(
        [Launch(least_labels, over(n, 256), 256, args)], expect, [(least_labels_loop, args)]
    )


@cuda.jit
def triangles(offsets, neighbours, counts):
    """Pairs of neighbours that are neighbours: sorted rows are merged."""
    v = cuda.grid(1)
    if v < counts.size:
        found = 0
        for e in range(offsets[v], offsets[v + 1]):
            w = neighbours[e]
            if w > v:
                i, j = e + 1, offsets[w]
                while i < offsets[v + 1] and j < offsets[w + 1]:
                    a, b = neighbours[i], neighbours[j]
                    if a == b:
                        found += 1
                        i += 1
                        j += 1
                    elif a < b:
                        i += 1
                    else:
                        j += 1
        counts[v] = found


@parallel
def triangles_loop(offsets, neighbours, counts):
    for v in prange(counts.size):
        found = 0
        for e in range(offsets[v], offsets[v + 1]):
            w = neighbours[e]
            if w > v:
                i, j = e + 1, offsets[w]
                while i < offsets[v + 1] and j < offsets[w + 1]:
                    a, b = neighbours[i], neighbours[j]
                    if a == b:
                        found += 1
                        i += 1
                        j += 1
                    elif a < b:
                        i += 1
                    else:
                        j += 1
        counts[v] = found


@program("triangle-counts", 3000, 120, cheap=False)
def _(n, rng):
    offsets, neighbours = _graph(n, 30, rng)
    counts = np.zeros(n, np.int32)

    def expect():
        rows = [set(neighbours[offsets[v] : offsets[v + 1]].tolist()) for v in range(n)]
        return [
            (counts, [sum(x > w for w in row if w > v for x in row & rows[w])
                      for v, row in enumerate(rows)])
        ]  # fmt: skip

    return Made(
        [Launch(triangles, over(n, 64), 64, (offsets, neighbours, counts))],
        expect,
        [(triangles_loop, (offsets, neighbours, counts))],
    )


@cuda.jit
def floyd_step(d, k):
    j, i = cuda.grid(2)
    n = d.shape[0]
    if i < n and j < n:
        way = d[i, k] + d[k, j]
        if way < d[i, j]:
            d[i, j] = way


@parallel
def floyd_step_loop(d, k):
    n = d.shape[0]
    for i in prange(n):
        for j in range(n):
            way = d[i, k] + d[k, j]
            if way < d[i, j]:
                d[i, j] = way


@program("floyd-warshall", 256, 17)
def _(n, rng):
    d = rng.random((n, n), np.float32)
    np.fill_diagonal(d, 0)

    def expect():
        out = d.copy()
        for k in range(n):
            out = np.minimum(out, out[:, k : k + 1] + out[k : k + 1])
        return [(d, out)]

    grid = over2((n, n), (16, 16))
    return Made(
        [Launch(floyd_step, grid, (16, 16), (d, k)) for k in range(n)],
        expect,
        [(floyd_step_loop, (d, k)) for k in range(n)],
        restore=(d,),
    )
