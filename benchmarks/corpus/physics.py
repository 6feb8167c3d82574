"""Particles, bodies and fields."""

import math

import numpy as np
from numba import float32, float64, prange

from benchmarks.corpus.program import Launch, Made, over, parallel, program
from haulage import cuda


@cuda.jit
def gravity(position, mass, acceleration, softening):
    i = cuda.grid(1)
    if i >= mass.size:
        return
    ax = 0.0
    ay = 0.0
    az = 0.0
    for j in range(mass.size):
        dx = position[j, 0] - position[i, 0]
        dy = position[j, 1] - position[i, 1]
        dz = position[j, 2] - position[i, 2]
        r2 = dx * dx + dy * dy + dz * dz + softening
        f = mass[j] / (r2 * math.sqrt(r2))
        ax += f * dx
        ay += f * dy
        az += f * dz
    acceleration[i, 0] = ax
    acceleration[i, 1] = ay
    acceleration[i, 2] = az


@parallel
def gravity_loop(position, mass, acceleration, softening):
    for i in prange(mass.size):
        ax = 0.0
        ay = 0.0
        az = 0.0
        for j in range(mass.size):
            dx = position[j, 0] - position[i, 0]
            dy = position[j, 1] - position[i, 1]
            dz = position[j, 2] - position[i, 2]
            r2 = dx * dx + dy * dy + dz * dz + softening
            f = mass[j] / (r2 * math.sqrt(r2))
            ax += f * dx
            ay += f * dy
            az += f * dz
        acceleration[i, 0] = ax
        acceleration[i, 1] = ay
        acceleration[i, 2] = az


def _gravity(position, mass, softening):
    d = position[None] - position[:, None]
    r2 = (d**2).sum(2) + softening
    return (d * (mass / r2**1.5)[:, :, None]).sum(1)


@program("gravity-float64", 1200, 70)
def _(n, rng):
    position, mass, acceleration = rng.normal(size=(n, 3)), rng.random(n), np.zeros((n, 3))
    args = (position, mass, acceleration, 0.01)
    return Made(
        [Launch(gravity, over(n, 64), 64, args)],
        lambda: [(acceleration, _gravity(position, mass, 0.01))],
        [(gravity_loop, args)],
    )


