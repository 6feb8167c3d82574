"""What threads with one index do amid the work of others, as at the borders of a tile."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

WIDE, HIGH = 16, 8


def heat(u, out):
    tile = cuda.shared.array((HIGH + 2, WIDE + 2), np.float32)
    tx, ty = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    j, i = cuda.grid(2)
    h, w = u.shape
    if i < h and j < w:
        tile[ty, tx] = u[i, j]
        if tx == 1 and j > 0:
            tile[ty, 0] = u[i, j - 1]
        if tx == WIDE and j < w - 1:
            tile[ty, WIDE + 1] = u[i, j + 1]
        if ty == 1 and i > 0:
            tile[0, tx] = u[i - 1, j]
        if ty == HIGH and i < h - 1:
            tile[HIGH + 1, tx] = u[i + 1, j]
    cuda.syncthreads()
    if 0 < i < h - 1 and 0 < j < w - 1:
        out[i, j] = (
            tile[ty + 1, tx] + tile[ty - 1, tx] + tile[ty, tx + 1] + tile[ty, tx - 1] - tile[ty, tx]
        )


@pytest.mark.parametrize("shape", [(24, 48), (23, 47), (5, 3), (17, 16), (64, 1)])
def test_tiles_with_borders_that_single_threads_load(way, shape):
    u = np.random.default_rng(0).integers(0, 99, shape).astype(np.float32)
    out = np.full(shape, -1, np.float32)
    blocks = (-(-shape[1] // WIDE), -(-shape[0] // HIGH))
    cuda.jit(heat)[blocks, (WIDE, HIGH)](u, out)
    expected = np.full(shape, -1, np.float32)
    expected[1:-1, 1:-1] = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - u[1:-1, 1:-1]
    np.testing.assert_array_equal(out, expected)


def smoothed(x, out):
    room = cuda.shared.array(34, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    n = x.size
    here = x[i] if i < n else np.float32(0)
    room[t + 1] = here
    if t == 0:
        if i > 0:
            room[0] = x[i - 1]
        else:
            room[0] = 0
    if t == cuda.blockDim.x - 1:
        room[t + 2] = x[i + 1] if i + 1 < n else 0
    if i < n:
        out[i] = here
    cuda.syncthreads()
    if i < n:
        out[i] += room[t] + room[t + 2]


@pytest.mark.parametrize("n", [1, 31, 32, 33, 96, 100])
def test_borders_of_a_row_and_values_that_are_used_behind_them(way, n):
    x = np.random.default_rng(1).integers(0, 99, n).astype(np.float32)
    out = np.zeros(n, np.float32)
    cuda.jit(smoothed)[-(-n // 32), 32](x, out)
    wide = np.pad(x, 1)
    np.testing.assert_array_equal(out, wide[:-2] + wide[1:-1] + wide[2:])


def in_order(x, out):
    """Each thread reads what it, or thread 0 on its behalf, wrote just before."""
    room = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    room[t] = x[t]
    if t == 0:
        room[0] += 100
        x[0] = room[0]
    room[t] += x[t]
    if t == 31:
        room[31] *= 3
    if t != 5:
        room[t] += 1
    cuda.syncthreads()
    out[t] = room[31 - t]


def test_a_thread_does_what_it_does_in_its_order(way):
    x = np.arange(32, dtype=np.int32)
    out = np.zeros(32, np.int32)
    cuda.jit(in_order)[1, 32](x, out)
    room = 2 * np.arange(32, dtype=np.int32)
    room[0], room[31] = 200, 62 * 3
    room += 1
    room[5] -= 1
    np.testing.assert_array_equal(out, room[::-1])


def divided(x, out, d):
    room = cuda.shared.array(33, np.int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if d != 0 and i < x.size:
        at = (i * 7) // d
        room[t] = x[at % x.size]
        if t == 0:
            room[32] = at
        out[i] = at
    cuda.syncthreads()
    if i < x.size and d != 0:
        out[i] += room[t] + room[32]


@pytest.mark.parametrize("d", [0, 3])
def test_a_division_that_a_guard_keeps_from_zero_stays_behind_it(way, d):
    x = np.arange(70, dtype=np.int32)
    out = np.zeros(70, np.int32)
    cuda.jit(divided)[3, 32](x, out, np.int32(d))
    expected = np.zeros(70, np.int32)
    if d:
        at = np.arange(70) * 7 // d
        expected = at + x[at % 70] + np.repeat(at[::32], 32)[:70]
    np.testing.assert_array_equal(out, expected)
