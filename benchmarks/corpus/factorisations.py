"""Factorisations, triangular solves, and iterations for systems of equations."""

import math

import numpy as np
from numba import float64, prange

from benchmarks.corpus.program import Launch, Made, loop, over, over2, parallel, program
from haulage import cuda


def _definite(rng, n):
    a = rng.random((n, n))
    return a @ a.T + n * np.eye(n)


@cuda.jit
def cholesky_column(a, k):
    row = cuda.grid(1)
    n = a.shape[0]
    if row < k or row >= n:
        return
    total = a[row, k]
    diagonal = a[k, k]
    for j in range(k):
        total -= a[row, j] * a[k, j]
        diagonal -= a[k, j] * a[k, j]
    if row > k:
        a[row, k] = total / math.sqrt(diagonal)


@cuda.jit
def cholesky_diagonal(a, k):
    total = a[k, k]
    for j in range(k):
        total -= a[k, j] * a[k, j]
    a[k, k] = math.sqrt(total)


@loop
def cholesky_loop(a):
    n = a.shape[0]
    for k in range(n):
        total = a[k, k]
        for j in range(k):
            total -= a[k, j] * a[k, j]
        a[k, k] = math.sqrt(total)
        for row in range(k + 1, n):
            total = a[row, k]
            for j in range(k):
                total -= a[row, j] * a[k, j]
            a[row, k] = total / a[k, k]


@program("cholesky-by-columns", 192, 24)
def _(n, rng):
    a = _definite(rng, n)
    launches = []
    for k in range(n):
        launches.append(Launch(cholesky_column, over(n, 64), 64, (a, k)))
        launches.append(Launch(cholesky_diagonal, 1, 1, (a, k)))
    return Made(
        launches,
        lambda: [(a, np.linalg.cholesky(a) + np.triu(a, 1))],
        [(cholesky_loop, (a,))],
        restore=(a,),
    )


@cuda.jit
def rank_k_update(a, start, width):
    j, i = cuda.grid(2)
    i += start + width
    j += start + width
    n = a.shape[0]
    if i < n and j <= i:
        total = 0.0
        for k in range(start, start + width):
            total += a[i, k] * a[j, k]
        a[i, j] -= total


@parallel
def rank_k_update_loop(a, start, width):
    n = a.shape[0]
    for i in prange(start + width, n):
        for j in range(start + width, i + 1):
            total = 0.0
            for k in range(start, start + width):
                total += a[i, k] * a[j, k]
            a[i, j] -= total


