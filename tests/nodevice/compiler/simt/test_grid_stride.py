"""Loops that threads leave one iteration apart, on small functions."""

import pytest

from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.induction import trip_count
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.loops import grid_stride
from nodevice.compiler.simt.llvm_models import model_of

LOOP = """
define i32 @kernel(i32 range(i32 0, 64) %threadIdx.x, i32 range(i32 1, 9) %few, i64 %n, ptr %x) {
entry:
  %start = zext i32 %threadIdx.x to i64
  %times = zext i32 %few to i64
  %step = mul nuw nsw i64 %times, 64
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


def test_the_iterations_of_all_threads_are_a_loop_that_they_are_in_together():
    split = _split(LOOP)
    assert split.remainders == ('%"stride.0/remainder"',)
    analyses = Analyses(split.function)
    flow = uniformity.analyse(analyses, frozenset())
    assert [loop.header for loop in analyses.loops] == ['%"turn/uniform"']
    assert not {'%"turn/uniform"', '%"stride.0/remainder"'} & flow.divergent
    # Who has another iteration is a range of threads.
    assert "%turn" in flow.divergent
    assert analyses.items["%i"].is_phi
    assert analyses.successors["%turn"] == ("%end",)


def test_the_index_of_the_loop_of_all_threads_is_known_not_to_be_negative():
    ranges = Analyses(_split(LOOP).function).get(ValueRanges)
    assert ranges.is_nonnegative('%"i/uniform"')
    assert ranges.is_nonnegative("%i")


@pytest.mark.parametrize(
    ("end", "step", "count"), [("400", "256", 1), ("1000", "128", 7), ("%n", "256", None)]
)
def test_how_many_iterations_all_threads_make_is_known_if_start_step_and_end_are(end, step, count):
    text = LOOP.replace("%n\n", f"{end}\n").replace("%i, %step", f"%i, {step}")
    function = _split(text).function
    (loop,) = Analyses(function).loops
    assert trip_count(function, loop) == count


@pytest.mark.parametrize(
    "total", ["[ 0, %entry ], [ %value, %turn ]", "[ 1, %entry ], [ %i, %turn ]"]
)
def test_what_is_behind_the_loop_is_of_the_last_iteration_or_from_before(total):
    split = _split(LOOP.replace(LAST, total))
    phi = split.function.items()["%total"]
    of_all, of_rest = (value for value, label in phi.incoming if label != "%turn")
    first, last = (value for value, _ in split.function.items()[of_all].incoming)
    assert of_all == of_rest
    assert total.startswith(f"[ {first}, %entry ]")
    assert last in ('%"value/uniform"', '%"i/uniform"')


COUNTED = """
define i32 @kernel(i32 range(i32 0, 64) %threadIdx.x, i64 %n, ptr %x) {
entry:
  %start = zext i32 %threadIdx.x to i64
  %distance = sub i64 %n, %start
  %none = icmp slt i64 %distance, 1
  br i1 %none, label %end, label %some
some:
  TRIPS
  %any = icmp ne i64 %trips, 0
  br i1 %any, label %turn, label %end
turn:
  %i = phi i64 [ %start, %some ], [ %next, %turn ]
  %left = phi i64 [ %trips, %some ], [ %left.next, %turn ]
  %next = add nsw i64 %i, 80
  %left.next = add nsw i64 %left, -1
  %address = getelementptr i64, ptr %x, i64 %i
  store i64 %i, ptr %address
  %more = icmp samesign ugt i64 %left, 1
  br i1 %more, label %turn, label %end
end:
  ret i32 0
}
"""
QUOTIENT = """
  %over = urem i64 %distance, 80
  %part = icmp ne i64 %over, 0
  %whole = udiv i64 %distance, 80
  %one = zext i1 %part to i64
  %trips = add nuw i64 %whole, %one
"""
SHIFTED = """
  %raised = add nuw i64 %distance, 127
  %trips = lshr i64 %raised, 7
"""


@pytest.mark.parametrize("trips", [QUOTIENT, SHIFTED])
def test_iterations_that_are_counted_down_are_not_counted(trips):
    text = COUNTED.replace("TRIPS", trips)
    split = _split(text.replace("%i, 80", "%i, 128") if trips == SHIFTED else text)
    assert split.remainders
    assert "%left" not in split.function.items()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Other numbers of iterations; a count that is used.
        ("%n, %start", "%n, 1"),
        ("urem i64 %distance, 80", "urem i64 %distance, 79"),
        ("%i, 80", "%i, 81"),
        ("i64 %left, 1", "i64 %left, 2"),
        ("store i64 %i", "store i64 %left"),
    ],
)
def test_other_counts_stay(old, new):
    text = COUNTED.replace("TRIPS", QUOTIENT)
    assert old in text
    assert not _split(text.replace(old, new)).remainders


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
