"""The passes of the CPU transformation on small functions: model, uniformity, cuts, regions."""

import pytest

from haulage.compiler.ends import LEFT, code_of, forget
from haulage.compiler.simt.analysis import memory_dependence, uniformity
from haulage.compiler.simt.analysis.exits import EarlyExit, early_exits
from haulage.compiler.simt.analysis.liveness import Liveness
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import RegionEnd
from haulage.compiler.simt.regions import fission, parallel_regions
from haulage.compiler.simt.regions.parallel_regions import Rematerialization
from nodevice.compiler.simt.llvm_models import BARRIER, model_of

# v is made before a barrier and used behind it; so are an address and the uniform u.
ACROSS = (
    BARRIER
    + """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {
entry:
  %wide = zext i32 %threadIdx.x to i64
  %address = getelementptr float, ptr %data, i64 %wide
  %v = load float, ptr %address
  %u = add i32 %n, 1
  %index = mul i32 %u, %threadIdx.x
  call void @haulage.barrier(i32 7)
  %sum = fadd float %v, 1.0
  store float %sum, ptr %address
  %wider = sext i32 %index to i64
  %other = getelementptr float, ptr %data, i64 %wider
  store float %v, ptr %other
  ret i32 0
}
"""
)

# A loop of n turns that all threads make, one that depends on the thread, and a guarded barrier.
LOOPS = (
    BARRIER
    + """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {
entry:
  br label %same
same:
  %i = phi i32 [ 0, %entry ], [ %i.next, %same ]
  %i.next = add i32 %i, 1
  %i.more = icmp ult i32 %i.next, %n
  br i1 %i.more, label %same, label %own
own:
  %j = phi i32 [ 0, %same ], [ %j.next, %own ]
  %j.next = add i32 %j, 1
  %j.more = icmp ult i32 %j.next, %threadIdx.x
  br i1 %j.more, label %own, label %join
join:
  %last = phi i32 [ %j, %own ]
  %guard = icmp ult i32 %last, 3
  br i1 %guard, label %inside, label %end
inside:
  call void @haulage.barrier(i32 9)
  br label %end
end:
  %met = phi i32 [ 1, %join ], [ 2, %inside ]
  ret i32 0
}
"""
)


def test_the_model_keeps_blocks_operands_and_callees():
    function = model_of(ACROSS)
    assert [parameter.name for parameter in function.parameters] == ["%threadIdx.x", "%n", "%data"]
    (block,) = function.blocks.values()
    by_result = {item.result: item for item in block.body if item.result}
    assert by_result["%address"].uses == ("%data", "%wide")
    assert by_result["%address"].type == "ptr"
    assert [item.callee for item in block.body if item.opcode == "call"] == ["haulage.barrier"]
    assert block.successors == ()


def test_the_model_reads_phis_and_the_order_of_targets():
    function = model_of(LOOPS)
    assert function.blocks["%own"].phis[0].incoming == (("0", "%same"), ("%j.next", "%own"))
    assert function.blocks["%join"].successors == ("%inside", "%end")


def test_values_vary_with_the_thread_and_where_threads_meet_again():
    flow = uniformity.analyse(Analyses(model_of(LOOPS)), frozenset())
    assert {"%i", "%i.next", "%i.more"}.isdisjoint(flow.varying)
    assert {"%j", "%j.next", "%last", "%guard", "%met"} <= flow.varying
    assert flow.divergent == {"%own", "%inside"}


# Where LLVM's GVN-PRE hoists no computation it merges two of the same.
WORKED_OUT_TWICE = """
define i32 @kernel(i32 %threadIdx.x, i32 %blockDim.x) {
entry:
  %is.first = icmp eq i32 %threadIdx.x, 0
  br i1 %is.first, label %first, label %others
first:
  %one = zext i32 %blockDim.x to i64
  %next = add i64 %one, 1
  br label %join
others:
  %other = zext i32 %blockDim.x to i64
  br label %join
join:
  %same = phi i64 [ %one, %first ], [ %other, %others ]
  %differs = phi i64 [ %next, %first ], [ %other, %others ]
  %of.index = phi i32 [ %threadIdx.x, %first ], [ %threadIdx.x, %others ]
  ret i32 0
}
"""


def test_what_threads_that_diverged_work_out_alike_is_uniform_where_they_meet():
    flow = uniformity.analyse(Analyses(model_of(WORKED_OUT_TWICE)), frozenset())
    assert "%same" not in flow.varying
    assert {"%differs", "%of.index"} <= flow.varying


