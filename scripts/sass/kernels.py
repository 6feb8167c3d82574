"""Kernels as programs have them that were written for `numba.cuda`: for `compare_sass.py`.

`SIGNATURES` has those of the benchmarks too, by the file in `haulage/cli/bench/kernels`.
"""

# mypy: disable-error-code="no-untyped-def"
import math

from haulage import cuda
from haulage.cuda import float32, int32

F1, F2 = "float32[::1]", "float32[:,::1]"
SIGNATURES = {
    "elementwise": {
        "saxpy": f"void(float32, {F1}, {F1}, {F1})",
        "stencil": f"void({F2}, {F2})",
        "black_scholes": f"void({F1}, {F1}, {F1}, {F1}, {F1})",
        "mandelbrot": f"void({F1}, {F1}, int32[:,::1])",
    },
    "matrices": {
        "matmul": f"void({F2}, {F2}, {F2})",
        "matmul_naive": f"void({F2}, {F2}, {F2})",
        "transpose": f"void({F2}, {F2})",
        "nbody": f"void({F2}, {F2})",
    },
    "blocks": {
        "reduce_tree": f"void({F1}, {F1})",
        "reduce_warp": f"void({F1}, {F1})",
        "scan": f"void({F1}, {F1})",
    },
    "histograms": {
        "histogram_shared": "void(uint8[::1], int32[::1])",
        "histogram_global": "void(uint8[::1], int32[::1])",
    },
    "kernels": {
        "grid_stride": f"void({F1}, {F1})",
        "dot": f"void({F1}, {F1}, {F1})",
        "spmv": "void(float64[::1], int32[::1], int32[::1], float64[::1], float64[::1])",
        "jacobi": "void(float64[:,::1], float64[:,::1], float64[:,::1])",
        "strided_copy": "void(float32[:,:], float32[:,:])",
        "interleaved": f"void({F1}, {F1})",
        "complex_scale": "void(complex64[::1], complex64[::1], complex64)",
        "monte_carlo": f"void(uint32[::1], {F1}, int32)",
        "convolve": f"void({F1}, {F1}, {F1})",
        "blur": "void(uint8[:,:,::1], uint8[:,:,::1])",
        "small_matrix": "void(float64[:,:,::1], float64[:,::1], float64[:,::1])",
        "nearest": f"void({F2}, {F2}, int32[::1])",
        "life": "void(uint8[:,::1], uint8[:,::1])",
        "polynomial": "void(float64[::1], float64[::1], float64[::1])",
        "trigonometry": f"void({F1}, {F1})",
        "lookup": "void(int64[::1], float64[::1], float64[::1])",
        "heat3d": "void(float64[:,:,::1], float64[:,:,::1], float64)",
    },
}

FIRST = f"void({F1}, {F1})"


def saxpy_first(x, y):
    """What is compiled before any time is taken."""
    i = cuda.grid(1)
    if i < x.size:
        y[i] = float32(2) * x[i] + y[i]


def grid_stride(x, out):
    """The sum of what a thread meets."""
    i = cuda.grid(1)
    total = float32(0)
    for k in range(i, x.size, cuda.gridsize(1)):
        total += x[k]
    out[i] = total


def dot(x, y, out):
    """A product of two vectors, one atomic addition a thread."""
    total = float32(0)
    for k in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        total += x[k] * y[k]
    cuda.atomic.add(out, 0, total)