@cuda.jit
def gravity_tiles(x, y, mass, ax, ay):
    """In a plane, float32, with bodies in tiles of shared memory; the last one is not full."""
    room = cuda.shared.array((3, 128), float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    n = x.size
    own_x = x[min(i, n - 1)]
    own_y = y[min(i, n - 1)]
    sum_x = float32(0)
    sum_y = float32(0)
    for start in range(0, n, 128):
        j = start + t
        room[0, t] = x[j] if j < n else float32(0)
        room[1, t] = y[j] if j < n else float32(0)
        room[2, t] = mass[j] if j < n else float32(0)
        cuda.syncthreads()
        for k in range(128):
            dx = room[0, k] - own_x
            dy = room[1, k] - own_y
            inverse = float32(1) / math.sqrt(dx * dx + dy * dy + float32(0.01))
            f = room[2, k] * inverse * inverse * inverse
            sum_x += f * dx
            sum_y += f * dy
        cuda.syncthreads()
    if i < n:
        ax[i] = sum_x
        ay[i] = sum_y


@parallel
def gravity_plane_loop(x, y, mass, ax, ay):
    for i in prange(x.size):
        sum_x = float32(0)
        sum_y = float32(0)
        for k in range(x.size):
            dx = x[k] - x[i]
            dy = y[k] - y[i]
            inverse = float32(1) / math.sqrt(dx * dx + dy * dy + float32(0.01))
            f = mass[k] * inverse * inverse * inverse
            sum_x += f * dx
            sum_y += f * dy
        ax[i] = sum_x
        ay[i] = sum_y


@program("gravity-shared-tiles", 2500, 150)
def _(n, rng):
    x, y, mass = (rng.random(n, np.float32) for _ in range(3))
    ax, ay = np.zeros(n, np.float32), np.zeros(n, np.float32)

    def expect():
        position = np.stack([x, y], axis=1).astype(float)
        both = _gravity(position, mass.astype(float), float(np.float32(0.01)))
        return [(ax, both[:, 0]), (ay, both[:, 1])]

    args = (x, y, mass, ax, ay)
    return Made(
        [Launch(gravity_tiles, over(n, 128), 128, args)], expect, [(gravity_plane_loop, args)]
    )


@cuda.jit
def lennard_jones(position, force, cutoff, box):
    """All pairs in a periodic box, of which most are beyond the cutoff."""
    i = cuda.grid(1)
    n = position.shape[0]
    if i < n:
        fx = 0.0
        fy = 0.0
        for j in range(n):
            if j != i:
                dx = position[i, 0] - position[j, 0]
                dy = position[i, 1] - position[j, 1]
                dx -= box * round(dx / box)
                dy -= box * round(dy / box)
                r2 = dx * dx + dy * dy
                if r2 < cutoff * cutoff:
                    s = 1.0 / (r2 + 0.1)
                    s3 = s * s * s
                    f = 24.0 * (2.0 * s3 * s3 - s3) * s
                    fx += f * dx
                    fy += f * dy
        force[i, 0] = fx
        force[i, 1] = fy


@parallel
def lennard_jones_loop(position, force, cutoff, box):
    n = position.shape[0]
    for i in prange(n):
        fx = 0.0
        fy = 0.0
        for j in range(n):
            if j != i:
                dx = position[i, 0] - position[j, 0]
                dy = position[i, 1] - position[j, 1]
                dx -= box * round(dx / box)
                dy -= box * round(dy / box)
                r2 = dx * dx + dy * dy
                if r2 < cutoff * cutoff:
                    s = 1.0 / (r2 + 0.1)
                    s3 = s * s * s
                    f = 24.0 * (2.0 * s3 * s3 - s3) * s
                    fx += f * dx
                    fy += f * dy
        force[i, 0] = fx
        force[i, 1] = fy


@program("lennard-jones-cutoff", 900, 80)
def _(n, rng):
    position, force = rng.uniform(0, 10, (n, 2)), np.zeros((n, 2))
    args = (position, force, 2.5, 10.0)

    def expect():
        d = position[:, None] - position[None]
        d -= 10 * np.round(d / 10)
        r2 = (d**2).sum(2)
        s = 1 / (r2 + 0.1)
        f = np.where((r2 < 6.25) & ~np.eye(n, dtype=bool), 24 * (2 * s**6 - s**3) * s, 0)
        return [(force, (f[..., None] * d).sum(1))]

    return Made(
        [Launch(lennard_jones, over(n, 64), 64, args)], expect, [(lennard_jones_loop, args)]
    )


@cuda.jit
def runge_kutta(state, steps, dt):
    """Lorenz's equations for many starts, one a thread."""
    i = cuda.grid(1)
    if i < state.shape[1]:
        x, y, z = state[0, i], state[1, i], state[2, i]
        for _ in range(steps):
            ax, ay, az = 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z
            u, v, w = x + dt / 2 * ax, y + dt / 2 * ay, z + dt / 2 * az
            bx, by, bz = 10 * (v - u), u * (28 - w) - v, u * v - 8 / 3 * w
            u, v, w = x + dt / 2 * bx, y + dt / 2 * by, z + dt / 2 * bz
            cx, cy, cz = 10 * (v - u), u * (28 - w) - v, u * v - 8 / 3 * w
            u, v, w = x + dt * cx, y + dt * cy, z + dt * cz
            x += dt / 6 * (ax + 2 * bx + 2 * cx + 10 * (v - u))
            y += dt / 6 * (ay + 2 * by + 2 * cy + u * (28 - w) - v)
            z += dt / 6 * (az + 2 * bz + 2 * cz + u * v - 8 / 3 * w)
        state[0, i], state[1, i], state[2, i] = x, y, z


@parallel
def runge_kutta_loop(state, steps, dt):
    for i in prange(state.shape[1]):
        x, y, z = state[0, i], state[1, i], state[2, i]
        for _ in range(steps):
            ax, ay, az = 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z
            u, v, w = x + dt / 2 * ax, y + dt / 2 * ay, z + dt / 2 * az
            bx, by, bz = 10 * (v - u), u * (28 - w) - v, u * v - 8 / 3 * w
            u, v, w = x + dt / 2 * bx, y + dt / 2 * by, z + dt / 2 * bz
            cx, cy, cz = 10 * (v - u), u * (28 - w) - v, u * v - 8 / 3 * w
            u, v, w = x + dt * cx, y + dt * cy, z + dt * cz
            x += dt / 6 * (ax + 2 * bx + 2 * cx + 10 * (v - u))
            y += dt / 6 * (ay + 2 * by + 2 * cy + u * (28 - w) - v)
            z += dt / 6 * (az + 2 * bz + 2 * cz + u * v - 8 / 3 * w)
        state[0, i], state[1, i], state[2, i] = x, y, z


def _lorenz(s):
    x, y, z = s
    return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


@program("runge-kutta-lorenz", 1 << 15, 200)
def _(n, rng):
    state = rng.normal(size=(3, n))

    def expect():
        s, dt = state.copy(), 0.005
        for _ in range(30):
            a = _lorenz(s)
            b = _lorenz(s + dt / 2 * a)
            c = _lorenz(s + dt / 2 * b)
            s = s + dt / 6 * (a + 2 * b + 2 * c + _lorenz(s + dt * c))
        return [(state, s)]

    return Made(
        [Launch(runge_kutta, over(n, 128), 128, (state, 30, 0.005))],
        expect,
        [(runge_kutta_loop, (state, 30, 0.005))],
        restore=(state,),
    )


@cuda.jit
def bounce(position, velocity, dt, steps):
    i = cuda.grid(1)
    if i >= position.shape[0]:
        return
    for axis in range(2):
        p = position[i, axis]
        v = velocity[i, axis]
        for _ in range(steps):
            p += v * dt
            if p < 0:
                p = -p
                v = -v
            elif p > 1:
                p = 2 - p
                v = -v
        position[i, axis] = p
        velocity[i, axis] = v


@parallel
def bounce_loop(position, velocity, dt, steps):
    for i in prange(position.shape[0]):
        for axis in range(2):
            p = position[i, axis]
            v = velocity[i, axis]
            for _ in range(steps):
                p += v * dt
                if p < 0:
                    p = -p
                    v = -v
                elif p > 1:
                    p = 2 - p
                    v = -v
            position[i, axis] = p
            velocity[i, axis] = v


@program("bouncing-particles", 1 << 17, 300)
def _(n, rng):
    position, velocity = rng.random((n, 2)), rng.normal(size=(n, 2))

    def expect():
        p, v = position.copy(), velocity.copy()
        for _ in range(20):
            p += v * 0.01
            low, high = p < 0, p > 1
            p = np.where(low, -p, np.where(high, 2 - p, p))
            v = np.where(low | high, -v, v)
        return [(position, p), (velocity, v)]

    args = (position, velocity, 0.01, 20)
    return Made(
        [Launch(bounce, over(n, 256), 256, args)],
        expect,
        [(bounce_loop, args)],
        restore=(position, velocity),
    )


@cuda.jit
def springs(x, v, new_x, new_v, stiffness, dt):
    i = cuda.grid(1)
    n = x.size
    if i < n:
        left = x[i - 1] if i > 0 else 0.0
        right = x[i + 1] if i < n - 1 else 0.0
        a = stiffness * (left - 2 * x[i] + right)
        new_v[i] = v[i] + dt * a
        new_x[i] = x[i] + dt * new_v[i]


@parallel
def springs_loop(x, v, new_x, new_v, stiffness, dt):
    n = x.size
    for i in prange(n):
        left = x[i - 1] if i > 0 else 0.0
        right = x[i + 1] if i < n - 1 else 0.0
        a = stiffness * (left - 2 * x[i] + right)
        new_v[i] = v[i] + dt * a
        new_x[i] = x[i] + dt * new_v[i]


@program("chain-of-springs", 1 << 20, 700)
def _(n, rng):
    x, v = rng.normal(size=n), rng.normal(size=n)
    new_x, new_v = np.zeros(n), np.zeros(n)
    args = (x, v, new_x, new_v, 2.0, 0.01)

    def expect():
        p = np.pad(x, 1)
        w = v + 0.01 * 2.0 * (p[:-2] - 2 * x + p[2:])
        return [(new_v, w), (new_x, x + 0.01 * w)]

    return Made([Launch(springs, over(n, 256), 256, args)], expect, [(springs_loop, args)])


@cuda.jit(device=True)
def hit_sphere(ox, oy, dx, dy, dz, cx, cy, cz, radius):
    px, py, pz = ox - cx, oy - cy, -cz
    b = px * dx + py * dy + pz * dz
    c = px * px + py * py + pz * pz - radius * radius
    under = b * b - c
    if under < 0:
        return -1.0
    return -b - math.sqrt(under)


@cuda.jit
def ray_cast(spheres, depth):
    x, y = cuda.grid(2)
    h, w = depth.shape
    if x < w and y < h:
        nearest = 1e9
        for k in range(spheres.shape[0]):
            t = hit_sphere(
                x / w,
                y / h,
                0.0,
                0.0,
                1.0,
                spheres[k, 0],
                spheres[k, 1],
                spheres[k, 2],
                spheres[k, 3],
            )
            if 0 < t < nearest:
                nearest = t
        depth[y, x] = nearest


@parallel
def ray_cast_loop(spheres, depth):
    h, w = depth.shape
    for y in prange(h):
        for x in range(w):
            nearest = 1e9
            for k in range(spheres.shape[0]):
                px, py, pz = x / w - spheres[k, 0], y / h - spheres[k, 1], -spheres[k, 2]
                b = pz
                under = b * b - (px * px + py * py + pz * pz - spheres[k, 3] * spheres[k, 3])
                if under >= 0:
                    t = -b - math.sqrt(under)
                    if 0 < t < nearest:
                        nearest = t
            depth[y, x] = nearest


@program("ray-casting-spheres", 500, 30)
def _(n, rng):
    spheres = np.column_stack([rng.random((20, 2)), 2 + rng.random(20), 0.3 * rng.random(20)])
    depth = np.zeros((n, n + 10))

    def expect():
        y, x = np.indices(depth.shape)
        out = np.full(depth.shape, 1e9)
        for cx, cy, cz, r in spheres:
            flat = (x / (n + 10) - cx) ** 2 + (y / n - cy) ** 2
            under = cz * cz - (flat + cz * cz - r * r)
            t = cz - np.sqrt(np.where(under < 0, 0, under))
            out = np.where((under >= 0) & (t > 0) & (t < out), t, out)
        return [(depth, out)]

    grid = (over(n + 10, 16), over(n, 16))
    return Made(
        [Launch(ray_cast, grid, (16, 16), (spheres, depth))],
        expect,
        [(ray_cast_loop, (spheres, depth))],
        tolerance=1e-9,
    )


@cuda.jit
def smoothed_density(x, y, starts, order, cells, h, rho):
    """Sums over the particles of nine cells around one, by lists of the cells."""
    i = cuda.grid(1)
    if i >= x.size:
        return
    cx, cy = int(x[i] * cells), int(y[i] * cells)
    total = 0.0
    for gy in range(max(cy - 1, 0), min(cy + 2, cells)):
        for gx in range(max(cx - 1, 0), min(cx + 2, cells)):
            cell = gy * cells + gx
            for k in range(starts[cell], starts[cell + 1]):
                j = order[k]
                d2 = (x[j] - x[i]) ** 2 + (y[j] - y[i]) ** 2
                if d2 < h * h:
                    total += (h * h - d2) ** 3
    rho[i] = total


@parallel
def smoothed_density_loop(x, y, starts, order, cells, h, rho):
    for i in prange(x.size):
        cx, cy = int(x[i] * cells), int(y[i] * cells)
        total = 0.0
        for gy in range(max(cy - 1, 0), min(cy + 2, cells)):
            for gx in range(max(cx - 1, 0), min(cx + 2, cells)):
                cell = gy * cells + gx
                for k in range(starts[cell], starts[cell + 1]):
                    j = order[k]
                    d2 = (x[j] - x[i]) ** 2 + (y[j] - y[i]) ** 2
                    if d2 < h * h:
                        total += (h * h - d2) ** 3
        rho[i] = total


@program("smoothed-density-cells", 6000, 300, cheap=False)
def _(n, rng):
    x, y, rho = rng.random(n), rng.random(n), np.zeros(n)
    cells = 20
    cell = (y * cells).astype(int) * cells + (x * cells).astype(int)
    order = np.argsort(cell, kind="stable").astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=cells**2))])
    h = 1 / cells
    args = (x, y, starts.astype(np.int32), order, cells, h, rho)

    def expect():
        d2 = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2
        return [(rho, np.where(d2 < h * h, (h * h - d2) ** 3, 0).sum(1))]

    return Made(
        [Launch(smoothed_density, over(n, 64), 64, args)],
        expect,
        [(smoothed_density_loop, args)],
    )


