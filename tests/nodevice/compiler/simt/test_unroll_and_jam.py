"""A few threads side by side where each goes through a row of its own."""

from dataclasses import replace

import pytest

import haulage
from doubles.kernels import row_sums
from haulage import cuda
from haulage.compiler import llvm
from haulage.compiler.simt.emit import unroll_and_jam
from haulage.compiler.simt.ir.writer import definition
from nodevice.compiler.simt.llvm_models import model_of

MATRIX = "void(float32[:,::1], float32[::1])"

FUNCTION = """
define { i32, i32 } @haulage.region.0(i32 %threadIdx.x, i64 %thread, i64 %n, ptr %a) {
region.start:
  %mem = alloca float
  %scaled = mul i64 %thread, %n
  %row = getelementptr float, ptr %a, i64 %scaled
  br label %loop
loop:
  %k = phi i64 [ 0, %region.start ], [ %k.next, %loop ]
  %sum = phi float [ 0.0, %region.start ], [ %sum.next, %loop ]
  %at = getelementptr float, ptr %row, i64 %k
  %value = load float, ptr %at
  %sum.next = fadd float %sum, %value
  store float %sum.next, ptr %mem
  %k.next = add i64 %k, 1
  %done = icmp eq i64 %k.next, END
  br i1 %done, label %end, label %loop
end:
  ret { i32, i32 } zeroinitializer
}"""


def test_what_differs_between_threads_is_there_for_each_of_them():
    function = model_of(FUNCTION.replace("END", "%n"))
    together = unroll_and_jam.jammed(function, "x")
    assert together.parameters == function.parameters
    items = list(together.instructions())
    results = [item.result for item in items]
    for name in ("%mem", "%scaled", "%row", "%sum", "%at", "%value", "%sum.next"):
        copies = [f'%"{name[1:]}/jam.{number}"' for number in range(1, unroll_and_jam.JAMMED)]
        assert [results.count(each) for each in (name, *copies)] == [1] * unroll_and_jam.JAMMED
    for own in ("%thread", "%threadIdx.x"):
        added = [
            item.operands[1].number for item in items if item.opcode == "add" and own in item.uses
        ]
        assert added == list(range(1, unroll_and_jam.JAMMED))
    assert results.count("%k.next") == 1
    assert [item.opcode for item in items].count("store") == unroll_and_jam.JAMMED
    llvm.parse(definition(replace(together, result="{ i32, i32 }")))


def test_threads_that_may_go_different_ways_are_not_jammed():
    assert unroll_and_jam.jammed(model_of(FUNCTION.replace("END", "%scaled")), "x") is None


def _scaled_rows(a, out):
    i = cuda.grid(1)
    if i < out.size:
        for k in range(a.shape[1]):
            a[i, k] *= 2


def _rows_until(a, out):
    i = cuda.grid(1)
    if i < out.size:
        total = out[i]
        for k in range(a.shape[1]):
            if a[i, k] < 0:
                break
            total += a[i, k]
        out[i] = total


def _normalised_rows(a, out):
    i = cuda.grid(1)
    if i < out.size:
        total = out[i]
        for k in range(a.shape[1]):
            total += a[i, k]
        for k in range(a.shape[1]):
            a[i, k] /= total


def _columns(a, out):
    i = cuda.grid(1)
    if i < out.size:
        total = out[i]
        for k in range(a.shape[0]):
            total += a[k, i]
        out[i] = total


@pytest.mark.parametrize(
    ("kernel", "block", "expected"),
    [
        (row_sums, 128, True),
        # The sum takes longer than what is widened.
        (_normalised_rows, 128, True),
        # LLVM widens these loops along the row.
        (_scaled_rows, 128, False),
        (_rows_until, 128, False),
        # Threads are neighbours in memory: an iteration of all is one vector after the other.
        (_columns, 128, False),
    ],
)
def test_sums_over_rows_are_made_side_by_side(kernel, block, expected):
    text = haulage.compile(kernel, MATRIX, block=block).stages["blocks"]
    assert unroll_and_jam.is_in(text) is expected


def test_unroll_and_jam_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("HAULAGE_CPU_PASSES", "-unroll-and-jam")
    text = haulage.compile(row_sums, MATRIX, block=128).stages["blocks"]
    assert not unroll_and_jam.is_in(text)
