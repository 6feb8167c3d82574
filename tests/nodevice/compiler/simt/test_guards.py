"""Guards, and what is made of them, on small functions: before and after."""

import pytest

from haulage.compiler.simt.analysis import guards, uniformity
from haulage.compiler.simt.analysis.affine import AvailableForms
from haulage.compiler.simt.analysis.guards import blocks_of_index, single_thread_blocks
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.regions import (
    fission,
    parallel_regions,
)
from nodevice.compiler.simt.llvm_models import BARRIER, model_of

GUARD = """
define i32 @kernel(i32 range(i32 0, 64) %threadIdx.x, i32 range(i32 0, 9) %few, i64 %n, ptr %p) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %d = zext nneg i32 %few to i64
  %twice = shl nuw nsw i64 %t, 1
  %scaled = mul nsw i64 %twice, %d
  %own = add i64 %t, %n
  %f = uitofp i64 %t to float
  %zero = icmp eq i64 %t, 0
  %positive = icmp sgt i64 %n, 0
  %inside = CONDITION
  br i1 %inside, label %work, label %end
work:
  store i64 %t, ptr %p
  br label %end
end:
  ret i32 0
}
"""
VARYING = {"%threadIdx.x", "%t", "%twice", "%scaled", "%own", "%f", "%zero", "%inside"}


def guards_of(condition):
    function = model_of(GUARD.replace("CONDITION", condition))
    parameters = {each.name for each in function.parameters}
    forms = AvailableForms(function.items(), VARYING, parameters, ValueRanges(Analyses(function)))
    return guards.find(function, function.entry, forms, guards.returns_idly)


@pytest.mark.parametrize(
    ("condition", "constant", "steps", "terms"),
    [
        ("icmp slt i64 %t, %n", 0, (1, 0, 0), {"%n": -1}),
        ("icmp sle i64 %twice, %n", -1, (2, 0, 0), {"%n": -1}),
        ("icmp sgt i64 %twice, %n", 0, (-2, 0, 0), {"%n": 1}),
        ("icmp ult i64 %t, %d", 0, (1, 0, 0), {"%d": -1}),
        ("icmp ne i64 %t, 0", 0, (-1, 0, 0), {}),
    ],
)
def test_a_comparison_of_an_index_with_what_is_uniform_is_a_bound(
    condition, constant, steps, terms
):
    found = guards_of(condition)
    ((guard,), labels) = found.guards, found.labels
    assert (guard.condition, guard.outcome, labels) == ("%inside", True, {"%entry"})
    (bound,) = guard.bounds
    named = {term.value: factor for term, factor in bound.form.terms}
    assert (bound.form.constant, bound.form.steps, named) == (constant, steps, terms)
    assert not bound.equation


def test_a_uniform_factor_that_is_not_negative_may_scale_the_index():
    (guard,) = guards_of("icmp slt i64 %scaled, %n").guards
    (bound,) = guard.bounds
    ((factor, form),) = bound.form.products
    assert (factor.value, form.steps, bound.axis) == ("%d", (2, 0, 0), 0)


@pytest.mark.parametrize(
    ("condition", "bits", "far"),
    [
        ("icmp ult i64 %t, %d", 64, ""),
        ("icmp slt i64 %t, %n", 64, "%n"),
        ("icmp ult i64 %t, %n", 128, ""),
        ("icmp slt i64 %scaled, %n", 128, ""),
    ],
)
def test_bounds_have_64_bits_if_at_most_one_term_has_to_be_brought_near(condition, bits, far):
    (guard,) = guards_of(condition).guards
    (bound,) = guard.bounds
    assert (bound.bits, bound.far) == (bits, far)


def test_a_conjunction_is_as_many_guards():
    found = guards_of("select i1 %zero, i1 %positive, i1 false")
    first, second = found.guards
    assert (first.condition, first.bounds[0].equation) == ("%zero", True)
    assert (second.condition, second.bounds) == ("%positive", ())


def test_an_unsigned_end_is_taken_as_unsigned():
    (guard,) = guards_of("icmp ult i64 %t, %n").guards
    (bound,) = guard.bounds
    ((end, factor),) = bound.form.terms
    assert (end.value, end.signed, factor) == ("%n", False, -1)


