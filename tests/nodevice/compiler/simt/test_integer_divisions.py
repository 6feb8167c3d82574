"""Divisions of whole numbers in the code of kernels: vectors of doubles, exact."""

import re

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.targets import cpu


def rows_and_columns(x, o, wide):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i] * np.float32(i // wide) + np.float32(i % wide)


def pairs(x, o, y):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i] // y[i] + x[i] % y[i]


def divisors(x, o, y):
    i = cuda.grid(1)
    a, b = x[i], y[i]
    while b != 0:
        a, b = b, a % b
    o[i] = a


def smallest_factors(x, o, y):
    i = cuda.grid(1)
    d = 2
    while d * d <= x[i]:
        if x[i] % d == 0:
            break
        d += 1
    o[i] = d


def by_hand(x, o, y):
    o[cuda.grid(1)] = x[cuda.grid(1)] // 10


ANY_SIZE = pytest.mark.skipif(
    "+avx512dq" not in cpu.host().features.split(","),
    reason="vectors of whole numbers of 64 bits become doubles with AVX-512 only",
)
INTS = "void({0}[::1], {0}[::1], {0}[::1])"


def code_of(kernel, signature):
    return haulage.compile(kernel, signature, block=64)


def left(code):
    """Divisions of whole numbers, but by constants, in the widened code of a block."""
    block = re.search(r"(?ms)^define [^\n]*@haulage\.block\(.*?^\}", code.stages["llvm"])
    assert block is not None
    return re.findall(r"= [us](?:div|rem) (?!i\d+ [^,]*, \d)(?!<[^,]*, splat).*", block[0])


@pytest.mark.skipif(not cpu.host().has_fused, reason="without fused products they stay as they are")
@pytest.mark.parametrize(
    ("kernel", "signature"),
    [
        (rows_and_columns, "void(float32[::1], float32[::1], int64)"),
        (rows_and_columns, "void(float32[::1], float32[::1], int32)"),
        (pairs, INTS.format("int32")),
        (pairs, INTS.format("uint32")),
        pytest.param(divisors, INTS.format("int32"), marks=ANY_SIZE),
    ],
)
def test_divisions_are_of_vectors_of_doubles(kernel, signature):
    code = code_of(kernel, signature)
    assert re.search(r"fdiv <\d+ x double>", code.stages["llvm"])
    assert left(code) == []


def test_divisions_by_constants_stay_products():
    assert "fdiv" not in code_of(by_hand, INTS.format("int32")).stages["llvm"]


def test_a_search_by_divisions_is_left_to_one_thread_after_the_other():
    assert "lanes.start" not in code_of(smallest_factors, INTS.format("int32")).stages["blocks"]
