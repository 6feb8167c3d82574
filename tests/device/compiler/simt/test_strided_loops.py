"""Loops by the grid's or the block's size, whose threads do not all make the same number of turns.

The expected results are those of plain loops over the same threads in Python.
"""

import numpy as np
import pytest

import haulage
from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

WAYS = ("regions", "scalar", "coroutines")
THREADS, BLOCKS = 32, 3
STRIDE = THREADS * BLOCKS
SIZES = (0, 1, 31, 32, 33, 95, 96, 97, 127, 192, 200, 1000)


@cuda.jit
def by_range(x, out):
    """out[i] counts how often i was come to."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] += x[i]


@cuda.jit
def by_while(x, out):
    i = cuda.grid(1)
    while i < x.size:
        out[i] += x[i]
        i += cuda.gridsize(1)


@cuda.jit
def with_a_condition(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if x[i] > 50:
            out[i] = x[i]
        else:
            out[i] = -x[i]


@cuda.jit
def counting(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(out, x[i] % out.size, 1)


@cuda.jit
def counting_in_shared(x, out):
    mine = cuda.shared.array(THREADS, np.int64)
    t = cuda.threadIdx.x
    mine[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, x[i] % THREADS, 1)
    cuda.syncthreads()
    cuda.atomic.add(out, t, mine[t])


@cuda.jit
def sums(x, out):
    """What each thread has added, where it came to, and whence it began."""
    i = cuda.grid(1)
    start = i
    total = 0
    while i < x.size:
        total += x[i]
        i += cuda.gridsize(1)
    out[start, 0], out[start, 1], out[start, 2] = total, i, start


@cuda.jit
def sums_behind_a_barrier(x, out):
    room = cuda.shared.array(THREADS, np.int64)
    t = cuda.threadIdx.x
    total, turns = 7, 0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
        turns += 1
    room[THREADS - 1 - t] = total
    cuda.syncthreads()
    g = cuda.grid(1)
    out[g, 0], out[g, 1], out[g, 2] = room[THREADS - 1 - t], turns, g


@pytest.mark.parametrize("kernel", [by_range, by_while])
@pytest.mark.parametrize("size", SIZES)
def test_each_element_is_come_to_once(way, kernel, size):
    x = np.arange(1, size + 1)
    out = cuda.to_device(np.zeros(size, np.int64))
    kernel[BLOCKS, THREADS](cuda.to_device(x), out)
    assert np.array_equal(out.copy_to_host(), x)


@pytest.mark.parametrize("size", SIZES)
def test_turns_in_which_threads_go_different_ways(way, size):
    x = np.arange(size) * 37 % 101
    out = cuda.to_device(np.zeros(size, np.int64))
    with_a_condition[BLOCKS, THREADS](cuda.to_device(x), out)
    assert np.array_equal(out.copy_to_host(), np.where(x > 50, x, -x))


@pytest.mark.parametrize("kernel", [counting, counting_in_shared])
@pytest.mark.parametrize("size", SIZES)
def test_atomic_operations_of_all_turns_count(way, kernel, size):
    x = np.arange(size) * 37 % 101
    out = cuda.to_device(np.zeros(THREADS, np.int64))
    kernel[BLOCKS, THREADS](cuda.to_device(x), out)
    assert np.array_equal(out.copy_to_host(), np.bincount(x % THREADS, minlength=THREADS))


@pytest.mark.parametrize("size", SIZES)
def test_what_threads_have_behind_the_loop(way, size):
    x = np.arange(size) * 37 % 101
    out = cuda.to_device(np.zeros((STRIDE, 3), np.int64))
    sums[BLOCKS, THREADS](cuda.to_device(x), out)
    expected = [(x[t::STRIDE].sum(), t + STRIDE * len(x[t::STRIDE]), t) for t in range(STRIDE)]
    assert np.array_equal(out.copy_to_host(), expected)
    sums_behind_a_barrier[BLOCKS, THREADS](cuda.to_device(x), out)
    expected = [(7 + x[t::STRIDE].sum(), len(x[t::STRIDE]), t) for t in range(STRIDE)]
    assert np.array_equal(out.copy_to_host(), expected)


@cuda.jit
def last_of_each(x, out):
    """What the last iteration has made of the one before, which may be none."""
    seen, before = -7, -9
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        before = seen
        seen = x[i] * i
    out[cuda.grid(1), 0], out[cuda.grid(1), 1] = seen, before


@pytest.mark.parametrize("size", SIZES)
def test_what_the_last_turn_leaves(way, size):
    x = np.arange(size) * 37 % 101
    out = cuda.to_device(np.zeros((STRIDE, 2), np.int64))
    last_of_each[BLOCKS, THREADS](cuda.to_device(x), out)
    made = [[-9, -7, *(x * np.arange(size))[t::STRIDE]] for t in range(STRIDE)]
    assert np.array_equal(out.copy_to_host(), [(each[-1], each[-2]) for each in made])


@cuda.jit
def to_a_product(x, a, b):
    for i in range(cuda.grid(1), np.int32(a * b), cuda.gridsize(1)):
        x[i] += 1


@cuda.jit
def while_below_a_product(x, a, b):
    n = np.int32(a * b)
    i = cuda.grid(1)
    while i < n:
        x[i] += 1
        i += cuda.gridsize(1)


@cuda.jit
def to_an_unsigned_sum(x, a, b):
    for i in range(cuda.grid(1), np.uint32(np.uint32(a) + np.uint32(b)), cuda.gridsize(1)):
        x[i] += 1


@pytest.mark.parametrize(
    ("kernel", "a", "b", "end"),
    [
        (to_a_product, np.int32(65536), np.int32(65537), 65536),
        (while_below_a_product, np.int32(65536), np.int32(65537), 65536),
        (to_an_unsigned_sum, np.uint32(2**31 + 100), np.uint32(2**31 + 100), 200),
    ],
)
def test_an_end_that_wraps_in_32_bits_is_what_it_wraps_to(way, kernel, a, b, end):
    x = cuda.to_device(np.zeros(end + 100, np.int64))
    kernel[BLOCKS, THREADS](x, a, b)
    assert np.array_equal(x.copy_to_host(), np.arange(end + 100) < end)


@cuda.jit
def of_one_block(x, out):
    """Two loops of the block's size within one that all threads make, and a plane's indices."""
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for row in range(x.shape[0]):
        total = 0
        for i in range(ty * cuda.blockDim.x + tx, x.shape[1], cuda.blockDim.x * cuda.blockDim.y):
            total += x[row, i]
        cuda.atomic.add(out, row, total)
        cuda.syncthreads()
        for j in range(tx, x.shape[1], cuda.blockDim.x):
            if ty == 0:
                x[row, j] = row - j
        cuda.syncthreads()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 31, 32, 33, 100])
def test_loops_within_a_loop_of_all_threads(way, size):
    rows = 3
    x = np.arange(rows * size).reshape(rows, size) * 37 % 101
    given, out = cuda.to_device(x), cuda.to_device(np.zeros(rows, np.int64))
    of_one_block[1, (8, 4)](given, out)
    assert np.array_equal(out.copy_to_host(), x.sum(axis=1))
    i, j = np.indices((rows, size))
    assert np.array_equal(given.copy_to_host(), i - j)


@cuda.jit
def to_an_end(start, end, step, out):
    """The turns of each thread."""
    t = cuda.threadIdx.x
    for _ in range(start + t, end, step):
        out[t] += 1


LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (0, 40, 1), (0, 40, 3), (0, 40, 40), (0, 40, LARGEST), (0, LARGEST, 2**62),
        (LARGEST - 100, LARGEST, 40), (0, -5, 7), (0, -(2**62), 1), (-50, 40, 9), (0, -70, -9),
        (50, -10, -11), (50, 50, -1),
    ],
)  # fmt: skip
def test_ends_and_steps_of_all_sizes(way, start, end, step):
    out = cuda.to_device(np.zeros(THREADS, np.int64))
    to_an_end[1, THREADS](start, end, step, out)
    expected = [len(range(start + t, end, step)) for t in range(THREADS)]
    assert np.array_equal(out.copy_to_host(), expected)


@cuda.jit
def from_thread_on(n, out):
    """As `to_an_end`, by a loop whose step and start are known not to be negative."""
    t = cuda.threadIdx.x
    for _ in range(t, n, cuda.gridDim.x * 3):
        out[t] += 1


@pytest.mark.parametrize("end", [0, 1, 2, 31, 32, 33, 97, -1, -(2**62)])
def test_steps_below_the_size_of_the_block(way, end):
    out = cuda.to_device(np.zeros(THREADS, np.int64))
    from_thread_on[1, THREADS](end, out)
    assert np.array_equal(out.copy_to_host(), [len(range(t, end, 3)) for t in range(THREADS)])


@cuda.jit
def by_constants(n, out):
    """Where each thread's turns led it, with steps of 32, 64 and 48, which are constants here."""
    t = cuda.threadIdx.x
    for i in range(t, n, 32):
        out[0, t] += i + 1
    cuda.syncthreads()
    for i in range(t + 5, n, 64):
        out[1, t] += i + 1
    cuda.syncthreads()
    for i in range(t, n, 48):
        out[2, t] += i + 1


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 36, 37, 48, 63, 64, 65, 69, 96, 97, 500, -(2**62)])
def test_steps_that_are_constants(way, n):
    out = cuda.to_device(np.zeros((3, THREADS), np.int64))
    by_constants[1, THREADS](n, out)
    loops = ((0, 32), (5, 64), (0, 48))
    expected = [
        [sum(i + 1 for i in range(t + first, n, step)) for t in range(THREADS)]
        for first, step in loops
    ]
    assert np.array_equal(out.copy_to_host(), expected)


