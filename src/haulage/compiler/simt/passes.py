"""The passes of the CPU compiler, in the order in which they run, and which of them are on.

Each changes a `Compilation`; `pipeline.py` runs them. A pass is known by its name:
`HAULAGE_CPU_PASSES=-name,-name` switches some off, `haulage.compile(f, signature).stages` has what
each one left, and docs/blocks-on-the-cpu.md is ordered by this list.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from haulage.compiler.simt.analysis import guards, uniformity
from haulage.compiler.simt.analysis.affine import forms, index_forms
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.control_flow import Graph
from haulage.compiler.simt.analysis.exits import early_exits, missed_ends, skipping_edges
from haulage.compiler.simt.analysis.guards import blocks_of_index, single_thread_blocks
from haulage.compiler.simt.analysis.liveness import Liveness
from haulage.compiler.simt.analysis.manager import Analyses, Kept
from haulage.compiler.simt.analysis.memory_dependence import UnderlyingObjects
from haulage.compiler.simt.analysis.strides import by_iteration, by_thread
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.compilation import (
    AUTO,
    COROUTINES,
    REGIONS,
    SCALAR,
    Compilation,
)
from haulage.compiler.simt.coroutines import lowering
from haulage.compiler.simt.emit import warp_collectives, work_item_loops
from haulage.compiler.simt.loops import (
    atomics,
    block_coalescing,
    grid_stride,
    integer_divisions,
    loop_order,
)
from haulage.compiler.simt.loops.block_coalescing import IndexUses
from haulage.compiler.simt.loops.loop_order import LoopOrders
from haulage.compiler.simt.regions import fission, parallel_regions
from haulage.compiler.simt.vectorize import plan
from haulage.targets.cpu import DYNAMIC_SHARED


@dataclass(frozen=True)
class Pass:
    """One step: what it does, in one sentence, and where the idea comes from.

    `run` tells whether it changed the kernel; it is None for a part of others that ask whether it
    is on. `needs` are the analyses that the pass asks for, of the kernel or of what it makes of it;
    those which these ask for are theirs to name. `keeps` are those that hold when it has changed
    the kernel. It runs for some `strategies`. One that is `required` cannot be switched off:
    without it the code would be wrong, or there would be none.
    """

    name: str
    summary: str
    source: str
    run: Callable[[Compilation], bool | None] | None
    needs: tuple[Callable[..., object], ...] = ()
    keeps: Kept = Kept.ALL
    strategies: tuple[str, ...] = (REGIONS, SCALAR)
    required: bool = False


# ---- memory and divergence, whatever the strategy -----------------------------------------------


def _make_atomics_plain(state: Compilation) -> bool:
    return atomics.mark_plain(state.analyses, state.own_memory | {f"%{DYNAMIC_SHARED}"})


def _privatize(state: Compilation) -> bool:
    own = state.own_memory | {f"%{DYNAMIC_SHARED}"}
    state.privatized = atomics.find_reductions(state.analyses, own)
    state.copies = atomics.mark_reductions(state.analyses, state.privatized)
    return bool(state.privatized)


def _mask_early_exits(state: Compilation) -> None:
    state.exits = state.analyses.get(early_exits)


# ---- loops --------------------------------------------------------------------------------------


def _order_axes(state: Compilation) -> None:
    state.order = loop_order.axis_order(state.analyses, state.block)
    state.coalesced_order = state.order


def _split_grid_stride_loops(state: Compilation) -> bool:
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


def _coalesce_blocks(state: Compilation) -> bool:
    if state.lanes is not None or state.remainders or state.cooperative:
        return False
    state.coalesced = block_coalescing.axes(state.body, state.analyses, state.block)
    if state.coalesced:
        widest = block_coalescing.widest(state.block, state.coalesced)
        if state.is_on("axis-order"):
            state.coalesced_order = loop_order.axis_order(state.analyses, widest)
        state.change(block_coalescing.prepared(state.analyses, state.coalesced, state.block))
    return bool(state.coalesced)


def _call_divisions(state: Compilation) -> bool:
    varying = state.flow.varying
    state.declarations = integer_divisions.call_divisions(state.analyses, varying, state.target)
    return bool(state.declarations)


def _speculate_divisions(state: Compilation) -> bool:
    axes = {state.order[-1], state.coalesced_order[-1]} if state.lanes is None else {"x"}
    state.helpers = integer_divisions.speculate(state.function, state.flow.divergent, axes)
    return bool(state.helpers)


# ---- where to split -----------------------------------------------------------------------------


def _split_collectives(state: Compilation) -> None:
    state.split_at_collectives = state.function.copy()
    state.collectives = warp_collectives.split(state.split_at_collectives, state.flow)


def _vectorize_kernel(state: Compilation) -> None:
    if state.lanes is not None or state.remainders:
        return
    vectorizer = plan.Vectorizer(
        state.body, state.own_memory, state.geometry, state.loop_orders.live()
    )
    unwanted = state.loop_orders.auto_vectorized()
    state.vectors = vectorizer.plan_kernel(unwanted, state.flow, state.together)
    state.flow = state.together if state.vectors.stays_scalar else state.flow


def _interchange_loops(state: Compilation) -> None:
    found = state.loop_orders.interchanged()
    state.interchanged = [label for label in found if label not in state.held]


def _split_at_guards(state: Compilation) -> bool:
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


def _strip_mine(state: Compilation) -> None:
    if not state.is_undecided:
        return
    found = state.loop_orders.strips()
    # A grid-stride loop goes over memory once, and that is read in one piece by all threads.
    kept = {*state.held, *state.strided}
    state.strips = [label for label in found if label not in kept]
    others = set(state.split_labels) - set(state.strips)
    around = loop_order.splits_around(state.analyses, state.flow, state.strips, others, state.inner)
    state.around_strips = {label: at for label, at in around.items() if label not in state.held}


def _vectorize_regions(state: Compilation) -> None:
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


def _split_into_regions(state: Compilation) -> None:
    if state.vectors.regions is not None:
        state.regions = state.vectors.regions
        state.split = state.regions.function
        return
    if state.split is None:
        state.split = fission.split(state.split_at_collectives, state.split_labels)
    if state.has_ranges:
        ranges, varying = state.analyses.get(ValueRanges), state.flow.varying
        state.kernel_guards = guards.of_kernel(state.split, varying, ranges)
        exiting = state.flow.exiting - state.kernel_guards.labels
        state.flow = replace(state.flow, exiting=exiting)
    state.regions = parallel_regions.divide(
        Analyses(state.split),
        state.flow,
        state.memory_of_regions,
        rematerializes=state.is_on("rematerialization"),
    )


def _find_ranges(state: Compilation) -> None:
    if state.vectors.regions is not None or state.lanes is not None:
        return
    assert state.regions is not None
    state.regions = parallel_regions.with_guards(
        state.regions,
        state.flow.varying,
        state.analyses.get(ValueRanges),
        state.kernel_guards.guards,
    )


# ---- loops over threads -------------------------------------------------------------------------


def _write_work_item_loops(state: Compilation) -> None:
    assert state.regions is not None
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
    state.parts.append(work_item_loops.write(state))


def _lower_to_coroutines(state: Compilation) -> None:
    state.parts.append(lowering.write(state.body, state.block, state.cooperative))


# ---- the list ------------------------------------------------------------------------------------

_ALLEN = "Allen and Kennedy, Optimizing Compilers for Modern Architectures (2001)"
_KARRENBERG = "Karrenberg and Hack, Whole-Function Vectorization (CGO 2011)"
_POCL = "Jaaskelainen et al., pocl: A Performance-Portable OpenCL Implementation (IJPP 2015)"
_SPLITTING = "Griebl, Feautrier and Lengauer, Index Set Splitting (IJPP 2000)"

PASSES = (
    # Memory and divergence, whatever the strategy.
    Pass(
        "block-atomics",
        "Atomic operations on the block's own memory become a load, an operation and a store.",
        "one thread of the system runs a whole block, so nobody else sees that memory",
        _make_atomics_plain,
        needs=(UnderlyingObjects,),
        keeps=Kept.GRAPH,
        strategies=(AUTO,),
    ),
    Pass(
        "privatized-reductions",
        "Arrays that a kernel only adds to get a copy for each chunk of blocks, merged at its end.",
        f"array privatisation; {_ALLEN}, chapter 5",
        _privatize,
        needs=(UnderlyingObjects,),
        keeps=Kept.GRAPH,
        strategies=(AUTO,),
    ),
    Pass(
        "early-exits",
        "Threads that leave for good are masked, and the others go on in step.",
        "exit masks of ispc; Pharr and Mark, ispc (InPar 2012)",
        _mask_early_exits,
        needs=(early_exits,),
        strategies=(AUTO,),
        required=True,
    ),
    # Loops.
    Pass(
        "axis-order",
        "The work-item loops are nested so that the innermost goes along neighbours in memory.",
        f"loop permutation for locality; {_ALLEN}, chapter 9",
        _order_axes,
        needs=(Graph, by_thread),
        strategies=(REGIONS, COROUTINES),
    ),
    Pass(
        "grid-stride-loops",
        "A loop by the size of the grid becomes one that all threads are in, and the rest.",
        _SPLITTING,
        _split_grid_stride_loops,
        needs=(Graph, ValueRanges, forms, early_exits, uniformity.analyse),
        keeps=Kept.NONE,
    ),
    Pass(
        "block-coalescing",
        "Blocks that follow one another along an axis are run as one wide block.",
        "thread coarsening; Magni, Dubach and O'Boyle (PACT 2014)",
        _coalesce_blocks,
        needs=(Graph, IndexUses, by_thread),
        keeps=Kept.NONE,
    ),
    Pass(
        "vector-divisions",
        "Divisions of integers become calls of functions that divide vectors by way of doubles.",
        "Warren, Hacker's Delight (2012), chapter 10, and compiler/mathematics/divisions.py",
        _call_divisions,
        needs=(ValueRanges,),
        keeps=Kept.GRAPH,
    ),
    Pass(
        "division-speculation",
        "Integer divisions that are the same for all lanes are made without their condition.",
        f"speculative code motion; {_ALLEN}, chapter 5; LLVM's vectoriser predicates them wrongly",
        _speculate_divisions,
        keeps=Kept.GRAPH,
        strategies=(REGIONS,),
        required=True,
    ),
    # Where to split.
    Pass(
        "warp-collectives",
        "Shuffles, votes and matches become a store, the end of a region, and a load.",
        "Han et al., COX: Exposing CUDA Warp-level Functions to CPUs (TACO 2022)",
        _split_collectives,
        required=True,
    ),
    Pass(
        "kernel-vectorization",
        "A kernel without barriers, whose threads leave loops at different times, is written on "
        "masked vectors as a whole.",
        _KARRENBERG,
        _vectorize_kernel,
        needs=(
            Graph,
            LoopOrders,
            by_thread,
            by_iteration,
            index_forms,
            ValueRanges,
            Liveness,
            UnderlyingObjects,
        ),
    ),
    Pass(
        "loop-interchange",
        "Uniform loops are interchanged with the work-item loop where that is the cheapest order.",
        f"loop interchange; {_ALLEN}, chapter 5; pocl's b-loops",
        _interchange_loops,
        needs=(Graph, LoopOrders, by_iteration, ValueRanges),
    ),
    Pass(
        "guard-fission",
        "Regions begin at bounds checks and end behind what these guard.",
        "loop fission, so that a check becomes the bounds of a loop",
        _split_at_guards,
        needs=(Graph, blocks_of_index, ValueRanges),
        keeps=Kept.NONE,
    ),
    Pass(
        "strip-mining",
        "Uniform loops that carry values run for strips of threads whose values fit registers.",
        f"strip-mine and interchange; {_ALLEN}, chapter 9",
        _strip_mine,
        needs=(Graph, LoopOrders, by_thread, by_iteration, ValueRanges),
    ),
    Pass(
        "region-vectorization",
        "Regions with loops that threads leave at different times are written on masked vectors.",
        _KARRENBERG,
        _vectorize_regions,
        needs=(
            Graph,
            LoopOrders,
            single_thread_blocks,
            by_iteration,
            index_forms,
            ValueRanges,
            Liveness,
            UnderlyingObjects,
        ),
    ),
    # Regions.
    Pass(
        "region-fission",
        "The kernel is split at its barriers, and at the places found above.",
        f"parallel regions; {_POCL}",
        _split_into_regions,
        needs=(ValueRanges, Liveness, UnderlyingObjects, index_forms),
        required=True,
    ),
    Pass(
        "rematerialization",
        "Cheap values are computed again in a later region instead of kept in a context array.",
        "Briggs, Cooper and Torczon, Rematerialization (PLDI 1992)",
        None,
    ),
    Pass(
        "iteration-ranges",
        "Bounds checks at a region's start become the bounds of its work-item loop.",
        _SPLITTING,
        _find_ranges,
        needs=(ValueRanges,),
    ),
    # Loops over threads.
    Pass(
        "unroll-and-jam",
        "A region that waits for a sum in each iteration runs for four threads side by side.",
        f"unroll-and-jam; {_ALLEN}, chapter 8",
        None,
    ),
    Pass(
        "delinearization",
        "Loops over threads go in runs in which a row, a quotient of the thread's index, is the "
        "same.",
        "Grosser et al., Optimistic Delinearization of Parametrically Sized Arrays (ICS 2015)",
        None,
    ),
    Pass(
        "work-item-loops",
        "Each region becomes a function, and the block function runs it in loops over threads.",
        f"work-item loops; {_POCL}",
        _write_work_item_loops,
        needs=(by_thread, ValueRanges, forms),
        required=True,
    ),
    Pass(
        "coroutine-lowering",
        "Where threads may miss a barrier or wait for one another, each is a coroutine.",
        "LLVM's Coroutines; Moura and Ierusalimschy, Revisiting Coroutines (TOPLAS 2009)",
        _lower_to_coroutines,
        needs=(skipping_edges, missed_ends),
        strategies=(COROUTINES,),
        required=True,
    ),
)


def switched_off(setting: str) -> frozenset[str]:
    """The passes that `HAULAGE_CPU_PASSES` switches off: `-name,-name`.

    Raises:
        ValueError: a name that is none, one without `-`, or of a pass that is required.
    """
    found = [part.strip() for part in setting.split(",") if part.strip()]
    by_name = {each.name: each for each in PASSES}
    for part in found:
        each = by_name.get(part.removeprefix("-"))
        if each is None or part[0] != "-":
            raise ValueError(
                f"HAULAGE_CPU_PASSES={setting!r}: {part!r} is not '-' and the name of a pass, "
                f"which are {', '.join(by_name)}; unset it for all of them"
            )
        if each.required:
            raise ValueError(
                f"HAULAGE_CPU_PASSES={setting!r}: {each.name} is required, without it there is no "
                "code; the others can be switched off"
            )
    return frozenset(part[1:] for part in found)


def optional() -> tuple[str, ...]:
    """The names of the passes that can be switched off."""
    return tuple(each.name for each in PASSES if not each.required)
