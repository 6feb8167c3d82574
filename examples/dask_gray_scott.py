"""A pattern that grows by itself (Gray and Scott's reaction), computed by a cluster's workers.

    python examples/dask_gray_scott.py --out pattern.png
    python examples/dask_gray_scott.py --kill
    python examples/dask_gray_scott.py --scheduler tcp://host:8786

Two substances spread on a square whose opposite edges touch; one feeds on the other. The square is
cut into strips of rows. A task takes a strip with some rows of its neighbours and makes several
steps with them, in shared memory, before strips are exchanged again. Now and then the whole square
comes here, and the graph of tasks begins anew with it: if a worker dies, Dask computes what it held
from there on once more.
"""

import argparse
import sys
import warnings
from typing import Any

import numpy as np
from dask_cluster import Steps, connected, kill_one, parser, told, whole, with_and_without_a_kill

import haulage.dask as hd
from haulage import cuda

STEPS_OF_TASK = 8
TILE = 32
SIDE = TILE + 2 * STEPS_OF_TASK
THREADS = 32, 8

FEED, KILL = np.float32(0.0545), np.float32(0.062)


@cuda.jit
def react(padded: Any, feed: Any, kill: Any, out: Any) -> None:
    """STEPS_OF_TASK steps of a tile: `out` (2, rows, columns) from `padded`, which has that many
    rows more at each end. A tile reads as many points around itself, and one fewer each step."""
    tile = cuda.shared.array((2, 2, SIDE, SIDE), np.float32)
    row, column = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    rows, columns = padded.shape[1], padded.shape[2]
    for i in range(cuda.threadIdx.y, SIDE, cuda.blockDim.y):
        at = min(row + i, rows - 1)
        for j in range(cuda.threadIdx.x, SIDE, cuda.blockDim.x):
            beside = (column + j - STEPS_OF_TASK) % columns
            tile[0, 0, i, j] = padded[0, at, beside]
            tile[0, 1, i, j] = padded[1, at, beside]
    cuda.syncthreads()
    one = np.float32(1)
    four = np.float32(4)
    for step in range(1, STEPS_OF_TASK + 1):
        old, new = (step - 1) % 2, step % 2
        for i in range(cuda.threadIdx.y + step, SIDE - step, cuda.blockDim.y):
            for j in range(cuda.threadIdx.x + step, SIDE - step, cuda.blockDim.x):
                u, v = tile[old, 0, i, j], tile[old, 1, i, j]
                more_u = tile[old, 0, i - 1, j] + tile[old, 0, i + 1, j]
                more_u += tile[old, 0, i, j - 1] + tile[old, 0, i, j + 1]
                more_v = tile[old, 1, i - 1, j] + tile[old, 1, i + 1, j]
                more_v += tile[old, 1, i, j - 1] + tile[old, 1, i, j + 1]
                eaten = u * v * v
                spread_u = np.float32(0.16) * (more_u - four * u)
                spread_v = np.float32(0.08) * (more_v - four * v)
                tile[new, 0, i, j] = u + spread_u - eaten + feed * (one - u)
                tile[new, 1, i, j] = v + spread_v + eaten - (feed + kill) * v
        cuda.syncthreads()
    last = STEPS_OF_TASK % 2
    for i in range(cuda.threadIdx.y, TILE, cuda.blockDim.y):
        for j in range(cuda.threadIdx.x, TILE, cuda.blockDim.x):
            if row + i < out.shape[1] and column + j < columns:
                out[0, row + i, column + j] = tile[last, 0, i + STEPS_OF_TASK, j + STEPS_OF_TASK]
                out[1, row + i, column + j] = tile[last, 1, i + STEPS_OF_TASK, j + STEPS_OF_TASK]


def seeded(size: int) -> np.ndarray:
    """The start, float32 of (2, size, size): much of one substance, and seeds of the other."""
    state = np.zeros((2, size, size), np.float32)
    state[0] = 1
    random = np.random.default_rng(25)
    for row, column in random.integers(0, size - size // 32 - 1, (80, 2)):
        here = np.s_[row : row + size // 32 + 2, column : column + size // 32 + 2]
        state[0][here], state[1][here] = 0.5, 0.25
    return state


def with_numpy(state: np.ndarray, steps: int) -> np.ndarray:
    """What comes out, without a device and in float64."""
    u, v = state.astype(np.float64)
    for _ in range(steps):
        eaten = u * v * v
        u, v = (
            u + 0.16 * _spread(u) - eaten + float(FEED) * (1 - u),
            v + 0.08 * _spread(v) + eaten - (float(FEED) + float(KILL)) * v,
        )
    return np.stack([u, v])


def _spread(x: np.ndarray) -> np.ndarray:
    beside = np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1)
    return beside - 4 * x


def strips_of(state: np.ndarray, strips: int, rounds: int) -> Any:
    """The Dask array, on the host, of `state` after `rounds` times STEPS_OF_TASK steps."""
    size = state.shape[1]
    rows = -(-size // strips)
    tiles = -(-size // TILE), -(-rows // TILE)
    squares = hd.from_array(state, chunks=(2, rows, size))
    for _ in range(rounds):
        squares = hd.map_overlap(
            react[tiles, THREADS],
            squares,
            FEED,
            KILL,
            depth=(0, STEPS_OF_TASK, 0),
            boundary="periodic",
        )
    return hd.to_host(squares)


def grow(client: Any, chosen: argparse.Namespace, kill: bool) -> np.ndarray:
    """The state after all steps; with `kill` a worker is killed in the middle."""
    state = seeded(chosen.size)
    rounds = -(-chosen.steps // STEPS_OF_TASK)
    done = 0
    with Steps("rounds", rounds) as bar:
        while done < rounds:
            now = min(chosen.keep, rounds - done)
            future = client.compute(strips_of(state, chosen.strips, now))
            if kill and 2 * (done + now) >= rounds:
                bar.say(kill_one(client))
                kill = False
            state = future.result()
            done += now
            bar.at(done)
    return state


def draw(state: np.ndarray, file: str) -> None:
    """The substance that feeds on the other, as a picture."""
    import matplotlib.image

    v = state[1]
    matplotlib.image.imsave(file, v, cmap="magma", vmin=0, vmax=float(v.max()))


def main() -> int:
    """Returns 0; 1 if a result differs after a worker was killed."""
    options = parser("A pattern that grows by itself, on a Dask cluster.", "1GiB")
    add = options.add_argument
    add("--size", type=whole, default=512, help="rows and columns (default: 512)")
    add(
        "--steps",
        type=whole,
        default=2400,
        help=f"rounded up to a multiple of {STEPS_OF_TASK} (default: 2400)",
    )
    add("--strips", type=whole, default=2, help="blocks of rows (default: 2)")
    add("--keep", type=whole, default=50, help="rounds until the state comes here (default: 50)")
    chosen = options.parse_args()
    if chosen.size // chosen.strips < 2 * STEPS_OF_TASK:
        options.error(f"--size, --strips: a strip needs {2 * STEPS_OF_TASK} rows at least")
    # The state is part of each graph on purpose: what is lost is computed from it.
    warnings.filterwarnings("ignore", message="Sending large graph")

    with connected(chosen) as client:
        print(f"{chosen.size} x {chosen.size} points, {chosen.strips} strips, {told(client)}")
        state, equal = with_and_without_a_kill(
            client, lambda kill: grow(client, chosen, kill), chosen.kill, chosen.tries
        )
    if chosen.out:
        draw(state, chosen.out)
        print(f"{chosen.out}: the pattern")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
