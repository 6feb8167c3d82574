"""Random numbers, walks and spins; generators are written in the kernels, to be checked exactly."""

import math

import numpy as np
from numba import float64, prange, uint32, uint64

from benchmarks.corpus.program import Launch, Made, over, over2, parallel, program
from haulage import cuda


@cuda.jit(device=True)
def xorshift(state):
    state ^= (state << uint32(13)) & uint32(0xFFFFFFFF)
    state ^= state >> uint32(17)
    state ^= (state << uint32(5)) & uint32(0xFFFFFFFF)
    return uint32(state)


def _xorshift(state):
    state = state ^ (state << np.uint32(13))
    state = state ^ (state >> np.uint32(17))
    return state ^ (state << np.uint32(5))


@cuda.jit
def pi_by_darts(seeds, inside, throws):
    i = cuda.grid(1)
    if i < seeds.size:
        state = seeds[i]
        count = 0
        for _ in range(throws):
            state = xorshift(state)
            x = state * 2.3283064365386963e-10
            state = xorshift(state)
            y = state * 2.3283064365386963e-10
            if x * x + y * y <= 1.0:
                count += 1
        inside[i] = count


@parallel
def pi_by_darts_loop(seeds, inside, throws):
    for i in prange(seeds.size):
        state = seeds[i]
        count = 0
        for _ in range(throws):
            state ^= uint32(state << uint32(13))
            state ^= uint32(state >> uint32(17))
            state ^= uint32(state << uint32(5))
            x = state * 2.3283064365386963e-10
            state ^= uint32(state << uint32(13))
            state ^= uint32(state >> uint32(17))
            state ^= uint32(state << uint32(5))
            y = state * 2.3283064365386963e-10
            if x * x + y * y <= 1.0:
                count += 1
        inside[i] = count


@program("pi-by-darts", 1 << 16, 300)
def _(n, rng):
    seeds, inside = rng.integers(1, 1 << 32, n, np.uint32), np.zeros(n, np.int32)

    def expect():
        state, count = seeds.copy(), np.zeros(n, np.int32)
        for _ in range(64):
            state = _xorshift(state)
            x = state * 2.3283064365386963e-10
            state = _xorshift(state)
            count += x * x + (state * 2.3283064365386963e-10) ** 2 <= 1
        return [(inside, count)]

    return Made(
        [Launch(pi_by_darts, over(n, 128), 128, (seeds, inside, 64))],
        expect,
        [(pi_by_darts_loop, (seeds, inside, 64))],
    )


@cuda.jit
def congruential(seeds, out):
    i = cuda.grid(1)
    if i < seeds.size:
        state = seeds[i]
        for _ in range(16):
            state = state * uint64(6364136223846793005) + uint64(1442695040888963407)
        out[i] = (state >> uint64(11)) * 1.1102230246251565e-16


@parallel
def congruential_loop(seeds, out):
    for i in prange(seeds.size):
        state = seeds[i]
        for _ in range(16):
            state = state * uint64(6364136223846793005) + uint64(1442695040888963407)
        out[i] = (state >> uint64(11)) * 1.1102230246251565e-16


@program("linear-congruential-uint64", 1 << 22, 500)
def _(n, rng):
    seeds, out = rng.integers(0, 1 << 63, n, np.uint64), np.zeros(n)

    def expect():
        state = seeds.copy()
        for _ in range(16):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        return [(out, (state >> np.uint64(11)) * 2.0**-53)]

    return Made(
        [Launch(congruential, over(n, 256), 256, (seeds, out))],
        expect,
        [(congruential_loop, (seeds, out))],
    )


@cuda.jit
def walk(steps, start, low, high, ends, times):
    """Walks that stop at a border: each leaves its loop when it does."""
    i = cuda.grid(1)
    if i < ends.size:
        place = start
        t = 0
        while t < steps.shape[0]:
            place += steps[t, i]
            t += 1
            if place <= low or place >= high:
                break
        ends[i] = place
        times[i] = t


@parallel
def walk_loop(steps, start, low, high, ends, times):
    for i in prange(ends.size):
        place = start
        t = 0
        while t < steps.shape[0]:
            place += steps[t, i]
            t += 1
            if place <= low or place >= high:
                break
        ends[i] = place
        times[i] = t


@program("walks-to-a-border", 1 << 14, 200)
def _(n, rng):
    steps = rng.normal(size=(200, n))
    ends, times = np.zeros(n), np.zeros(n, np.int32)

    def expect():
        paths = np.cumsum(steps, axis=0)
        out = (paths <= -8) | (paths >= 8)
        last = np.where(out.any(0), out.argmax(0), 199)
        return [(ends, paths[last, np.arange(n)]), (times, last + 1)]

    args = (steps, 0.0, -8.0, 8.0, ends, times)
    return Made([Launch(walk, over(n, 128), 128, args)], expect, [(walk_loop, args)])


