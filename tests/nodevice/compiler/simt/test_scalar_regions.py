"""Which kernels are run for one thread after the other, as their threads are far apart in memory,
and which are not, in the code of their blocks."""

import re

import numpy as np
import pytest

import haulage
from doubles.kernels import butterflies
from haulage import cuda
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.loops.integer_divisions import mask_remainders, powers_of_two
from nodevice.compiler.simt.llvm_models import model_of


def products(a, b, c):
    i = cuda.grid(1)
    if i < a.shape[0]:
        for r in range(4):
            for q in range(4):
                s = np.float32(0)
                for k in range(4):
                    s += a[i, r, k] * b[i, k, q]
                c[i, r, q] = s


def gathered(x, y, places):
    i = cuda.grid(1)
    y[i] = x[places[i]] * x[i]


def searched(text, pattern, found):
    i = cuda.grid(1)
    if i <= text.size - pattern.size:
        same = 1
        for k in range(pattern.size):
            if text[i + k] != pattern[k]:
                same = 0
                break
        found[i] = same


def column_lengths(a, limit, out):
    i = cuda.grid(1)
    j = 0
    while j < a.shape[0] and a[j, i] < limit:
        j += 1
    out[i] = j


def nearest(x, y, out):
    i = cuda.grid(1)
    kept = cuda.local.array(8, np.float32)
    for k in range(8):
        kept[k] = np.inf
    for j in range(y.size):
        d = abs(x[i] - y[j])
        if d < kept[7]:
            k = 7
            while k > 0 and kept[k - 1] > d:
                kept[k] = kept[k - 1]
                k -= 1
            kept[k] = d
    for k in range(8):
        out[i, k] = kept[k]


def code_of(kernel, signature):
    return haulage.compile(kernel, signature, block=128)


MATRICES = "void(float32[:,:,::1], float32[:,:,::1], float32[:,:,::1])"


@pytest.mark.parametrize(
    ("kernel", "signature"),
    [(products, MATRICES), (butterflies(128), "void(float32[::1], float32[::1])")],
)
def test_threads_far_apart_neither_gather_nor_scatter(kernel, signature):
    code = code_of(kernel, signature).stages["llvm"]
    assert not re.search(r"call [^\n]*masked\.(gather|scatter)", code)


def test_what_is_mostly_side_by_side_is_widened():
    code = code_of(gathered, "void(float32[::1], float32[::1], int32[::1])")
    assert re.search(r"fmul <\d+ x float>", code.stages["llvm"])


def test_a_search_that_moves_on_byte_by_byte_is_for_lanes():
    code = code_of(searched, "void(uint8[::1], uint8[::1], uint8[::1])")
    assert "lanes.start" in code.stages["blocks"]


def test_a_search_down_columns_goes_over_the_whole_row_of_the_block():
    code = code_of(column_lengths, "void(float32[:,::1], float32, int64[::1])")
    assert "lanes.start" not in code.stages["blocks"]


def test_loops_in_which_each_thread_writes_to_places_of_its_own_are_not_for_lanes():
    code = code_of(nearest, "void(float32[::1], float32[::1], float32[:,::1])")
    assert "lanes.start" not in code.stages["blocks"]


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
    powers = powers_of_two(function, ValueRanges(function))
    assert powers == {"%h", "%h.next", "%least"}
    mask_remainders(function, {f"%{name}" for name in "tabcde"})
    made = {item.result: item for item in function.blocks["%loop"].body}
    opcodes = {name: made[f"%{name}"].opcode for name in "abcde"}
    assert opcodes == {"a": "and", "b": "srem", "c": "srem", "d": "srem", "e": "and"}
    mask = made["%a"].uses[1]
    assert made[mask].text == f"{mask} = add i64 %h, -1"
