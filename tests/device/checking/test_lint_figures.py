"""The figures of the lint are those that counting by hand gives, for random kernels."""

import math
import random

import numpy as np
import pytest

from haulage import cuda
from haulage.cuda import float32, float64, int8
from support.checked.lint_oracle import cycles, measured, sectors, warps

SIZE = 1 << 12


@cuda.jit
def gather(x, out, along_x, along_y, along_j, most, period, limit):
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    found = 0
    for j in range(1 + tx % most):
        if (tx + ty + j) % period < limit:
            found += x[(along_x * tx + along_y * ty + along_j * j) % SIZE] != 0
    out[0] = found


@cuda.jit
def gather_shared_1(x, out, along_x, along_y, along_j, most, period, limit):
    room = cuda.shared.array(SIZE, int8)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for j in range(1 + tx % most):
        if (tx + ty + j) % period < limit:
            room[(along_x * tx + along_y * ty + along_j * j) % SIZE] = 1


@cuda.jit
def gather_shared_4(x, out, along_x, along_y, along_j, most, period, limit):
    room = cuda.shared.array(SIZE, float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for j in range(1 + tx % most):
        if (tx + ty + j) % period < limit:
            room[(along_x * tx + along_y * ty + along_j * j) % SIZE] = 1


@cuda.jit
def gather_shared_8(x, out, along_x, along_y, along_j, most, period, limit):
    room = cuda.shared.array(SIZE, float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for j in range(1 + tx % most):
        if (tx + ty + j) % period < limit:
            room[(along_x * tx + along_y * ty + along_j * j) % SIZE] = 1


def cases(seed, count):
    """Blocks, and the numbers that a kernel is given."""
    chosen = random.Random(seed)
    for _ in range(count):
        block = chosen.choice([(32, 1), (64, 1), (16, 4), (8, 8), (33, 2), (5, 3), (1, 40)])
        along = [chosen.choice([0, 1, 1, 2, 3, 8, 16, 31, 32, 33, 64, 100]) for _ in range(3)]
        period = chosen.randint(1, 5)
        yield block, (*along, chosen.randint(1, 4), period, chosen.randint(1, period))


def requests(block, numbers):
    """For each request of a warp (lane, index) of the lanes that take part."""
    along_x, along_y, along_j, most, period, limit = numbers
    for threads in warps(block):
        for j in range(most):
            request = [
                (lane, (along_x * x + along_y * y + along_j * j) % SIZE)
                for lane, (x, y) in enumerate(threads)
                if j < 1 + x % most and (x + y + j) % period < limit
            ]
            if request:
                yield request


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex128])
def test_sectors(device, dtype):
    x, out = cuda.to_device(np.zeros(SIZE, dtype)), cuda.to_device(np.zeros(1))
    start, nbytes = x.device_ctypes_pointer.value, x.dtype.itemsize
    for block, numbers in cases(str(dtype), 60):
        found = measured(lambda: gather[1, block](x, out, *numbers))  # noqa: B023
        each = [
            [(start + index * nbytes, nbytes) for _, index in request]
            for request in requests(block, numbers)
        ]
        of_line = [sectors(request) for request in each]
        figures = found["uncoalesced", "read", "x"]
        assert figures["line_sectors"] == sum(all_ for all_, _ in of_line), (block, numbers)
        assert figures["line_least_sectors"] == sum(least for _, least in of_line)
        # The two numbers of a complex one are read one after the other.
        parts = 2 if dtype is np.complex128 else 1
        halves = [
            [(address + part * 8, nbytes // parts) for address, _ in request]
            for request in each
            for part in range(parts)
        ]
        assert figures["requests"] == len(halves)
        assert figures["sectors"] == sum(sectors(request)[0] for request in halves)


@pytest.mark.parametrize(
    ("kernel", "nbytes"), [(gather_shared_1, 1), (gather_shared_4, 4), (gather_shared_8, 8)]
)
def test_cycles(device, kernel, nbytes):
    x, out = cuda.to_device(np.zeros(1)), cuda.to_device(np.zeros(1))
    for block, numbers in cases(str(nbytes), 60):
        found = measured(lambda: kernel[1, block](x, out, *numbers))  # noqa: B023
        each = [
            cycles([(lane, index * nbytes, nbytes) for lane, index in request])
            for request in requests(block, numbers)
        ]
        figures = found["bank-conflict", "write", "room"]
        assert figures["requests"] == len(each), (block, numbers)
        assert figures["cycles"] == sum(steps for steps, _ in each), (block, numbers)
        assert figures["least_cycles"] == sum(least for _, least in each)


@cuda.jit
def weigh(x, out, most, period, limit):
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    found = float32(0)
    for j in range(1 + tx % most):
        if (tx + ty + j) % period < limit:
            found += math.sqrt(x[tx]) / (x[ty] + x[j])
    out[0] = found


def test_lanes_of_loops_and_branches(device):
    x, out = cuda.to_device(np.ones(SIZE, np.float32)), cuda.to_device(np.zeros(1))
    for block, numbers in cases("loops", 60):
        found = measured(lambda: weigh[1, block](x, out, *numbers[3:]))  # noqa: B023
        *_, most, period, limit = numbers
        iterations = waiting = times = diverged = idle = 0
        for threads in warps(block):
            each = [1 + x % most for x, _ in threads]
            iterations += max(each)
            waiting += sum(max(each) - so_many for so_many in each)
            for j in range(max(each)):
                ways = [(x + y + j) % period < limit for x, y in threads if j < 1 + x % most]
                times += 1
                if len(set(ways)) == 2:
                    diverged += 1
                    idle += ways.count(False)
        loop = found["divergence", "loop", ""]
        assert (loop["iterations"], loop["idle_lanes"]) == (iterations, waiting)
        branch = found["divergence", "branch", ""]
        assert (branch["times"], branch["diverged"]) == (times, diverged), (block, numbers)
        assert branch["idle_lanes"] == idle


def test_of_many_requests_some_are_looked_at_and_the_figures_are_estimated(device):
    x, out = cuda.to_device(np.zeros(SIZE, np.float32)), cuda.to_device(np.zeros(1))

    def figures():
        work = measured(lambda: gather_long[2, 64](x, out, 50_000))
        return work["uncoalesced", "read", "x"]

    first = figures()
    assert first["looked_at"] < 5_000
    assert first["requests"] == pytest.approx(4 * 50_000, rel=0.2)
    assert first["sectors"] == first["requests"] * 32
    # It does not matter in which order threads and blocks run.
    assert figures() == first


@cuda.jit
def gather_long(x, out, count):
    found = 0
    for j in range(count):
        found += x[(8 * cuda.threadIdx.x + 8 * j) % SIZE] != 0
    out[0] = found
