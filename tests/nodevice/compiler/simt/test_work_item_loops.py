"""What work-item loops are made of: regions' functions, loop nests and bounds, leaders.

Functions that are built here take no arguments, so LLVM folds what they return to a number.
"""

import itertools
import re

import pytest

from haulage.compiler import llvm
from haulage.compiler.simt.analysis import AXES, guards, uniformity
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.emit.block_function import Metadata
from haulage.compiler.simt.emit.loop_nest import (
    COUNT_DEFINITION,
    BoundsWriter,
    loop_nest,
    looped_axes,
    whole,
)
from haulage.compiler.simt.emit.region_function import RegionFunctions
from haulage.compiler.simt.emit.state_machine import follow_leader
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.regions import fission, parallel_regions
from haulage.targets.cpu import host
from nodevice.compiler.simt.llvm_models import BARRIER, model_of

SIZES = (4, 3, 2)
# What the block function declares.
DECLARATIONS = "\n".join(
    f"declare {kind} @llvm.{name}.{kind}({kind}, {kind})"
    for name, kind in itertools.product(("umin", "umax"), ("i32", "i64"))
)

# %v is used behind the barrier, in each iteration by its old and its new value; %address is mere
# arithmetic.
REGIONS = f"""
{BARRIER}
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {{
entry:
  %wide = zext i32 %threadIdx.x to i64
  %address = getelementptr float, ptr %data, i64 %wide
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k.next, %loop ]
  %v = phi float [ 1.0, %entry ], [ %v.next, %loop ]
  call void @haulage.barrier(i32 7)
  %other = load float, ptr %address
  %v.next = fadd float %v, %other
  %k.next = add i32 %k, 1
  %more = icmp ult i32 %k.next, %n
  br i1 %more, label %loop, label %end
end:
  store float %v.next, ptr %address
  ret i32 0
}}
"""


def folded(builder, kind="i32"):
    """The number that a builder's function returns, as LLVM finds."""
    module = llvm.parse("\n".join([DECLARATIONS, COUNT_DEFINITION, definition(builder.function)]))
    llvm.optimise(module, host(), 3, widen=False, unroll=True)
    return int(re.search(rf"ret {kind} (-?\d+)", str(module))[1])


def accumulator(builder, kind="i32"):
    """The address of a sum that is 0."""
    builder.block("%start")
    builder.allocate(kind, name="%sum")
    builder.store(kind, "0", "%sum")
    return builder


def add(builder, value, kind="i32"):
    old = builder.load(kind, "%sum")
    builder.store(kind, builder.binary("add", kind, old, value), "%sum")


def finish(builder, kind="i32"):
    builder.ret(kind, builder.load(kind, "%sum"))
    return folded(builder, kind)


def functions_of_regions(text):
    function = model_of(text)
    present = Analyses(function).get(uniformity.analyse, frozenset())
    regions = parallel_regions.divide(Analyses(fission.split(function, [])), present, frozenset())
    body = Body("", function, (), (), False, False)
    functions = RegionFunctions(body, regions)
    return [functions.function(region) for region in regions.regions]


def test_regions_hand_values_on_in_context_arrays_and_recompute_addresses():
    first, second = functions_of_regions(REGIONS)
    assert [each.name for each in (first, second)] == ["haulage.region.0", "haulage.region.1"]
    names = [each.name for each in second.parameters]
    assert '%"v/context"' in names
    assert not any("address" in name for name in names)
    items = second.items()
    assert items['%"v/live-in"'].address.text == '%"v/at"'
    assert items['%"v/at"'].uses == ('%"v/context"', "%thread")
    assert items['%"address/live-in"'].opcode == "getelementptr"
    end = second.blocks["%region.end"]
    assert {label for _, label in end.phis[0].incoming} <= set(second.blocks)
    assert {value for value, _ in end.phis[0].incoming} == {"1", "-1"}
    for each in (first, second):
        llvm.parse(definition(each))


