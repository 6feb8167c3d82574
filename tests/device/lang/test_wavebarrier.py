"""`roc.wavebarrier`: the work-items of a wavefront wait for one another, and for nobody else."""

import numpy as np
import pytest

import haulage
from haulage import cuda, roc
from haulage.errors import BarrierError, CompileError, KernelError

pytestmark = pytest.mark.ptx

# Not all of these kernels can be cut.
WAYS = ("auto", "coroutines")

WAVE = 64


def way_taken(kernel, signature, block):
    return haulage.compile(kernel, signature, block=block).metadata["strategy"]


@roc.jit
def sums_of_waves(x, out):
    room = roc.shared.array(256, np.float64)
    t, i = roc.get_local_id(0), roc.get_global_id(0)
    lane = t % 64
    room[t] = x[i]
    roc.wavebarrier()
    step = 32
    while step > 0:
        if lane < step and t + step < roc.get_local_size(0):
            room[t] += room[t + step]
        roc.wavebarrier()
        step //= 2
    if lane == 0:
        out[i // 64] = room[t]


@pytest.mark.parametrize("items", [64, 128, 256])
def test_each_wavefront_adds_its_elements_in_shared_memory(device, way, items):
    x = np.random.default_rng(0).random(1024)
    out = roc.device_array(1024 // WAVE)
    sums_of_waves[1024 // items, items](roc.to_device(x), out)
    np.testing.assert_allclose(out.copy_to_host(), x.reshape(-1, WAVE).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("items", [1, 2, 63, 65, 100, 200])
def test_the_last_wavefront_may_have_fewer_work_items(device, way, items):
    x = np.random.default_rng(1).random(items)
    waves = -(-items // WAVE)
    out = roc.device_array(waves)
    sums_of_waves[1, items](roc.to_device(x), out)
    expected = [x[WAVE * wave : WAVE * (wave + 1)].sum() for wave in range(waves)]
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-12)


def test_a_wavebarrier_that_all_reach_is_cut_as_a_barrier_is():
    assert way_taken(sums_of_waves, "void(float64[::1], float64[::1])", 256) == "regions"


@roc.jit
def sum_by_the_first_wave(x, out):
    room = roc.shared.array(256, np.float64)
    t = roc.get_local_id(0)
    room[t] = x[roc.get_global_id(0)]
    roc.barrier()
    if t < 64:
        for k in range(t + 64, roc.get_local_size(0), 64):
            room[t] += room[k]
        roc.wavebarrier()
        step = 32
        while step > 0:
            if t < step:
                room[t] += room[t + step]
            roc.wavebarrier()
            step //= 2
        if t == 0:
            out[roc.get_group_id(0)] = room[0]


def test_the_first_wavefront_alone_adds_what_the_group_has_read(device, way):
    x = np.random.default_rng(2).random(1024)
    out = roc.device_array(4)
    sum_by_the_first_wave[4, 256](roc.to_device(x), out)
    np.testing.assert_allclose(out.copy_to_host(), x.reshape(4, -1).sum(axis=1), rtol=1e-12)


@roc.jit
def first_wave_between_barriers(x, out):
    room = roc.shared.array(256, np.float64)
    t, n = roc.get_local_id(0), roc.get_local_size(0)
    room[t] = x[roc.get_global_id(0)]
    roc.barrier()
    if t < 64:
        for k in range(t + 64, n, 64):
            room[t] += room[k]
        roc.wavebarrier()
        step = 32
        while step > 0:
            if t < step:
                room[t] += room[t + step]
            roc.wavebarrier()
            step //= 2
    roc.barrier()
    out[roc.get_global_id(0)] = room[0]


def test_a_part_for_one_wavefront_between_barriers_of_the_group(device, way):
    """The others wait at the second barrier until the first wavefront has done its part."""
    x = np.random.default_rng(3).random(512)
    out = roc.device_array(512)
    first_wave_between_barriers[2, 256](roc.to_device(x), out)
    expected = np.repeat(x.reshape(2, -1).sum(axis=1), 256)
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-12)


def test_what_whole_wavefronts_reach_is_cut(device):
    if device.kind != "cpu":
        pytest.skip("only the CPU device has ways of running threads")
    code = haulage.compile(
        first_wave_between_barriers, "void(float64[::1], float64[::1])", block=256
    )
    assert code.metadata["strategy"] == "regions"


@roc.jit
def half_of_a_wavefront(x):
    t = roc.get_local_id(0)
    if t < 32:
        x[t] = t
        roc.wavebarrier()
        x[t] += x[31 - t]
        roc.wavebarrier()
    roc.barrier()


def test_what_only_some_lanes_of_a_wavefront_reach_cannot_be_cut(device, monkeypatch):
    if device.kind != "cpu":
        pytest.skip("only the CPU device has ways of running threads")
    line = half_of_a_wavefront.py_func.__code__.co_firstlineno + 5
    monkeypatch.setenv("HAULAGE_CPU_THREADS", "regions")
    x = roc.to_device(np.zeros(64))
    with pytest.raises(CompileError, match=rf"half_of_a_wavefront.*\b{line}\b"):
        half_of_a_wavefront[1, 64](x)


@roc.jit
def rotations(x, turns, out):
    room = roc.shared.array(320, np.int64)
    t = roc.get_local_id(0)
    wave, lane = t // 64, t % 64
    value = x[t]
    for _ in range(turns[wave]):
        room[t] = value
        roc.wavebarrier()
        value = room[wave * 64 + (lane + 1) % 64] + 1
        roc.wavebarrier()
    out[t] = value


@roc.jit
def rotations_then_neighbours(x, turns, out):
    room = roc.shared.array(320, np.int64)
    t, n = roc.get_local_id(0), roc.get_local_size(0)
    wave, lane = t // 64, t % 64
    value = x[t]
    for _ in range(turns[wave]):
        room[t] = value
        roc.wavebarrier()
        value = room[wave * 64 + (lane + 1) % 64] + 1
        roc.wavebarrier()
    room[t] = value
    roc.barrier()
    out[t] = room[n - 1 - t]


def rotated(x, turns):
    return np.concatenate(
        [np.roll(part, -turn) + turn for part, turn in zip(x.reshape(-1, WAVE), turns, strict=True)]
    )


@pytest.mark.parametrize("turns", [(0, 0, 0, 0, 0), (3, 3, 3, 3, 3), (5, 0, 70, 1, 2)])
def test_wavefronts_wait_different_numbers_of_times(device, way, turns):
    x = np.arange(320) * 1000
    out = roc.to_device(np.zeros(320, np.int64))
    rotations[1, 320](roc.to_device(x), roc.to_device(np.array(turns)), out)
    np.testing.assert_array_equal(out.copy_to_host(), rotated(x, turns))
    rotations_then_neighbours[1, 320](roc.to_device(x), roc.to_device(np.array(turns)), out)
    np.testing.assert_array_equal(out.copy_to_host(), rotated(x, turns)[::-1])


@roc.jit
def behind_a_guard(x, out, n):
    room = roc.shared.array(128, np.int64)
    t, i = roc.get_local_id(0), roc.get_global_id(0)
    room[t] = -1
    if i >= n:
        return
    room[t] = x[i]
    roc.wavebarrier()
    out[i] = room[t ^ 63]


def test_work_items_that_have_ended_are_not_waited_for(device, way):
    x = np.arange(256)
    out = roc.to_device(np.zeros(256, np.int64))
    behind_a_guard[2, 128](roc.to_device(x), out, 150)
    expected = np.where(x ^ 63 < 150, x ^ 63, -1)
    expected[150:] = 0
    np.testing.assert_array_equal(out.copy_to_host(), expected)


def test_a_guard_at_the_top_does_not_hinder_the_cut():
    signature = "void(int64[::1], int64[::1], int64)"
    assert way_taken(behind_a_guard, signature, 128) == "regions"


@roc.jit
def lanes_by_the_order_of_work_items(out):
    room = roc.shared.array(192, np.int64)
    # The number in the group, x fastest.
    number = roc.get_local_id(0) + 8 * roc.get_local_id(1) + 24 * roc.get_local_id(2)
    if number // 64 == 1:
        room[number] = number
        roc.wavebarrier()
        out[number] = room[191 - number]


def test_wavefronts_of_groups_with_three_axes(device, way):
    out = roc.to_device(np.zeros(192, np.int64))
    lanes_by_the_order_of_work_items[1, (8, 3, 8)](out)
    expected = np.zeros(192, np.int64)
    expected[64:128] = np.arange(127, 63, -1)
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@roc.jit
def both_branches(x, out):
    room = roc.shared.array(64, np.int64)
    t = roc.get_local_id(0)
    room[t] = x[t]
    if x[t] % 2 == 0:
        roc.wavebarrier()
        out[t] = room[63 - t]
    else:
        roc.wavebarrier()
        out[t] = -room[63 - t]


def test_lanes_may_wait_at_different_wavebarriers(device, way):
    x = np.random.default_rng(5).integers(0, 99, 64)
    out = roc.to_device(np.zeros(64, np.int64))
    both_branches[1, 64](roc.to_device(x), out)
    expected = np.where(x % 2 == 0, x[::-1], -x[::-1])
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@roc.jit(device=True)
def neighbour(room, t, value):
    room[t] = value
    roc.wavebarrier()
    result = room[t ^ 1]
    roc.wavebarrier()
    return result


@roc.jit
def calls(x, out):
    room = roc.shared.array(128, np.int64)
    t = roc.get_local_id(0)
    out[t] = neighbour(room, t, neighbour(room, t, x[t]) * 2 + t)


def test_device_functions_may_wait(device, way):
    x = np.random.default_rng(6).integers(0, 99, 128)
    out = roc.device_array(128, np.int64)
    calls[1, 128](roc.to_device(x), out)
    t = np.arange(128)
    np.testing.assert_array_equal(out.copy_to_host(), (x[t] * 2 + (t ^ 1)))


@roc.jit
def groups_own_memory(x, scratch, out):
    i, t = roc.get_global_id(0), roc.get_local_id(0)
    own = roc.local.array(2, np.int64)
    own[0], own[1] = t, x[i]
    scratch[i] = x[i]
    roc.wavebarrier()
    own[0] += scratch[i ^ 32]
    roc.wavebarrier()
    scratch[i] = own[0]
    roc.wavebarrier()
    out[i] = scratch[i ^ 1] + own[1]


def test_global_and_own_memory_across_wavebarriers(device, way):
    x = np.random.default_rng(7).integers(0, 99, 384)
    out = roc.device_array(384, np.int64)
    groups_own_memory[2, 192](roc.to_device(x), roc.device_array(384, np.int64), out)
    i = np.arange(384)
    sums = i % 192 + x[i ^ 32]
    np.testing.assert_array_equal(out.copy_to_host(), sums[i ^ 1] + x)


# ---- what goes wrong ----------------------------------------------------------------------------


@roc.jit
def parted_wave(x):
    t = roc.get_local_id(0)
    if t % 64 < 20:
        roc.wavebarrier()
    else:
        roc.barrier()
    x[t] = 1


@roc.jit
def parted_last_wave(x):
    t = roc.get_local_id(0)
    for _ in range(t // 64):
        roc.wavebarrier()
    if t == 130:
        roc.wavebarrier()
    roc.barrier()
    x[t] = 1


@pytest.mark.parametrize(("kernel", "line"), [(parted_wave, 4), (parted_last_wave, 6)])
def test_a_wavefront_whose_work_items_wait_for_different_things(device, kernel, line):
    """An error that names the kernel and the wavebarrier's line; and the device goes on."""
    line += kernel.py_func.__code__.co_firstlineno
    x = roc.to_device(np.zeros(192))
    kernel[1, 192](x)
    name = kernel.py_func.__name__
    with pytest.raises(BarrierError, match=rf"{name}.*wavefront.*test_wavebarrier\.py:{line}\b"):
        roc.synchronize()
    roc.synchronize()
    np.testing.assert_array_equal(x.copy_to_host(), np.zeros(192))


@roc.jit
def missed_barrier_of_the_group(x):
    t = roc.get_local_id(0)
    roc.wavebarrier()
    if t < 64:
        roc.wavebarrier()
        roc.barrier()
    x[t] = 1


def test_a_barrier_of_the_group_that_a_wavefront_misses(device):
    x = roc.to_device(np.zeros(128))
    line = missed_barrier_of_the_group.py_func.__code__.co_firstlineno + 6
    missed_barrier_of_the_group[1, 128](x)
    with pytest.raises(BarrierError, match=rf"missed_barrier.*threads of a block.*\.py:{line}\b"):
        roc.synchronize()
    np.testing.assert_array_equal(x.copy_to_host(), [0] * 64 + [1] * 64)


@roc.jit
def raise_before_a_wavebarrier(x, out):
    t = roc.get_local_id(0)
    if x[t] < 0:
        raise ValueError("negative")
    roc.wavebarrier()
    out[t] = x[t]


def test_a_work_item_stopped_by_a_raise_is_not_waited_for(device, way):
    x = np.arange(128.0)
    x[[3, 70]] = -1
    out = roc.to_device(np.zeros(128))
    raise_before_a_wavebarrier[1, 128](roc.to_device(x), out)
    with pytest.raises(KernelError, match="ValueError: negative"):
        roc.synchronize()
    np.testing.assert_array_equal(out.copy_to_host(), np.where(x < 0, 0, x))


def test_it_takes_no_arguments(device):
    @roc.jit
    def with_a_flag(x):
        roc.wavebarrier(roc.CLK_LOCAL_MEM_FENCE)

    with pytest.raises(CompileError, match="wavebarrier"):
        with_a_flag[1, 64](roc.to_device(np.zeros(64)))


def test_a_function_that_calls_itself_may_not_wait(device):
    @roc.jit(device=True)
    def count(room, n):
        if n == 0:
            return 0
        roc.wavebarrier()
        return count(room, n - 1) + 1

    @roc.jit
    def counted(x):
        x[0] = count(x, x[1])

    with pytest.raises(CompileError, match="calls itself can have no barrier"):
        counted[1, 64](roc.to_device(np.ones(64)))


def test_kernels_of_the_other_vocabulary_may_wait_for_wavefronts(device, way):
    @cuda.jit
    def swap(x, out):
        room = cuda.shared.array(128, np.int64)
        t = cuda.threadIdx.x
        room[t] = x[t]
        if t >= 64:
            roc.wavebarrier()
            out[t] = room[191 - t]

    out = cuda.to_device(np.zeros(128, np.int64))
    swap[1, 128](cuda.to_device(np.arange(128)), out)
    np.testing.assert_array_equal(out.copy_to_host(), [0] * 64 + list(range(127, 63, -1)))
