"""Kernels whose threads have nothing to do with each other."""

# mypy: disable-error-code="no-untyped-def"
import math
from typing import Any

import numpy as np

from haulage import cuda
from haulage.cli.bench.formulas import ITERATIONS, RATE, VOLATILITY
from haulage.cli.bench.kernels.made import jit, unset
from haulage.cuda import float32, int32

RATE32, VOLATILITY32 = np.float32(RATE), np.float32(VOLATILITY)
ROOT_HALF = np.float32(math.sqrt(0.5))


@jit
def saxpy(a, x, y, out):
    """out = a * x + y"""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@jit
def stencil(u, out):
    """One step of heat inside of the rim."""
    x, y = cuda.grid(2)
    if 0 < y < u.shape[0] - 1 and 0 < x < u.shape[1] - 1:
        around = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1]
        out[y, x] = u[y, x] + float32(0.1) * (around - float32(4) * u[y, x])


@cuda.jit(device=True)
def normal(d):
    """The cumulative normal distribution."""
    return float32(0.5) * (float32(1) + math.erf(d * ROOT_HALF))


@jit
def black_scholes(price, strike, years, call, put):
    """European calls and puts."""
    i = cuda.grid(1)
    if i < call.size:
        s, k, t = price[i], strike[i], years[i]
        root = math.sqrt(t)
        drift = RATE32 + float32(0.5) * VOLATILITY32 * VOLATILITY32
        d1 = (math.log(s / k) + drift * t) / (VOLATILITY32 * root)
        d2 = d1 - VOLATILITY32 * root
        now = k * math.exp(-RATE32 * t)
        c = s * normal(d1) - now * normal(d2)
        call[i] = c
        put[i] = c - s + now


@jit
def mandelbrot(real, imaginary, out):
    """How many steps each point stays within 2 of 0."""
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        cr, ci = real[x], imaginary[y]
        zr, zi = cr, ci
        n = int32(0)
        while n < ITERATIONS and zr * zr + zi * zi <= float32(4):
            zr, zi = zr * zr - zi * zi + cr, float32(2) * zr * zi + ci
            n += int32(1)
        out[y, x] = n


def _saxpy(given: Any) -> Any:
    x, y = cuda.to_device(given["x"]), cuda.to_device(given["y"])
    out = unset(x.shape, x.dtype)
    launch = saxpy[(x.size + 255) // 256, 256]
    a = np.float32(2.5)

    def run() -> None:
        launch(a, x, y, out)
        cuda.synchronize()

    return run, out.copy_to_host


def _stencil(given: Any) -> Any:
    u = cuda.to_device(given["u"])
    out = cuda.to_device(np.zeros_like(given["u"]))
    launch = stencil[_blocks(u.shape, (32, 8)), (32, 8)]

    def run() -> None:
        launch(u, out)
        cuda.synchronize()

    return run, out.copy_to_host


def _black_scholes(given: Any) -> Any:
    price, strike, years = (cuda.to_device(given[k]) for k in ("price", "strike", "years"))
    call, put = unset(price.shape, price.dtype), unset(price.shape, price.dtype)
    launch = black_scholes[(price.size + 255) // 256, 256]

    def run() -> None:
        launch(price, strike, years, call, put)
        cuda.synchronize()

    return run, lambda: np.stack([call.copy_to_host(), put.copy_to_host()])


def _mandelbrot(given: Any) -> Any:
    real, imaginary = cuda.to_device(given["real"]), cuda.to_device(given["imaginary"])
    out = unset((imaginary.size, real.size), np.int32)
    launch = mandelbrot[_blocks(out.shape, (16, 16)), (16, 16)]

    def run() -> None:
        launch(real, imaginary, out)
        cuda.synchronize()

    return run, out.copy_to_host


def _blocks(shape: tuple[int, ...], block: tuple[int, int]) -> tuple[int, int]:
    return -(-shape[1] // block[0]), -(-shape[0] // block[1])


SETUPS = {
    "saxpy": _saxpy,
    "stencil": _stencil,
    "black-scholes": _black_scholes,
    "mandelbrot": _mandelbrot,
}
