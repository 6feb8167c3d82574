"""Checks that are proven not to be needed: none of a mistake's, and most of others."""

import numpy as np
import pytest

import haulage
from device.checking import random_mistakes
from haulage import cuda
from haulage.compiler.bounds import enumerated
from haulage.compiler.checks.unneeded import Dropped, Unneeded
from haulage.cuda import float32, int32


def checked(kernel, grid, block, *args):
    """The kinds of what is found in a launch, and how many accesses were checked."""
    with haulage.check(only="race,init,barrier", raises=False) as result:
        kernel[grid, block](*args)
        cuda.synchronize()
    return sorted({finding.kind for finding in result}), result.accesses


def found(kernel, grid, block, *args):
    return checked(kernel, grid, block, *args)[0]


def test_an_element_for_each_thread():
    @cuda.jit
    def own(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]

    @cuda.jit
    def shared_by_two(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i // 2] = 2 * x[i]

    assert checked(own, 4, 64, np.ones(250), np.ones(250)) == ([], 0)
    assert found(shared_by_two, 4, 64, np.ones(250), np.ones(250)) == ["race"]


def test_grid_stride_loops():
    @cuda.jit
    def by_grid(x):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            x[i] += 1

    @cuda.jit
    def by_block(x):
        for i in range(cuda.grid(1), x.size, cuda.blockDim.x):
            x[i] += 1

    assert checked(by_grid, 3, 32, np.ones(1000)) == ([], 0)
    assert found(by_block, 3, 32, np.ones(1000)) == ["race"]
    # In one block there is no difference.
    assert checked(by_block, 1, 32, np.ones(1000)) == ([], 0)


def test_rows_of_a_flat_array():
    @cuda.jit
    def guarded(out, n):
        column, row = cuda.grid(2)
        if column < n and row < out.size // n:
            out[row * n + column] = 1

    @cuda.jit
    def not_guarded(out, n):
        column, row = cuda.grid(2)
        if row * n + column < out.size:
            out[row * n + column] = 1

    grid, block = (4, 4), (8, 8)
    assert checked(guarded, grid, block, np.zeros(30 * 29), 29) == ([], 0)
    assert found(not_guarded, grid, block, np.zeros(30 * 29), 29) == ["race"]
    assert found(not_guarded, grid, block, np.zeros(32 * 32), 32) == []


def test_indices_taken_apart_by_divisions():
    @cuda.jit
    def whole(out):
        i = cuda.grid(1)
        if i < out.size:
            a, b, c = out.shape[0], out.shape[1], out.shape[2]
            out[i // (b * c) % a, i // c % b, i % c] = i

    @cuda.jit
    def not_whole(out, width):
        i = cuda.grid(1)
        if i < out.size:
            out[i // out.shape[1], i % width] = i

    assert checked(whole, 8, 64, np.zeros((5, 7, 11))) == ([], 0)
    assert checked(not_whole, 8, 64, np.zeros((16, 32)), 32) == ([], 0)
    assert found(not_whole, 8, 64, np.zeros((16, 32)), 31) == ["race"]


def test_what_a_launch_is_given_decides():
    @cuda.jit
    def around(out, n):
        out[cuda.grid(1) % n] = cuda.grid(1)

    assert found(around, 4, 32, np.zeros(128), 128) == []
    assert found(around, 4, 32, np.zeros(128), 127) == ["race"]
    assert found(around, 2, 32, np.zeros(128), 100) == []


def test_what_is_added_for_some_threads():
    @cuda.jit
    def by_index(out):
        i = cuda.grid(1)
        out[i + (4 if i < 4 else 0)] = i

    @cuda.jit
    def by_flag(out, flags):
        i = cuda.grid(1)
        out[i + (4 if flags[i] else 0)] = i

    assert found(by_index, 1, 32, np.zeros(64)) == ["race"]
    assert found(by_flag, 1, 32, np.zeros(64), np.arange(32) < 4) == ["race"]


def test_negative_indices():
    @cuda.jit
    def next_one(x, out, n):
        i = cuda.grid(1)
        x[i] = 1
        if i < n - 1:
            out[i] = x[i + 1 - n]  # the same as x[i + 1]

    @cuda.jit
    def other_half(x, n):
        i = cuda.grid(1)
        x[i - n] = 1

    assert found(next_one, 1, 10, np.zeros(10), np.zeros(10), 10) == ["race"]
    assert found(other_half, 1, 20, np.zeros(20), 10) == []
    assert found(other_half, 1, 20, np.zeros(10), 10) == ["race"]


def test_small_integers_without_a_sign():
    @cuda.jit("void(float64[:], uint8, int64)")
    def two_places(x, first, second):
        i = cuda.threadIdx.x
        x[first + 100 + i] = 1
        x[second + i] = 2

    assert found(two_places, 1, 8, np.zeros(400), 200, 301) == ["race"]
    assert found(two_places, 1, 8, np.zeros(400), 200, 300) == []


def test_indices_that_wrap():
    @cuda.jit("void(float64[:], int32)")
    def by_a_product(x, far):
        i = cuda.threadIdx.x
        x[np.int32(np.int32(i) * far) & 7] = 1

    @cuda.jit("void(float64[:], uint64)")
    def by_a_sum(x, far):
        i = np.uint64(cuda.threadIdx.x)
        x[i * far] = 1

    assert found(by_a_product, 1, 8, np.zeros(8), 1 << 30) == ["race"]
    assert found(by_a_product, 1, 8, np.zeros(8), 1) == []
    assert found(by_a_sum, 1, 4, np.zeros(8), 1 << 63) == ["race"]
    assert found(by_a_sum, 1, 4, np.zeros(8), 1) == []


def test_an_unsigned_comparison_tells_blocks_apart():
    @cuda.jit("void(float64[:], int64)")
    def some(x, first):
        i = np.uint64(cuda.blockIdx.x - first)
        if i < np.uint64(3):
            x[0] = 1
        else:
            x[cuda.blockIdx.x] = 1

    assert found(some, 8, 1, np.zeros(8), 6) == ["race"]
    assert found(some, 8, 1, np.zeros(8), 8) == []


def test_a_loop_that_is_left_before_its_last_write():
    @cuda.jit
    def left(out, n):
        tile = cuda.shared.array(33, np.float64)
        i = cuda.threadIdx.x
        if i == 0:
            for k in range(33):
                if k == n:
                    break
                tile[k] = k
        cuda.syncthreads()
        out[i] = tile[i + 1]

    assert found(left, 1, 32, np.zeros(32), 32) == ["uninitialized"]
    assert found(left, 1, 32, np.zeros(32), 33) == []


def test_pieces_of_several_elements():
    @cuda.jit
    def pieces(out, length):
        i = cuda.grid(1)
        for k in range(length):
            if 4 * i + k < out.size:
                out[4 * i + k] = i

    assert checked(pieces, 4, 16, np.zeros(256), 4) == ([], 0)
    assert found(pieces, 4, 16, np.zeros(256), 5) == ["race"]


def test_threads_of_all_blocks_on_one_row():
    @cuda.jit
    def first_row(out):
        out[cuda.threadIdx.x] = cuda.blockIdx.x

    assert found(first_row, 2, 32, np.zeros(32)) == ["race"]
    assert checked(first_row, 1, 32, np.zeros(32)) == ([], 0)


def test_arrays_that_overlap():
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i]

    x = cuda.to_device(np.zeros(100))
    assert found(copy, 1, 128, x[1:], x[:-1]) == ["race"]
    assert found(copy, 1, 128, x[:50], x[50:]) == []
    assert checked(copy, 1, 128, x, np.zeros(100)) == ([], 0)


def test_neighbours_in_place():
    @cuda.jit
    def shift(x):
        i = cuda.grid(1)
        if i < x.size - 1:
            x[i] = x[i + 1]

    assert found(shift, 2, 32, np.zeros(64)) == ["race"]


def test_rows_that_are_apart():
    @cuda.jit
    def minus_row(a, row, first):
        i, j = cuda.grid(2)
        if first <= i < a.shape[0] and j < a.shape[1]:
            a[i, j] -= a[row, j]

    grid, block = (2, 2), (8, 8)
    assert checked(minus_row, grid, block, np.zeros((16, 16)), 2, 3) == ([], 0)
    assert found(minus_row, grid, block, np.zeros((16, 16)), 3, 3) == ["race"]


def test_tiles():
    @cuda.jit
    def transpose(a, out):
        tile = cuda.shared.array((16, 17), float32)
        x, y = cuda.grid(2)
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
        cuda.syncthreads()
        out[x, y] = tile[cuda.threadIdx.y, cuda.threadIdx.x]

    @cuda.jit
    def crossed(a, out):
        tile = cuda.shared.array((16, 17), float32)
        x, y = cuda.grid(2)
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
        out[x, y] = tile[cuda.threadIdx.x, cuda.threadIdx.y]

    a, out = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    assert checked(transpose, (4, 4), (16, 16), a, out) == ([], 0)
    assert "race" in found(crossed, (4, 4), (16, 16), a, out)


def test_shared_arrays_that_only_some_threads_write():
    @cuda.jit
    def partly(x, out, n):
        tile = cuda.shared.array(64, float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        if i < n:
            tile[t] = x[i]
        cuda.syncthreads()
        out[i] = tile[63 - t]

    x, out = np.ones(256, np.float32), np.zeros(256, np.float32)
    assert found(partly, 4, 64, x, out, 256) == []
    assert found(partly, 4, 64, x, out, 255) == ["uninitialized"]


def test_one_block_stands_for_others():
    @cuda.jit
    def tree(x, sums):
        room = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        room[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        step = 32
        while step > 0:
            if t < step:
                room[t] += room[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            sums[cuda.blockIdx.x] = room[0]

    @cuda.jit
    def without_waiting(x, sums):
        room = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        room[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        step = 32
        while step > 0:
            if t < step:
                room[t] += room[t + step]
            step //= 2
        if t == 0:
            sums[cuda.blockIdx.x] = room[0]

    x, sums = np.ones(64 * 50, np.float32), np.zeros(50, np.float32)
    kinds, accesses = checked(tree, 50, 64, x, sums)
    assert not kinds
    assert accesses < 64 * 10
    np.testing.assert_array_equal(sums, 64)
    assert found(without_waiting, 50, 64, x, sums) == ["race"]


@pytest.mark.parametrize("bad", [0, 7, 19])
def test_a_block_that_is_not_like_the_others(bad):
    @cuda.jit
    def kernel(out, bad):
        room = cuda.shared.array(32, int32)
        t = cuda.threadIdx.x
        room[t] = t
        if cuda.blockIdx.x == bad:
            room[0] = t
        cuda.syncthreads()
        out[cuda.grid(1)] = room[31 - t]

    assert found(kernel, 20, 32, np.zeros(640), bad) == ["race"]
    assert found(kernel, 20, 32, np.zeros(640), -1) == []


def test_blocks_that_differ_by_what_they_read():
    @cuda.jit
    def kernel(places, out):
        room = cuda.shared.array(32, int32)
        t = cuda.threadIdx.x
        room[t] = 0
        cuda.syncthreads()
        room[places[cuda.grid(1)]] = t
        cuda.syncthreads()
        out[cuda.grid(1)] = room[t]

    places = np.tile(np.arange(32), 8)
    assert found(kernel, 8, 32, places, np.zeros(256)) == []
    places[200] = places[201]
    assert found(kernel, 8, 32, places, np.zeros(256)) == ["race"]


def _random_kernel(rng):
    """A kernel whose indices are random sums of products, with its sizes; perhaps with races."""
    terms = rng.choice(
        [
            *("t", "b", "k", "t * 2", "t * 8", "b * 8", "b * 16", "k * 8", "k * 64"),
            *("t // 2", "t % 4", "(8 if t > 2 else 0)", "(0 if k == b else 16)"),
        ],
        rng.integers(1, 4),
        replace=False,
    )
    index = " + ".join(terms)
    more = rng.integers(1, 70)
    # The third is the second one as a negative index.
    others = [index, f"{index} + {more}", f"{index} + {more} - 1000"]
    other = rng.choice(others, p=[0.5, 0.25, 0.25])
    guards = ["True", "t < 5", "b > 0", "t + b < 9", "k < 2", "(t ^ k) < 6", "t - k > 2"]
    guard, guard_again = rng.choice(guards, 2)
    loop = rng.choice(
        ["for k in range(n):", "for k in range(1, 2 * n, 2):", "for k in range(n - 1, -1, -1):"]
    )
    array = rng.choice(["out", "tile"])
    body = rng.choice(
        [
            f"{array}[{index}] = 1",
            f"{array}[{index}] = {array}[{other}] + 1",
            f"{array}[{index}] = 1\n        SYNC\n        if {guard_again}:\n"
            f"            out[600 + b * 16 + t] = {array}[{other}]\n        SYNC",
        ],
        p=[0.2, 0.3, 0.5],
    )
    while "SYNC" in body:
        body = body.replace("SYNC", "cuda.syncthreads()" if rng.random() < 0.8 else "pass", 1)
    source = (
        "def kernel(out, n):\n"
        "    t, b = cuda.threadIdx.x, cuda.blockIdx.x\n"
        "    tile = cuda.shared.array(1000, np.float64)\n"
        f"    {loop}\n"
        f"        if {guard}:\n"
        f"            {body}\n"
    )
    space = {"cuda": cuda, "np": np}
    exec(source, space)
    return cuda.jit(space["kernel"]), source


@pytest.mark.parametrize("seed", range(24))
def test_random_indices_with_and_without_proofs(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    kernel, source = _random_kernel(rng)
    grid, block, loops = int(rng.integers(1, 5)), int(rng.integers(1, 17)), int(rng.integers(1, 4))
    with_proofs = found(kernel, grid, block, np.zeros(1000), loops)
    monkeypatch.setattr(Unneeded, "of", lambda *args: Dropped())
    without = found(kernel, grid, block, np.zeros(1000), loops)
    assert with_proofs == without, (source, grid, block, loops)


def test_loops_one_after_the_other_are_gone_through_once(monkeypatch):
    looked = []
    exits = enumerated.exits
    monkeypatch.setattr(enumerated, "exits", lambda *of: looked.append(of) or exits(*of))
    steps = [random_mistakes.Step(False, 1, n, turns=2 + n % 2) for n in range(7)]
    text, _ = random_mistakes.source(steps)
    namespace = {"cuda": cuda, "np": np}
    exec(text, namespace)
    x = np.zeros(random_mistakes.THREADS)
    assert found(cuda.jit(namespace["kernel"]), 1, x.size, x, x.copy(), np.zeros(3, int)) == []
    assert 0 < len(looked) < 100
