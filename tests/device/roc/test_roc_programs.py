"""Programs as numba.roc's users wrote them: barriers, sums of wavefronts, products of matrices, a
function with much code."""

import math

import numpy as np
import pytest

import haulage
from haulage import roc
from haulage.roc.hsadrv.error import HsaKernelLaunchError

pytestmark = pytest.mark.usefixtures("device")

# ---- barriers -----------------------------------------------------------------------------------


def add_the_neighbours(flags):
    """A kernel that adds to each element the one that mirrors it in its group."""

    @roc.jit("void(float32[::1])")
    def add(x):
        room = roc.shared.array(shape=32, dtype=np.float32)
        item, i = roc.get_local_id(0), roc.get_global_id(0)
        room[item] = x[i]
        if flags is None:
            roc.barrier()
        else:
            roc.barrier(flags)
        x[i] += room[31 - item]

    return add


@pytest.mark.parametrize("flags", [None, roc.CLK_LOCAL_MEM_FENCE, roc.CLK_GLOBAL_MEM_FENCE])
def test_a_group_waits_at_a_barrier(flags):
    x = np.random.default_rng(0).random((3, 32)).astype(np.float32)
    got = x.flatten()
    add_the_neighbours(flags)[3, 32](got)
    np.testing.assert_array_equal(got.reshape(x.shape), x + x[:, ::-1])


@pytest.mark.parametrize("flags", [None, roc.CLK_LOCAL_MEM_FENCE])
def test_a_barrier_is_one_instruction_of_amds(device, flags):
    add = add_the_neighbours(flags)
    code = haulage.compile(add, "void(float32[::1])", "gfx90a")
    lines = [line.split() for line in code.asm.splitlines()]
    assert sum(line[:1] == ["s_barrier"] for line in lines) == 1
    if device.kind == "amd":
        assert "s_barrier" in add.assembly


# ---- additions by several at once ---------------------------------------------------------------


@roc.jit("void(uint32[:])")
def histogram(x):
    room = roc.shared.array(32, np.uint32)
    item = roc.get_local_id(0)
    room[item] = 0
    roc.barrier(roc.CLK_GLOBAL_MEM_FENCE)
    roc.atomic.add(room, x[item] % 32, 1)
    roc.barrier(roc.CLK_GLOBAL_MEM_FENCE)
    x[item] = room[item]


@roc.jit("void(uint32[:,:], uint32[:,:])")
def count_up(x, old):
    room = roc.shared.array((4, 8), np.uint32)
    i, j = roc.get_local_id(0), roc.get_local_id(1)
    room[i, j] = x[i, j]
    roc.barrier(roc.CLK_GLOBAL_MEM_FENCE)
    old[i, j] = roc.atomic.add(room, (i, j), 2)
    # An index of another type than the other.
    roc.atomic.add(room, (np.uint64(i), j), 1)
    roc.barrier(roc.CLK_GLOBAL_MEM_FENCE)
    x[i, j] = room[i, j]


def test_work_items_count_in_shared_memory():
    x = np.random.default_rng(4).integers(0, 12, 32).astype(np.uint32)
    got = x.copy()
    histogram[1, 32](got)
    np.testing.assert_array_equal(got, np.bincount(x, minlength=32))


def test_places_of_two_axes_are_added_to_and_the_old_number_is_given():
    x = np.random.default_rng(5).integers(0, 99, (4, 8)).astype(np.uint32)
    got, old = x.copy(), np.zeros_like(x)
    count_up[1, (4, 8)](got, old)
    np.testing.assert_array_equal(got, x + 3)
    np.testing.assert_array_equal(old, x)


# ---- sums of wavefronts -------------------------------------------------------------------------


@roc.jit(device=True)
def sum_of_wavefront(values):
    """The sum of 64 values in memory, which are used up."""
    lane = roc.get_local_id(0) % 64
    width = 32
    while width > 0:
        if lane < width:
            values[lane] += values[lane + width]
            values[lane + width] = -1
        roc.wavebarrier()
        width //= 2
    return values[0]


@roc.jit
def sums_of_rows(x, out):
    group = roc.get_group_id(0)
    out[group] = sum_of_wavefront(x[group])


@roc.jit
def sum_of_one(x, out):
    out[0] = sum_of_wavefront(x)


