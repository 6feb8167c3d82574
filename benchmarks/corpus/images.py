"""Filters and transformations of images."""

import math

import numpy as np
from numba import float32, float64, prange, uint8

from benchmarks.corpus.program import Launch, Made, over2, parallel, program
from haulage import cuda


@cuda.jit
def to_grey(rgb, grey):
    x, y = cuda.grid(2)
    if x < rgb.shape[1] and y < rgb.shape[0]:
        r, g, b = rgb[y, x, 0], rgb[y, x, 1], rgb[y, x, 2]
        grey[y, x] = uint8(0.299 * r + 0.587 * g + 0.114 * b)


@parallel
def to_grey_loop(rgb, grey):
    for y in prange(rgb.shape[0]):
        for x in range(rgb.shape[1]):
            r, g, b = rgb[y, x, 0], rgb[y, x, 1], rgb[y, x, 2]
            grey[y, x] = uint8(0.299 * r + 0.587 * g + 0.114 * b)


@program("rgb-to-grey", 1000, 35)
def _(n, rng):
    # Colours with no sum near a whole number, whose rounding would be anyone's.
    rgb = rng.integers(0, 50, (n, n, 3), np.uint8) * 5
    rgb[..., 2] = rgb[..., 0] + 5
    grey = np.zeros((n, n), np.uint8)
    w = 0.299 * rgb[..., 0] + 0.587 * rgb[..., 1] + 0.114 * rgb[..., 2]
    rgb[np.abs(w - np.rint(w)) < 1e-6] = 1
    w = 0.299 * rgb[..., 0] + 0.587 * rgb[..., 1] + 0.114 * rgb[..., 2]
    rgb[np.abs(w - np.rint(w)) < 1e-6] = (3, 7, 20)
    w = 0.299 * rgb[..., 0] + 0.587 * rgb[..., 1] + 0.114 * rgb[..., 2]
    return Made(
        [Launch(to_grey, over2((n, n), (32, 8)), (32, 8), (rgb, grey))],
        lambda: [(grey, w.astype(np.uint8))],
        [(to_grey_loop, (rgb, grey))],
    )


@cuda.jit
def sobel(image, out):
    row, col = cuda.grid(2)
    h, w = image.shape
    if row < 1 or col < 1 or row >= h - 1 or col >= w - 1:
        return
    gx = image[row - 1, col + 1] + 2 * image[row, col + 1] + image[row + 1, col + 1]
    gx -= image[row - 1, col - 1] + 2 * image[row, col - 1] + image[row + 1, col - 1]
    gy = image[row + 1, col - 1] + 2 * image[row + 1, col] + image[row + 1, col + 1]
    gy -= image[row - 1, col - 1] + 2 * image[row - 1, col] + image[row - 1, col + 1]
    out[row, col] = math.sqrt(gx * gx + gy * gy)


@parallel
def sobel_loop(image, out):
    h, w = image.shape
    for row in prange(1, h - 1):
        for col in range(1, w - 1):
            gx = image[row - 1, col + 1] + 2 * image[row, col + 1] + image[row + 1, col + 1]
            gx -= image[row - 1, col - 1] + 2 * image[row, col - 1] + image[row + 1, col - 1]
            gy = image[row + 1, col - 1] + 2 * image[row + 1, col] + image[row + 1, col + 1]
            gy -= image[row - 1, col - 1] + 2 * image[row - 1, col] + image[row - 1, col + 1]
            out[row, col] = math.sqrt(gx * gx + gy * gy)


@program("sobel", 1800, 33)
def _(n, rng):
    image, out = rng.random((n, n), np.float32), np.zeros((n, n), np.float32)

    def expect():
        a = np.pad(image.astype(float), 0)
        gx = a[:-2, 2:] + 2 * a[1:-1, 2:] + a[2:, 2:] - a[:-2, :-2] - 2 * a[1:-1, :-2] - a[2:, :-2]
        gy = a[2:, :-2] + 2 * a[2:, 1:-1] + a[2:, 2:] - a[:-2, :-2] - 2 * a[:-2, 1:-1] - a[:-2, 2:]
        return [(out, np.pad(np.hypot(gx, gy), 1))]

    return Made(
        [Launch(sobel, over2((n, n), (16, 16)), (16, 16), (image, out))],
        expect,
        [(sobel_loop, (image, out))],
    )