@cuda.jit
def leapfrog(theta, omega, length, dt, steps):
    i = cuda.grid(1)
    if i < theta.size:
        a, w = theta[i], omega[i]
        for _ in range(steps):
            w -= 0.5 * dt * 9.81 / length[i] * math.sin(a)
            a += dt * w
            w -= 0.5 * dt * 9.81 / length[i] * math.sin(a)
        theta[i] = a
        omega[i] = w


@parallel
def leapfrog_loop(theta, omega, length, dt, steps):
    for i in prange(theta.size):
        a, w = theta[i], omega[i]
        for _ in range(steps):
            w -= 0.5 * dt * 9.81 / length[i] * math.sin(a)
            a += dt * w
            w -= 0.5 * dt * 9.81 / length[i] * math.sin(a)
        theta[i] = a
        omega[i] = w


@program("pendulums-float32", 1 << 15, 300)
def _(n, rng):
    theta, omega = rng.normal(size=n).astype(np.float32), np.zeros(n, np.float32)
    length = rng.uniform(0.5, 2, n).astype(np.float32)
    args = (theta, omega, length, 0.01, 20)

    def expect():
        a, w = theta.astype(np.float64), omega.astype(np.float64)
        for _ in range(20):
            w = w - 0.5 * 0.01 * 9.81 / length * np.sin(a)
            a = a + 0.01 * w
            w = w - 0.5 * 0.01 * 9.81 / length * np.sin(a)
        return [(theta, a), (omega, w)]

    return Made(
        [Launch(leapfrog, over(n, 128), 128, args)],
        expect,
        [(leapfrog_loop, args)],
        restore=(theta, omega),
    )


