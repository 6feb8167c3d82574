"""What is told of kernels that are right and slow on GPUs: the standard examples, and nothing of
the same kernels as they should be."""

import numpy as np
import pytest

import haulage
from haulage import cuda, roc
from haulage.cuda import float32, float64

N = 64


def linted(kernel, grid, block, *args):
    """What is told: {(kind, text of the line): finding}."""
    with haulage.check(only="lint", raises=False) as found:
        kernel[grid, block](*args)
        cuda.synchronize()
    return {(each.kind, _line(each)): each for each in found}


def _line(finding):
    place = finding.access.place
    with open(place.file, encoding="utf-8") as file:
        return file.read().split("\n")[place.line - 1].strip().partition("  #")[0]


@pytest.fixture
def square(device):
    return cuda.to_device(np.ones((N, N), np.float32)), cuda.to_device(np.ones((N, N), np.float32))


# ---- requests of memory ----------------------------------------------------------------------


@cuda.jit
def transpose(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[j, i] = x[i, j]


@cuda.jit
def transpose_tiled(x, y):
    tile = cuda.shared.array((32, 32), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    bx, by = 32 * cuda.blockIdx.x, 32 * cuda.blockIdx.y
    tile[ty, tx] = x[by + ty, bx + tx]
    cuda.syncthreads()
    y[bx + ty, by + tx] = tile[tx, ty]


@cuda.jit
def transpose_padded(x, y):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    bx, by = 32 * cuda.blockIdx.x, 32 * cuda.blockIdx.y
    tile[ty, tx] = x[by + ty, bx + tx]
    cuda.syncthreads()
    y[bx + ty, by + tx] = tile[tx, ty]


def test_a_transpose_without_shared_memory(square):
    ((kind, line), found), *others = linted(transpose, (2, 2), (32, 32), *square).items()
    assert (kind, line, others) == ("uncoalesced", "y[j, i] = x[i, j]", [])
    assert (found.access.what, found.array, found.count) == ("read", "x", 128)
    assert found.message == (
        "a warp reads x in 32 sectors of 32 bytes per request, and 4 would hold as much "
        "(128 requests)"
    )
    assert found.measured["sectors"] == 128 * 32


def test_a_transpose_in_shared_memory(square):
    ((kind, line), found), *others = linted(transpose_tiled, (2, 2), (32, 32), *square).items()
    assert (kind, line, others) == ("bank-conflict", "y[bx + ty, by + tx] = tile[tx, ty]", [])
    assert found.message == (
        "lanes of a warp use different words of one bank of tile: 32 ways per request, at most 32, "
        "and 3,968 extra cycles in 128 requests; rows of one element more help: (32, 33)"
    )
    assert linted(transpose_padded, (2, 2), (32, 32), *square) == {}


@cuda.jit
def multiply(a, b, c):
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, column]
    c[row, column] = total


@cuda.jit
def multiply_by_rows(a, b, c):
    row, column = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, column]
    c[row, column] = total


@pytest.mark.parametrize("block", [(32, 4), (16, 16)])
def test_a_multiplication_whose_lanes_read_one_element_of_a_row(square, block):
    x, y = square
    grid = N // block[0], N // block[1]
    assert linted(multiply, grid, block, x, x, y) == {}
    found = linted(multiply_by_rows, grid, block, x, x, y)
    assert {(kind, each.array) for (kind, _), each in found.items()} == {
        ("uncoalesced", "a"),
        ("uncoalesced", "c"),
    }


@cuda.jit
def stencil(x, y):
    j, i = cuda.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]


@cuda.jit
def by_fields(points, out):
    i = cuda.grid(1)
    out[i] = points[i].x


@cuda.jit
def both_fields(points, out):
    i = cuda.grid(1)
    out[i] = points[i].x + points[i].y


@cuda.jit
def scale(x, out):
    i = cuda.grid(1)
    out[i] = x[i] * x[i]


def test_neighbours_and_fields_in_one_line_use_whole_sectors(square):
    assert linted(stencil, (2, 8), (32, 8), *square) == {}
    assert linted(scale, 2, 32, np.ones(N, np.complex64), np.ones(N, np.complex64)) == {}
    points = np.ones(N, [(name, np.float32) for name in ("x", "y", "z", "w")])
    out = np.ones(N, np.float32)
    (found,) = linted(by_fields, 2, 32, points, out).values()
    assert found.message == (
        "a warp reads points in 16 sectors of 32 bytes per request, and 4 would hold as much "
        "(2 requests)"
    )


