"""k-means on more points than the workers' memory limits hold, by a cluster's workers.

    python examples/dask_kmeans.py --out clusters.png
    python examples/dask_kmeans.py --kill
    python examples/dask_kmeans.py --scheduler tcp://host:8786

The points are blocks on devices. Dask writes those that are too many to disk and reads them when
their turn comes. For each block a kernel finds each point's nearest centre and adds up the points
of each centre, always in the same order; the blocks' sums are added here, in their order. So the
result has the same bits whichever worker computes what, and also if one dies: its blocks are made
and read once more.
"""

import argparse
import sys
from typing import Any

import dask.array as da
import numpy as np
from dask.utils import format_bytes
from dask_cluster import Steps, connected, kill_one, parser, told, whole, with_and_without_a_kill
from distributed import wait

import haulage.dask as hd
from haulage import cuda

CENTRES = 12
LANES = 256


@cuda.jit
def sums_of_centres(points: Any, centres: Any, out: Any) -> None:
    """Sums of the points (n, 2) nearest to each of `centres` (k, 2), and how many these are.

    Thread i takes the points i, i + LANES, ... into its own `out[0, i]`, of (k, 3).
    """
    lane = cuda.grid(1)
    if lane < LANES:
        for at in range(lane, points.shape[0], LANES):
            x, y = points[at, 0], points[at, 1]
            best, nearest = np.float32(np.inf), 0
            for k in range(centres.shape[0]):
                dx, dy = x - centres[k, 0], y - centres[k, 1]
                distance = dx * dx + dy * dy
                if distance < best:
                    best, nearest = distance, k
            out[0, lane, nearest, 0] += x
            out[0, lane, nearest, 1] += y
            out[0, lane, nearest, 2] += 1.0


def made(block_info: Any = None) -> np.ndarray:
    """The points of a block, float32 of (n, 2): of block i always the same ones."""
    count, _ = block_info[None]["chunk-shape"]
    return points_of_block(block_info[None]["chunk-location"][0], count)


def points_of_block(at: int, count: int) -> np.ndarray:
    """The first `count` points of block `at`, float32 of (count, 2), on the host."""
    random = np.random.default_rng([25, at])
    middles = np.random.default_rng(25).random((CENTRES, 2), np.float32)
    points = middles[random.integers(0, CENTRES, count)]
    points += random.standard_normal((count, 2), np.float32) * np.float32(0.05)
    return points


def points_of(millions: int, block: int) -> Any:
    """The Dask array of all points, float32 of (n, 2), with blocks on devices."""
    chunks = da.core.normalize_chunks((block, 2), (millions * 1_000_000, 2))
    meta = np.empty((0, 0), np.float32)
    return hd.to_device(da.map_blocks(made, chunks=chunks, dtype=np.float32, meta=meta))


def of_block(block: np.ndarray) -> np.ndarray:
    """The sums of a block's lanes."""
    sums: np.ndarray = block.sum(axis=1)
    return sums


def sums_of(points: Any, centres: np.ndarray) -> Any:
    """The Dask array of (blocks, k, 3), on the host: each block's sums and counts."""
    blocks, count = points.numblocks[0], len(centres)
    lanes = hd.map_blocks(
        sums_of_centres[1, LANES],
        points,
        centres,
        dtype=np.float64,
        chunks=((1,) * blocks, (LANES,), (count,), (3,)),
        new_axis=(2, 3),
    )
    return hd.to_host(lanes).map_blocks(of_block, drop_axis=1, dtype=np.float64)


def cluster(client: Any, chosen: argparse.Namespace, kill: bool) -> np.ndarray:
    """The centres, float32 of (k, 2); with `kill` a worker is killed in the middle."""
    points = points_of(chosen.millions, chosen.block).persist()
    wait(points)
    centres = points_of_block(0, CENTRES)
    spilled = 0
    with Steps("steps", chosen.steps) as bar:
        for step in range(1, chosen.steps + 1):
            future = client.compute(sums_of(points, centres))
            if kill and 2 * step >= chosen.steps:
                bar.say(kill_one(client))
                kill = False
            total = future.result().sum(axis=0)
            found = total[:, 2:] > 0
            centres = np.where(found, total[:, :2] / np.maximum(total[:, 2:], 1), centres)
            centres = centres.astype(np.float32)
            now = sum(each["spilled"] for each in hd.memory(client).values())
            spilled = max(spilled, now)
            bar.at(step, f"{format_bytes(now)} on disk")
        bar.say(f"{format_bytes(points.nbytes)} of points, at most {format_bytes(spilled)} on disk")
    return centres


def draw(centres: np.ndarray, chosen: argparse.Namespace, file: str) -> None:
    """Some of the points, coloured by their centres."""
    from matplotlib.figure import Figure

    points = points_of_block(0, 20_000)
    nearest = ((points[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    axes.scatter(*points.T, c=nearest, s=1, cmap="tab20", linewidths=0, rasterized=True)
    axes.plot(*centres.T, "k+", markersize=12, markeredgewidth=2)
    axes.set_aspect("equal")
    axes.set_title(f"{CENTRES} centres of {chosen.millions:,} million points")
    figure.savefig(file, dpi=100)


def main() -> int:
    """Returns 0; 1 if a result differs after a worker was killed."""
    options = parser("k-means on a Dask cluster.", "512MiB")
    add = options.add_argument
    add("--size", dest="millions", type=whole, default=140, help="million points (default: 140)")
    add("--steps", type=whole, default=5, help="of k-means (default: 5)")
    add("--block", type=whole, default=1_000_000, help="points of a block (default: 1000000)")
    chosen = options.parse_args()
    with connected(chosen) as client:
        nbytes = chosen.millions * 8_000_000
        print(f"{chosen.millions} million points of {format_bytes(nbytes)}, {told(client)}")
        centres, equal = with_and_without_a_kill(
            client, lambda kill: cluster(client, chosen, kill), chosen.kill, chosen.tries
        )
    if chosen.out:
        draw(centres, chosen, chosen.out)
        print(f"{chosen.out}: some of the points, and the centres")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
