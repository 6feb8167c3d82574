"""Loops that threads leave at different times, on lanes of vectors wherever that can be done."""

import math
import re

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt.vectorize import plan

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@cuda.jit(device=True)
def steps(v, k):
    r = 0
    while v > 0:
        if v % 3 == k % 3:
            v -= 2
            continue
        r += v
        v //= 2
        if r > 60:
            return r - 60
    return r


def turns(x, counts, last, n):
    """Loops that threads leave at different times, within two that all turn together; the way
    from the inner of these to the next turn of the outer one has few instructions."""
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 40 + t
    room = cuda.shared.array(40, np.int64)
    a, b, c, w = x[i], t, 1, 0
    q0 = 0
    room[t] = 0
    cuda.syncthreads()
    while q0 < 4:
        q0 += 1
        for q1 in range(3):
            if (a - q0) < c:
                c += 1
                a, b = b, a
            else:
                q2 = 0
                while q2 < w % 6:
                    q2 += 1
                    counts[i] += 1
                    w = steps(t % 50, a % 9) % 61
                a = (i - w) % 5
                q2 = 0
                while q2 < (a % 5):
                    q2 += 1
                    w = q0 % 61
            for _ in range(x[q0 % n] % 5, -1, -2):
                b = (c - c) % 16
                a, b = b, a
                a, b = b, a
            else:
                b = (x[q0 % n] - (b - 4)) % 1009
            c = (x[q0 % n] * q1) % 5
        a, b = b, a
    last[i] = a + b * 100 + c * 10007


def test_what_all_have_in_common_is_not_counted_on_where_no_lane_is(monkeypatch):
    x = np.random.default_rng(0).integers(0, 100, 80).astype(np.int8)
    results = {}
    for way in ("scalar", "regions"):
        monkeypatch.setenv("HAULAGE_CPU_THREADS", way)
        if way == "regions":
            monkeypatch.setattr(plan, "is_profitable", lambda region: True)
        counts, last = (cuda.to_device(np.zeros(80, np.int64)) for _ in range(2))
        cuda.jit(turns)[2, 40](cuda.to_device(x), counts, last, 80)
        results[way] = counts.copy_to_host(), last.copy_to_host()
    for scalar, lanes in zip(results["scalar"], results["regions"], strict=True):
        np.testing.assert_array_equal(lanes, scalar)
    assert results["scalar"][0].any()


def product(a, b, c):
    x, y = cuda.grid(2)
    if y < c.shape[0] and x < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[y, k] * b[k, x]
        c[y, x] = total


@pytest.mark.emitted
def test_a_loop_that_all_threads_make_is_turned_outside_where_rows_are_too_short_for_strips():
    kinds = "float32[:, ::1]"
    for block, is_short in (((16, 16), True), ((256, 1), False), ((8, 32), True)):
        code = haulage.compile(product, f"void({kinds}, {kinds}, {kinds})", block=block)
        assert (code.metadata["regions"] > 1) is is_short
        assert ("lanes.start" in code.stages["blocks"]) is not is_short


def row_sums(a, out):
    i = cuda.grid(1)
    if i < out.size:
        total = 0.0
        for k in range(a.shape[0]):
            total += math.exp(a[i, 0] - a[k, 1])
        out[i] = total


@pytest.mark.emitted
def test_rows_of_unknown_length_are_not_taken_for_rows_of_one_element():
    text = haulage.compile(row_sums, "void(float64[:, ::1], float64[::1])", block=64).stages["llvm"]
    assert "icmp eq i64 %arg.a.5.1, 1" not in text
    assert "icmp ne i64 %arg.a.5.1, 1" not in text


@pytest.mark.emitted
@pytest.mark.parametrize("block", [(8, 8), (2, 8), (8, 32)])
def test_bytes_are_read_by_rows_and_not_gathered(block):
    @cuda.jit
    def heights(image, out):
        i, j = cuda.grid(2)
        k = i
        while k < image.shape[0] and image[k, j] > 7:
            k += 1
        out[i, j] = k

    types = "void(uint8[:, ::1], int32[:, ::1])"
    blocks = haulage.compile(heights, types, block=block).stages["blocks"]
    assert re.search(r"masked\.load\.v\d+i8", blocks)
    assert not re.search(r"masked\.gather\.v\d+i8", blocks)
    image = np.random.default_rng(1).integers(6, 12, (40, 32), dtype=np.uint8)
    out = cuda.device_array((40, 32), np.int32)
    heights[(40 // block[0], 32 // block[1]), block](image, out)
    low = image <= 7
    expected = [
        [next((k for k in range(i, 40) if low[k, j]), 40) for j in range(32)] for i in range(40)
    ]
    assert out.copy_to_host().tolist() == expected


def test_rows_are_read_by_their_length(way):
    a = np.arange(90.0).reshape(30, 3) / 90
    out = np.zeros(30)
    cuda.jit(row_sums)[1, 64](a, out)
    np.testing.assert_allclose(out, np.exp(a[:, :1] - a[:, 1]).sum(1))


def length_of(number):
    """How long Collatz's sequence of a number is."""
    length = 0
    while number > 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        length += 1
    return length


def lengths(limit):
    """A kernel that sums lengths of the numbers of other threads, which change from round to
    round; with a limit threads leave at different times."""
    length_of_number = cuda.jit(length_of, device=True)

    def kernel(x, rounds, out):
        t = cuda.threadIdx.x
        numbers = cuda.shared.array((2, 64), np.int64)
        total = k = 0
        while True:
            if limit and total > limit:
                out[t] = -total
                return
            numbers[k % 2, t] = x[t] + k
            cuda.syncthreads()
            length = length_of_number(numbers[k % 2, 63 - t])
            if length % 3:
                total += length * (k + 1)
            k += 1
            if k == rounds:
                break
        out[t] = total * 1000 + length + k

    return kernel


@pytest.mark.emitted
@pytest.mark.parametrize("limit", [0, 400])
def test_a_loop_around_a_barrier_with_another_one_behind_it_runs_on_vectors(limit):
    code = haulage.compile(lengths(limit), "void(int64[::1], int64, int64[::1])", block=64)
    assert "lanes.start" in code.stages["blocks"]


@pytest.mark.parametrize("limit", [0, 400])
@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_counters_and_sums_of_a_loop_around_a_barrier(way, rounds, limit):
    x = np.random.default_rng(2).integers(1, 40, 64)
    numbers = np.zeros((2, 64), np.int64)
    totals, out = [0] * 64, [0] * 64
    for k in range(rounds):
        staying = [t for t in range(64) if not out[t]]
        for t in staying:
            if 0 < limit < totals[t]:
                out[t] = -totals[t]
            numbers[k % 2, t] = numbers[k % 2, t] if out[t] else x[t] + k
        for t in (t for t in staying if not out[t]):
            length = length_of(numbers[k % 2, 63 - t])
            totals[t] += length * (k + 1) if length % 3 else 0
            if k == rounds - 1:
                out[t] = totals[t] * 1000 + length + rounds
    found = cuda.device_array(64, np.int64)
    cuda.jit(lengths(limit))[1, 64](cuda.to_device(x), rounds, found)
    np.testing.assert_array_equal(found.copy_to_host(), out)
