"""Prices of options and bonds."""

import math

import numpy as np
from numba import float64, prange

from benchmarks.corpus.program import Launch, Made, over, parallel, program
from haulage import cuda


@cuda.jit(device=True)
def normal_cdf(x):
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@cuda.jit
def european(spot, strike, years, rate, vol, call, put):
    i = cuda.grid(1)
    if i >= spot.size:
        return
    root = vol * math.sqrt(years[i])
    d1 = (math.log(spot[i] / strike[i]) + (rate + 0.5 * vol * vol) * years[i]) / root
    d2 = d1 - root
    discounted = strike[i] * math.exp(-rate * years[i])
    call[i] = spot[i] * normal_cdf(d1) - discounted * normal_cdf(d2)
    put[i] = discounted * normal_cdf(-d2) - spot[i] * normal_cdf(-d1)


@parallel
def european_loop(spot, strike, years, rate, vol, call, put):
    for i in prange(spot.size):
        root = vol * math.sqrt(years[i])
        d1 = (math.log(spot[i] / strike[i]) + (rate + 0.5 * vol * vol) * years[i]) / root
        d2 = d1 - root
        discounted = strike[i] * math.exp(-rate * years[i])
        call[i] = spot[i] * 0.5 * math.erfc(-d1 * 0.7071067811865476) - (
            discounted * 0.5 * math.erfc(-d2 * 0.7071067811865476)
        )
        put[i] = discounted * 0.5 * math.erfc(d2 * 0.7071067811865476) - (
            spot[i] * 0.5 * math.erfc(d1 * 0.7071067811865476)
        )


def _european(spot, strike, years, rate, vol):
    cdf = np.vectorize(lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5)))
    root = vol * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * vol * vol) * years) / root
    low = strike * np.exp(-rate * years)
    d2 = d1 - root
    return spot * cdf(d1) - low * cdf(d2), low * cdf(-d2) - spot * cdf(-d1)


@program("black-scholes-float64", 1 << 17, 300)
def _(n, rng):
    spot, strike, years = rng.uniform(5, 30, n), rng.uniform(1, 100, n), rng.uniform(0.25, 10, n)
    call, put = np.zeros(n), np.zeros(n)
    args = (spot, strike, years, 0.02, 0.3, call, put)

    def expect():
        c, p = _european(spot, strike, years, 0.02, 0.3)
        return [(call, c), (put, p)]

    return Made([Launch(european, over(n, 128), 128, args)], expect, [(european_loop, args)])


def _binomial(spot, strike, steps, vol, dt):
    up = math.exp(vol * math.sqrt(dt))
    chance = (1 - 1 / up) / (up - 1 / up)
    powers = up ** (2 * np.arange(steps + 1) - steps)
    values = np.maximum(spot[:, None] * powers - strike[:, None], 0)
    for _ in range(steps):
        values = chance * values[:, 1:] + (1 - chance) * values[:, :-1]
    return values[:, 0]


@cuda.jit
def binomial_block(spot, strike, vol, dt, price):
    """An option a block: the leaves in shared memory, folded step by step."""
    room = cuda.shared.array(257, float64)
    t, option = cuda.threadIdx.x, cuda.blockIdx.x
    steps = cuda.blockDim.x
    up = math.exp(vol * math.sqrt(dt))
    chance = (1 - 1 / up) / (up - 1 / up)
    room[t] = max(spot[option] * up ** (2.0 * t - steps) - strike[option], 0.0)
    if t == 0:
        room[steps] = max(spot[option] * up ** (1.0 * steps) - strike[option], 0.0)
    cuda.syncthreads()
    for last in range(steps, 0, -1):
        value = 0.0
        if t < last:
            value = chance * room[t + 1] + (1 - chance) * room[t]
        cuda.syncthreads()
        if t < last:
            room[t] = value
        cuda.syncthreads()
    if t == 0:
        price[option] = room[0]


@parallel
def binomial_loop(spot, strike, vol, dt, price):
    steps = 128
    up = math.exp(vol * math.sqrt(dt))
    chance = (1 - 1 / up) / (up - 1 / up)
    for option in prange(spot.size):
        room = np.empty(steps + 1)
        for t in range(steps + 1):
            room[t] = max(spot[option] * up ** (2.0 * t - steps) - strike[option], 0.0)
        for last in range(steps, 0, -1):
            for t in range(last):
                room[t] = chance * room[t + 1] + (1 - chance) * room[t]
        price[option] = room[0]


@program("binomial-option-a-block", 64, 12)
def _(n, rng):
    spot, strike, price = rng.uniform(20, 60, n), rng.uniform(20, 60, n), np.zeros(n)
    args = (spot, strike, 0.3, 1 / 128, price)
    return Made(
        [Launch(binomial_block, n, 128, args)],
        lambda: [(price, _binomial(spot, strike, 128, 0.3, 1 / 128))],
        [(binomial_loop, args)],
    )


@cuda.jit
def binomial_thread(spot, strike, vol, dt, price):
    """An option a thread, with the leaves in an array of its own."""
    option = cuda.grid(1)
    if option < spot.size:
        own = cuda.local.array(65, float64)
        up = math.exp(vol * math.sqrt(dt))
        chance = (1 - 1 / up) / (up - 1 / up)
        for k in range(65):
            own[k] = max(spot[option] * up ** (2.0 * k - 64) - strike[option], 0.0)
        for last in range(64, 0, -1):
            for k in range(last):
                own[k] = chance * own[k + 1] + (1 - chance) * own[k]
        price[option] = own[0]


