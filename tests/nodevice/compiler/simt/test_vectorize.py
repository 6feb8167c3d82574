"""Whole-function vectorisation: the order of blocks, shapes of values, which regions are taken, and
what is written for them."""

import dataclasses
import math
import re

import pytest

import haulage
from haulage import cuda
from haulage.compiler import llvm
from haulage.compiler.simt import pipeline
from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.emit.region_function import RegionFunctions
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.reader import read_instruction
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.regions import fission, parallel_regions
from haulage.compiler.simt.vectorize.builder import VectorBuilder, has_vector_form, is_scalarized
from haulage.compiler.simt.vectorize.function import VectorizedRegion, can_vectorize, run_strips
from haulage.compiler.simt.vectorize.shapes import Irreducible, LinearOrder, Shapes
from haulage.targets.cpu import host
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


def shapes_of(text):
    function = model_of(text)
    order = LinearOrder(function.blocks, function.entry)
    known = {"%threadIdx.x": 1, "%n": 0, "%data": 0}
    return Shapes(function.blocks, order, known, frozenset(("%threadIdx.x",)))


def vectorized(text, width=8):
    """The one region of a kernel on vectors."""
    function = model_of(text)
    flow = uniformity.analyse(Analyses(function), frozenset())
    regions = parallel_regions.divide(Analyses(fission.split(function, [])), flow, frozenset())
    body = Body("", function, (), (), False, False)
    functions = RegionFunctions(body, regions)
    (region,) = regions.regions
    assert can_vectorize(functions, region)
    return VectorizedRegion(functions, region, (64, 1, 1), ("x",), width)


def returned(builder, kind, value):
    """The number that a value is, as LLVM folds it."""
    builder.ret(kind, value)
    module = llvm.parse(definition(builder.function).replace("internal", ""))
    llvm.optimise(module, host(), 3, widen=False, unroll=True)
    return int(re.search(rf"ret {kind} (-?\d+)", str(module))[1])


def test_loops_stand_together_and_within_one_another():
    function = model_of(NESTED)
    order = LinearOrder(function.blocks, function.entry)
    assert order.labels == ["%entry", "%own", "%same", "%latch", "%end"]
    (entry, own, end) = order.items(None)
    assert (entry[0], own[0], end[0]) == ("%entry", "%own", "%end")
    assert [label for label, _ in order.items(own[1])] == ["%own", "%same", "%latch"]
    assert order.equivalent["%end"] in ("%own", "%entry")
    assert order.equivalent["%latch"] in ("%own", "%same")


# The loop of two blocks is left in both; what is behind either is not among its blocks.
LEFT_TWICE = """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {
entry:
  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %k.next, %other ], [ %k.next, %one ]
  %k.next = add i32 %k, 1
  %odd = icmp ult i32 %threadIdx.x, %k
  br i1 %odd, label %one, label %other
one:
  %found = icmp eq i32 %k, %n
  br i1 %found, label %first, label %head
other:
  %late = icmp eq i32 %k, 9
  br i1 %late, label %second, label %head
first:
  br label %end
second:
  br label %end
end:
  %how = phi i32 [ 1, %first ], [ 2, %second ]
  ret i32 %how
}
"""


def test_the_blocks_of_a_loop_stand_together_however_it_is_left():
    function = model_of(LEFT_TWICE)
    order = LinearOrder(function.blocks, function.entry)
    place = order.labels.index
    assert max(map(place, ("%head", "%one", "%other"))) < min(map(place, ("%first", "%second")))
    assert "%first" not in order.equivalent
    assert order.equivalent["%end"] == "%head"
    shapes = shapes_of(LEFT_TWICE)
    assert shapes.divergent == {"%head"}
    assert shapes.of("%how") is None


def test_a_cycle_with_two_entries_cannot_be_linearised():
    function = model_of(
        """
define i32 @kernel(i1 %c) {
a:
  br i1 %c, label %b, label %d
b:
  br label %d
d:
  br label %b
}
"""
    )
    with pytest.raises(Irreducible):
        LinearOrder(function.blocks, function.entry)


# Only some lanes come to the loop, and some not to all of an iteration, but they leave together.
TOGETHER = """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {
entry:
  %odd = trunc i32 %threadIdx.x to i1
  br i1 %odd, label %loop, label %end
loop:
  %k = phi i32 [ 0, %entry ], [ %k.next, %test ]
  %sum = phi i32 [ 0, %entry ], [ %met, %test ]
  %k.next = add i32 %k, 1
  %low = icmp ult i32 %k, %threadIdx.x
  br i1 %low, label %test, label %rest
rest:
  %more = add i32 %sum, 1
  br label %test
test:
  %met = phi i32 [ %sum, %loop ], [ %more, %rest ]
  %last = icmp eq i32 %k, %n
  br i1 %last, label %end, label %loop
end:
  ret i32 0
}
"""


