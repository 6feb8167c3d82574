"""NumPy, with rooms for results made before: no allocation is timed where NumPy can do without."""

import numpy as np

from haulage.cli.bench import formulas
from haulage.cli.bench.problems import PROBLEMS


def about():
    """Version of NumPy."""
    return f"NumPy {np.__version__}"


def _saxpy(given):
    x, y, out = given["x"], given["y"], np.empty_like(given["x"])
    a = np.float32(2.5)

    def run():
        np.multiply(x, a, out=out)
        np.add(out, y, out=out)

    return run, lambda: out


def _product(given):
    a, b, out = given["a"], given["b"], np.empty_like(given["a"])
    return lambda: np.matmul(a, b, out=out), lambda: out


def _sums(given):
    rows = given["x"].reshape(-1, 256)
    out = np.empty(len(rows), np.float32)
    return lambda: np.add.reduce(rows, axis=1, out=out), lambda: out


def _transpose(given):
    a, out = given["a"], np.empty_like(given["a"])
    return lambda: np.copyto(out, a.T), lambda: out


def _copy(given):
    source, out = given["x"], np.zeros_like(given["x"])
    return lambda: np.copyto(out, source), lambda: out


def _sum(given):
    x, out = given["x"], np.zeros(1, given["x"].dtype)
    return lambda: np.add.reduce(x, out=out, keepdims=True), lambda: out


def _draw(given):
    out = np.empty((int(given["count"][0]), formulas.GENERATORS), np.float32)
    generator = np.random.default_rng(1)
    return (
        lambda: generator.random(dtype=np.float32, out=out),
        lambda: formulas.means(out),
    )


def _as_expected(name):
    """The way in which the expected result is worked out."""

    def setup(given):
        answers = []

        def run():
            answers[:] = [PROBLEMS[name].expected(given)]

        return run, lambda: answers[0]

    return setup


def setups():
    """A setup for each case that NumPy has a way for."""
    return {
        "saxpy": _saxpy,
        **dict.fromkeys(("matmul-512", "matmul-1024", "matmul-naive"), _product),
        **dict.fromkeys(("reduce-tree", "reduce-warp"), _sums),
        "transpose": _transpose,
        **dict.fromkeys(("copy-in-64", "copy-out-64", "copy-in-256", "copy-out-256"), _copy),
        **dict.fromkeys(("reduce-float32", "reduce-float64"), _sum),
        "random-draw": _draw,
        **{
            name: _as_expected(name)
            for name in (
                *("stencil", "histogram-shared", "histogram-global"),
                *("black-scholes", "mandelbrot", "nbody", "scan"),
            )
        },
    }