@pytest.mark.parametrize(
    "condition",
    ["icmp eq i64 %twice, %n", "icmp slt i64 %own, %n", "fcmp oeq float %f, 1.0"],
)
def test_what_is_no_range_is_no_guard(condition):
    assert guards_of(condition).guards == ()


EQUATIONS = """
define i32 @kernel(i32 %threadIdx.x, i32 %n, i32 %m, ptr %p) {
entry:
  %next = add i32 %threadIdx.x, 1
  %first = icmp eq i32 %threadIdx.x, 0
  %last = icmp ne i32 %next, %n
  %own = load i32, ptr %p
  %any = icmp eq i32 %threadIdx.x, %own
  %half = icmp slt i32 %threadIdx.x, %n
  %some = icmp sgt i32 %n, %m
  %byte = trunc i32 %threadIdx.x to i8
  %multiple = icmp eq i8 %byte, 0
  %wide = zext nneg i32 %threadIdx.x to i64
  %third = icmp eq i64 %wide, 2
  %both = select i1 %first, i1 %some, i1 false
  %either = select i1 %first, i1 true, i1 %some
  br i1 %last, label %end, label %mine
mine:
  store i32 1, ptr %p
  br label %end
end:
  ret i32 0
}
"""


@pytest.mark.parametrize(
    ("branch", "index"),
    [
        ("%last, label %end, label %mine", None),
        ("%any, label %mine, label %end", None),
        ("%first, label %mine, label %end", 0),
        ("%both, label %mine, label %end", 0),
        ("%third, label %mine, label %end", 2),
    ],
)
def test_blocks_that_only_threads_with_one_index_come_to(branch, index):
    analyses = Analyses(model_of(EQUATIONS.replace("%last, label %end, label %mine", branch)))
    assert single_thread_blocks(analyses) == {"%mine"}
    assert blocks_of_index(analyses) == {("%threadIdx.x", index): {"%mine"}}


@pytest.mark.parametrize(
    "branch",
    [
        "%half, label %mine, label %end",
        "%either, label %mine, label %end",
        "%some, label %mine, label %end",
        "%first, label %end, label %mine",
        "%multiple, label %mine, label %end",
    ],
)
def test_blocks_that_several_threads_come_to(branch):
    text = EQUATIONS.replace("%last, label %end, label %mine", branch)
    assert not single_thread_blocks(Analyses(model_of(text)))


HALVING = (
    BARRIER
    + """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %p) {
entry:
  br label %loop
loop:
  %d = phi i32 [ %n, %entry ], [ %half, %meet ]
  %inside = icmp ult i32 %threadIdx.x, %d
  br i1 %inside, label %work, label %meet
work:
  store i32 %d, ptr %p
  br label %meet
meet:
  call void @haulage.barrier(i32 1)
  %half = lshr i32 %d, 1
  %more = icmp ne i32 %half, 0
  br i1 %more, label %loop, label %behind
behind:
  %first = icmp eq i32 %threadIdx.x, 0
  br i1 %first, label %sum, label %last
sum:
  store i32 %half, ptr %p
  br label %last
last:
  store i32 2, ptr %p
  ret i32 0
}
"""
)


def test_regions_begin_at_guards_behind_barriers_and_end_behind_what_they_guard():
    function = model_of(HALVING)
    flow = Analyses(function).get(uniformity.analyse, frozenset())
    assert fission.guard_places(Analyses(function), flow, set()) == ["%behind", "%loop", "%last"]
    assert fission.guard_places(Analyses(function), flow, {"%behind"}) == ["%loop"]


# Behind the barrier threads take two ways, and meet in front of the loop's end.
MERGING = (
    BARRIER
    + """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %p) {
entry:
  br label %loop
loop:
  %d = phi i32 [ %n, %entry ], [ %half, %meet ]
  call void @haulage.barrier(i32 1)
  %odd = trunc i32 %threadIdx.x to i1
  br i1 %odd, label %work, label %meet
work:
  %more.work = mul i32 %d, %threadIdx.x
  br label %meet
meet:
  %value = phi i32 [ 0, %loop ], [ %more.work, %work ]
  %half = lshr i32 %d, 1
  %more = icmp ne i32 %half, 0
  br i1 %more, label %loop, label %behind
behind:
  %first = icmp eq i32 %threadIdx.x, 0
  br i1 %first, label %sum, label %last
sum:
  store i32 %value, ptr %p
  br label %last
last:
  ret i32 0
}
"""
)


