"""Functions for AMD's GPUs without their library, run here by LLVM for this processor."""

import ctypes
import math
import random
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

import haulage
from haulage.compiler.gpu.amd import device_library, own_functions
from haulage.targets.cpu import target_machine

KINDS = {"f32": ctypes.c_float, "f64": ctypes.c_double}


@cache
def engine():
    wanted = [(name, suffix) for name in own_functions.NAMES for suffix in KINDS]
    text = own_functions.definitions(wanted).replace("define internal", "define")
    made = llvm.create_mcjit_compiler(llvm.parse_assembly(text), target_machine("generic", ""))
    made.finalize_object()
    return made


def function(name: str, suffix: str, count: int) -> Callable[..., float]:
    kind = KINDS[suffix]
    address = engine().get_function_address(f"{own_functions.PREFIX}{name}.{suffix}")
    result: Callable[..., float] = ctypes.CFUNCTYPE(kind, *[kind] * count)(address)
    return result


@cache
def half_pi() -> Fraction:
    """To 1300 bits, by Euler's formula: pi/4 = 5 atan(1/7) + 2 atan(3/79)."""

    def arc(ratio: Fraction) -> Fraction:
        total, term, n = Fraction(0), ratio, 1
        while abs(term) > Fraction(1, 1 << 1320):
            total += term / n
            term = Fraction(round(-term * ratio**2 * 2**1400), 2**1400)
            n += 2
        return total

    return 2 * (5 * arc(Fraction(1, 7)) + 2 * arc(Fraction(3, 79)))


def exact(name: str, x: float) -> float:
    """By what is left of a multiple of pi/2, exactly."""
    turns = round(Fraction(x) / half_pi())
    rest = Fraction(x) - turns * half_pi()
    high = float(rest)
    low = float(rest - Fraction(high))
    sine, cosine = math.sin(high), math.cos(high)
    sine, cosine = sine + cosine * low, cosine - sine * low
    sine, cosine = [(sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine)][turns % 4]
    return {"sin": sine, "cos": cosine, "tan": sine / cosine}[name]


def large_numbers(most: int) -> Iterator[float]:
    chosen = random.Random(5)
    for _ in range(400):
        yield math.ldexp(1 + chosen.random(), chosen.randrange(19, most)) * chosen.choice((1, -1))
    # The double that is nearest to a multiple of pi/2, and numbers near others.
    yield 6381956970095103 * 2.0**797 if most > 900 else 2.0**100
    for n in range(1, 60):
        yield float(round(half_pi() * 10 ** min(n, most // 4)))
    yield from (1.6e6, math.nextafter(1.6e6, 2e6), -1.7e6, 1.0, -0.5, 1e-300 if most > 900 else 0.1)


@pytest.mark.parametrize("suffix", KINDS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_of_numbers_of_any_size(name: str, suffix: str) -> None:
    tried = function(name, suffix, 1)
    single = suffix == "f32"
    for number in large_numbers(127 if single else 1023):
        x = ctypes.c_float(number).value if single else number
        wanted, got = exact(name, x), tried(x)
        unit = float(np.spacing(np.float32(abs(wanted)))) if single else math.ulp(wanted)
        assert abs(got - wanted) <= 2 * unit, (x, got, wanted)
    assert all(math.isnan(tried(x)) for x in (math.inf, -math.inf, math.nan))
    if name != "cos":
        assert math.copysign(1, tried(-0.0)) == -1


SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 3.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e-310),
    *(2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 1e300),
    *(1.401298464324817e-45, 1.1754943508222875e-38, 3.4028234663852886e38, 1e-40, 1e38),
)


def pairs(suffix: str) -> Iterator[tuple[float, float]]:
    chosen = random.Random(9)
    low, high = (-149, 128) if suffix == "f32" else (-1074, 1024)

    def one() -> float:
        return math.ldexp(chosen.random(), chosen.randrange(low, high)) * chosen.choice((1, -1))

    yield from ((x, y) for x in SPECIAL for y in SPECIAL)
    for _ in range(3000):
        x = one()
        yield x, one()
        yield x, x / chosen.choice((1, 2, 3, 4, 1.5, 2.5, 0.01 + 8 * chosen.random()))
        yield chosen.randrange(-20, 20) / 2, chosen.randrange(-20, 20) / 2


def bits(x: float) -> bytes:
    return b"" if math.isnan(x) else struct.pack("<d", x)


@pytest.mark.parametrize("suffix", KINDS)
def test_the_next_float_is_the_next(suffix: str) -> None:
    tried, kind = function("nextafter", suffix, 2), KINDS[suffix]
    element = np.float32 if suffix == "f32" else np.float64
    for first, second in pairs(suffix):
        x, y = kind(first).value, kind(second).value
        with np.errstate(all="ignore"):
            wanted = float(np.nextafter(element(x), element(y)))
        assert bits(tried(x, y)) == bits(wanted), (x, y)


@pytest.mark.parametrize("suffix", KINDS)
def test_what_is_left_of_the_nearest_multiple_is_exact(suffix: str) -> None:
    tried, kind = function("remainder", suffix, 2), KINDS[suffix]
    for first, second in pairs(suffix):
        x, y = kind(first).value, kind(second).value
        # It has no more bits than the two have.
        try:
            wanted = math.remainder(x, y)
        except ValueError:
            wanted = math.nan
        assert bits(tried(x, y)) == bits(wanted), (x, y)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "nextafter", "remainder"])
def test_kernels_have_them_where_there_is_no_library(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_library, "find", lambda: None)
    count = 2 if name in ("nextafter", "remainder") else 1
    single, double = (
        f"{array}[0] = math.{name}({', '.join(f'{array}[{n + 1}]' for n in range(count))})"
        for array in "xy"
    )
    names = {"math": math}
    exec(f"def kernel(x, y):\n {single}\n {double}", names)
    code = haulage.compile(names["kernel"], "void(float32[::1], float64[::1])", "gfx1030")
    assert code.metadata["local_bytes"] == 0
    assert "@__ocml_" not in code.llvm
