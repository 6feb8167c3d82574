"""Divisions of whole numbers in the code of kernels: vectors of doubles, exact."""

import re

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt.analysis.value_ranges import integer_ranges
from haulage.targets import cpu
from nodevice.compiler.simt.llvm_models import model_of


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


def test_limits_of_integers_follow_from_their_making():
    function = model_of(
        """define i32 @kernel(i32 range(i32 0, 1024) %t, i32 %n, i64 %m, i1 %c) {
entry:
  %wide = zext i32 %t to i64
  %rows = mul nuw nsw i64 %wide, 3000
  %back = sub nsw i64 %rows, 5
  %signed = sext i32 %n to i64
  %unsigned = zext i32 %n to i64
  %one = select i1 %c, i64 %back, i64 %signed
  %rest = srem i64 %m, 100
  %low = and i64 %m, 255
  %square = mul i64 %signed, %signed
  %cube = mul i64 %square, %signed
  %less = call i64 @llvm.smin.i64(i64 %m, i64 7)
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  %k.next = add i64 %k, 1
  br i1 %c, label %loop, label %end
end:
  %last = phi i64 [ %low, %loop ]
  ret i32 0
}"""
    )
    ranges = integer_ranges(function)
    int32, int64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
    assert ranges["%rows"] == (0, 1023 * 3000)
    assert ranges["%back"] == (-5, 1023 * 3000 - 5)
    assert ranges["%signed"] == ranges["%one"] == int32
    assert ranges["%unsigned"] == (0, 2**32 - 1)
    assert ranges["%rest"] == (-100, 100)
    assert ranges["%low"] == ranges["%last"] == (0, 255)
    assert ranges["%square"] == (-(2**62) + 2**31, 2**62)
    assert ranges["%cube"] == ranges["%k"] == int64
    assert ranges["%less"] == (-(2**63), 7)
