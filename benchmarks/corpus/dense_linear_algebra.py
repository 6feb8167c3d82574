"""Products of matrices and vectors."""

import numpy as np
from numba import float32, float64, prange

from benchmarks.corpus.program import Launch, Made, View, over, over2, parallel, program
from haulage import cuda

TILE = 16


@cuda.jit
def matvec_rows(a, x, y):
    row = cuda.grid(1)
    if row < a.shape[0]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * x[k]
        y[row] = total


@parallel
def matvec_rows_loop(a, x, y):
    for row in prange(a.shape[0]):
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * x[k]
        y[row] = total


@program("matvec-row-a-thread", 3000, 33)
def _(n, rng):
    a, x, y = rng.random((n, n + 1)), rng.random(n + 1), np.zeros(n)
    return Made(
        [Launch(matvec_rows, over(n, 64), 64, (a, x, y))],
        lambda: [(y, a @ x)],
        [(matvec_rows_loop, (a, x, y))],
    )


@program("matvec-column-a-thread", 1500, 33)
def _(n, rng):
    a, x, y = rng.random((n, n)), rng.random(n), np.zeros(n)
    args = (View(a), x, y)
    return Made(
        [Launch(matvec_rows, over(n, 128), 128, args)],
        lambda: [(y, x @ a)],
        [(matvec_rows_loop, args)],
    )


