"""Fences and locks of too narrow a scope, as the ScoR suite has them (Kamath et al., ISCA 2020).

Two or more threads of one block, or of two, pass an element on: by a flag, by a lock, or not at
all; and whole programs do. What is right and what races is that of the suite; the kernels are our
own. Atomic operations of a block's scope are none of Python's.
"""

import numpy as np

from haulage import cuda
from support.checked.marks import Case

NO_FENCE, OF_BLOCK, OF_GRID = 0, 1, 2
N = 64
# Of two threads (block, thread) of different warps, and of different blocks.
WARPS, BLOCKS = ((0, 0), (0, 32)), ((0, 0), (1, 0))


@cuda.jit(device=True)
def fence(scope):
    if scope == OF_BLOCK:
        cuda.threadfence_block()
    elif scope == OF_GRID:
        cuda.threadfence()


# ---- two threads, one element --------------------------------------------------------------------


@cuda.jit
def locked(data, lock, threads, locks, before, behind):
    for k in range(threads.shape[0]):
        if cuda.blockIdx.x == threads[k, 0] and cuda.threadIdx.x == threads[k, 1]:
            if locks[k]:
                while cuda.atomic.cas(lock, 0, 0, 1) != 0:
                    cuda.nanosleep(20)
            fence(before[k])
            data[0] += 1  # race: racy
            fence(behind[k])
            if locks[k]:
                cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def passed_on(data, flag, threads, scopes, adds):
    for k in range(threads.shape[0]):
        if cuda.blockIdx.x == threads[k, 0] and cuda.threadIdx.x == threads[k, 1]:
            while k > 0 and cuda.atomic.add(flag, k, 0) == 0:
                cuda.nanosleep(20)
            if k == 0 or adds:
                data[0] += 1  # race: racy
            elif k == threads.shape[0] - 1:
                data[1] = data[0]  # race: read
            fence(scopes[k])
            cuda.atomic.exch(flag, k + 1, 1)


@cuda.jit
def written_again(data, flag, threads, again):
    if cuda.blockIdx.x == threads[0, 0] and cuda.threadIdx.x == threads[0, 1]:
        data[1] = data[0]
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
        if again:
            data[2] = data[0]  # race: racy
    if cuda.blockIdx.x == threads[1, 0] and cuda.threadIdx.x == threads[1, 1]:
        while cuda.atomic.exch(flag, 0, 0) == 0:
            cuda.nanosleep(20)
        data[0] = 1  # race: racy


@cuda.jit
def atomic_and_plain(data, threads, plain):
    for k in range(2):
        if cuda.blockIdx.x == threads[k, 0] and cuda.threadIdx.x == threads[k, 1]:
            if plain[k]:
                data[0] = k + 1  # race: mixed, plain
            else:
                cuda.atomic.exch(data, 0, k + 1)  # race: mixed


@cuda.jit
def atomics_pass_on(data, flag, threads, scopes):
    for k in range(threads.shape[0]):
        if cuda.blockIdx.x == threads[k, 0] and cuda.threadIdx.x == threads[k, 1]:
            while k > 0 and cuda.atomic.add(flag, k, 0) == 0:
                cuda.nanosleep(20)
            cuda.atomic.exch(data, 0, k)
            fence(scopes[k])
            cuda.atomic.exch(flag, k + 1, 1)


_made = []


def _case(name, planted, kernel, threads, *args):
    places = np.array(threads, np.int64)
    given = [np.array(each) if isinstance(each, tuple) else each for each in args]

    def launch():
        memory = [np.zeros(3, np.int64)]
        if kernel is not atomic_and_plain:
            memory.append(np.zeros(5, np.int32))
        kernel[2, N](*memory, places, *given)

    label = name.replace(" ", "-")
    _made.append(Case(label, kernel, launch, frozenset(planted), of_blocks=True))


def _lock(name, racy, threads, before, behind, locks=(True, True)):
    _case(f"lock {name}", ["racy"] * racy, locked, threads, locks, before, behind)


