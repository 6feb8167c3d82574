"""Recurrences and trip counts of loops, on a small function."""

import pytest

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.induction import Recurrence, recurrences, trip_count
from nodevice.compiler.simt.llvm_models import model_of

LOOP = """
define i32 @kernel(i64 %n, ptr %p) {
entry:
  br label %loop
loop:
  %k = phi i64 [ START, %entry ], [ %k.next, %loop ]
  %down = phi i64 [ 9, %entry ], [ %down.next, %loop ]
  %rows = phi i64 [ 0, %entry ], [ %rows.next, %loop ]
  %at = phi ptr [ %p, %entry ], [ %at.next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %loop ]
  %k.next = add i64 %k, 2
  %down.next = sub i64 %down, 1
  %rows.next = add i64 %rows, %n
  %at.next = getelementptr i32, ptr %at, i64 1
  %value = load i64, ptr %at
  %sum.next = add i64 %sum, %value
  %done = icmp eq i64 %k.next, LAST
  br i1 %done, label %end, label %loop
end:
  ret i32 0
}
"""


def loop_of(start, last):
    function = model_of(LOOP.replace("START", start).replace("LAST", last))
    (loop,) = control_flow.Graph(function.successors(), function.entry).loops
    return function, loop


def test_what_changes_by_the_same_number_in_each_iteration():
    assert recurrences(*loop_of("0", "8")) == {
        "%k": Recurrence("%k.next", 2),
        "%down": Recurrence("%down.next", -1),
        "%rows": Recurrence("%rows.next", None),
        "%at": Recurrence("%at.next", 4),
    }


@pytest.mark.parametrize(
    ("start", "last", "count"), [("0", "8", 4), ("2", "8", 3), ("%n", "8", None), ("0", "%n", None)]
)
def test_trip_counts_follow_from_constants(start, last, count):
    assert trip_count(*loop_of(start, last)) == count
