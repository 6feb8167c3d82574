"""Small kernels of what orders accesses, and of what does not.

They follow what is described of the tests of GPUVerify (Betts et al., OOPSLA 2012), of ScoR (Kamath
et al., ISCA 2020) and of NVIDIA's compute-sanitizer; the kernels are our own.
"""

import numpy as np

from haulage import cuda, roc
from support.checked.marks import Case

N = 64
RECORD = np.dtype([("a", "i1"), ("b", "i4"), ("c", "f8"), ("d", "i2")])


def _zeros(*sizes, kind=np.float64):
    return [np.zeros(size, kind) for size in sizes]


_made = []


def case(grid, *args, shared=0, name=""):
    """Have a kernel be one of the cases; arguments that are functions are called each time."""

    def note(kernel):
        def launch():
            given = [each() if callable(each) else each for each in args]
            kernel[(*grid, 0, shared)](*given)

        label = name or kernel.py_func.__name__
        _made.append(Case(label, kernel, launch, of_blocks=grid[0] > 1))
        return kernel

    return note


def array(size, kind=np.float64):
    return lambda: np.zeros(size, kind)


# ---- global memory -----------------------------------------------------------------------------


@case((2, N), array(2 * N))
@cuda.jit
def own_elements(x):
    x[cuda.grid(1)] += 1


@case((1, N), array(1))
@cuda.jit
def one_element_of_a_block(x):
    x[0] = cuda.threadIdx.x  # race


@case((N, 1), array(1))
@cuda.jit
def one_element_of_blocks(x):
    x[0] = cuda.blockIdx.x  # race


@case((4, N), array(1))
@cuda.jit
def the_same_value(x):
    x[0] = 7  # race


@case((1, N), array(N))
@cuda.jit
def neighbour_is_read(x):
    t = cuda.threadIdx.x
    if t + 1 < N:
        x[t] = x[t + 1] + 1  # race


@case((1, N), array(N))
@cuda.jit
def neighbour_is_read_before_a_barrier(x):
    t = cuda.threadIdx.x
    other = x[(t + 1) % N]
    cuda.syncthreads()
    x[t] = other + 1


@case((2, N), array(2 * N))
@cuda.jit
def neighbour_block_is_read(x):
    i = cuda.grid(1)
    x[i] = i  # race
    cuda.syncthreads()
    x[i] += x[(i + N) % (2 * N)]  # race


@case((2, N), array(2 * N), array(2 * N))
@cuda.jit
def only_reads_are_shared(x, out):
    i = cuda.grid(1)
    out[i] = x[0] + x[i] + x[2 * N - 1 - i]


@case((1, N), lambda: cuda.to_device(np.zeros(N))[::-1])
@cuda.jit
def negative_stride(x):
    t = cuda.threadIdx.x
    if t + 1 < N:
        x[t] = x[t + 1]  # race


def _views(first, second, size=N + 1):
    both = cuda.to_device(np.zeros(size))
    return both[first], both[second]


@cuda.jit
def of_two_views(x, y):
    t = cuda.threadIdx.x
    x[t] = y[t]  # race: overlapping


_made += [
    Case(
        "views that overlap",
        of_two_views,
        lambda: of_two_views[1, N](*_views(slice(1, None), slice(0, N))),
        frozenset(["overlapping"]),
    ),
    Case(
        "views of the two halves",
        of_two_views,
        lambda: of_two_views[1, N](*_views(slice(0, N), slice(N, None), 2 * N)),
    ),
    Case(
        "one array twice",
        of_two_views,
        lambda: of_two_views[1, N](*[cuda.to_device(np.zeros(N))] * 2),
    ),
    Case(
        "every other element",
        of_two_views,
        lambda: of_two_views[1, N](*_views(slice(0, None, 2), slice(1, None, 2), 2 * N)),
    ),
]


