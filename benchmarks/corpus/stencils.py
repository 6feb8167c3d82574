"""Grids whose points look at their neighbours."""

import numpy as np
from numba import float64, prange

from benchmarks.corpus.program import Launch, Made, over, over2, parallel, program
from haulage import cuda


def _steps(kernel, loops, grid, block, pair, others=(), steps=4):
    """Launches and calls that go to and fro between two arrays."""
    order = [(pair[k % 2], pair[1 - k % 2], *others) for k in range(steps)]
    return [Launch(kernel, grid, block, args) for args in order], [(loops, args) for args in order]


def _repeated(step, start, steps=4):
    """The last two states, as they lie in the two arrays."""
    states = [start]
    for _ in range(steps):
        states.append(step(states[-1]))
    return states[-1], states[-2]


@cuda.jit
def heat_ij(u, new, c):
    i, j = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        new[i, j] = u[i, j] + c * (
            u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4 * u[i, j]
        )


@parallel
def heat_loop(u, new, c):
    for i in prange(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            new[i, j] = u[i, j] + c * (
                u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4 * u[i, j]
            )


def heat_of(u, c):
    new = u.copy()
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    new[1:-1, 1:-1] += c * (around - 4 * u[1:-1, 1:-1])
    return new


@program("heat-2d-x-is-row", 1400, 35)
def _(n, rng):
    u = rng.random((n, n))
    new = u.copy()
    grid = over2((n, n), (16, 16))
    launches, loops = _steps(heat_ij, heat_loop, grid, (16, 16), (u, new), (0.2,))
    return Made(
        launches,
        lambda: list(zip((u, new), _repeated(lambda s: heat_of(s, 0.2), u), strict=True)),
        loops,
        restore=(u,),
    )


@cuda.jit
def heat_ji(u, new, c):
    j, i = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        new[i, j] = u[i, j] + c * (
            u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4 * u[i, j]
        )


@program("heat-2d-x-is-column", 900, 35)
def _(n, rng):
    u = rng.random((n, n), np.float32)
    new, c = u.copy(), np.float32(0.2)
    grid = over2((n, n), (32, 8))
    launches, loops = _steps(heat_ji, heat_loop, grid, (32, 8), (u, new), (c,))
    return Made(
        launches,
        lambda: list(zip((u, new), _repeated(lambda s: heat_of(s, c), u), strict=True)),
        loops,
        restore=(u,),
    )


@cuda.jit("void(f8[:,:], f8[:,:])")
def laplace_eager(u, new):
    j, i = cuda.grid(2)
    n, m = u.shape
    if i >= 1 and i < n - 1 and j >= 1 and j < m - 1:
        new[i, j] = 0.25 * (u[i, j + 1] + u[i, j - 1] + u[i - 1, j] + u[i + 1, j])


@parallel
def laplace_loop(u, new):
    n, m = u.shape
    for i in prange(1, n - 1):
        for j in range(1, m - 1):
            new[i, j] = 0.25 * (u[i, j + 1] + u[i, j - 1] + u[i - 1, j] + u[i + 1, j])


def laplace_of(u):
    new = u.copy()
    new[1:-1, 1:-1] = 0.25 * (u[1:-1, 2:] + u[1:-1, :-2] + u[:-2, 1:-1] + u[2:, 1:-1])
    return new


@program("laplace-eager-unknown-strides", 1000, 33)
def _(n, rng):
    u = rng.random((n, n))
    new = u.copy()
    launches, loops = _steps(laplace_eager, laplace_loop, over2((n, n), (32, 8)), (32, 8), (u, new))
    return Made(
        launches,
        lambda: list(zip((u, new), _repeated(laplace_of, u), strict=True)),
        loops,
        restore=(u,),
    )


@cuda.jit
def laplace_tile(u, new):
    """A tile with a rim in shared memory."""
    room = cuda.shared.array((18, 18), float64)
    tx, ty = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    x, y = cuda.grid(2)
    n, m = u.shape
    inside = y < n and x < m
    if inside:
        room[ty, tx] = u[y, x]
        if tx == 1 and x > 0:
            room[ty, 0] = u[y, x - 1]
        if tx == 16 and x < m - 1:
            room[ty, 17] = u[y, x + 1]
        if ty == 1 and y > 0:
            room[0, tx] = u[y - 1, x]
        if ty == 16 and y < n - 1:
            room[17, tx] = u[y + 1, x]
    cuda.syncthreads()
    if 0 < y < n - 1 and 0 < x < m - 1:
        new[y, x] = 0.25 * (
            room[ty, tx + 1] + room[ty, tx - 1] + room[ty - 1, tx] + room[ty + 1, tx]
        )


@program("laplace-shared-tile", 800, 37)
def _(n, rng):
    u = rng.random((n, n))
    new = u.copy()
    launches, loops = _steps(
        laplace_tile, laplace_loop, over2((n, n), (16, 16)), (16, 16), (u, new)
    )
    return Made(
        launches,
        lambda: list(zip((u, new), _repeated(laplace_of, u), strict=True)),
        loops,
        restore=(u,),
    )


@cuda.jit
def heat_3d(u, new, c):
    x, y, z = cuda.grid(3)
    nz, ny, nx = u.shape
    if x < 1 or y < 1 or z < 1 or x >= nx - 1 or y >= ny - 1 or z >= nz - 1:
        return
    around = u[z - 1, y, x] + u[z + 1, y, x] + u[z, y - 1, x] + u[z, y + 1, x]
    around += u[z, y, x - 1] + u[z, y, x + 1]
    new[z, y, x] = u[z, y, x] + c * (around - 6 * u[z, y, x])


@parallel
def heat_3d_loop(u, new, c):
    nz, ny, nx = u.shape
    for z in prange(1, nz - 1):
        for y in range(1, ny - 1):
            for x in range(1, nx - 1):
                around = u[z - 1, y, x] + u[z + 1, y, x] + u[z, y - 1, x] + u[z, y + 1, x]
                around += u[z, y, x - 1] + u[z, y, x + 1]
                new[z, y, x] = u[z, y, x] + c * (around - 6 * u[z, y, x])


@program("heat-3d", 110, 13)
def _(n, rng):
    u = rng.random((n, n + 1, n + 2))
    new = u.copy()

    def expect():
        out, s = u.copy(), u
        around = s[:-2, 1:-1, 1:-1] + s[2:, 1:-1, 1:-1] + s[1:-1, :-2, 1:-1] + s[1:-1, 2:, 1:-1]
        around += s[1:-1, 1:-1, :-2] + s[1:-1, 1:-1, 2:]
        out[1:-1, 1:-1, 1:-1] += 0.1 * (around - 6 * s[1:-1, 1:-1, 1:-1])
        return [(new, out)]

    return Made(
        [Launch(heat_3d, over2((n + 2, n + 1, n), (8, 8, 8)), (8, 8, 8), (u, new, 0.1))],
        expect,
        [(heat_3d_loop, (u, new, 0.1))],
    )


@cuda.jit
def wave(before, now, after, c2):
    y, x = cuda.grid(2)
    h, w = now.shape
    if y < h and x < w:
        up = now[max(y - 1, 0), x]
        down = now[min(y + 1, h - 1), x]
        left = now[y, max(x - 1, 0)]
        right = now[y, min(x + 1, w - 1)]
        after[y, x] = 2 * now[y, x] - before[y, x] + c2 * (up + down + left + right - 4 * now[y, x])


@parallel
def wave_loop(before, now, after, c2):
    h, w = now.shape
    for y in prange(h):
        for x in range(w):
            up = now[max(y - 1, 0), x]
            down = now[min(y + 1, h - 1), x]
            left = now[y, max(x - 1, 0)]
            right = now[y, min(x + 1, w - 1)]
            after[y, x] = (
                2 * now[y, x] - before[y, x] + c2 * (up + down + left + right - 4 * now[y, x])
            )


@program("wave-clamped-edges", 900, 40)
def _(n, rng):
    before, now = rng.random((n, n)), rng.random((n, n))
    after = np.zeros((n, n))
    args = (before, now, after, 0.25)

    def expect():
        p = np.pad(now, 1, mode="edge")
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return [(after, 2 * now - before + 0.25 * (around - 4 * now))]

    return Made([Launch(wave, over2((n, n), (8, 32)), (8, 32), args)], expect, [(wave_loop, args)])


@cuda.jit
def upwind(u, speed, new, dt):
    i = cuda.grid(1)
    n = u.size
    if 0 < i < n - 1:
        if speed[i] > 0:  # noqa: SIM108  (as programs write it)
            slope = u[i] - u[i - 1]
        else:
            slope = u[i + 1] - u[i]
        new[i] = u[i] - dt * speed[i] * slope


@parallel
def upwind_loop(u, speed, new, dt):
    for i in prange(1, u.size - 1):
        if speed[i] > 0:  # noqa: SIM108  (as programs write it)
            slope = u[i] - u[i - 1]
        else:
            slope = u[i + 1] - u[i]
        new[i] = u[i] - dt * speed[i] * slope


@program("advection-upwind", 1 << 21, 1000)
def _(n, rng):
    u, speed, new = rng.random(n), rng.normal(size=n), np.zeros(n)
    args = (u, speed, new, 0.1)

    def expect():
        out, d = np.zeros(n), np.diff(u)
        slope = np.where(speed[1:-1] > 0, d[:-1], d[1:])
        out[1:-1] = u[1:-1] - 0.1 * speed[1:-1] * slope
        return [(new, out)]

    return Made([Launch(upwind, over(n, 256), 256, args)], expect, [(upwind_loop, args)])


@cuda.jit
def life_wrapped(cells, new):
    x, y = cuda.grid(2)
    h, w = cells.shape
    if x < w and y < h:
        alive = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                if dx != 0 or dy != 0:
                    alive += cells[(y + dy) % h, (x + dx) % w]
        if alive == 3 or (alive == 2 and cells[y, x] == 1):
            new[y, x] = 1
        else:
            new[y, x] = 0


@parallel
def life_wrapped_loop(cells, new):
    h, w = cells.shape
    for y in prange(h):
        for x in range(w):
            alive = 0
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    if dx != 0 or dy != 0:
                        alive += cells[(y + dy) % h, (x + dx) % w]
            if alive == 3 or (alive == 2 and cells[y, x] == 1):
                new[y, x] = 1
            else:
                new[y, x] = 0


def life_of(cells):
    around = sum(
        np.roll(cells, (dy, dx), (0, 1)).astype(np.int64)
        for dy in (-1, 0, 1)
        for dx in (-1, 0, 1)
        if dx or dy
    )
    return ((around == 3) | ((around == 2) & (cells == 1))).astype(cells.dtype)


@program("life-with-remainders", 300, 33)
def _(n, rng):
    cells = rng.integers(0, 2, (n, n + 7), np.int32)
    new = np.zeros_like(cells)
    launches, loops = _steps(
        life_wrapped, life_wrapped_loop, over2((n + 7, n), (16, 16)), (16, 16), (cells, new)
    )
    return Made(
        launches,
        lambda: list(zip((cells, new), _repeated(life_of, cells), strict=True)),
        loops,
        restore=(cells,),
    )


@cuda.jit
def life_padded(cells, new):
    col, row = cuda.grid(2)
    row += 1
    col += 1
    if row < cells.shape[0] - 1 and col < cells.shape[1] - 1:
        s = cells[row - 1, col - 1] + cells[row - 1, col] + cells[row - 1, col + 1]
        s += cells[row, col - 1] + cells[row, col + 1]
        s += cells[row + 1, col - 1] + cells[row + 1, col] + cells[row + 1, col + 1]
        new[row, col] = s == 3 or (s == 2 and cells[row, col])


@parallel
def life_padded_loop(cells, new):
    for row in prange(1, cells.shape[0] - 1):
        for col in range(1, cells.shape[1] - 1):
            s = cells[row - 1, col - 1] + cells[row - 1, col] + cells[row - 1, col + 1]
            s += cells[row, col - 1] + cells[row, col + 1]
            s += cells[row + 1, col - 1] + cells[row + 1, col] + cells[row + 1, col + 1]
            new[row, col] = s == 3 or (s == 2 and cells[row, col])


@program("life-bytes-with-a-rim", 2000, 38)
def _(n, rng):
    cells = np.pad(rng.integers(0, 2, (n, n), np.uint8), 1)
    new = np.zeros_like(cells)

    def expect():
        s = sum(
            cells[1 + dy : n + 1 + dy, 1 + dx : n + 1 + dx].astype(int)
            for dy in (-1, 0, 1)
            for dx in (-1, 0, 1)
            if dx or dy
        )
        inner = (s == 3) | ((s == 2) & (cells[1:-1, 1:-1] == 1))
        return [(new, np.pad(inner.astype(np.uint8), 1))]

    return Made(
        [Launch(life_padded, over2((n, n), (64, 4)), (64, 4), (cells, new))],
        expect,
        [(life_padded_loop, (cells, new))],
    )


@cuda.jit
def red_black(u, f, colour):
    j, i = cuda.grid(2)
    n, m = u.shape
    if 0 < i < n - 1 and 0 < j < m - 1 and (i + j) % 2 == colour:
        u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])