@program("cholesky-rank-k-update", 512, 40)
def _(n, rng):
    a, width = rng.random((n, n)), min(32, n // 2)

    def expect():
        out, panel = a.copy(), a[width:, :width]
        out[width:, width:] -= np.tril(panel @ panel.T)
        return [(a, out)]

    blocks = over2((n - width, n - width), (16, 16))
    return Made(
        [Launch(rank_k_update, blocks, (16, 16), (a, 0, width))],
        expect,
        [(rank_k_update_loop, (a, 0, width))],
        restore=(a,),
    )


@cuda.jit
def cholesky_in_block(batch, out):
    room = cuda.shared.array((24, 25), float64)
    t, item = cuda.threadIdx.x, cuda.blockIdx.x
    n = batch.shape[1]
    if t < n:
        for j in range(n):
            room[t, j] = batch[item, t, j]
    cuda.syncthreads()
    for k in range(n):
        if t == k:
            room[k, k] = math.sqrt(room[k, k])
        cuda.syncthreads()
        if k < t < n:
            room[t, k] /= room[k, k]
        cuda.syncthreads()
        if k < t < n:
            for j in range(k + 1, t + 1):
                room[t, j] -= room[t, k] * room[j, k]
        cuda.syncthreads()
    if t < n:
        for j in range(n):
            out[item, t, j] = room[t, j] if j <= t else 0.0


@parallel
def cholesky_batch_loop(batch, out):
    for item in prange(batch.shape[0]):
        n = batch.shape[1]
        for i in range(n):
            for j in range(i + 1):
                total = batch[item, i, j]
                for k in range(j):
                    total -= out[item, i, k] * out[item, j, k]
                if i == j:
                    out[item, i, i] = math.sqrt(total)
                else:
                    out[item, i, j] = total / out[item, j, j]


@program("cholesky-batched-in-shared", 400, 6)
def _(n, rng):
    batch = np.stack([_definite(rng, 24) for _ in range(n)])
    out = np.zeros_like(batch)
    return Made(
        [Launch(cholesky_in_block, n, 32, (batch, out))],
        lambda: [(out, np.linalg.cholesky(batch))],
        [(cholesky_batch_loop, (batch, out))],
    )


@cuda.jit
def lu_factors(a, k):
    row = k + 1 + cuda.grid(1)
    if row < a.shape[0]:
        a[row, k] /= a[k, k]


@cuda.jit
def lu_update(a, k):
    col, row = cuda.grid(2)
    row += k + 1
    col += k + 1
    if row < a.shape[0] and col < a.shape[0]:
        a[row, col] -= a[row, k] * a[k, col]


@parallel
def lu_loop(a):
    n = a.shape[0]
    for k in range(n - 1):
        for row in prange(k + 1, n):
            a[row, k] /= a[k, k]
            for col in range(k + 1, n):
                a[row, col] -= a[row, k] * a[k, col]


def lu_of(a):
    out = a.copy()
    for k in range(len(a) - 1):
        out[k + 1 :, k] /= out[k, k]
        out[k + 1 :, k + 1 :] -= np.outer(out[k + 1 :, k], out[k, k + 1 :])
    return out


@program("lu-without-pivots", 200, 20)
def _(n, rng):
    a = _definite(rng, n)
    launches = []
    for k in range(n - 1):
        rest = n - 1 - k
        launches.append(Launch(lu_factors, over(rest, 64), 64, (a, k)))
        launches.append(Launch(lu_update, over2((rest, rest), (16, 16)), (16, 16), (a, k)))
    return Made(launches, lambda: [(a, lu_of(a))], [(lu_loop, (a,))], restore=(a,))


@cuda.jit
def thomas(lower, main, upper, right, x):
    """Tridiagonal systems, one a thread, side by side in memory."""
    s = cuda.grid(1)
    if s >= x.shape[1]:
        return
    c = cuda.local.array(64, float64)
    n = x.shape[0]
    c[0] = upper[0, s] / main[0, s]
    x[0, s] = right[0, s] / main[0, s]
    for i in range(1, n):
        m = 1.0 / (main[i, s] - lower[i, s] * c[i - 1])
        c[i] = upper[i, s] * m
        x[i, s] = (right[i, s] - lower[i, s] * x[i - 1, s]) * m
    for i in range(n - 2, -1, -1):
        x[i, s] -= c[i] * x[i + 1, s]


@parallel
def thomas_loop(lower, main, upper, right, x):
    n = x.shape[0]
    for s in prange(x.shape[1]):
        c = np.empty(64)
        c[0] = upper[0, s] / main[0, s]
        x[0, s] = right[0, s] / main[0, s]
        for i in range(1, n):
            m = 1.0 / (main[i, s] - lower[i, s] * c[i - 1])
            c[i] = upper[i, s] * m
            x[i, s] = (right[i, s] - lower[i, s] * x[i - 1, s]) * m
        for i in range(n - 2, -1, -1):
            x[i, s] -= c[i] * x[i + 1, s]


@program("thomas-many-systems", 8192, 70)
def _(n, rng):
    lower, upper, right = (rng.random((64, n)) for _ in range(3))
    main, x = 3 + rng.random((64, n)), np.zeros((64, n))
    args = (lower, main, upper, right, x)

    def expect():
        c, d = upper / main, right / main
        for i in range(1, 64):
            m = 1 / (main[i] - lower[i] * c[i - 1])
            c[i] = upper[i] * m
            d[i] = (right[i] - lower[i] * d[i - 1]) * m
        for i in range(62, -1, -1):
            d[i] -= c[i] * d[i + 1]
        return [(x, d)]

    return Made([Launch(thomas, over(n, 128), 128, args)], expect, [(thomas_loop, args)])


@cuda.jit
def solve_lower(low, b, x):
    """Forward substitution: a right side for each thread."""
    col = cuda.grid(1)
    if col < b.shape[1]:
        for i in range(low.shape[0]):
            total = b[i, col]
            for k in range(i):
                total -= low[i, k] * x[k, col]
            x[i, col] = total / low[i, i]


@parallel
def solve_lower_loop(low, b, x):
    for col in prange(b.shape[1]):
        for i in range(low.shape[0]):
            total = b[i, col]
            for k in range(i):
                total -= low[i, k] * x[k, col]
            x[i, col] = total / low[i, i]


@program("forward-substitution", 320, 18)
def _(n, rng):
    low = np.tril(rng.random((n, n))) / n + np.eye(n)
    b, x = rng.random((n, 2 * n)), np.zeros((n, 2 * n))
    return Made(
        [Launch(solve_lower, over(2 * n, 32), 32, (low, b, x))],
        lambda: [(x, np.linalg.solve(low, b))],
        [(solve_lower_loop, (low, b, x))],
    )


@cuda.jit
def jacobi_dense(a, b, x, new):
    i = cuda.grid(1)
    if i < x.size:
        total = 0.0
        for j in range(x.size):
            if j != i:
                total += a[i, j] * x[j]
        new[i] = (b[i] - total) / a[i, i]


@parallel
def jacobi_dense_loop(a, b, x, new):
    for i in prange(x.size):
        total = 0.0
        for j in range(x.size):
            if j != i:
                total += a[i, j] * x[j]
        new[i] = (b[i] - total) / a[i, i]


@program("jacobi-dense", 800, 30)
def _(n, rng):
    a = rng.random((n, n)) + n * np.eye(n)
    b, x, new = rng.random(n), rng.random(n), np.zeros(n)
    d = np.diag(a)

    def expect():
        other = (b - (a @ x - d * x)) / d
        return [(new, other), (x, (b - (a @ other - d * other)) / d)]

    return Made(
        [
            Launch(jacobi_dense, over(n, 128), 128, (a, b, x, new)),
            Launch(jacobi_dense, over(n, 128), 128, (a, b, new, x)),
        ],
        expect,
        [(jacobi_dense_loop, (a, b, x, new)), (jacobi_dense_loop, (a, b, new, x))],
        restore=(x,),
    )


@cuda.jit
def gauss_jordan(batch, inverse):
    """Inverts a matrix of 8 x 8 a block, beside the identity in shared memory."""
    room = cuda.shared.array((8, 16), float64)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    item = cuda.blockIdx.x
    room[i, j] = batch[item, i, j] if j < 8 else (1.0 if j - 8 == i else 0.0)
    cuda.syncthreads()
    for k in range(8):
        pivot = room[k, k]
        cuda.syncthreads()
        if i == k:
            room[k, j] /= pivot
        cuda.syncthreads()
        factor = room[i, k]
        cuda.syncthreads()
        if i != k:
            room[i, j] -= factor * room[k, j]
        cuda.syncthreads()
    if j >= 8:
        inverse[item, i, j - 8] = room[i, j]


@parallel
def gauss_jordan_loop(batch, inverse):
    for item in prange(batch.shape[0]):
        room = np.zeros((8, 16))
        for i in range(8):
            for j in range(8):
                room[i, j] = batch[item, i, j]
            room[i, 8 + i] = 1.0
        for k in range(8):
            pivot = room[k, k]
            for j in range(16):
                room[k, j] /= pivot
            for i in range(8):
                if i != k:
                    factor = room[i, k]
                    for j in range(16):
                        room[i, j] -= factor * room[k, j]
        for i in range(8):
            for j in range(8):
                inverse[item, i, j] = room[i, 8 + j]


@program("gauss-jordan-in-shared", 8000, 9)
def _(n, rng):
    batch = rng.random((n, 8, 8)) + 8 * np.eye(8)
    inverse = np.zeros_like(batch)
    return Made(
        [Launch(gauss_jordan, n, (16, 8), (batch, inverse))],
        lambda: [(inverse, np.linalg.inv(batch))],
        [(gauss_jordan_loop, (batch, inverse))],
    )
