"""Divisions of whole numbers in the code of kernels: vectors of doubles, exact."""

import re

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.loops.integer_divisions import mask_remainders, powers_of_two
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


# h is 1, 2, 4, ...; g is 3 at first, f is halved as a signed number that may be the least of all.
REMAINDERS = """define i32 @kernel(i64 range(i64 0, 1024) %t, i64 %n, i64 %m) {
entry:
  %least = shl i64 1, %n
  br label %loop
loop:
  %h = phi i64 [ 1, %entry ], [ %h.next, %loop ]
  %g = phi i64 [ 3, %entry ], [ %g.next, %loop ]
  %f = phi i64 [ %least, %entry ], [ %f.next, %loop ]
  %h.next = shl i64 %h, 1
  %g.next = shl i64 %g, 1
  %f.next = ashr i64 %f, 1
  %a = srem i64 %t, %h
  %b = srem i64 %t, %g
  %c = srem i64 %t, %f
  %d = srem i64 %m, %h
  %e = srem i64 %t, %least
  %more = icmp slt i64 %h, %n
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}
"""


def test_remainders_by_powers_of_two_are_masks():
    function = model_of(REMAINDERS)
    powers = powers_of_two(function, ValueRanges(Analyses(function)))
    assert powers == {"%h", "%h.next", "%least"}
    mask_remainders(Analyses(function), {f"%{name}" for name in "tabcde"})
    made = {item.result: item for item in function.blocks["%loop"].body}
    opcodes = {name: made[f"%{name}"].opcode for name in "abcde"}
    assert opcodes == {"a": "and", "b": "srem", "c": "srem", "d": "srem", "e": "and"}
    mask = made["%a"].uses[1]
    assert made[mask].text == f"{mask} = add i64 %h, -1"
