"""Codes over irregular graphs, each with and without mistakes, for threads, warps and blocks.

The patterns are those that the Indigo benchmarks (Liu et al., "Indigo: A Suite of Program
Verification Tools for Irregular Parallel Programs") describe; the kernels are our own.
"""

import itertools

import numpy as np

from haulage import cuda
from support.checked.marks import Case

THREAD, WARP, BLOCK = "thread", "warp", "block"
_THREADS = 64


def _csr(edges, n):
    both = sorted({pair for a, b in edges for pair in ((a, b), (b, a)) if a != b})
    index = np.zeros(n + 1, np.int32)
    for a, _ in both:
        index[a + 1] += 1
    return np.cumsum(index, dtype=np.int32), np.array([b for _, b in both], np.int32)


def _graphs():
    random = np.random.default_rng(4)
    return {
        "star": _csr([(0, i) for i in range(1, 40)], 40),
        "grid": _csr(
            [(6 * y + x, 6 * y + x + 1) for y in range(6) for x in range(5)]
            + [(6 * y + x, 6 * y + x + 6) for y in range(5) for x in range(6)],
            36,
        ),
        "random": _csr(random.integers(0, 50, (160, 2)).tolist(), 50),
    }


GRAPHS = _graphs()


def _place(schedule):
    """A device function that gives (vertex, first edge, step) of a thread."""
    if schedule == THREAD:
        return cuda.jit(device=True)(lambda: (cuda.grid(1), 0, 1))
    if schedule == WARP:
        return cuda.jit(device=True)(lambda: (cuda.grid(1) // 32, cuda.threadIdx.x % 32, 32))
    return cuda.jit(device=True)(lambda: (cuda.blockIdx.x, cuda.threadIdx.x, _THREADS))


def conditional_vertex(place, atomic, guarded):
    """The greatest value of a neighbour that is greater than the vertex's own, of all vertices."""

    @cuda.jit
    def kernel(index, edges, data, most):
        vertex, first, step = place()
        if not guarded or vertex < index.size - 1:
            own = data[vertex]  # bounds: unguarded
            best = 0
            for at in range(index[vertex] + first, index[vertex + 1], step):
                best = max(best, data[edges[at]])
            if best > own:
                if atomic:
                    cuda.atomic.max(most, 0, best)
                elif most[0] < best:  # race: plain
                    most[0] = best  # race: plain

    return kernel


def conditional_edge(place, atomic, guarded):
    """How many edges lead to a greater value."""

    @cuda.jit
    def kernel(index, edges, data, count):
        vertex, first, step = place()
        if not guarded or vertex < index.size - 1:
            own = data[vertex]  # bounds: unguarded
            for at in range(index[vertex] + first, index[vertex + 1], step):
                if own < data[edges[at]]:
                    if atomic:
                        cuda.atomic.add(count, 0, 1)
                    else:
                        count[0] += 1  # race: plain

    return kernel


def push(place, atomic, guarded):
    """Each vertex raises the value of its neighbours to its own."""

    @cuda.jit
    def kernel(index, edges, data, values):
        vertex, first, step = place()
        if not guarded or vertex < index.size - 1:
            own = data[vertex]  # bounds: unguarded
            for at in range(index[vertex] + first, index[vertex + 1], step):
                if atomic:
                    cuda.atomic.max(values, edges[at], own)
                elif values[edges[at]] < own:  # race: plain
                    values[edges[at]] = own  # race: plain

    return kernel


def worklist(place, atomic, guarded):
    """The vertices with a greater neighbour, as a list."""

    @cuda.jit
    def kernel(index, edges, data, chosen):
        vertex, first, step = place()
        if not guarded or vertex < index.size - 1:
            own = data[vertex]  # bounds: unguarded
            for at in range(index[vertex] + first, index[vertex + 1], step):
                if own < data[edges[at]]:
                    if atomic:
                        slot = cuda.atomic.add(chosen, 0, 1)
                    else:
                        slot = chosen[0]  # race: plain
                        chosen[0] = slot + 1  # race: plain
                    if atomic:
                        chosen[1 + slot] = vertex

    return kernel


def traversal(place, atomic, guarded):
    """Neighbours that nobody has seen are marked, and counted once."""

    @cuda.jit
    def kernel(index, edges, data, seen):
        vertex, first, step = place()
        if not guarded or vertex < index.size - 1:
            own = data[vertex]  # bounds: unguarded
            for at in range(index[vertex] + first, index[vertex + 1], step):
                if data[edges[at]] < own:
                    if atomic:
                        cuda.atomic.cas(seen, edges[at], 0, 1)
                    elif seen[edges[at]] == 0:  # race: plain
                        seen[edges[at]] = 1  # race: plain

    return kernel


def path_compression(place, atomic, guarded):
    """Both ends of each edge get one representative, paths to it become shorter."""

    @cuda.jit
    def kernel(index, edges, data, parents):
        vertex, first, step = place()
        if not guarded or vertex < index.size - 1:
            own = data[vertex]  # bounds: unguarded
            for at in range(index[vertex] + first, index[vertex + 1], step):
                if own < 0:
                    continue
                if atomic:
                    one = cuda.atomic.add(parents, vertex, 0)
                    other = cuda.atomic.add(parents, edges[at], 0)
                else:
                    one = parents[vertex]  # race: plain
                    other = parents[edges[at]]  # maybe race: plain
                while one != other:
                    if one > other:
                        one, other = other, one
                    if atomic:
                        before = cuda.atomic.cas(parents, other, other, one)
                    else:
                        before = parents[other]  # maybe race: plain
                        if before == other:
                            parents[other] = one  # race: plain
                    if before == other:
                        break
                    other = before

    return kernel


def pull(schedule, waits, guarded, barrier):
    """Each vertex gets the greatest value of its neighbours; the threads that share it reduce in
    shared memory."""
    place = _place(schedule)
    lanes = {THREAD: 1, WARP: 32, BLOCK: _THREADS}[schedule]

    @cuda.jit
    def kernel(index, edges, data, values):
        room = cuda.shared.array(_THREADS, np.int32)
        vertex, first, step = place()
        t = cuda.threadIdx.x
        best = 0
        if not guarded or vertex < index.size - 1:
            start = index[vertex]  # maybe bounds: unguarded
            for at in range(start + first, index[vertex + 1], step):  # bounds: unguarded
                best = max(best, data[edges[at]])
        room[t] = best  # race: missing
        half = lanes // 2
        if waits:
            barrier()
        while half > 0:
            if t % lanes < half:
                room[t] = max(room[t], room[t + half])  # race: missing
            if waits:
                barrier()
            half //= 2
        if t % lanes == 0 and vertex < index.size - 1:
            values[vertex] = room[t]

    return kernel


_WITH_EDGES = {
    "conditional-vertex": conditional_vertex,
    "conditional-edge": conditional_edge,
    "push": push,
    "worklist": worklist,
    "traversal": traversal,
    "path-compression": path_compression,
}
_block_barrier = cuda.jit(device=True)(lambda: cuda.syncthreads())
_warp_barrier = cuda.jit(device=True)(lambda: cuda.syncwarp())


def _case(name, kernel, graph, schedule, planted):
    index, edges = GRAPHS[graph]
    n = index.size - 1
    data = np.random.default_rng(1).permutation(n).astype(np.int32) + 1
    threads = n * {THREAD: 1, WARP: 32, BLOCK: _THREADS}[schedule]
    # Some threads are beyond the last vertex.
    blocks = threads // _THREADS + 1

    def launch():
        results = np.zeros(n + edges.size + 2, np.int32)
        if name == "path-compression":
            results[:n] = np.arange(n)
        kernel[blocks, _THREADS](index, edges, data, results)

    label = "-".join([name, schedule, graph, *(sorted(planted) or ["right"])])
    return Case(label, kernel, launch, frozenset(planted))


def cases(whole=True):
    """All of them, or a third: each two of schedule, pattern and mistake meet in it."""
    made = []
    for at, schedule in enumerate((THREAD, WARP, BLOCK)):
        for (number, (name, pattern)), (mistake, planted) in itertools.product(
            enumerate(_WITH_EDGES.items()), enumerate(((), ("plain",), ("unguarded",)))
        ):
            if not whole and (at + number + mistake) % 3:
                continue
            kernel = pattern(_place(schedule), "plain" not in planted, "unguarded" not in planted)
            made += [_case(name, kernel, graph, schedule, planted) for graph in GRAPHS]
        for planted in ((), ("missing",), ("unguarded",)):
            if schedule == THREAD and planted == ("missing",):
                continue
            barrier = _block_barrier if schedule == BLOCK else _warp_barrier
            kernel = pull(schedule, "missing" not in planted, "unguarded" not in planted, barrier)
            made += [_case("pull", kernel, graph, schedule, planted) for graph in GRAPHS]
    return made