def spmv(values, columns, starts, x, y):
    """A sparse matrix by rows, times a vector."""
    row = cuda.grid(1)
    if row < y.size:
        total = 0.0
        for k in range(starts[row], starts[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


def jacobi(u, f, out):
    """One step towards the solution of Poisson's equation."""
    i, j = cuda.grid(2)
    n, m = u.shape
    if i >= 1 and i < n - 1 and j >= 1 and j < m - 1:
        out[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])


def strided_copy(a, b):
    """Arrays of any strides."""
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        b[i, j] = a[i, j]


def interleaved(x, out):
    """Four neighbouring elements a thread."""
    i = cuda.grid(1)
    if 4 * i + 3 < x.size:
        for k in range(4):
            out[4 * i + k] = x[4 * i + k] * float32(2)


def complex_scale(x, out, factor):
    """Complex numbers."""
    i = cuda.grid(1)
    if i < x.size:
        out[i] = factor * x[i]


def monte_carlo(seeds, out, steps):
    """Points in a quarter of a circle, by a generator in registers."""
    i = cuda.grid(1)
    if i < seeds.size:
        state = seeds[i]
        inside = int32(0)
        for _ in range(steps):
            state ^= state << 13
            state ^= state >> 17
            state ^= state << 5
            x = float32(state & 0xFFFF) / float32(65536)
            y = float32((state >> 16) & 0xFFFF) / float32(65536)
            if x * x + y * y < float32(1):
                inside += int32(1)
        out[i] = float32(4) * float32(inside) / float32(steps)


def convolve(x, weights, out):
    """A filter of any length."""
    i = cuda.grid(1)
    if i < out.size:
        total = float32(0)
        for k in range(weights.size):
            at = i + k - weights.size // 2
            if at >= 0 and at < x.size:
                total += x[at] * weights[k]
        out[i] = total


def blur(image, out):
    """The mean of 3 x 3 pixels of three channels."""
    x, y = cuda.grid(2)
    if 0 < x < image.shape[1] - 1 and 0 < y < image.shape[0] - 1:
        for channel in range(3):
            total = 0
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    total += image[y + dy, x + dx, channel]
            out[y, x, channel] = total // 9


def small_matrix(matrices, vectors, out):
    """Systems of 3 equations, by elimination in a thread's own array."""
    i = cuda.grid(1)
    if i < out.shape[0]:
        a = cuda.local.array((3, 4), "float64")
        for r in range(3):
            for c in range(3):
                a[r, c] = matrices[i, r, c]
            a[r, 3] = vectors[i, r]
        for p in range(3):
            for r in range(p + 1, 3):
                factor = a[r, p] / a[p, p]
                for c in range(p, 4):
                    a[r, c] -= factor * a[p, c]
        for p in range(2, -1, -1):
            total = a[p, 3]
            for c in range(p + 1, 3):
                total -= a[p, c] * out[i, c]
            out[i, p] = total / a[p, p]


def nearest(points, centres, which):
    """Which centre each point is nearest to."""
    i = cuda.grid(1)
    if i < points.shape[0]:
        best, found = float32(1e30), 0
        for c in range(centres.shape[0]):
            total = float32(0)
            for d in range(3):
                off = points[i, d] - centres[c, d]
                total += off * off
            if total < best:
                best, found = total, c
        which[i] = found


def life(board, out):
    """One generation of the Game of Life on a torus."""
    x, y = cuda.grid(2)
    h, w = board.shape
    if x < w and y < h:
        count = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                if dx != 0 or dy != 0:
                    count += board[(y + dy) % h, (x + dx) % w]
        out[y, x] = 1 if count == 3 or (count == 2 and board[y, x] == 1) else 0


def polynomial(coefficients, x, out):
    """Horner's scheme."""
    i = cuda.grid(1)
    if i < x.size:
        total = 0.0
        for k in range(coefficients.size):
            total = total * x[i] + coefficients[k]
        out[i] = total


def trigonometry(x, out):
    """Functions of libdevice."""
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.sin(x[i]) * math.exp(-x[i]) + math.sqrt(abs(x[i]))


def lookup(keys, table, out):
    """Places that are read from memory, which may be negative."""
    i = cuda.grid(1)
    if i < keys.size:
        out[i] = table[keys[i]]


def heat3d(u, out, factor):
    """One step of heat in space."""
    k, j, i = cuda.grid(3)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1 and 0 < k < u.shape[2] - 1:
        out[i, j, k] = u[i, j, k] + factor * (
            u[i - 1, j, k]
            + u[i + 1, j, k]
            + u[i, j - 1, k]
            + u[i, j + 1, k]
            + u[i, j, k - 1]
            + u[i, j, k + 1]
            - 6 * u[i, j, k]
        )
