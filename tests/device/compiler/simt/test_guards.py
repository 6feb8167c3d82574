"""Conditions that say which threads have something to do: loops over threads go over those only.

Every condition is tried at and around all its boundaries, and with numbers near the ends of their
types.
"""

import itertools
import re

import numpy as np
import pytest

import haulage
from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

BLOCKS, THREADS = 3, 32
SIGNED = (-(2**62), -(2**31), -65, -33, -2, -1, 0, 1, 2, 31, 32, 33, 64, 95, 96, 97, 2**31, 2**62)
UNSIGNED = (0, 1, 2, 31, 32, 33, 95, 96, 97, 2**31, 2**63 + 5, 2**64 - 1)

CONDITIONS = [
    "i < n",
    "n <= i",
    "i == n",
    "i != 0 and i < n",
    "0 < i < n - 1",
    "0 <= n - i < m",
    "n - i > 3",
    "2 * i < n",
    "4 * t + 1 >= n",
    "n - 8 * i < m",
    "i - 4 >= n and t < m",
    "not (i >= n or t == 2)",
    "n > 0 and i < m",
    "t == 0",
    "t == 31 and i > n",
    "t < n and x[i] > 3 and i < m",
]


def made(lines):
    """The kernel of these lines, and what they do for one thread as plain Python."""
    text = "def kernel(x, out, n, m):\n    t = cuda.threadIdx.x\n    i = cuda.grid(1)\n"
    names = {"cuda": cuda, "np": np}
    exec(text + "".join(f"    {line}\n" for line in lines), names)
    return cuda.jit(names["kernel"])


def passing(condition, x, n, m):
    code = compile(condition, "condition", "eval")
    return np.array(
        [
            eval(code, {"i": i, "t": i % THREADS, "n": n, "m": m, "x": x})
            for i in range(BLOCKS * THREADS)
        ]
    )


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_guard_lets_pass_whom_it_says(condition):
    kernel = made([f"if {condition}:", "    out[i] += 1"])
    x = np.arange(BLOCKS * THREADS) % 7
    for n, m in itertools.product(SIGNED, (-1, 0, 1, 5, 40, 90)):
        out = np.zeros(BLOCKS * THREADS, np.int64)
        kernel[BLOCKS, THREADS](x, out, n, m)
        np.testing.assert_array_equal(out, passing(condition, x, n, m), f"{n=} {m=}")


@pytest.mark.parametrize("condition", ["i < n", "n <= i", "i == n", "t < 9 and n > i", "n < i < m"])
def test_numbers_at_the_ends_of_64_bits_are_no_others(condition):
    kernel = made([f"if {condition}:", "    out[i] += 1"])
    x, ends = np.arange(BLOCKS * THREADS), (2**62, 2**63 - 1)
    for n, m in itertools.product([each for end in ends for each in (end, -end - 1)], repeat=2):
        out = np.zeros(BLOCKS * THREADS, np.int64)
        kernel[BLOCKS, THREADS](x, out, n, m)
        np.testing.assert_array_equal(out, passing(condition, x, n, m), f"{n=} {m=}")


def tree(x, out, n):
    room = cuda.shared.array(THREADS, np.int64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    room[t] = x[i] if i < n else 0
    cuda.syncthreads()
    d = THREADS // 2
    while d > 0:
        if t < d and i + d < n:
            room[t] += room[t + d]
        cuda.syncthreads()
        d //= 2
    if t == 0:
        out[cuda.blockIdx.x] = room[0]


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 63, 64, 70, 95, 96])
def test_a_short_loop_runs_for_all_threads_of_a_block_and_for_some(n, device):
    x, out = np.arange(BLOCKS * THREADS) + 1, np.zeros(BLOCKS, np.int64)
    cuda.jit(tree)[BLOCKS, THREADS](x, out, n)
    assert out.tolist() == np.where(x <= n, x, 0).reshape(BLOCKS, THREADS).sum(1).tolist()


@pytest.mark.emitted
@pytest.mark.parametrize("threads", [THREADS, 8 * THREADS])
def test_only_short_loops_are_written_for_usual_ranges(threads):
    def added(x, out, n):
        room = cuda.shared.array(THREADS, np.int64)
        i, t = cuda.grid(1), cuda.threadIdx.x
        if i < n:
            room[t % THREADS] = x[i]
        cuda.syncthreads()
        out[i] = room[0]

    stages = haulage.compile(added, "void(int64[::1], int64[::1], int64)", block=threads).stages
    assert ("usually" in stages["work-item-loops"]) == (threads == THREADS)


