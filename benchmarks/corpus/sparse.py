"""Sparse matrices times a vector."""

import numpy as np
from numba import float32, float64, prange

from benchmarks.corpus.program import Launch, Made, loop, over, parallel, program
from haulage import cuda

ALL = 0xFFFFFFFF


def _rows(n, most, rng):
    counts = rng.integers(0, most, n)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return offsets, rng.integers(0, n, offsets[-1], np.int32)


def _product(offsets, columns, values, x):
    n = offsets.size - 1
    return np.bincount(np.repeat(np.arange(n), np.diff(offsets)), values * x[columns], n)


@cuda.jit
def csr_row_a_thread(offsets, columns, values, x, y):
    row = cuda.grid(1)
    if row < y.size:
        total = 0.0
        for k in range(offsets[row], offsets[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


@parallel
def csr_loop(offsets, columns, values, x, y):
    for row in prange(y.size):
        total = 0.0
        for k in range(offsets[row], offsets[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


@program("csr-row-a-thread", 1 << 16, 300)
def _(n, rng):
    offsets, columns = _rows(n, 30, rng)
    values, x, y = rng.random(columns.size), rng.random(n), np.zeros(n)
    args = (offsets, columns, values, x, y)
    return Made(
        [Launch(csr_row_a_thread, over(n, 128), 128, args)],
        lambda: [(y, _product(offsets, columns, values, x))],
        [(csr_loop, args)],
    )


@cuda.jit
def csr_row_a_warp(offsets, columns, values, x, y):
    thread = cuda.grid(1)
    row, lane = thread // 32, thread % 32
    if row < y.size:
        total = float32(0)
        for k in range(offsets[row] + lane, offsets[row + 1], 32):
            total += values[k] * x[columns[k]]
        step = 16
        while step > 0:
            total += cuda.shfl_down_sync(ALL, total, step)
            step //= 2
        if lane == 0:
            y[row] = total


@program("csr-row-a-warp", 1 << 14, 200)
def _(n, rng):
    offsets, columns = _rows(n, 100, rng)
    values, x = rng.random(columns.size, np.float32), rng.random(n, np.float32)
    y = np.zeros(n, np.float32)
    args = (offsets, columns, values, x, y)
    return Made(
        [Launch(csr_row_a_warp, over(n, 4), 128, args)],
        lambda: [(y, _product(offsets, columns, values, x))],
        [(csr_loop, args)],
    )


@cuda.jit
def ell_product(columns, values, x, y):
    """Columns of each row one after the other along the first axis; -1 is none."""
    row = cuda.grid(1)
    if row < y.size:
        total = 0.0
        for k in range(columns.shape[0]):
            col = columns[k, row]
            if col >= 0:
                total += values[k, row] * x[col]
        y[row] = total


@parallel
def ell_loop(columns, values, x, y):
    for row in prange(y.size):
        total = 0.0
        for k in range(columns.shape[0]):
            col = columns[k, row]
            if col >= 0:
                total += values[k, row] * x[col]
        y[row] = total


@program("ell", 1 << 17, 310)
def _(n, rng):
    columns = rng.integers(0, n, (16, n), np.int32)
    columns[rng.random((16, n)) < 0.2] = -1
    values, x, y = rng.random((16, n)), rng.random(n), np.zeros(n)
    args = (columns, values, x, y)
    return Made(
        [Launch(ell_product, over(n, 256), 256, args)],
        lambda: [(y, np.where(columns >= 0, values * x[columns], 0).sum(0))],
        [(ell_loop, args)],
    )


@cuda.jit
def ell_rows(columns, values, x, y):
    row = cuda.grid(1)
    if row < y.size:
        total = 0.0
        for k in range(columns.shape[1]):
            col = columns[row, k]
            if col == -1:
                break
            total += values[row, k] * x[col]
        y[row] = total


@parallel
def ell_rows_loop(columns, values, x, y):
    for row in prange(y.size):
        total = 0.0
        for k in range(columns.shape[1]):
            col = columns[row, k]
            if col == -1:
                break
            total += values[row, k] * x[col]
        y[row] = total


@program("ell-by-rows-with-break", 1 << 16, 310)
def _(n, rng):
    columns = rng.integers(0, n, (n, 20), np.int32)
    columns[np.arange(20) >= rng.integers(4, 21, n)[:, None]] = -1
    values, x, y = rng.random((n, 20)), rng.random(n), np.zeros(n)
    args = (columns, values, x, y)
    return Made(
        [Launch(ell_rows, over(n, 64), 64, args)],
        lambda: [(y, np.where(columns >= 0, values * x[columns], 0).sum(1))],
        [(ell_rows_loop, args)],
    )


@cuda.jit
def coo_product(rows, columns, values, x, y):
    k = cuda.grid(1)
    if k < rows.size:
        cuda.atomic.add(y, rows[k], values[k] * x[columns[k]])


@loop
def coo_loop(rows, columns, values, x, y):
    for k in range(rows.size):
        y[rows[k]] += values[k] * x[columns[k]]


@program("coo-by-atomics", 1 << 18, 2000)
def _(n, rng):
    size = n // 10
    rows, columns = (rng.integers(0, size, n, np.int32) for _ in "ab")
    values, x, y = rng.random(n), rng.random(size), np.zeros(size)
    args = (rows, columns, values, x, y)
    return Made(
        [Launch(coo_product, over(n, 256), 256, args)],
        lambda: [(y, np.bincount(rows, values * x[columns], size))],
        [(coo_loop, args)],
        restore=(y,),
    )


@cuda.jit
def diagonals_product(offsets, values, x, y):
    row = cuda.grid(1)
    n = y.size
    if row < n:
        total = 0.0
        for k in range(offsets.size):
            col = row + offsets[k]
            if 0 <= col < n:
                total += values[k, row] * x[col]
        y[row] = total


@parallel
def diagonals_loop(offsets, values, x, y):
    n = y.size
    for row in prange(n):
        total = 0.0
        for k in range(offsets.size):
            col = row + offsets[k]
            if 0 <= col < n:
                total += values[k, row] * x[col]
        y[row] = total


@program("diagonals", 1 << 19, 400)
def _(n, rng):
    offsets = np.array([-64, -8, -1, 0, 1, 8, 64], np.int32)
    values, x, y = rng.random((7, n)), rng.random(n), np.zeros(n)

    def expect():
        columns = np.arange(n) + offsets[:, None]
        ok = (columns >= 0) & (columns < n)
        return [(y, np.where(ok, values * x[np.where(ok, columns, 0)], 0).sum(0))]

    args = (offsets, values, x, y)
    return Made(
        [Launch(diagonals_product, over(n, 256), 256, args)], expect, [(diagonals_loop, args)]
    )


@cuda.jit
def csr_times_dense(offsets, columns, values, b, c):
    j, row = cuda.grid(2)
    if row < c.shape[0] and j < c.shape[1]:
        total = float64(0)
        for k in range(offsets[row], offsets[row + 1]):
            total += values[k] * b[columns[k], j]
        c[row, j] = total


@parallel
def csr_times_dense_loop(offsets, columns, values, b, c):
    for row in prange(c.shape[0]):
        for j in range(c.shape[1]):
            total = 0.0
            for k in range(offsets[row], offsets[row + 1]):
                total += values[k] * b[columns[k], j]
            c[row, j] = total


@program("csr-times-dense", 4000, 60)
def _(n, rng):
    offsets, columns = _rows(n, 20, rng)
    values, b, c = rng.random(columns.size), rng.random((n, 32)), np.zeros((n, 32))
    args = (offsets, columns, values, b, c)

    def expect():
        out = np.zeros((n, 32))
        rows = np.repeat(np.arange(n), np.diff(offsets))
        np.add.at(out, rows, values[:, None] * b[columns])
        return [(c, out)]

    return Made(
        [Launch(csr_times_dense, (1, over(n, 4)), (32, 4), args)],
        expect,
        [(csr_times_dense_loop, args)],
    )