def test_a_loop_that_all_lanes_in_it_leave_together_is_not_divergent():
    shapes = shapes_of(TOGETHER)
    assert not shapes.divergent
    assert (shapes.of("%k"), shapes.of("%sum"), shapes.of("%met")) == (0, None, None)


def test_what_lanes_have_in_common_in_a_loop_differs_behind_it():
    shapes = shapes_of(NESTED)
    assert shapes.divergent == {"%own"}
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
    assert shapes.is_divergent("%entry")
    assert not shapes.is_divergent("%join")


@pytest.mark.parametrize(
    ("line", "has_form", "scalarized"),
    [
        ("fadd contract float %a, 1.0", True, False),
        ("frem float %a, 1.0", True, True),
        ("icmp samesign ult i64 %a, 5", True, False),
        ("load float, ptr %p, align 4, !tbaa !3", True, False),
        ("load atomic i32, ptr %p monotonic, align 4", False, True),
        ("load i128, ptr %p, align 16", False, True),
        ("call noundef range(i32 0, 9) i32 @llvm.smax.i32(i32 %a, i32 7)", True, False),
        ("call i32 @other(i32 %a)", False, True),
        ("udiv i64 %a, 8", True, False),
        ("udiv i64 %a, 7", True, True),
        ("udiv i32 %a, 7", True, False),
    ],
)
def test_which_instructions_have_a_form_on_vectors(line, has_form, scalarized):
    item = read_instruction(f"%r = {line}")
    assert has_vector_form(item) == has_form
    assert is_scalarized(item) == scalarized


@pytest.mark.parametrize("width", [8, 16])
def test_vectors_and_masks_are_what_they_are_called(width):
    def built():
        return VectorBuilder("f", (), "i64", width)

    builder = built()
    builder.store("i64", "5", builder.slot("i64"))
    lanes = builder.linear("i64", "%five", 3)
    # As a value that LLVM knows.
    entry = builder.function.blocks["%lanes.start"]
    entry.body.insert(0, read_instruction("%five = add i64 2, 3"))
    mask = builder.lanes_between("1", "4")
    assert returned(builder, "i64", builder.extract_last("i64", lanes, mask)) == 5 + 3 * 3

    builder = built()
    bits = builder.bits(builder.lanes_between("2", "5"))
    assert returned(builder, "i64", builder.cast("zext", f"i{width}", bits, "i64")) == 0b11100


# Lanes sum every third element, up to their own number of them.
SUMS = """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data, ptr %sums) {
entry:
  %wide = zext nneg i32 %threadIdx.x to i64
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  %sum = phi i32 [ 0, %entry ], [ %sum.next, %loop ]
  %place = mul i64 %k, 3
  %at = getelementptr i32, ptr %data, i64 %place
  %common = load i32, ptr %at
  %far = add i64 %place, %wide
  %near = getelementptr i32, ptr %data, i64 %far
  %own = load i32, ptr %near
  %times = mul i32 %own, %common
  %sum.next = add i32 %sum, %times
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %wide
  br i1 %more, label %loop, label %end
end:
  %out = getelementptr i32, ptr %sums, i64 %wide
  store i32 %sum.next, ptr %out
  ret i32 0
}
"""


def test_a_region_on_vectors_has_scalars_vectors_and_masks_by_the_shapes_of_its_values():
    region = vectorized(SUMS)
    assert region.is_along_rows
    function = region.function()
    loads = [item for item in function.instructions() if item.opcode == "load"]
    assert [item.type for item in loads if item.align] == ["i32"]
    called = [item.callee for item in function.instructions() if item.opcode == "call"]
    assert called == ["llvm.masked.load.v8i32.p0", "llvm.masked.store.v8i32.p0"]
    # What is in memory on the way becomes registers.
    module = llvm.parse(definition(function).replace("internal", ""))
    llvm.run_passes(module, host(), "sroa")
    assert "alloca" not in str(module)
    phis = re.findall(r"= phi (.+?) \[", str(module))
    # The counter is the same for all lanes, masks and sums are not.
    assert {"<8 x i1>", "<8 x i32>", "i64"} <= set(phis)
    assert "<8 x i64>" not in phis


# As Numba indexes: from the end if the index is negative; and an access that stays one by one.
WRAPPED = """
define i32 @kernel(i32 %threadIdx.x, i32 %n, i64 %size, ptr %data, ptr %sums) {
entry:
  %wide = zext nneg i32 %threadIdx.x to i64
  %place = sub i64 %wide, %size
  %negative = icmp slt i64 %place, 0
  %more = select i1 %negative, i64 %size, i64 0
  %index = add i64 %place, %more
  %at = getelementptr i32, ptr %data, i64 %index
  %own = load i32, ptr %at
  %old = atomicrmw add ptr %sums, i32 %own monotonic
  store i32 %old, ptr %at
  ret i32 0
}
"""