@parallel
def red_black_loop(u, f, colour):
    n, m = u.shape
    for i in prange(1, n - 1):
        for j in range(1 + (i + 1 + colour) % 2, m - 1, 2):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])


@program("gauss-seidel-red-black", 600, 31)
def _(n, rng):
    u, f = rng.random((n, n)), rng.random((n, n))

    def expect():
        out = u.copy()
        i, j = np.indices(u.shape)[:, 1:-1, 1:-1]
        for colour in (0, 1):
            new = out[:-2, 1:-1] + out[2:, 1:-1] + out[1:-1, :-2] + out[1:-1, 2:]
            new = 0.25 * (new - f[1:-1, 1:-1])
            out[1:-1, 1:-1] = np.where((i + j) % 2 == colour, new, out[1:-1, 1:-1])
        return [(u, out)]

    grid = over2((n, n), (16, 16))
    return Made(
        [Launch(red_black, grid, (16, 16), (u, f, colour)) for colour in (0, 1)],
        expect,
        [(red_black_loop, (u, f, colour)) for colour in (0, 1)],
        restore=(u,),
    )


WEIGHTS = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])


@cuda.jit
def derivative_shared(u, out):
    """The second derivative by nine points, with a rim in shared memory."""
    room = cuda.shared.array(128 + 8, float64)
    weights = cuda.const.array_like(WEIGHTS)
    i, t = cuda.grid(1), cuda.threadIdx.x
    n = u.size
    room[t + 4] = u[min(i, n - 1)]
    if t < 4:
        room[t] = u[max(i - 4, 0)]
        room[t + 132] = u[min(i + 128, n - 1)]
    cuda.syncthreads()
    if i < n:
        total = 0.0
        for k in range(9):
            total += weights[k] * room[t + k]
        out[i] = total