@parallel
def binomial_64_loop(spot, strike, vol, dt, price):
    up = math.exp(vol * math.sqrt(dt))
    chance = (1 - 1 / up) / (up - 1 / up)
    for option in prange(spot.size):
        own = np.empty(65)
        for k in range(65):
            own[k] = max(spot[option] * up ** (2.0 * k - 64) - strike[option], 0.0)
        for last in range(64, 0, -1):
            for k in range(last):
                own[k] = chance * own[k + 1] + (1 - chance) * own[k]
        price[option] = own[0]


@program("binomial-option-a-thread", 2048, 70)
def _(n, rng):
    spot, strike, price = rng.uniform(20, 60, n), rng.uniform(20, 60, n), np.zeros(n)
    args = (spot, strike, 0.3, 1 / 64, price)
    return Made(
        [Launch(binomial_thread, over(n, 64), 64, args)],
        lambda: [(price, _binomial(spot, strike, 64, 0.3, 1 / 64))],
        [(binomial_64_loop, args)],
    )


@cuda.jit
def implied_volatility(price, spot, strike, years, out):
    """Newton's steps until the price is met: threads take different numbers of them."""
    i = cuda.grid(1)
    if i >= price.size:
        return
    sigma = 0.5
    for _ in range(50):
        root = sigma * math.sqrt(years[i])
        d1 = math.log(spot[i] / strike[i]) / root + 0.5 * root
        value = spot[i] * normal_cdf(d1) - strike[i] * normal_cdf(d1 - root)
        off = value - price[i]
        if abs(off) < 1e-10:
            break
        vega = spot[i] * math.sqrt(years[i]) * 0.3989422804014327 * math.exp(-0.5 * d1 * d1)
        sigma -= off / vega
    out[i] = sigma


@parallel
def implied_volatility_loop(price, spot, strike, years, out):
    for i in prange(price.size):
        sigma = 0.5
        for _ in range(50):
            root = sigma * math.sqrt(years[i])
            d1 = math.log(spot[i] / strike[i]) / root + 0.5 * root
            value = spot[i] * 0.5 * math.erfc(-d1 * 0.7071067811865476)
            value -= strike[i] * 0.5 * math.erfc((root - d1) * 0.7071067811865476)
            off = value - price[i]
            if abs(off) < 1e-10:
                break
            vega = spot[i] * math.sqrt(years[i]) * 0.3989422804014327 * math.exp(-0.5 * d1 * d1)
            sigma -= off / vega
        out[i] = sigma


@program("implied-volatility-newton", 1 << 14, 200)
def _(n, rng):
    spot, strike = rng.uniform(90, 110, n), rng.uniform(90, 110, n)
    years, vol, out = rng.uniform(0.5, 2, n), rng.uniform(0.2, 0.6, n), np.zeros(n)
    price = _european(spot, strike, years, 0.0, vol)[0]
    args = (price, spot, strike, years, out)
    return Made(
        [Launch(implied_volatility, over(n, 128), 128, args)],
        lambda: [(out, vol)],
        [(implied_volatility_loop, args)],
        tolerance=1e-7,
    )


@cuda.jit
def asian_paths(normals, spot, drift, vol, strike, payoff):
    path = cuda.grid(1)
    if path < payoff.size:
        price = spot
        total = 0.0
        for t in range(normals.shape[0]):
            price *= math.exp(drift + vol * normals[t, path])
            total += price
        payoff[path] = max(total / normals.shape[0] - strike, 0.0)


@parallel
def asian_paths_loop(normals, spot, drift, vol, strike, payoff):
    for path in prange(payoff.size):
        price = spot
        total = 0.0
        for t in range(normals.shape[0]):
            price *= math.exp(drift + vol * normals[t, path])
            total += price
        payoff[path] = max(total / normals.shape[0] - strike, 0.0)


@program("asian-option-paths", 1 << 14, 250)
def _(n, rng):
    normals, payoff = rng.normal(size=(32, n)), np.zeros(n)
    args = (normals, 100.0, 0.0001, 0.02, 99.0, payoff)

    def expect():
        paths = 100 * np.exp(np.cumsum(0.0001 + 0.02 * normals, axis=0))
        return [(payoff, np.maximum(paths.mean(0) - 99, 0))]

    return Made([Launch(asian_paths, over(n, 128), 128, args)], expect, [(asian_paths_loop, args)])


@cuda.jit
def bond_prices(coupon, years, curve, out):
    """Coupons of a bond, as many as it has years, by a curve of zero rates."""
    i = cuda.grid(1)
    if i < out.size:
        total = 0.0
        for t in range(1, years[i] + 1):
            total += coupon[i] * math.exp(-curve[t] * t)
        out[i] = total + 100.0 * math.exp(-curve[years[i]] * years[i])


@parallel
def bond_prices_loop(coupon, years, curve, out):
    for i in prange(out.size):
        total = 0.0
        for t in range(1, years[i] + 1):
            total += coupon[i] * math.exp(-curve[t] * t)
        out[i] = total + 100.0 * math.exp(-curve[years[i]] * years[i])


@program("bonds-of-different-lengths", 1 << 16, 300)
def _(n, rng):
    coupon, years = rng.uniform(0, 8, n), rng.integers(1, 31, n).astype(np.int32)
    curve, out = 0.02 + 0.001 * np.arange(31), np.zeros(n)
    discount = np.exp(-curve * np.arange(31))

    def expect():
        sums = np.cumsum(discount) - 1
        return [(out, coupon * sums[years] + 100 * discount[years])]

    args = (coupon, years, curve, out)
    return Made([Launch(bond_prices, over(n, 256), 256, args)], expect, [(bond_prices_loop, args)])