@cuda.jit
def rigid_spin(q, w, dt, out):
    """Quaternions in arrays of the thread's own."""
    i = cuda.grid(1)
    if i >= q.shape[0]:
        return
    a = cuda.local.array(4, float64)
    b = cuda.local.array(4, float64)
    for k in range(4):
        a[k] = q[i, k]
    for _ in range(8):
        b[0] = -a[1] * w[i, 0] - a[2] * w[i, 1] - a[3] * w[i, 2]
        b[1] = a[0] * w[i, 0] + a[2] * w[i, 2] - a[3] * w[i, 1]
        b[2] = a[0] * w[i, 1] - a[1] * w[i, 2] + a[3] * w[i, 0]
        b[3] = a[0] * w[i, 2] + a[1] * w[i, 1] - a[2] * w[i, 0]
        norm = 0.0
        for k in range(4):
            a[k] += 0.5 * dt * b[k]
            norm += a[k] * a[k]
        norm = math.sqrt(norm)
        for k in range(4):
            a[k] /= norm
    for k in range(4):
        out[i, k] = a[k]


@program("quaternions-local-arrays", 1 << 16, 200)
def _(n, rng):
    q, w, out = rng.normal(size=(n, 4)), rng.normal(size=(n, 3)), np.zeros((n, 4))

    def expect():
        a = q.copy()
        x, y, z = w.T
        for _ in range(8):
            a0, a1, a2, a3 = a.T
            b = np.stack(
                [
                    -a1 * x - a2 * y - a3 * z,
                    a0 * x + a2 * z - a3 * y,
                    a0 * y - a1 * z + a3 * x,
                    a0 * z + a1 * y - a2 * x,
                ],
                axis=1,
            )
            a = a + 0.5 * 0.02 * b
            a /= np.linalg.norm(a, axis=1, keepdims=True)
        return [(out, a)]

    return Made([Launch(rigid_spin, over(n, 128), 128, (q, w, 0.02, out))], expect)
