"""How far each element of a right result may be from NumPy's, by problem: `rounding.sum_bound` of
the roundings on both sides, with the size of the terms that the formulas add up."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from haulage.cli import rounding
from haulage.cli.bench import formulas
from haulage.cli.bench.formulas import ITERATIONS, RATE, SOFTENING, VOLATILITY

Array = NDArray[Any]
Inputs = Mapping[str, Array]


def exact(given: Inputs, expected: Array) -> Array:
    """Nothing rounds: counts, copies, and sums of whole numbers."""
    return np.zeros(())


def saxpy(given: Inputs, expected: Array) -> Array:
    """A product and a sum, on both sides."""
    return rounding.sum_bound(4, np.float32(2.5) * given["x"] + given["y"], np.float32)


def stencil(given: Inputs, expected: Array) -> Array:
    """At most six roundings of each term on both sides; 4 times a number is exact."""
    u = given["u"]
    size = np.zeros_like(u)
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    size[1:-1, 1:-1] = u[1:-1, 1:-1] + np.float32(0.1) * (around + np.float32(4) * u[1:-1, 1:-1])
    return rounding.sum_bound(12, size, np.float32)


def product(given: Inputs, expected: Array) -> Array:
    """Sums of as many products as a row is long, all of them positive."""
    return rounding.sum_bound(2 * given["a"].shape[1], expected, np.float32)


def sums_of_256(given: Inputs, expected: Array) -> Array:
    """Sums of positive numbers in any order, and the rounding of NumPy's, made in float64."""
    return rounding.sum_bound(256, expected, np.float32)


def scan(given: Inputs, expected: Array) -> Array:
    """Sums of up to 511 positive numbers, on both sides."""
    return rounding.sum_bound(2 * 511, expected, np.float32)


def forces(given: Inputs, expected: Array) -> Array:
    """Sums over all bodies. Each term has at most 16 roundings, and none of them loses digits:
    distances are differences of exact numbers, all else adds and multiplies what is positive."""
    bodies = given["bodies"].astype(np.float32)
    sizes = np.empty((len(bodies), 3), np.float32)
    for start in range(0, len(bodies), 256):
        apart = np.abs(bodies[None, :, :3] - bodies[start : start + 256, None, :3])
        square = np.einsum("ijk,ijk->ij", apart, apart) + np.float32(SOFTENING)
        weight = bodies[:, 3] / (square * np.sqrt(square))
        sizes[start : start + 256] = np.einsum("ij,ijk->ik", weight, apart)
    return rounding.sum_bound(2 * (len(bodies) + 16), sizes, np.float32)


def black_scholes(given: Inputs, expected: Array) -> Array:
    """20 roundings on each side, of which each changes the price by at most this: the terms
    themselves, and the density of the normal distribution times the terms of its argument. The
    error function of the reference is off by as much as three more."""
    price, strike, years = (given[name].astype(np.float32) for name in ("price", "strike", "years"))
    root = VOLATILITY * np.sqrt(years)
    log = np.log(price / strike)
    d1 = (log + (RATE + 0.5 * VOLATILITY**2) * years) / root
    terms = (np.abs(log) + 1 + (RATE + 0.5 * VOLATILITY**2) * years) / root + root
    slope1, slope2 = (np.exp(-0.5 * d * d) / np.sqrt(2 * np.pi) for d in (d1, d1 - root))
    now = strike * np.exp(-RATE * years)
    call = price * (1 + slope1 * terms) + now * (1 + slope2 * terms + RATE * years)
    size = np.stack([call, call + price + now]).astype(np.float32)
    return rounding.sum_bound(2 * 20 + 3, size, np.float32)


def mandelbrot(given: Inputs, expected: Array) -> Array:
    """0 where the count is sure; infinite where rounding decides when a point leaves.

    The error of z grows by |2 z| in each step and by the step's own roundings, of which there are
    at most 6; where |z|^2 comes closer to 4 than that error, the count may be another one.
    """
    plane = np.meshgrid(given["real"], given["imaginary"])
    cr, ci = (a.astype(np.float64).ravel() for a in plane)
    zr, zi, off = cr.copy(), ci.copy(), np.zeros_like(cr)
    alive, doubtful = np.arange(cr.size), np.zeros(cr.size, bool)
    for _ in range(ITERATIONS):
        square = zr * zr + zi * zi
        # Of |z|^2: what an error of z does to it, and the roundings of it.
        near = 2 * np.sqrt(square) * off + off * off + rounding.sum_bound(4, square, np.float32)
        doubtful[alive[np.abs(square - 4) <= near]] = True
        inside = (square <= 4) & ~doubtful[alive]
        cr, ci, zr, zi, off = cr[inside], ci[inside], zr[inside], zi[inside], off[inside]
        alive, square = alive[inside], square[inside]
        # Higham, section 3.6, for the product; the terms are at most |z|^2 and |c|.
        own = rounding.sum_bound(6, 2 * square + np.abs(cr) + np.abs(ci), np.float32)
        off = (2 * np.sqrt(square) + off) * off + own
        zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
    return np.where(doubtful, np.inf, 0.0).reshape(expected.shape)


def means(given: Inputs, expected: Array) -> Array:
    """Means of rows of 4096 draws, then of columns, as `formulas.means` puts them."""
    draws = int(given["count"][0])
    lengths = np.repeat([formulas.GENERATORS, draws], [draws, formulas.GENERATORS])
    return rounding.mean_bound(lengths, expected.size)
