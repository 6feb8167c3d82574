"""Products and transposes of matrices, and forces among bodies: tiles in shared memory."""

# mypy: disable-error-code="no-untyped-def"
import math
from typing import Any

import numpy as np

from haulage import cuda
from haulage.cli.bench.formulas import SOFTENING
from haulage.cli.bench.kernels.made import jit, unset
from haulage.cuda import float32

SIDE = 16
TILE, ROWS = 32, 8
BODIES = 256


@jit
def matmul(a, b, c):
    """c = a @ b in 16 x 16 tiles, two barriers a step; all sides are multiples of 16."""
    a_tile = cuda.shared.array((SIDE, SIDE), float32)
    b_tile = cuda.shared.array((SIDE, SIDE), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], SIDE):
        a_tile[ty, tx] = a[row, start + tx]
        b_tile[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(SIDE):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@jit
def matmul_naive(a, b, c):
    """c = a @ b, each thread one element."""
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@jit
def transpose(a, out):
    """out = a.T; all sides are multiples of 32, four rows a thread."""
    tile = cuda.shared.array((TILE, TILE + 1), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.blockIdx.x * TILE + tx, cuda.blockIdx.y * TILE + ty
    for k in range(0, TILE, ROWS):
        tile[ty + k, tx] = a[y + k, x]
    cuda.syncthreads()
    x, y = cuda.blockIdx.y * TILE + tx, cuda.blockIdx.x * TILE + ty
    for k in range(0, TILE, ROWS):
        out[y + k, x] = tile[tx, ty + k]


@jit
def nbody(bodies, out):
    """The acceleration of each body (x, y, z, mass); their number is a multiple of 256."""
    tile = cuda.shared.array((BODIES, 4), float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    x, y, z = bodies[i, 0], bodies[i, 1], bodies[i, 2]
    ax = ay = az = float32(0)
    for start in range(0, bodies.shape[0], BODIES):
        for k in range(4):
            tile[t, k] = bodies[start + t, k]
        cuda.syncthreads()
        for j in range(BODIES):
            dx, dy, dz = tile[j, 0] - x, tile[j, 1] - y, tile[j, 2] - z
            square = dx * dx + dy * dy + dz * dz + float32(SOFTENING)
            weight = tile[j, 3] / (square * math.sqrt(square))
            ax += weight * dx
            ay += weight * dy
            az += weight * dz
        cuda.syncthreads()
    out[i, 0] = ax
    out[i, 1] = ay
    out[i, 2] = az


def _product(kernel: Any) -> Any:
    def setup(given: Any) -> Any:
        a, b = cuda.to_device(given["a"]), cuda.to_device(given["b"])
        c = unset(a.shape, a.dtype)
        grid = a.shape[0] // SIDE
        launch = kernel[(grid, grid), (SIDE, SIDE)]

        def run() -> None:
            launch(a, b, c)
            cuda.synchronize()

        return run, c.copy_to_host

    return setup


def _transpose(given: Any) -> Any:
    a = cuda.to_device(given["a"])
    out = unset(a.shape, a.dtype)
    launch = transpose[(a.shape[1] // TILE, a.shape[0] // TILE), (TILE, ROWS)]

    def run() -> None:
        launch(a, out)
        cuda.synchronize()

    return run, out.copy_to_host


def _nbody(given: Any) -> Any:
    bodies = cuda.to_device(given["bodies"])
    out = unset((bodies.shape[0], 3), np.float32)
    launch = nbody[bodies.shape[0] // BODIES, BODIES]

    def run() -> None:
        launch(bodies, out)
        cuda.synchronize()

    return run, out.copy_to_host


SETUPS = {
    "matmul-512": _product(matmul),
    "matmul-1024": _product(matmul),
    "matmul-naive": _product(matmul_naive),
    "transpose": _transpose,
    "nbody": _nbody,
}