@cuda.jit
def matvec_block(a, x, y):
    room = cuda.shared.array(128, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    total = float32(0)
    for k in range(t, a.shape[1], cuda.blockDim.x):
        total += a[row, k] * x[k]
    room[t] = total
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half:
        if t < half:
            room[t] += room[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        y[row] = room[0]


@parallel
def matvec_f32_loop(a, x, y):
    for row in prange(a.shape[0]):
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * x[k]
        y[row] = total


@program("matvec-block-a-row", 4000, 40)
def _(n, rng):
    a, x = rng.random((n, n), np.float32), rng.random(n, np.float32)
    y = np.zeros(n, np.float32)
    return Made(
        [Launch(matvec_block, n, 128, (a, x, y))],
        lambda: [(y, a @ x)],
        [(matvec_f32_loop, (a, x, y))],
    )


@cuda.jit("void(f8[:,:], f8[:,:], f8[:,:])")
def matmul_eager(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@parallel
def matmul_loop(a, b, c):
    for i in prange(c.shape[0]):
        for j in range(c.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@program("matmul-eager-unknown-strides", 220, 21)
def _(n, rng):
    a, b, c = rng.random((n, n)), rng.random((n, n)), np.zeros((n, n))
    return Made(
        [Launch(matmul_eager, over2((n, n), (16, 16)), (16, 16), (a, b, c))],
        lambda: [(c, a @ b)],
        [(matmul_loop, (a, b, c))],
    )


@cuda.jit
def matmul_xy(a, b, c):
    col, row = cuda.grid(2)
    if row < c.shape[0] and col < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, col]
        c[row, col] = total


@program("matmul-naive-x-is-column", 300, 21)
def _(n, rng):
    a, b, c = rng.random((n, n)), rng.random((n, n + 4)), np.zeros((n, n + 4))
    return Made(
        [Launch(matmul_xy, over2((n + 4, n), (32, 8)), (32, 8), (a, b, c))],
        lambda: [(c, a @ b)],
        [(matmul_loop, (a, b, c))],
    )


@cuda.jit
def matmul_wide_sum(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float64(0)
    for step in range(a.shape[1] // TILE):
        tile_a[ty, tx] = a[y, step * TILE + tx]
        tile_b[ty, tx] = b[step * TILE + ty, x]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[y, x] = total


@parallel
def matmul_wide_loop(a, b, c):
    for i in prange(c.shape[0]):
        row = np.zeros(c.shape[1], np.float64)
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                row[j] += float64(a[i, k]) * b[k, j]
        for j in range(c.shape[1]):
            c[i, j] = row[j]


@program("matmul-tiled-f64-sum-of-f32", 384, 32)
def _(n, rng):
    a, b = rng.random((n, n), np.float32), rng.random((n, n), np.float32)
    c = np.zeros((n, n), np.float32)
    return Made(
        [Launch(matmul_wide_sum, (n // TILE, n // TILE), (TILE, TILE), (a, b, c))],
        lambda: [(c, a @ b)],
        [(matmul_wide_loop, (a, b, c))],
    )


@cuda.jit
def matmul_guarded(a, b, c):
    tile_a = cuda.shared.array((8, 8), float64)
    tile_b = cuda.shared.array((8, 8), float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * 8 + ty
    col = cuda.blockIdx.x * 8 + tx
    inner = a.shape[1]
    total = 0.0
    for start in range(0, inner, 8):
        tile_a[ty, tx] = 0
        tile_b[ty, tx] = 0
        if row < a.shape[0] and start + tx < inner:
            tile_a[ty, tx] = a[row, start + tx]
        if col < b.shape[1] and start + ty < inner:
            tile_b[ty, tx] = b[start + ty, col]
        cuda.syncthreads()
        for k in range(8):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@parallel
def matmul_rows_loop(a, b, c):
    for i in prange(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@program("matmul-tiles-8-guarded", 250, 19)
def _(n, rng):
    a, b, c = rng.random((n, n + 3)), rng.random((n + 3, n - 5)), np.zeros((n, n - 5))
    return Made(
        [Launch(matmul_guarded, over2((n - 5, n), (8, 8)), (8, 8), (a, b, c))],
        lambda: [(c, a @ b)],
        [(matmul_rows_loop, (a, b, c))],
    )


@cuda.jit
def matmul_four_a_thread(a, b, c):
    tile_a = cuda.shared.array((32, 16), float32)
    tile_b = cuda.shared.array((16, 32), float32)
    sums = cuda.local.array((2, 2), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    top, left = cuda.blockIdx.y * 32, cuda.blockIdx.x * 32
    for p in range(2):
        for q in range(2):
            sums[p, q] = 0
    for start in range(0, a.shape[1], 16):
        for p in range(2):
            tile_a[ty + 16 * p, tx] = a[top + ty + 16 * p, start + tx]
            tile_b[ty, tx + 16 * p] = b[start + ty, left + tx + 16 * p]
        cuda.syncthreads()
        for k in range(16):
            for p in range(2):
                for q in range(2):
                    sums[p, q] += tile_a[ty + 16 * p, k] * tile_b[k, tx + 16 * q]
        cuda.syncthreads()
    for p in range(2):
        for q in range(2):
            c[top + ty + 16 * p, left + tx + 16 * q] = sums[p, q]


@program("matmul-four-a-thread", 512, 64)
def _(n, rng):
    a, b = rng.random((n, n), np.float32), rng.random((n, n), np.float32)
    c = np.zeros((n, n), np.float32)
    return Made(
        [Launch(matmul_four_a_thread, (n // 32, n // 32), (16, 16), (a, b, c))],
        lambda: [(c, a @ b)],
        [(matmul_rows_loop, (a, b, c))],
    )


@cuda.jit
def outer_add(a, u, v):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        a[i, j] += u[i] * v[j]


@parallel
def outer_add_loop(a, u, v):
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] += u[i] * v[j]


@program("rank-one-update", 2000, 29)
def _(n, rng):
    a, u, v = rng.random((n, n)), rng.random(n), rng.random(n)
    return Made(
        [Launch(outer_add, over2((n, n), (4, 64)), (4, 64), (a, u, v))],
        lambda: [(a, a + np.outer(u, v))],
        [(outer_add_loop, (a, u, v))],
        restore=(a,),
    )


@cuda.jit
def gram_lower(x, g):
    i, j = cuda.grid(2)
    n = g.shape[0]
    if i < n and j <= i:
        total = 0.0
        for k in range(x.shape[0]):
            total += x[k, i] * x[k, j]
        g[i, j] = total


@parallel
def gram_lower_loop(x, g):
    for i in prange(g.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for k in range(x.shape[0]):
                total += x[k, i] * x[k, j]
            g[i, j] = total


@program("gram-lower-triangle", 256, 20)
def _(n, rng):
    x, g = rng.random((n, n)), np.zeros((n, n))
    return Made(
        [Launch(gram_lower, over2((n, n), (16, 16)), (16, 16), (x, g))],
        lambda: [(g, np.tril(x.T @ x))],
        [(gram_lower_loop, (x, g))],
    )


@cuda.jit
def batched_small(a, b, c):
    item = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    e = cuda.threadIdx.x
    if item < a.shape[0] and e < 16:
        i, j = e // 4, e % 4
        total = 0.0
        for k in range(4):
            total += a[item, i, k] * b[item, k, j]
        c[item, i, j] = total


@parallel
def batched_small_loop(a, b, c):
    for item in prange(a.shape[0]):
        for i in range(4):
            for j in range(4):
                total = 0.0
                for k in range(4):
                    total += a[item, i, k] * b[item, k, j]
                c[item, i, j] = total


@program("batched-4x4-products", 60000, 203)
def _(n, rng):
    a, b, c = rng.random((n, 4, 4)), rng.random((n, 4, 4)), np.zeros((n, 4, 4))
    return Made(
        [Launch(batched_small, over(n, 8), (16, 8), (a, b, c))],
        lambda: [(c, a @ b)],
        [(batched_small_loop, (a, b, c))],
    )


@cuda.jit
def inverse_3x3(m, out):
    i = cuda.grid(1)
    if i < m.shape[0]:
        a = m[i]
        c00 = a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1]
        c01 = a[1, 2] * a[2, 0] - a[1, 0] * a[2, 2]
        c02 = a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0]
        det = a[0, 0] * c00 + a[0, 1] * c01 + a[0, 2] * c02
        if det == 0.0:
            return
        s = 1.0 / det
        out[i, 0, 0] = c00 * s
        out[i, 1, 0] = c01 * s
        out[i, 2, 0] = c02 * s
        out[i, 0, 1] = (a[0, 2] * a[2, 1] - a[0, 1] * a[2, 2]) * s
        out[i, 1, 1] = (a[0, 0] * a[2, 2] - a[0, 2] * a[2, 0]) * s
        out[i, 2, 1] = (a[0, 1] * a[2, 0] - a[0, 0] * a[2, 1]) * s
        out[i, 0, 2] = (a[0, 1] * a[1, 2] - a[0, 2] * a[1, 1]) * s
        out[i, 1, 2] = (a[0, 2] * a[1, 0] - a[0, 0] * a[1, 2]) * s
        out[i, 2, 2] = (a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]) * s


@parallel
def inverse_3x3_loop(m, out):
    for i in prange(m.shape[0]):
        a = m[i]
        c00 = a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1]
        c01 = a[1, 2] * a[2, 0] - a[1, 0] * a[2, 2]
        c02 = a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0]
        det = a[0, 0] * c00 + a[0, 1] * c01 + a[0, 2] * c02
        if det != 0.0:
            s = 1.0 / det
            out[i, 0, 0] = c00 * s
            out[i, 1, 0] = c01 * s
            out[i, 2, 0] = c02 * s
            out[i, 0, 1] = (a[0, 2] * a[2, 1] - a[0, 1] * a[2, 2]) * s
            out[i, 1, 1] = (a[0, 0] * a[2, 2] - a[0, 2] * a[2, 0]) * s
            out[i, 2, 1] = (a[0, 1] * a[2, 0] - a[0, 0] * a[2, 1]) * s
            out[i, 0, 2] = (a[0, 1] * a[1, 2] - a[0, 2] * a[1, 1]) * s
            out[i, 1, 2] = (a[0, 2] * a[1, 0] - a[0, 0] * a[1, 2]) * s
            out[i, 2, 2] = (a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]) * s


@program("batched-3x3-inverses", 240000, 150)
def _(n, rng):
    m = rng.random((n, 3, 3)) + 2 * np.eye(3)
    out = np.zeros((n, 3, 3))
    return Made(
        [Launch(inverse_3x3, over(n, 128), 128, (m, out))],
        lambda: [(out, np.linalg.inv(m))],
        [(inverse_3x3_loop, (m, out))],
    )


@cuda.jit
def complex_matmul(a, b, c):
    col, row = cuda.grid(2)
    if row < c.shape[0] and col < c.shape[1]:
        total = 0j
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, col]
        c[row, col] = total


@parallel
def complex_matmul_loop(a, b, c):
    for row in prange(c.shape[0]):
        for col in range(c.shape[1]):
            total = 0j
            for k in range(a.shape[1]):
                total += a[row, k] * b[k, col]
            c[row, col] = total


@program("matmul-complex128", 160, 17)
def _(n, rng):
    a, b = (rng.normal(size=(n, 2 * n)).view(np.complex128) for _ in "ab")
    c = np.zeros((n, n), np.complex128)
    return Made(
        [Launch(complex_matmul, over2((n, n), (16, 8)), (16, 8), (a, b, c))],
        lambda: [(c, a @ b)],
        [(complex_matmul_loop, (a, b, c))],
    )


@cuda.jit
def integer_matmul(a, b, c):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= c.shape[0] or col >= c.shape[1]:
        return
    total = 0
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, col]
    c[row, col] = total


@parallel
def integer_matmul_loop(a, b, c):
    for row in prange(c.shape[0]):
        for col in range(c.shape[1]):
            total = 0
            for k in range(a.shape[1]):
                total += a[row, k] * b[k, col]
            c[row, col] = total


@program("matmul-int32", 256, 23)
def _(n, rng):
    a, b = (rng.integers(-50, 50, (n, n), np.int32) for _ in "ab")
    c = np.zeros((n, n), np.int32)
    return Made(
        [Launch(integer_matmul, over2((n, n), (16, 16)), (16, 16), (a, b, c))],
        lambda: [(c, a @ b)],
        [(integer_matmul_loop, (a, b, c))],
    )


@cuda.jit
def batched_matmul(a, b, c):
    j, i, item = cuda.grid(3)
    if item < c.shape[0] and i < c.shape[1] and j < c.shape[2]:
        total = float32(0)
        for k in range(a.shape[2]):
            total += a[item, i, k] * b[item, k, j]
        c[item, i, j] = total


@parallel
def batched_matmul_loop(a, b, c):
    for item in prange(c.shape[0]):
        for i in range(c.shape[1]):
            for j in range(c.shape[2]):
                total = float32(0)
                for k in range(a.shape[2]):
                    total += a[item, i, k] * b[item, k, j]
                c[item, i, j] = total


@program("matmul-batched-3d-grid", 200, 5)
def _(n, rng):
    a, b = rng.random((n, 40, 36), np.float32), rng.random((n, 36, 44), np.float32)
    c = np.zeros((n, 40, 44), np.float32)
    return Made(
        [Launch(batched_matmul, over2((44, 40, n), (8, 8, 2)), (8, 8, 2), (a, b, c))],
        lambda: [(c, a @ b)],
        [(batched_matmul_loop, (a, b, c))],
    )


@cuda.jit
def column_norms(a, out):
    col = cuda.grid(1)
    if col < a.shape[1]:
        total = 0.0
        for row in range(a.shape[0]):
            total += a[row, col] ** 2
        out[col] = total**0.5


@parallel
def column_norms_loop(a, out):
    for col in prange(a.shape[1]):
        total = 0.0
        for row in range(a.shape[0]):
            total += a[row, col] ** 2
        out[col] = total**0.5


@program("column-norms", 1500, 45)
def _(n, rng):
    a, out = rng.random((n, n)), np.zeros(n)
    return Made(
        [Launch(column_norms, over(n, 96), 96, (a, out))],
        lambda: [(out, np.linalg.norm(a, axis=0))],
        [(column_norms_loop, (a, out))],
    )
