"""Heat in a plate, three times: with SmartArrays, with device arrays by hand, with host arrays.

    python examples/jacobi.py --size 2048 --steps 500 --every 50

The edges of a square plate keep their heat, and each other point becomes the mean of its four
neighbours, step by step (Jacobi's method). Every few steps the host looks at how much the points
still change, and stops when that is little. The three programs have the same kernels and the same
loop; they differ in who copies what, and when. All copies between host and device are counted.
"""

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import haulage
from haulage import cuda

ENOUGH = 1e-6

THREADS_OF_PLATE = 32, 8
THREADS_OF_LINE = 64


@cuda.jit
def relax(old: Any, new: Any) -> None:
    """One step: a thread for each point."""
    j, i = cuda.grid(2)
    rows, columns = old.shape
    if i < rows and j < columns:
        if 0 < i < rows - 1 and 0 < j < columns - 1:
            new[i, j] = 0.25 * (old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1])
        else:
            new[i, j] = old[i, j]


@cuda.jit
def largest_changes(old: Any, new: Any, changes: Any) -> None:
    """How much the points of each column have changed at most: a thread for each column."""
    j = cuda.grid(1)
    if j < changes.size:
        most = 0.0
        for i in range(old.shape[0]):
            most = max(most, abs(new[i, j] - old[i, j]))
        changes[j] = most


def iterate(
    old: Any, new: Any, changes: Any, most: Callable[[Any], float], steps: int, every: int
) -> Any:
    """The loop of all three programs; gives `old` or `new`, whichever was written last."""
    size = len(changes)
    plate = (-(-size // THREADS_OF_PLATE[0]), -(-size // THREADS_OF_PLATE[1])), THREADS_OF_PLATE
    line = -(-size // THREADS_OF_LINE), THREADS_OF_LINE
    for step in range(1, steps + 1):
        relax[plate](old, new)
        if step % every == 0:
            largest_changes[line](old, new, changes)
            if most(changes) < ENOUGH:
                return new
        old, new = new, old
    return old


def with_smart_arrays(start: np.ndarray, steps: int, every: int) -> np.ndarray:
    """Nothing says what is copied: the first kernel brings `start` to the device, each look at the
    changes brings these to the host, and np.asarray brings the result."""
    old = haulage.SmartArray(start)
    new = haulage.SmartArray(shape=start.shape)
    changes = haulage.SmartArray(shape=len(start))
    return np.asarray(iterate(old, new, changes, np.max, steps, every))


def by_hand(start: np.ndarray, steps: int, every: int) -> np.ndarray:
    """Each copy is written down, and there are no more than are needed."""
    old = cuda.to_device(start)
    new = cuda.device_array_like(old)
    changes = cuda.device_array(len(start))

    def most(changes: Any) -> float:
        return float(changes.copy_to_host().max())

    return iterate(old, new, changes, most, steps, every).copy_to_host()


def with_host_arrays(start: np.ndarray, steps: int, every: int) -> np.ndarray:
    """Kernels get NumPy arrays, which a device with memory of its own copies there and back for
    each launch."""
    old, new = start.copy(), np.empty_like(start)
    changes = np.empty(len(start))
    return iterate(old, new, changes, np.max, steps, every)


PROGRAMS = {
    "SmartArrays": with_smart_arrays,
    "device arrays by hand": by_hand,
    "host arrays": with_host_arrays,
}


def plate(size: int) -> np.ndarray:
    """One edge of it is hot, and its neighbour gets hotter along its length."""
    start = np.zeros((size, size))
    start[0] = 100
    start[:, -1] = np.linspace(100, 0, size)
    return start


def with_numpy(start: np.ndarray, steps: int) -> np.ndarray:
    """What comes out, without a device."""
    old = start.copy()
    for _ in range(steps):
        new = old.copy()
        new[1:-1, 1:-1] = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
        old = new
    return old


def main() -> None:
    """Run the three, compare their results, and tell what each copied."""
    parser = argparse.ArgumentParser(description="Heat in a plate, by three programs.")
    parser.add_argument("--size", type=int, default=2048, help="rows and columns (default: 2048)")
    parser.add_argument("--steps", type=int, default=500, help="at most (default: 500)")
    parser.add_argument("--every", type=int, default=50, help="steps between looks (default: 50)")
    chosen = parser.parse_args()
    size, steps, every = chosen.size, chosen.steps, chosen.every
    if min(size, steps, every) < 1:
        parser.error("--size, --steps and --every: expected numbers above 0")

    small = plate(32)
    expected = with_numpy(small, 20)
    for program in PROGRAMS.values():
        assert np.allclose(program(small, 20, 5), expected, rtol=1e-13, atol=0)
    print("Of 32 x 32 points all three agree with NumPy.")

    device = cuda.get_current_device()
    print(f"{size} x {size} points, {steps} steps, a look every {every}, on {device}:")
    start = plate(size)
    before = haulage.explain().data
    results = []
    for name, program in PROGRAMS.items():
        with haulage.transfers() as copies:
            began = perf_counter()
            results.append(program(start, steps, every))
            took = perf_counter() - began
        print(f"  {name}: {copies.count():,} copies, {copies.nbytes:,} bytes, {took:.2f} s")
    assert all(np.array_equal(result, results[0]) for result in results)
    print("The three results are equal.")

    after = haulage.explain().data
    given = after["launches"] - before["launches"]
    nbytes = after["as_host_arrays"] - before["as_host_arrays"]
    print(
        f"The SmartArrays were given to kernels {given:,} times. Host arrays are copied there and "
        f"back each time: {2 * given:,} copies, {nbytes:,} bytes; but where kernels reach the "
        "memory of the host, as on the CPU device, none are."
    )


if __name__ == "__main__":
    main()
