"""How values change along the axes of a block, and the order of the loops chosen by that."""

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.strides import IRREGULAR, UNKNOWN, StrideAnalysis, by_thread
from haulage.compiler.simt.ir.model import Operand
from haulage.compiler.simt.loops.axis_order import axis_order
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
  %address = getelementptr inbounds float, ptr %data, i64 %sum
  %fields = getelementptr [3 x i16], ptr %data, i64 %x
  %same = load i64, ptr %data
  %own = load i64, ptr %address
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
        # Threads along z make all of these from the same.
        ("%mixed", (IRREGULAR, IRREGULAR, 0)),
        ("%square", (IRREGULAR, 0, 0)),
        ("%own", (IRREGULAR, IRREGULAR, 0)),
        ("7", (0, 0, 0)),
    ],
)
def test_strides_follow_arithmetic_addresses_and_loops(value, strides):
    assert StrideAnalysis(Analyses(model_of(VALUES))).of(Operand("i64", value)) == strides


def test_memory_of_a_thread_lies_behind_its_neighbours():
    analysis = StrideAnalysis(Analyses(model_of(VALUES)), by_thread([Storage("%data", 64, 16)]))
    assert analysis.of(Operand("ptr", "%address")) == (68, UNKNOWN, 64)
    assert analysis.of(Operand("ptr", "%fields")) == (70, 64, 64)


ROWS = """
define i32 @kernel(i32 %threadIdx.x, i32 %threadIdx.y, i32 %threadIdx.z, i64 %n, ptr %data) {
entry:
  %row = zext i32 %threadIdx.ROW to i64
  %column = zext i32 %threadIdx.COLUMN to i64
  %start = mul i64 %row, %n
  %place = add i64 %start, %column
  %address = getelementptr float, ptr %data, i64 %place
  store float 0.0, ptr %address
  ret i32 0
}
"""


@pytest.mark.parametrize(
    ("row", "column", "sizes", "order"),
    [
        ("y", "x", (16, 16, 1), "zyx"),
        ("x", "y", (16, 16, 1), "zxy"),
        ("x", "z", (8, 8, 8), "xyz"),
        ("x", "y", (256, 1, 1), "zyx"),
        ("x", "y", (1, 256, 1), "zxy"),
        ("x", "y", (1, 1, 1), "zyx"),
    ],
)
def test_the_axis_of_neighbouring_accesses_is_the_innermost(row, column, sizes, order):
    text = ROWS.replace("ROW", row).replace("COLUMN", column)
    assert axis_order(Analyses(model_of(text)), sizes) == order


def test_a_kernel_whose_rows_are_x_has_no_gathers():
    def add(a, b):
        i, j = cuda.grid(2)
        b[i, j] += a[i, j]

    signature = "void(float32[:,::1], float32[:,::1])"
    text = haulage.compile(add, signature, block=(16, 16)).stages["llvm"]
    assert "x float>" in text
    assert "llvm.masked.gather" not in text


def test_private_rooms_and_slots_follow_the_loops():
    def turned(a, b):
        own = cuda.local.array(2, np.float32)
        i, j = cuda.grid(2)
        own[i % 2] = a[i, j]
        own[1 - i % 2] = 1
        total = a[i, j] * np.float32(3)
        cuda.syncthreads()
        for k in range(b.shape[0]):
            total += b[k, j] + own[k % 2]
        a[i, j] = total

    a, b = np.random.default_rng(0).random((2, 8, 8), dtype=np.float32)
    expected = a * 3 + b.sum(axis=0) + 4 * (a + 1)
    cuda.jit(turned)[(2, 1), (4, 8)](a, b)
    np.testing.assert_allclose(a, expected, rtol=1e-5)
