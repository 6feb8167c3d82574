"""Products and sums are rounded in the same way however the threads of a block are run."""

import math

import numpy as np
import pytest

from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


def apart(a, b, c, out):
    i = cuda.grid(1)
    product = a[i] * b[i]
    out[0, i] = product + c[i]
    cuda.syncthreads()
    out[1, i] = product - c[i]


def in_branches(a, b, c, out):
    i = cuda.grid(1)
    product = a[i] * b[i]
    if c[i] > 0:
        out[0, i] = product + c[i]
    else:
        out[0, i] = c[i] - a[i] * c[i]
    total = a[i]
    for _ in range(int(abs(b[i]) * 3)):
        total = total * b[i] + c[i]
        if total > 2:
            total -= a[i] * b[i]
    out[1, i] = total


def powers(a, b, c, out):
    i = cuda.grid(1)
    out[0, i] = a[i] ** 3 + b[i] ** 2 * c[i] - math.sqrt(abs(a[i] * c[i]))
    z = complex(a[i], b[i])
    z = z * z + complex(b[i], c[i])
    out[1, i] = z.real * z.imag


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("function", [apart, in_branches, powers])
def test_bits_are_the_same_in_every_way(function, kind, monkeypatch):
    random = np.random.default_rng(5)
    a, b, c = (random.standard_normal(256).astype(kind) for _ in range(3))
    made = []
    for way in ("regions", "scalar", "coroutines"):
        monkeypatch.setenv("HAULAGE_CPU_THREADS", way)
        out = np.zeros((2, 256), kind)
        cuda.jit(function)[2, 128](a, b, c, out)
        made.append(out)
    assert np.isfinite(made[0]).all()
    for other in made[1:]:
        np.testing.assert_array_equal(made[0], other)


def test_a_product_and_its_sum_are_rounded_once(way):
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = x[i] * x[i] - np.float64(1)

    x, out = np.full(32, 1 + 2.0**-30), np.zeros(32)
    kernel[1, 32](x, out)
    exact, twice = 2.0**-29 + 2.0**-60, 2.0**-29
    assert set(out) <= {exact, twice}
    assert len(set(out)) == 1