# A flag that is set in front of a barrier and asked for behind it.
FLAG = f"""
{BARRIER}
define i32 @kernel(i32 %threadIdx.x, ptr %data) {{
entry:
  %wide = zext i32 %threadIdx.x to i64
  %address = getelementptr float, ptr %data, i64 %wide
  %value = load float, ptr %address
  %computed = fcmp ogt float %value, 1.0
  call void @haulage.barrier(i32 7)
  br i1 %computed, label %work, label %end
work:
  store float 0.0, ptr %address
  br label %end
end:
  ret i32 0
}}
"""


def test_bits_are_kept_as_bytes_since_llvm_widens_no_accesses_of_bits():
    first, second = functions_of_regions(FLAG)
    kept = [item for item in first.instructions() if item.opcode == "store"]
    assert [item.operands[0].type for item in kept] == ["i8"]
    items = second.items()
    assert items['%"computed/byte"'].type == "i8"
    assert items['%"computed/live-in"'].opcode == "trunc"
    for each in (first, second):
        llvm.parse(definition(each))


# Two ends of a region, behind one of which something that all threads have in common is needed.
TWO_ENDS = f"""
{BARRIER}
define i32 @kernel(i32 %threadIdx.x, i1 %asked, float %x, ptr %data) {{
entry:
  %wide = zext i32 %threadIdx.x to i64
  %address = getelementptr float, ptr %data, i64 %wide
  br i1 %asked, label %one, label %other
one:
  %common = fdiv float 1.0, %x
  call void @haulage.barrier(i32 7)
  store float %common, ptr %address
  ret i32 0
other:
  call void @haulage.barrier(i32 8)
  ret i32 0
}}
"""


def test_what_threads_have_in_common_is_stored_whichever_end_they_come_to():
    first, *_ = functions_of_regions(TWO_ENDS)
    (store,) = [item for item in first.blocks["%region.end"].body if item.opcode == "store"]
    assert store.address.text == '%"common/live-out"'
    stored = first.items()[store.operands[0].text]
    assert {value for value, _ in stored.incoming} == {"%common", "poison"}
    llvm.parse(definition(first))


@pytest.mark.parametrize(
    ("text", "uniform"),
    [
        (TWO_ENDS, [True, False, True]),
        # What each thread makes, or does, is its own.
        (TWO_ENDS.replace("float 1.0, %x", "float 1.0, %t"), [False, False, True]),
        (TWO_ENDS.replace("other:", "other:\n  store i32 1, ptr %data"), [False, False, True]),
        (TWO_ENDS.replace("other:", "other:\n  fence seq_cst"), [False, False, True]),
    ],
)
def test_regions_of_which_only_values_come_that_all_threads_have_in_common(text, uniform):
    text = text.replace("entry:", "entry:\n  %t = uitofp i32 %threadIdx.x to float")
    function = model_of(text)
    present = Analyses(function).get(uniformity.analyse, frozenset())
    regions = parallel_regions.divide(Analyses(fission.split(function, [])), present, frozenset())
    assert [each.is_uniform for each in regions.regions] == uniform


def test_what_a_region_starts_with_and_makes_again_has_two_names():
    _, second = functions_of_regions(REGIONS)
    items = second.items()
    assert items["%v.next"].uses[0] == '%"v/live-in"'
    assert {value for value, _ in items["%v"].incoming} == {"%v.next"}
    llvm.parse(definition(second))


@pytest.mark.parametrize("order", ["zyx", "xyz", "yxz"])
def test_a_nest_of_loops_visits_each_thread_once_by_its_linear_index(order):
    axes = looped_axes(SIZES, order)
    builder = accumulator(Builder("count", [], "i64", linkage=""), "i64")
    with loop_nest(builder, SIZES, axes, whole(SIZES), [()] * 3) as nest:
        # The sum of 2**index is that of different indices only.
        add(builder, builder.binary("shl", "i64", "1", nest.linear), "i64")
        assert nest.index[AXES.index(axes[-1])] == nest.innermost.index
    assert finish(builder, "i64") == 2**24 - 1


