"""Which loops are turned outside the loop over the threads."""

import pytest

import haulage
from doubles.kernels import row_sums
from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.regions.loop_interchange import loops_to_interchange
from nodevice.compiler.simt.llvm_models import SUMS, model_of


def _turned(row, turn, last="%n", threads=256):
    text = SUMS.replace("ROW", row).replace("TURN", turn).replace("LAST", last)
    function = model_of(text)
    flow = uniformity.analyse(Analyses(function), frozenset())
    return loops_to_interchange(Analyses(function), flow, (), 0, threads)


@pytest.mark.parametrize(
    ("row", "turn", "headers"),
    [
        ("1", "%n", ["%loop"]),
        ("0", "1", ["%loop"]),
        ("1", "1", ["%loop"]),
        ("%n", "1", []),
        ("%n", "%n", ["%loop"]),
    ],
)
def test_a_thread_goes_through_its_row_alone_and_all_go_through_columns_together(
    row, turn, headers
):
    assert _turned(row, turn) == headers


def test_one_thread_has_nobody_to_go_with():
    assert _turned("%n", "1", threads=1) == []


def test_short_loops_of_a_known_length_are_left_to_be_unrolled():
    assert _turned("1", "%n", last="16") == []
    assert _turned("1", "%n", last="160") == ["%loop"]


NEST = """
define i32 @kernel(i32 %threadIdx.x, i32 %threadIdx.y, i32 %threadIdx.z, i64 %n, ptr %data) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  br label %outer
outer:
  %r = phi i64 [ 0, %entry ], [ %r.next, %latch ]
  br label %inner
inner:
  %k = phi i64 [ 0, %outer ], [ %k.next, %inner ]
  %k.next = add nuw nsw i64 %k, 1
  %place = add nsw i64 %t, %k
  %address = getelementptr float, ptr %data, i64 %place
  %value = load float, ptr %address
  %more = fadd float %value, 1.0
  store float %more, ptr %address
  %last = icmp eq i64 %k.next, INNER
  br i1 %last, label %latch, label %inner
latch:
  %r.next = add nuw nsw i64 %r, 1
  %done = icmp eq i64 %r.next, OUTER
  br i1 %done, label %end, label %outer
end:
  ret i32 0
}
"""


@pytest.mark.parametrize(
    ("inner", "outer", "headers"),
    [
        ("5", "%n", ["%outer"]),
        ("5", "40", ["%outer"]),
        ("5", "3", []),
        ("%n", "5", ["%inner"]),
    ],
)
def test_the_loop_around_what_is_unrolled_is_the_innermost_that_is_left(inner, outer, headers):
    function = model_of(NEST.replace("INNER", inner).replace("OUTER", outer))
    flow = uniformity.analyse(Analyses(function), frozenset())
    assert loops_to_interchange(Analyses(function), flow, (), 0, 256) == headers


def test_a_chain_of_loads_waits_so_long_that_all_threads_go_together():
    text = SUMS.replace("%value = load float", "%value = load i64").replace("float %", "i64 %")
    text = text.replace("phi float [ 0.0", "phi i64 [ 0").replace("fadd i64", "add i64")
    text = text.replace("%start, %step", "%start, %sum").replace("store float", "store i64")
    text = text.replace("ROW", "%n").replace("TURN", "1").replace("LAST", "%n")
    function = model_of(text)
    flow = uniformity.analyse(Analyses(function), frozenset())
    assert loops_to_interchange(Analyses(function), flow, (), 0, 256) == ["%loop"]


def test_a_kernel_that_sums_rows_has_no_gathers():
    text = haulage.compile(row_sums, "void(float32[:,::1], float32[::1])", block=128).stages["llvm"]
    assert "llvm.masked.gather" not in text
