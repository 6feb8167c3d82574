"""What is measured: each case makes its data once and checks Haulage's result against NumPy's."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from haulage import cuda
from haulage.cuda import random

SIDE = 16

add = cuda.reduce(lambda a, b: a + b)


@cuda.jit
def saxpy(a, x, y, out):
    """out = a * x + y"""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@cuda.jit
def matmul(a, b, c):
    """c = a @ b in 16 x 16 tiles, two barriers a step; all sides are multiples of 16."""
    a_tile = cuda.shared.array((SIDE, SIDE), np.float32)
    b_tile = cuda.shared.array((SIDE, SIDE), np.float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = np.float32(0)
    for start in range(0, a.shape[1], SIDE):
        a_tile[ty, tx] = a[row, start + tx]
        b_tile[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(SIDE):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def nothing():
    """Takes no arguments, does nothing."""


@cuda.jit
def mark_one(x):
    """Writes one element, so that a launch can be seen to have happened."""
    x[0] = 1


@cuda.jit
def mark_three(x, y, z):
    """Like `mark_one`, with three arrays."""
    x[0] = 1
    y[0] = 1
    z[0] = 1


@cuda.jit
def draw(states, out):
    """Each thread draws the numbers of one column from a generator of its own."""
    i = cuda.grid(1)
    for k in range(out.shape[0]):
        out[k, i] = random.xoroshiro128p_uniform_float32(states, i)


@dataclass
class Case:
    """One measurement. `ours` and `numpys` do `calls` calls each; `error` is |ours - NumPy's|.

    `numpys` is None where NumPy has nothing alike; `error` is None where nothing comes out.
    """

    name: str
    ours: Callable[[], object]
    numpys: Callable[[], object] | None
    error: Callable[[], float] | None
    tolerance: float = 0.0
    calls: int = 1


def saxpy_case(n: int = 1 << 24) -> Case:
    """saxpy over 2^24 float32: 192 MiB read and written."""
    rng = np.random.default_rng(0)
    x, y = rng.random(n, np.float32), rng.random(n, np.float32)
    expected, room = np.empty_like(x), np.empty_like(x)
    a = np.float32(2.5)
    d_x, d_y, d_out = cuda.to_device(x), cuda.to_device(y), cuda.device_array(n, np.float32)

    def ours() -> None:
        saxpy[(n + 255) // 256, 256](a, d_x, d_y, d_out)
        cuda.synchronize()

    def numpys() -> None:
        np.multiply(x, a, out=room)
        np.add(room, y, out=expected)

    return Case(
        f"saxpy {n:,}",
        ours,
        numpys,
        lambda: float(np.abs(d_out.copy_to_host() - expected).max()),
        1e-6,
    )


def matmul_case(n: int = 512) -> Case:
    """Product of two n x n float32 matrices; NumPy's is the BLAS that it was built with."""
    rng = np.random.default_rng(0)
    a, b = rng.random((n, n), np.float32), rng.random((n, n), np.float32)
    expected = np.empty_like(a)
    d_a, d_b, d_c = cuda.to_device(a), cuda.to_device(b), cuda.device_array((n, n), np.float32)

    def ours() -> None:
        matmul[(n // SIDE, n // SIDE), (SIDE, SIDE)](d_a, d_b, d_c)
        cuda.synchronize()

    return Case(
        f"tiled matmul {n}",
        ours,
        lambda: np.matmul(a, b, out=expected),
        lambda: float(np.abs(d_c.copy_to_host() / expected - 1).max()),
        1e-5,
    )


def launch_case(arrays: int, calls: int = 1000) -> Case:
    """A launch of one thread with 0, 1 or 3 arrays, and the wait for it."""
    given = [cuda.to_device(np.zeros(1, np.float32)) for _ in range(arrays)]
    configured = {0: nothing, 1: mark_one, 3: mark_three}[arrays][1, 1]

    def ours() -> None:
        for _ in range(calls):
            configured(*given)
            cuda.synchronize()

    def error() -> float:
        return float(max(abs(array.copy_to_host()[0] - 1) for array in given))

    return Case(f"launch, {arrays} arrays", ours, None, error if arrays else None, calls=calls)


def copy_case(direction: str, nbytes: int = 64_000_000) -> Case:
    """64 MB between pinned memory and the device ('to device' or 'to host')."""
    source = cuda.pinned_array(nbytes, np.uint8)
    source[...] = np.arange(nbytes, dtype=np.uint8)
    target = cuda.pinned_array(nbytes, np.uint8)
    expected = np.empty(nbytes, np.uint8)
    there = cuda.to_device(source)

    def to_device() -> None:
        there.copy_to_device(source)

    def to_host() -> None:
        there.copy_to_host(target)

    def error() -> float:
        there.copy_to_host(target)
        return float(np.count_nonzero(target != source))

    ours = {"to device": to_device, "to host": to_host}[direction]
    return Case(f"copy 64 MB {direction}", ours, lambda: np.copyto(expected, source), error)


def reduce_case(dtype: str, n: int = 10_000_000) -> Case:
    """The sum of ten million floats that are on the device."""
    x = np.random.default_rng(0).random(n).astype(dtype)
    d_x, out = cuda.to_device(x), cuda.device_array(1, dtype)
    expected = np.empty(1, dtype)

    def ours() -> None:
        add(d_x, res=out)
        cuda.synchronize()

    return Case(
        f"reduce {dtype}",
        ours,
        lambda: np.add.reduce(x, out=expected, keepdims=True),
        lambda: float(abs(out.copy_to_host()[0] / x.sum(dtype=np.float64) - 1)),
        1e-5,
    )


def states_case(n: int = 1_000_000) -> Case:
    """A million generators of one seed; checked by a part of them that is made alone."""
    start = n // 3
    expected = random.create_xoroshiro128p_states(1000, 1, start).copy_to_host()
    states = cuda.device_array(n, random.xoroshiro128p_dtype)

    def error() -> float:
        part = states.copy_to_host()[start : start + 1000]
        return float(np.count_nonzero(part != expected))

    return Case(f"states {n:,}", lambda: random.init_xoroshiro128p_states(states, 1), None, error)


def draw_case(threads: int = 4096, draws: int = 4096) -> Case:
    """2^24 float32 between 0 and 1; checked by their mean."""
    states = random.create_xoroshiro128p_states(threads, 1)
    out, room = cuda.device_array((draws, threads), np.float32), np.empty(2**24, np.float32)
    generator = np.random.default_rng(1)

    def ours() -> None:
        draw[threads // 256, 256](states, out)
        cuda.synchronize()

    return Case(
        f"draw {threads * draws:,}",
        ours,
        lambda: generator.random(dtype=np.float32, out=room),
        lambda: float(abs(out.copy_to_host().mean(dtype=np.float64) - 0.5)),
        5e-4,
    )


CASES: list[Callable[[], Case]] = [
    saxpy_case,
    matmul_case,
    lambda: launch_case(0),
    lambda: launch_case(1),
    lambda: launch_case(3),
    lambda: copy_case("to device"),
    lambda: copy_case("to host"),
    lambda: reduce_case("float32"),
    lambda: reduce_case("float64"),
    states_case,
    draw_case,
]
