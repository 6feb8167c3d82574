"""Kernels of all kinds, each run in each way of the CPU device; results compared with NumPy."""

import math

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import BarrierError, CompileError, KernelError

pytestmark = [pytest.mark.ptx, pytest.mark.ptx_always]

WAYS = ("regions", "scalar", "coroutines")

TILE = 16
FAR = 3


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def test_saxpy_with_a_guard(device, way):
    x = np.arange(1000, dtype=np.float32)
    y = np.ones(1000, dtype=np.float32)
    d_y = cuda.to_device(y)
    saxpy[4, 256](np.float32(2), cuda.to_device(x), d_y)
    np.testing.assert_array_equal(d_y.copy_to_host(), 2 * x + y)


@cuda.jit
def matmul(a, b, c):
    a_tile = cuda.shared.array((TILE, TILE), np.float32)
    b_tile = cuda.shared.array(shape=(TILE, TILE), dtype=np.float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = np.float32(0)
    for step in range((a.shape[1] + TILE - 1) // TILE):
        column, row = step * TILE + tx, step * TILE + ty
        a_tile[ty, tx] = a[y, column] if y < a.shape[0] and column < a.shape[1] else 0
        b_tile[ty, tx] = b[row, x] if row < b.shape[0] and x < b.shape[1] else 0
        cuda.syncthreads()
        for k in range(TILE):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


@pytest.mark.parametrize("shape", [(32, 48, 16), (33, 17, 50), (1, 1, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_tiled_matmul(device, way, shape, order):
    rows, inner, columns = shape
    random = np.random.default_rng(1)
    a = np.asarray(random.random((rows, inner)), np.float32, order=order)
    b = np.asarray(random.random((inner, columns)), np.float32, order=order)
    c = cuda.device_array((rows, columns), np.float32)
    grid = (-(-columns // TILE), -(-rows // TILE))
    matmul[grid, (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
    np.testing.assert_allclose(c.copy_to_host(), a @ b, rtol=1e-5)


@cuda.jit
def block_sums(x, sums):
    room = cuda.shared.array(128, np.float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    room[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            room[t] += room[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = room[0]


def test_reduction_by_a_shared_tree(device, way):
    x = np.random.default_rng(2).random(1000)
    sums = cuda.device_array(8, np.float64)
    block_sums[8, 128](cuda.to_device(x), sums)
    expected = np.pad(x, (0, 24)).reshape(8, 128).sum(axis=1)
    np.testing.assert_allclose(sums.copy_to_host(), expected)


@cuda.jit
def inclusive_scan(x, out):
    room = cuda.shared.array(64, np.int64)
    t = cuda.threadIdx.x
    room[t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < 64:
        before = room[t - step] if t >= step else 0
        cuda.syncthreads()
        room[t] += before
        cuda.syncthreads()
        step *= 2
    out[t] = room[t]


def test_scan_with_values_that_live_across_barriers(device, way):
    x = np.random.default_rng(3).integers(-50, 50, 64)
    out = cuda.device_array(64, np.int64)
    inclusive_scan[1, 64](cuda.to_device(x), out)
    np.testing.assert_array_equal(out.copy_to_host(), np.cumsum(x))


@cuda.jit
def histogram(values, bins):
    own = cuda.shared.array(256, np.int32)
    t = cuda.threadIdx.x
    own[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < values.size:
        cuda.atomic.add(own, values[i], 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    cuda.atomic.add(bins, t, own[t])


def test_histogram_with_shared_and_global_atomics(device, way):
    values = np.random.default_rng(4).integers(0, 256, 10_000).astype(np.uint8)
    bins = cuda.to_device(np.zeros(256, np.int32))
    histogram[7, 256](cuda.to_device(values), bins)
    np.testing.assert_array_equal(bins.copy_to_host(), np.bincount(values, minlength=256))


@cuda.jit
def private_tables(x, out):
    table = cuda.local.array((2, 4), np.float32)
    row = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    for k in range(8):
        table[k // 4, k % 4] = x[t] * k
    row[t] = x[t]
    cuda.syncthreads()
    # An entry at an index that differs, then one at an index that all threads share.
    table[t % 2, 1] += row[31 - t]
    cuda.syncthreads()
    out[t] = table[0, 1] + 10 * table[1, 1] + table[1, 3]


def test_local_arrays_live_across_barriers_for_each_thread(device, way):
    x = np.arange(1, 33, dtype=np.float32)
    out = cuda.device_array(32, np.float32)
    private_tables[1, 32](cuda.to_device(x), out)
    back, odd = x[::-1], np.arange(32) % 2
    expected = (x + (1 - odd) * back) + 10 * (5 * x + odd * back) + 7 * x
    np.testing.assert_allclose(out.copy_to_host(), expected)


@cuda.jit
def large_private(out):
    table = cuda.local.array(4096, np.float64)
    t = cuda.grid(1)
    for k in range(4096):
        table[k] = k * t
    cuda.syncthreads()
    out[t] = table[(t * 7) % 4096]


def test_local_arrays_larger_than_a_stack(device, way):
    out = cuda.device_array(512, np.float64)
    large_private[1, 512](out)
    t = np.arange(512)
    np.testing.assert_array_equal(out.copy_to_host(), ((t * 7) % 4096) * t)


@cuda.jit(device=True)
def clamp(value, low, high):
    return min(max(value, low), high)


@cuda.jit(device=True)
def swap_through(room, t, value):
    room[t] = value
    cuda.syncthreads()
    return room[cuda.blockDim.x - 1 - t]


def halve(value):
    return value / 2


@cuda.jit
def calls(x, out):
    room = cuda.shared.array(64, np.float32)
    other = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    first = swap_through(room, t, clamp(x[t], np.float32(2), np.float32(40)))
    out[t] = halve(swap_through(other, t, first + 1))


def test_device_functions_with_barriers_and_plain_functions(device, way):
    x = np.arange(64, dtype=np.float32)
    out = cuda.device_array(64, np.float32)
    calls[1, 64](cuda.to_device(x), out)
    np.testing.assert_array_equal(out.copy_to_host(), (np.clip(x, 2, 40) + 1) / 2)


@cuda.jit
def places(out):
    x, y, z = cuda.grid(3)
    wide, high, deep = cuda.gridsize(3)
    number = (z * high + y) * wide + x
    out[number, 0] = cuda.threadIdx.x + 10 * cuda.threadIdx.y + 100 * cuda.threadIdx.z
    out[number, 1] = cuda.blockIdx.x + 10 * cuda.blockIdx.y + 100 * cuda.blockIdx.z
    out[number, 2] = cuda.blockDim.x + 10 * cuda.blockDim.y + 100 * cuda.blockDim.z
    out[number, 3] = cuda.gridDim.x + 10 * cuda.gridDim.y + 100 * cuda.gridDim.z
    out[number, 4] = wide + 100 * high + 10_000 * deep


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 3, 4)])
@pytest.mark.parametrize("block", [(1, 1, 1), (3, 1, 1), (1, 5, 1), (1, 1, 4), (2, 3, 4)])
def test_index_words_of_cuda(device, way, grid, block):
    wide, high, deep = (g * b for g, b in zip(grid, block, strict=True))
    out = cuda.to_device(np.full((wide * high * deep, 5), -1))
    places[grid, block](out)
    z, y, x = np.indices((deep, high, wide)).reshape(3, -1)
    (bx, by, bz), (gx, gy, gz) = block, grid
    expected = [
        x % bx + 10 * (y % by) + 100 * (z % bz),
        x // bx + 10 * (y // by) + 100 * (z // bz),
        np.full_like(x, bx + 10 * by + 100 * bz),
        np.full_like(x, gx + 10 * gy + 100 * gz),
        np.full_like(x, wide + 100 * high + 10_000 * deep),
    ]
    np.testing.assert_array_equal(out.copy_to_host(), np.transpose(expected))


@roc.jit
def work_items(out):
    i = roc.get_global_id(0)
    out[i, 0] = roc.get_local_id(0)
    out[i, 1] = roc.get_group_id(0)
    out[i, 2] = roc.get_local_size(0)
    out[i, 3] = roc.get_num_groups(0)
    out[i, 4] = roc.get_global_size(0)
    out[i, 5] = roc.get_work_dim()
    out[i, 6] = roc.get_global_id(FAR) + roc.get_local_id(FAR) + roc.get_group_id(FAR)
    out[i, 7] = roc.get_global_size(FAR) + roc.get_local_size(FAR) + roc.get_num_groups(FAR)


def test_index_words_of_roc(device, way):
    out = roc.to_device(np.zeros((12, 8), np.int64))
    work_items.configure(12, 4)(out)
    i = np.arange(12)
    ones = np.ones_like(i)
    expected = [i % 4, i // 4, 4 * ones, 3 * ones, 12 * ones, ones, 0 * ones, 3 * ones]
    np.testing.assert_array_equal(out.copy_to_host(), np.transpose(expected))


@roc.jit
def reverse_groups(x):
    room = roc.shared.array(16, np.int32)
    i, t = roc.get_global_id(0), roc.get_local_id(0)
    room[t] = x[i]
    roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
    mirrored = room[15 - t]
    roc.barrier()
    room[t] = mirrored + 1
    roc.barrier(roc.CLK_GLOBAL_MEM_FENCE)
    roc.mem_fence(roc.CLK_GLOBAL_MEM_FENCE)
    x[i] = room[t]


def test_barriers_of_roc(device, way):
    x = roc.to_device(np.arange(48, dtype=np.int32))
    reverse_groups[3, 16](x)
    expected = np.arange(48).reshape(3, 16)[:, ::-1].ravel() + 1
    np.testing.assert_array_equal(x.copy_to_host(), expected)


@cuda.jit
def guarded_product(a, b, c):
    x, y = cuda.grid(2)
    if x < c.shape[1] and y < c.shape[0]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[y, k] * b[k, x]
        c[y, x] = total


def test_a_loop_behind_a_guard(device, way):
    random = np.random.default_rng(6)
    a, b = random.random((21, 9)), random.random((9, 37))
    c = cuda.to_device(np.full((32, 48), -1.0))
    guarded_product[(3, 2), (16, 16)](cuda.to_device(a), cuda.to_device(b), c[:21, :37])
    expected = np.full((32, 48), -1.0)
    expected[:21, :37] = a @ b
    np.testing.assert_allclose(c.copy_to_host(), expected)


@cuda.jit
def first_beyond(x, limit, where):
    i = cuda.grid(1)
    where[i] = -1
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
        if total > limit:
            where[i] = k
            return
    where[i] = -2


def test_a_return_out_of_a_loop(device, way):
    x = np.random.default_rng(7).random((96, 20))
    where = cuda.device_array(96, np.int64)
    first_beyond[3, 32](cuda.to_device(x), 9.0, where)
    beyond = np.cumsum(x, axis=1) > 9
    expected = np.where(beyond.any(axis=1), beyond.argmax(axis=1), -2)
    np.testing.assert_array_equal(where.copy_to_host(), expected)


@cuda.jit
def leave_then_loop(x, out):
    room = cuda.shared.array(32, np.float64)
    t = cuda.threadIdx.x
    room[t] = x[t]
    cuda.syncthreads()
    if t % 3 == 1:
        out[t] = -room[t]
        return
    total = 0.0
    for k in range(32):
        total += room[k] * t
    for k in range(x.size):
        if x[k] < room[t]:
            total += 1
    out[t] = total


def test_threads_that_leave_before_loops(device, way):
    x = np.random.default_rng(8).random(32)
    out = cuda.device_array(32)
    leave_then_loop[1, 32](cuda.to_device(x), out)
    t = np.arange(32)
    stays = x.sum() * t + (x[None, :] < x[:, None]).sum(axis=1)
    np.testing.assert_allclose(out.copy_to_host(), np.where(t % 3 == 1, -x, stays))


@cuda.jit
def mandelbrot(image, limit):
    x, y = cuda.grid(2)
    c_re = np.float32(x) * np.float32(3 / 64) - np.float32(2)
    c_im = np.float32(y) * np.float32(2 / 48) - np.float32(1)
    re = im = np.float32(0)
    turns = 0
    while turns < limit and re * re + im * im < np.float32(4):
        re, im = re * re - im * im + c_re, np.float32(2) * re * im + c_im
        turns += 1
    image[y, x] = turns


def test_loops_that_threads_leave_at_different_times(device, way):
    image = cuda.device_array((48, 64), np.int32)
    mandelbrot[(4, 3), (16, 16)](image, 50)
    y, x = np.mgrid[:48, :64].astype(np.float32)
    c = (x * np.float32(3 / 64) - 2) + 1j * (y * np.float32(2 / 48) - 1)
    z, turns = np.zeros_like(c, np.complex64), np.zeros(c.shape, np.int32)
    for _ in range(50):
        inside = (z.real**2 + z.imag**2) < 4
        turns[inside] += 1
        z[inside] = z[inside] ** 2 + c[inside]
    # Rounding may differ at the border of the set.
    assert np.mean(image.copy_to_host() == turns) > 0.99


@cuda.jit
def mathematics(x, out):
    i = cuda.grid(1)
    v = x[i]
    out[0, i] = math.exp(v) + math.log(v) + math.sqrt(v)
    out[1, i] = math.sin(v) + math.cos(v) + math.tan(v)
    out[2, i] = math.erf(v) + math.gamma(v) + math.lgamma(v)
    out[3, i] = math.floor(v) + math.ceil(v) + math.fabs(-v) + math.atan2(v, np.float32(2))
    out[4, i] = v**3 + math.pow(v, 1.5) + math.log1p(v) + math.tanh(v)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_math(device, way, dtype):
    x = np.linspace(0.5, 4, 64, dtype=dtype)
    out = cuda.device_array((5, 64), dtype)
    mathematics[2, 32](cuda.to_device(x), out)
    each = np.vectorize
    expected = [
        np.exp(x) + np.log(x) + np.sqrt(x),
        np.sin(x) + np.cos(x) + np.tan(x),
        each(math.erf)(x) + each(math.gamma)(x) + each(math.lgamma)(x),
        np.floor(x) + np.ceil(x) + x + np.arctan2(x, 2),
        x**3 + x**1.5 + np.log1p(x) + np.tanh(x),
    ]
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-5)


@cuda.jit
def remainders(x, y, out):
    i = cuda.grid(1)
    fraction, whole = math.modf(x[i])
    out[0, i] = math.fmod(x[i], y[i])
    out[1, i] = math.remainder(x[i], y[i])
    out[2, i] = fraction
    out[3, i] = whole


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_and_parts_of_numbers(device, way, dtype):
    x = np.array([5.5, -5.5, 0.25, -0.0, 1e6, np.inf, -np.inf, np.nan], dtype)
    y = np.array([2.0, 2.0, -3.0, 1.0, 7.5, 1.0, 2.0, 1.0], dtype)
    out = cuda.device_array((4, 8), dtype)
    remainders[1, 8](cuda.to_device(x), cuda.to_device(y), out)
    fraction, whole = np.modf(x)
    with np.errstate(invalid="ignore"):
        nearest = x - y * np.rint(x / y)
    nearest[5:] = np.nan
    with np.errstate(invalid="ignore"):
        expected = [np.fmod(x, y), nearest, fraction, whole]
    np.testing.assert_array_equal(out.copy_to_host(), expected)
    np.testing.assert_array_equal(np.signbit(out.copy_to_host()[2]), np.signbit(fraction))


@cuda.jit
def padded_tile(x, out):
    tile = cuda.shared.array((TILE, TILE + 1), np.float32)
    own = cuda.local.array(2 * TILE - 1, np.int32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    own[2 * TILE - 2] = tile.shape[1]
    tile[ty, tx] = x[ty, tx]
    cuda.syncthreads()
    out[ty, tx] = tile[tx, ty] + own[TILE * 2 - 2]


def test_shapes_may_be_worked_out_from_constants(device, way):
    x = np.random.default_rng(9).random((TILE, TILE), np.float32)
    out = cuda.device_array((TILE, TILE), np.float32)
    padded_tile[1, (TILE, TILE)](cuda.to_device(x), out)
    np.testing.assert_array_equal(out.copy_to_host(), x.T + np.float32(TILE + 1))


@cuda.jit
def dynamic_shared(x):
    as_ints = cuda.shared.array(0, np.int32)
    halves = as_ints[32:]
    t = cuda.threadIdx.x
    as_ints[t] = x[t]
    halves[t] = as_ints.size
    cuda.syncthreads()
    x[t] = as_ints[31 - t] + 1000 * halves[t]


def test_dynamic_shared_memory_is_as_large_as_the_launch_says(device, way):
    x = cuda.to_device(np.arange(32, dtype=np.int32))
    dynamic_shared[1, 32, 0, 256](x)
    np.testing.assert_array_equal(x.copy_to_host(), np.arange(31, -1, -1) + 64_000)


@cuda.jit
def barrier_in_both_branches(x, out):
    t = cuda.threadIdx.x
    room = cuda.shared.array(32, np.int32)
    room[t] = x[t]
    if x[t] % 2 == 0:
        cuda.syncthreads()
        out[t] = room[31 - t]
    else:
        cuda.syncthreads()
        out[t] = -room[31 - t]


def test_a_barrier_in_divergent_flow_that_all_threads_reach(device, monkeypatch):
    x = np.random.default_rng(5).integers(0, 99, 32).astype(np.int32)
    out = cuda.device_array(32, np.int32)
    barrier_in_both_branches[1, 32](cuda.to_device(x), out)
    expected = np.where(x % 2 == 0, x[::-1], -x[::-1])
    np.testing.assert_array_equal(out.copy_to_host(), expected)
    if device.kind == "cpu":
        monkeypatch.setenv("HAULAGE_CPU_THREADS", "regions")
        with pytest.raises(CompileError, match="barrier_in_both_branches"):
            barrier_in_both_branches[1, 32](cuda.to_device(x), out)


@cuda.jit
def missed_barrier(x):
    if cuda.threadIdx.x < 16:
        cuda.syncthreads()
    x[cuda.threadIdx.x] = 1


def test_a_barrier_that_some_threads_never_reach_names_kernel_and_line(device):
    x = cuda.to_device(np.zeros(32))
    line = missed_barrier.py_func.__code__.co_firstlineno + 3
    missed_barrier[1, 32](x)
    with pytest.raises(BarrierError, match=rf"missed_barrier.*test_kernels\.py:{line}\b"):
        cuda.synchronize()
    # It is told once, and the device goes on.
    cuda.synchronize()
    missed_barrier[1, 16](x)
    np.testing.assert_array_equal(x.copy_to_host()[:16], np.ones(16))


@cuda.jit
def picky(x, out):
    i = cuda.grid(1)
    if x[i] < 0:
        raise ValueError("negative", "element")
    out[i] = x[i]


@pytest.mark.parametrize("with_stream", [False, True])
def test_a_raise_stops_its_thread_and_is_told_at_the_next_synchronise(device, way, with_stream):
    x = np.arange(64, dtype=np.float64)
    x[[5, 40]] = -1
    out = cuda.to_device(np.zeros(64))
    stream = cuda.stream() if with_stream else 0
    d_x = cuda.to_device(x)
    picky[4, 16, stream](d_x, out)
    with pytest.raises(
        KernelError, match=r"picky.*ValueError: negative, element.*test_kernels\.py"
    ):
        stream.synchronize() if with_stream else cuda.synchronize()
    expected = np.where(x < 0, 0, x)
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit
def raise_before_barrier(x):
    t = cuda.threadIdx.x
    if x[t] >= 20:
        raise ArithmeticError
    cuda.syncthreads()
    x[t] = -x[t]


def test_a_raise_before_a_barrier_is_told_rather_than_the_barrier(device):
    x = cuda.to_device(np.arange(32))
    raise_before_barrier[1, 32](x)
    with pytest.raises(KernelError, match="ArithmeticError"):
        cuda.synchronize()
    np.testing.assert_array_equal(x.copy_to_host(), np.arange(32))


@cuda.jit
def take_numbers(cursor, x, out):
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    old = cursor[b]
    if t == 0:
        cursor[b] = old + 10
    total = 0.0
    # All threads make this loop together: what was read above has to live on across its turns.
    for j in range(x.size):
        total += x[j] * t
    if t == 0:
        out[b, 0] = old
    out[b, 1 + t] = total


def test_what_one_thread_read_before_it_wrote_there(device, way):
    cursor, out = cuda.to_device(np.arange(4.0)), cuda.device_array((4, 33))
    take_numbers[4, 32](cursor, cuda.to_device(np.ones(5)), out)
    np.testing.assert_array_equal(out.copy_to_host()[:, 0], np.arange(4))
    np.testing.assert_array_equal(out.copy_to_host()[:, 1:], np.tile(5.0 * np.arange(32), (4, 1)))
    np.testing.assert_array_equal(cursor.copy_to_host(), np.arange(4) + 10)


@cuda.jit
def größe(α, n, out):
    θ = 0.0
    i = cuda.grid(1)
    for κ in range(n):
        θ += α[κ] * i if κ % 2 == 0 else -α[κ]
        cuda.syncthreads()
    out[i] = θ


def test_names_beyond_ascii(device, way):
    α = np.arange(1.0, 6.0)
    out = cuda.device_array(8)
    größe[1, 8](cuda.to_device(α), 5, out)
    np.testing.assert_array_equal(out.copy_to_host(), 9 * np.arange(8) - 6)


@cuda.jit(device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


def scaled(value, by=3):
    return value * by


@cuda.jit
def calls_itself_and_by_keyword(out):
    i = cuda.grid(1)
    out[i] = scaled(fibonacci(i)) + scaled(1, by=1000)


def test_recursion_and_keywords_of_device_functions(device, way):
    out = cuda.device_array(10, np.int64)
    calls_itself_and_by_keyword[1, 10](out)
    expected = 3 * np.array([0, 1, 1, 2, 3, 5, 8, 13, 21, 34]) + 1000
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit
def all_atomics(counts, floats, i):
    t = cuda.grid(1)
    cuda.atomic.add(counts, 0, 1)
    cuda.atomic.sub(counts, 1, 2)
    cuda.atomic.max(counts, 2, t)
    cuda.atomic.min(counts, 3, -t)
    cuda.atomic.or_(counts, 4, 1 << (t % 8))
    cuda.atomic.and_(counts, 5, ~(1 << (t % 4)))
    cuda.atomic.xor(counts, 6, t)
    cuda.atomic.add(counts, -1, 1)
    cuda.atomic.add(floats, (0, 1), 0.5)
    cuda.atomic.max(floats, (1, 0), np.float64(t))
    old = cuda.atomic.cas(counts, 7, 0, t + 1)
    if old == 0:
        cuda.atomic.exch(counts, 8, t)


def test_atomics(device, way):
    counts = cuda.to_device(np.array([0, 0, 0, 0, 0, 255, 0, 0, 0, 0], np.int64))
    floats = cuda.to_device(np.zeros((2, 2)))
    all_atomics[8, 64](counts, floats, 0)
    got = counts.copy_to_host()
    t = np.arange(512)
    assert list(got[:7]) == [512, -1024, 511, -511, 255, 240, np.bitwise_xor.reduce(t)]
    assert got[8] == got[7] - 1
    assert got[9] == 512
    np.testing.assert_array_equal(floats.copy_to_host(), [[0, 256], [511, 0]])


@cuda.jit
def fences(flag, out):
    t = cuda.threadIdx.x
    out[t] = t
    cuda.threadfence_block()
    cuda.threadfence()
    cuda.threadfence_system()
    flag[t] = 1


def test_fences(device, way):
    flag, out = cuda.to_device(np.zeros(8)), cuda.to_device(np.zeros(8))
    fences[1, 8](flag, out)
    np.testing.assert_array_equal(flag.copy_to_host(), np.ones(8))
    np.testing.assert_array_equal(out.copy_to_host(), np.arange(8))


def test_blocks_of_1024_threads(device, way):
    @cuda.jit
    def turn(x):
        room = cuda.shared.array(1024, np.float32)
        t = cuda.threadIdx.x
        room[t] = x[t]
        cuda.syncthreads()
        x[t] = room[1023 - t]

    x = cuda.to_device(np.arange(1024, dtype=np.float32))
    turn[1, 1024](x)
    np.testing.assert_array_equal(x.copy_to_host(), np.arange(1023, -1, -1))


def test_closures_see_the_values_that_they_were_made_with(device, way):
    def made(scale):
        @cuda.jit
        def times(x):
            i = cuda.grid(1)
            x[i] *= scale

        return times

    x = cuda.to_device(np.ones(8))
    made(3.0)[1, 8](x)
    made(5.0)[1, 8](x)
    np.testing.assert_array_equal(x.copy_to_host(), np.full(8, 15.0))