# ---- lanes --------------------------------------------------------------------------------------


@cuda.jit
def reduce_modulo(x, out):
    room = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < 256:
        if t % (2 * step) == 0:
            room[t] += room[t + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = room[0]


@cuda.jit
def reduce_halves(x, out):
    room = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 128
    while step > 0:
        if t < step:
            room[t] += room[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = room[0]


@cuda.jit
def reduce_interleaved(x, out):
    room = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < 256:
        index = 2 * step * t
        if index < 256:
            room[index] += room[index + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = room[0]


def test_reductions(device, way):
    x, out = cuda.to_device(np.ones(1024, np.float32)), cuda.to_device(np.ones(4, np.float32))
    (branch,) = linted(reduce_modulo, 4, 256, x, out).values()
    assert branch.kind == "divergence"
    # Of 8 steps 5 leave some lanes of each warp, and 3 single warps one lane each: 4, 2 and 1.
    assert branch.measured["times"] == 4 * 8 * 8
    assert branch.measured["diverged"] == 4 * (5 * 8 + 4 + 2 + 1)
    waiting = 8 * (16 + 24 + 28 + 30 + 31) + (4 + 2 + 1) * 31
    assert branch.measured["idle_lanes"] == 4 * waiting
    assert linted(reduce_halves, 4, 256, x, out) == {}
    found = linted(reduce_interleaved, 4, 256, x, out)
    assert {kind for kind, _ in found} == {"bank-conflict"}


@cuda.jit
def uneven(x, out, most):
    i = cuda.grid(1)
    total = float32(0)
    for j in range(i % most):
        total += x[j]
    out[i] = total


@roc.jit
def uneven_in_waves(x, out, most):
    i = roc.get_global_id(0)
    total = float32(0)
    for j in range(i % most):
        total += x[j]
    out[i] = total


def test_loops_of_different_lengths(device):
    x, out = cuda.to_device(np.ones(64, np.float32)), cuda.to_device(np.ones(128, np.float32))
    (found,) = linted(uneven, 2, 64, x, out, 32).values()
    assert found.message == (
        "lanes of a warp make different numbers of iterations, in 100 % of 4 loops of a warp: 50 % "
        "of the lanes wait for the others, in 124 iterations"
    )
    assert linted(uneven, 2, 64, x, out, 2) == {}
    (found,) = linted(uneven_in_waves, 2, 64, x, out, 32).values()
    assert (found.measured["lanes"], found.measured["iterations"]) == (64, 62)


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]


def test_blocks_that_waste_lanes(device):
    x, out = cuda.to_device(np.ones(5000, np.float32)), cuda.to_device(np.ones(5000, np.float32))
    (found,) = linted(copy, 250, 20, x, out).values()
    assert found.message == (
        "blocks of (20, 1, 1) have 20 threads, and warps 32 lanes: 38 % of the lanes are never "
        "used, in 1 launch; make it at least 32"
    )
    (found,) = linted(copy, 80, 256, x, out).values()
    assert found.message == (
        "76 % of the threads do nothing, in 1 launch with blocks of (256, 1, 1): make the grid or "
        "the blocks smaller"
    )
    for grid, block in ((20, 256), (1, 20), (5, 1000)):
        assert linted(copy, grid, block, x, out) == {}, (grid, block)


# ---- float64 ------------------------------------------------------------------------------------


@cuda.jit
def doubles(x, out, factor, n):
    i = cuda.grid(1)
    total = 0.0
    for j in range(4):
        total += x[i] * x[j]
    out[i] = 2.0 * x[i]
    out[i] += 2.0 * x[i] + x[0]
    out[i] += i / n
    out[i] += x[i] * 3 + i * x[i]
    out[i] += x[i] * factor + total
    if x[i] > 0.5:
        out[i] = -x[i]


@cuda.jit
def singles(x, out, factor, n):
    i = cuda.grid(1)
    total = float32(0)
    for j in range(4):
        total += x[i] * x[j]
    out[i] = float32(2) * x[i] + float32(i) / float32(n) + x[i] * factor + total


@cuda.jit
def doubles_on_purpose(x, out, factor, n):
    i = cuda.grid(1)
    total = float64(0)
    for j in range(4):
        total += x[i] * 2.0 + j / n
    out[i] = total


def test_float64_arithmetic_of_float32_data(device):
    x, out = cuda.to_device(np.ones(64, np.float32)), cuda.to_device(np.ones(64, np.float32))
    found = linted(doubles, 2, 32, x, out, 1.5, 64)
    assert {line: each.message.partition("float64: ")[2] for (_, line), each in found.items()} == {
        "total += x[i] * x[j]": (
            "a variable starts as 0.0, which is float64: start it as float32(0.0) (256 operations)"
        ),
        "out[i] += 2.0 * x[i] + x[0]": ("2.0 is float64: write float32(2.0) (192 operations)"),
        "out[i] += i / n": (
            "/ of two integers is float64: write float32(...) around both of them (128 operations)"
        ),
        "out[i] += x[i] * 3 + i * x[i]": (
            "3 is an int64, which with a float32 gives float64: write float32(3); an integer and a "
            "float32 give float64: write float32(...) around the integer (256 operations)"
        ),
        "out[i] += x[i] * factor + total": (
            "the argument factor is float64, as Python's floats are: pass np.float32(...), or "
            "write float32(factor) (192 operations)"
        ),
    }
    assert linted(singles, 2, 32, x, out, np.float32(1.5), 64) == {}
    assert linted(doubles_on_purpose, 2, 32, x, out, 1.5, 64) == {}
    wide = cuda.to_device(np.ones(64))
    assert linted(doubles, 2, 32, wide, wide, 1.5, 64) == {}


# ---- local arrays -------------------------------------------------------------------------------


@cuda.jit
def sort_rows(x, out):
    own = cuda.local.array(8, float32)
    i = cuda.grid(1)
    for k in range(8):
        value = x[k, i]
        j = k - 1
        while j >= 0 and own[j] > value:
            own[j + 1] = own[j]
            j -= 1
        own[j + 1] = value
    for k in range(8):
        out[k, i] = own[k]


@cuda.jit
def sums_of_rows(x, out):
    own = cuda.local.array(3, float32)
    i = cuda.grid(1)
    for k in range(3):
        own[k] = x[k, i]
    out[0, i] = own[0] + own[1] + own[2]


def test_local_arrays_that_are_in_memory(square):
    found = linted(sort_rows, 2, 32, *square)
    (local,) = (each for each in found.values() if each.kind == "local-memory")
    assert local.message == (
        "code for sm_80 keeps 32 bytes of each thread in local memory, and not in registers: own "
        "of 32 bytes (64 threads)"
    )
    assert (_line(local), local.array) == ("own = cuda.local.array(8, float32)", "own")
    assert linted(sums_of_rows, 2, 32, *square) == {}


# ---- how it is told -----------------------------------------------------------------------------


@cuda.jit
def apart(x, out):
    i = cuda.grid(1)
    out[i] = x[i * 16 % x.size]  # haulage: ignore[uncoalesced] they are few


def test_of_a_large_grid_some_warps_are_measured(device):
    x, out = cuda.to_device(np.ones((1024, 1024), np.float32)), np.ones((1024, 1024), np.float32)
    (found,) = linted(transpose, (32, 32), (32, 32), x, out).values()
    assert found.message.endswith("(1,024 requests); measured on 1,024 of 32,768 warps")
    assert found.measured["sectors"] == 32 * 1024


def test_findings_are_suppressed_as_others_and_do_not_hide_others(device):
    x, out = cuda.to_device(np.ones(1024, np.float32)), cuda.to_device(np.ones(64, np.float32))
    with haulage.check(only="lint", raises=False) as found:
        apart[2, 32](x, out)
    assert (len(found), found.suppressed) == (0, 1)
    with haulage.check(only="lint,race", raises=False) as found:
        transpose[(2, 2), (32, 32)](np.ones((N, N)), np.ones((N, N)))
        collide[2, 32](out)
    assert [each.kind for each in found] == ["race", "uncoalesced"]


@cuda.jit
def collide(out):
    out[cuda.threadIdx.x] = cuda.blockIdx.x