# As `while i < n: ...` with a loop behind it: LLVM lets the first end at the header of the second.
MET_AT_A_HEADER = """
define i32 @kernel(i32 %threadIdx.x, i32 %n) {
entry:
  br label %own
own:
  %index = phi i32 [ %threadIdx.x, %entry ], [ %next, %own ]
  %next = add i32 %index, 7
  %goes.on = icmp slt i32 %next, %n
  br i1 %goes.on, label %own, label %halving
halving:
  %stride = phi i32 [ 512, %own ], [ %half, %halving ]
  %left = phi i32 [ %next, %own ], [ 0, %halving ]
  %half = lshr i32 %stride, 1
  %more = icmp ne i32 %half, 0
  br i1 %more, label %halving, label %done
done:
  ret i32 0
}
"""


def test_threads_that_diverged_enter_the_next_loop_with_one_value():
    flow = uniformity.analyse(Analyses(model_of(MET_AT_A_HEADER)), frozenset())
    assert flow.divergent == {"%own"}
    assert not flow.varying & {"%stride", "%half", "%more"}
    assert {"%next", "%left"} <= flow.varying


def test_loads_of_a_threads_own_memory_vary():
    function = model_of(
        """define i32 @kernel(ptr %own, ptr %all) {
        entry:
          %mine = load i32, ptr %own
          %ours = load i32, ptr %all
          ret i32 0
        }"""
    )
    flow = uniformity.analyse(Analyses(function), frozenset(("%own",)))
    assert "%mine" in flow.varying
    assert "%ours" not in flow.varying


# Both arrays are read at one address by all threads; one is written before the next barrier.
READ_AND_WRITTEN = (
    BARRIER
    + """
define i32 @kernel(i32 %threadIdx.x, ptr %one, ptr %other) {
entry:
  %early = load i32, ptr %one
  %place = getelementptr i32, ptr %one, i32 %threadIdx.x
  call void @haulage.barrier(i32 1)
  %late = load i32, ptr %one
  %apart = load i32, ptr %other
  store i32 %apart, ptr %place
  br label %more
more:
  %same = load i32, ptr %one
  call void @haulage.barrier(i32 2)
  %settled = load i32, ptr %one
  ret i32 0
}
"""
)


def test_loads_of_memory_written_between_the_same_barriers_vary():
    function = model_of(READ_AND_WRITTEN)
    assert memory_dependence.clobbered_loads(Analyses(function)) == {"%late", "%same"}
    flow = uniformity.analyse(Analyses(function), frozenset())
    assert {"%late", "%same"} <= flow.varying
    assert {"%early", "%apart", "%settled"}.isdisjoint(flow.varying)


def test_writes_on_the_way_around_a_loop_count():
    function = model_of(
        """define i32 @kernel(i32 %n, ptr %data) {
        entry:
          br label %loop
        loop:
          %i = phi i32 [ 0, %entry ], [ %i.next, %loop ]
          %read = load i32, ptr %data
          %at = getelementptr i32, ptr %data, i32 %i
          %i.next = add i32 %i, 1
          %old = atomicrmw add ptr %at, i32 %read monotonic
          %more = icmp ult i32 %i.next, %n
          br i1 %more, label %loop, label %end
        end:
          ret i32 0
        }"""
    )
    assert memory_dependence.clobbered_loads(Analyses(function)) == {"%read"}


def test_atomics_and_unknown_calls_vary():
    function = model_of(
        """declare i32 @unknown()
        define i32 @kernel(ptr %all) {
        entry:
          %old = atomicrmw add ptr %all, i32 1 monotonic
          %made = call i32 @unknown()
          %sum = add i32 %old, %made
          ret i32 0
        }"""
    )
    flow = uniformity.analyse(Analyses(function), frozenset())
    assert {"%old", "%made", "%sum"} <= flow.varying


def test_barriers_in_divergent_flow_are_found():
    for text, places in ((LOOPS, [9]), (ACROSS, [])):
        function = model_of(text)
        assert fission.divergent_barriers(Analyses(function), frozenset(), frozenset()) == places


def test_barriers_of_wavefronts_do_not_count_those_who_left():
    text = (
        BARRIER.replace("barrier", "wavebarrier")
        + """
        define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {
        entry:
          %out = icmp uge i32 %threadIdx.x, %n
          br i1 %out, label %end, label %stay
        stay:
          call void @haulage.wavebarrier(i32 5)
          br label %end
        end:
          ret i32 0
        }"""
    )
    function = model_of(text)
    assert early_exits(Analyses(function)) == {"%entry": EarlyExit(frozenset(("%end",)), 1)}
    assert _divergent(function) == []
    assert fission.divergent_barriers(Analyses(function), frozenset(), frozenset()) == [5]
    assert "%after.barrier.1" in fission.split(function, []).blocks
    # A barrier of the block waits for all of them.
    function = model_of(text.replace("wavebarrier", "barrier"))
    assert early_exits(Analyses(function)) == {}
    assert _divergent(function) == [5]