@parallel
def derivative_loop(u, out):
    n = u.size
    for i in prange(n):
        total = 0.0
        for k in range(9):
            total += WEIGHTS[k] * u[min(max(i + k - 4, 0), n - 1)]
        out[i] = total


@program("second-derivative-1d-shared", 1 << 20, 1003)
def _(n, rng):
    u, out = rng.random(n), np.zeros(n)
    return Made(
        [Launch(derivative_shared, over(n, 128), 128, (u, out))],
        lambda: [(out, np.convolve(np.pad(u, 4, mode="edge"), WEIGHTS, "valid"))],
        [(derivative_loop, (u, out))],
    )


@cuda.jit
def magnetic(ez, hx, hy, c):
    j, i = cuda.grid(2)
    h, w = ez.shape
    if i < h and j < w - 1:
        hy[i, j] += c * (ez[i, j + 1] - ez[i, j])
    if i < h - 1 and j < w:
        hx[i, j] -= c * (ez[i + 1, j] - ez[i, j])


@cuda.jit
def electric(ez, hx, hy, c):
    j, i = cuda.grid(2)
    h, w = ez.shape
    if 0 < i < h - 1 and 0 < j < w - 1:
        ez[i, j] += c * (hy[i, j] - hy[i, j - 1] - hx[i, j] + hx[i - 1, j])


