"""Launches that do nothing, copies, and what `lib/` has ready: sums and random numbers."""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np

from haulage import cuda
from haulage.cli.bench import formulas
from haulage.cli.bench.kernels.made import jit, unset
from haulage.cuda import random

add = cuda.reduce(lambda a, b: a + b)


@jit
def nothing():
    """Takes no arguments, does nothing."""


@jit
def nothing_1(a):
    """Takes one array, does nothing."""


@jit
def nothing_3(a, b, c):
    """Takes three arrays, does nothing."""


@jit
def nothing_8(a, b, c, d, e, f, g, h):
    """Takes eight arrays, does nothing."""


@jit
def draw(states, out):
    """Each thread draws the numbers of one column from a generator of its own."""
    i = cuda.grid(1)
    for k in range(out.shape[0]):
        out[k, i] = random.xoroshiro128p_uniform_float32(states, i)


def _launch(kernel: Any) -> Any:
    def setup(given: Any) -> Any:
        arrays = [cuda.to_device(array) for array in given.values()]
        launch = kernel[1, 32]
        wait = cuda.synchronize

        def run() -> None:
            launch(*arrays)
            wait()

        return run, lambda: np.zeros(0, np.float32)

    return setup


def _copy(inwards: bool, pinned: bool) -> Any:
    def setup(given: Any) -> Any:
        host, back = given["x"], np.empty_like(given["x"])
        if pinned:
            host = cuda.pinned_array_like(back)
            host[...] = given["x"]
            back = cuda.pinned_array_like(host)
        there = cuda.to_device(host)
        back[...] = 0

        def run() -> None:
            if inwards:
                there.copy_to_device(host)
            else:
                there.copy_to_host(back)

        return run, there.copy_to_host if inwards else lambda: back

    return setup


def _reduce(given: Any) -> Any:
    x = cuda.to_device(given["x"])
    out = unset(1, x.dtype)

    def run() -> None:
        add(x, res=out)
        cuda.synchronize()

    return run, out.copy_to_host


def _states(given: Any) -> Any:
    states = unset(int(given["count"][0]), random.xoroshiro128p_dtype)

    def run() -> None:
        random.init_xoroshiro128p_states(states, 1)
        cuda.synchronize()

    return run, lambda: states[:2].copy_to_host().view(np.uint32)


def _draw(given: Any) -> Any:
    threads = formulas.GENERATORS
    states = random.create_xoroshiro128p_states(threads, 1)
    out = unset((int(given["count"][0]), threads), np.float32)
    launch = draw[threads // 256, 256]

    def run() -> None:
        launch(states, out)
        cuda.synchronize()

    return run, lambda: formulas.means(out.copy_to_host())


SETUPS = {
    "launch-0": _launch(nothing),
    "launch-1": _launch(nothing_1),
    "launch-3": _launch(nothing_3),
    "launch-8": _launch(nothing_8),
    "copy-in-64": _copy(inwards=True, pinned=True),
    "copy-out-64": _copy(inwards=False, pinned=True),
    "copy-in-256": _copy(inwards=True, pinned=False),
    "copy-out-256": _copy(inwards=False, pinned=False),
    "reduce-float32": _reduce,
    "reduce-float64": _reduce,
    "random-states": _states,
    "random-draw": _draw,
}
