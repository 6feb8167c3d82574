"""Threads that wait in a loop for what another thread of their block writes, or another block."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulage import cuda
from haulage.cuda import cg
from haulage.errors import CompileError, KernelError

pytestmark = [
    pytest.mark.usefixtures("device", "way"),
    # A thread that waits for ever cannot be called back.
    pytest.mark.timeout(120, method="thread"),
]

WAYS = ("auto", "coroutines")
FULL = 0xFFFFFFFF


def _zeros(*shape, kind=np.int32):
    return cuda.to_device(np.zeros(shape, kind))


# ---- flags -----------------------------------------------------------------------------------


@cuda.jit
def chain(flag, out, up):
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    before = t - 1 if up else t + 1
    if 0 <= before < n:
        while flag[before] == 0:
            pass
        out[t] = out[before] + 1
    cuda.threadfence()
    flag[t] = 1


@pytest.mark.parametrize("threads", [2, 33, 1024])
@pytest.mark.parametrize("up", [False, True])
def test_each_thread_waits_for_the_next_one_or_the_one_before(threads, up):
    out = _zeros(threads)
    chain[1, threads](_zeros(threads), out, up)
    places = np.arange(threads)
    np.testing.assert_array_equal(out.copy_to_host(), places if up else places[::-1])


@cuda.jit
def chain_of_rows(flag, out):
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    if y < 7:
        while cuda.atomic.add(flag, (y + 1, x), 0) == 0:
            cuda.nanosleep(20)
        out[y, x] = out[y + 1, x] + 1
    cuda.threadfence()
    cuda.atomic.exch(flag, (y, x), 1)


def test_rows_of_a_block_wait_for_the_next_row():
    out = _zeros(8, 8)
    chain_of_rows[1, (8, 8)](_zeros(8, 8), out)
    expected = np.repeat(np.arange(7, -1, -1), 8).reshape(8, 8)
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit
def shared_flags(out):
    flag = cuda.shared.array(64, np.int32)
    value = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    flag[t] = 0
    cuda.syncthreads()
    if t % 2 == 0:
        while flag[63 - t] == 0:
            pass
        out[cuda.grid(1)] = value[63 - t]
    else:
        value[t] = t * t
        cuda.threadfence_block()
        flag[t] = 1


def test_flags_in_shared_memory():
    out = _zeros(256)
    shared_flags[4, 64](out)
    places = np.arange(64)
    expected = np.where(places % 2 == 0, (63 - places) ** 2, 0)
    np.testing.assert_array_equal(out.copy_to_host(), np.tile(expected, 4))


@cuda.jit(device=True)
def wait(flag, place, value):
    turns = 0
    while flag[place]["ready"] < value:
        turns += 1
        cuda.nanosleep(turns)
    return flag[place]["value"]


@cuda.jit
def by_a_function(flag, out):
    t = cuda.threadIdx.x
    if t < 16:
        out[t] = wait(flag, t + 16, 0.5)
    else:
        flag[t]["value"] = t
        cuda.threadfence()
        flag[t]["ready"] = 1.0


def test_a_device_function_that_waits_for_a_field_of_a_record():
    kind = np.dtype([("ready", np.float64), ("value", np.float64)])
    out = _zeros(16, kind=np.float64)
    by_a_function[1, 32](_zeros(32, kind=kind), out)
    np.testing.assert_array_equal(out.copy_to_host(), np.arange(16, 32))


@cuda.jit
def first_waits_for_all(out):
    count = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        count[0] = 0
    cuda.syncthreads()
    if t == 0:
        while cuda.atomic.add(count, 0, 0) < cuda.blockDim.x - 1:
            pass
        out[cuda.blockIdx.x] = count[0]
    else:
        cuda.atomic.add(count, 0, 1)


def test_the_first_thread_waits_for_all_others():
    out = _zeros(5)
    first_waits_for_all[5, 1024](out)
    np.testing.assert_array_equal(out.copy_to_host(), 1023)


@cuda.jit
def waits_between_barriers(count, out):
    room = cuda.shared.array(2, np.int32)
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(2):
        if t == 63 * k:
            while cuda.atomic.add(count, b, 0) < 63 * (k + 1):
                pass
            room[k] = 7 + k
        else:
            cuda.atomic.add(count, b, 1)
        cuda.syncthreads()
        out[cuda.grid(1)] += room[k]


def test_threads_wait_between_barriers_of_the_block():
    out = _zeros(640)
    waits_between_barriers[10, 64](_zeros(10), out)
    np.testing.assert_array_equal(out.copy_to_host(), 15)


@cuda.jit
def polls(count, out):
    if cuda.threadIdx.x == 0:
        for _ in range(100_000):
            if cuda.atomic.add(count, 0, 0) == 31:
                out[0] = 1
                break
    else:
        cuda.atomic.add(count, 0, 1)


def test_a_limited_number_of_looks_is_enough():
    out = _zeros(1)
    polls[1, 32](_zeros(1), out)
    assert out.copy_to_host()[0] == 1


@cuda.jit
def state_machine(flag, out):
    t = cuda.threadIdx.x
    if t == 0:
        state = 0
        while state != 3:
            if state == 0:
                if cuda.atomic.add(flag, 0, 0) != 0:
                    state = 1
            elif state == 1:
                flag[1] = 1
                state = 2
            elif flag[2] != 0:
                state = 3
        out[0] = flag[2]
    elif t == 40:
        cuda.atomic.add(flag, 0, 5)
        while flag[1] == 0:
            pass
        flag[2] = 7


def test_a_state_of_the_thread_s_own_tells_how_long_it_waits():
    out = _zeros(1)
    state_machine[1, 64](_zeros(3), out)
    assert out.copy_to_host()[0] == 7


@cuda.jit
def request_and_answer(flag, out, counts):
    t = cuda.threadIdx.x
    if t == 0:
        while flag[1] == 0:
            flag[0] = flag[0] + 1 if counts else 1
        out[0] = 7
    elif t == 1:
        while flag[0] == 0:
            pass
        flag[1] = 1


@pytest.mark.parametrize("counts", [False, True])
def test_a_thread_writes_in_each_iteration_what_the_awaited_one_waits_for(counts):
    out = _zeros(1)
    request_and_answer[1, 64](_zeros(2), out, counts)
    assert out.copy_to_host()[0] == 7


@cuda.jit
def two_names_of_one_array(flag, same, out):
    t = cuda.threadIdx.x
    if t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        out[0] = 1
    elif t == 9:
        cuda.atomic.exch(same, 0, 1)


def test_another_thread_writes_the_flag_by_another_name():
    flag, out = _zeros(1), _zeros(1)
    two_names_of_one_array[1, 32](flag, flag, out)
    assert out.copy_to_host()[0] == 1


@cuda.jit
def versions(version, data, differences):
    t = cuda.threadIdx.x
    if t == 40:
        for k in range(50):
            cuda.atomic.add(version, 0, 1)
            cuda.threadfence()
            data[0] = data[1] = k
            cuda.threadfence()
            cuda.atomic.add(version, 0, 1)
    else:
        while True:
            seen = cuda.atomic.add(version, 0, 0)
            if seen > 0 and seen % 2 == 0:
                differences[t] = data[0] - data[1]
                cuda.threadfence()
                if cuda.atomic.add(version, 0, 0) == seen:
                    break


def test_readers_wait_for_a_whole_version_of_data():
    differences = cuda.to_device(np.full(64, 5, np.int32))
    versions[1, 64](_zeros(1), _zeros(2), differences)
    assert differences.copy_to_host().sum() == 5


@cuda.jit
def turns_of_two(turn, log):
    t = cuda.threadIdx.x
    if t in (5, 40):
        own = 0 if t == 5 else 1
        for _ in range(100):
            while turn[0] % 2 != own:
                cuda.threadfence()
            log[turn[0]] = t
            cuda.threadfence()
            turn[0] += 1


def test_two_threads_take_turns():
    log = _zeros(200)
    turns_of_two[1, 64](_zeros(1), log)
    np.testing.assert_array_equal(log.copy_to_host(), np.tile([5, 40], 100))


@cuda.jit
def queue(x, out, reverse):
    rooms = cuda.shared.array(8, np.int32)
    full = cuda.shared.array(8, np.int32)
    t = cuda.threadIdx.x
    if t < 8:
        full[t] = 0
    cuda.syncthreads()
    giver, taker = (40, 1) if reverse else (1, 40)
    if t == giver:
        for k in range(x.size):
            while cuda.atomic.add(full, k % 8, 0) == 1:
                pass
            rooms[k % 8] = x[k]
            cuda.threadfence_block()
            cuda.atomic.exch(full, k % 8, 1)
    if t == taker:
        for k in range(x.size):
            while cuda.atomic.add(full, k % 8, 0) == 0:
                pass
            out[k] = 2 * rooms[k % 8]
            cuda.threadfence_block()
            cuda.atomic.exch(full, k % 8, 0)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_queue_of_eight_places_between_two_warps(reverse):
    x = np.arange(1000, dtype=np.int32)
    out = _zeros(1000)
    queue[1, 64](x, out, reverse)
    np.testing.assert_array_equal(out.copy_to_host(), 2 * x)


# ---- with words of warps ---------------------------------------------------------------------


@cuda.jit
def waits_with_syncwarp(flag, out):
    t = cuda.threadIdx.x
    if t < 32:
        while flag[0] == 0:
            cuda.syncwarp()
        out[t] = 1
    elif t == 40:
        flag[0] = 1


def test_a_warp_waits_together_for_another_one():
    out = _zeros(32)
    waits_with_syncwarp[1, 64](_zeros(1), out)
    np.testing.assert_array_equal(out.copy_to_host(), 1)


@cuda.jit
def warps_hand_on(flag, out):
    t = cuda.threadIdx.x
    lane, warp, warps = t % 32, t // 32, cuda.blockDim.x // 32
    value = 0
    if warp < warps - 1:
        if lane == 31:
            while cuda.atomic.add(flag, warp + 1, 0) == 0:
                pass
            value = flag[warp + 1]
        value = cuda.shfl_sync(FULL, value, 31)
    out[t] = value + 1
    if lane == 0:
        cuda.threadfence()
        cuda.atomic.exch(flag, warp, value + 1)


def test_one_lane_waits_and_tells_its_warp():
    out = _zeros(256)
    warps_hand_on[1, 256](_zeros(8), out)
    np.testing.assert_array_equal(out.copy_to_host(), np.repeat(np.arange(8, 0, -1), 32))


@cuda.jit
def lock_of_a_warp(lock, sums):
    lane = cuda.threadIdx.x % 32
    if lane == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            cuda.nanosleep(10)
        cuda.threadfence()
    cuda.syncwarp()
    sums[lane] += 1
    cuda.syncwarp()
    if lane == 0:
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def test_one_lane_takes_a_lock_for_its_warp():
    sums = _zeros(32)
    lock_of_a_warp[4, 256](_zeros(1), sums)
    np.testing.assert_array_equal(sums.copy_to_host(), 32)


# ---- locks and barriers written by hand ------------------------------------------------------


@cuda.jit
def barriers_by_hand(x, out):
    count = cuda.shared.array(1, np.int32)
    sense = cuda.shared.array(1, np.int32)
    room = cuda.shared.array(128, np.int32)
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    if t == 0:
        count[0] = sense[0] = 0
    cuda.syncthreads()
    own, value = 0, x[t]
    for k in range(12):
        if k % 2 == 0:
            room[t] = value
        own = 1 - own
        if cuda.atomic.add(count, 0, 1) == n - 1:
            count[0] = 0
            cuda.threadfence_block()
            cuda.atomic.exch(sense, 0, own)
        else:
            while cuda.atomic.add(sense, 0, 0) != own:
                pass
        if k % 2 == 0:
            value = room[(t + 1) % n]
    out[t] = value


def test_a_barrier_of_the_block_made_of_atomics():
    x, out = np.arange(128, dtype=np.int32), _zeros(128)
    barriers_by_hand[1, 128](x, out)
    np.testing.assert_array_equal(out.copy_to_host(), np.roll(x, -6))


@cuda.jit
def philosophers(fork, meals, tries):
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    first, second = min(t, (t + 1) % n), max(t, (t + 1) % n)
    for _ in range(10):
        if tries:
            while True:
                if cuda.atomic.cas(fork, t, 0, 1) == 0:
                    if cuda.atomic.cas(fork, (t + 1) % n, 0, 1) == 0:
                        break
                    cuda.atomic.exch(fork, t, 0)
        else:
            while cuda.atomic.cas(fork, first, 0, 1) != 0:
                pass
            while cuda.atomic.cas(fork, second, 0, 1) != 0:
                pass
        meals[t] += 1
        cuda.threadfence()
        cuda.atomic.exch(fork, second, 0)
        cuda.atomic.exch(fork, first, 0)


@pytest.mark.parametrize("threads", [2, 5, 64])
@pytest.mark.parametrize("tries", [False, True])
def test_two_locks_at_a_time(threads, tries):
    meals = _zeros(threads)
    philosophers[1, threads](_zeros(threads), meals, tries)
    np.testing.assert_array_equal(meals.copy_to_host(), 10)


@cuda.jit
def readers_and_writers(lock, data, differences):
    i = cuda.grid(1)
    if i % 8 == 0:
        while cuda.atomic.cas(lock, 0, 0, -1) != 0:
            cuda.nanosleep(20)
        data[0] += 1
        data[1] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)
    else:
        while True:
            old = lock[0]
            if old >= 0 and cuda.atomic.cas(lock, 0, old, old + 1) == old:
                break
        differences[i] = data[0] - data[1]
        cuda.threadfence()
        cuda.atomic.sub(lock, 0, 1)


def test_a_lock_of_readers_and_writers():
    data, differences = _zeros(2), cuda.to_device(np.full(512, 9, np.int32))
    readers_and_writers[4, 128](_zeros(1), data, differences)
    np.testing.assert_array_equal(data.copy_to_host(), 64)
    np.testing.assert_array_equal(differences.copy_to_host(), np.where(np.arange(512) % 8, 0, 9))


@cuda.jit
def lock_with_a_queue(tail, following, waits, total):
    i = cuda.grid(1)
    following[i], waits[i] = -1, 1
    cuda.threadfence()
    before = cuda.atomic.exch(tail, 0, i)
    if before != -1:
        following[before] = i
        cuda.threadfence()
        while waits[i] == 1:
            pass
    total[0] += 1
    cuda.threadfence()
    if following[i] == -1 and cuda.atomic.cas(tail, 0, i, -1) != i:
        while following[i] == -1:
            pass
    if following[i] != -1:
        waits[following[i]] = 0


def test_a_lock_whose_waiting_threads_are_a_list():
    total = _zeros(1)
    tail = cuda.to_device(np.full(1, -1, np.int32))
    lock_with_a_queue[2, 128](tail, _zeros(256), _zeros(256), total)
    assert total.copy_to_host()[0] == 256


@cuda.jit
def workers(tail, head, tasks, left, ones):
    while cuda.atomic.add(left, 0, 0) > 0:
        own = head[0]
        if own < tail[0] and cuda.atomic.cas(head, 0, own, own + 1) == own:
            while cuda.atomic.add(tasks, own, 0) == 0:
                pass
            size = tasks[own]
            if size > 1:
                place = cuda.atomic.add(tail, 0, 2)
                cuda.atomic.exch(tasks, place, size // 2)
                cuda.atomic.exch(tasks, place + 1, size - size // 2)
                cuda.atomic.add(left, 0, 1)
            else:
                cuda.atomic.add(ones, 0, 1)
                cuda.atomic.sub(left, 0, 1)


def test_workers_that_take_tasks_and_make_new_ones():
    tasks = np.zeros(2000, np.int32)
    tasks[0] = 500
    one = np.ones(1, np.int32)
    ones = _zeros(1)
    workers[3, 64](one.copy(), _zeros(1), tasks, one.copy(), ones)
    assert ones.copy_to_host()[0] == 500


# ---- waiting for other blocks ----------------------------------------------------------------


@cuda.jit
def scan(x, out, state, sums, totals):
    room = cuda.shared.array(64, np.int64)
    before = cuda.shared.array(1, np.int64)
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        for k in range(1, 64):
            room[k] += room[k - 1]
        sums[b] = room[63]
        cuda.threadfence()
        cuda.atomic.exch(state, b, 1)
        total = 0
        k = b - 1
        while k >= 0:
            seen = cuda.atomic.add(state, k, 0)
            if seen == 2:
                total += totals[k]
                break
            if seen == 1:
                total += sums[k]
                k -= 1
        totals[b] = total + room[63]
        cuda.threadfence()
        cuda.atomic.exch(state, b, 2)
        before[0] = total
    cuda.syncthreads()
    out[cuda.grid(1)] = room[t] + before[0]


@cuda.jit
def scan_by_all(x, out, state):
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    total = x[cuda.grid(1)]
    if b > 0:
        while state[b - 1, t] == 0:
            pass
        total += out[cuda.grid(1) - 64]
    out[cuda.grid(1)] = total
    cuda.threadfence()
    state[b, t] = 1


@pytest.mark.parametrize("blocks", [1, 2, 300])
def test_blocks_wait_for_blocks_before_them(blocks):
    x = np.random.default_rng(blocks).integers(0, 9, blocks * 64)
    out = _zeros(blocks * 64, kind=np.int64)
    sums, totals = _zeros(blocks, kind=np.int64), _zeros(blocks, kind=np.int64)
    scan[blocks, 64](x, out, _zeros(blocks), sums, totals)
    np.testing.assert_array_equal(out.copy_to_host(), x.cumsum())
    scan_by_all[blocks, 64](x, out, _zeros(blocks, 64))
    expected = x.reshape(blocks, 64).cumsum(axis=0).ravel()
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit
def rows_of_blocks(state, out):
    b = cuda.blockIdx.x + cuda.gridDim.x * cuda.blockIdx.y
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    if x == 0 and y == 0:
        if b > 0:
            while cuda.atomic.add(state, b - 1, 0) == 0:
                pass
        out[cuda.blockIdx.y, cuda.blockIdx.x] = b
        cuda.threadfence()
        cuda.atomic.exch(state, b, 1)


def test_blocks_of_two_axes_begin_with_x_the_fastest():
    out = _zeros(30, 40)
    rows_of_blocks[(40, 30), (4, 4)](_zeros(1200), out)
    np.testing.assert_array_equal(out.copy_to_host(), np.arange(1200).reshape(30, 40))


@cuda.jit
def barrier_of_the_grid_by_hand(count, turn, data, out):
    grid = cg.this_grid()
    i, t = cuda.grid(1), cuda.threadIdx.x
    for k in range(4):
        data[k, i] = k + i
        cuda.syncthreads()
        if t == 0:
            cuda.threadfence()
            if cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1:
                count[0] = 0
                cuda.threadfence()
                cuda.atomic.add(turn, 0, 1)
            else:
                while cuda.atomic.add(turn, 0, 0) <= k:
                    pass
        cuda.syncthreads()
        out[i] += data[k, (i + 77) % data.shape[1]]
    grid.sync()
    if t == 0:
        cuda.atomic.add(out, 0, 1)


def test_a_barrier_of_the_grid_made_of_atomics_in_a_cooperative_launch():
    n = 40 * 64
    out = _zeros(n, kind=np.int64)
    data = _zeros(4, n, kind=np.int64)
    barrier_of_the_grid_by_hand[40, 64](_zeros(1), _zeros(1), data, out)
    expected = 4 * ((np.arange(n) + 77) % n) + 6
    expected[0] += 40
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@cuda.jit
def waits_for_later_blocks(flag, out):
    grid = cg.this_grid()
    i, n = cuda.grid(1), cuda.gridsize(1)
    if i < n - 1:
        while flag[i + 1] == 0:
            pass
        out[i] = out[i + 1] + 1
    cuda.threadfence()
    flag[i] = 1
    if n > 1_000_000:
        grid.sync()


def test_blocks_of_a_cooperative_launch_wait_for_later_ones():
    out = _zeros(20 * 32)
    waits_for_later_blocks[20, 32](_zeros(20 * 32), out)
    np.testing.assert_array_equal(out.copy_to_host(), np.arange(20 * 32)[::-1])


# ---- faults ----------------------------------------------------------------------------------


@cuda.jit(debug=True, opt=False)
def waits_for_a_thread_that_fails(flag, x):
    if cuda.threadIdx.x == 0:
        while flag[0] == 0:
            pass
    elif cuda.threadIdx.x == 5:
        if x.size < 100:
            raise ValueError("too few")
        flag[0] = 1


def test_nobody_waits_for_a_thread_that_failed():
    flag, x = _zeros(1), _zeros(1)
    with pytest.raises(KernelError, match="too few"):
        # Kernels for debugging are waited for.
        waits_for_a_thread_that_fails[1, 32](flag, x)


def test_that_threads_wait_for_one_another_is_said_where_a_cut_is_wanted(monkeypatch):
    monkeypatch.setenv("HAULAGE_CPU_THREADS", "regions")
    out = _zeros(2)
    with pytest.raises(CompileError, match="threads wait for one another's writes"):
        cuda.jit(first_waits_for_all.py_func)[1, 2](out)


# ---- random waits ----------------------------------------------------------------------------


def _tasks(waits):
    """A kernel whose threads do tasks in an order of their own, each behind those that it names."""
    ready = cuda.jit(device=True)(waits)

    @cuda.jit
    def tasks(starts, order, first, awaited, done, values):
        i = cuda.grid(1)
        for place in range(starts[i], starts[i + 1]):
            task = order[place]
            value = 1
            for k in range(first[task], first[task + 1]):
                ready(done, awaited[k])
                value += values[awaited[k]]
            values[task] = value % 10007
            cuda.threadfence()
            cuda.atomic.exch(done, task, 1)

    return tasks


def reads(done, task):
    while done[task] == 0:
        pass


def adds_nothing(done, task):
    while cuda.atomic.add(done, task, 0) != 1:
        cuda.nanosleep(10)


def swaps(done, task):
    while True:
        if cuda.atomic.cas(done, task, 1, 1) == 1:
            return


TASKS = {waits: _tasks(waits) for waits in (reads, adds_nothing, swaps)}


@pytest.mark.parametrize("waits", TASKS)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_threads_wait_for_random_tasks_of_other_threads(waits, data):
    count = data.draw(st.integers(1, 60), "tasks")
    threads = data.draw(st.sampled_from((1, 2, 31, 32, 33, 64)), "threads")
    blocks = data.draw(st.integers(1, 3), "blocks")
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), "seed"))
    # Task k waits for earlier ones only, and each thread does its own in that order; a block's
    # tasks wait for those of this block and of blocks before it.
    owners = random.integers(0, threads, count) + threads * np.sort(
        random.integers(0, blocks, count)
    )
    awaited = [
        sorted(set(random.integers(0, k, random.integers(0, 4)))) if k else [] for k in range(count)
    ]
    names = random.permutation(count)
    values = np.zeros(count, np.int64)
    for k in range(count):
        values[names[k]] = (1 + sum(values[names[j]] for j in awaited[k])) % 10007
    by_name = {names[k]: [names[j] for j in awaited[k]] for k in range(count)}
    first = np.cumsum([0, *(len(by_name[name]) for name in range(count))])
    flat = np.array([each for name in range(count) for each in by_name[name]] or [0])
    starts = np.searchsorted(np.sort(owners), np.arange(threads * blocks + 1))
    order = names[np.argsort(owners, kind="stable")]
    out = _zeros(count, kind=np.int64)
    TASKS[waits][blocks, threads](starts, order, first, flat, _zeros(count), out)
    np.testing.assert_array_equal(out.copy_to_host(), values)