@parallel
def magnetic_loop(ez, hx, hy, c):
    h, w = ez.shape
    for i in prange(h):
        for j in range(w):
            if j < w - 1:
                hy[i, j] += c * (ez[i, j + 1] - ez[i, j])
            if i < h - 1:
                hx[i, j] -= c * (ez[i + 1, j] - ez[i, j])


@parallel
def electric_loop(ez, hx, hy, c):
    h, w = ez.shape
    for i in prange(1, h - 1):
        for j in range(1, w - 1):
            ez[i, j] += c * (hy[i, j] - hy[i, j - 1] - hx[i, j] + hx[i - 1, j])


@program("electromagnetic-2d", 1400, 36)
def _(n, rng):
    ez, hx, hy = (rng.random((n, n), np.float32) for _ in range(3))
    args = (ez, hx, hy, np.float32(0.5))

    def expect():
        e, x, y = ez.copy(), hx.copy(), hy.copy()
        y[:, :-1] += np.float32(0.5) * (e[:, 1:] - e[:, :-1])
        x[:-1] -= np.float32(0.5) * (e[1:] - e[:-1])
        curl = y[1:-1, 1:-1] - y[1:-1, :-2] - x[1:-1, 1:-1] + x[:-2, 1:-1]
        e[1:-1, 1:-1] += np.float32(0.5) * curl
        return [(ez, e), (hx, x), (hy, y)]

    grid = over2((n, n), (32, 4))
    return Made(
        [Launch(magnetic, grid, (32, 4), args), Launch(electric, grid, (32, 4), args)],
        expect,
        [(magnetic_loop, args), (electric_loop, args)],
        restore=(ez, hx, hy),
    )


