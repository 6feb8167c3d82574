"""Blocks that follow one another in the grid, run as one: nobody can tell, whatever their shape."""

import numpy as np
import pytest

from haulage import cuda
from haulage.errors import KernelError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device", "way")]


@cuda.jit
def visited(seen, last):
    x, y, z = cuda.grid(3)
    if 0 < x < last[0] and y < last[1] and z > 1:
        seen[z, y, x] += 1 + x + 1000 * y + 1_000_000 * z


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((7, 3, 2), (5, 2, 2)),
        ((300, 2, 4), (16, 3, 1)),
        ((3, 2, 5), (1, 1, 1)),
        ((2, 9, 3), (33, 1, 2)),
        ((1, 1, 4), (64, 4, 1)),
        ((10, 1, 4), (1000, 1, 1)),
    ],
)
@pytest.mark.parametrize("cut_off", [0, 20])
def test_every_thread_of_a_grid_runs_once(grid, block, cut_off):
    x, y, z = (count * size for count, size in zip(grid, block, strict=True))
    seen = np.zeros((z, y, x), np.int64)
    last = np.array([x - cut_off, y - (cut_off > 1)])
    visited[grid, block](seen, last)
    zs, ys, xs = np.indices(seen.shape)
    expected = 1 + xs + 1000 * ys + 1_000_000 * zs
    passing = (xs > 0) & (xs < last[0]) & (ys < last[1]) & (zs > 1)
    assert np.array_equal(seen, np.where(passing, expected, 0))


@cuda.jit
def by_columns(a, b):
    i, j = cuda.grid(2)
    n, m = a.shape
    if 0 < i < n - 1 and 0 < j < m - 1:
        b[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]
    elif i < n and j < m:
        b[i, j] = -1


@pytest.mark.parametrize("block", [(16, 16), (1, 40), (40, 1), (7, 2)])
@pytest.mark.parametrize("shape", [(3, 3), (50, 41), (2, 5000), (5000, 2)])
def test_stencils_have_their_border_wherever_blocks_end(block, shape):
    a = np.random.default_rng(1).random(shape)
    b = np.zeros(shape)
    grid = tuple(-(-size // threads) for size, threads in zip(shape, block, strict=True))
    by_columns[grid, block](a, b)
    expected = np.full(shape, -1.0)
    inner = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    expected[1:-1, 1:-1] = inner
    assert np.array_equal(b, expected)


@cuda.jit
def sizes_in_numbers(x):
    i = cuda.blockIdx.x * 32 + cuda.threadIdx.x
    x[i] += 1


@pytest.mark.parametrize(("block", "overlap"), [(32, 0), (48, 16), (16, 0)])
def test_blocks_of_another_size_than_the_kernel_has_in_mind_keep_their_indices(block, overlap):
    x = np.zeros(10 * 32 + 64, np.int32)
    sizes_in_numbers[10, block](x)
    expected = np.zeros_like(x)
    if not overlap:
        for k in range(10):
            expected[32 * k : 32 * k + block] += 1
        assert np.array_equal(x, expected)
    else:
        # Threads of two blocks add to one element, in any order.
        assert np.array_equal(x > 0, np.arange(x.size) < 9 * 32 + block)


@cuda.jit
def of_unsigned_bytes(x):
    i = np.uint8(cuda.grid(1))
    cuda.atomic.add(x, i, 1)


def test_indices_that_wrap_in_few_bits_wrap():
    x = np.zeros(256, np.int32)
    of_unsigned_bytes[30, 64](x)
    assert np.array_equal(x, np.repeat([8, 7], 128))


@cuda.jit
def of_wrapped_differences(out):
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    out[b * 32 + t] = np.int64(np.uint32(t - b)) + 33 * np.int64(b)


def test_differences_of_thread_and_block_that_wrap_wrap():
    out = np.zeros(40 * 32, np.int64)
    of_wrapped_differences[40, 32](out)
    t, b = np.arange(out.size) % 32, np.arange(out.size) // 32
    assert np.array_equal(out, (t - b) % 2**32 + 33 * b)


@cuda.jit
def chains(x, out):
    i = cuda.grid(1)
    total = 0.0
    for k in range(x.shape[0]):
        total = 0.5 * total + x[k, i]
    for k in range(x.shape[0]):
        total = 0.25 * total + x[k, i]
    out[i] = total


@pytest.mark.parametrize("block", [1, 24])
def test_what_threads_keep_from_loop_to_loop_stays_theirs(block):
    x = np.random.default_rng(2).random((5, 40 * block))
    out = np.zeros(40 * block)
    chains[40, block](x, out)
    total = np.zeros(40 * block)
    for row in x:
        total = 0.5 * total + row
    for row in x:
        total = 0.25 * total + row
    assert np.allclose(out, total, rtol=1e-14)


@cuda.jit(debug=True, opt=False)
def refusing(x):
    i = cuda.grid(1)
    if x[i] == 7:
        raise ValueError("seven")
    x[i] = 1


def test_a_thread_that_fails_is_named_and_the_others_of_its_row_finish():
    x = cuda.to_device(np.where(np.arange(512) == 300, 7, 0))
    with pytest.raises(KernelError, match=r"tid=\[12, 0, 0\] ctaid=\[9, 0, 0\]: seven"):
        refusing[16, 32](x)
    assert np.array_equal(x.copy_to_host(), np.where(np.arange(512) == 300, 7, 1))