@pytest.mark.parametrize("kind", [np.uint64, np.uint32, np.int32])
@pytest.mark.parametrize("condition", ["i < n", "np.uint32(t) >= n", "n > np.uint64(t)"])
def test_a_guard_with_other_types_of_numbers(condition, kind):
    kernel = made([f"if {condition}:", "    out[i] += 1"])
    x = np.zeros(1, np.int64)
    values = [n for n in (*UNSIGNED, -1, -40) if np.iinfo(kind).min <= n <= np.iinfo(kind).max]
    for n in values:
        out = np.zeros(BLOCKS * THREADS, np.int64)
        kernel[BLOCKS, THREADS](x, out, kind(n), 0)
        wanted = passing(condition.replace("np.uint32", "").replace("np.uint64", ""), x, n, 0)
        if kind is np.int32 and n < 0 and "uint64" in condition:
            # NumPy's and Numba's rules make floats of these two.
            wanted[:] = False
        np.testing.assert_array_equal(out, wanted, f"{n=}")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_guard_between_barriers(condition):
    kernel = made(
        [
            "room = cuda.shared.array(32, np.int64)",
            "own = x[i]",
            "room[t] = own",
            "cuda.syncthreads()",
            f"if {condition}:",
            "    room[t] += 100",
            "cuda.syncthreads()",
            "out[i] = room[31 - t] + own",
        ]
    )
    x = np.arange(BLOCKS * THREADS) % 7
    for n, m in itertools.product(SIGNED, (0, 5)):
        out = np.zeros(BLOCKS * THREADS, np.int64)
        kernel[BLOCKS, THREADS](x, out, n, m)
        room = (x + 100 * passing(condition, x, n, m)).reshape(BLOCKS, THREADS)[:, ::-1]
        np.testing.assert_array_equal(out, room.ravel() + x, f"{n=} {m=}")


@pytest.mark.parametrize("condition", [*CONDITIONS, "p * t < n", "31 - t <= n", "t + n >= m"])
def test_threads_that_a_condition_sends_two_ways(condition):
    kernel = made(
        [
            "p = m & 7",
            "room = cuda.shared.array((2, 32), np.int64)",
            "room[0, t] = x[i]",
            "cuda.syncthreads()",
            f"if {condition}:",
            "    room[1, t] = room[0, t] + 100",
            "else:",
            "    room[1, t] = room[0, 31 - t] * 3",
            "cuda.syncthreads()",
            "out[i] = room[1, 31 - t]",
        ]
    )
    x = np.arange(BLOCKS * THREADS) % 7
    rows = x.reshape(BLOCKS, THREADS)
    for n, m in itertools.product(SIGNED, (0, 5)):
        out = np.zeros(BLOCKS * THREADS, np.int64)
        kernel[BLOCKS, THREADS](x, out, n, m)
        passed = passing(condition.replace("p", "m"), x, n, m).reshape(BLOCKS, THREADS)
        room = np.where(passed, rows + 100, rows[:, ::-1] * 3)[:, ::-1]
        np.testing.assert_array_equal(out, room.ravel(), f"{n=} {m=}")


