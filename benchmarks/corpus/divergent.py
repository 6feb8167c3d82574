"""Loops that threads leave at different times."""

import math

import numpy as np
from numba import prange

from benchmarks.corpus.program import Launch, Made, over, over2, parallel, program
from haulage import cuda


@cuda.jit(device=True)
def julia_count(x, y, cx, cy, most):
    z = complex(x, y)
    c = complex(cx, cy)
    for i in range(most):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return i
    return most


@cuda.jit
def julia(out, cx, cy, most):
    px, py = cuda.grid(2)
    h, w = out.shape
    if px < w and py < h:
        out[py, px] = julia_count(3.0 * px / w - 1.5, 2.0 * py / h - 1.0, cx, cy, most)


@parallel
def julia_loop(out, cx, cy, most):
    h, w = out.shape
    for py in prange(h):
        for px in range(w):
            z = complex(3.0 * px / w - 1.5, 2.0 * py / h - 1.0)
            c = complex(cx, cy)
            out[py, px] = most
            for i in range(most):
                z = z * z + c
                if z.real * z.real + z.imag * z.imag >= 4:
                    out[py, px] = i
                    break


@program("julia-set-complex", 512, 32)
def _(n, rng):
    out = np.zeros((n, n), np.uint8)
    args = (out, -0.4, 0.6, 60)

    def expect():
        z = 3.0 * np.arange(n) / n - 1.5 + 1j * (2.0 * np.arange(n)[:, None] / n - 1)
        count, alive = np.full((n, n), 60, np.uint8), np.ones((n, n), bool)
        for i in range(60):
            z = np.where(alive, z * z + (-0.4 + 0.6j), z)
            left = alive & (z.real**2 + z.imag**2 >= 4)
            count[left] = i
            alive &= ~left
        return [(out, count)]

    return Made(
        [Launch(julia, over2((n, n), (16, 16)), (16, 16), args)], expect, [(julia_loop, args)]
    )


@cuda.jit
def collatz(start, out):
    i = cuda.grid(1)
    if i < out.size:
        n = start + i
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n //= 2
            else:
                n = 3 * n + 1
            steps += 1
        out[i] = steps


@parallel
def collatz_loop(start, out):
    for i in prange(out.size):
        n = start + i
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n //= 2
            else:
                n = 3 * n + 1
            steps += 1
        out[i] = steps


