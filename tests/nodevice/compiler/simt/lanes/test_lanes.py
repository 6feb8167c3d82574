"""Regions on vectors: the order of blocks, shapes of values, which regions are taken, their
text."""

import math
import re

import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt.ir.reader import read_instruction
from haulage.compiler.simt.vectorize.layout import Irreducible, Layout
from haulage.compiler.simt.vectorize.operations import parse
from haulage.compiler.simt.vectorize.shapes import Shapes
from nodevice.compiler.simt.llvm_models import model_of

# Lanes stay in the loop `own` for as many turns as their number says, and all in `same` for %n.
NESTED = """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {
entry:
  %wide = zext i32 %threadIdx.x to i64
  br label %own
own:
  %turn = phi i32 [ 0, %entry ], [ %turn.next, %latch ]
  br label %same
same:
  %k = phi i32 [ 0, %own ], [ %k.next, %same ]
  %k.next = add i32 %k, 1
  %k.more = icmp ult i32 %k.next, %n
  br i1 %k.more, label %same, label %latch
latch:
  %turn.next = add i32 %turn, 1
  %turn.more = icmp ult i32 %turn.next, %threadIdx.x
  br i1 %turn.more, label %own, label %end
end:
  %at = getelementptr i32, ptr %data, i64 %wide
  store i32 %turn, ptr %at
  ret i32 0
}
"""

DIAMOND = """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {
entry:
  %odd = trunc i32 %threadIdx.x to i1
  br i1 %odd, label %left, label %right
left:
  br label %join
right:
  br label %join
join:
  %either = phi i32 [ 1, %left ], [ 2, %right ]
  %small = icmp ult i32 %n, 3
  br i1 %small, label %inside, label %end
inside:
  br label %end
end:
  %both = phi i32 [ 1, %join ], [ 2, %inside ]
  ret i32 0
}
"""


def laid_out(text):
    function = model_of(text)
    successors = {label: block.successors for label, block in function.blocks.items()}
    return function, Layout(successors, function.entry)


def shapes_of(text):
    function, layout = laid_out(text)
    known = {"%threadIdx.x": 1, "%n": 0, "%data": 0}
    return Shapes(function.blocks, layout, known, frozenset(("%threadIdx.x",)))


def test_loops_stand_together_and_within_one_another():
    _, layout = laid_out(NESTED)
    (entry, own, end) = layout.root.items
    assert (entry, own.header, end) == ("%entry", "%own", "%end")
    assert [getattr(item, "header", item) for item in own.items] == ["%own", "%same", "%latch"]
    assert layout.root.same["%end"] in ("%own", "%entry")


def test_a_cycle_with_two_entries_has_no_layout():
    edges = {"%a": ("%b", "%c"), "%b": ("%c",), "%c": ("%b",)}
    with pytest.raises(Irreducible):
        Layout(edges, "%a")


def test_what_lanes_have_in_common_in_a_loop_differs_behind_it():
    shapes = shapes_of(NESTED)
    assert shapes.split == {"%own"}
    assert shapes.at("%turn", "%latch") == 0
    assert shapes.at("%turn", "%end") is None
    assert shapes.at("%k", "%same") == 0


def test_addresses_step_with_the_lane():
    shapes = shapes_of(NESTED)
    assert shapes.of("%wide") == 1
    assert shapes.of("%at") == 4


def test_lanes_that_went_different_ways_differ_where_they_meet():
    shapes = shapes_of(DIAMOND)
    assert shapes.of("%either") is None
    assert shapes.of("%both") == 0
    assert shapes.branches("%entry") is None
    assert shapes.branches("%join") == 0


@pytest.mark.parametrize(
    ("line", "words", "operands"),
    [
        ("fadd contract float %a, 1.0", "fadd contract", (("float", "%a"), ("float", "1.0"))),
        ("icmp samesign ult i64 %a, 5", "icmp samesign ult", (("i64", "%a"), ("i64", "5"))),
        (
            "select i1 %c, i64 %a, i64 -1",
            "select",
            (("i1", "%c"), ("i64", "%a"), ("i64", "-1")),
        ),
        ("load float, ptr %p, align 4, !tbaa !3", "load", (("ptr", "%p"),)),
        (
            "call noundef range(i32 0, 9) i32 @llvm.smax.i32(i32 %a, i32 7)",
            "call",
            (("i32", "%a"), ("i32", "7")),
        ),
    ],
)
def test_instructions_are_taken_apart(line, words, operands):
    opcode = words.split(" ", 1)[0]
    kind = {"fadd": "float", "icmp": "i1", "select": "i64", "load": "float", "call": "i32"}[opcode]
    operation = parse(read_instruction(f"%r = {line}"))
    assert (operation.words, operation.operands, operation.type) == (words, operands, kind)


