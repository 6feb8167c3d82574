"""The same algorithms by hand: loops for `njit(parallel=True)`, a block a turn of `prange`."""

import math

import numba
import numpy as np
from numba import float32, int32, njit, prange

from haulage.cli.bench import caching
from haulage.cli.bench.formulas import ITERATIONS, RATE, SOFTENING, VOLATILITY

RATE32, VOLATILITY32 = np.float32(RATE), np.float32(VOLATILITY)
ROOT_HALF, EPSILON = np.float32(math.sqrt(0.5)), np.float32(SOFTENING)
# What CUDA's compiler may do, no more: a * b + c rounded once.
parallel = njit(parallel=True, fastmath={"contract"}, error_model="numpy", cache=caching.CACHE)


def about():
    """Version of Numba and of its threads."""
    return f"Numba {numba.__version__}, {numba.get_num_threads()} threads"


@parallel
def saxpy(a, x, y, out):
    for i in prange(out.size):
        out[i] = a * x[i] + y[i]


@parallel
def stencil(u, out):
    for y in prange(1, u.shape[0] - 1):
        for x in range(1, u.shape[1] - 1):
            around = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1]
            out[y, x] = u[y, x] + float32(0.1) * (around - float32(4) * u[y, x])


@parallel
def matmul(a, b, c):
    n = a.shape[0]
    across = n // 16
    for block in prange(across * across):
        row, column = block // across * 16, block % across * 16
        total = np.zeros((16, 16), np.float32)
        for start in range(0, n, 16):
            for y in range(16):
                for k in range(16):
                    value = a[row + y, start + k]
                    for x in range(16):
                        total[y, x] += value * b[start + k, column + x]
        c[row : row + 16, column : column + 16] = total


@parallel
def matmul_naive(a, b, c):
    for row in prange(c.shape[0]):
        for column in range(c.shape[1]):
            total = float32(0)
            for k in range(a.shape[1]):
                total += a[row, k] * b[k, column]
            c[row, column] = total


@parallel
def reduce_tree(x, sums):
    for block in prange(sums.size):
        room = np.empty(256, np.float32)
        for t in range(256):
            room[t] = x[block * 256 + t]
        step = 128
        while step > 0:
            for t in range(step):
                room[t] += room[t + step]
            step //= 2
        sums[block] = room[0]


@parallel
def reduce_warp(x, sums):
    for block in prange(sums.size):
        room = np.empty((8, 32), np.float32)
        for warp in range(8):
            for lane in range(32):
                room[warp, lane] = x[block * 256 + warp * 32 + lane]
            step = 16
            while step > 0:
                for lane in range(step):
                    room[warp, lane] += room[warp, lane + step]
                step //= 2
        total = float32(0)
        for warp in range(8):
            total += room[warp, 0]
        sums[block] = total