for _name, _threads in (("of warps", WARPS), ("of blocks", BLOCKS)):
    _lock(_name, False, _threads, (OF_GRID,) * 2, (OF_GRID,) * 2)
    _lock(f"{_name} missing in front", True, _threads, (NO_FENCE, OF_GRID), (OF_GRID,) * 2)
    _lock(f"{_name} missing behind", True, _threads, (OF_GRID,) * 2, (NO_FENCE,) * 2)
    _lock(f"{_name} missing", True, _threads, (NO_FENCE,) * 2, (NO_FENCE,) * 2)
    _lock(
        f"{_name} of one only", True, _threads, (OF_GRID,) * 2, (OF_GRID,) * 2, locks=(True, False)
    )
    _lock(f"{_name} of none", True, _threads, (NO_FENCE,) * 2, (NO_FENCE,) * 2, (False, False))
    for _plain in ((False, True), (True, False), (True, True), (False, False)):
        _planted = (["plain"] if all(_plain) else ["mixed"]) * any(_plain)
        _case(f"atomic {_name} {_plain}", _planted, atomic_and_plain, _threads, _plain)
    _case(f"written again {_name}", ["racy"], written_again, _threads, True)
    _case(f"written once {_name}", [], written_again, _threads, False)
    _case(f"flag {_name}", [], passed_on, _threads, (OF_GRID,) * 2, False)
    _case(f"flag {_name} missing", ["racy", "read"], passed_on, _threads, (NO_FENCE,) * 2, False)
_lock("of warps, of the block", False, WARPS, (OF_BLOCK,) * 2, (OF_BLOCK,) * 2)
_lock("of warps, of both scopes", False, WARPS, (OF_GRID, OF_BLOCK), (OF_GRID, OF_BLOCK))
_lock("of warps, of the block, missing", True, WARPS, (OF_BLOCK,) * 2, (NO_FENCE,) * 2)
_lock("of blocks, of the block", True, BLOCKS, (OF_BLOCK,) * 2, (OF_BLOCK,) * 2)
_lock("of blocks, of the block in front", True, BLOCKS, (OF_BLOCK, OF_GRID), (OF_GRID,) * 2)
_lock("of blocks, of the block behind", True, BLOCKS, (OF_GRID,) * 2, (OF_BLOCK,) * 2)
_lock("of a thread", False, ((0, 0),), (NO_FENCE,), (NO_FENCE,), (True,))
_case("flag of warps, of the block", [], passed_on, WARPS, (OF_BLOCK,) * 2, False)
_case("flag of blocks, of the block", ["racy", "read"], passed_on, BLOCKS, (OF_BLOCK,) * 2, False)
# From warp to warp, to another block, and there to another warp.
_CHAIN = ((0, 0), (0, 32), (1, 0), (1, 32))
for _adds in (True, False):
    _scopes = (OF_BLOCK, OF_GRID, OF_BLOCK, OF_BLOCK)
    _case(f"chain {_adds}", [], passed_on, _CHAIN, _scopes, _adds)
    _planted, _scopes = ["racy"] if _adds else ["racy", "read"], (OF_GRID, OF_BLOCK) * 2
    _case(f"narrow chain {_adds}", _planted, passed_on, _CHAIN, _scopes, _adds)
_case("chain of atomics", [], atomics_pass_on, _CHAIN, (OF_BLOCK, OF_GRID) * 2)


def orders():
    """Two threads or more and one element."""
    return list(_made)


# ---- programs ------------------------------------------------------------------------------------


@cuda.jit
def convolution(weights, values, out, plain):
    """Each thread adds one product, so that several threads share an element of the result."""
    i = cuda.grid(1)
    to, tap = i // weights.size, i % weights.size
    at = to - tap + weights.size // 2
    if to < out.size and 0 <= at < values.size:
        if plain and 0 < cuda.threadIdx.x < cuda.blockDim.x - 1:
            out[to] += values[at] * weights[tap]  # race: plain
        else:
            cuda.atomic.add(out, to, values[at] * weights[tap])  # race: plain


@cuda.jit
def rule_110(cells, copy, done, step, narrow):
    i, t, n = cuda.grid(1), cuda.threadIdx.x, cuda.gridsize(1)
    own = cells[i]
    copy[i] = own  # race: narrow
    if (t == 0 or t == cuda.blockDim.x - 1) and not narrow:
        cuda.threadfence()
    else:
        cuda.threadfence_block()
    cuda.atomic.exch(done, i, step)
    left = right = 0
    if i > 0:
        while cuda.atomic.add(done, i - 1, 0) != step:
            cuda.nanosleep(20)
        left = copy[i - 1]  # race: narrow
    if i + 1 < n:
        while cuda.atomic.add(done, i + 1, 0) != step:
            cuda.nanosleep(20)
        right = copy[i + 1]  # race: narrow
    cells[i] = 110 >> (4 * left + 2 * own + right) & 1


