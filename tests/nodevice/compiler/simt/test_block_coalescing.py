"""Which kernels can have blocks that follow one another run as one wide block."""

import re

import numpy as np
import pytest

import haulage
from haulage import cuda

LINE, PLANE = "void(float32[::1], int64)", "void(float32[:,::1], int64)"
PLANES = "void(float32[:,:,::1], int64)"


def plain(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] = 1


def by_hand(x, n):
    x[cuda.blockDim.x * cuda.blockIdx.x + cuda.threadIdx.x + 3] = n


def without_guard(x, n):
    x[n + cuda.grid(1)] = n


def of_32_threads(x, n):
    x[cuda.blockIdx.x * 32 + cuda.threadIdx.x] = n


def only_added(x, n):
    cuda.atomic.add(x, cuda.grid(1) % n, np.float32(1))


@pytest.mark.parametrize("kernel", [plain, by_hand, without_guard, of_32_threads, only_added])
def test_kernels_that_only_know_their_place_in_the_grid_are_run_in_rows(kernel):
    assert runs_of(kernel, LINE, 32)


def by_thread(x, n):
    x[cuda.grid(1)] = cuda.threadIdx.x


def by_block(x, n):
    x[cuda.grid(1)] = cuda.blockIdx.x


def of_16_threads(x, n):
    x[cuda.blockIdx.x * 16 + cuda.threadIdx.x] = n


def in_bits(x, n):
    x[cuda.blockIdx.x * 32 + (cuda.threadIdx.x | 32)] = n


def backwards(x, n):
    x[cuda.blockIdx.x * 32 + 31 - cuda.threadIdx.x] = n


def first_of_block(x, n):
    i = cuda.grid(1)
    if cuda.threadIdx.x == 0:
        x[i] = 1


def by_a_wrapped_difference(x, n):
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    x[np.int64(np.uint32(t - b)) + 33 * np.int64(b)] = n


def shared(x, n):
    room = cuda.shared.array(32, np.float32)
    i = cuda.grid(1)
    room[i % 32] = x[i]
    cuda.syncthreads()
    x[i] = room[n]


def old_value(x, n):
    i = cuda.grid(1)
    x[i] = cuda.atomic.add(x, i % n, np.float32(1))


def waiting(x, n):
    i = cuda.grid(1)
    while cuda.atomic.cas(x.view(np.int32), 0, i, i + 1) != i:
        pass


def fenced(x, n):
    i = cuda.grid(1)
    x[i] = 1
    cuda.threadfence()
    x[i + n] = 2


@pytest.mark.parametrize(
    "kernel",
    [
        by_thread,
        by_block,
        of_16_threads,
        in_bits,
        backwards,
        first_of_block,
        by_a_wrapped_difference,
        shared,
        old_value,
        waiting,
        fenced,
    ],
)
def test_kernels_that_know_their_block_or_may_wait_are_run_block_by_block(kernel):
    assert not runs_of(kernel, LINE, 32)


def rows_and_columns(x, n):
    i, j = cuda.grid(2)
    if i < n and j < n:
        x[i, j] = 1


@pytest.mark.parametrize("block", [(32, 8), (8, 32), (256, 1), (1, 1)])
def test_rows_go_along_the_axis_whose_threads_are_neighbours_in_memory(block):
    written = haulage.compile(rows_and_columns, PLANE, block=block).stages["blocks"]
    assert f"%width = mul nuw nsw i32 %count, {block[1]}" in written


def of_three_channels(x, n):
    i, j = cuda.grid(2)
    x[i, j, 2] = x[i, j, 0] + x[i, j, 1]


def chosen(x, n):
    i, j = cuda.grid(2)
    if (j < n - 1) != (x[i, j] > 0):
        x[i, j] = 1


def in_a_loop(x, n):
    i, j = cuda.grid(2)
    total = np.float32(0)
    for k in range(n):
        total += x[k, j]
    x[i, j] = total


@pytest.mark.parametrize(
    ("kernel", "signature"),
    [(of_three_channels, PLANES), (in_a_loop, PLANE)],
)
def test_kernels_whose_long_loops_would_be_slower_are_run_block_by_block(kernel, signature):
    assert not runs_of(kernel, signature, (16, 16))


@pytest.mark.parametrize("block", [(16, 16), (32, 1)])
def test_stores_may_be_masked(block):
    assert runs_of(chosen, PLANE, block)


def test_products_of_an_index_that_wrap_in_a_run_lose_the_promise_that_they_do_not():
    def high(x, n):
        b = np.int64(cuda.blockIdx.x)
        x[n] = (np.int64(cuda.threadIdx.x) << 52) + (b << 57)

    text = haulage.compile(high, "void(int64[::1], int64)", block=32).stages["blocks"]
    assert "%width" in text
    assert re.search(r"shl i64 %\S+, 52", text)
    assert not re.search(r"shl n[us]w .*, 52", text)


def runs_of(kernel, signature, block):
    return "%width" in haulage.compile(kernel, signature, block=block).stages["blocks"]
