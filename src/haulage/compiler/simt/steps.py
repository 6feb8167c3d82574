"""What each pass does, in the order in which `passes.py` declares them."""

from dataclasses import replace

from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.exits import early_exits
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.single_thread import single_thread_blocks
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.compilation import SCALAR, Compilation, vector_bits
from haulage.compiler.simt.coroutines import lowering
from haulage.compiler.simt.emit.block_function import Metadata
from haulage.compiler.simt.loops import (
    block_atomics,
    block_coalescing,
    grid_stride,
    integer_divisions,
    loop_order,
    privatization,
)
from haulage.compiler.simt.regions import fission, iteration_ranges, parallel_regions
from haulage.compiler.simt.vectorize import plan
from haulage.compiler.simt.work_items import warp_collectives, work_item_loops
from haulage.compiler.simt.work_items.state_machine import Schedule
from haulage.targets.cpu import DYNAMIC_SHARED

# ---- memory and divergence, whatever the strategy -----------------------------------------------


def make_atomics_plain(state: Compilation) -> bool:
    return block_atomics.mark_plain(state.analyses, state.own_memory | {f"%{DYNAMIC_SHARED}"})


def privatize(state: Compilation) -> bool:
    own = state.own_memory | {f"%{DYNAMIC_SHARED}"}
    state.privatized = privatization.find(state.analyses, own)
    state.copies = privatization.mark(state.analyses, state.privatized)
    return bool(state.privatized)


def mask_early_exits(state: Compilation) -> None:
    state.exits = state.analyses.get(early_exits)


# ---- loops --------------------------------------------------------------------------------------


def order_axes(state: Compilation) -> None:
    state.order = loop_order.axis_order(state.analyses, state.block)
    state.coalesced_order = state.order


def split_grid_stride_loops(state: Compilation) -> bool:
    if state.held:
        return False
    split = grid_stride.split(state.analyses, state.together, state.block)
    if not split.remainders:
        return False
    state.strided, state.remainders = split.uniform, split.remainders
    state.change(split.function)
    analyses = state.analyses
    staying = frozenset(analyses.get(early_exits)) - split.labels
    state.flow = analyses.get(uniformity.analyse, state.private, staying, state.lanes)
    return True


def coalesce_blocks(state: Compilation) -> bool:
    if state.lanes is not None or state.remainders or state.cooperative:
        return False
    state.coalesced = block_coalescing.axes(state.body, state.analyses, state.block)
    if state.coalesced:
        widest = block_coalescing.widest(state.block, state.coalesced)
        if state.is_on("axis-order"):
            state.coalesced_order = loop_order.axis_order(state.analyses, widest)
        state.change(block_coalescing.prepared(state.analyses, state.coalesced, state.block))
    return bool(state.coalesced)


def call_divisions(state: Compilation) -> bool:
    varying = state.flow.varying
    state.declarations = integer_divisions.call_divisions(state.analyses, varying, state.target)
    return bool(state.declarations)


def speculate_divisions(state: Compilation) -> bool:
    axes = {state.order[-1], state.coalesced_order[-1]} if state.lanes is None else {"x"}
    state.helpers = integer_divisions.speculate(state.function, state.flow.divergent, axes)
    return bool(state.helpers)


# ---- where to split -----------------------------------------------------------------------------


def split_collectives(state: Compilation) -> None:
    state.split_at_collectives = state.function.copy()
    state.collectives = warp_collectives.split(state.split_at_collectives, state.flow)


def vectorize_kernel(state: Compilation) -> None:
    if state.lanes is not None or state.remainders:
        return
    vectorizer = plan.Vectorizer(
        state.body, state.own_memory, state.geometry, state.loop_orders.live()
    )
    unwanted = state.loop_orders.auto_vectorized()
    state.vectors = vectorizer.plan_kernel(unwanted, state.flow, state.together)
    state.flow = state.together if state.vectors.stays_scalar else state.flow


def interchange_loops(state: Compilation) -> None:
    found = state.loop_orders.interchanged()
    state.interchanged = [label for label in found if label not in state.held]


