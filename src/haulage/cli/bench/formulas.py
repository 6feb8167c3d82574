"""NumPy's answers that take more than a line."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

RATE, VOLATILITY = 0.02, 0.3
ITERATIONS = 200
SOFTENING = 1e-3
GENERATORS = 4096


def stencil(given: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
    """One step of heat on (n, n); the rim stays 0."""
    u = given["u"].astype(np.float32)
    out = np.zeros_like(u)
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    out[1:-1, 1:-1] = u[1:-1, 1:-1] + np.float32(0.1) * (around - np.float32(4) * u[1:-1, 1:-1])
    return out


def erf(x: NDArray[np.floating]) -> NDArray[np.floating]:
    """The error function to 1.5e-7: Abramowitz and Stegun, 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    return np.sign(x) * (1 - series * np.exp(-x * x))


def black_scholes(given: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
    """(2, n): European calls and puts, without dividends (Black and Scholes, 1973)."""
    price, strike, years = (given[name].astype(np.float32) for name in ("price", "strike", "years"))
    root = np.sqrt(years)
    d1 = (np.log(price / strike) + (RATE + 0.5 * VOLATILITY**2) * years) / (VOLATILITY * root)
    d2 = d1 - VOLATILITY * root
    n1, n2 = (0.5 * (1 + erf(d * np.sqrt(0.5))) for d in (d1, d2))
    now = strike * np.exp(-RATE * years)
    call = price * n1 - now * n2
    return np.stack([call, call - price + now]).astype(np.float32)


def mandelbrot(given: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
    """(height, width) int32: how many steps each point of the plane stays within 2 of 0."""
    width, height = given["real"].size, given["imaginary"].size
    cr, ci = (a.ravel() for a in np.meshgrid(given["real"], given["imaginary"]))
    zr, zi, alive = cr.copy(), ci.copy(), np.arange(cr.size)
    counts = np.full(cr.size, ITERATIONS, np.int32)
    for step in range(ITERATIONS):
        outside = zr * zr + zi * zi > 4
        counts[alive[outside]] = step
        inside = ~outside
        cr, ci, zr, zi, alive = cr[inside], ci[inside], zr[inside], zi[inside], alive[inside]
        zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
    return counts.reshape(height, width)


def forces(given: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
    """(n, 3): the accelerations of n bodies (x, y, z, mass), softened."""
    bodies = given["bodies"].astype(np.float32)
    out = np.empty((len(bodies), 3), np.float32)
    for start in range(0, len(bodies), 256):
        apart = bodies[None, :, :3] - bodies[start : start + 256, None, :3]
        square = np.einsum("ijk,ijk->ij", apart, apart) + np.float32(SOFTENING)
        weight = bodies[:, 3] / (square * np.sqrt(square))
        out[start : start + 256] = np.einsum("ij,ijk->ik", weight, apart)
    return out


def scan(given: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
    """The sums of all elements before each, of 512 elements at a time."""
    rows = given["x"].reshape(-1, 512).astype(np.float32)
    out = np.zeros_like(rows)
    np.cumsum(rows[:, :-1], axis=1, out=out[:, 1:])
    return out.ravel()


def means(draws: NDArray[np.floating]) -> NDArray[np.generic]:
    """The means of the rows of `draws`, (n, GENERATORS), and then of its columns."""
    return np.concatenate([draws.mean(axis=axis, dtype=np.float64) for axis in (1, 0)])


def first_states(given: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
    """(8,) uint32: the states 0 and 1 of seed 1, a jump of 2^64 draws apart.

    Source: D. Blackman and S. Vigna, https://prng.di.unimi.it (splitmix64, and xoroshiro128+ with
    the constants of 2016).
    """
    full = (1 << 64) - 1
    z = (1 + 0x9E3779B97F4A7C15) & full
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & full
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & full
    first = s0 = s1 = z ^ (z >> 31)
    jumped0 = jumped1 = 0
    for word in (0xBEAC0467EBA5FACB, 0xD86B048B86AA9922):
        for bit in range(64):
            if word >> bit & 1:
                jumped0, jumped1 = jumped0 ^ s0, jumped1 ^ s1
            s1 ^= s0
            s0 = (_rotated(s0, 55) ^ s1 ^ (s1 << 14)) & full
            s1 = _rotated(s1, 36)
    return np.array([first, first, jumped0, jumped1], np.uint64).view(np.uint32)


def _rotated(x: int, bits: int) -> int:
    return (x << bits | x >> (64 - bits)) & ((1 << 64) - 1)
