"""Barriers of the whole grid: `cg.this_grid().sync()`."""

import signal
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import haulage
from haulage import cuda, roc
from haulage.cuda import cg
from haulage.errors import BarrierError, LaunchError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

# Not all of these kernels can be cut.
WAYS = ("auto", "coroutines")


def way_taken(kernel, signature, block):
    return haulage.compile(kernel, signature, block=block).metadata["strategy"]


@cuda.jit
def rows(m):
    """Each row is made of the elements at the other end of the one before."""
    column = cuda.grid(1)
    group = cg.this_grid()
    for row in range(1, m.shape[0]):
        m[row, column] = 2 * m[row - 1, m.shape[1] - 1 - column] + row
        group.sync()


def rows_by_numpy(m):
    m = m.copy()
    for row in range(1, len(m)):
        m[row] = 2 * m[row - 1, ::-1] + row
    return m


@pytest.mark.ptx_always
@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (1, 64), (7, 3), (300, 2), (64, 32)])
def test_rows_are_made_one_after_another(way, blocks, threads):
    m = np.zeros((9, blocks * threads), np.int64)
    m[0] = np.arange(blocks * threads)
    expected = rows_by_numpy(m)
    rows[blocks, threads](m)
    assert np.array_equal(m, expected)


@cuda.jit
def doubled(x, out, turns):
    i = cuda.grid(1)
    group = cg.this_grid()
    for _ in range(turns):
        out[i] = x[i] + x[i]
        group.sync()
        x[i] = out[i]
        group.sync()


def test_loops_over_the_threads_are_widened_between_barriers_of_the_grid():
    code = haulage.compile(doubled, "void(float32[::1], float32[::1], int64)", block=256)
    assert code.stages["llvm"].count("fadd <") > 0
    assert "coro" not in code.stages["blocks"]


def test_shared_arrays_whose_names_change_places_at_barriers_of_the_grid(way):
    @cuda.jit
    def swapped(out, turns):
        one = cuda.shared.array(32, np.int64)
        other = cuda.shared.array(32, np.int64)
        t = cuda.threadIdx.x
        group = cg.this_grid()
        one[t] = cuda.blockIdx.x
        other[t] = -1
        now, following = one, other
        for k in range(turns):
            group.sync()
            one[t] += 10 * k
            out[cuda.blockIdx.x, t] += now[t]
            one[t] += 1
            group.sync()
            now, following = following, now
        out[cuda.blockIdx.x, t] += 1000 * now[t]

    out = np.zeros((3, 32), np.int64)
    swapped[3, 32](out, 5)
    for block in range(3):
        one, other, expected = block, -1, 0
        for k in range(5):
            one += 10 * k
            expected += other if k % 2 else one
            one += 1
        assert np.all(out[block] == expected + 1000 * other)


def test_a_grid_whose_threads_are_in_step_is_cut():
    assert way_taken(rows, "void(int64[:, ::1])", 32) == "regions"


@cuda.jit
def diffuse(old, new, steps, k):
    """The 1-D heat equation: all of one step before any of the next."""
    i = cuda.grid(1)
    grid = cuda.cg.this_grid()
    for step in range(steps):
        a, b = (old, new) if step % 2 == 0 else (new, old)
        if 0 < i < a.size - 1:
            b[i] = a[i] + k * (a[i - 1] - 2 * a[i] + a[i + 1])
        elif i < a.size:
            b[i] = a[i]
        grid.sync()