def newton(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        y = v
        while abs(y * y - v) > 1e-6 * v:
            y = 0.5 * (y + v / y)
        out[i] = y


def locked(x, out):
    while cuda.atomic.cas(x, 0, 0, 1) != 0:
        pass
    out[0] += 1
    cuda.atomic.exch(x, 0, 0)


def rows(starts, columns, values, x, out):
    i = cuda.grid(1)
    if i < out.size:
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        out[i] = total


def test_a_loop_that_threads_leave_at_different_times_runs_on_vectors():
    code = haulage.compile(newton, "void(float64[::1], float64[::1])", block=64)
    assert re.search(r"fdiv.* <\d+ x double>", code.stages["blocks"])
    loop = code.stages["llvm"]
    assert "alloca <" not in loop, "values of lanes are in memory"


def test_lanes_do_not_wait_for_one_another_at_a_lock():
    code = haulage.compile(locked, "void(int32[::1], int32[::1])", block=64)
    assert "%lanes." not in code.stages["blocks"]


def test_sums_over_scattered_elements_are_left_to_one_thread_after_the_other():
    code = haulage.compile(
        rows, "void(int32[::1], int32[::1], float64[::1], float64[::1], float64[::1])", block=64
    )
    assert "%lanes." not in code.stages["blocks"]


def decaying(x, out):
    i = cuda.grid(1)
    if i < x.size:
        left, angle, turns = x[i], x[i], 0
        while left > 0.001:
            left *= math.exp(-left - 0.01)
            angle += math.sin(angle)
            turns += 1
        out[i] = angle * turns


def test_mathematics_in_a_loop_takes_all_lanes_at_once():
    code = haulage.compile(decaying, "void(float32[::1], float64[::1])", block=64)
    blocks, loop = code.stages["blocks"], code.stages["llvm"]
    assert re.search(r"call <\d+ x double> @haulage\.math\.exp\.v\d+f64\(", blocks)
    assert not re.search(r"(?m)^declare .*@haulage\.math", loop)
    assert not re.search(r"call double @(exp|haulage\.)", loop)


def test_lanes_that_are_off_do_not_ask_the_c_library_about_their_arguments():
    blocks = haulage.compile(decaying, "void(float32[::1], float64[::1])", block=64).stages[
        "blocks"
    ]
    given = re.search(r"@haulage\.math\.sin\.v\d+f32\(<\d+ x float> (%[\w.]+)\)", blocks)[1]
    assert re.search(rf"{re.escape(given)} = select <\d+ x i1> .* zeroinitializer$", blocks, re.M)


def common_divisors(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        p, q = a[i], b[i]
        while q:
            p, q = q, p % q
        out[i] = p


def one_or_two_loops(deep):
    def kernel(starts, steps, out):
        i = cuda.grid(1)
        if i < out.size:
            at, total = starts[i], 0
            while at > 0:
                total += at
                for k in range(at & 7 if deep else 3):
                    if steps[i, k] > total:
                        total = steps[i, k + (at & 3)]
                at -= 2
            out[i] = total

    return haulage.compile(kernel, "void(int32[::1], int32[:,::1], int32[::1])", block=64)


def test_loops_that_mostly_divide_are_left_to_one_thread_after_the_other():
    code = haulage.compile(common_divisors, "void(uint64[::1], uint64[::1], uint64[::1])", block=64)
    assert "%lanes." not in code.stages["blocks"]


def test_loops_left_at_different_times_within_one_another_need_much_arithmetic():
    assert "%lanes." in one_or_two_loops(deep=False).stages["blocks"]
    assert "%lanes." not in one_or_two_loops(deep=True).stages["blocks"]


def test_lanes_that_go_the_same_way_are_not_masked_for_the_other():
    def halvings(x, out):
        i = cuda.grid(1)
        y = x[i]
        k = 0
        while k < 50 and y > 1:
            y *= x[0]
            k += 1
        out[i] = k

    code = haulage.compile(halvings, "void(float32[::1], int32[::1])", block=64)
    # How many lanes there are depends on the processor.
    assert re.search(r"fmul <\d+ x float>", code.stages["blocks"])
    assert not re.search(r"select i1 %\S+, <\d+ x i1>", code.stages["blocks"])