def row_by_constants(x, out):
    total = np.float32(0)
    for i in range(cuda.threadIdx.x, x.shape[1], 256):
        total += x[cuda.blockIdx.x, i]
    out[cuda.blockIdx.x, cuda.threadIdx.x] = total


def row_by_another_constant(x, out):
    for i in range(cuda.threadIdx.x, x.shape[1], 300):
        out[cuda.blockIdx.x, i] = x[cuda.blockIdx.x, i] + np.float32(1)


@pytest.mark.parametrize("kernel", [row_by_constants, row_by_another_constant])
@pytest.mark.emitted
def test_turns_by_constants_are_a_loop_of_their_own(kernel):
    kinds = "void(float32[:, ::1], float32[:, ::1])"
    blocks = haulage.compile(kernel, kinds, block=256).stages["blocks"]
    assert '%"stride.0/now/context" = alloca i64' in blocks


@pytest.mark.parametrize(
    ("kernel", "kinds"),
    [
        (by_range, "float32[::1], float32[::1]"),
        (by_while, "float32[::1], float32[::1]"),
        (counting_in_shared, "int64[::1], int64[::1]"),
        (sums, "int64[::1], int64[:, ::1]"),
    ],
)
@pytest.mark.emitted
def test_turns_of_all_threads_are_a_loop_of_their_own(kernel, kinds):
    blocks = haulage.compile(kernel.py_func, f"void({kinds})", block=256).stages["blocks"]
    # What is left is kept for the block, not for each thread.
    assert '%"stride.0/now/context" = alloca i64' in blocks


@pytest.mark.parametrize("block", [4, (2, 2), (3, 5), (8, 8)])
def test_a_loop_that_may_end_at_the_greatest_number(block):
    """How often it turns is a number of more than 64 bits to LLVM."""

    @cuda.jit
    def mark(y, last):
        i = cuda.grid(1)
        while i <= last:
            y[i] += 1
            i += cuda.gridsize(1)

    y = cuda.to_device(np.zeros(40))
    mark[2, block](y, 36)
    threads = np.prod(block)
    width = block if isinstance(block, int) else block[0]
    expected = np.zeros(40)
    for number in range(2):
        for thread in range(threads):
            start = thread % width + number * width
            expected[start : 37 : 2 * width] += 1
    np.testing.assert_array_equal(y.copy_to_host(), expected)
