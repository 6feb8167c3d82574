"""What Dask adds to kernels: 1, 2 and 4 processes against none, and the cost of a task.

    python examples/dask_scaling.py --rounds 5

The work is a step of `dask_kmeans.py` on blocks that are in memory, with one thread of the CPU
device in each process; without Dask it is the same kernel on the same blocks in this process. A
task's cost is that of many small ones, with a device array or with NumPy's, in one worker. All that
is compared takes turns, and the figures are medians.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

os.environ["HAULAGE_NUM_THREADS"] = "1"

import dask.array as da
import numpy as np
from dask_cluster import whole
from dask_kmeans import CENTRES, LANES, points_of, points_of_block, sums_of
from dask_kmeans import sums_of_centres as kernel
from distributed import Client, LocalCluster, wait

import haulage.dask as hd
from haulage import cuda

PROCESSES = 1, 2, 4
MILLIONS, BLOCK = 16, 1_000_000
TASKS = 500


@cuda.jit
def twice(x: Any, out: Any) -> None:
    """Two times each element."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * 2


def same(block: Any) -> Any:
    """The block itself: a task that does nothing."""
    return block


def doubled(block: np.ndarray) -> np.ndarray:
    """Two times each element."""
    return block * 2


@contextmanager
def workers(count: int) -> Iterator[Client]:
    """A client of `count` processes with a thread each."""
    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def without_dask() -> Callable[[], Any]:
    """The step of k-means, one block after the other."""
    centres = points_of_block(0, CENTRES)
    blocks = [cuda.to_device(points_of_block(at, BLOCK)) for at in range(MILLIONS)]

    def step() -> Any:
        sums = []
        for block in blocks:
            out = cuda.to_device(np.zeros((1, LANES, CENTRES, 3)))
            kernel[1, LANES](block, centres, out)
            sums.append(out.copy_to_host().sum(axis=1))
        return np.concatenate(sums)

    return step


def with_workers(client: Client) -> Callable[[], Any]:
    """The same by the client's workers."""
    centres = points_of_block(0, CENTRES)
    points = client.persist(points_of(MILLIONS, BLOCK))
    with client.as_current():
        wait(points)
    return lambda: client.compute(sums_of(points, centres)).result()


def tasks(client: Client, array: Any, function: Any) -> Callable[[], Any]:
    """`function` for each of TASKS blocks of one element that the worker has."""
    kept = client.persist(array)
    with client.as_current():
        wait(kept)

    def run() -> None:
        with client.as_current():
            wait(client.persist(hd.map_blocks(function, kept, dtype=np.float64)))

    return run


def by_turns(programs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median seconds of each, after one run that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for at in range(rounds + 1):
        for name, program in programs.items():
            began = time.perf_counter()
            program()
            if at:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(all_of) for name, all_of in seconds.items()}


def main() -> None:
    """Measure both, and print tables."""
    parser = argparse.ArgumentParser(description="What Dask adds to kernels.")
    parser.add_argument("--rounds", type=whole, default=5, help="default: 5")
    rounds = parser.parse_args().rounds
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {rounds} rounds")
    with ExitStack() as stack:
        programs = {"without Dask": without_dask()}
        for count in PROCESSES:
            client = stack.enter_context(workers(count))
            programs[f"{count} processes" if count > 1 else "1 process"] = with_workers(client)
        results = [program() for program in programs.values()]
        assert all(np.array_equal(each, results[0]) for each in results)
        found = by_turns(programs, rounds)
    alone = found["without Dask"]
    for name, seconds in found.items():
        print(f"{name:<14} {seconds * 1e3:8.1f} ms  {alone / seconds:5.2f} times as fast")

    ones = np.ones(TASKS)
    with workers(1) as client:
        on_host, on_device = da.from_array(ones, chunks=1), hd.from_array(ones, chunks=1)
        found = by_turns(
            {
                "nothing, NumPy's": tasks(client, on_host, same),
                "nothing, device array": tasks(client, on_device, same),
                "x * 2, NumPy's": tasks(client, on_host, doubled),
                "x * 2, kernel": tasks(client, on_device, twice),
            },
            rounds,
        )
    for name, seconds in found.items():
        print(f"{name:<22} {seconds / TASKS * 1e6:8.0f} microseconds a task")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