@cuda.jit
def box_blur(image, out, radius):
    x, y = cuda.grid(2)
    h, w = image.shape
    if x < w and y < h:
        total = float32(0)
        count = 0
        for dy in range(-radius, radius + 1):
            for dx in range(-radius, radius + 1):
                yy, xx = y + dy, x + dx
                if yy >= 0 and yy < h and xx >= 0 and xx < w:
                    total += image[yy, xx]
                    count += 1
        out[y, x] = total / count


@parallel
def box_blur_loop(image, out, radius):
    h, w = image.shape
    for y in prange(h):
        for x in range(w):
            total = float32(0)
            count = 0
            for dy in range(-radius, radius + 1):
                for dx in range(-radius, radius + 1):
                    yy, xx = y + dy, x + dx
                    if yy >= 0 and yy < h and xx >= 0 and xx < w:
                        total += image[yy, xx]
                        count += 1
            out[y, x] = total / count


@program("box-blur-guarded", 600, 30)
def _(n, rng):
    image, out = rng.random((n, n), np.float32), np.zeros((n, n), np.float32)

    def expect():
        def sums(a):
            p = np.pad(a, 2)
            return np.lib.stride_tricks.sliding_window_view(p, (5, 5)).sum((2, 3))

        return [(out, sums(image.astype(float)) / sums(np.ones((n, n))))]

    return Made(
        [Launch(box_blur, over2((n, n), (16, 16)), (16, 16), (image, out, 2))],
        expect,
        [(box_blur_loop, (image, out, 2))],
    )


GAUSS = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(np.float32) / 256


