"""Kernels with arrays of each thread's own, in each way that threads can be run."""

import math

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.ptx_always, pytest.mark.usefixtures("device")]


@cuda.jit
def decompose(a, o):
    i = cuda.grid(1)
    if i >= a.shape[0]:
        return
    m = cuda.local.array((5, 5), np.float64)
    for r in range(5):
        for c in range(5):
            m[r, c] = a[i, r, c]
    for k in range(5):
        for r in range(k + 1, 5):
            m[r, k] /= m[k, k]
            for c in range(k + 1, 5):
                m[r, c] -= m[r, k] * m[k, c]
    for r in range(5):
        for c in range(5):
            o[i, r, c] = m[r, c]


def test_matrices_are_decomposed_in_private_arrays(way):
    a = np.random.default_rng(0).random((70, 5, 5)) + 5 * np.eye(5)
    o = cuda.device_array_like(a)
    decompose[3, 32](cuda.to_device(a), o)
    made = o.copy_to_host()
    low, high = np.tril(made, -1) + np.eye(5), np.triu(made)
    assert np.allclose(low @ high, a)


@cuda.jit
def sort(a, o):
    i = cuda.grid(1)
    own = cuda.local.array(7, np.int16)
    for k in range(7):
        own[k] = a[i, k]
    for turn in range(6):
        for j in range(6 - turn):
            if own[j] > own[j + 1]:
                own[j], own[j + 1] = own[j + 1], own[j]
    for k in range(7):
        o[i, -k - 1] = own[-k - 1]


def test_numbers_are_sorted_in_private_arrays(way):
    a = np.random.default_rng(1).integers(-9, 9, (96, 7)).astype(np.int16)
    o = cuda.device_array_like(a)
    sort[3, 32](cuda.to_device(a), o)
    assert np.array_equal(o.copy_to_host(), np.sort(a, axis=1))


@cuda.jit
def tiles(a, b, o):
    rows, columns = cuda.shared.array((8, 16), np.float32), cuda.shared.array((16, 8), np.float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    sums = cuda.local.array((2, 4), np.float32)
    for r in range(2):
        for c in range(4):
            sums[r, c] = 0
    for tile in range(a.shape[1] // 16):
        for r in range(2):
            for c in range(8):
                rows[2 * y + r, 8 * x + c] = a[2 * y + r, 16 * tile + 8 * x + c]
        for r in range(4):
            for c in range(4):
                columns[4 * y + r, 4 * x + c] = b[16 * tile + 4 * y + r, 4 * x + c]
        cuda.syncthreads()
        for k in range(16):
            for r in range(2):
                for c in range(4):
                    sums[r, c] += rows[2 * y + r, k] * columns[k, 4 * x + c]
        cuda.syncthreads()
    for r in range(2):
        for c in range(4):
            o[2 * y + r, 4 * x + c] = sums[r, c]


def test_sums_in_private_arrays_live_over_barriers(way):
    rng = np.random.default_rng(2)
    a, b = rng.random((8, 64), np.float32), rng.random((64, 8), np.float32)
    o = cuda.device_array((8, 8), np.float32)
    tiles[1, (2, 4)](cuda.to_device(a), cuda.to_device(b), o)
    assert np.allclose(o.copy_to_host(), a @ b)


@cuda.jit
def spectrum(a, o):
    i = cuda.grid(1)
    re, im = cuda.local.array(4, np.float64), cuda.local.array(4, np.float64)
    for k in range(4):
        re[k] = im[k] = 0
        for j in range(4):
            angle = -math.pi / 2 * (j * k % 4)
            re[k] += a[i, j] * math.cos(angle)
            im[k] += a[i, j] * math.sin(angle)
    for k in range(4):
        o[i, k] = re[k] * re[k] + im[k] * im[k]


def test_mathematics_in_loops_over_private_arrays(way):
    a = np.random.default_rng(3).random((40, 4))
    o = cuda.device_array_like(a)
    spectrum[1, 40](cuda.to_device(a), o)
    assert np.allclose(o.copy_to_host(), np.abs(np.fft.fft(a)) ** 2)


def rows_of_three_kinds(out):
    room = cuda.shared.array(32, np.int64)
    own = cuda.local.array(4, np.int64)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    t = x + 8 * y
    for s in range(4):
        own[s] = s + t
    room[t] = 7 * t
    if x == 0 and y == 0:
        out[t] = t
    for _ in range(t % 3):
        if y == 0 and out[32] > 2:
            out[t] = t + 1
        if y == 3:
            break
    out[t] += room[t] + own[0] + own[3]


def test_a_number_that_is_compared_again_and_again_beside_private_arrays(way):
    out = np.arange(33) % 5 + 2
    out[32] = 3
    expected = out[:32].copy()
    expected[0] = 0
    for t in (1, 2, 4, 5, 7):
        expected[t] = t + 1
    expected += 7 * np.arange(32) + np.arange(32) + np.arange(32) + 3
    cuda.jit(rows_of_three_kinds)[1, (8, 4)](out)
    np.testing.assert_array_equal(out[:32], expected)
