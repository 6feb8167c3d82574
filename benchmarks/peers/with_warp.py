"""NVIDIA Warp on the CPU: one thread, one element after another; plain loops, as in Taichi."""

# A literal is a constant to Warp, which a loop cannot change.
# ruff: noqa: UP018, RUF046
import tempfile

import numpy as np
import warp as wp

from haulage.cli.bench.formulas import RATE, SOFTENING, VOLATILITY

wp.config.quiet = True
# A folder of its own: kernels that an earlier run compiled would be taken from disk.
_cache = tempfile.TemporaryDirectory()
wp.config.kernel_cache_dir = _cache.name
# The derivatives of kernels are not wanted, and double the time to compile.
wp.config.enable_backward = False
wp.init()

line, plane = wp.array(dtype=wp.float32), wp.array2d(dtype=wp.float32)
RATE32, VOLATILITY32 = wp.constant(wp.float32(RATE)), wp.constant(wp.float32(VOLATILITY))
EPSILON = wp.constant(wp.float32(SOFTENING))


def about():
    """Version of Warp."""
    return f"Warp {wp.__version__}, cpu"


@wp.kernel(module="unique")
def saxpy(a: wp.float32, x: line, y: line, out: line):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@wp.kernel(module="unique")
def stencil(u: plane, out: plane):
    y, x = wp.tid()
    if y > 0 and y < u.shape[0] - 1 and x > 0 and x < u.shape[1] - 1:
        around = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1]
        out[y, x] = u[y, x] + 0.1 * (around - 4.0 * u[y, x])


@wp.kernel(module="unique")
def matmul(a: plane, b: plane, c: plane):
    row, column = wp.tid()
    total = float(0.0)
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, column]
    c[row, column] = total


@wp.kernel(module="unique")
def sums(x: line, out: line):
    block = wp.tid()
    total = float(0.0)
    for i in range(block * 256, block * 256 + 256):
        total += x[i]
    out[block] = total


@wp.kernel(module="unique")
def scan(x: line, out: line):
    block = wp.tid()
    total = float(0.0)
    for i in range(block * 512, block * 512 + 512):
        out[i] = total
        total += x[i]


@wp.kernel(module="unique")
def histogram(data: wp.array(dtype=wp.uint8), counts: wp.array(dtype=wp.int32)):
    i = wp.tid()
    wp.atomic_add(counts, int(data[i]), 1)


@wp.func
def normal(d: wp.float32):
    return 0.5 * (1.0 + wp.erf(d * 0.70710678))


@wp.kernel(module="unique")
def black_scholes(price: line, strike: line, years: line, call: line, put: line):
    i = wp.tid()
    s = price[i]
    k = strike[i]
    t = years[i]
    root = wp.sqrt(t)
    d1 = (wp.log(s / k) + (RATE32 + 0.5 * VOLATILITY32 * VOLATILITY32) * t) / (VOLATILITY32 * root)
    d2 = d1 - VOLATILITY32 * root
    now = k * wp.exp(-RATE32 * t)
    c = s * normal(d1) - now * normal(d2)
    call[i] = c
    put[i] = c - s + now


@wp.kernel(module="unique")
def mandelbrot(real: line, imaginary: line, out: wp.array2d(dtype=wp.int32)):
    y, x = wp.tid()
    cr = real[x]
    ci = imaginary[y]
    zr = float(cr)
    zi = float(ci)
    n = int(0)
    while n < 200 and zr * zr + zi * zi <= 4.0:
        after = zr * zr - zi * zi + cr
        zi = 2.0 * zr * zi + ci
        zr = after
        n += 1
    out[y, x] = n


@wp.kernel(module="unique")
def nbody(bodies: plane, out: plane):
    i = wp.tid()
    x = bodies[i, 0]
    y = bodies[i, 1]
    z = bodies[i, 2]
    ax = float(0.0)
    ay = float(0.0)
    az = float(0.0)
    for j in range(bodies.shape[0]):
        dx = bodies[j, 0] - x
        dy = bodies[j, 1] - y
        dz = bodies[j, 2] - z
        square = dx * dx + dy * dy + dz * dz + EPSILON
        weight = bodies[j, 3] / (square * wp.sqrt(square))
        ax += weight * dx
        ay += weight * dy
        az += weight * dz
    out[i, 0] = ax
    out[i, 1] = ay
    out[i, 2] = az


