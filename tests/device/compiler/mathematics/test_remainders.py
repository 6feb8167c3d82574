"""What is left of divisions of floats, in each way that threads can be run."""

import math
import re

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.targets import cpu

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


@cuda.jit
def remainders(x, y, python, whole, fmod):
    i = cuda.grid(1)
    if i < x.size:
        python[i] = x[i] % y[i]
        whole[i] = x[i] // y[i]
        fmod[i] = math.fmod(x[i], y[i])


def made(x, y):
    rooms = [cuda.device_array_like(x) for _ in range(3)]
    remainders[-(-x.size // 64), 64](cuda.to_device(x), cuda.to_device(y), *rooms)
    return [room.copy_to_host() for room in rooms]


def pairs(kind):
    limits, rng = np.finfo(kind), np.random.default_rng(0)
    tiny = limits.smallest_subnormal
    known = [0, 1, 3, 0.1, 6.28, 7, tiny, 5 * tiny, limits.tiny, limits.max, np.inf, np.nan]
    known += [1e10, 1e-10, 2.0**52, 2.0**53 + 2, 1 - limits.epsneg, 1 + limits.eps]
    known = np.array([*known, *(-number for number in known)], kind)
    x, y = (each.ravel() for each in np.meshgrid(known, known))
    some = rng.random((2, 500)) * 10.0 ** rng.integers(-12, 12, (2, 500))
    signs = rng.choice([-1, 1], (2, 500))
    x, y = np.concatenate([x, (some * signs)[0]]), np.concatenate([y, (some * signs)[1]])
    # Multiples of the divisor, and what is one last place beside them.
    number = (y[-500:] * rng.integers(1, 1000, 500)).astype(kind)
    x = np.concatenate(
        [x, number, np.nextafter(number, kind(np.inf)), np.nextafter(number, kind(0))]
    )
    return x.astype(kind), np.concatenate([y, *[y[-500:]] * 3]).astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_fmod_is_exact_for_all_sizes_and_signs(way, kind):
    x, y = pairs(kind)
    with np.errstate(all="ignore"):
        wanted = np.fmod(x, y)
    fmod = made(x, y)[2]
    assert np.array_equal(fmod, wanted, equal_nan=True)
    signed = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(fmod[signed]), np.signbit(wanted[signed]))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_percent_has_the_sign_of_the_divisor(way, kind):
    x, y = pairs(kind)
    fits = np.isfinite(x) & np.isfinite(y) & (y != 0)
    x, y = x[fits], y[fits]
    python, whole, _ = made(x, y)
    with np.errstate(all="ignore"):
        left = np.fmod(x, y)
        wanted = np.where((left != 0) & ((left < 0) != (y < 0)), left + y, left)
        assert np.array_equal(python, wanted)
        near = np.abs(x / y) < 1e6
        assert np.array_equal(whole[near], np.floor_divide(x, y)[near])


@cuda.jit
def reduced(x, turns, o):
    i = cuda.grid(1)
    if i < x.size:
        left = x[i]
        for _ in range(turns[i]):
            left = (left * 3.7) % 1.3
        o[i] = left


def test_remainders_in_loops_that_threads_leave_at_different_times(way):
    x, turns = np.linspace(0, 9, 100), np.arange(100) % 7
    o = cuda.device_array_like(x)
    reduced[2, 64](cuda.to_device(x), cuda.to_device(turns), o)
    wanted = x.copy()
    for turn in range(7):
        wanted = np.where(turn < turns, (wanted * 3.7) % 1.3, wanted)
    assert np.array_equal(o.copy_to_host(), wanted)


@pytest.mark.skipif(not cpu.host().has_fused, reason="without fused products it is the C library's")
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.emitted
def test_the_c_library_is_asked_for_far_quotients_only(kind):
    signature = f"void({', '.join([f'{kind}[::1]'] * 5)})"
    text = haulage.compile(remainders.py_func, signature, block=64).stages["llvm"]
    found = re.search(r"(?ms)^define [^\n]*@haulage\.block\(.*?^\}", text)
    assert found is not None
    block = found[0]
    assert re.search(r"fdiv <\d+ x double>", block)
    assert "frem" not in block