def split_at_guards(state: Compilation) -> bool:
    if not state.has_ranges or state.keeps_states:
        return False
    state.at_guards = fission.guard_places(state.analyses, state.flow, state.held)
    if not barriers(state.function) or state.held:
        return False
    function, places = fission.with_guards_apart(state.analyses, state.flow)
    state.at_guards += [label for label in places if label not in state.at_guards]
    state.change(function)
    state.split_at_collectives = function.copy()
    return True


def strip_mine(state: Compilation) -> None:
    if not state.is_undecided:
        return
    found = state.loop_orders.strips()
    # A grid-stride loop goes over memory once, and that is read in one piece by all threads.
    kept = {*state.held, *state.strided}
    state.strips = [label for label in found if label not in kept]
    others = set(state.split_labels) - set(state.strips)
    around = loop_order.splits_around(state.analyses, state.flow, state.strips, others, state.inner)
    state.around_strips = {label: at for label, at in around.items() if label not in state.held}


def vectorize_regions(state: Compilation) -> None:
    if not state.is_undecided:
        return
    rare = state.analyses.get(single_thread_blocks)
    vectorizer = plan.Vectorizer(
        state.body,
        state.memory_of_regions,
        state.geometry,
        state.loop_orders.live(),
        rematerializes=state.is_on("rematerialization"),
    )
    state.split, state.vectors = vectorizer.plan_regions(
        state.split_at_collectives,
        state.split_labels,
        state.strips,
        state.around_strips,
        rare | state.loop_orders.auto_vectorized(),
        state.flow,
    )


# ---- regions ------------------------------------------------------------------------------------


def split_into_regions(state: Compilation) -> None:
    if state.vectors.regions is not None:
        state.regions, state.ranges = state.vectors.regions, state.vectors.ranges
        state.split = state.regions.function
        return
    if state.split is None:
        state.split = fission.split(state.split_at_collectives, state.split_labels)
    if state.has_ranges:
        ranges, varying = state.analyses.get(ValueRanges), state.flow.varying
        state.kernel_guards = iteration_ranges.kernel_guards(state.split, varying, ranges)
        exiting = state.flow.exiting - state.kernel_guards.labels
        state.flow = replace(state.flow, exiting=exiting)
    state.regions = parallel_regions.divide(
        Analyses(state.split),
        state.flow,
        state.memory_of_regions,
        rematerializes=state.is_on("rematerialization"),
    )


def find_ranges(state: Compilation) -> None:
    if state.vectors.regions is not None or state.lanes is not None:
        return
    assert state.regions is not None
    state.ranges = iteration_ranges.find(
        state.regions,
        state.flow.varying,
        state.analyses.get(ValueRanges),
        state.kernel_guards.guards,
    )


# ---- loops over threads -------------------------------------------------------------------------


def write_work_item_loops(state: Compilation) -> None:
    assert state.regions is not None
    ranges = state.ranges or iteration_ranges.unbounded(state.regions)
    axis = state.coalesced_order[-1]
    if (
        axis in state.coalesced
        and state.vectors.regions is None
        and not state.regions.masked
        and block_coalescing.is_profitable(state.regions, axis)
    ):
        state.wide = block_coalescing.wide_block(axis, state.block)
    if state.wide is not None:
        state.order = state.coalesced_order
    metadata = Metadata(state.body.around, parallel=state.taken != SCALAR)
    storage = warp_collectives.storage(state.collectives.values())
    text = work_item_loops.write(
        Schedule(
            replace(state.body, shared=(*state.body.shared, *storage)),
            state.regions,
            ranges,
            state.block,
            state.order,
            metadata,
            vector_bits(state.target),
            state.cooperative,
            state.vectors.vectorized,
            state.wide,
            state.lanes,
            state.collectives,
            state.off,
        )
    )
    state.parts.append(f"{text}\n\n{metadata.text()}")


def lower_to_coroutines(state: Compilation) -> None:
    state.parts.append(lowering.write(state.body, state.block, state.cooperative))
