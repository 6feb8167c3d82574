"""What GPUVerify's tests of CUDA are about, each in a few lines of one of four kernels.

A case is a launch with the number of its lines; whether it is right is what the suite says (Betts
et al., OOPSLA 2012, and its test suite), but in one case. Where the suite takes lanes of a warp to
run in step, lanes wait for each other here. Names are those of its folders. Left out are
annotations, and pointers to functions and to pointers, which no kernel of Python has.
"""

import numpy as np

from haulage import cuda
from support.checked.marks import Case

N, WARP = 64, 32
PAIR = np.dtype([("x", "i2"), ("y", "i2")])


@cuda.jit(device=True)
def only_the_first(x):
    if cuda.threadIdx.x != 0:
        return 0
    x[4] = 26.8
    return 1


@cuda.jit(device=True)
def add_shifted(x, offset):
    t = cuda.threadIdx.x
    other = x[t + offset]  # race: miscfail3, miscfail4
    x[t] += other  # race: miscfail3, miscfail4


@cuda.jit(device=True)
def passed_through(x):
    return x


@cuda.jit
def in_global_memory(which, x, y, z, pairs, ints, n):
    t, b, i = cuda.threadIdx.x, cuda.blockIdx.x, cuda.grid(1)
    if which == 0:
        only_the_first(x)
    elif which == 1:
        add_shifted(x, n)
    elif which == 2:
        q = passed_through(x)
        q[t] = 0
    elif which == 3:
        q = x if n else y
        q[t] = z[t]
    elif which == 4:
        if t == 15:
            x[t + n] = t  # race: value_causing_race
        if t == 40:
            x[t] = t  # race: value_causing_race
    elif which == 5:
        pairs[42] = pairs[t]  # race: fail_arrayofstruct
    elif which == 6:
        pairs[t] = pairs[N + t]  # race: fail_overstep
        if n:
            pairs[t + 1] = pairs[N + t + 1]  # race: fail_overstep
    elif which == 7:
        for k in range(t, n, cuda.blockDim.x):
            x[b * n + k] = k
    elif which == 8:
        for k in range(t, 4 * n, n):
            x[k] *= 2
    elif which == 9:
        x[4 * i + n] = y[i]
        x[4 * i + n + 1] = y[i]
    elif which == 10:
        # 11 of every 16 elements, which n = 16 keeps apart and n = 10 does not.
        for k in range(11):
            x[n * i + k] = k  # race: ctimesgid-fail
    elif which == 11:
        if ints[t] != t:
            x[0] = t  # race: globalarray
    elif which == 12:
        cuda.atomic.add(ints, 0, 10)
        cuda.atomic.sub(ints, 0, 10)
        cuda.atomic.exch(ints, 0, 10)
        cuda.atomic.min(ints, 0, 10)
        cuda.atomic.max(ints, 0, 10)
        cuda.atomic.and_(ints, 0, 10)
        cuda.atomic.or_(ints, 0, 10)
        cuda.atomic.xor(ints, 0, 10)
        cuda.atomic.cas(ints, 0, 10, 11)
        cuda.atomic.add(x, 0, 10.0)
    elif which == 13:
        x[cuda.atomic.add(ints, 0, 1)] = t
    elif which == 14:
        x[cuda.atomic.add(ints, 0, 0)] = t  # race: add_zero
    elif which == 15:
        if t == 0:
            ints[0] = 0
            cuda.atomic.add(ints, 0, 1)
            x[0] = ints[0]
    elif which == 16:
        x[i] += x[(b + 1) * cuda.blockDim.x + t]  # race: bad_inter_group
    elif which == 17:
        x[i] = b
        z[t] = b  # race: test_for_get_group_id
    elif which == 18:
        x[i] = 1.0 if y[i] < 0.5 else y[i]
        x[i] = np.float32(x[i]) + np.float64(np.int32(y[i]))
    elif which == 19:
        own = cuda.local.array((4, 5), np.float64)
        other = cuda.local.array(10, np.int32)
        for k in range(4):
            other[k] = k
            own[k, t % 5] = other[k]
        x[i] = own[t % 4, t % 5]
    elif which == 20:
        # No places at all.
        z[t:t][n] = 1  # bounds: miscfail6
    elif which == 21:
        x.view(np.int32)[2 * i] = 1
        x.view(np.int32)[2 * i + 1] = 2
    elif which == 22:
        x.view(np.int16)[i // 4] = t  # race: cast


@cuda.jit
def in_shared_memory(which, x, y, n):
    room = cuda.shared.array(8 * N, np.float64)
    small = cuda.shared.array(1, np.int32)
    tile = cuda.shared.array((8, 8), np.int64)
    t, b, i = cuda.threadIdx.x, cuda.blockIdx.x, cuda.grid(1)
    if which == 0:
        room[0] = t  # race: race_on_shared
    elif which == 1:
        small[0] = t  # race: shared_int
    elif which == 2:
        for k in range(10):
            room[k] = x[k]  # race: loop_unwind
    elif which == 3:
        if n == 0:
            cuda.syncthreads()
        room[t] = x[i]
        x[i] = room[t]
    elif which == 4:
        row, column = t // 8, t % 8
        tile[row, column] = x[i] % 3
        cuda.syncthreads()
        for k in range(8):
            if tile[row, column] == 0 and tile[row, k] != 0 and tile[k, column] != 0:
                tile[row, column] = 8 * n + k + 2
            cuda.syncthreads()
        x[i] = tile[row, column]
    elif which == 5:
        row, column = t // 8, t % 8
        tile[row, column] = x[i]  # race: 2d
        if n:
            cuda.syncthreads()
        turned = tile[column, row]  # race: 2d
        cuda.syncthreads()
        tile[row, column] = turned
        cuda.syncthreads()
        x[i] = tile[row, column]
    elif which == 6:
        # One row of 32 per warp, for every other row; the last one may be beyond.
        for k in range(t // WARP, 15, N // WARP):
            room[WARP * k + t % WARP] = x[t]
    elif which == 7:
        for j in range(0, 14, 2):
            value = y[(j + t // WARP + 1) * WARP + t % WARP]
            cuda.syncthreads()
            room[(j + t // WARP) * WARP + t % WARP] = value
    elif which == 8:
        room[t] = x[i]
        cuda.syncthreads()
        if t == 0:
            y[b] = room[0] + room[N - 1]
    elif which == 9:
        for k in range(n):
            room[t] = k
            cuda.syncthreads()
            x[i] += room[(t + 1) % N]
            cuda.syncthreads()


@cuda.jit(device=True)
def scan_of_a_warp(x, waits):
    t, lane = cuda.threadIdx.x, cuda.threadIdx.x % WARP
    step = 1
    while step < WARP:
        other = 0.0
        if lane >= step:
            other = x[t - step]  # race: scan_warp-fail
        if waits:
            cuda.syncwarp()
        x[t] += other  # race: scan_warp-fail
        if waits:
            cuda.syncwarp()
        step *= 2


@cuda.jit
def of_warps(which, x, waits):
    sums = cuda.shared.array(N // WARP, np.float64)
    t, lane, warp = cuda.threadIdx.x, cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
    if which == 0:
        scan_of_a_warp(x, waits)
    elif which == 1:
        scan_of_a_warp(x, waits)
        cuda.syncthreads()
        if lane == WARP - 1:
            sums[warp] = x[t]
        cuda.syncthreads()
        if warp:
            x[t] += sums[0]
    elif which == 2:
        other = x[WARP * warp + (t + 1) % WARP]  # race: broken_shuffle
        if waits:
            cuda.syncwarp()
        x[t] = other  # race: broken_shuffle
    elif which == 3:
        if waits:
            x[t % 3] = 1  # race: equality_abstraction
        x[t] = 0  # race: equality_abstraction


@cuda.jit
def with_groups(which, x):
    grid = cuda.cg.this_grid()
    i, b = cuda.grid(1), cuda.blockIdx.x
    if which == 0:
        other = x[i + 1]  # race: cooperative_race
        x[i] = other  # race: cooperative_race
    elif which == 1:
        other = x[i + 1]
        grid.sync()
        x[i] = other  # race: multiple_barriers
        if b == 0:
            # The last thread reads what the other block writes above, which the suite calls right.
            other = x[i + 1]  # race: multiple_barriers
            cuda.syncthreads()
            x[i] = other
    elif which == 2:
        other = x[i + 1]  # race: block_barrier_only
        cuda.syncthreads()
        x[i] = other  # race: block_barrier_only
    elif which == 3:
        if b == 0:
            other = x[i + 1] if cuda.threadIdx.x < N - 1 else 0.0
            cuda.syncthreads()
            x[i] = other
    elif which == 4:
        if i % 2 == 0:
            grid.sync()  # barrier: divergence_grid_group
            x[i] = 1
    elif which == 9:
        if i >= 20:
            return
        grid.sync()
        x[i] = 1
    elif which == 5:
        if b % 2 == 0:
            grid.sync()  # barrier: block_divergence_grid_group
            x[i] = 1
    elif which == 6:
        if i % 2 == 0:
            cuda.syncthreads()  # barrier: divergence_thread_block
            x[i] = 1
    elif which == 7:
        if i % N == 0:
            cuda.syncthreads()  # barrier: two_barriers
        else:
            cuda.syncthreads()  # barrier: two_barriers
    else:
        cuda.threadfence()


def _global(which, n, grid, block):
    pairs = np.zeros(3 * N, PAIR)
    x, y, z = np.zeros(4 * 2 * N * 16), np.ones(2 * N), np.zeros(2 * N)
    ints = np.zeros(2 * N, np.int32)
    in_global_memory[grid, block](which, x, y, z, pairs, ints, n)


def _shared(which, n, grid, block):
    in_shared_memory[grid, block](which, np.arange(2.0 * N), np.zeros(16 * N), n)


def _warps(which, waits, grid, block):
    of_warps[grid, block](which, np.ones(N), bool(waits))


def _groups(which, n, grid, block):
    with_groups[grid, block](which, np.zeros(2 * N + 1))


# The kernel, its lines, n, blocks, threads and the name in the suite; names with lines marked fail.
_CASES = (
    (_global, 0, 0, 1, N, "noraceduetoreturn"),
    (_global, 1, 1, 1, N, "miscfail3"),
    (_global, 1, 7, 1, N, "miscfail4"),
    (_global, 1, N, 1, N, "inlined, far apart"),
    (_global, 2, 0, 1, N, "pointertests-test5"),
    (_global, 3, 0, 1, N, "ternarytest"),
    (_global, 3, 1, 1, N, "ternarytest2"),
    (_global, 4, 25, 1, N, "value_causing_race"),
    (_global, 4, 24, 1, N, "a value that causes none"),
    (_global, 5, 0, 1, 2, "fail_arrayofstruct"),
    (_global, 5, 0, 1, 1, "arrayofstruct of a thread"),
    (_global, 6, 0, 1, 2, "arrayofstruct"),
    (_global, 6, 1, 1, 2, "fail_overstep"),
    (_global, 7, 72, 2, N, "reduced_strength_blockwise"),
    (_global, 8, N, 1, N, "reduced_strength_with_requires"),
    (_global, 9, 2, 2, N, "ctimeslid"),
    (_global, 10, 16, 2, N, "ctimesgid"),
    (_global, 10, 10, 2, N, "ctimesgid-fail"),
    (_global, 11, 0, 1, 8, "globalarray"),
    (_global, 12, 0, 2, N, "atomics-definitions"),
    (_global, 13, 0, 2, N, "add_one"),
    (_global, 14, 0, 1, 2, "add_zero"),
    (_global, 15, 0, 1, N, "test_abstraction_enforced"),
    (_global, 16, 0, 2, N, "bad_inter_group"),
    (_global, 17, 0, 2, N, "test_for_get_group_id"),
    (_global, 17, 0, 1, N, "get_group_id of one block"),
    (_global, 18, 0, 2, N, "casttofloat"),
    (_global, 19, 0, 2, N, "local2darrayaccess"),
    (_global, 20, 3, 1, N, "miscfail6"),
    (_global, 21, 0, 2, N, "casts"),
    (_global, 22, 0, 1, N, "cast"),
    (_shared, 0, 0, 1, 16, "race_on_shared"),
    (_shared, 1, 0, 2, N, "shared_int"),
    (_shared, 2, 0, 2, N, "loop_unwind"),
    (_shared, 3, 0, 2, N, "barrierconditionalkernelparam"),
    (_shared, 3, 1, 2, N, "basicbarrier"),
    (_shared, 4, 3, 1, N, "transitiveclosure"),
    (_shared, 5, 1, 2, N, "2d with a barrier"),
    (_shared, 5, 0, 2, N, "2d"),
    (_shared, 6, 0, 1, N, "misc1"),
    (_shared, 7, 0, 1, N, "misc2"),
    (_shared, 8, 0, 2, N, "test_copy_between_memory_spaces"),
    (_shared, 9, 3, 2, N, "scope"),
    (_warps, 0, 1, 1, N, "scan_warp"),
    (_warps, 0, 0, 1, N, "scan_warp-fail"),
    (_warps, 1, 1, 1, N, "intragroup_scan"),
    (_warps, 2, 1, 1, N, "shuffle"),
    (_warps, 2, 0, 1, N, "broken_shuffle"),
    (_warps, 3, 1, 1, N, "equality_abstraction"),
    (_warps, 3, 0, 1, N, "refined_equality_abstraction"),
    (_groups, 0, 0, 2, N, "cooperative_race"),
    (_groups, 1, 0, 2, N, "multiple_barriers"),
    (_groups, 2, 0, 2, N, "block_barrier_only"),
    (_groups, 3, 0, 2, N, "block_barrier"),
    (_groups, 4, 0, 1, WARP, "divergence_grid_group"),
    (_groups, 9, 0, 1, WARP, "threads that left before the grid waits"),
    (_groups, 5, 0, 2, WARP, "block_divergence_grid_group"),
    (_groups, 6, 0, 2, WARP, "divergence_thread_block"),
    (_groups, 7, 0, 1, N, "two_barriers"),
    (_groups, 8, 0, 2, WARP, "threadfence"),
)
_KERNELS = {
    _global: (in_global_memory, (only_the_first, add_shifted, passed_through)),
    _shared: (in_shared_memory, ()),
    _warps: (of_warps, (scan_of_a_warp,)),
    _groups: (with_groups, ()),
}


def cases():
    """All of them."""
    return [
        Case(
            name.replace(" ", "-"),
            _KERNELS[launch][0],
            lambda launch=launch, given=given: launch(*given),
            frozenset([name]),
            _KERNELS[launch][1],
        )
        for launch, *given, name in _CASES
    ]
