"""Filters and transforms of signals."""

import math

import numpy as np
from numba import float32, float64, prange

from benchmarks.corpus.program import Launch, Made, over, over2, parallel, program
from haulage import cuda


@cuda.jit
def fir_conditional(x, taps, y):
    i = cuda.grid(1)
    if i < x.size:
        total = 0.0
        for k in range(taps.size):
            if i >= k:
                total += taps[k] * x[i - k]
        y[i] = total


@parallel
def fir_conditional_loop(x, taps, y):
    for i in prange(x.size):
        total = 0.0
        for k in range(taps.size):
            if i >= k:
                total += taps[k] * x[i - k]
        y[i] = total


def _filtered(x, taps):
    return np.convolve(x, taps)[: x.size]


@program("fir-with-a-condition", 1 << 17, 1000)
def _(n, rng):
    x, taps, y = rng.normal(size=n), rng.normal(size=32), np.zeros(n)
    return Made(
        [Launch(fir_conditional, over(n, 256), 256, (x, taps, y))],
        lambda: [(y, _filtered(x, taps))],
        [(fir_conditional_loop, (x, taps, y))],
    )


@cuda.jit
def fir_from(x, taps, y):
    """The loop's end depends on the thread."""
    i = cuda.grid(1)
    if i < x.size:
        total = float32(0)
        for k in range(min(taps.size, i + 1)):
            total += taps[k] * x[i - k]
        y[i] = total


@parallel
def fir_from_loop(x, taps, y):
    for i in prange(x.size):
        total = float32(0)
        for k in range(min(taps.size, i + 1)):
            total += taps[k] * x[i - k]
        y[i] = total


@program("fir-with-a-bound", 1 << 17, 1000)
def _(n, rng):
    x, taps = rng.normal(size=n).astype(np.float32), rng.normal(size=64).astype(np.float32)
    y = np.zeros(n, np.float32)
    return Made(
        [Launch(fir_from, over(n, 128), 128, (x, taps, y))],
        lambda: [(y, _filtered(x.astype(float), taps))],
        [(fir_from_loop, (x, taps, y))],
    )


