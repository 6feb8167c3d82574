"""The shortest loops that lead to the same results, whatever the kernels do: limits, no bars."""

import numba
import numpy as np
from numba import float32, int32, njit, prange

from benchmarks.peers.njit import about
from haulage.cli.bench.formulas import SOFTENING

__all__ = ["about", "setups"]

EPSILON = np.float32(SOFTENING)
parallel = njit(parallel=True, fastmath=True, error_model="numpy")


@parallel
def product(a, b, c):
    n = a.shape[0]
    for block in prange(n // 32):
        for row in range(block * 32, block * 32 + 32):
            c[row] = 0
        for start in range(0, n, 32):
            for row in range(block * 32, block * 32 + 32):
                for k in range(start, start + 32):
                    value = a[row, k]
                    for column in range(n):
                        c[row, column] += value * b[k, column]


@parallel
def sums(x, out):
    for block in prange(out.size):
        total = float32(0)
        for i in range(block * 256, block * 256 + 256):
            total += x[i]
        out[block] = total


@parallel
def scan(x, out):
    for block in prange(x.size // 512):
        total = float32(0)
        for i in range(block * 512, block * 512 + 512):
            out[i] = total
            total += x[i]


@parallel
def histogram(data, parts, counts):
    share = (data.size + len(parts) - 1) // len(parts)
    for part in prange(len(parts)):
        even, odd = np.zeros(256, np.int32), np.zeros(256, np.int32)
        begin, end = part * share, min(data.size, (part + 1) * share)
        for i in range(begin, end - 1, 2):
            even[data[i]] += int32(1)
            odd[data[i + 1]] += int32(1)
        if (end - begin) % 2:
            even[data[end - 1]] += int32(1)
        parts[part] = even + odd
    for k in range(256):
        counts[k] = parts[:, k].sum()


@parallel
def forces(x, y, z, mass, out):
    for i in prange(x.size):
        ax = ay = az = float32(0)
        for j in range(x.size):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            square = dx * dx + dy * dy + dz * dz + EPSILON
            weight = mass[j] / (square * np.sqrt(square))
            ax += weight * dx
            ay += weight * dy
            az += weight * dz
        out[i, 0] = ax
        out[i, 1] = ay
        out[i, 2] = az


def _product(given):
    out = np.empty_like(given["a"])
    return lambda: product(given["a"], given["b"], out), lambda: out


def _sums(given):
    out = np.empty(given["x"].size // 256, np.float32)
    return lambda: sums(given["x"], out), lambda: out


def _scan(given):
    out = np.empty_like(given["x"])
    return lambda: scan(given["x"], out), lambda: out


def _histogram(given):
    parts, counts = np.empty((numba.get_num_threads(), 256), np.int32), np.empty(256, np.int32)
    return lambda: histogram(given["data"], parts, counts), lambda: counts


def _forces(given):
    columns = [np.ascontiguousarray(column) for column in given["bodies"].T]
    out = np.empty((len(given["bodies"]), 3), np.float32)
    return lambda: forces(*columns, out), lambda: out


def setups():
    """A setup for each case that there is another way for."""
    return {
        **dict.fromkeys(("matmul-512", "matmul-1024", "matmul-naive"), _product),
        **dict.fromkeys(("reduce-tree", "reduce-warp"), _sums),
        "scan": _scan,
        **dict.fromkeys(("histogram-shared", "histogram-global"), _histogram),
        "nbody": _forces,
    }
