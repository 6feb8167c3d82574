"""Kernels with indices that may be out of bounds raise an IndexError in just those launches in
which Python does, and are right in all others, with checks that are proven and with ones that are
made."""

import os
import random

import numpy as np
import pytest

from device.compiler.bounds import random_bounds
from haulage import cuda

# `make random-kernels N=1000` tries more of them.
KERNELS = int(os.environ.get("HAULAGE_RANDOM_KERNELS", "8"))
LAUNCHES = 12
BLOCK = (4, 2)


def launches(chosen):
    """Grids, the sizes of arrays and integers, some of which go together."""
    for _ in range(LAUNCHES):
        n, m = chosen.randint(0, 12), chosen.randint(0, 9)
        grid = chosen.randint(1, 3), chosen.randint(1, 2)
        large = chosen.random() < 0.5
        sizes = [
            chosen.choice([n, m, n + 1, 40]) if not large else chosen.randint(30, 60)
            for _ in range(4)
        ]
        yield grid, n, m, sizes


@pytest.mark.timeout(300 + 30 * KERNELS)
@pytest.mark.parametrize("seed", range(KERNELS))
def test_launches_fail_where_python_does(device, seed):
    chosen = random.Random(seed)
    text = random_bounds.source(chosen)
    kernel = random_bounds.compiled(text)
    for grid, n, m, (first, rows, columns, last) in launches(chosen):
        x = np.arange(1, first + 1)
        z = np.arange(1, rows * columns + 1).reshape(rows, columns) * 100
        y, out = np.zeros(last, np.int64), np.zeros((64, 64), np.int64)
        expected = [x.copy(), z.copy(), y.copy(), n, m, out.copy()]
        failed = random_bounds.interpreted(text, grid, BLOCK, expected)
        given = [cuda.to_device(each) for each in (x, z, y)]
        result = cuda.to_device(out)
        told = f"{text}\n{grid} {n} {m} {x.shape} {z.shape} {y.shape}"
        try:
            kernel[grid, BLOCK](*given, n, m, result)
            cuda.synchronize()
        except IndexError:
            assert failed, f"an IndexError, and Python has none:\n{told}"
        else:
            assert not failed, f"no IndexError, and Python has one:\n{told}"
            np.testing.assert_array_equal(result.copy_to_host(), expected[-1], err_msg=told)
            np.testing.assert_array_equal(given[2].copy_to_host(), expected[2], err_msg=told)