@cuda.jit
def fir_shared(x, taps, y):
    room = cuda.shared.array(256 + 32, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    room[t + 32] = x[i] if i < x.size else float32(0)
    if t < 32:
        room[t] = x[i - 32] if i >= 32 else float32(0)
    cuda.syncthreads()
    if i < x.size:
        total = float32(0)
        for k in range(taps.size):
            total += taps[k] * room[t + 32 - k]
        y[i] = total


@program("fir-shared", 1 << 18, 1000)
def _(n, rng):
    x, taps = rng.normal(size=n).astype(np.float32), rng.normal(size=32).astype(np.float32)
    y = np.zeros(n, np.float32)
    return Made(
        [Launch(fir_shared, over(n, 256), 256, (x, taps, y))],
        lambda: [(y, _filtered(x.astype(float), taps))],
        [(fir_from_loop, (x, taps, y))],
    )


@cuda.jit
def biquads(x, c, y):
    """A recursive filter along time for each channel; channels lie side by side."""
    channel = cuda.grid(1)
    if channel >= x.shape[1]:
        return
    s1 = 0.0
    s2 = 0.0
    for t in range(x.shape[0]):
        v = x[t, channel]
        out = c[0] * v + s1
        s1 = c[1] * v - c[3] * out + s2
        s2 = c[2] * v - c[4] * out
        y[t, channel] = out


@parallel
def biquads_loop(x, c, y):
    for channel in prange(x.shape[1]):
        s1 = 0.0
        s2 = 0.0
        for t in range(x.shape[0]):
            v = x[t, channel]
            out = c[0] * v + s1
            s1 = c[1] * v - c[3] * out + s2
            s2 = c[2] * v - c[4] * out
            y[t, channel] = out


@program("iir-channels-side-by-side", 4096, 70)
def _(n, rng):
    x, y = rng.normal(size=(300, n)), np.zeros((300, n))
    c = np.array([0.2, 0.4, 0.2, -0.5, 0.3])

    def expect():
        out, s1, s2 = np.zeros_like(x), np.zeros(n), np.zeros(n)
        for t in range(300):
            out[t] = c[0] * x[t] + s1
            s1 = c[1] * x[t] - c[3] * out[t] + s2
            s2 = c[2] * x[t] - c[4] * out[t]
        return [(y, out)]

    return Made([Launch(biquads, over(n, 64), 64, (x, c, y))], expect, [(biquads_loop, (x, c, y))])


@cuda.jit
def smooth_rows(x, alpha, y):
    channel = cuda.grid(1)
    if channel < x.shape[0]:
        state = x[channel, 0]
        for t in range(x.shape[1]):
            state += alpha * (x[channel, t] - state)
            y[channel, t] = state


@parallel
def smooth_rows_loop(x, alpha, y):
    for channel in prange(x.shape[0]):
        state = x[channel, 0]
        for t in range(x.shape[1]):
            state += alpha * (x[channel, t] - state)
            y[channel, t] = state


@program("iir-a-row-a-channel", 8192, 70)
def _(n, rng):
    x, y = rng.normal(size=(n, 300)), np.zeros((n, 300))

    def expect():
        out, state = np.zeros_like(x), x[:, 0].copy()
        for t in range(300):
            state += 0.1 * (x[:, t] - state)
            out[:, t] = state
        return [(y, out)]

    return Made(
        [Launch(smooth_rows, over(n, 128), 128, (x, 0.1, y))],
        expect,
        [(smooth_rows_loop, (x, 0.1, y))],
    )


@cuda.jit
def convolve_2d(image, mask, out):
    i, j = cuda.grid(2)
    if i >= out.shape[0] or j >= out.shape[1]:
        return
    delta_rows, delta_cols = mask.shape[0] // 2, mask.shape[1] // 2
    total = 0.0
    for k in range(mask.shape[0]):
        for m in range(mask.shape[1]):
            row, col = i - k + delta_rows, j - m + delta_cols
            if 0 <= row < image.shape[0] and 0 <= col < image.shape[1]:
                total += mask[k, m] * image[row, col]
    out[i, j] = total


@parallel
def convolve_2d_loop(image, mask, out):
    delta_rows, delta_cols = mask.shape[0] // 2, mask.shape[1] // 2
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            total = 0.0
            for k in range(mask.shape[0]):
                for m in range(mask.shape[1]):
                    row, col = i - k + delta_rows, j - m + delta_cols
                    if 0 <= row < image.shape[0] and 0 <= col < image.shape[1]:
                        total += mask[k, m] * image[row, col]
            out[i, j] = total


@program("convolution-2d-guarded", 200, 24)
def _(n, rng):
    image, mask, out = rng.random((n, n)), rng.random((7, 7)), np.zeros((n, n))

    def expect():
        p = np.pad(image, 3)
        total = sum(
            mask[k, m] * p[6 - k : 6 - k + n, 6 - m : 6 - m + n] for k in range(7) for m in range(7)
        )
        return [(out, total)]

    return Made(
        [Launch(convolve_2d, over2((n, n), (16, 16)), (16, 16), (image, mask, out))],
        expect,
        [(convolve_2d_loop, (image, mask, out))],
    )


@cuda.jit
def fourier_naive(x, out):
    k = cuda.grid(1)
    n = x.size
    if k < n:
        re = 0.0
        im = 0.0
        for t in range(n):
            angle = -2 * math.pi * ((k * t) % n) / n
            re += x[t] * math.cos(angle)
            im += x[t] * math.sin(angle)
        out[k] = complex(re, im)


@parallel
def fourier_naive_loop(x, out):
    n = x.size
    for k in prange(n):
        re = 0.0
        im = 0.0
        for t in range(n):
            angle = -2 * math.pi * ((k * t) % n) / n
            re += x[t] * math.cos(angle)
            im += x[t] * math.sin(angle)
        out[k] = complex(re, im)


@program("fourier-transform-naive", 700, 60)
def _(n, rng):
    x, out = rng.normal(size=n), np.zeros(n, np.complex128)
    return Made(
        [Launch(fourier_naive, over(n, 64), 64, (x, out))],
        lambda: [(out, np.fft.fft(x))],
        [(fourier_naive_loop, (x, out))],
    )


@cuda.jit
def fourier_in_block(x, out):
    """Transforms of 128 points, one a block: steps of radix 2 in shared memory."""
    re = cuda.shared.array(128, float64)
    im = cuda.shared.array(128, float64)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    for part in range(2):
        i = t + 64 * part
        place = 0
        for b in range(7):
            place |= ((i >> b) & 1) << (6 - b)
        re[place] = x[row, i].real
        im[place] = x[row, i].imag
    cuda.syncthreads()
    half = 1
    while half < 128:
        k = t % half
        a = (t // half) * 2 * half + k
        b = a + half
        angle = -math.pi * k / half
        c, s = math.cos(angle), math.sin(angle)
        tr = re[b] * c - im[b] * s
        ti = re[b] * s + im[b] * c
        ur, ui = re[a], im[a]
        re[a] = ur + tr
        im[a] = ui + ti
        re[b] = ur - tr
        im[b] = ui - ti
        cuda.syncthreads()
        half *= 2
    out[row, t] = complex(re[t], im[t])
    out[row, t + 64] = complex(re[t + 64], im[t + 64])


@program("fourier-transforms-in-shared", 1024, 9)
def _(n, rng):
    x = rng.normal(size=(n, 256)).view(np.complex128)
    out = np.zeros((n, 128), np.complex128)
    return Made(
        [Launch(fourier_in_block, n, 64, (x, out))],
        lambda: [(out, np.fft.fft(x, axis=1))],
    )


@cuda.jit
def haar_step(x, out):
    i = cuda.grid(1)
    half = x.size // 2
    if i < half:
        a, b = x[2 * i], x[2 * i + 1]
        out[i] = (a + b) * 0.7071067811865476
        out[half + i] = (a - b) * 0.7071067811865476


@parallel
def haar_step_loop(x, out):
    half = x.size // 2
    for i in prange(half):
        a, b = x[2 * i], x[2 * i + 1]
        out[i] = (a + b) * 0.7071067811865476
        out[half + i] = (a - b) * 0.7071067811865476


@program("haar-wavelet", 1 << 22, 2000)
def _(n, rng):
    x, out = rng.normal(size=n), np.zeros(n)
    pairs = x.reshape(-1, 2)

    def expect():
        both = np.concatenate([pairs.sum(1), pairs[:, 0] - pairs[:, 1]])
        return [(out, both * math.sqrt(0.5))]

    return Made(
        [Launch(haar_step, over(n // 2, 256), 256, (x, out))],
        expect,
        [(haar_step_loop, (x, out))],
    )


@cuda.jit
def autocorrelation(x, out):
    lag = cuda.grid(1)
    if lag < out.size:
        total = 0.0
        for i in range(x.size - lag):
            total += x[i] * x[i + lag]
        out[lag] = total / x.size


@parallel
def autocorrelation_loop(x, out):
    for lag in prange(out.size):
        total = 0.0
        for i in range(x.size - lag):
            total += x[i] * x[i + lag]
        out[lag] = total / x.size


@program("autocorrelation", 12000, 300)
def _(n, rng):
    x, out = rng.normal(size=n), np.zeros(n // 6)
    return Made(
        [Launch(autocorrelation, over(n // 6, 64), 64, (x, out))],
        lambda: [(out, np.correlate(x, x, "full")[n - 1 : n - 1 + n // 6] / n)],
        [(autocorrelation_loop, (x, out))],
    )


@cuda.jit
def moving_average(x, out, width):
    """Each thread keeps a running sum over a stretch."""
    t = cuda.grid(1)
    start = t * 256
    if start < out.size:
        total = 0.0
        for k in range(width):
            total += x[start + k]
        for i in range(start, min(start + 256, out.size)):
            out[i] = total / width
            total += x[i + width] - x[i]


@parallel
def moving_average_loop(x, out, width):
    for t in prange((out.size + 255) // 256):
        start = t * 256
        total = 0.0
        for k in range(width):
            total += x[start + k]
        for i in range(start, min(start + 256, out.size)):
            out[i] = total / width
            total += x[i + width] - x[i]


@program("moving-average-by-stretches", 1 << 20, 2100)
def _(n, rng):
    x, out = rng.random(n + 21), np.zeros(n)

    def expect():
        sums = np.cumsum(np.concatenate([[0.0], x]))
        return [(out, (sums[20 : n + 20] - sums[:n]) / 20)]

    return Made(
        [Launch(moving_average, over(over(n, 256), 32), 32, (x, out, 20))],
        expect,
        [(moving_average_loop, (x, out, 20))],
        tolerance=1e-7,
    )
