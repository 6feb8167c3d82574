"""How values change along the axes of a block."""

import pytest

from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.strides import IRREGULAR, UNKNOWN, by_thread
from haulage.compiler.simt.ir.model import Operand
from nodevice.compiler.simt.llvm_models import model_of

VALUES = """
define i32 @kernel(i32 %threadIdx.x, i32 %threadIdx.y, i32 %threadIdx.z, i64 %n, ptr %data) {
entry:
  %x = zext nneg i32 %threadIdx.x to i64
  %y = zext nneg i32 %threadIdx.y to i64
  %pair = shl nuw nsw i64 %x, 1
  %odd = or disjoint i64 %pair, 1
  %back = sub nsw i64 %n, %odd
  %row = mul nsw i64 %n, %y
  %sum = add nsw i64 %row, %x
  %square = mul i64 %x, %x
  %area = mul i64 %x, %y
  %address = getelementptr inbounds float, ptr %data, i64 %sum
  %fields = getelementptr [3 x i16], ptr %data, i64 %x
  %same = load i64, ptr %data
  %own = load i64, ptr %address
  %row.at = getelementptr i64, ptr %data, i64 %y
  %of.row = load i64, ptr %row.at
  %place = add i64 %of.row, %x
  %element = getelementptr float, ptr %data, i64 %place
  %sign = icmp slt i64 %back, 0
  %extra = select i1 %sign, i64 %n, i64 0
  %wrapped = add i64 %extra, %back
  br label %loop
loop:
  %k = phi i64 [ %x, %entry ], [ %k.next, %loop ]
  %mixed = phi i64 [ %x, %entry ], [ %y, %loop ]
  %k.next = add nsw i64 %k, %same
  %more = icmp slt i64 %k.next, %n
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}
"""


@pytest.mark.parametrize(
    ("value", "strides"),
    [
        ("%x", (1, 0, 0)),
        ("%odd", (2, 0, 0)),
        ("%back", (-2, 0, 0)),
        ("%row", (0, UNKNOWN, 0)),
        ("%sum", (1, UNKNOWN, 0)),
        ("%address", (4, UNKNOWN, 0)),
        ("%fields", (6, 0, 0)),
        ("%same", (0, 0, 0)),
        ("%k", (1, 0, 0)),
        ("%k.next", (1, 0, 0)),
        ("%mixed", (IRREGULAR, IRREGULAR, 0)),
        ("%square", (IRREGULAR, 0, 0)),
        ("%area", (UNKNOWN, UNKNOWN, 0)),
        ("%own", (IRREGULAR, IRREGULAR, 0)),
        ("%of.row", (0, IRREGULAR, 0)),
        ("%element", (4, IRREGULAR, 0)),
        ("7", (0, 0, 0)),
    ],
)
def test_strides_follow_arithmetic_addresses_and_loops(value, strides):
    assert by_thread(Analyses(model_of(VALUES))).of(Operand("i64", value)) == strides


def test_memory_of_a_thread_lies_behind_its_neighbours():
    analysis = by_thread(Analyses(model_of(VALUES)), [Storage("%data", 64, 16)])
    assert analysis.of(Operand("ptr", "%address")) == (68, UNKNOWN, 64)
    assert analysis.of(Operand("ptr", "%fields")) == (70, 64, 64)


def test_what_is_added_to_a_negative_index_counts_or_is_left_out():
    analyses, wrapped = Analyses(model_of(VALUES)), Operand("i64", "%wrapped")
    assert by_thread(analyses).of(wrapped) == (IRREGULAR, 0, 0)
    assert by_thread(analyses, wraparound=False).of(wrapped) == (-2, 0, 0)