@cuda.jit
def gray_scott(u, v, new_u, new_v, feed, kill):
    i, j = cuda.grid(2)
    h, w = u.shape
    if i < h and j < w:
        up, down = (i + h - 1) % h, (i + 1) % h
        left, right = (j + w - 1) % w, (j + 1) % w
        lap_u = u[up, j] + u[down, j] + u[i, left] + u[i, right] - 4 * u[i, j]
        lap_v = v[up, j] + v[down, j] + v[i, left] + v[i, right] - 4 * v[i, j]
        uvv = u[i, j] * v[i, j] * v[i, j]
        new_u[i, j] = u[i, j] + 0.16 * lap_u - uvv + feed * (1 - u[i, j])
        new_v[i, j] = v[i, j] + 0.08 * lap_v + uvv - (feed + kill) * v[i, j]


@parallel
def gray_scott_loop(u, v, new_u, new_v, feed, kill):
    h, w = u.shape
    for i in prange(h):
        for j in range(w):
            up, down = (i + h - 1) % h, (i + 1) % h
            left, right = (j + w - 1) % w, (j + 1) % w
            lap_u = u[up, j] + u[down, j] + u[i, left] + u[i, right] - 4 * u[i, j]
            lap_v = v[up, j] + v[down, j] + v[i, left] + v[i, right] - 4 * v[i, j]
            uvv = u[i, j] * v[i, j] * v[i, j]
            new_u[i, j] = u[i, j] + 0.16 * lap_u - uvv + feed * (1 - u[i, j])
            new_v[i, j] = v[i, j] + 0.08 * lap_v + uvv - (feed + kill) * v[i, j]