@pytest.mark.ptx_always
def test_the_heat_equation(way):
    n, steps = 1001, 100
    rod = np.zeros(n)
    rod[n // 2] = 10_000
    expected = rod.copy()
    for _ in range(steps):
        expected[1:-1] += 0.25 * (expected[:-2] - 2 * expected[1:-1] + expected[2:])
    old, new = cuda.to_device(rod), cuda.to_device(rod)
    diffuse[-(-n // 64), 64](old, new, steps, 0.25)
    np.testing.assert_allclose(old.copy_to_host(), expected)


@cuda.jit
def diffuse_inside(old, new, steps, k):
    """The same; threads beyond the rod end at once, and nobody waits for them."""
    i = cuda.grid(1)
    if i >= old.size:
        return
    grid = cuda.cg.this_grid()
    for step in range(steps):
        a, b = (old, new) if step % 2 == 0 else (new, old)
        left = a[i - 1] if i > 0 else 0.0
        right = a[i + 1] if i < a.size - 1 else 0.0
        b[i] = a[i] + k * (left - 2 * a[i] + right)
        grid.sync()


def test_threads_that_have_ended_are_not_waited_for(way):
    n, steps = 203, 50
    rod = np.zeros(n + 2)
    rod[n // 2] = 10_000
    expected = rod.copy()
    for _ in range(steps):
        expected[1:-1] += 0.25 * (expected[:-2] - 2 * expected[1:-1] + expected[2:])
    old, new = cuda.to_device(rod[1:-1]), cuda.to_device(rod[1:-1])
    diffuse_inside.forall(n, 32)(old, new, steps, 0.25)
    np.testing.assert_allclose(old.copy_to_host(), expected[1:-1], atol=1e-9)


def test_a_grid_whose_first_step_is_a_guard_is_cut():
    signature = "void(float64[::1], float64[::1], int64, float64)"
    assert way_taken(diffuse_inside, signature, 32) == "regions"


@cuda.jit
def leave_by_and_by(x):
    """Thread t of a block goes through t barriers."""
    grid = cg.this_grid()
    for k in range(cuda.threadIdx.x):
        grid.sync()
        cuda.atomic.add(x, k, 1)


@pytest.mark.ptx_always
def test_threads_may_end_between_barriers(way):
    x = cuda.to_device(np.zeros(7, np.int64))
    leave_by_and_by[5, 7](x)
    assert list(x.copy_to_host()) == [5 * (6 - k) for k in range(7)]


@cuda.jit
def laplace(a, b, errors, tolerance, turns):
    """Jacobi's method until no element changes by more than a tolerance; the grid agrees on it."""
    x, y = cuda.grid(2)
    grid = cg.this_grid()
    turn = 0
    while True:
        old, new = (a, b) if turn % 2 == 0 else (b, a)
        if 0 < x < old.shape[0] - 1 and 0 < y < old.shape[1] - 1:
            value = 0.25 * (old[x - 1, y] + old[x + 1, y] + old[x, y - 1] + old[x, y + 1])
            cuda.atomic.max(errors, turn, abs(value - old[x, y]))
            new[x, y] = value
        grid.sync()
        if errors[turn] < tolerance:
            break
        turn += 1
    if x == 0 and y == 0:
        turns[0] = turn + 1


def test_a_loop_that_the_whole_grid_leaves_together(way):
    a = np.zeros((20, 17))
    a[0] = 100
    expected, turns = a.copy(), 0
    while True:
        turns += 1
        new = expected.copy()
        new[1:-1, 1:-1] = 0.25 * (
            expected[:-2, 1:-1] + expected[2:, 1:-1] + expected[1:-1, :-2] + expected[1:-1, 2:]
        )
        error = abs(new - expected).max()
        expected = new
        if error < 0.1:
            break
    both = [cuda.to_device(a), cuda.to_device(a)]
    counted = cuda.device_array(1, np.int64)
    laplace[(5, 3), (4, 6)](*both, cuda.to_device(np.zeros(1000)), 0.1, counted)
    assert counted.copy_to_host()[0] == turns
    np.testing.assert_allclose(both[turns % 2].copy_to_host(), expected)


@cuda.jit
def keep(out, sums):
    """What belongs to a block or to a thread is as it was behind the barrier."""
    static = cuda.shared.array(8, np.int64)
    dynamic = cuda.shared.array(0, np.int32)
    own = cuda.local.array(3, np.float64)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    i = cuda.grid(1)
    grid = cg.this_grid()
    static[t] = 100 * b + t
    dynamic[t] = 7 * i
    for k in range(3):
        own[k] = i + k / 10
    grid.sync()
    cuda.atomic.add(sums, 0, 1)
    static[t] += static[7 - t]
    cuda.syncthreads()
    static[t] += 1
    grid.sync()
    out[i, 0] = static[7 - t]
    out[i, 1] = dynamic[7 - t]
    out[i, 2] = own[0] + own[1] + own[2]
    out[i, 3] = sums[0]


def keep_by_numpy(blocks):
    out = np.zeros((blocks * 8, 4))
    for b in range(blocks):
        for t in range(8):
            i = 8 * b + t
            # Thread t adds what thread 7 - t has, which may have been added to already.
            out[i, 1:] = 7 * (8 * b + 7 - t), 3 * i + 0.3, 8 * blocks
    return out


def test_shared_dynamic_and_local_memory_are_kept(way):
    blocks = 40
    out = cuda.device_array((8 * blocks, 4))
    keep[blocks, 8, 0, 8 * 4](out, cuda.to_device(np.zeros(1, np.int64)))
    found = out.copy_to_host()
    np.testing.assert_allclose(found[:, 1:], keep_by_numpy(blocks)[:, 1:])
    assert (found[:, 0] // 100 >= np.repeat(np.arange(blocks), 8)).all()


@cuda.jit
def much_of_its_own(out, n):
    room = cuda.local.array(300, np.float64, alignment=128)
    i = cuda.grid(1)
    for k in range(300):
        room[k] = i * k
    cg.this_grid().sync()
    total = 0.0
    for k in range(n):
        total += room[k]
    out[i] = total


def test_local_arrays_too_large_for_the_stack(way):
    out = cuda.device_array(64)
    much_of_its_own[2, 32](out, 300)
    assert np.array_equal(out.copy_to_host(), np.arange(64) * (299 * 150.0))


@cuda.jit
def blocks_apart(out):
    """Blocks come to barriers in different places, each equally often."""
    grid = cg.this_grid()
    b = cuda.blockIdx.x
    if b % 2 == 0:
        out[cuda.grid(1)] = 1
        grid.sync()
    else:
        grid.sync()
        out[cuda.grid(1)] = out[0] + 1
    grid.sync()
    if b % 2 == 0:
        out[cuda.grid(1)] += out[cuda.gridsize(1) - 1] * 10


def test_blocks_may_wait_at_different_places(way):
    out = cuda.to_device(np.zeros(4, np.int64))
    blocks_apart[2, 2](out)
    found = out.copy_to_host()
    assert list(found[:2]) == [21, 21]


@cuda.jit
def warps_too(x, out):
    """A sum over the grid: in warps, then in all blocks."""
    i = cuda.grid(1)
    value = x[i]
    for k in range(5):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << k)
    if cuda.laneid == 0:
        out[1 + i // 32] = value
    cg.this_grid().sync()
    if i == 0:
        total = 0.0
        for k in range(cuda.gridsize(1) // 32):
            total += out[1 + k]
        out[0] = total


@pytest.mark.ptx_always
def test_words_of_warps_go_with_it(way):
    x = np.arange(256.0)
    out = cuda.device_array(9)
    warps_too[4, 64](cuda.to_device(x), out)
    assert out.copy_to_host()[0] == x.sum()


@cuda.jit
def divergent_threads(out):
    """Threads of a block come to the barrier in different places."""
    grid = cg.this_grid()
    i = cuda.grid(1)
    if i % 2 == 0:
        out[i] = i
        grid.sync()
    else:
        grid.sync()
        out[i] = out[i - 1] + 100
    cuda.syncthreads()
    total = 0
    for k in range(cuda.blockDim.x):
        total += out[cuda.blockIdx.x * cuda.blockDim.x + k]
    grid.sync()
    out[i] = total


@pytest.mark.ptx_always
def test_threads_of_a_block_may_wait_at_different_places(way):
    out = cuda.device_array(24, np.int64)
    divergent_threads[6, 4](out)
    i = np.arange(24).reshape(6, 4)
    expected = np.where(i % 2, i - 1 + 100, i).sum(axis=1)
    assert np.array_equal(out.copy_to_host(), np.repeat(expected, 4))


@cuda.jit(device=True)
def everywhere(group, x, value):
    x[cuda.grid(1)] = value
    group.sync()
    return x[cuda.gridsize(1) - 1 - cuda.grid(1)]


@cuda.jit
def in_a_function(x, out):
    group = cg.this_grid()
    first = everywhere(group, x, cuda.grid(1))
    group.sync()
    out[cuda.grid(1)] = 100 * first + everywhere(group, x, first)


def test_a_group_is_given_to_device_functions(way):
    x, out = cuda.device_array(20, np.int64), cuda.device_array(20, np.int64)
    in_a_function[10, 2](x, out)
    i = np.arange(20)
    assert np.array_equal(out.copy_to_host(), 100 * (19 - i) + i)


@roc.jit
def of_roc(x, out):
    i = roc.get_global_id(0)
    x[i] = i
    roc.cg.this_grid().sync()
    out[i] = x[roc.get_global_size(0) - 1 - i]


def test_kernels_of_roc_wait_for_their_grid_too(way):
    x, out = roc.device_array(96, np.int64), roc.device_array(96, np.int64)
    of_roc[6, 16](x, out)
    assert np.array_equal(out.copy_to_host(), np.arange(96)[::-1])


def test_two_streams_run_two_grids(way):
    streams = [cuda.stream() for _ in range(3)]
    m = np.zeros((9, 64), np.int64)
    m[0] = np.arange(64)
    given = [cuda.to_device(m + k, stream) for k, stream in enumerate(streams)]
    for array, stream in zip(given, streams, strict=True):
        rows[16, 4, stream](array)
    for k, array in enumerate(given):
        assert np.array_equal(array.copy_to_host(), rows_by_numpy(m + k))


@cuda.jit
def running_sums(x, other):
    """Hillis and Steele's scan over the grid, with a room of the block for each step."""
    i, t = cuda.grid(1), cuda.threadIdx.x
    grid = cg.this_grid()
    room = cuda.shared.array(cuda.blockDim.x, np.int64)
    a, b = x, other
    step = 1
    while step < cuda.gridsize(1):
        room[t] = a[i]
        cuda.syncthreads()
        value = room[t]
        if i >= step:
            value += a[i - step]
        b[i] = value
        grid.sync()
        a, b = b, a
        step *= 2


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 150),
    st.sampled_from([1, 3, 32, 64]),
    st.sampled_from(["auto", "coroutines"]),
    st.integers(0, 2**32 - 1),
)
def test_a_scan_over_any_grid(blocks, threads, taken, seed):
    numbers = np.random.default_rng(seed).integers(-100, 100, blocks * threads)
    both = [cuda.to_device(numbers), cuda.device_array_like(numbers)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HAULAGE_CPU_THREADS", taken)
        running_sums[blocks, threads, 0, 8 * threads](*both)
    steps = int(np.ceil(np.log2(numbers.size)))
    assert np.array_equal(both[steps % 2].copy_to_host(), np.cumsum(numbers))


# ---- barriers that are missed -------------------------------------------------------------------


@cuda.jit
def some_blocks(x):
    if cuda.blockIdx.x < 3:
        cg.this_grid().sync()
    x[cuda.grid(1)] = 1


@cuda.jit
def block_or_grid(x):
    if cuda.threadIdx.x < 3:
        cg.this_grid().sync()
    else:
        cuda.syncthreads()
    x[cuda.grid(1)] = 1


@cuda.jit
def once_more(x):
    grid = cg.this_grid()
    for _ in range(1 + (cuda.blockIdx.x == 5)):
        grid.sync()
        x[cuda.grid(1)] = 1


@cuda.jit
def warp_or_grid(x):
    if cuda.threadIdx.x < 3:
        cg.this_grid().sync()
    else:
        cuda.syncwarp()
    x[cuda.grid(1)] = 1


def test_lanes_that_wait_for_lanes_at_a_barrier_of_the_grid(way):
    warp_or_grid[8, 8](cuda.to_device(np.zeros(64)))
    with pytest.raises(BarrierError, match=r"warp_or_grid.*threads of a warp wait in"):
        cuda.synchronize()


@pytest.mark.parametrize(
    ("kernel", "line"),
    [(some_blocks, 3), (block_or_grid, 3), (once_more, 4)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_barrier_of_the_grid_that_not_all_reach(way, kernel, line):
    x = cuda.to_device(np.zeros(64))
    kernel[8, 8](x)
    first = kernel.py_func.__code__.co_firstlineno
    with pytest.raises(BarrierError, match=rf"{kernel.__name__}.*\.py:{first + line}\b.*grid"):
        cuda.synchronize()
    # The device is as good as before.
    test_rows_are_made_one_after_another(way, 7, 3)


def test_a_missed_barrier_in_debug_is_the_launchs(way):
    kernel = cuda.jit(some_blocks.py_func, debug=True, opt=False)
    with pytest.raises(BarrierError, match="some_blocks"):
        kernel[8, 8](cuda.to_device(np.zeros(64)))


@cuda.jit
def fails(x):
    grid = cg.this_grid()
    grid.sync()
    if cuda.grid(1) == 13:
        raise ValueError("no thirteen")
    grid.sync()
    x[cuda.grid(1)] = 1


def test_a_thread_that_raises_is_reported_and_the_others_go_on(way):
    x = cuda.to_device(np.zeros(64))
    fails[8, 8](x)
    with pytest.raises(ValueError, match="no thirteen"):
        cuda.synchronize()
    assert np.array_equal(x.copy_to_host(), np.arange(64) != 13)


@cuda.jit
def without_end(x):
    grid = cg.this_grid()
    while x[0] == 0:
        grid.sync()
        if cuda.grid(1) == 0:
            x[1] += 1
        grid.sync()


def test_ctrl_c_ends_a_grid_that_waits_for_ever():
    x = cuda.to_device(np.zeros(2))
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))

    def launch_and_wait():
        without_end[8, 8](x)
        cuda.synchronize()

    # Otherwise the kernel is another thread's, and Ctrl-C ends the wait for it only.
    with haulage.adversary(None):
        without_end[8, 8](cuda.to_device(np.ones(2)))  # compiled
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            launch_and_wait()
        timer.join()
        turns = x.copy_to_host()[1]
        assert turns > 0
        time.sleep(0.05)
        assert x.copy_to_host()[1] == turns


# ---- how many blocks ----------------------------------------------------------------------------


def test_blocks_may_also_wait_for_one_another_between_barriers(device):
    if device.properties.multiprocessors < 2:
        pytest.skip("one thread runs the blocks in turn")

    @cuda.jit
    def meet_late(arrived, turns):
        group = cg.this_grid()
        for _ in range(turns):
            group.sync()
        cuda.atomic.add(arrived, 0, 1)
        while cuda.atomic.add(arrived, 0, 0) < cuda.gridDim.x:
            pass

    for _ in range(5):
        arrived = cuda.to_device(np.zeros(1, np.int32))
        # So many short phases that one thread would be enough for the next.
        meet_late[2, 1](arrived, 100)
        assert arrived.copy_to_host()[0] == 2


def test_a_kernel_says_whether_it_is_cooperative():
    @cuda.jit
    def named_only(x):
        cg.this_grid()
        x[0] = 1

    @cuda.jit
    def not_at_all(x):
        x[0] = 1

    for kernel, expected in ((named_only, True), (not_at_all, False)):
        x = np.zeros(1)
        kernel[2, 1](x)
        assert x[0] == 1
        assert [overload.cooperative for overload in kernel.overloads.values()] == [expected]


def test_the_most_blocks_that_the_device_says_can_run(way):
    signature = "void(int64[:, ::1])"
    kernel = cuda.jit(signature)(rows.py_func)
    (overload,) = kernel.overloads.values()
    most = overload.max_cooperative_grid_blocks(1024)
    assert most == overload.max_cooperative_grid_blocks((16, 16, 4)) > 0
    assert overload.max_cooperative_grid_blocks(32) >= most
    assert overload.max_cooperative_grid_blocks(32, 100_000) <= (
        overload.max_cooperative_grid_blocks(32)
    )
    m = np.zeros((2, 1024 * most), np.int64)
    m[0] = np.arange(1024 * most)
    expected = rows_by_numpy(m)
    kernel[most, 1024](m)
    assert np.array_equal(m, expected)
    with pytest.raises(
        LaunchError, match=rf"rows waits for its whole grid: .* has {most + 1} blocks; .*{most}"
    ):
        kernel[most + 1, 1024](m)
    assert np.array_equal(m, expected)


@pytest.mark.parametrize(
    ("block", "shared"), [(0, 0), (1025, 0), (32.0, 0), ((1, 2, 3, 4), 0), (32, -1), (32, 1 << 20)]
)
def test_blocks_that_no_kernel_can_have_are_refused(block, shared):
    rows[1, 1](np.zeros((2, 1), np.int64))
    (overload, *_) = rows.overloads.values()
    with pytest.raises(LaunchError):
        overload.max_cooperative_grid_blocks(block, shared)


def test_the_device_says_that_it_has_cooperative_launches():
    assert cuda.get_current_device().COOPERATIVE_LAUNCH == 1


def test_a_group_means_nothing_outside_of_a_kernel():
    with pytest.raises(RuntimeError, match="only inside a kernel"):
        cg.this_grid()
    with pytest.raises(RuntimeError, match="only inside a kernel"):
        cg.GridGroup().sync()


@cuda.jit
def in_turns(x, turns):
    """Each turn needs all of the one before, from the other end of the grid."""
    i = cuda.grid(1)
    group = cg.this_grid()
    for turn in range(turns):
        x[(turn + 1) % 2, i] = x[turn % 2, x.shape[1] - 1 - i] + 1
        group.sync()


def test_launches_of_one_kernel_in_several_streams_have_barriers_of_their_own():
    turns, shapes = 2001, [(3, 4), (2, 7), (5, 3), (4, 2)]
    streams = [cuda.stream() for _ in shapes]
    arrays = [cuda.to_device(np.zeros((2, blocks * width), np.int64)) for blocks, width in shapes]
    in_turns[1, 1](cuda.to_device(np.zeros((2, 1), np.int64)), 1)
    for (blocks, width), stream, array in zip(shapes, streams, arrays, strict=True):
        in_turns[blocks, width, stream](array, turns)
    cuda.synchronize()
    for array in arrays:
        ends = array.copy_to_host()
        assert (ends[0] == turns - 1).all()
        assert (ends[1] == turns).all()