def test_loops_that_one_axis_needs_are_one():
    assert looped_axes((8, 1, 4), "zyx") == ("z", "x")
    assert looped_axes((1, 1, 1), "zyx") == ("x",)


# An i32 of the thread, and what of 8 indices along x, or 3 along y, pass.
GUARDS = {
    "icmp ult i32 %threadIdx.x, 5": lambda x, y: x < 5,
    "icmp sgt i32 %threadIdx.x, 2": lambda x, y: x > 2,
    "icmp eq i32 %threadIdx.y, 1": lambda x, y: y == 1,
    "icmp ult i32 %threadIdx.x, %n": lambda x, y: x < 100,
    "icmp eq i32 %n, 3": lambda x, y: False,
}


SIZE = "i32 range(i32 0, 1000) %n"


def guarded(condition):
    """A kernel for the threads that pass a condition, its guards, and a function with a writer of
    their bounds, in which `n` is 100."""
    function = model_of(f"""
define i32 @kernel(i32 %threadIdx.x, i32 %threadIdx.y, i32 %threadIdx.z, {SIZE}, ptr %data) {{
entry:
  %passes = {condition}
  br i1 %passes, label %work, label %end
work:
  store i32 1, ptr %data
  br label %end
end:
  ret i32 0
}}""")
    analyses = Analyses(function)
    varying = analyses.get(uniformity.analyse, frozenset()).varying
    ranges = ValueRanges(analyses)
    found = guards.of_kernel(function, varying, ranges).guards
    builder = accumulator(Builder("ranges", [], "i32", linkage=""))
    return found, BoundsWriter(builder, function.items(), {"%n": "100"}, {}), builder


@pytest.mark.parametrize("condition", GUARDS)
def test_the_threads_that_pass_a_guard_are_a_range_of_each_axis(condition):
    sizes = (8, 3, 1)
    guards, bounds, builder = guarded(condition)
    assert len(guards) == 1
    ranges = bounds.ranges(guards, whole(sizes), sizes)
    x, y = (builder.binary("sub", "i32", *reversed(ranges[axis])) for axis in "xy")
    anybody = builder.cast("zext", "i1", bounds.not_empty(ranges, whole(sizes)), "i32")
    add(builder, builder.binary("mul", "i32", builder.binary("mul", "i32", x, y), anybody))
    passes = GUARDS[condition]
    assert finish(builder) == sum(passes(x, y) for x in range(8) for y in range(3))


@pytest.mark.parametrize(
    ("states", "expected"), [((-1, 5, 7), 5), ((2, -1, -1), 2), ((-1,) * 3, 9)]
)
def test_the_leader_is_the_first_thread_that_has_not_left(states, expected):
    builder = Builder("lead", [], "i32", linkage="")
    builder.block("%start")
    builder.allocate("i32", name="%leader")
    builder.store("i32", "0", "%leader")
    builder.allocate("[3 x i32]", name="%states")
    for k, state in enumerate(states):
        builder.store("i32", str(state), builder.element("i32", "%states", str(k)))
    builder.ret("i32", follow_leader(builder, "3", "%nobody"))
    builder.block("%nobody")
    builder.ret("i32", "9")
    assert folded(builder) == expected


def test_metadata_lets_llvm_widen_a_loop():
    metadata = Metadata("!3 = !{}")
    ((kind, node),) = metadata.thread_loop(16)
    assert kind == "llvm.loop"
    assert f"{node} = distinct !{{{node}, !5, !6}}" in metadata.text()
    metadata.thread_loop(16, masked=True)
    assert '!{!"llvm.loop.vectorize.predicate.enable", i1 true}' in metadata.text()
    assert metadata.access() == (("llvm.access.group", "!4"),)
    assert Metadata("", parallel=False).access() == ()
