"""Threads that go about in memory each for itself, in each way that they can be run."""

import numpy as np
import pytest

from doubles.kernels import butterflies
from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device", "way")]


def test_butterflies_with_remainders_by_powers_of_two():
    numbers = np.arange(64, dtype=np.float32)
    result = cuda.device_array(64, np.float32)
    cuda.jit(butterflies(32))[1, 32](cuda.to_device(numbers), result)
    matrix = np.ones((1, 1), np.float32)
    for _ in range(6):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    np.testing.assert_array_equal(result.copy_to_host(), matrix @ numbers)


def test_remainders_by_the_least_of_all_numbers():
    @cuda.jit
    def remainders(x, bits, out):
        t = cuda.threadIdx.x
        power = np.int64(1) << bits
        out[t] = x[t] % power if x[t] >= 0 else np.int64(-1)
        out[t + 32] = np.int64(t) % power

    for bits in (0, 3, 62, 63):
        x = np.arange(32) * 2**57 + 5
        out = cuda.device_array(64, np.int64)
        remainders[1, 32](cuda.to_device(x), bits, out)
        power = 1 << bits if bits < 63 else -(1 << 63)
        wanted = [int(v) % power for v in x] + [t % power for t in range(32)]
        np.testing.assert_array_equal(out.copy_to_host(), wanted)


@pytest.mark.parametrize("count", [1, 63, 130])
def test_small_matrices_one_for_each_thread(count):
    @cuda.jit
    def inverses(a, out):
        i = cuda.grid(1)
        if i >= a.shape[0]:
            return
        m = cuda.local.array((3, 3), np.float64)
        for r in range(3):
            for c in range(3):
                m[r, c] = a[i, r, c]
        for k in range(3):
            for r in range(k + 1, 3):
                m[r, k] /= m[k, k]
                for c in range(k + 1, 3):
                    m[r, c] -= m[r, k] * m[k, c]
        for r in range(3):
            for c in range(3):
                out[i, r, c] = m[r, c]

    a = np.random.default_rng(5).uniform(1, 2, (count, 3, 3)) + 5 * np.eye(3)
    out = cuda.device_array(a.shape)
    inverses[(count + 63) // 64, 64](cuda.to_device(a), out)
    lu = out.copy_to_host()
    lower = np.tril(lu, -1) + np.eye(3)
    np.testing.assert_allclose(lower @ np.triu(lu), a, rtol=1e-12)


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_search_that_ends_where_the_texts_differ(length):
    @cuda.jit
    def search(text, pattern, found):
        i = cuda.grid(1)
        if i <= text.size - pattern.size:
            same = 1
            for k in range(pattern.size):
                if text[i + k] != pattern[k]:
                    same = 0
                    break
            found[i] = same

    text = np.random.default_rng(6).integers(97, 99, 300, dtype=np.uint8)
    pattern = text[70 : 70 + length].copy()
    found = cuda.to_device(np.full(301, 7, np.uint8))
    search[5, 64](cuda.to_device(text), cuda.to_device(pattern), found)
    last = 300 - length
    wanted = [bytes(text[i : i + length]) == bytes(pattern) for i in range(last + 1)]
    assert list(found.copy_to_host()) == [*wanted, *[7] * (300 - last)]
