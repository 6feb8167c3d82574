"""In which order loops are nested: the axes of a block, and loops that all threads are in."""

import re
from itertools import pairwise

import numpy as np
import pytest

import haulage
from doubles.kernels import row_sums
from haulage import cuda
from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.exits import early_exits
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.loops.loop_order import LoopOrders, axis_order
from nodevice.compiler.simt.llvm_models import SUMS, model_of

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


def test_an_axis_that_a_kernel_has_no_index_of_is_not_the_innermost():
    text = ROWS.replace("ROW", "x").replace(
        "%column = zext i32 %threadIdx.COLUMN", "%column = zext i32 7"
    )
    assert axis_order(Analyses(model_of(text)), (16, 16, 1)) == "zyx"


def orders(text, threads=256, private=(), may_jam=True, leaving=False):
    """(the loops that are interchanged, those that are strip-mined) of a function."""
    analyses = Analyses(model_of(text))
    exits = frozenset(analyses.get(early_exits)) if leaving else frozenset()
    names = frozenset(room.name for room in private)
    flow = uniformity.analyse(analyses, names, exits)
    found = LoopOrders(analyses, flow, tuple(private), may_jam, 0, threads)
    return found.interchanged(), list(found.strips())


def sums(row, turn, last="%n"):
    return SUMS.replace("ROW", row).replace("TURN", turn).replace("LAST", last)


KEPT, MINED = ([], []), (["%loop"], ["%loop"])


@pytest.mark.parametrize(
    ("row", "turn", "found"),
    [
        # What all threads read, or side by side: near the iteration before, or in another row.
        ("0", "1", MINED),
        ("1", "1", MINED),
        ("1", "%n", MINED),
        ("1", "1024", MINED),
        # A row of its own for each of them.
        ("%n", "1", KEPT),
    ],
)
def test_a_thread_goes_through_its_row_alone_and_all_go_through_columns_together(row, turn, found):
    assert orders(sums(row, turn)) == found


def test_one_thread_has_nobody_to_go_with():
    assert orders(sums("1", "%n"), threads=1) == KEPT


def test_a_loop_that_threads_leave_at_different_times_is_left_alone():
    assert orders(sums("1", "%n", last="%t")) == KEPT


def test_a_loop_of_one_thread_of_the_block_is_its_own():
    text = sums("1", "%n").replace(
        "br label %loop\nloop", "br i1 %first, label %loop, label %out\nloop"
    )
    text = text.replace("%start =", "%first = icmp eq i64 %t, 0\n  %start =")
    text = text.replace("end:", "out:\n  ret i32 0\nend:")
    assert orders(text) == KEPT


def test_short_loops_of_a_known_length_are_left_to_be_unrolled():
    assert orders(sums("1", "%n", last="16")) == KEPT
    assert orders(sums("1", "%n", last="160")) == MINED


def test_what_is_made_from_counters_alone_does_not_count_when_a_loop_is_unrolled():
    assert orders(sums("1", "1", last="48")) == KEPT
    assert orders(sums("1", "%n", last="48")) == MINED


def test_a_loop_that_carries_nothing_is_interchanged_and_not_strip_mined():
    text = sums("1", "%n").replace("fadd float %sum, %value", "fadd float 1.0, %value")
    text = "\n".join(line for line in text.splitlines() if "%sum = phi" not in line)
    assert orders(text.replace("store float %sum.next", "store float 1.0")) == (["%loop"], [])


def whole_sums(row, turn, last="%n"):
    text = sums(row, turn, last).replace("float [ 0.0", "i64 [ 0").replace("fadd float", "add i64")
    text = text.replace("load float", "load i64").replace("float, ptr", "i64, ptr")
    return text.replace("store float", "store i64")


# Two numbers change places in each iteration.
SWAPPED = whole_sums("%n", "1", last="%t").replace(
    "[ %sum.next, %loop ]",
    "[ %other, %loop ]\n  %other = phi i64 [ 1, %entry ], [ %sum, %loop ]",
)


def with_mathematics_behind(text, calls=100):
    results = ["%sum.next", *(f"%result.{number}" for number in range(calls))]
    lines = [
        f"  {result} = call i64 @haulage.math.exp.f32(i64 {given})"
        for given, result in pairwise(results)
    ]
    text = text.replace("store i64 %sum.next", f"store i64 {results[-1]}")
    text = text.replace("end:\n", "end:\n" + "\n".join([*lines, ""]))
    return "declare i64 @haulage.math.exp.f32(i64)\n" + text


def test_llvm_vectorises_sums_of_whole_numbers_along_a_row():
    assert orders(whole_sums("1", "1")) == KEPT


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (whole_sums("%n", "1", last="%t"), {"%loop"}),
        # What all go round together, what waits for a sum, what is a row apart, and a search.
        (whole_sums("%n", "1"), set()),
        (sums("%n", "1", last="%t"), set()),
        (whole_sums("%n", "%n", last="%t"), set()),
        (whole_sums("%n", "1").replace("%k.next, %n", "%value, %n"), set()),
        (SWAPPED, set()),
        (with_mathematics_behind(whole_sums("%n", "1", last="%t")), set()),
    ],
)
def test_a_thread_goes_alone_through_what_llvm_vectorises(text, found):
    analyses = Analyses(model_of(text))
    flow = uniformity.analyse(analyses, frozenset())
    assert LoopOrders(analyses, flow, (), True, 0, 256).auto_vectorized() == found