@program("gray-scott", 800, 30)
def _(n, rng):
    u, v = rng.random((n, n)), rng.random((n, n))
    new_u, new_v = np.zeros((n, n)), np.zeros((n, n))
    args = (u, v, new_u, new_v, 0.04, 0.06)

    def lap(a):
        return sum(np.roll(a, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * a

    def expect():
        uvv = u * v * v
        return [
            (new_u, u + 0.16 * lap(u) - uvv + 0.04 * (1 - u)),
            (new_v, v + 0.08 * lap(v) + uvv - 0.1 * v),
        ]

    return Made(
        [Launch(gray_scott, over2((n, n), (16, 16)), (16, 16), args)],
        expect,
        [(gray_scott_loop, args)],
    )


EX = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1], np.int32)
EY = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1], np.int32)
W9 = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)


@cuda.jit
def lattice_boltzmann(f, new, omega):
    """Pulls nine populations into an array of the thread's own and lets them collide."""
    x, y = cuda.grid(2)
    h, w = f.shape[1], f.shape[2]
    if x >= w or y >= h:
        return
    ex = cuda.const.array_like(EX)
    ey = cuda.const.array_like(EY)
    weight = cuda.const.array_like(W9)
    own = cuda.local.array(9, float64)
    rho = 0.0
    ux = 0.0
    uy = 0.0
    for k in range(9):
        own[k] = f[k, (y - ey[k] + h) % h, (x - ex[k] + w) % w]
        rho += own[k]
        ux += ex[k] * own[k]
        uy += ey[k] * own[k]
    ux /= rho
    uy /= rho
    for k in range(9):
        eu = ex[k] * ux + ey[k] * uy
        eq = weight[k] * rho * (1 + 3 * eu + 4.5 * eu * eu - 1.5 * (ux * ux + uy * uy))
        new[k, y, x] = own[k] + omega * (eq - own[k])


@parallel
def lattice_boltzmann_loop(f, new, omega):
    h, w = f.shape[1], f.shape[2]
    for y in prange(h):
        for x in range(w):
            own = np.empty(9)
            rho = 0.0
            ux = 0.0
            uy = 0.0
            for k in range(9):
                own[k] = f[k, (y - EY[k] + h) % h, (x - EX[k] + w) % w]
                rho += own[k]
                ux += EX[k] * own[k]
                uy += EY[k] * own[k]
            ux /= rho
            uy /= rho
            for k in range(9):
                eu = EX[k] * ux + EY[k] * uy
                eq = W9[k] * rho * (1 + 3 * eu + 4.5 * eu * eu - 1.5 * (ux * ux + uy * uy))
                new[k, y, x] = own[k] + omega * (eq - own[k])


@program("lattice-boltzmann", 360, 22)
def _(n, rng):
    f, new = 1 + rng.random((9, n, n)), np.zeros((9, n, n))

    def expect():
        own = np.stack([np.roll(f[k], (EY[k], EX[k]), (0, 1)) for k in range(9)])
        rho = own.sum(0)
        ux, uy = np.tensordot(EX, own, 1) / rho, np.tensordot(EY, own, 1) / rho
        eu = EX[:, None, None] * ux + EY[:, None, None] * uy
        eq = W9[:, None, None] * rho * (1 + 3 * eu + 4.5 * eu**2 - 1.5 * (ux**2 + uy**2))
        return [(new, own + 0.8 * (eq - own))]

    return Made(
        [Launch(lattice_boltzmann, over2((n, n), (32, 4)), (32, 4), (f, new, 0.8))],
        expect,
        [(lattice_boltzmann_loop, (f, new, 0.8))],
    )


