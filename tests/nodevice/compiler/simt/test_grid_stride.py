"""Loops that threads leave one turn apart, on small functions."""

import pytest

from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.loops import grid_stride
from nodevice.compiler.simt.llvm_models import model_of

LOOP = """
define i32 @kernel(i32 range(i32 0, 64) %threadIdx.x, i32 range(i32 1, 9) %few, i64 %n, ptr %x) {
entry:
  %start = zext i32 %threadIdx.x to i64
  %step = zext i32 %few to i64
  %any = icmp slt i64 %start, %n
  br i1 %any, label %turn, label %end
turn:
  %i = phi i64 [ %start, %entry ], [ %next, %turn ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %turn ]
  %address = getelementptr i64, ptr %x, i64 %i
  %value = load i64, ptr %address
  %sum.next = add i64 %sum, %value
  %next = add nsw i64 %i, %step
  %more = icmp slt i64 %next, %n
  br i1 %more, label %turn, label %end
end:
  %total = phi i64 [ 0, %entry ], [ %sum.next, %turn ]
  store i64 %total, ptr %x
  ret i32 0
}
"""
LAST = "[ 0, %entry ], [ %sum.next, %turn ]"


def _split(text: str) -> grid_stride.Split:
    analyses = Analyses(model_of(text))
    return grid_stride.split(analyses, uniformity.analyse(analyses, frozenset()), (64, 1, 1))


def test_the_turns_that_all_threads_make_are_a_loop_that_they_are_in_together():
    split = _split(LOOP)
    assert list(split.remainders) == ["%turn"]
    flow = uniformity.analyse(Analyses(split.function), frozenset())
    assert '%"turn/uniform"' in split.function.blocks
    assert '%"turn/uniform"' not in flow.divergent
    assert split.remainders["%turn"] not in flow.divergent
    assert "%turn" in flow.divergent


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The step may be negative, is too short, or is each thread's own.
        ("zext i32 %few", "sext i32 %n32"),
        ("%next = add nsw i64 %i, %step", "%next = add nsw i64 %i, 63"),
        ("%next = add nsw i64 %i, %step", "%next = add nsw i64 %i, %start"),
        # The end is each thread's own; the guard asks for another one.
        ("icmp slt i64 %next, %n", "icmp slt i64 %next, %start"),
        ("icmp slt i64 %start, %n", "icmp sle i64 %start, %n"),
        # The start may be negative.
        ("%start = zext i32 %threadIdx.x", "%start = sext i32 %own"),
        # What the last turn loaded is used, or what is not the sum without a turn.
        (f"total = phi i64 {LAST}", "total = phi i64 [ 0, %entry ], [ %value, %turn ]"),
        (f"total = phi i64 {LAST}", "total = phi i64 [ 1, %entry ], [ %sum.next, %turn ]"),
    ],
)  # fmt: skip
def test_other_loops_stay(old, new):
    assert old in LOOP
    text = LOOP.replace(old, new).replace("%few,", "%few, i32 %n32,")
    if "%own" in text:
        text = text.replace("entry:", "entry:\n  %own = sub i32 %threadIdx.x, 8")
    split = _split(text)
    assert not split.remainders
    assert list(split.function.blocks) == ["%entry", "%turn", "%end"]
