"""Threads that go through rows of their own, some of them side by side, give what each gives."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device", "way")]


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 61, 64, 67])
def test_sums_of_rows_for_numbers_of_threads_around_a_few(rows):
    @cuda.jit
    def kernel(a, x, out, most):
        i = cuda.grid(1)
        if i < out.size:
            total = np.float32(0)
            largest = a[i, 0]
            for k in range(a.shape[1]):
                total += a[i, k] * x[k]
                largest = max(largest, a[i, k])
            out[i] = total
            most[i] = largest

    rng = np.random.default_rng(rows)
    a, x = rng.integers(-9, 9, (rows, 19)).astype("f4"), rng.integers(-9, 9, 19).astype("f4")
    out, most = cuda.device_array(rows, "f4"), cuda.device_array(rows, "f4")
    kernel[(rows + 31) // 32, 32](cuda.to_device(a), cuda.to_device(x), out, most)
    np.testing.assert_array_equal(out.copy_to_host(), a @ x)
    np.testing.assert_array_equal(most.copy_to_host(), a.max(1))


@pytest.mark.parametrize("block", [(8, 8), (6, 5), (1, 16), (16, 1), (2, 3)])
def test_nearest_of_pairs_in_blocks_of_two_axes(block):
    @cuda.jit
    def kernel(p, q, out):
        i, j = cuda.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            total = np.float32(0)
            for d in range(p.shape[1]):
                apart = p[i, d] - q[j, d]
                total += apart * apart
            out[i, j] = total

    rng = np.random.default_rng(1)
    p, q = (rng.integers(-9, 9, (n, 7)).astype("f4") for n in (21, 18))
    out = cuda.to_device(np.zeros((21, 18), "f4"))
    blocks = tuple(-(-n // size) for n, size in zip((21, 18), block, strict=True))
    kernel[blocks, block](cuda.to_device(p), cuda.to_device(q), out)
    np.testing.assert_array_equal(out.copy_to_host(), ((p[:, None] - q) ** 2).sum(2))


def test_rows_between_barriers_and_loops_within_loops():
    @cuda.jit
    def kernel(p, centres, nearest, counts):
        room = cuda.shared.array(64, np.int32)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        best = np.float32(1e30)
        which = -1
        for c in range(centres.shape[0]):
            total = np.float32(0)
            for d in range(p.shape[1]):
                apart = p[i, d] - centres[c, d]
                total += apart * apart
            if total < best:
                best = total
                which = c
        room[t] = which
        cuda.syncthreads()
        same = 0
        for k in range(cuda.blockDim.x):
            if room[k] == which:
                same += 1
        nearest[i] = which
        counts[i] = same

    rng = np.random.default_rng(2)
    p, centres = (rng.integers(-9, 9, (n, 5)).astype("f4") for n in (128, 6))
    nearest, counts = cuda.device_array(128, "i4"), cuda.device_array(128, "i4")
    kernel[2, 64](cuda.to_device(p), cuda.to_device(centres), nearest, counts)
    expected = ((p[:, None] - centres) ** 2).sum(2).argmin(1)
    np.testing.assert_array_equal(nearest.copy_to_host(), expected)
    halves = expected.reshape(2, 64)
    same = (halves[:, :, None] == halves[:, None]).sum(2)
    np.testing.assert_array_equal(counts.copy_to_host(), same.ravel())


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_rows_that_are_read_and_written_as_two_arguments(shift):
    @cuda.jit
    def kernel(source, target, shift, out):
        i = cuda.grid(1)
        total = 1
        for k in range(source.shape[1] - 2):
            total = (total * 3 + source[i, k]) & 1023
            target[i, k + shift] = total
            total += source[i, k]
        out[i] = total

    memory = np.random.default_rng(3).integers(0, 50, (38, 13))
    expected = memory.copy()
    totals = np.ones(38, np.int64)
    for k in range(11):
        totals = (totals * 3 + expected[:, k]) & 1023
        expected[:, k + shift] = totals
        totals += expected[:, k]
    on_device = cuda.to_device(memory)
    out = cuda.device_array(38, np.int64)
    kernel[2, 19](on_device, on_device, shift, out)
    np.testing.assert_array_equal(out.copy_to_host(), totals)
    np.testing.assert_array_equal(on_device.copy_to_host(), expected)