@case((2, 32), lambda: cuda.to_device(np.zeros(16, RECORD)))
@cuda.jit
def fields_of_a_packed_record(x):
    i = cuda.grid(1)
    if i % 4 == 0:
        x[i // 4].a = 1
    elif i % 4 == 1:
        x[i // 4].b = 1
    elif i % 4 == 2:
        x[i // 4].c = 1
    else:
        x[i // 4].d = 1


@case((2, 32), lambda: cuda.to_device(np.zeros(16, RECORD)))
@cuda.jit
def one_field_of_a_record(x):
    i = cuda.grid(1)
    x[i // 4].b = i  # race


def _of_kind(kind):
    @cuda.jit
    def own(x, y):
        i = cuda.grid(1)
        x[i] = y[i]

    @cuda.jit
    def shifted(x):
        i = cuda.grid(1)
        if i + 1 < x.size:
            x[i] = x[i + 1]  # race

    case((2, N), array(2 * N, kind), array(2 * N, kind), name=f"own {kind.__name__}")(own)
    case((2, N), array(2 * N, kind), name=f"shifted {kind.__name__}")(shifted)


for _kind in (np.int8, np.bool_, np.float16, np.uint16, np.float32, np.complex64, np.complex128):
    _of_kind(_kind)


# ---- shared memory -----------------------------------------------------------------------------


def _reversed(waits, name):
    @case((2, N), array(2 * N), name=name)
    @cuda.jit
    def kernel(x):
        room = cuda.shared.array(N, np.float64)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        room[t] = x[i]
        if waits:
            cuda.syncthreads()
        x[i] = room[N - 1 - t]

    return kernel


_reversed(True, "shared and a barrier")


@case((2, N), array(2 * N))
@cuda.jit
def shared_without_barrier(x):
    room = cuda.shared.array(N, np.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    room[t] = x[i]  # race
    x[i] = room[N - 1 - t]  # race


@case((2, N), array(2 * N), shared=8 * N)
@cuda.jit
def dynamic_without_barrier(x):
    room = cuda.shared.array(0, np.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    room[t] = x[i]  # race
    x[i] = room[N - 1 - t]  # race


@case((1, N), array(N))
@cuda.jit
def used_again_too_soon(x):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    for k in range(3):
        room[t] = k  # race
        cuda.syncthreads()
        x[t] += room[N - 1 - t]  # race


@case((1, N), array(N))
@cuda.jit
def used_again_behind_a_second_barrier(x):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    for k in range(3):
        room[t] = k
        cuda.syncthreads()
        x[t] += room[N - 1 - t]
        cuda.syncthreads()


@case((1, N), array(N))
@cuda.jit
def two_rooms_by_turns(x):
    room = cuda.shared.array((2, N), np.float64)
    t = cuda.threadIdx.x
    for k in range(5):
        room[k % 2, t] = k
        cuda.syncthreads()
        x[t] += room[k % 2, N - 1 - t]


@case((2, N), array(2 * N), array(2))
@cuda.jit
def tree(x, sums):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = N // 2
    while half:
        if t < half:
            room[t] += room[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = room[0]


@case((2, N), array(2 * N), array(2))
@cuda.jit
def tree_that_waits_once(x, sums):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = N // 2
    while half:
        if t < half:
            room[t] += room[t + half]  # race
        half //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = room[0]


@case((2, 32), array(64))
@cuda.jit
def first_thread_tells_the_others(x):
    room = cuda.shared.array(1, np.float64)
    if cuda.threadIdx.x == 0:
        room[0] = 3  # race
    x[cuda.grid(1)] = room[0]  # race


@case((1, 32), array(32))
@cuda.jit
def more_barriers_than_a_clock_counts(x):
    room = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    room[t] = 0
    for k in range(70000):
        cuda.syncthreads()
        room[(t + k) & 31] += 1
    cuda.syncthreads()
    x[t] = room[31 - t]


@case((1, 32), array(32))
@cuda.jit
def a_barrier_fewer_than_are_needed(x):
    room = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    room[t] = 0
    for k in range(70000):
        cuda.syncthreads()
        room[(t + k) & 31] += 1  # race
    x[t] = room[31 - t]  # race


@case((1, 32), array(32))
@cuda.jit
def those_that_left_come_before_the_barrier(x):
    t = cuda.threadIdx.x
    if t >= 16:
        x[t - 16] = 1
        return
    cuda.syncthreads()
    x[t] += 2


@case((1, N), array(N), array(N, np.int32))
@cuda.jit
def gathering_barriers(x, y):
    t = cuda.threadIdx.x
    room = cuda.shared.array(N, np.int32)
    for k in range(3):
        room[t] = t + k
        x[t] += cuda.syncthreads_count(y[t] > k)
        x[t] += room[N - 1 - t]
        x[t] += cuda.syncthreads_and(y[t] > k)
        room[t] = k
        x[t] += cuda.syncthreads_or(y[t] > k)
        x[t] += room[N - 1 - t]
        cuda.syncthreads()


# ---- warps -------------------------------------------------------------------------------------


@case((1, N), array(N))
@cuda.jit
def lanes_that_wait_for_each_other(x):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    room[t] = t
    cuda.syncwarp()
    x[t] = room[t ^ 31]


@case((1, N), array(N))
@cuda.jit
def lanes_that_do_not(x):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    room[t] = t  # race
    x[t] = room[t ^ 1]  # race


@case((1, N), array(N))
@cuda.jit
def another_warp(x):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    room[t] = t  # race
    cuda.syncwarp()
    x[t] = room[t ^ 32]  # race


@case((1, N), array(N))
@cuda.jit
def half_a_warp(x):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    lane = t % 32
    room[t] = t
    cuda.syncwarp(0xFFFF if lane < 16 else 0xFFFF0000)
    x[t] = room[t ^ 15]


@case((1, N), array(N))
@cuda.jit
def the_other_half_of_a_warp(x):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    lane = t % 32
    room[t] = t  # race
    cuda.syncwarp(0xFFFF if lane < 16 else 0xFFFF0000)
    x[t] = room[t ^ 16]  # race


@case((1, N), array(N))
@cuda.jit
def what_one_lane_knows_of_another(x):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    lane = t % 32
    room[t] = t
    if lane < 16:
        cuda.syncwarp(0xFFFF)
    if lane == 0 or lane >= 16:
        cuda.syncwarp(0xFFFF0001)
        x[t] = room[t - lane + lane // 2]


@case((1, N), array(N))
@cuda.jit
def a_shuffle_orders_nothing(x):
    room = cuda.shared.array(N, np.float64)
    t = cuda.threadIdx.x
    room[t] = t  # race
    x[t] = cuda.shfl_xor_sync(0xFFFFFFFF, t, 1)
    x[t] += room[t ^ 1]  # race


@case((1, N), array(N))
@cuda.jit
def shuffles_votes_and_matches(x):
    t = cuda.threadIdx.x
    x[t] = cuda.shfl_down_sync(0xFFFFFFFF, t, 1) + cuda.shfl_up_sync(0xFFFFFFFF, t, 2)
    x[t] += cuda.shfl_sync(0xFFFFFFFF, x[t], 3)
    x[t] += cuda.ballot_sync(0xFFFFFFFF, t % 2 == 0)
    x[t] += cuda.all_sync(0xFFFFFFFF, t > 0) + cuda.any_sync(0xFFFFFFFF, t > 0)
    x[t] += cuda.match_any_sync(0xFFFFFFFF, t // 3)
    x[t] += cuda.activemask()


@case((1, 128), array(128))
@roc.jit
def wavefronts_of_64(x):
    room = roc.shared.array(128, np.float64)
    t = roc.get_local_id(0)
    room[t] = x[t]
    roc.wavebarrier()
    x[t] = room[t ^ 63]


@case((1, 128), array(128))
@roc.jit
def another_wavefront(x):
    room = roc.shared.array(128, np.float64)
    t = roc.get_local_id(0)
    room[t] = x[t]  # race
    roc.wavebarrier()
    x[t] = room[127 - t]  # race


@case((1, 128), array(128))
@roc.jit
def a_part_of_a_wavefront_has_left(x):
    room = roc.shared.array(128, np.float64)
    t = roc.get_local_id(0)
    room[t] = t
    if t >= 90:
        return
    roc.wavebarrier()
    x[t] = room[t ^ 63]


@case((1, 128), array(128))
@roc.jit
def a_barrier_of_roc(x):
    room = roc.shared.array(128, np.float64)
    t = roc.get_local_id(0)
    room[t] = x[t]
    roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
    x[t] = room[127 - t]


# ---- atomics and fences ------------------------------------------------------------------------


@case((4, N), array(4, np.int32))
@cuda.jit
def only_atomics(x):
    cuda.atomic.add(x, cuda.threadIdx.x % 4, 1)
    cuda.atomic.max(x, 0, cuda.blockIdx.x)


@case((2, 32), array(1, np.int32))
@cuda.jit
def atomics_and_a_write(x):
    cuda.atomic.add(x, 0, 1)  # race
    if cuda.grid(1) == 40:
        x[0] = 5  # race


@case((2, 32), array(1, np.int32), array(64))
@cuda.jit
def atomics_and_a_read(x, out):
    cuda.atomic.add(x, 0, 1)  # race
    out[cuda.grid(1)] = x[0]  # race


@case((2, 32), array(1, np.int32), array(64))
@cuda.jit
def an_atomic_read(x, out):
    cuda.atomic.add(x, 0, 1)
    out[cuda.grid(1)] = cuda.atomic.add(x, 0, 0)


@case((2, N), array(2 * N, np.int32), array(8, np.int32))
@cuda.jit
def histogram(x, bins):
    room = cuda.shared.array(8, np.int32)
    t = cuda.threadIdx.x
    if t < 8:
        room[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(room, x[cuda.grid(1)] % 8, 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(bins, t, room[t])


@case((2, N), array(2 * N, np.int32), array(8, np.int32))
@cuda.jit
def histogram_that_begins_too_soon(x, bins):
    room = cuda.shared.array(8, np.int32)
    t = cuda.threadIdx.x
    if t < 8:
        room[t] = 0  # race
    cuda.atomic.add(room, x[cuda.grid(1)] % 8, 1)  # race
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(bins, t, room[t])


def _ticket(fence, name, planted=()):
    @cuda.jit
    def kernel(x, parts, out, ticket):
        last = cuda.shared.array(1, np.int32)
        t, b = cuda.threadIdx.x, cuda.blockIdx.x
        parts[N * b + t] = x[N * b + t]  # race: unfenced
        fence()
        cuda.syncthreads()
        if t == 0:
            mine = cuda.atomic.inc(ticket, 0, cuda.gridDim.x - 1)  # race: unfenced
            last[0] = mine == cuda.gridDim.x - 1
        cuda.syncthreads()
        if last[0] and t < cuda.gridDim.x:
            total = 0.0
            for k in range(N):
                total += parts[N * t + k]  # race: unfenced
            cuda.atomic.add(out, 0, total)
            if t == 0:
                ticket[0] = 0  # race: unfenced

    def launch():
        kernel[4, N](*_zeros(4 * N, 4 * N, 1), np.zeros(1, np.uint32))

    _made.append(Case(name, kernel, launch, frozenset(planted), of_blocks=True))


_fence = cuda.jit(device=True)(lambda: cuda.threadfence())
_fence_of_block = cuda.jit(device=True)(lambda: cuda.threadfence_block())
_fence_of_system = cuda.jit(device=True)(lambda: cuda.threadfence_system())
_no_fence = cuda.jit(device=True)(lambda: None)
_ticket(_fence, "ticket with a fence")
_ticket(_fence_of_system, "ticket with a fence of the system")
_ticket(_no_fence, "ticket without a fence", ["unfenced"])
_ticket(_fence_of_block, "ticket with a fence of the block", ["unfenced"])


def _lock(before, behind, blocks, name, planted=()):
    @cuda.jit
    def kernel(count, lock):
        done = False
        while not done:
            if cuda.atomic.cas(lock, 0, 0, 1) == 0:
                before()
                count[0] += 1  # race: unfenced
                behind()
                cuda.atomic.exch(lock, 0, 0)
                done = True

    def launch():
        kernel[blocks, 32](np.zeros(1), np.zeros(1, np.int32))

    _made.append(Case(name, kernel, launch, frozenset(planted), of_blocks=blocks > 1))


_lock(_fence, _fence, 4, "lock")
_lock(_no_fence, _fence, 4, "lock with a fence behind", ["unfenced"])
_lock(_fence_of_block, _fence, 4, "lock with a fence of the block in front", ["unfenced"])
_lock(_no_fence, _no_fence, 4, "lock without fences", ["unfenced"])
_lock(_fence_of_block, _fence_of_block, 1, "lock of a block")
_lock(_fence_of_block, _fence_of_block, 4, "lock of a block between blocks", ["unfenced"])


def _handed_on(fence, name, planted=()):
    @cuda.jit
    def kernel(flag, out):
        t = cuda.threadIdx.x
        if t + 1 < cuda.blockDim.x:
            while cuda.atomic.add(flag, t + 1, 0) == 0:
                cuda.nanosleep(20)
            out[t] = out[t + 1] + 1  # race: unfenced
        fence()
        cuda.atomic.exch(flag, t, 1)

    def launch():
        kernel[1, 100](np.zeros(100, np.int32), np.zeros(100))

    _made.append(Case(name, kernel, launch, frozenset(planted)))


_handed_on(_fence, "handed on by flags")
_handed_on(_no_fence, "handed on by flags without a fence", ["unfenced"])


@case((1, 100), array(100, np.int32), array(100))
@cuda.jit
def plain_flags(flag, out):
    t = cuda.threadIdx.x
    if t + 1 < cuda.blockDim.x:
        while flag[t + 1] == 0:  # race
            pass
        out[t] = out[t + 1] + 1  # race
    cuda.threadfence()
    flag[t] = 1  # race


@case((8, 32), array(256), array(32), array(1, np.int32))
@cuda.jit
def a_lane_tells_for_its_warp(x, out, ticket):
    t = cuda.threadIdx.x
    x[32 * cuda.blockIdx.x + t] = t
    cuda.syncwarp()
    last = 0
    if t == 0:
        cuda.threadfence()
        last = cuda.atomic.add(ticket, 0, 1)
    last = cuda.shfl_sync(0xFFFFFFFF, last, 0)
    cuda.syncwarp()
    if last == cuda.gridDim.x - 1:
        total = 0.0
        for k in range(cuda.gridDim.x):
            total += x[32 * k + t]
        out[t] = total


@case((8, 32), array(256), array(32), array(1, np.int32))
@cuda.jit
def a_lane_tells_too_soon(x, out, ticket):
    t = cuda.threadIdx.x
    x[32 * cuda.blockIdx.x + t] = t  # race
    last = 0
    if t == 0:
        cuda.threadfence()
        last = cuda.atomic.add(ticket, 0, 1)
    last = cuda.shfl_sync(0xFFFFFFFF, last, 0)
    cuda.syncwarp()
    if last == cuda.gridDim.x - 1:
        total = 0.0
        for k in range(cuda.gridDim.x):
            total += x[32 * k + t]  # race
        out[t] = total


# ---- grids that wait ---------------------------------------------------------------------------


@case((4, 32), array(128), array(128))
@cuda.jit
def a_barrier_of_the_grid(x, y):
    i = cuda.grid(1)
    x[i] = i
    cuda.cg.this_grid().sync()
    y[i] = x[cuda.gridsize(1) - 1 - i]


@case((4, 32), array(128), array(128))
@cuda.jit
def used_again_before_the_grid_waits(x, y):
    i = cuda.grid(1)
    grid = cuda.cg.this_grid()
    for _ in range(2):
        x[i] = i  # race
        grid.sync()
        y[i] = x[cuda.gridsize(1) - 1 - i]  # race


def _own_barrier(fence, name, planted=()):
    @cuda.jit
    def kernel(x, y, count, blocks):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        x[i] = i  # race: unfenced
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            fence()
            cuda.atomic.add(count, 0, 1)
            while cuda.atomic.add(count, 0, 0) < blocks:
                pass
        cuda.syncthreads()
        y[i] = x[cuda.gridsize(1) - 1 - i]  # race: unfenced
        if blocks < 0:
            grid.sync()

    def launch():
        kernel[4, 32](*_zeros(128, 128), np.zeros(1, np.int32), 4)

    _made.append(Case(name, kernel, launch, frozenset(planted), of_blocks=True))


_own_barrier(_fence, "a barrier of the program's own")
_own_barrier(_no_fence, "a barrier of the program's own without a fence", ["unfenced"])


# ---- barriers ----------------------------------------------------------------------------------


@case((1, 32), array(32))
@cuda.jit
def a_barrier_that_some_miss(x):
    t = cuda.threadIdx.x
    if t < 8:
        cuda.syncthreads()  # barrier
    x[t] = 1


@case((1, 32), array(32))
@cuda.jit
def barriers_of_two_arms(x):
    if cuda.threadIdx.x < 8:
        cuda.syncthreads()  # barrier
    else:
        cuda.syncthreads()  # barrier
    x[cuda.threadIdx.x] = 1


@case((1, 32), array(32))
@cuda.jit
def a_barrier_in_a_loop_that_some_leave(x):
    t = cuda.threadIdx.x
    for k in range(4 + t // 16):
        cuda.syncthreads()  # barrier
        x[t] += k
    x[t] += 1


@case((1, 32), array(32))
@cuda.jit
def a_mask_without_its_lane(x):
    t = cuda.threadIdx.x
    if t < 16:
        cuda.syncwarp(0xFFFF)
    else:
        cuda.syncwarp(0x1FFFE)  # barrier
    x[t] = 1


@case((1, 32), array(32))
@cuda.jit
def a_vote_without_its_lane(x):
    t = cuda.threadIdx.x
    x[t] = cuda.ballot_sync(0xFF, t > 3)  # barrier


@case((1, 40), array(40))
@cuda.jit
def lanes_that_no_block_has(x):
    t = cuda.threadIdx.x
    x[t] = cuda.shfl_down_sync(0xFFFFFFFF, t, 1)  # barrier


@case((1, 32), array(32))
@cuda.jit
def lanes_that_have_left(x):
    t = cuda.threadIdx.x
    if t >= 20:
        return
    x[t] = cuda.shfl_xor_sync(0xFFFFFFFF, t, 16)  # barrier


@case((1, 32), array(32))
@cuda.jit
def a_lane_that_the_mask_leaves_out(x):
    t = cuda.threadIdx.x
    if t < 16:
        x[t] = cuda.shfl_sync(0xFFFF, t, t + 1)  # barrier


@case((1, 32), array(32))
@cuda.jit
def half_a_warp_shuffles(x):
    t = cuda.threadIdx.x
    if t < 16:
        x[t] = cuda.shfl_xor_sync(0xFFFF, t, 15)


@case((1, 32), array(32))
@cuda.jit
def lanes_of_a_mask_that_never_come(x):
    t = cuda.threadIdx.x
    if t < 16:
        x[t] = cuda.shfl_xor_sync(0xFFFFFFFF, t, 1)  # barrier
    else:
        cuda.syncthreads()
        x[t] = 1


@case((1, 100), array(100, np.int32))
@roc.jit
def lanes_that_words_have_a_value_for(x):
    t = roc.get_local_id(0)
    if x[t] % 2 == 0:
        x[t] = roc.ds_bpermute(t + 1, x[t])
        x[t] += roc.activelanepermute_wavewidth(x[t], 99 - t, 7, False)


@case((4, 32), array(128))
@cuda.jit
def blocks_that_the_grid_waits_for(x):
    if cuda.blockIdx.x < 2:
        cuda.cg.this_grid().sync()  # barrier
    x[cuda.grid(1)] = 1


@case((1, 64), array(64))
@cuda.jit
def those_that_left_are_not_waited_for(x):
    t = cuda.threadIdx.x
    if t >= 50:
        return
    cuda.syncthreads()
    x[t] = 1


def cases():
    """All of them."""
    return list(_made)