@cuda.jit
def seismic_column(u, out, c):
    """25 points of a column of the third axis, kept in registers as the thread goes down."""
    x, y = cuda.grid(2)
    nz, ny, nx = u.shape
    if 2 <= x < nx - 2 and 2 <= y < ny - 2:
        below2, below1 = u[0, y, x], u[1, y, x]
        here, above1 = u[2, y, x], u[3, y, x]
        for z in range(2, nz - 2):
            above2 = u[z + 2, y, x]
            total = -2.5 * 3 * here
            total += 4 / 3 * (below1 + above1) - (below2 + above2) / 12
            total += 4 / 3 * (u[z, y - 1, x] + u[z, y + 1, x] + u[z, y, x - 1] + u[z, y, x + 1])
            total -= (u[z, y - 2, x] + u[z, y + 2, x] + u[z, y, x - 2] + u[z, y, x + 2]) / 12
            out[z, y, x] = here + c * total
            below2, below1, here, above1 = below1, here, above1, above2


@parallel
def seismic_loop(u, out, c):
    nz, ny, nx = u.shape
    for z in prange(2, nz - 2):
        for y in range(2, ny - 2):
            for x in range(2, nx - 2):
                total = -2.5 * 3 * u[z, y, x]
                total += 4 / 3 * (u[z - 1, y, x] + u[z + 1, y, x])
                total -= (u[z - 2, y, x] + u[z + 2, y, x]) / 12
                total += 4 / 3 * (u[z, y - 1, x] + u[z, y + 1, x] + u[z, y, x - 1] + u[z, y, x + 1])
                total -= (u[z, y - 2, x] + u[z, y + 2, x] + u[z, y, x - 2] + u[z, y, x + 2]) / 12
                out[z, y, x] = u[z, y, x] + c * total


@program("stencil-3d-marching-down", 120, 14)
def _(n, rng):
    u, out = rng.random((n, n, n)), np.zeros((n, n, n))
    c = slice(2, -2)

    def expect():
        total = -7.5 * u[c, c, c]
        for axis in range(3):
            for far, weight in ((1, 4 / 3), (2, -1 / 12)):
                for shift in (far, -far):
                    total += weight * np.roll(u, shift, axis)[c, c, c]
        new = np.zeros_like(u)
        new[c, c, c] = u[c, c, c] + 0.1 * total
        return [(out, new)]

    return Made(
        [Launch(seismic_column, over2((n, n), (32, 4)), (32, 4), (u, out, 0.1))],
        expect,
        [(seismic_loop, (u, out, 0.1))],
    )


@cuda.jit
def ising_energy(spins, energy):
    i, j = cuda.grid(2)
    h, w = spins.shape
    if i < h and j < w:
        right = spins[i, j + 1] if j + 1 < w else spins[i, 0]
        down = spins[i + 1, j] if i + 1 < h else spins[0, j]
        energy[i, j] = -spins[i, j] * (right + down)


@parallel
def ising_energy_loop(spins, energy):
    h, w = spins.shape
    for i in prange(h):
        for j in range(w):
            right = spins[i, j + 1] if j + 1 < w else spins[i, 0]
            down = spins[i + 1, j] if i + 1 < h else spins[0, j]
            energy[i, j] = -spins[i, j] * (right + down)


@program("ising-energy-int8", 2000, 29)
def _(n, rng):
    spins = rng.choice(np.int8([-1, 1]), (n, n))
    energy = np.zeros((n, n), np.int32)
    s = spins.astype(np.int32)
    return Made(
        [Launch(ising_energy, over2((n, n), (16, 32)), (16, 32), (spins, energy))],
        lambda: [(energy, -s * (np.roll(s, -1, 1) + np.roll(s, -1, 0)))],
        [(ising_energy_loop, (spins, energy))],
    )