def sums_up_to_each(x, out):
    room = cuda.shared.array((2, 128), np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    now = 0
    room[0, t] = x[i]
    cuda.syncthreads()
    d = 1
    while d < 128:
        if t >= d:
            room[1 - now, t] = room[now, t] + room[now, t - d]
        else:
            room[1 - now, t] = room[now, t]
        now = 1 - now
        cuda.syncthreads()
        d *= 2
    out[i] = room[now, t]


def test_threads_parted_in_each_step_of_a_scan(way):
    x = np.random.default_rng(0).integers(1, 100, 384).astype(np.float32)
    out = np.zeros_like(x)
    cuda.jit(sums_up_to_each)[3, 128](x, out)
    np.testing.assert_array_equal(out.reshape(3, 128), x.reshape(3, 128).cumsum(axis=1))


@pytest.mark.parametrize(
    "condition",
    [
        "p * t < n",
        "p * t >= n",
        "n - p * t > 3",
        "n == 5 or 2 * p * t + 1 < n",
        "2 * p * t + 1 < n",
        "(t + 1) * p * 2 - 1 < n",
        "p * (31 - t) <= n",
        "t < 20 and p * t < n",
    ],
)
def test_a_guard_about_an_index_times_a_number_that_all_have_in_common(condition):
    kernel = made(["p = m & (2**57 - 1)", f"if {condition}:", "    out[i] += 1"])
    x = np.zeros(1, np.int64)
    for n, p in itertools.product(SIGNED, (0, 1, 2, 3, 7, 16, 33, 2**40, 2**57 - 1)):
        out = np.zeros(BLOCKS * THREADS, np.int64)
        kernel[BLOCKS, THREADS](x, out, n, p)
        wanted = passing(condition.replace("p", "m"), x, n, p)
        np.testing.assert_array_equal(out, wanted, f"{n=} {p=}")


@pytest.mark.parametrize("shape", [(1, 1), (7, 9), (8, 8), (16, 5), (17, 20), (2, 33)])
@pytest.mark.parametrize("turned", [False, True])
def test_guards_of_two_axes(shape, turned):
    @cuda.jit
    def inner(a):
        i, j = cuda.grid(2)
        if turned:
            i, j = j, i
        if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
            a[i, j] += 1

    a = np.zeros(shape)
    inner[(5, 5), (8, 8)](a)
    expected = np.zeros(shape)
    expected[1:-1, 1:-1] = 1
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("n", [-1, 0, 1, 31, 32, 33, 95, 96, 1000])
def test_who_leaves_at_the_start_takes_no_part_in_what_follows(n):
    kernel = made(
        [
            "room = cuda.shared.array(32, np.int64)",
            "room[t] = 0",
            "cuda.syncthreads()",
            "if i >= n:",
            "    return",
            "total = x[i]",
            "for k in range(m):",
            "    total += k * x[k]",
            "    if total > 60:",
            "        out[i] = -k",
            "        return",
            "room[t] = total",
            "cuda.syncthreads()",
            "out[i] = room[t]",
        ]
    )
    x = np.arange(BLOCKS * THREADS) % 7
    out = np.full(BLOCKS * THREADS, 7)
    kernel[BLOCKS, THREADS](x, out, n, 6)
    for i in range(BLOCKS * THREADS):
        total, wanted = int(x[i]), None
        for k in range(6):
            total += k * int(x[k])
            if total > 60:
                wanted = -k
                break
        expected = 7 if i >= n else total if wanted is None else wanted
        assert out[i] == expected, i


@pytest.mark.emitted
def test_a_guarded_kernel_stores_without_a_mask():
    def scaled(a, x, y):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = a * x[i]

    signature = "void(float32, float32[::1], float32[::1])"
    text = haulage.compile(scaled, signature, block=256).stages["llvm"]
    assert "x float>" in text
    assert "masked" not in text


@pytest.mark.emitted
def test_a_kernel_left_at_its_start_keeps_no_states():
    def powers(x, y):
        i = cuda.grid(1)
        if i >= x.size:
            return
        value = x[i]
        for k in range(y.size):
            value = value * x[i] + y[k]
        x[i] = value

    signature = "void(float32[::1], float32[::1])"
    text = haulage.compile(powers, signature, block=256).stages["blocks"]
    assert "%states" not in text


def sums_before(x, out, totals):
    room = cuda.shared.array(128, np.int64)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 128
    room[2 * t] = x[first + 2 * t]
    room[2 * t + 1] = x[first + 2 * t + 1]
    offset = 1
    d = 64
    while d > 0:
        cuda.syncthreads()
        if t < d:
            room[offset * (2 * t + 2) - 1] += room[offset * (2 * t + 1) - 1]
        offset *= 2
        d //= 2
    if t == 0:
        totals[cuda.blockIdx.x] = room[127]
        room[127] = 0
    d = 1
    while d < 128:
        offset //= 2
        cuda.syncthreads()
        if t < d:
            low = offset * (2 * t + 1) - 1
            high = offset * (2 * t + 2) - 1
            kept = room[low]
            room[low] = room[high]
            room[high] += kept
        d *= 2
    cuda.syncthreads()
    out[first + 2 * t] = room[2 * t]
    out[first + 2 * t + 1] = room[2 * t + 1]


def test_guards_between_barriers_with_common_work_behind_them(way):
    x = np.random.default_rng(0).integers(0, 100, 384)
    out, totals = np.zeros_like(x), np.zeros(3, np.int64)
    cuda.jit(sums_before)[3, 64](x, out, totals)
    rows = x.reshape(3, 128)
    np.testing.assert_array_equal(out.reshape(3, 128), rows.cumsum(axis=1) - rows)
    np.testing.assert_array_equal(totals, rows.sum(axis=1))


@pytest.mark.emitted
def test_each_guarded_step_of_a_scan_is_a_loop_with_its_bounds():
    signature = "void(int64[::1], int64[::1], int64[::1])"
    text = haulage.compile(sums_before, signature, block=64).stages["blocks"]
    # Two steps, and what thread 0 does behind the first of them.
    assert len(re.findall(r"(?m)^some\d*:", text)) == 3


def all_but_the_last(x):
    room = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    room[t] = x[t]
    cuda.syncthreads()
    if t < 63:
        x[t] = room[t + 1] * room[t]


def test_the_last_of_a_known_number_of_threads_are_masked(way):
    x = np.arange(64, dtype=np.float32)
    cuda.jit(all_but_the_last)[1, 64](x)
    np.testing.assert_array_equal(x, [*(k * (k + 1) for k in range(63)), 63])


@pytest.mark.emitted
def test_masks_are_asked_for_where_the_number_of_threads_is_known():
    text = haulage.compile(all_but_the_last, "void(float32[::1])", block=64).stages["blocks"]
    assert text.count("vectorize.predicate.enable") == 1


def neighbouring_bytes(x, out, n):
    room = cuda.shared.array(16, np.uint8)
    t = cuda.threadIdx.x
    room[t] = x[t]
    cuda.syncthreads()
    if t < n:
        out[t] = room[t] ^ room[15 - t]


@pytest.mark.parametrize("n", [-1, 0, 1, 15, 16, 17])
def test_bytes_of_all_threads_of_a_short_block_or_of_some(way, n):
    x, out = np.arange(16, dtype=np.uint8) ** 2, np.zeros(16, np.uint8)
    cuda.jit(neighbouring_bytes)[1, 16](x, out, n)
    np.testing.assert_array_equal(out, np.where(np.arange(16) < n, x ^ x[::-1], 0))


@pytest.mark.emitted
def test_vectors_have_no_more_lanes_than_a_short_block_has_threads():
    signature = "void(uint8[::1], uint8[::1], int64)"
    text = haulage.compile(neighbouring_bytes, signature, block=16).stages["llvm"]
    assert set(re.findall(r"xor <(\d+) x i8>", text)) == {"16"}


def sums_with_halos(x, out):
    room = cuda.shared.array(18, np.int64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    own = x[i] * x[i]
    room[t + 1] = own
    if t == 0:
        room[0] = x[i - 1] if i > 0 else 7
    if t == cuda.blockDim.x - 1:
        room[17] = x[i + 1] if i + 1 < x.size else own
    cuda.syncthreads()
    out[i] = room[t] + room[t + 2] - own


def test_halos_that_single_threads_load_one_after_the_other(way):
    x = np.arange(3, 51)
    out = np.zeros_like(x)
    cuda.jit(sums_with_halos)[3, 16](x, out)
    left, right = np.roll(x, 1) ** 2, np.roll(x, -1) ** 2
    left[::16], right[15::16] = np.roll(x, 1)[::16], np.roll(x, -1)[15::16]
    left[0], right[-1] = 7, x[-1] ** 2
    np.testing.assert_array_equal(out, left + right - x**2)


@pytest.mark.emitted
def test_each_guard_of_a_halo_is_a_region():
    code = haulage.compile(sums_with_halos, "void(int64[::1], int64[::1])", block=16)
    assert code.metadata["regions"] == 4


@cuda.jit(device=True)
def sum_by_a_tree(own):
    """The sum of the numbers of a block's 128 threads."""
    room = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    room[t] = own
    cuda.syncthreads()
    d = 64
    while d > 0:
        if t < d:
            room[t] += room[t + d]
        cuda.syncthreads()
        d //= 2
    return room[0]


def sums_by_a_tree(x, sums, shares):
    t = cuda.threadIdx.x
    total = sum_by_a_tree(x[cuda.grid(1)])
    if t == 0:
        sums[cuda.blockIdx.x] = total
    elif t < shares.shape[1]:
        shares[cuda.blockIdx.x, t] = x[cuda.grid(1)] / total


def test_a_guard_in_a_loop_with_a_barrier_behind_it(way):
    x = np.random.default_rng(0).integers(1, 100, 384).astype(np.float32)
    sums, shares = np.zeros(3, np.float32), np.zeros((3, 5), np.float32)
    cuda.jit(sums_by_a_tree)[3, 128](x, sums, shares)
    np.testing.assert_array_equal(sums, x.reshape(3, 128).sum(axis=1))
    expected = x.reshape(3, 128)[:, 1:5] / sums[:, None]
    np.testing.assert_array_equal(shares[:, 1:], expected)


@pytest.mark.emitted
def test_a_step_of_a_tree_and_what_follows_the_tree_need_no_masks():
    def tree(x, sums):
        total = sum_by_a_tree(x[cuda.grid(1)])
        if cuda.threadIdx.x == 0:
            sums[cuda.blockIdx.x] = total

    text = haulage.compile(tree, "void(float32[::1], float32[::1])", block=128).stages["llvm"]
    assert "x float>" in text
    assert "masked" not in text


def sums_by_an_interleaved_tree(x, sums):
    room = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    d = 1
    while d < cuda.blockDim.x:
        i = 2 * d * t
        if i < cuda.blockDim.x:
            room[i] += room[i + d]
        cuda.syncthreads()
        d *= 2
    if t == 0:
        sums[cuda.blockIdx.x] = room[0]


def test_a_guard_about_a_product_between_barriers(way):
    x = np.random.default_rng(0).integers(1, 100, 384).astype(np.float32)
    sums = np.zeros(3, np.float32)
    cuda.jit(sums_by_an_interleaved_tree)[3, 128](x, sums)
    np.testing.assert_array_equal(sums, x.reshape(3, 128).sum(axis=1))


@pytest.mark.emitted
def test_steps_that_go_about_in_shared_memory_are_bounded():
    code = haulage.compile(
        sums_by_an_interleaved_tree, "void(float32[::1], float32[::1])", block=128
    )
    assert "@haulage.count.below(" in code.stages["blocks"]


@pytest.mark.emitted
def test_steps_with_arithmetic_or_branches_of_their_own_are_widened():
    def sorted_pairs(x, d):
        room = cuda.shared.array(128, np.float32)
        t = cuda.threadIdx.x
        room[t] = x[t]
        cuda.syncthreads()
        other = t ^ d
        if other > t and room[other] < room[t]:
            room[t], room[other] = room[other], room[t]
        cuda.syncthreads()
        x[t] = room[t]

    def waves(x, d):
        room = cuda.shared.array(128, np.float32)
        t = cuda.threadIdx.x
        room[t] = x[t]
        cuda.syncthreads()
        x[t] = np.sin(room[t ^ d])

    def distances(x, n):
        first = cuda.shared.array((16, 17), np.float32)
        second = cuda.shared.array((16, 17), np.float32)
        t, u = cuda.threadIdx.x, cuda.threadIdx.y
        first[u, t], second[u, t] = x[16 * u + t], x[256 + 16 * u + t]
        cuda.syncthreads()
        total = np.float32(0)
        for k in range(16):
            total += (first[u, k] - second[t, k]) ** 2
        cuda.syncthreads()
        x[16 * u + t] = total

    for kernel in (sorted_pairs, waves, distances):
        block = (16, 16) if kernel is distances else 128
        code = haulage.compile(kernel, "void(float32[::1], int64)", block=block)
        assert "llvm.loop.vectorize.width" not in code.stages["blocks"]


def sums_of_those_there_are(x, sums):
    room = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i >= x.size:
        return
    room[t] = x[i]
    cuda.syncthreads()
    d = 64
    while d > 8:
        if t < d and i + d < x.size:
            room[t] += room[t + d]
        cuda.syncthreads()
        d //= 2
    if t == 0:
        total = np.float32(0)
        for k in range(min(16, x.size - i)):
            total += room[k]
        sums[cuda.blockIdx.x] = total


@pytest.mark.parametrize("size", [1, 15, 16, 17, 127, 128, 129, 300, 384])
def test_a_tree_behind_an_early_return_and_a_loop_of_one_thread(way, size):
    x = np.random.default_rng(0).integers(1, 100, size).astype(np.float32)
    sums = np.zeros(3, np.float32)
    cuda.jit(sums_of_those_there_are)[3, 128](x, sums)
    whole = np.concatenate([x, np.zeros(384 - size, np.float32)])
    np.testing.assert_array_equal(sums, whole.reshape(3, 128).sum(axis=1))


@pytest.mark.emitted
def test_neither_an_early_return_nor_a_loop_of_one_thread_asks_for_states():
    kinds = "void(float32[::1], float32[::1])"
    code = haulage.compile(sums_of_those_there_are, kinds, block=128)
    assert "%states" not in code.stages["blocks"]
    assert "masked" not in code.stages["llvm"]
