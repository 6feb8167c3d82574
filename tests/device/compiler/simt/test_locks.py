"""Locks that threads of one block take after one another, in each way of running them."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = [
    pytest.mark.ptx,
    pytest.mark.ptx_always,
    pytest.mark.usefixtures("device", "way"),
    pytest.mark.timeout(120, method="thread"),
]

WAYS = ("auto", "coroutines", "scalar")


@cuda.jit(device=True)
def acquire(lock, place):
    while cuda.atomic.cas(lock, place, 0, 1) != 0:
        pass
    cuda.threadfence()


@cuda.jit(device=True)
def release(lock, place):
    cuda.threadfence()
    cuda.atomic.exch(lock, place, 0)


def one_lock_around_a_loop(lock, x, sums, first):
    i = cuda.grid(1)
    acquire(lock, 0)
    for k in range(sums.size):
        sums[k] += x[i] * k
    if cuda.threadIdx.x == 0:
        first[0] += x[i]
    release(lock, 0)


def one_lock_in_a_loop_by_the_grid(lock, x, sums, first):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        acquire(lock, 0)
        for k in range(sums.size):
            sums[k] += x[i] * k
        release(lock, 0)
        if i % 32 == 0:
            cuda.atomic.add(first, 0, x[i])


def lock_with_thread_0_doing_more_before_a_barrier(lock, x, sums, first):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    acquire(lock, 0)
    for k in range(4):
        sums[k] += x[i] * k
    if t == 0:
        first[0] += x[i]
    sums[3] += 0
    release(lock, 0)
    cuda.syncthreads()


def lock_of_the_block_within_one_of_all(lock, x, sums, first):
    mine = cuda.shared.array(1, np.int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if t == 0:
        mine[0] = 0
    cuda.syncthreads()
    acquire(mine, 0)
    if t == 0:
        cuda.atomic.add(first, 0, x[i])
    acquire(lock, 0)
    for k in range(sums.size):
        sums[k] += x[i] * k
    release(lock, 0)
    release(mine, 0)


def tickets(lock, x, sums, first):
    i = cuda.grid(1)
    mine = cuda.atomic.add(lock, 0, 1)
    while cuda.atomic.add(lock, 1, 0) != mine:
        pass
    cuda.threadfence()
    for k in range(sums.size):
        sums[k] += x[i] * k
    cuda.threadfence()
    cuda.atomic.add(lock, 1, 1)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(first, 0, x[i])


def lock_set_free_by_a_store(lock, x, sums, first):
    i = cuda.grid(1)
    got = False
    while not got:
        got = cuda.atomic.cas(lock, x[i] % 2, 0, 1) == 0
    for k in range(sums.size):
        cuda.atomic.add(sums, k, x[i] * k)
    cuda.threadfence()
    lock[x[i] % 2] = 0
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(first, 0, x[i])


@pytest.mark.parametrize(
    "kernel",
    [
        one_lock_around_a_loop,
        one_lock_in_a_loop_by_the_grid,
        lock_with_thread_0_doing_more_before_a_barrier,
        lock_of_the_block_within_one_of_all,
        tickets,
        lock_set_free_by_a_store,
    ],
)
def test_threads_of_a_block_take_locks_one_after_the_other(kernel):
    x = np.random.default_rng(0).integers(0, 99, 64)
    lock, sums, first = np.zeros(2, np.int32), np.zeros(4, np.int64), np.zeros(1, np.int64)
    cuda.jit(kernel)[2, 32](lock, x, sums, first)
    np.testing.assert_array_equal(sums, x.sum() * np.arange(4))
    assert first[0] == x[0] + x[32]
