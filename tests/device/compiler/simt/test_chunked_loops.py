"""Loops that all threads go round together, run for chunks of threads, compared with NumPy."""

import math

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

# Less than a chunk, one that does not divide the block, several.
BLOCKS = (5, 100, 256)


@cuda.jit
def polynomials(x, c, out, steps):
    i = cuda.grid(1)
    if i < out.size:
        t = x[i]
        total = c[0]
        turns = 0
        for k in range(1, c.size):
            total = total * t + c[k]
            turns += 1
        out[i] = total
        steps[i] = turns


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("terms", [1, 2, 9])
def test_threads_behind_the_end_take_no_part_in_polynomials(way, block, terms):
    x = np.linspace(-1, 1, 613)
    c = np.arange(1.0, terms + 1)
    out, steps = cuda.to_device(np.zeros(613)), cuda.to_device(np.zeros(613, np.int64))
    polynomials[-(-700 // block), block](cuda.to_device(x), cuda.to_device(c), out, steps)
    assert np.allclose(out.copy_to_host(), np.polyval(c, x), rtol=1e-14)
    assert (steps.copy_to_host() == terms - 1).all()


@cuda.jit
def nearest(points, centres, out):
    i = cuda.grid(1)
    if i >= points.shape[1]:
        return
    best = np.float32(np.inf)
    place = -1
    for k in range(centres.shape[0]):
        distance = np.float32(0)
        for j in range(centres.shape[1]):
            step = points[j, i] - centres[k, j]
            distance += step * step
        if distance < best:
            best = distance
            place = k
    out[i] = place


@pytest.mark.parametrize("block", BLOCKS)
def test_the_nearest_of_several_centres(way, block):
    rng = np.random.default_rng(7)
    points, centres = rng.random((3, 400), np.float32), rng.random((11, 3), np.float32)
    out = cuda.to_device(np.zeros(400, np.int32))
    nearest[-(-400 // block), block](cuda.to_device(points), cuda.to_device(centres), out)
    squares = ((points.T[:, None] - centres[None]) ** 2).sum(axis=2)
    assert (out.copy_to_host() == squares.argmin(axis=1)).all()


@cuda.jit
def filtered(image, weights, out):
    x, y = cuda.grid(2)
    height, width = out.shape
    if x < width and y < height:
        total = np.float32(0)
        for i in range(weights.shape[0]):
            for j in range(weights.shape[1]):
                total += weights[i, j] * image[y + i, x + j]
        out[y, x] = total


@pytest.mark.parametrize("block", [(64, 2), (16, 16), (96, 3)])
def test_a_filter_over_an_image(way, block):
    rng = np.random.default_rng(8)
    weights = rng.random((3, 5), np.float32)
    image = rng.random((52, 104), np.float32)
    out = cuda.to_device(np.zeros((50, 100), np.float32))
    grid = -(-100 // block[0]), -(-50 // block[1])
    filtered[grid, block](cuda.to_device(image), cuda.to_device(weights), out)
    expected = sum(
        weights[i, j] * image[i : i + 50, j : j + 100].astype(np.float64)
        for i in range(3)
        for j in range(5)
    )
    assert np.allclose(out.copy_to_host(), expected, rtol=1e-5)


@cuda.jit
def potentials(bodies, out):
    tile = cuda.shared.array((2, 64), np.float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    here = bodies[0, i] if i < out.size else 0.0
    total = 0.0
    for start in range(0, bodies.shape[1], 64):
        if start + t < bodies.shape[1]:
            tile[0, t] = bodies[0, start + t]
            tile[1, t] = bodies[1, start + t]
        else:
            tile[1, t] = 0.0
            tile[0, t] = 0.0
        cuda.syncthreads()
        for k in range(64):
            total += tile[1, k] / math.sqrt((tile[0, k] - here) ** 2 + 0.5)
        cuda.syncthreads()
    if i < out.size:
        out[i] = total


def test_tiles_between_barriers(way):
    rng = np.random.default_rng(9)
    bodies = rng.random((2, 500))
    out = cuda.to_device(np.zeros(500))
    potentials[8, 64](cuda.to_device(bodies), out)
    distances = np.sqrt((bodies[0][None] - bodies[0][:, None]) ** 2 + 0.5)
    assert np.allclose(out.copy_to_host(), (bodies[1][None] / distances).sum(axis=1), rtol=1e-13)


@cuda.jit
def lit(normals, lights, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        x, y, z = normals[i, 0], normals[i, 1], normals[i, 2]
        red = blue = np.float32(0)
        for k in range(lights.shape[0]):
            share = x * lights[k, 0] + y * lights[k, 1] + z * lights[k, 2]
            if share > 0:
                red += share * lights[k, 3]
                blue += share * lights[k, 4]
        out[i, 0] = red
        out[i, 1] = blue


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_what_lies_apart_is_read_and_written_around_the_loop(way, block, count):
    rng = np.random.default_rng(10)
    normals = rng.random((331, 3), np.float32) - np.float32(0.5)
    lights = rng.random((count, 5), np.float32)
    out = cuda.to_device(np.full((331, 2), 7, np.float32))
    lit[-(-400 // block), block](cuda.to_device(normals), cuda.to_device(lights), out)
    shares = np.maximum(normals.astype(np.float64) @ lights[:, :3].T, 0)
    assert np.allclose(out.copy_to_host(), shares @ lights[:, 3:], rtol=1e-5, atol=1e-6)


@cuda.jit
def distances(x, out, first, last):
    room = cuda.shared.array(128, np.float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    room[t] = x[i]
    cuda.syncthreads()
    if i < first or i >= last:
        return
    total = np.float32(0)
    for k in range(cuda.blockDim.x):
        total += abs(room[k] - x[i])
    out[i] = total


@pytest.mark.parametrize("block", [60, 128])
@pytest.mark.parametrize(("first", "last"), [(0, 500), (70, 333), (130, 131), (400, 10)])
def test_threads_that_end_behind_a_barrier_take_no_part(way, block, first, last):
    x = np.random.default_rng(11).random(block * 4, np.float32)
    out = cuda.to_device(np.full(block * 4, -1, np.float32))
    distances[4, block](cuda.to_device(x), out, first, min(last, block * 4))
    rows = x.reshape(4, block)
    expected = np.abs(rows[:, :, None] - rows[:, None]).sum(axis=1, dtype=np.float64).ravel()
    numbers = np.arange(block * 4)
    expected[(numbers < first) | (numbers >= last)] = -1
    assert np.allclose(out.copy_to_host(), expected, rtol=1e-5)


@cuda.jit
def windows(image, weights, out, top):
    x, y = cuda.grid(2)
    if y >= top and x < out.shape[1] and y < out.shape[0]:
        total = np.float32(0)
        for j in range(weights.size):
            total += weights[j] * image[y, x + j]
        out[y, x] = total


@pytest.mark.parametrize("block", [(64, 4), (128, 2)])
@pytest.mark.parametrize("top", [0, 3, 17, 40])
def test_guards_of_both_axes_bound_the_chunks(way, block, top):
    rng = np.random.default_rng(12)
    weights, image = rng.random(9, np.float32), rng.random((30, 158), np.float32)
    out = cuda.to_device(np.zeros((30, 150), np.float32))
    grid = -(-150 // block[0]), -(-30 // block[1])
    windows[grid, block](cuda.to_device(image), cuda.to_device(weights), out, top)
    expected = sum(weights[j] * image[:, j : j + 150].astype(np.float64) for j in range(9))
    expected[:top] = 0
    assert np.allclose(out.copy_to_host(), expected, rtol=1e-5)