@parallel
def scan(x, out):
    for block in prange(x.size // 512):
        room = np.empty(512, np.float32)
        start = block * 512
        for t in range(512):
            room[t] = x[start + t]
        offset, pairs = 1, 256
        while pairs > 0:
            for t in range(pairs):
                room[offset * (2 * t + 2) - 1] += room[offset * (2 * t + 1) - 1]
            offset *= 2
            pairs //= 2
        room[511] = float32(0)
        pairs = 1
        while pairs < 512:
            offset //= 2
            for t in range(pairs):
                left, right = offset * (2 * t + 1) - 1, offset * (2 * t + 2) - 1
                value = room[left]
                room[left] = room[right]
                room[right] += value
            pairs *= 2
        for t in range(512):
            out[start + t] = room[t]


@parallel
def histogram(data, parts, counts):
    share = (data.size + len(parts) - 1) // len(parts)
    for part in prange(len(parts)):
        mine = parts[part]
        for k in range(256):
            mine[k] = 0
        for i in range(part * share, min(data.size, (part + 1) * share)):
            mine[data[i]] += int32(1)
    for k in range(256):
        counts[k] = 0
        for part in range(len(parts)):
            counts[k] += parts[part, k]


@njit
def normal(d):
    return float32(0.5) * (float32(1) + math.erf(d * ROOT_HALF))


@parallel
def black_scholes(price, strike, years, call, put):
    for i in prange(call.size):
        s, k, t = price[i], strike[i], years[i]
        root = math.sqrt(t)
        drift = RATE32 + float32(0.5) * VOLATILITY32 * VOLATILITY32
        d1 = (math.log(s / k) + drift * t) / (VOLATILITY32 * root)
        d2 = d1 - VOLATILITY32 * root
        now = k * math.exp(-RATE32 * t)
        c = s * normal(d1) - now * normal(d2)
        call[i] = c
        put[i] = c - s + now


@parallel
def mandelbrot(real, imaginary, out):
    for y in prange(out.shape[0]):
        for x in range(out.shape[1]):
            cr, ci = real[x], imaginary[y]
            zr, zi = cr, ci
            n = int32(0)
            while n < ITERATIONS and zr * zr + zi * zi <= float32(4):
                zr, zi = zr * zr - zi * zi + cr, float32(2) * zr * zi + ci
                n += int32(1)
            out[y, x] = n


@parallel
def nbody(bodies, out):
    for i in prange(bodies.shape[0]):
        x, y, z = bodies[i, 0], bodies[i, 1], bodies[i, 2]
        ax = ay = az = float32(0)
        for j in range(bodies.shape[0]):
            dx, dy, dz = bodies[j, 0] - x, bodies[j, 1] - y, bodies[j, 2] - z
            square = dx * dx + dy * dy + dz * dz + EPSILON
            weight = bodies[j, 3] / (square * math.sqrt(square))
            ax += weight * dx
            ay += weight * dy
            az += weight * dz
        out[i, 0] = ax
        out[i, 1] = ay
        out[i, 2] = az


@parallel
def transpose(a, out):
    across = a.shape[1] // 32
    for block in prange(across * (a.shape[0] // 32)):
        y0, x0 = block // across * 32, block % across * 32
        for x in range(x0, x0 + 32):
            for y in range(y0, y0 + 32):
                out[x, y] = a[y, x]


@njit
def nothing_0():
    pass


@njit
def nothing_1(a):
    pass


@njit
def nothing_3(a, b, c):
    pass


@njit
def nothing_8(a, b, c, d, e, f, g, h):
    pass


def _into(function, shape_of, dtype=np.float32):
    """A setup that calls `function` with all inputs and a room for the result."""

    def setup(given):
        arrays = list(given.values())
        out = np.zeros(shape_of(*arrays), dtype)
        return lambda: function(*arrays, out), lambda: out

    return setup


def _same(*arrays):
    return arrays[0].shape


def _saxpy(given):
    out, a = np.empty_like(given["x"]), np.float32(2.5)
    return lambda: saxpy(a, given["x"], given["y"], out), lambda: out


def _black_scholes(given):
    call, put = np.empty((2, given["price"].size), np.float32)
    arrays = [given[name] for name in ("price", "strike", "years")]
    return lambda: black_scholes(*arrays, call, put), lambda: np.stack([call, put])


def _histogram(given):
    parts, counts = np.empty((numba.get_num_threads(), 256), np.int32), np.empty(256, np.int32)
    return lambda: histogram(given["data"], parts, counts), lambda: counts


def _launch(function):
    def setup(given):
        arrays = list(given.values())
        return lambda: function(*arrays), lambda: np.zeros(0, np.float32)

    return setup


def setups():
    """A setup for each case."""
    return {
        "saxpy": _saxpy,
        "stencil": _into(stencil, _same),
        "matmul-512": _into(matmul, _same),
        "matmul-1024": _into(matmul, _same),
        "matmul-naive": _into(matmul_naive, _same),
        "reduce-tree": _into(reduce_tree, lambda x: x.size // 256),
        "reduce-warp": _into(reduce_warp, lambda x: x.size // 256),
        "scan": _into(scan, _same),
        "histogram-shared": _histogram,
        "histogram-global": _histogram,
        "black-scholes": _black_scholes,
        "mandelbrot": _into(mandelbrot, lambda x, y: (y.size, x.size), np.int32),
        "nbody": _into(nbody, lambda bodies: (len(bodies), 3)),
        "transpose": _into(transpose, _same),
        "launch-0": _launch(nothing_0),
        "launch-1": _launch(nothing_1),
        "launch-3": _launch(nothing_3),
        "launch-8": _launch(nothing_8),
    }