def test_letters_of_lines_are_not_gathered_letter_by_letter():
    def letters(text, starts, letter, counts):
        line = cuda.grid(1)
        if line < counts.size:
            total = 0
            for k in range(starts[line], starts[line + 1]):
                if text[k] == letter:
                    total += 1
            counts[line] = total

    signature = "void(uint8[::1], int64[::1], int64, int32[::1])"
    stages = haulage.compile(letters, signature, block=64).stages
    assert "@haulage.region.0" in stages["work-item-loops"]
    assert "lanes." not in stages["work-item-loops"]
    random = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(random.integers(0, 70, 100))])
    text, counts = random.integers(97, 110, starts[-1], np.uint8), np.zeros(100, np.int32)
    cuda.jit(letters)[2, 64](text, starts, 101, counts)
    np.testing.assert_array_equal(counts, np.diff(np.cumsum([0, *(text == 101)])[starts]))


def test_what_is_read_from_a_place_that_stays_is_not_gathered_again():
    fixed = sums("%n", "0")
    assert orders(fixed)[1] == ["%loop"]
    assert orders(sums("%n", "1")) == KEPT


def test_memory_of_each_thread_is_not_read_in_strips():
    own = [Storage("%data", 1 << 15, 16)]
    assert orders(sums("1", "1024")) == MINED
    assert orders(sums("1", "1024"), private=own) == KEPT


def test_rows_that_are_written_are_written_whole():
    text = sums("1", "%n").replace(
        "%done = icmp", "store float %sum.next, ptr %address\n  %done = icmp"
    )
    assert orders(text, threads=64) == MINED
    assert orders(text, threads=256) == (["%loop"], [])


def test_threads_that_leave_one_by_one_are_not_asked_in_each_iteration_whether_they_have_left():
    text = sums("1", "1").replace("icmp eq i64 %k.next, %n", "icmp sgt i64 %k.next, %t")
    assert orders(text, leaving=True) == KEPT


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
        ("%n", "5", []),
    ],
)
def test_the_loop_around_what_is_unrolled_is_the_innermost_that_is_left(inner, outer, headers):
    assert orders(NEST.replace("INNER", inner).replace("OUTER", outer)) == (headers, [])


def test_a_chain_of_loads_waits_so_long_that_all_threads_go_together():
    text = SUMS.replace("%value = load float", "%value = load i64").replace("float %", "i64 %")
    text = text.replace("phi float [ 0.0", "phi i64 [ 0").replace("fadd i64", "add i64")
    text = text.replace("%start, %step", "%start, %sum").replace("store float", "store i64")
    text = text.replace("ROW", "%n").replace("TURN", "1").replace("LAST", "%n")
    assert orders(text, may_jam=False)[0] == ["%loop"]
    # Though threads leave it one by one.
    text = text.replace("icmp eq i64 %k.next, %n", "icmp sgt i64 %k.next, %t")
    assert orders(text, may_jam=False, leaving=True) == (["%loop"], [])
    assert orders(text, may_jam=False) == KEPT


def test_a_kernel_that_sums_rows_has_no_gathers():
    text = haulage.compile(row_sums, "void(float32[:,::1], float32[::1])", block=128).stages["llvm"]
    assert "llvm.masked.gather" not in text


def test_sums_of_a_tile_stay_in_registers():
    def forces(x, out):
        tile = cuda.shared.array(128, "float32")
        i, t = cuda.grid(1), cuda.threadIdx.x
        here = x[i]
        total = here - here
        for start in range(0, x.size, 128):
            tile[t] = x[start + t]
            cuda.syncthreads()
            for k in range(128):
                distance = tile[k] - here
                total += distance / (distance * distance + here)
            cuda.syncthreads()
        out[i] = total

    code = haulage.compile(forces, "void(float32[::1], float32[::1])", block=128)
    # The loop over the tile is no region of its own: a start, and one behind each barrier.
    assert (code.metadata["strategy"], code.metadata["regions"]) == ("regions", 3)
    assert re.search(r"phi <\d+ x float>", code.stages["llvm"])


def _lit(normals, lights, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        y = normals[i, 1]
        total = y - y
        for k in range(lights.size):
            total += lights[k] * y
        out[i, 1] = total


def _scaled(x, factors, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        y = x[i]
        for k in range(factors.size):
            y = y * factors[k] + y
        out[i] = y


def test_lanes_do_not_ask_for_a_guard_that_is_a_range_of_threads():
    code = haulage.compile(_scaled, "void(float32[::1], float32[::1], float32[::1])", block=256)
    assert re.search(r"phi <\d+ x float>", code.stages["llvm"])
    assert "%lanes.from" in code.stages["blocks"]
    assert not re.search(r"icmp \w+ <\d+ x i64>", code.stages["llvm"])


def test_what_lies_apart_stays_out_of_chunks():
    code = haulage.compile(_lit, "void(float32[:,::1], float32[::1], float32[:,::1])", block=256)
    assert code.metadata["regions"] == 3
    assert "llvm.masked.gather" not in code.stages["blocks"]
    assert "llvm.masked.scatter" not in code.stages["blocks"]