def _divergent(function):
    analyses = Analyses(function)
    exits = frozenset(analyses.get(early_exits))
    return fission.divergent_barriers(analyses, frozenset(), exits)


# Threads go round the barrier 5 to an end that the others do not come to (number 1 or `LEFT`), but
# then the barrier 6, from which the first end can be reached, misses those that are at number 1.
PARTING = (
    BARRIER
    + """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {{
entry:
  %out = icmp uge i32 %threadIdx.x, %n
  br i1 %out, label %end, label %stay
stay:
  store i32 1, ptr %data
  call void @haulage.barrier(i32 5)
  %more = icmp ult i32 %n, 7
  br i1 %more, label %again, label %end
again:
  call void @haulage.barrier(i32 6)
  store i32 2, ptr %data
  br label %end
end:
  %code = phi i32 [ {early}, %entry ], [ 0, %stay ], [ {late}, %again ]
  store i32 3, ptr %data
  ret i32 %code
}}
"""
)


@pytest.mark.parametrize(
    ("early", "late", "places"),
    [(1, 0, []), (LEFT, 1, []), (LEFT, LEFT, []), (1, 1, [5, 6]), (0, 1, [5])],
)
def test_barriers_of_the_block_miss_those_at_ends_that_others_may_yet_come_to(early, late, places):
    text = PARTING.format(early=code_of(early), late=code_of(late))
    assert sorted(_divergent(model_of(text))) == places
    # Who does nothing more is not missed.
    assert _divergent(model_of(text.replace("  store i32 3, ptr %data\n", ""))) == []


ALONE = (
    BARRIER
    + """
define i32 @kernel(ptr %result, i32 %threadIdx.x, i32 %n) {{
entry:
  %out = icmp uge i32 %threadIdx.x, %n
  br i1 %out, label %end, label %stay
stay:
  call void @haulage.barrier(i32 5)
  br label %end
end:
  %code = phi i32 [ {early}, %entry ], [ 0, %stay ]
  store ptr null, ptr %result
  ret i32 %code
}}
"""
)


@pytest.mark.parametrize(("early", "places"), [(1, [5]), (LEFT, [])])
def test_a_barrier_and_nothing_else_misses_all_but_those_who_returned(early, places):
    assert _divergent(model_of(ALONE.format(early=code_of(early)))) == places


def test_ends_are_forgotten_in_one_function_only():
    codes = f"define i32 @f() {{\n  ret i32 {code_of(3)}\n}}\n"
    text = codes + codes.replace("@f", '@"g h"')
    assert forget(text, "g h") == codes + 'define i32 @"g h"() {\n  ret i32 0\n}\n'


# Some threads leave at once, others out of a loop; the rest ends together.
LEAVING = """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {
entry:
  %out = icmp ugt i32 %threadIdx.x, 5
  br i1 %out, label %end, label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %latch ]
  %place = add i32 %i, %threadIdx.x
  %at = getelementptr i32, ptr %data, i32 %place
  %found = load i32, ptr %at
  %stop = icmp eq i32 %found, 0
  br i1 %stop, label %end, label %latch
latch:
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, %n
  br i1 %more, label %loop, label %end
end:
  %result = phi i32 [ 1, %entry ], [ %i, %loop ], [ 2, %latch ]
  store i32 %result, ptr %data
  ret i32 0
}
"""


def test_branches_at_which_threads_leave_for_good():
    function = model_of(LEAVING)
    arms = early_exits(Analyses(function))
    end = EarlyExit(frozenset(("%end",)), 1)
    assert arms == {"%entry": end, "%loop": end, "%latch": end}
    strict = uniformity.analyse(Analyses(function), frozenset())
    assert "%loop" in strict.divergent
    assert "%i" in strict.varying
    assert not strict.masks
    flow = uniformity.analyse(Analyses(function), frozenset(), frozenset(arms))
    assert flow.masks
    assert {"%loop", "%latch"}.isdisjoint(flow.divergent)
    assert "%i" not in flow.varying
    assert "%result" in flow.varying


def test_a_branch_before_a_barrier_lets_nobody_leave():
    function = model_of(LOOPS)
    # Behind the loop of each thread's own stands a barrier that all are to reach.
    assert early_exits(Analyses(function)) == {}


