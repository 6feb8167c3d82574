"""Kernels of many barriers and loops, whose block functions are big."""

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

PARTS = 18

SOURCE = (
    """
def kernel(x, out, n):
    room = cuda.shared.array(32, np.int64)
    own = cuda.local.array(4, np.int64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i >= x.size:
        return
    total = x[i]
    for k in range(4):
        own[k] = total * k
"""
    + "".join(
        f"""
    room[t] = total
    cuda.syncthreads()
    for k in range(n):
        total += room[(t + k * {part + 1}) % 32] % 1000
    if n > {part % 5}:
        total += own[{part} % 4]
    cuda.syncthreads()
"""
        for part in range(PARTS)
    )
    + """
    out[i] = total
"""
)


def made_from(source):
    names = {"cuda": cuda, "np": np}
    exec(source, names)
    return names["kernel"]


def expected(x, n):
    out = np.empty_like(x)
    t = np.arange(32)
    for block in range(x.size // 32):
        total = x[block * 32 : block * 32 + 32].copy()
        own = total[:, None] * np.arange(4)
        for part in range(PARTS):
            room = total.copy()
            for k in range(n):
                total += room[(t + k * (part + 1)) % 32] % 1000
            if n > part % 5:
                total += own[:, part % 4]
        out[block * 32 : block * 32 + 32] = total
    return out


@pytest.mark.parametrize("n", [0, 3])
def test_a_kernel_with_many_barriers_and_loops(way, n):
    x = np.random.default_rng(1).integers(0, 10**6, 128)
    out = cuda.device_array(x.size, np.int64)
    cuda.jit(made_from(SOURCE))[4, 32](cuda.to_device(x), out, n)
    np.testing.assert_array_equal(out.copy_to_host(), expected(x, n))
