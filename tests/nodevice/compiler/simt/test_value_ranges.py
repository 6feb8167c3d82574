"""The ranges that integers are found to be in, on small functions."""

import pytest

from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Operand
from nodevice.compiler.simt.llvm_models import model_of


def ranges_in(function):
    """A function that gives the range of a result."""
    ranges, items = ValueRanges(Analyses(function)), function.items()
    return lambda name: ranges.of(Operand(items[f"%{name}"].type, f"%{name}"))


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
    ranges = ranges_in(function)
    int32, int64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
    assert ranges("rows") == (0, 1023 * 3000)
    assert ranges("back") == (-5, 1023 * 3000 - 5)
    assert ranges("signed") == ranges("one") == int32
    assert ranges("unsigned") == (0, 2**32 - 1)
    assert ranges("rest") == (-100, 100)
    assert ranges("low") == ranges("last") == (0, 255)
    assert ranges("square") == (-(2**62) + 2**31, 2**62)
    assert ranges("cube") == ranges("k") == int64
    assert ranges("less") == (-(2**63), 7)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("call range(i32 -3, 33) i32 @llvm.ctpop.i32(i32 %n)", (-3, 32)),
        ("tail call noundef range(i32 0, 8) i32 @llvm.umin.i32(i32 %n, i32 9)", (0, 7)),
        ("call range(i32 0, 8) i32 @llvm.smin.i32(i32 %n, i32 5)", (0, 5)),
        # The end is behind the greatest number, where the least one comes.
        ("call range(i32 12, -2147483648) i32 @llvm.smax.i32(i32 %n, i32 9)", (12, 2**31 - 1)),
        ("call range(i32 8, 0) i32 @llvm.ctpop.i32(i32 %n)", (-(2**31), 2**31 - 1)),
        ("call i32 @llvm.ctpop.i32(i32 range(i32 0, 8) %n)", (-(2**31), 2**31 - 1)),
    ],
)
def test_a_call_says_in_which_range_its_result_is(made, expected):
    function = model_of(f"define i32 @kernel(i32 %n) {{\nentry:\n  %a = {made}\n  ret i32 0\n}}")
    assert ranges_in(function)("a") == expected


# k counts up to any number without wrapping, w may wrap, h is halved, j is one of two in a loop.
LOOP = """define i32 @kernel(i32 range(i32 0, 1024) %t, i64 %n) {
entry:
  %wide = zext i32 %t to i64
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %join ]
  %w = phi i64 [ 0, %entry ], [ %w.next, %join ]
  %h = phi i64 [ %wide, %entry ], [ %h.next, %join ]
  %k.next = add nuw nsw i64 %k, 1
  %w.next = add i64 %w, 1
  %h.next = lshr i64 %h, %n
  %low = and i64 %k, 255
  %twice = shl nsw i64 %k, %n
  %odd = icmp slt i64 %low, %n
  br i1 %odd, label %join, label %other
other:
  br label %join
join:
  %j = phi i64 [ %low, %loop ], [ 5, %other ]
  %more = icmp slt i64 %k.next, %n
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}"""


def test_what_goes_around_a_loop_without_wrapping_stays_above_0():
    function = model_of(LOOP)
    ranges = ranges_in(function)
    largest = 2**63 - 1
    assert ranges("k") == ranges("twice") == (0, largest)
    assert ranges("k.next") == (1, largest)
    assert ranges("w") == (-(2**63), largest)
    assert ranges("h") == (0, 1023)
    # Widened while the loop is looked at, and narrowed again.
    assert ranges("j") == (0, 255)
    known = ValueRanges(Analyses(function))
    assert [known.is_nonnegative(value) for value in ("%k", "%w", "7", "-7", "%n")] == [
        True,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("asked", "arms", "expected"),
    [
        ("icmp eq i64 %k.next, 5", "label %end, label %loop", (-1, 3)),
        # It goes past the number, or from it to it; or the loop ends where it does not.
        ("icmp eq i64 %k.next, 4", "label %end, label %loop", None),
        ("icmp eq i64 %k.next, -1", "label %end, label %loop", None),
        ("icmp eq i64 %k.next, 5", "label %loop, label %end", None),
        ("icmp eq i64 %k, 5", "label %end, label %loop", None),
    ],
)
def test_a_loop_counts_up_to_the_number_that_it_ends_at(asked, arms, expected):
    function = model_of(f"""
define i32 @kernel() {{
entry:
  br label %loop
loop:
  %k = phi i64 [ -1, %entry ], [ %k.next, %loop ]
  %k.next = add i64 %k, 2
  %asked = {asked}
  br i1 %asked, {arms}
end:
  ret i32 0
}}""")
    assert ranges_in(function)("k") == (expected or (-(2**63), 2**63 - 1))