@wp.kernel(module="unique")
def transpose(a: plane, out: plane):
    y, x = wp.tid()
    out[y, x] = a[x, y]


@wp.kernel(module="unique")
def nothing_0():
    pass


@wp.kernel(module="unique")
def nothing_1(a: line):
    pass


@wp.kernel(module="unique")
def nothing_3(a: line, b: line, c: line):
    pass


@wp.kernel(module="unique")
def nothing_8(a: line, b: line, c: line, d: line, e: line, f: line, g: line, h: line):
    pass


def _room(array):
    return wp.array(np.ascontiguousarray(array), device="cpu")


def _runner(kernel, dim, given, out):
    def run():
        wp.launch(kernel, dim, inputs=given, device="cpu")
        wp.synchronize()

    return run, lambda: out.numpy()


def _into(kernel, shape_of, dtype=np.float32, dim_of=None):
    def setup(given):
        rooms = [_room(array) for array in given.values()]
        shape = shape_of(*given.values())
        out = _room(np.zeros(shape, dtype))
        return _runner(kernel, dim_of(*given.values()) if dim_of else shape, [*rooms, out], out)

    return setup


def _same(*arrays):
    return arrays[0].shape


def _saxpy(given):
    x, y = _room(given["x"]), _room(given["y"])
    out = _room(np.zeros_like(given["x"]))
    return _runner(saxpy, x.shape, [2.5, x, y, out], out)


def _histogram(given):
    data, counts = _room(given["data"]), _room(np.zeros(256, np.int32))

    def run():
        counts.zero_()
        wp.launch(histogram, data.shape, inputs=[data, counts], device="cpu")
        wp.synchronize()

    return run, lambda: counts.numpy()


def _black_scholes(given):
    rooms = [_room(given[name]) for name in ("price", "strike", "years")]
    call, put = (_room(np.zeros_like(given["price"])) for _ in range(2))
    run, _ = _runner(black_scholes, call.shape, [*rooms, call, put], call)
    return run, lambda: np.stack([call.numpy(), put.numpy()])


def _launch(kernel):
    def setup(given):
        rooms = [_room(array) for array in given.values()]
        run, _ = _runner(kernel, 32, rooms, None)
        return run, lambda: np.zeros(0, np.float32)

    return setup


def _copy(inwards):
    def setup(given):
        host = _room(given["x"])
        there = wp.zeros_like(host)
        source, target = (host, there) if inwards else (there, host)
        wp.copy(source, host)

        def run():
            wp.copy(target, source)
            wp.synchronize()

        return run, target.numpy

    return setup


def setups():
    """A setup for each case."""
    return {
        "saxpy": _saxpy,
        "stencil": _into(stencil, _same),
        **dict.fromkeys(("matmul-512", "matmul-1024", "matmul-naive"), _into(matmul, _same)),
        **dict.fromkeys(("reduce-tree", "reduce-warp"), _into(sums, lambda x: (x.size // 256,))),
        "scan": _into(scan, _same, dim_of=lambda x: (x.size // 512,)),
        "histogram-global": _histogram,
        "black-scholes": _black_scholes,
        "mandelbrot": _into(mandelbrot, lambda x, y: (y.size, x.size), np.int32),
        "nbody": _into(
            nbody, lambda bodies: (len(bodies), 3), dim_of=lambda bodies: (len(bodies),)
        ),
        "transpose": _into(transpose, lambda a: a.shape[::-1]),
        "launch-0": _launch(nothing_0),
        "launch-1": _launch(nothing_1),
        "launch-3": _launch(nothing_3),
        "launch-8": _launch(nothing_8),
        "copy-in-256": _copy(inwards=True),
        "copy-out-256": _copy(inwards=False),
    }