def test_a_cut_splits_the_block_and_keeps_the_rest():
    function = model_of(ACROSS)
    cut = fission.split(function, [])
    head, tail = cut.blocks.values()
    assert isinstance(head.terminator, RegionEnd)
    assert head.terminator.reason == "barrier"
    assert head.terminator.place == 7
    assert head.terminator.target == tail.label
    assert [item.result for item in head.body] == ["%wide", "%address", "%v", "%u", "%index"]
    assert tail.terminator.opcode == "ret"
    # The function that was given stays as it was.
    assert len(function.blocks) == 1


def test_a_loop_is_cut_behind_the_phis_of_its_header():
    cut = fission.split(model_of(LOOPS), ["%same"])
    header = cut.blocks["%same"]
    assert [phi.result for phi in header.phis] == ["%i"]
    assert header.body == []
    behind = cut.blocks[header.terminator.target]
    assert behind.successors == ("%same", "%own")
    # What came from the header comes from the block behind it now.
    assert cut.blocks["%same"].phis[0].incoming[1] == ("%i.next", behind.label)
    assert cut.blocks["%own"].phis[0].incoming[0] == ("0", behind.label)


def test_live_values_are_those_used_later():
    function = fission.split(model_of(ACROSS), [])
    _, behind = function.blocks
    assert Liveness(Analyses(function)).live_in([behind]) == {behind: {"%v", "%address", "%index"}}


def test_addresses_are_worked_out_again_and_loads_are_stored():
    function = fission.split(model_of(ACROSS), [])
    flow = uniformity.analyse(Analyses(model_of(ACROSS)), frozenset())
    divided = parallel_regions.divide(Analyses(function), flow, frozenset())
    first, second = divided.regions
    assert first.exits == (second.entry,)
    assert second.returns
    # v comes from memory; the address and the index are arithmetic on the thread's number and u.
    assert set(second.recomputed) == {"%address", "%index"}
    assert set(second.loaded) == {"%v", "%u"}
    assert divided.slots["%v"].varying
    assert not divided.slots["%u"].varying
    assert [step.result for step in second.steps] == ["%wide", "%address", "%index"]


def test_recomputing_stops_at_what_is_no_arithmetic():
    function = model_of(ACROSS)
    flow = uniformity.analyse(Analyses(function), frozenset())
    available = {parameter.name for parameter in function.parameters}
    recompute = Rematerialization(function, flow.varying, available)
    assert recompute.can("%address")
    assert not recompute.can("%v")
    assert recompute.leaves({"%index"}) == {"%u"}


def test_float_arithmetic_is_stored_so_that_it_is_rounded_once():
    function = model_of(
        """define i32 @kernel(i32 %threadIdx.x, ptr %data) {
        entry:
          %t = uitofp i32 %threadIdx.x to float
          %sum = fadd contract float %t, 0x3FB99999A0000000
          store float %sum, ptr %data
          ret i32 0
        }"""
    )
    recompute = Rematerialization(
        function, {"%threadIdx.x", "%t", "%sum"}, {"%threadIdx.x", "%data"}
    )
    assert recompute.can("%t")
    assert not recompute.can("%sum")


def test_a_long_chain_is_stored_unless_it_is_an_address():
    steps = ["  %x0 = add i32 %threadIdx.x, 1"]
    steps += [f"  %x{n} = mul i32 %x{n - 1}, {n + 3}" for n in range(1, 40)]
    function = model_of(
        "define i32 @kernel(i32 %threadIdx.x, ptr %data) {\nentry:\n"
        + "\n".join(steps)
        + "\n  %p = getelementptr i8, ptr %data, i32 %x39\n  store i8 0, ptr %p\n  ret i32 0\n}"
    )
    recompute = Rematerialization(
        function, {"%threadIdx.x", "%p", *(f"%x{n}" for n in range(40))}, {"%threadIdx.x", "%data"}
    )
    assert recompute.can("%x5")
    assert not recompute.can("%x39")
    assert recompute.can("%p")


@pytest.mark.parametrize("header", ["%same", "%own"])
def test_every_block_is_in_a_region(header):
    function = fission.split(model_of(LOOPS), [header])
    flow = uniformity.analyse(Analyses(model_of(LOOPS)), frozenset())
    divided = parallel_regions.divide(Analyses(function), flow, frozenset())
    assert {label for region in divided.regions for label in region.labels} == set(function.blocks)
    assert [region.number for region in divided.regions] == list(range(len(divided.regions)))