@cuda.jit
def gauss_tile(image, out):
    """A tile and its rim, loaded by all threads in turn, and weights of constant memory."""
    room = cuda.shared.array((20, 20), float32)
    weights = cuda.const.array_like(GAUSS)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = cuda.blockIdx.x * 16 - 2, cuda.blockIdx.y * 16 - 2
    h, w = image.shape
    for k in range(ty * 16 + tx, 400, 256):
        yy = min(max(top + k // 20, 0), h - 1)
        xx = min(max(left + k % 20, 0), w - 1)
        room[k // 20, k % 20] = image[yy, xx]
    cuda.syncthreads()
    x, y = cuda.grid(2)
    if x < w and y < h:
        total = float32(0)
        for j in range(5):
            for i in range(5):
                total += weights[j, i] * room[ty + j, tx + i]
        out[y, x] = total


@parallel
def gauss_loop(image, out):
    h, w = image.shape
    for y in prange(h):
        for x in range(w):
            total = float32(0)
            for j in range(5):
                for i in range(5):
                    yy, xx = min(max(y + j - 2, 0), h - 1), min(max(x + i - 2, 0), w - 1)
                    total += GAUSS[j, i] * image[yy, xx]
            out[y, x] = total


@program("gauss-shared-tile", 500, 37)
def _(n, rng):
    image, out = rng.random((n, n), np.float32), np.zeros((n, n), np.float32)

    def expect():
        p = np.pad(image, 2, mode="edge")
        return [(out, sum(GAUSS[j, i] * p[j : j + n, i : i + n] for j in range(5)
                          for i in range(5)))]  # fmt: skip

    return Made(
        [Launch(gauss_tile, over2((n, n), (16, 16)), (16, 16), (image, out))],
        expect,
        [(gauss_loop, (image, out))],
    )


@cuda.jit
def bilateral(image, out, spread, keep):
    x, y = cuda.grid(2)
    h, w = image.shape
    if 2 <= x < w - 2 and 2 <= y < h - 2:
        centre = image[y, x]
        total = 0.0
        weights = 0.0
        for dy in range(-2, 3):
            for dx in range(-2, 3):
                other = image[y + dy, x + dx]
                weight = math.exp(-(dx * dx + dy * dy) * spread - (other - centre) ** 2 * keep)
                total += weight * other
                weights += weight
        out[y, x] = total / weights


@parallel
def bilateral_loop(image, out, spread, keep):
    h, w = image.shape
    for y in prange(2, h - 2):
        for x in range(2, w - 2):
            centre = image[y, x]
            total = 0.0
            weights = 0.0
            for dy in range(-2, 3):
                for dx in range(-2, 3):
                    other = image[y + dy, x + dx]
                    weight = math.exp(-(dx * dx + dy * dy) * spread - (other - centre) ** 2 * keep)
                    total += weight * other
                    weights += weight
            out[y, x] = total / weights


@program("bilateral", 200, 25)
def _(n, rng):
    image, out = rng.random((n, n)), np.zeros((n, n))

    def expect():
        windows = np.lib.stride_tricks.sliding_window_view(image, (5, 5))
        d = np.arange(-2, 3) ** 2
        weight = np.exp(
            -(d + d[:, None]) * 0.1 - (windows - image[2:-2, 2:-2, None, None]) ** 2 * 3.0
        )
        return [(out, np.pad((weight * windows).sum((2, 3)) / weight.sum((2, 3)), 2))]

    return Made(
        [Launch(bilateral, over2((n, n), (32, 4)), (32, 4), (image, out, 0.1, 3.0))],
        expect,
        [(bilateral_loop, (image, out, 0.1, 3.0))],
    )


@cuda.jit
def median_3x3(image, out):
    x, y = cuda.grid(2)
    h, w = image.shape
    if x < 1 or y < 1 or x >= w - 1 or y >= h - 1:
        return
    own = cuda.local.array(9, uint8)
    k = 0
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            own[k] = image[y + dy, x + dx]
            k += 1
    for i in range(5):
        least = i
        for j in range(i + 1, 9):
            if own[j] < own[least]:
                least = j
        own[i], own[least] = own[least], own[i]
    out[y, x] = own[4]


@parallel
def median_3x3_loop(image, out):
    h, w = image.shape
    for y in prange(1, h - 1):
        for x in range(1, w - 1):
            own = np.empty(9, np.uint8)
            k = 0
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    own[k] = image[y + dy, x + dx]
                    k += 1
            for i in range(5):
                least = i
                for j in range(i + 1, 9):
                    if own[j] < own[least]:
                        least = j
                own[i], own[least] = own[least], own[i]
            out[y, x] = own[4]


@program("median-3x3-local-array", 250, 26)
def _(n, rng):
    image, out = rng.integers(0, 256, (n, n), np.uint8), np.zeros((n, n), np.uint8)

    def expect():
        windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3))
        return [(out, np.pad(np.median(windows, axis=(2, 3)).astype(np.uint8), 1))]

    return Made(
        [Launch(median_3x3, over2((n, n), (16, 16)), (16, 16), (image, out))],
        expect,
        [(median_3x3_loop, (image, out))],
    )


@cuda.jit
def erode(image, out):
    i, j = cuda.grid(2)
    h, w = image.shape
    if i < h and j < w:
        least = image[i, j]
        for k in range(max(i - 1, 0), min(i + 2, h)):
            for m in range(max(j - 1, 0), min(j + 2, w)):
                if image[k, m] < least:
                    least = image[k, m]
        out[i, j] = least


@parallel
def erode_loop(image, out):
    h, w = image.shape
    for i in prange(h):
        for j in range(w):
            least = image[i, j]
            for k in range(max(i - 1, 0), min(i + 2, h)):
                for m in range(max(j - 1, 0), min(j + 2, w)):
                    if image[k, m] < least:
                        least = image[k, m]
            out[i, j] = least


@program("erosion-bytes", 800, 34)
def _(n, rng):
    image, out = rng.integers(0, 256, (n, n), np.uint8), np.zeros((n, n), np.uint8)

    def expect():
        p = np.pad(image, 1, constant_values=255)
        return [(out, np.lib.stride_tricks.sliding_window_view(p, (3, 3)).min((2, 3)))]

    return Made(
        [Launch(erode, over2((n, n), (8, 32)), (8, 32), (image, out))],
        expect,
        [(erode_loop, (image, out))],
    )


@cuda.jit
def resize(image, out):
    """Bilinear, between the corners."""
    x, y = cuda.grid(2)
    h, w = out.shape
    if x < w and y < h:
        sy = y * (image.shape[0] - 1) / (h - 1)
        sx = x * (image.shape[1] - 1) / (w - 1)
        y0, x0 = min(int(sy), image.shape[0] - 2), min(int(sx), image.shape[1] - 2)
        fy, fx = sy - y0, sx - x0
        upper = image[y0, x0] * (1 - fx) + image[y0, x0 + 1] * fx
        lower = image[y0 + 1, x0] * (1 - fx) + image[y0 + 1, x0 + 1] * fx
        out[y, x] = upper * (1 - fy) + lower * fy


@parallel
def resize_loop(image, out):
    h, w = out.shape
    for y in prange(h):
        for x in range(w):
            sy = y * (image.shape[0] - 1) / (h - 1)
            sx = x * (image.shape[1] - 1) / (w - 1)
            y0, x0 = min(int(sy), image.shape[0] - 2), min(int(sx), image.shape[1] - 2)
            fy, fx = sy - y0, sx - x0
            upper = image[y0, x0] * (1 - fx) + image[y0, x0 + 1] * fx
            lower = image[y0 + 1, x0] * (1 - fx) + image[y0 + 1, x0 + 1] * fx
            out[y, x] = upper * (1 - fy) + lower * fy


@program("resize-bilinear", 1280, 41)
def _(n, rng):
    image, out = rng.random((n // 2, n // 3)), np.zeros((n, n))

    def expect():
        rows = np.linspace(0, n // 2 - 1, n)
        columns = np.linspace(0, n // 3 - 1, n)
        wide = np.stack([np.interp(columns, np.arange(n // 3), row) for row in image])
        return [(out, np.stack([np.interp(rows, np.arange(n // 2), c) for c in wide.T], axis=1))]

    return Made(
        [Launch(resize, over2((n, n), (16, 16)), (16, 16), (image, out))],
        expect,
        [(resize_loop, (image, out))],
    )


@cuda.jit
def rotate(image, out, cosine, sine):
    x, y = cuda.grid(2)
    h, w = image.shape
    if x >= w or y >= h:
        return
    cx, cy = w / 2, h / 2
    sx = int(math.floor((x - cx) * cosine - (y - cy) * sine + cx))  # noqa: RUF046  (a float in kernels)
    sy = int(math.floor((x - cx) * sine + (y - cy) * cosine + cy))  # noqa: RUF046  (a float in kernels)
    if 0 <= sx < w and 0 <= sy < h:
        out[y, x] = image[sy, sx]
    else:
        out[y, x] = 0


@parallel
def rotate_loop(image, out, cosine, sine):
    h, w = image.shape
    for y in prange(h):
        for x in range(w):
            cx, cy = w / 2, h / 2
            sx = int(math.floor((x - cx) * cosine - (y - cy) * sine + cx))  # noqa: RUF046  (a float in kernels)
            sy = int(math.floor((x - cx) * sine + (y - cy) * cosine + cy))  # noqa: RUF046  (a float in kernels)
            if 0 <= sx < w and 0 <= sy < h:
                out[y, x] = image[sy, sx]
            else:
                out[y, x] = 0


@program("rotate-nearest", 1400, 32)
def _(n, rng):
    image, out = rng.integers(0, 256, (n, n), np.uint8), np.zeros((n, n), np.uint8)
    cosine, sine = math.cos(0.37), math.sin(0.37)

    def expect():
        y, x = np.indices((n, n)) - n / 2
        sx = np.floor(x * cosine - y * sine + n / 2).astype(int)
        sy = np.floor(x * sine + y * cosine + n / 2).astype(int)
        ok = (sx >= 0) & (sx < n) & (sy >= 0) & (sy < n)
        return [(out, np.where(ok, image[np.where(ok, sy, 0), np.where(ok, sx, 0)], 0))]

    return Made(
        [Launch(rotate, over2((n, n), (32, 8)), (32, 8), (image, out, cosine, sine))],
        expect,
        [(rotate_loop, (image, out, cosine, sine))],
    )


@cuda.jit
def transpose_tile(image, out):
    room = cuda.shared.array((32, 33), float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.blockIdx.x * 32 + tx, cuda.blockIdx.y * 32 + ty
    h, w = image.shape
    for k in range(0, 32, 8):
        if x < w and y + k < h:
            room[ty + k, tx] = image[y + k, x]
    cuda.syncthreads()
    x, y = cuda.blockIdx.y * 32 + tx, cuda.blockIdx.x * 32 + ty
    for k in range(0, 32, 8):
        if x < h and y + k < w:
            out[y + k, x] = room[tx, ty + k]


@parallel
def transpose_loop(image, out):
    for x in prange(out.shape[0]):
        for y in range(out.shape[1]):
            out[x, y] = image[y, x]


@program("transpose-padded-tile-guarded", 2000, 45)
def _(n, rng):
    image, out = rng.random((n, n + 11)), np.zeros((n + 11, n))
    return Made(
        [Launch(transpose_tile, over2((n + 11, n), (32, 32)), (32, 8), (image, out))],
        lambda: [(out, image.T)],
        [(transpose_loop, (image, out))],
    )