@pytest.mark.parametrize("dtype", [np.intp, np.int32, np.float64, np.float32])
def test_a_wavefront_sums_the_row_of_its_group(dtype):
    x = (np.random.default_rng(1).random((3, 64)) * 100).astype(dtype)
    out = np.zeros(3)
    sums_of_rows[3, 64](x.copy(), out)
    np.testing.assert_allclose(out, x.sum(axis=1, dtype=np.float64), rtol=1e-6)


def test_a_wavefront_sums_an_array():
    x, out = np.arange(64), np.zeros(1)
    sum_of_one[1, 64](x, out)
    assert out[0] == 64 * 63 / 2


# ---- products of matrices -----------------------------------------------------------------------


@roc.jit
def product(a, b, out):
    i, j = roc.get_global_id(0), roc.get_global_id(1)
    if i >= out.shape[0] or j >= out.shape[1]:
        return
    total = np.float32(0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    out[i, j] = total


def product_by_tiles(tiles, side):
    @roc.jit
    def multiply(a, b, out):
        of_a = roc.shared.array((side, side), np.float32)
        of_b = roc.shared.array((side, side), np.float32)
        i, j = roc.get_global_id(0), roc.get_global_id(1)
        y, x = roc.get_local_id(0), roc.get_local_id(1)
        total = np.float32(0)
        for tile in range(tiles):
            of_a[y, x] = a[i, tile * side + x]
            of_b[y, x] = b[tile * side + y, j]
            roc.barrier(roc.CLK_GLOBAL_MEM_FENCE)
            for k in range(side):
                total += of_a[y, k] * of_b[k, x]
            roc.barrier(roc.CLK_GLOBAL_MEM_FENCE)
        out[i, j] = total

    return multiply


def multiplied(kernel, groups, side, a, b):
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    with roc.register(a, b, out):
        kernel[(groups, groups), (side, side)](a, b, out)
    return out


def matrices(*shape):
    random = np.random.default_rng(2)
    return random.random(shape).astype(np.float32), random.random(shape[::-1]).astype(np.float32)


def test_a_product_of_matrices_of_any_shape():
    a, b = matrices(40, 30)
    np.testing.assert_allclose(multiplied(product, 3, 16, a, b), a @ b, rtol=1e-5)


# 20 x 20 work-items are a group of 400, which numba.roc refused.
@pytest.mark.parametrize(("tiles", "side"), [(4, 8), (2, 20)])
def test_a_product_of_matrices_by_tiles(tiles, side):
    a, b = matrices(tiles * side, tiles * side)
    got = multiplied(product_by_tiles(tiles, side), tiles, side, a, b)
    np.testing.assert_allclose(got, a @ b, rtol=1e-5)


def test_tiles_that_no_group_can_fill_are_refused(device):
    side = math.isqrt(device.properties.max_threads_per_block) + 1
    a, b = matrices(side, side)
    with pytest.raises(HsaKernelLaunchError, match="insufficient resources to launch kernel"):
        multiplied(product_by_tiles(1, side), 1, side, a, b)
    # The `with` that it left has deregistered them.
    with roc.register(a, b):
        pass


# ---- much code ----------------------------------------------------------------------------------


def test_a_ufunc_with_many_calls_of_functions():
    """The angle between places of the earth, in a program of many instructions."""

    @roc.jit(device=True)
    def radians(degrees):
        return math.pi * degrees / 180

    @roc.vectorize(["float32(float32, float32, float32, float32)"])
    def angle(north, east, other_north, other_east):
        north, other_north = radians(north), radians(other_north)
        between = radians(east) - radians(other_east)
        sine, cosine = math.sin(north), math.cos(north)
        other_sine, other_cosine = math.sin(other_north), math.cos(other_north)
        across = math.hypot(
            other_cosine * math.sin(between),
            cosine * other_sine - sine * other_cosine * math.cos(between),
        )
        along = sine * other_sine + cosine * other_cosine * math.cos(between)
        return math.atan2(across, along)

    random = np.random.default_rng(3)
    north, other_north = random.uniform(-89, 89, (2, 50)).astype(np.float32)
    east, other_east = random.uniform(-180, 180, (2, 50)).astype(np.float32)
    a, b, c, d = np.radians(np.float64([north, east, other_north, other_east]))
    half = np.sin((a - c) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((b - d) / 2) ** 2
    got = angle(north, east, other_north, other_east)
    np.testing.assert_allclose(got, 2 * np.arcsin(np.sqrt(half)), rtol=1e-4, atol=1e-5)