def test_accesses_that_are_most_likely_consecutive_are_tried_as_such():
    region = vectorized(WRAPPED)
    assert region.shapes.of("%at") is None
    assert region.shapes.likely("%at", "%entry") == 4
    function = region.function()
    llvm.parse(definition(function))
    called = [item.callee for item in function.instructions() if item.opcode == "call"]
    masked = [name.split(".")[2] for name in called if name.startswith("llvm.masked")]
    assert masked == ["gather", "load", "scatter", "store"]


def test_an_address_of_a_lane_that_may_be_off_is_frozen_before_it_is_asked_about():
    function = vectorized(WRAPPED).function()
    firsts = [item for item in function.instructions() if item.opcode == "extractelement"]
    users = function.users()
    found = [users[item.result] for item in firsts if item.type == "ptr"]
    assert found
    assert all([user.opcode for user in each] == ["freeze"] for each in found)


# Some lanes come to a short block, whose remainder is taken for one lane after the other.
REMAINDER = """
define i32 @kernel(i32 %threadIdx.x, float %n, ptr %data) {
entry:
  %odd = trunc i32 %threadIdx.x to i1
  %x = uitofp i32 %threadIdx.x to float
  br i1 %odd, label %some, label %end
some:
  %rest = frem float %x, %n
  br label %end
end:
  %either = phi float [ %x, %entry ], [ %rest, %some ]
  %wide = zext nneg i32 %threadIdx.x to i64
  %at = getelementptr float, ptr %data, i64 %wide
  store float %either, ptr %at
  ret i32 0
}
"""


@pytest.mark.parametrize(("opcode", "is_passed"), [("frem", True), ("fadd", False)])
def test_a_short_block_with_what_is_done_lane_by_lane_is_passed_over_where_no_lane_is(
    opcode, is_passed
):
    function = vectorized(REMAINDER.replace("frem", opcode)).function()
    assert any("lanes.here" in label for label in function.blocks) is is_passed


def test_what_has_no_form_on_vectors_is_done_for_one_active_lane_after_the_other():
    function = vectorized(WRAPPED).function()
    (label,) = (
        label for label, (at, item) in function.definitions().items() if item.opcode == "atomicrmw"
    )
    loop = function.blocks[function.definitions()[label][0]]
    assert loop.label in loop.successors
    assert [phi.type for phi in loop.phis] == ["i8", "<8 x i32>"]


def test_a_strip_loop_goes_over_all_threads_of_a_block_and_counts_lanes_within_ranges():
    total = 0
    for ranges in (None, {"x": ("3", "21"), "y": ("1", "2"), "z": ("0", "1")}):
        builder = Builder("f", (), "i32")
        builder.block("%start")
        at = builder.allocate("i32")
        builder.store("i32", "0", at)

        def count(index, linear, lanes, builder=builder, at=at):
            lanes = builder.binary("sub", "i32", *reversed(lanes)) if lanes else "8"
            counted = builder.binary("add", "i32", builder.load("i32", at), lanes)
            counted = builder.binary("add", "i32", counted, index[0])
            builder.store("i32", counted, at)

        run_strips(builder, (32, 2, 1), ("y", "x"), 8, ranges, count)
        total = returned(builder, "i32", builder.load("i32", at))
        starts = 2 * (0 + 8 + 16 + 24) if ranges is None else 0 + 8 + 16
        assert total == starts + (64 if ranges is None else 18)


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


@pytest.mark.parametrize(("features", "size"), [("+avx2", 32), ("+avx512f", 64)])
@pytest.mark.parametrize(("kernel", "x", "vectors"), [(newton, 64, 4), (decaying, 32, 2)])
def test_lanes_are_as_many_as_registers_hold_values_for(features, size, kernel, x, vectors):
    code = haulage.compile(kernel, f"void(float{x}[::1], float64[::1])", block=64)
    target = dataclasses.replace(host(), features=features)
    blocks = pipeline.transform(code.stages["clean"], target, (64, 1, 1), "auto").llvm
    lanes = set(re.findall(r"<(\d+) x double>", blocks))
    assert lanes == {f"{vectors * size // 8}"}


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


def rows_of_a_table(places, table, out):
    j, i = cuda.grid(2)
    if i < places.size and j < out.shape[1]:
        out[i, j] = table[places[i], j]


def sums_of_rows(offsets, columns, table, out):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        total = 0.0
        for k in range(offsets[i], offsets[i + 1]):
            total += table[columns[k], j]
        out[i, j] = total


@pytest.mark.parametrize(
    ("kernel", "arrays"),
    [
        (rows_of_a_table, "int32[::1], float64[:, ::1], float64[:, ::1]"),
        (sums_of_rows, "int32[::1], int32[::1], float64[:, ::1], float64[:, ::1]"),
    ],
)
def test_what_threads_of_a_row_have_in_common_is_read_once_for_all_lanes(kernel, arrays):
    blocks = haulage.compile(kernel, f"void({arrays})", block=(64, 4)).stages["blocks"]
    assert "llvm.masked.load" in blocks
    assert "gather" not in blocks