@cuda.jit
def reduction(x, room, parts, flags, ticket, out, unfenced, narrow):
    """Halves of a block wait for each other by flags; the last block adds up the parts."""
    last = cuda.shared.array(1, np.int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    own = 128 * b + t
    room[own] = x[own]
    cuda.syncthreads()
    total = 0
    if 32 <= t < 64:
        room[own] += room[own + 64]  # race: unfenced
        if not unfenced:
            cuda.threadfence_block()
        cuda.atomic.exch(flags, own, 1)
    elif t < 32:
        total = room[own] + room[own + 64]
        while cuda.atomic.add(flags, own + 32, 0) != 1:
            cuda.nanosleep(20)
        total += room[own + 32]  # race: unfenced
        step = 16
        while step:
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
            step //= 2
    if t == 0:
        parts[b] = total  # race: narrow
        fence(OF_BLOCK if narrow else OF_GRID)
        last[0] = cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        for k in range(cuda.gridDim.x):
            out[0] += parts[k]  # race: narrow


@cuda.jit
def product(a, b, c, locks, sums, block_locks, inner, outer):
    """Threads add their part of a row to the block's sum, blocks theirs to the result, by locks."""
    row, part, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    column, piece = t % 8, t // 8
    own = 8 * (cuda.gridDim.x * part + row) + column
    at = 8 * part + piece
    value = a[row, at] * b[at, column]
    done = False
    while not done:
        if cuda.atomic.cas(block_locks, own, 0, 1) == 0:
            fence(inner)
            sums[own] += value  # race: inner
            fence(inner)
            cuda.atomic.exch(block_locks, own, 0)
            done = True
    cuda.syncthreads()
    if piece == 0:
        done = False
        while not done:
            if cuda.atomic.cas(locks, 8 * row + column, 0, 1) == 0:
                fence(outer)
                c[row, column] += sums[own]  # race: outer
                fence(outer)
                cuda.atomic.exch(locks, 8 * row + column, 0)
                done = True


@cuda.jit
def taken_work(head, tail, base, owner, values, early, late):
    """Blocks take pieces of their own work, then of other blocks' work."""
    t, b, mine = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockIdx.x
    if t == 0:
        base[b] = cuda.atomic.add(head, b, cuda.blockDim.x)
    cuda.syncthreads()
    at = base[b]  # race: early
    while at < tail[mine]:
        if at + t < tail[mine]:
            values[at + t] += 1
        if not early:
            cuda.syncthreads()  # maybe barrier: early, late
        if t == 0:
            base[b] = cuda.atomic.add(head, mine, cuda.blockDim.x)  # race: early, late
        if not late:
            cuda.syncthreads()  # maybe barrier: early, late
        at = base[b]  # maybe race: early, late
        if at >= tail[mine]:
            cuda.syncthreads()  # maybe barrier: early, late
            if t == 0:
                for k in range(1, cuda.gridDim.x):
                    owner[b] = (b + k) % cuda.gridDim.x
                    if cuda.atomic.add(head, owner[b], 0) < tail[owner[b]]:
                        break
                base[b] = cuda.atomic.add(head, owner[b], cuda.blockDim.x)
            cuda.syncthreads()  # maybe barrier: early, late
            mine = owner[b]
            at = base[b]


@cuda.jit
def linked(head, tail, base, one, other, parents, plain):
    """The vertices of an edge get one representative; blocks take edges piece by piece."""
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    at = 0
    while at < tail[b]:
        cuda.syncthreads()
        if t == 0:
            base[b] = cuda.atomic.add(head, b, cuda.blockDim.x)
        cuda.syncthreads()
        at = base[b]
        if at + t < tail[b]:
            u = cuda.atomic.add(parents, one[at + t], 0)  # race: plain
            v = cuda.atomic.add(parents, other[at + t], 0)  # maybe race: plain
            while u != v:
                most, least = max(u, v), min(u, v)
                if plain:
                    before = parents[most]  # maybe race: plain
                    parents[most] = least  # race: plain
                else:
                    before = cuda.atomic.cas(parents, most, most, least)
                if before in (most, least):
                    break
                u = cuda.atomic.add(parents, before, 0)  # maybe race: plain
                v = cuda.atomic.add(parents, least, 0)  # maybe race: plain


@cuda.jit
def tree_search(own, own_top, own_lock, common, common_top, common_lock, left, visited, outer):
    """Nodes lie on a stack of the block, or on one of all blocks where that is full."""
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t % 32:
        return
    while cuda.atomic.add(left, 0, 0) > 0:
        node = -1
        if cuda.atomic.cas(own_lock, b, 0, 1) == 0:
            cuda.threadfence_block()
            if own_top[b] > 0:
                own_top[b] -= 1
                node = own[b, own_top[b]]
            cuda.threadfence_block()
            cuda.atomic.exch(own_lock, b, 0)
        if node < 0 and cuda.atomic.cas(common_lock, 0, 0, 1) == 0:
            fence(outer)
            if common_top[0] > 0:  # maybe race: outer
                common_top[0] -= 1  # maybe race: outer
                node = common[common_top[0]]  # maybe race: outer
            fence(outer)
            cuda.atomic.exch(common_lock, 0, 0)
        if node < 0:
            cuda.nanosleep(20)
        else:
            cuda.atomic.add(visited, 0, 1)
            children = 3 if node > 0 else 0
            while children > 0:
                full = False
                if cuda.atomic.cas(own_lock, b, 0, 1) == 0:
                    cuda.threadfence_block()
                    full = own_top[b] == own.shape[1]
                    if not full:
                        cuda.atomic.add(left, 0, 1)
                        own[b, own_top[b]] = node - 1
                        own_top[b] += 1
                        children -= 1
                    cuda.threadfence_block()
                    cuda.atomic.exch(own_lock, b, 0)
                if full and cuda.atomic.cas(common_lock, 0, 0, 1) == 0:
                    fence(outer)
                    cuda.atomic.add(left, 0, 1)
                    common[common_top[0]] = node - 1  # race: outer
                    common_top[0] += 1  # race: outer
                    children -= 1
                    fence(outer)
                    cuda.atomic.exch(common_lock, 0, 0)
            cuda.atomic.add(left, 0, -1)


def _zeros(*sizes):
    return [np.zeros(size, np.int32) for size in sizes]


def _convolve(plain):
    convolution[2, 128](np.ones(3, np.float32), np.ones(80, np.float32), np.zeros(80), plain)


def _rule(narrow):
    rule_110[3, 32](np.arange(96) % 5 // 4, np.zeros(96, np.int64), *_zeros(96), 1, narrow)


def _reduce(unfenced, narrow):
    x = np.arange(4 * 128, dtype=np.int32)
    out = np.zeros(1, np.int64)
    reduction[4, 128](x, *_zeros(x.size, 4, x.size, 1), out, unfenced, narrow)
    assert out[0] == x.sum()


def _multiply(inner, outer):
    a = np.arange(4 * 24, dtype=np.int32).reshape(4, 24)
    b, c = a.reshape(24, 4).repeat(2, axis=1), np.zeros((4, 8), np.int32)
    product[(4, 3), 64](a, b, c, *_zeros(32, 96, 96), inner, outer)
    if OF_BLOCK <= inner <= outer == OF_GRID:
        np.testing.assert_array_equal(c, a @ b)


def _take(early, late):
    head, tail = np.array([0, 20, 200], np.int32), np.array([20, 200, 300], np.int32)
    taken_work[3, 32](head, tail, *_zeros(3, 3, 300), early, late)


def _link(plain):
    one = np.tile(np.arange(63), 2)
    head, tail = np.array([0, 63], np.int32), np.array([63, 126], np.int32)
    linked[2, 32](head, tail, *_zeros(2), one, one + 1, np.arange(64), plain)


def _search(outer):
    own = np.zeros((2, 4), np.int32)
    own[:, 0] = 4
    left, visited = np.array([2], np.int32), np.zeros(1, np.int64)
    tree_search[2, 64](
        own, np.ones(2, np.int32), *_zeros(2), *_zeros(400, 1, 1), left, visited, outer
    )
    assert visited[0] == 2 * (3**5 - 1) // 2


_PROGRAMS = (
    (convolution, _convolve, {(False,): (), (True,): ("plain",)}),
    (rule_110, _rule, {(False,): (), (True,): ("narrow",)}),
    (
        reduction,
        _reduce,
        {
            (False, False): (),
            (True, False): ("unfenced",),
            (False, True): ("narrow",),
            (True, True): ("unfenced", "narrow"),
        },
    ),
    (
        product,
        _multiply,
        {
            (OF_BLOCK, OF_GRID): (),
            (OF_GRID, OF_GRID): (),
            (NO_FENCE, OF_GRID): ("inner",),
            (OF_BLOCK, OF_BLOCK): ("outer",),
        },
    ),
    (
        taken_work,
        _take,
        {(False, False): (), (True, False): ("early",), (False, True): ("late",)},
    ),
    (linked, _link, {(False,): (), (True,): ("plain",)}),
    (tree_search, _search, {(OF_GRID,): (), (OF_BLOCK,): ("outer",)}),
)


def programs():
    """All of them, with and without mistakes."""
    return [
        Case(
            "-".join([kernel.py_func.__name__, *(planted or ["right"])]),
            kernel,
            lambda launch=launch, args=args: launch(*args),
            frozenset(planted),
        )
        for kernel, launch, variants in _PROGRAMS
        for args, planted in variants.items()
    ]