@cuda.jit
def metropolis(spins, noise, beta, colour):
    i, j = cuda.grid(2)
    h, w = spins.shape
    if i < h and j < w and (i + j) % 2 == colour:
        around = spins[(i + 1) % h, j] + spins[(i - 1 + h) % h, j]
        around += spins[i, (j + 1) % w] + spins[i, (j - 1 + w) % w]
        change = 2 * spins[i, j] * around
        if change <= 0 or noise[i, j] < math.exp(-beta * change):
            spins[i, j] = -spins[i, j]


@parallel
def metropolis_loop(spins, noise, beta, colour):
    h, w = spins.shape
    for i in prange(h):
        for j in range((i + colour) % 2, w, 2):
            around = spins[(i + 1) % h, j] + spins[(i - 1 + h) % h, j]
            around += spins[i, (j + 1) % w] + spins[i, (j - 1 + w) % w]
            change = 2 * spins[i, j] * around
            if change <= 0 or noise[i, j] < math.exp(-beta * change):
                spins[i, j] = -spins[i, j]


@program("ising-checkerboard", 600, 30)
def _(n, rng):
    spins, noise = rng.choice(np.int32([-1, 1]), (n, n)), rng.random((n, n))

    def expect():
        s = spins.copy()
        i, j = np.indices(s.shape)
        for colour in (0, 1):
            change = 2 * s * sum(np.roll(s, d, a) for d in (1, -1) for a in (0, 1))
            flip = (noise < np.exp(-0.4 * change)) | (change <= 0)
            s = np.where(flip & ((i + j) % 2 == colour), -s, s)
        return [(spins, s)]

    grid = over2((n, n), (16, 16))
    return Made(
        [Launch(metropolis, grid, (16, 16), (spins, noise, 0.4, c)) for c in (0, 1)],
        expect,
        [(metropolis_loop, (spins, noise, 0.4, c)) for c in (0, 1)],
        restore=(spins,),
    )


@cuda.jit
def box_muller(u, v, out):
    i = cuda.grid(1)
    if i < u.size:
        radius = math.sqrt(-2.0 * math.log(u[i]))
        out[2 * i] = radius * math.cos(2 * math.pi * v[i])
        out[2 * i + 1] = radius * math.sin(2 * math.pi * v[i])


@parallel
def box_muller_loop(u, v, out):
    for i in prange(u.size):
        radius = math.sqrt(-2.0 * math.log(u[i]))
        out[2 * i] = radius * math.cos(2 * math.pi * v[i])
        out[2 * i + 1] = radius * math.sin(2 * math.pi * v[i])


@program("box-muller", 1 << 18, 700)
def _(n, rng):
    u, v, out = 1 - rng.random(n), rng.random(n), np.zeros(2 * n)
    r = np.sqrt(-2 * np.log(u))

    def expect():
        pairs = np.stack([r * np.cos(2 * np.pi * v), r * np.sin(2 * np.pi * v)], axis=1)
        return [(out, pairs.ravel())]

    return Made(
        [Launch(box_muller, over(n, 256), 256, (u, v, out))],
        expect,
        [(box_muller_loop, (u, v, out))],
    )


@cuda.jit
def integrate(seeds, dimensions, parts):
    """The mean of a product over a cube, summed for each block in shared memory."""
    room = cuda.shared.array(128, float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    total = 0.0
    state = seeds[i]
    for _ in range(32):
        value = 1.0
        for _ in range(dimensions):
            state = xorshift(state)
            value *= 1.0 + 0.5 * (state * 2.3283064365386963e-10 - 0.5)
        total += value
    room[t] = total
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            room[t] += room[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        parts[cuda.blockIdx.x] = room[0] / (32 * 128)


@program("integral-sampled", 1 << 16, 256)
def _(n, rng):
    seeds, parts = rng.integers(1, 1 << 32, n, np.uint32), np.zeros(n // 128)

    def expect():
        state, total = seeds.copy(), np.zeros(n)
        for _ in range(32):
            value = np.ones(n)
            for _ in range(4):
                state = _xorshift(state)
                value *= 1 + 0.5 * (state * 2.3283064365386963e-10 - 0.5)
            total += value
        return [(parts, total.reshape(-1, 128).mean(1) / 32)]

    return Made([Launch(integrate, n // 128, 128, (seeds, 4, parts))], expect)
