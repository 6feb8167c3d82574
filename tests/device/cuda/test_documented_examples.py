"""The programs that Numba's manual shows, in words of our own, in both ways of the CPU device."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = pytest.mark.usefixtures("device", "way")

# Not all of these kernels can be cut.
WAYS = ("auto", "coroutines")

SIDE = 16


@pytest.fixture
def random():
    return np.random.default_rng(0)


@cuda.jit
def product(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@cuda.jit
def tiled_product(a, b, c):
    tile_a = cuda.shared.array((SIDE, SIDE), np.float32)
    tile_b = cuda.shared.array((SIDE, SIDE), np.float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = np.float32(0)
    for start in range(0, a.shape[1], SIDE):
        inside = row < a.shape[0] and start + tx < a.shape[1]
        tile_a[ty, tx] = a[row, start + tx] if inside else 0
        inside = column < b.shape[1] and start + ty < b.shape[0]
        tile_b[ty, tx] = b[start + ty, column] if inside else 0
        cuda.syncthreads()
        for k in range(SIDE):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@pytest.mark.parametrize("shape", [(16, 16, 16), (5, 23, 7), (40, 33, 50), (1, 1, 1)])
@pytest.mark.parametrize("kernel", [product, tiled_product], ids=["naive", "tiled"])
def test_matrix_multiplication(random, kernel, shape):
    rows, inner, columns = shape
    a = random.random((rows, inner), np.float32)
    b = random.random((inner, columns), np.float32)
    c = cuda.device_array((rows, columns), np.float32)
    blocks = -(-max(rows, columns) // SIDE)
    kernel[(blocks, blocks), (SIDE, SIDE)](cuda.to_device(a), cuda.to_device(b), c)
    np.testing.assert_allclose(c.copy_to_host(), a @ b, rtol=1e-5)


@pytest.mark.parametrize("kernel", [product, tiled_product], ids=["naive", "tiled"])
def test_matrix_multiplication_of_host_arrays(random, kernel):
    a, b = random.random((20, 30)), random.random((30, 10))
    c = np.full((20, 10), np.nan)
    kernel[(2, 2), (SIDE, SIDE)](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@cuda.jit
def sessions(users, times, out, pause):
    """Number each click of a stream by the first click of its session.

    A session ends where another user's clicks begin, or after a pause.
    """
    i = cuda.grid(1)
    n = users.size
    if i >= n:
        return
    if i > 0 and users[i] == users[i - 1] and times[i] - times[i - 1] <= pause:
        return
    out[i] = i
    # Where every session begins has to be known before any is filled up to the next one.
    cuda.cg.this_grid().sync()
    following = i + 1
    while following < n and out[following] < 0:
        out[following] = i
        following += 1


@pytest.mark.parametrize("threads", [32, 256])
def test_sessions_of_a_click_stream(random, threads):
    n = 200
    users = np.sort(random.integers(0, 20, n))
    days = random.integers(0, 100, n)
    order = np.lexsort((days, users))
    users, times = users[order], np.datetime64("2026-11-21") + days[order].astype("m8[D]")
    pause = np.timedelta64(7, "D")

    begins = np.ones(n, bool)
    begins[1:] = (users[1:] != users[:-1]) | (np.diff(times) > pause)
    expected = np.maximum.accumulate(np.where(begins, np.arange(n), 0))

    out = cuda.to_device(np.full(n, -1))
    sessions.forall(n, tpb=threads)(cuda.to_device(users), cuda.to_device(times), out, pause)
    np.testing.assert_array_equal(out.copy_to_host(), expected)