def test_regions_begin_at_guards_behind_a_loop_in_which_threads_diverged():
    function = model_of(MERGING)
    flow = Analyses(function).get(uniformity.analyse, frozenset())
    assert "%behind" in fission.guard_places(Analyses(function), flow, set())


# What all threads do, and two threads' work one after the other.
HALO = (
    BARRIER
    + """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %p) {
entry:
  %own = getelementptr i32, ptr %p, i32 %threadIdx.x
  store i32 1, ptr %own
  %first = icmp eq i32 %threadIdx.x, 0
  br i1 %first, label %left, label %meet
left:
  store i32 2, ptr %p
  br label %meet
meet:
  %last = icmp eq i32 %threadIdx.x, %n
  br i1 %last, label %right, label %behind
right:
  store i32 3, ptr %p
  br label %behind
behind:
  call void @haulage.barrier(i32 1)
  ret i32 0
}
"""
)
_START = """start:
  br label %entry
entry:
"""
_STORE = """behind:
  store i32 4, ptr %own
"""
_LOOP = """behind:
  %more = icmp eq i32 %n, 7
  br i1 %more, label %entry, label %end
end:
"""


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (HALO, ["%entry.guard", "%meet"]),
        # All threads do something behind the last one, too.
        (HALO.replace("behind:\n", _STORE), ["%entry.guard", "%meet", "%behind"]),
        # Nothing is done in front of the first one.
        (HALO.replace("  store i32 1, ptr %own\n", ""), []),
        # Several threads pass.
        (HALO.replace("icmp eq", "icmp ult"), []),
        # A loop without a barrier.
        (HALO.replace("entry:\n", _START).replace("behind:\n", _LOOP), []),
    ],
)
def test_guards_of_single_threads_are_set_apart_from_what_all_threads_do(text, places):
    function = model_of(text)
    flow = Analyses(function).get(uniformity.analyse, frozenset())
    apart, found = fission.with_guards_apart(Analyses(function), flow)
    assert found == places
    assert ("%entry.guard" in apart.blocks) == ("%entry.guard" in found)
    if found:
        assert not apart.blocks["%entry.guard"].body
        assert apart.blocks["%entry"].successors == ("%entry.guard",)


def ranges_of(text, varying):
    function = model_of(text)
    flow = Uniformity(frozenset(varying), frozenset())
    regions = parallel_regions.divide(Analyses(fission.split(function, [])), flow, frozenset())
    values = regions.analyses.get(ValueRanges)
    return parallel_regions.with_guards(regions, flow.varying, values, ())


# The threads go on in two ways; who does not pass the one guard goes another than by the other.
TWO_ENDS = f"""
{BARRIER}
define i32 @kernel(i32 range(i32 0, 64) %threadIdx.x, i32 %n, ptr %p) {{
entry:
  call void @haulage.barrier(i32 0)
  %some = icmp ult i32 %threadIdx.x, 9
  br i1 %some, label %inside, label %ONE
inside:
  %fewer = icmp ult i32 %threadIdx.x, 5
  br i1 %fewer, label %work, label %OTHER
work:
  store i32 1, ptr %p
  br label %one
one:
  call void @haulage.barrier(i32 0)
  ret i32 0
other:
  call void @haulage.barrier(i32 0)
  store i32 2, ptr %p
  ret i32 0
}}
"""


@pytest.mark.parametrize(
    ("one", "other", "expected"), [("one", "one", 2), ("one", "other", 1), ("other", "one", 1)]
)
def test_who_passes_no_guard_of_a_region_goes_on_the_same_way_by_all(one, other, expected):
    text = TWO_ENDS.replace("ONE", one).replace("OTHER", other)
    found = ranges_of(text, {"%threadIdx.x", "%some", "%fewer"})
    assert len(found.regions[1].guards) == expected
