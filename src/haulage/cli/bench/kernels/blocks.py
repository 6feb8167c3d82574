"""Kernels whose threads work together: reductions and scans of a block."""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np

from haulage import cuda
from haulage.cli.bench.kernels.made import jit, unset
from haulage.cuda import float32

BLOCK = 256
SPAN = 2 * BLOCK
ALL = 0xFFFFFFFF


@jit
def reduce_tree(x, sums):
    """The sum of each 256 elements, by a tree in shared memory."""
    room = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    room[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    step = BLOCK // 2
    while step > 0:
        if t < step:
            room[t] += room[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = room[0]


@jit
def reduce_warp(x, sums):
    """The sum of each 256 elements: within warps by shuffles, then of the eight warps."""
    room = cuda.shared.array(32, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    value = x[i] if i < x.size else float32(0)
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(ALL, value, step)
        step //= 2
    if cuda.laneid == 0:
        room[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = room[t] if t < BLOCK // 32 else float32(0)
        step = 16
        while step > 0:
            value += cuda.shfl_down_sync(ALL, value, step)
            step //= 2
        if t == 0:
            sums[cuda.blockIdx.x] = value


@jit
def scan(x, out):
    """The sums before each of 512 elements. Source: G. Blelloch, CMU-CS-90-190, 1990."""
    room = cuda.shared.array(SPAN, float32)
    t, start = cuda.threadIdx.x, cuda.blockIdx.x * SPAN
    room[2 * t] = x[start + 2 * t]
    room[2 * t + 1] = x[start + 2 * t + 1]
    offset, pairs = 1, BLOCK
    while pairs > 0:
        cuda.syncthreads()
        if t < pairs:
            room[offset * (2 * t + 2) - 1] += room[offset * (2 * t + 1) - 1]
        offset *= 2
        pairs //= 2
    if t == 0:
        room[SPAN - 1] = float32(0)
    pairs = 1
    while pairs < SPAN:
        offset //= 2
        cuda.syncthreads()
        if t < pairs:
            left, right = offset * (2 * t + 1) - 1, offset * (2 * t + 2) - 1
            value = room[left]
            room[left] = room[right]
            room[right] += value
        pairs *= 2
    cuda.syncthreads()
    out[start + 2 * t] = room[2 * t]
    out[start + 2 * t + 1] = room[2 * t + 1]


def _reduction(kernel: Any) -> Any:
    def setup(given: Any) -> Any:
        x = cuda.to_device(given["x"])
        sums = unset(x.size // BLOCK, np.float32)
        launch = kernel[x.size // BLOCK, BLOCK]

        def run() -> None:
            launch(x, sums)
            cuda.synchronize()

        return run, sums.copy_to_host

    return setup


def _scan(given: Any) -> Any:
    x = cuda.to_device(given["x"])
    out = unset(x.shape, x.dtype)
    launch = scan[x.size // SPAN, BLOCK]

    def run() -> None:
        launch(x, out)
        cuda.synchronize()

    return run, out.copy_to_host


SETUPS = {
    "reduce-tree": _reduction(reduce_tree),
    "reduce-warp": _reduction(reduce_warp),
    "scan": _scan,
}
