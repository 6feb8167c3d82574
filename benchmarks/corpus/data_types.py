"""Complex numbers, halves, records, tuples, and functions of the device."""

import math

import numpy as np
from numba import prange

from benchmarks.corpus.program import Launch, Made, over, over2, parallel, program
from haulage import cuda


@cuda.jit
def complex_product(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] * b[i].conjugate()


@parallel
def complex_product_loop(a, b, out):
    for i in prange(out.size):
        out[i] = a[i] * b[i].conjugate()


@program("complex64-product", 1 << 21, 1111)
def _(n, rng):
    a, b = (rng.normal(size=2 * n).astype(np.float32).view(np.complex64) for _ in "ab")
    out = np.zeros(n, np.complex64)
    return Made(
        [Launch(complex_product, over(n, 256), 256, (a, b, out))],
        lambda: [(out, a * b.conj())],
        [(complex_product_loop, (a, b, out))],
    )


@cuda.jit
def mobius(z, out, a, b, c, d):
    i = cuda.grid(1)
    if i < z.size:
        out[i] = (a * z[i] + b) / (c * z[i] + d)


@parallel
def mobius_loop(z, out, a, b, c, d):
    for i in prange(z.size):
        out[i] = (a * z[i] + b) / (c * z[i] + d)


@program("complex128-quotient", 1 << 19, 600)
def _(n, rng):
    z = rng.normal(size=2 * n).view(np.complex128)
    out = np.zeros(n, np.complex128)
    args = (z, out, 1 + 2j, 0.5j, 0.25 + 0j, 3 - 1j)
    return Made(
        [Launch(mobius, over(n, 128), 128, args)],
        lambda: [(out, (args[2] * z + args[3]) / (args[4] * z + args[5]))],
        [(mobius_loop, args)],
    )


