"""The kernels of the demo, in numba.cuda's words and as one would write them for a GPU.

Pictures are (rows, columns, 3) or (rows, columns). Blocks are `SIDE` x `SIDE` threads, one a
pixel, and each block brings its pixels and their neighbours into shared memory first.
"""

# mypy: disable-error-code="no-untyped-def"
import math

import numpy as np

from haulage import cuda

SIDE = 16
RADIUS = 6
BLUR_PATCH = SIDE + 2 * RADIUS
EDGE_PATCH = SIDE + 2
TAPS = 2 * RADIUS + 1
BINS = 256

RED, GREEN, BLUE = np.float32(0.299), np.float32(0.587), np.float32(0.114)


@cuda.jit
def blur(photo, above, weights, blurred):
    """Gaussian blur: across into a second tile, then down it. The grid's z is the colour.

    `photo` (uint8) starts `above` rows higher than `blurred` (float32); `weights` has `TAPS`.
    """
    patch = cuda.shared.array((BLUR_PATCH, BLUR_PATCH), np.float32)
    across = cuda.shared.array((BLUR_PATCH, SIDE), np.float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    colour = cuda.blockIdx.z
    top = row - ty + above - RADIUS
    left = column - tx - RADIUS

    # A block has fewer threads than its patch has pixels: each thread brings several.
    for y in range(ty, BLUR_PATCH, SIDE):
        for x in range(tx, BLUR_PATCH, SIDE):
            from_row = min(max(top + y, 0), photo.shape[0] - 1)
            from_column = min(max(left + x, 0), photo.shape[1] - 1)
            patch[y, x] = photo[from_row, from_column, colour]
    cuda.syncthreads()

    for y in range(ty, BLUR_PATCH, SIDE):
        total = np.float32(0)
        for tap in range(TAPS):
            total += weights[tap] * patch[y, tx + tap]
        across[y, tx] = total
    cuda.syncthreads()

    if row < blurred.shape[0] and column < blurred.shape[1]:
        total = np.float32(0)
        for tap in range(TAPS):
            total += weights[tap] * across[ty + tap, tx]
        blurred[row, column, colour] = total


@cuda.jit(device=True)
def luminance(picture, row, column):
    """Brightness of one pixel, 0 to 255."""
    return (
        RED * picture[row, column, 0]
        + GREEN * picture[row, column, 1]
        + BLUE * picture[row, column, 2]
    )


@cuda.jit
def edges(blurred, above, strength):
    """Sobel: how steep the brightness is at each pixel.

    `blurred` (float32) starts `above` rows higher than `strength` (float32).
    """
    patch = cuda.shared.array((EDGE_PATCH, EDGE_PATCH), np.float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    top = row - ty + above - 1
    left = column - tx - 1

    for y in range(ty, EDGE_PATCH, SIDE):
        for x in range(tx, EDGE_PATCH, SIDE):
            from_row = min(max(top + y, 0), blurred.shape[0] - 1)
            from_column = min(max(left + x, 0), blurred.shape[1] - 1)
            patch[y, x] = luminance(blurred, from_row, from_column)
    cuda.syncthreads()

    if row < strength.shape[0] and column < strength.shape[1]:
        x, y = tx + 1, ty + 1
        two = np.float32(2)
        across = (
            (patch[y - 1, x + 1] - patch[y - 1, x - 1])
            + two * (patch[y, x + 1] - patch[y, x - 1])
            + (patch[y + 1, x + 1] - patch[y + 1, x - 1])
        )
        down = (
            (patch[y + 1, x - 1] - patch[y - 1, x - 1])
            + two * (patch[y + 1, x] - patch[y - 1, x])
            + (patch[y + 1, x + 1] - patch[y - 1, x + 1])
        )
        strength[row, column] = math.sqrt(across * across + down * down)


@cuda.jit
def histogram(photo, bins):
    """Add the pixels of `photo` (uint8) to `bins` (int32, 256), by brightness.

    Each block counts in shared memory and adds what it found in one go; `SIDE * SIDE` threads
    make one a bin.
    """
    mine = cuda.shared.array(BINS, np.int32)
    column, row = cuda.grid(2)
    thread = cuda.threadIdx.y * SIDE + cuda.threadIdx.x
    mine[thread] = 0
    cuda.syncthreads()

    if row < photo.shape[0] and column < photo.shape[1]:
        # Whole numbers, so that NumPy's count is the same to the last pixel.
        red, green, blue = photo[row, column, 0], photo[row, column, 1], photo[row, column, 2]
        cuda.atomic.add(mine, (77 * red + 150 * green + 29 * blue) >> 8, 1)
    cuda.syncthreads()

    if mine[thread] > 0:
        cuda.atomic.add(bins, thread, mine[thread])


@cuda.jit
def product(a, b, c):
    """c = a @ b (float32) in tiles, two barriers a step; all sides are multiples of `SIDE`."""
    a_tile = cuda.shared.array((SIDE, SIDE), np.float32)
    b_tile = cuda.shared.array((SIDE, SIDE), np.float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = np.float32(0)
    for start in range(0, a.shape[1], SIDE):
        a_tile[ty, tx] = a[row, start + tx]
        b_tile[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(SIDE):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    c[row, column] = total