@program("collatz", 1 << 15, 300)
def _(n, rng):
    out = np.zeros(n, np.int32)

    def expect():
        x, steps = np.arange(1, n + 1), np.zeros(n, np.int32)
        while (x != 1).any():
            steps += x != 1
            x = np.where(x == 1, 1, np.where(x % 2 == 0, x // 2, 3 * x + 1))
        return [(out, steps)]

    return Made([Launch(collatz, over(n, 128), 128, (1, out))], expect, [(collatz_loop, (1, out))])


@cuda.jit
def divisors(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        x, y = a[i], b[i]
        while y != 0:
            x, y = y, x % y
        out[i] = x


@parallel
def divisors_loop(a, b, out):
    for i in prange(out.size):
        x, y = a[i], b[i]
        while y != 0:
            x, y = y, x % y
        out[i] = x


@program("greatest-common-divisors", 1 << 15, 300)
def _(n, rng):
    a, b = (rng.integers(1, 1 << 30, n, np.int32) for _ in "ab")
    out = np.zeros(n, np.int32)
    return Made(
        [Launch(divisors, over(n, 128), 128, (a, b, out))],
        lambda: [(out, np.gcd(a, b))],
        [(divisors_loop, (a, b, out))],
    )


@cuda.jit
def primes(out):
    i = cuda.grid(1)
    if i >= out.size:
        return
    if i < 2:
        out[i] = False
        return
    d = 2
    while d * d <= i:
        if i % d == 0:
            out[i] = False
            return
        d += 1
    out[i] = True


@parallel
def primes_loop(out):
    for i in prange(out.size):
        out[i] = i >= 2
        d = 2
        while d * d <= i:
            if i % d == 0:
                out[i] = False
                break
            d += 1


@program("primes-by-trial", 1 << 16, 500)
def _(n, rng):
    out = np.zeros(n, np.bool_)

    def expect():
        sieve = np.ones(n, bool)
        sieve[:2] = False
        for d in range(2, math.isqrt(n) + 1):
            sieve[d * d :: d] = False
        return [(out, sieve)]

    return Made([Launch(primes, over(n, 256), 256, (out,))], expect, [(primes_loop, (out,))])


@cuda.jit
def newton_basins(out, most):
    """Which root of z**3 = 1 is reached from each point, and how soon."""
    px, py = cuda.grid(2)
    h, w = out.shape
    if px >= w or py >= h:
        return
    x, y = 4.0 * (px + 0.5) / w - 2.0, 4.0 * (py + 0.5) / h - 2.0
    steps = 0
    while steps < most:
        x2, y2 = x * x - y * y, 2 * x * y
        fx, fy = x2 * x - y2 * y - 1.0, x2 * y + y2 * x
        if fx * fx + fy * fy < 1e-12:
            break
        dx, dy = 3 * x2, 3 * y2
        d = dx * dx + dy * dy
        x -= (fx * dx + fy * dy) / d
        y -= (fy * dx - fx * dy) / d
        steps += 1
    root = 0 if x > 0 else (1 if y > 0 else 2)
    out[py, px] = root * 100 + steps


@parallel
def newton_basins_loop(out, most):
    h, w = out.shape
    for py in prange(h):
        for px in range(w):
            x, y = 4.0 * (px + 0.5) / w - 2.0, 4.0 * (py + 0.5) / h - 2.0
            steps = 0
            while steps < most:
                x2, y2 = x * x - y * y, 2 * x * y
                fx, fy = x2 * x - y2 * y - 1.0, x2 * y + y2 * x
                if fx * fx + fy * fy < 1e-12:
                    break
                dx, dy = 3 * x2, 3 * y2
                d = dx * dx + dy * dy
                x -= (fx * dx + fy * dy) / d
                y -= (fy * dx - fx * dy) / d
                steps += 1
            root = 0 if x > 0 else (1 if y > 0 else 2)
            out[py, px] = root * 100 + steps


@program("newton-fractal", 400, 28, cheap=False)
def _(n, rng):
    out = np.zeros((n, n), np.int32)

    def expect():
        found = np.zeros((n, n), np.int32)
        for py in range(n):
            for px in range(n):
                z = complex(4.0 * (px + 0.5) / n - 2.0, 4.0 * (py + 0.5) / n - 2.0)
                steps = 0
                while steps < 40 and abs(z * z * z - 1) ** 2 >= 1e-12:
                    z -= (z * z * z - 1) / (3 * z * z)
                    steps += 1
                found[py, px] = (0 if z.real > 0 else 1 if z.imag > 0 else 2) * 100 + steps
        return [(out, found)]

    return Made(
        [Launch(newton_basins, over2((n, n), (32, 4)), (32, 4), (out, 40))],
        expect,
        [(newton_basins_loop, (out, 40))],
    )


@cuda.jit
def bisect(a, b, out):
    """The root of x**3 + a x - b, up to a width that each thread reaches in its own time."""
    i = cuda.grid(1)
    if i < out.size:
        low, high = 0.0, 1.0 + abs(b[i])
        while high - low > 1e-12 * (1.0 + high):
            mid = 0.5 * (low + high)
            if mid * mid * mid + a[i] * mid - b[i] > 0:
                high = mid
            else:
                low = mid
        out[i] = 0.5 * (low + high)


@parallel
def bisect_loop(a, b, out):
    for i in prange(out.size):
        low, high = 0.0, 1.0 + abs(b[i])
        while high - low > 1e-12 * (1.0 + high):
            mid = 0.5 * (low + high)
            if mid * mid * mid + a[i] * mid - b[i] > 0:
                high = mid
            else:
                low = mid
        out[i] = 0.5 * (low + high)


@program("bisection", 1 << 16, 400)
def _(n, rng):
    a, b, out = rng.random(n), rng.random(n) * 50, np.zeros(n)

    def expect():
        x = np.ones(n)
        for _ in range(100):
            x -= (x**3 + a * x - b) / (3 * x * x + a)
        return [(out, x)]

    return Made(
        [Launch(bisect, over(n, 256), 256, (a, b, out))],
        expect,
        [(bisect_loop, (a, b, out))],
    )


@cuda.jit
def logistic_periods(out, most):
    """How long the logistic map takes to come near where it was after 200 steps."""
    i = cuda.grid(1)
    if i < out.size:
        r = 2.5 + 1.05 * i / out.size
        x = 0.5
        for _ in range(200):
            x = r * x * (1 - x)
        there = x
        period = 0
        for k in range(1, most + 1):
            x = r * x * (1 - x)
            if abs(x - there) < 1e-3:
                period = k
                break
        out[i] = period


@parallel
def logistic_periods_loop(out, most):
    for i in prange(out.size):
        r = 2.5 + 1.05 * i / out.size
        x = 0.5
        for _ in range(200):
            x = r * x * (1 - x)
        there = x
        period = 0
        for k in range(1, most + 1):
            x = r * x * (1 - x)
            if abs(x - there) < 1e-3:
                period = k
                break
        out[i] = period


@program("logistic-map-periods", 1 << 16, 300)
def _(n, rng):
    out = np.zeros(n, np.int32)

    def expect():
        r, x = 2.5 + 1.05 * np.arange(n) / n, np.full(n, 0.5)
        for _ in range(200):
            x = r * x * (1 - x)
        there, period = x.copy(), np.zeros(n, np.int32)
        for k in range(1, 33):
            x = r * x * (1 - x)
            period = np.where((period == 0) & (np.abs(x - there) < 1e-3), k, period)
        return [(out, period)]

    return Made(
        [Launch(logistic_periods, over(n, 128), 128, (out, 32))],
        expect,
        [(logistic_periods_loop, (out, 32))],
    )
