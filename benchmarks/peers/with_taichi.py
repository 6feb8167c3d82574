"""Taichi on the CPU: it has no shared memory and no barriers there: plain loops."""

import numpy as np
import taichi as ti

from haulage.cli.bench.formulas import ITERATIONS, RATE, SOFTENING, VOLATILITY

ti.init(arch=ti.cpu, offline_cache=False, log_level=ti.ERROR)

line = ti.types.ndarray(dtype=ti.f32, ndim=1)
plane = ti.types.ndarray(dtype=ti.f32, ndim=2)
counts_type = ti.types.ndarray(dtype=ti.i32, ndim=1)
bytes_type = ti.types.ndarray(dtype=ti.u8, ndim=1)
iterations_type = ti.types.ndarray(dtype=ti.i32, ndim=2)


def about():
    """Version of Taichi."""
    return f"Taichi {'.'.join(map(str, ti.__version__))}, ti.cpu"


@ti.kernel
def saxpy(a: ti.f32, x: line, y: line, out: line):
    for i in range(out.shape[0]):
        out[i] = a * x[i] + y[i]


@ti.kernel
def stencil(u: plane, out: plane):
    for y, x in ti.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
        around = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1]
        out[y, x] = u[y, x] + 0.1 * (around - 4.0 * u[y, x])


@ti.kernel
def matmul(a: plane, b: plane, c: plane):
    for row, column in ti.ndrange(c.shape[0], c.shape[1]):
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@ti.kernel
def sums(x: line, out: line):
    for block in range(out.shape[0]):
        total = 0.0
        for i in range(block * 256, block * 256 + 256):
            total += x[i]
        out[block] = total


@ti.kernel
def scan(x: line, out: line):
    for block in range(x.shape[0] // 512):
        total = 0.0
        for i in range(block * 512, block * 512 + 512):
            out[i] = total
            total += x[i]


@ti.kernel
def histogram(data: bytes_type, counts: counts_type):
    for k in range(256):
        counts[k] = 0
    for i in range(data.shape[0]):
        ti.atomic_add(counts[ti.cast(data[i], ti.i32)], 1)


@ti.func
def erf(x):
    t = 1.0 / (1.0 + 0.3275911 * ti.abs(x))
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    return ti.math.sign(x) * (1.0 - series * ti.exp(-x * x))


@ti.func
def normal(d):
    return 0.5 * (1.0 + erf(d * 0.70710678))


@ti.kernel
def black_scholes(price: line, strike: line, years: line, call: line, put: line):
    for i in range(call.shape[0]):
        s, k, t = price[i], strike[i], years[i]
        root = ti.sqrt(t)
        drift = RATE + 0.5 * VOLATILITY * VOLATILITY
        d1 = (ti.log(s / k) + drift * t) / (VOLATILITY * root)
        d2 = d1 - VOLATILITY * root
        now = k * ti.exp(-RATE * t)
        c = s * normal(d1) - now * normal(d2)
        call[i] = c
        put[i] = c - s + now


@ti.kernel
def mandelbrot(real: line, imaginary: line, out: iterations_type):
    for y, x in ti.ndrange(out.shape[0], out.shape[1]):
        cr, ci = real[x], imaginary[y]
        zr, zi = cr, ci
        n = 0
        while n < ITERATIONS and zr * zr + zi * zi <= 4.0:
            zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
            n += 1
        out[y, x] = n


@ti.kernel
def nbody(bodies: plane, out: plane):
    for i in range(bodies.shape[0]):
        x, y, z = bodies[i, 0], bodies[i, 1], bodies[i, 2]
        ax, ay, az = 0.0, 0.0, 0.0
        for j in range(bodies.shape[0]):
            dx, dy, dz = bodies[j, 0] - x, bodies[j, 1] - y, bodies[j, 2] - z
            square = dx * dx + dy * dy + dz * dz + SOFTENING
            weight = bodies[j, 3] / (square * ti.sqrt(square))
            ax += weight * dx
            ay += weight * dy
            az += weight * dz
        out[i, 0] = ax
        out[i, 1] = ay
        out[i, 2] = az


@ti.kernel
def transpose(a: plane, out: plane):
    for y, x in ti.ndrange(out.shape[0], out.shape[1]):
        out[y, x] = a[x, y]


@ti.kernel
def nothing_0():
    pass


@ti.kernel
def nothing_1(a: line):
    pass


@ti.kernel
def nothing_3(a: line, b: line, c: line):
    pass


@ti.kernel
def nothing_8(a: line, b: line, c: line, d: line, e: line, f: line, g: line, h: line):
    pass


_TYPES = {np.float32: ti.f32, np.int32: ti.i32, np.uint8: ti.u8}


def _room(array):
    made = ti.ndarray(_TYPES[array.dtype.type], array.shape)
    made.from_numpy(np.ascontiguousarray(array))
    return made


def _into(kernel, shape_of, dtype=np.float32):
    def setup(given):
        rooms = [_room(array) for array in given.values()]
        out = _room(np.zeros(shape_of(*given.values()), dtype))

        def run():
            kernel(*rooms, out)
            ti.sync()

        return run, out.to_numpy

    return setup


def _same(*arrays):
    return arrays[0].shape


def _saxpy(given):
    return _into(lambda x, y, out: saxpy(2.5, x, y, out), _same)(given)


def _black_scholes(given):
    rooms = [_room(given[name]) for name in ("price", "strike", "years")]
    call, put = (_room(np.zeros_like(given["price"])) for _ in range(2))

    def run():
        black_scholes(*rooms, call, put)
        ti.sync()

    return run, lambda: np.stack([call.to_numpy(), put.to_numpy()])


def _launch(kernel):
    def setup(given):
        rooms = [_room(array) for array in given.values()]

        def run():
            kernel(*rooms)
            ti.sync()

        return run, lambda: np.zeros(0, np.float32)

    return setup


def setups():
    """A setup for each case."""
    return {
        "saxpy": _saxpy,
        "stencil": _into(stencil, _same),
        **dict.fromkeys(("matmul-512", "matmul-1024", "matmul-naive"), _into(matmul, _same)),
        **dict.fromkeys(("reduce-tree", "reduce-warp"), _into(sums, lambda x: (x.size // 256,))),
        "scan": _into(scan, _same),
        "histogram-global": _into(histogram, lambda data: (256,), np.int32),
        "black-scholes": _black_scholes,
        "mandelbrot": _into(mandelbrot, lambda x, y: (y.size, x.size), np.int32),
        "nbody": _into(nbody, lambda bodies: (len(bodies), 3)),
        "transpose": _into(transpose, lambda a: a.shape[::-1]),
        "launch-0": _launch(nothing_0),
        "launch-1": _launch(nothing_1),
        "launch-3": _launch(nothing_3),
        "launch-8": _launch(nothing_8),
    }