@cuda.jit
def blend_halves(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * y[i] + x[i]


@program("float16-blend", 1 << 23, 500)
def _(n, rng):
    x, y = rng.random(n).astype(np.float16), rng.random(n).astype(np.float16)
    out = np.zeros(n, np.float16)
    wide = x.astype(np.float64), y.astype(np.float64)
    return Made(
        [Launch(blend_halves, over(n, 256), 256, (x, y, out))],
        lambda: [(out, wide[0] * wide[1] + wide[0])],
    )


PARTICLE = np.dtype(
    [("x", np.float64), ("v", np.float64), ("charge", np.float32), ("id", np.int32)]
)


@cuda.jit
def push_records(particles, field, dt):
    i = cuda.grid(1)
    if i < particles.size:
        p = particles[i]
        p.v = p.v + dt * field * p.charge
        p.x = p.x + dt * p.v
        if p.x > 1.0:
            p.x = 2.0 - p.x
            p.v = -p.v


@parallel
def push_records_loop(particles, field, dt):
    for i in prange(particles.size):
        p = particles[i]
        p.v = p.v + dt * field * p.charge
        p.x = p.x + dt * p.v
        if p.x > 1.0:
            p.x = 2.0 - p.x
            p.v = -p.v


@program("records", 1 << 18, 444)
def _(n, rng):
    particles = np.zeros(n, PARTICLE)
    particles["x"], particles["v"] = rng.random(n), rng.normal(size=n)
    particles["charge"] = rng.choice(np.float32([-1, 1]), n)
    args = (particles, 0.3, 0.01)

    def expect():
        out = particles.copy()
        out["v"] += 0.01 * 0.3 * particles["charge"]
        out["x"] += 0.01 * out["v"]
        over_edge = out["x"] > 1
        out["x"] = np.where(over_edge, 2 - out["x"], out["x"])
        out["v"] = np.where(over_edge, -out["v"], out["v"])
        return [(particles, out)]

    return Made(
        [Launch(push_records, over(n, 256), 256, args)],
        expect,
        [(push_records_loop, args)],
        restore=(particles,),
        tolerance=1e-6,
    )


@cuda.jit(device=True, inline=True)
def to_polar(x, y):
    return math.hypot(x, y), math.atan2(y, x)


@cuda.jit(device=True)
def turned(x, y, angle):
    radius, phi = to_polar(x, y)
    return radius * math.cos(phi + angle), radius * math.sin(phi + angle)


@cuda.jit
def turn_points(points, angle, out):
    i = cuda.grid(1)
    if i < points.shape[0]:
        out[i, 0], out[i, 1] = turned(points[i, 0], points[i, 1], angle)


@program("device-functions-of-tuples", 1 << 17, 321)
def _(n, rng):
    points = rng.normal(size=(n, 2))
    out = np.zeros((n, 2))
    turn = np.array([[math.cos(0.4), math.sin(0.4)], [-math.sin(0.4), math.cos(0.4)]])
    return Made(
        [Launch(turn_points, over(n, 128), 128, (points, 0.4, out))],
        lambda: [(out, points @ turn)],
    )


@cuda.jit(device=True)
def bend(position, direction, strength):
    total = 0.0
    for k in range(3):
        total += position[k] * direction[k]
    for k in range(3):
        direction[k] -= strength * total * position[k]


@cuda.jit
def bend_rays(rays, out):
    i = cuda.grid(1)
    if i >= rays.shape[0]:
        return
    position = cuda.local.array(3, np.float64)
    direction = cuda.local.array(3, np.float64)
    for k in range(3):
        position[k] = rays[i, k]
        direction[k] = rays[i, 3 + k]
    for _ in range(10):
        bend(position, direction, 0.1)
        for k in range(3):
            position[k] += 0.05 * direction[k]
    for k in range(3):
        out[i, k] = position[k]


@parallel
def bend_rays_loop(rays, out):
    for i in prange(rays.shape[0]):
        p0, p1, p2 = rays[i, 0], rays[i, 1], rays[i, 2]
        d0, d1, d2 = rays[i, 3], rays[i, 4], rays[i, 5]
        for _ in range(10):
            total = p0 * d0 + p1 * d1 + p2 * d2
            d0 -= 0.1 * total * p0
            d1 -= 0.1 * total * p1
            d2 -= 0.1 * total * p2
            p0 += 0.05 * d0
            p1 += 0.05 * d1
            p2 += 0.05 * d2
        out[i, 0] = p0
        out[i, 1] = p1
        out[i, 2] = p2


@program("local-arrays-to-functions", 1 << 17, 300)
def _(n, rng):
    rays = rng.normal(size=(n, 6))
    out = np.zeros((n, 3))

    def expect():
        p, d = rays[:, :3].copy(), rays[:, 3:].copy()
        for _ in range(10):
            d -= 0.1 * np.sum(p * d, axis=1, keepdims=True) * p
            p += 0.05 * d
        return [(out, p)]

    return Made(
        [Launch(bend_rays, over(n, 128), 128, (rays, out))],
        expect,
        [(bend_rays_loop, (rays, out))],
    )


@cuda.jit
def blend_images(top, below, alpha, out):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        for c in range(3):
            a = alpha[y, x]
            out[y, x, c] = (top[y, x, c] * a + below[y, x, c] * (255 - a)) // 255


@parallel
def blend_images_loop(top, below, alpha, out):
    for y in prange(out.shape[0]):
        for x in range(out.shape[1]):
            for c in range(3):
                a = np.int64(alpha[y, x])
                out[y, x, c] = (top[y, x, c] * a + below[y, x, c] * (255 - a)) // 255


@program("bytes-alpha-blend", 640, 31)
def _(n, rng):
    top, below = (rng.integers(0, 256, (n, n, 3), np.uint8) for _ in "ab")
    alpha, out = rng.integers(0, 256, (n, n), np.uint8), np.zeros((n, n, 3), np.uint8)
    a = alpha[..., None].astype(np.int64)
    return Made(
        [Launch(blend_images, over2((n, n), (32, 8)), (32, 8), (top, below, alpha, out))],
        lambda: [(out, (top * a + below * (255 - a)) // 255)],
        [(blend_images_loop, (top, below, alpha, out))],
    )
