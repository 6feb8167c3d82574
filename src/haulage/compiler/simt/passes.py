"""The passes of the CPU compiler, in the order in which they run, and which of them are on.

Each is a function that changes a `Compilation`, which holds what passes hand on: the kernel, what
is known of its threads, where it is to be split, its regions and how each is run. `pipeline.py`
runs them. A pass is known by its name: `HAULAGE_CPU_PASSES=-name,-name` switches some off,
`haulage.compile(f, signature).stages` has what each one left, and docs/blocks-on-the-cpu.md is
ordered by this list.

What a pass needs of analyses it asks `Compilation.analyses` for. What still holds after it is
derived, from what it changed (`analysis/manager.py`), when it is done.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from haulage.compiler.simt.analysis import AXES, guards, uniformity
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.exits import EarlyExit, early_exits
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.single_thread import single_thread_blocks
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.analysis.warps import Warps
from haulage.compiler.simt.coroutines import lowering
from haulage.compiler.simt.emit.block_function import Metadata
from haulage.compiler.simt.emit.loop_nest import looped_axes
from haulage.compiler.simt.ir.model import Function
from haulage.compiler.simt.loops import (
    block_atomics,
    block_coalescing,
    grid_stride,
    integer_divisions,
    loop_order,
    privatization,
)
from haulage.compiler.simt.loops.block_coalescing import WideBlock
from haulage.compiler.simt.loops.loop_order import LoopOrders
from haulage.compiler.simt.loops.privatization import Reduction
from haulage.compiler.simt.regions import (
    fission,
    iteration_ranges,
    parallel_regions,
)
from haulage.compiler.simt.regions.iteration_ranges import IterationRanges
from haulage.compiler.simt.regions.parallel_regions import Regions
from haulage.compiler.simt.vectorize import plan
from haulage.compiler.simt.work_items import warp_collectives, work_item_loops
from haulage.compiler.simt.work_items.state_machine import Schedule
from haulage.compiler.simt.work_items.warp_collectives import Collective
from haulage.targets.base import Target
from haulage.targets.cpu import DYNAMIC_SHARED

# How threads are run; before it is decided, and where nobody asks for one of the others, "auto".
AUTO, REGIONS, SCALAR, COROUTINES = "auto", "regions", "scalar", "coroutines"

Block = tuple[int, int, int]


@dataclass
class Compilation:
    """One kernel on its way through the passes.

    `body` is the kernel as it is now; `block` the size of a block, `strategy` the one that was
    asked for, `taken` the one that was decided on; `off` are the passes that do not run.
    """

    body: Body
    target: Target
    block: Block
    strategy: str
    cooperative: bool
    off: frozenset[str]
    taken: str = AUTO

    # What is known of its threads. `flow` is how they diverge, without those that have left;
    # `together` with them; `lanes` which of them are a warp, if it has words of warps.
    exits: Mapping[str, EarlyExit] = field(default_factory=dict)
    lanes: Warps | None = None
    flow: Uniformity = field(init=False)
    together: Uniformity = field(init=False)
    # Labels of the blocks in which a thread may hold a lock; whether threads wait for one another.
    held: frozenset[str] = frozenset()
    waits: bool = False

    # The axes of the loops over threads, outermost first; the same where blocks are coalesced
    # along the axes `coalesced`.
    order: str = loop_order.DEFAULT_ORDER
    coalesced_order: str = loop_order.DEFAULT_ORDER
    coalesced: tuple[str, ...] = ()
    privatized: tuple[Reduction, ...] = ()
    declarations: list[str] = field(default_factory=list)
    copies: str = ""
    helpers: list[str] = field(default_factory=list)
    _analyses: Analyses | None = field(default=None, init=False)

    # Where to split: at the headers of interchanged loops, and in front of blocks. `strided` are
    # the headers of the loops that grid-stride loops became, `remainders` what they left.
    split_at_collectives: Function = field(init=False)
    collectives: Mapping[str, Collective] = field(default_factory=dict)
    strided: tuple[str, ...] = ()
    remainders: tuple[str, ...] = ()
    interchanged: list[str] = field(default_factory=list)
    at_guards: list[str] = field(default_factory=list)
    strips: Sequence[str] = ()
    around_strips: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    # The regions, and how they run.
    vectors: plan.Plan = field(default_factory=plan.Plan)
    split: Function | None = None
    kernel_guards: guards.Guards = field(default_factory=guards.Guards)
    regions: Regions | None = None
    ranges: IterationRanges | None = None
    wide: WideBlock | None = None
    parts: list[str] = field(default_factory=list)

    def is_on(self, name: str) -> bool:
        """Whether a pass runs."""
        return name not in self.off

    @property
    def function(self) -> Function:
        return self.body.function

    @property
    def private(self) -> frozenset[str]:
        """Names of the memory that each thread has of its own."""
        return frozenset(room.name for room in self.body.private)

    @property
    def own_memory(self) -> frozenset[str]:
        """Names of the memory of the block and its threads."""
        return self.private | {room.name for room in self.body.shared}

    @property
    def memory_of_regions(self) -> frozenset[str]:
        """Names of the memory that every region has at hand."""
        storage = warp_collectives.storage(self.collectives.values())
        return self.own_memory | {room.name for room in storage}

    @property
    def has_ranges(self) -> bool:
        """Whether loops over threads can have bounds."""
        return self.is_on("iteration-ranges") and self.lanes is None

    @property
    def may_split(self) -> bool:
        """Whether regions may run in several loops over threads."""
        return self.is_on("index-set-splitting") and not self.body.may_fail

    @property
    def is_undecided(self) -> bool:
        """Whether regions may be vectorised, as the whole kernel is not."""
        vectors = self.vectors
        return self.lanes is None and vectors.regions is None and not vectors.stays_scalar

    @property
    def inner(self) -> int:
        """The number of the innermost axis."""
        return AXES.index(self.order[-1]) if self.lanes is None else 0

    @property
    def geometry(self) -> plan.Geometry:
        axes = looped_axes(self.block, self.order)
        return plan.Geometry(self.block, axes, _vector_bits(self.target))

    @property
    def analyses(self) -> Analyses:
        """What is known of the function as it is now."""
        if self._analyses is None or self._analyses.function is not self.function:
            self._analyses = Analyses(self.function)
        return self._analyses

    @property
    def split_labels(self) -> list[str]:
        """Labels of the blocks to split at."""
        return list(dict.fromkeys([*self.interchanged, *self.remainders, *self.at_guards]))

    @property
    def loop_orders(self) -> LoopOrders:
        """The orders of loops that are the cheapest."""
        private, threads = self.body.private, self.block[self.inner]
        may_jam = not (self.body.may_fail or private or self.keeps_states)
        return self.analyses.get(LoopOrders, self.flow, private, may_jam, self.inner, threads)

    @property
    def keeps_states(self) -> bool:
        """Whether threads may leave otherwise than by the guards at the kernel's start."""
        if not self.flow.masks:
            return False
        ranges = self.analyses.get(ValueRanges)
        first = iteration_ranges.kernel_guards(self.function, self.flow.varying, ranges)
        return bool(self.flow.exiting - first.labels)

    def change(self, function: Function) -> None:
        """Put another function in the kernel's place."""
        self.body = replace(self.body, function=function)


def _vector_bits(target: Target) -> int:
    """Bits of the processor's vectors."""
    features = target.features.split(",")
    return 512 if "+avx512f" in features else 256 if "+avx2" in features else 128


@dataclass(frozen=True)
class Pass:
    """One step: what it does, in one sentence, where the idea comes from, and what does it, which
    is None for a part of others that ask whether it is on.

    It runs for some `strategies`. One that is `required` cannot be switched off: without it the
    code would be wrong, or there would be none.
    """

    name: str
    summary: str
    source: str
    run: Callable[[Compilation], None] | None
    strategies: tuple[str, ...]
    required: bool


PASSES: list[Pass] = []


def _pass(
    name: str,
    summary: str,
    source: str,
    *,
    strategies: tuple[str, ...] = (REGIONS, SCALAR),
    required: bool = False,
) -> Callable[[Callable[[Compilation], None] | None], None]:
    """Declare what follows as a pass."""

    def declare(run: Callable[[Compilation], None] | None) -> None:
        PASSES.append(Pass(name, summary, source, run, strategies, required))

    return declare


_ALLEN = "Allen and Kennedy, Optimizing Compilers for Modern Architectures (2001)"
_KARRENBERG = "Karrenberg and Hack, Whole-Function Vectorization (CGO 2011)"
_POCL = "Jaaskelainen et al., pocl: A Performance-Portable OpenCL Implementation (IJPP 2015)"
_SPLITTING = "Griebl, Feautrier and Lengauer, Index Set Splitting (IJPP 2000)"

# ---- memory and divergence, whatever the strategy -----------------------------------------------


@_pass(
    "block-atomics",
    "Atomic operations on the block's own memory become a load, an operation and a store.",
    "one thread of the system runs a whole block, so nobody else sees that memory",
    strategies=(AUTO,),
)
def _block_atomics(state: Compilation) -> None:
    block_atomics.mark_plain(state.analyses, state.own_memory | {f"%{DYNAMIC_SHARED}"})


@_pass(
    "privatized-reductions",
    "Arrays that a kernel only adds to get a copy for each chunk of blocks, merged at its end.",
    f"array privatisation; {_ALLEN}, chapter 5",
    strategies=(AUTO,),
)
def _privatize(state: Compilation) -> None:
    own = state.own_memory | {f"%{DYNAMIC_SHARED}"}
    state.privatized = privatization.find(state.analyses, own)
    state.copies = privatization.mark(state.analyses, state.privatized)


@_pass(
    "early-exits",
    "Threads that leave for good are masked, and the others go on in step.",
    "exit masks of ispc; Pharr and Mark, ispc (InPar 2012)",
    strategies=(AUTO,),
    required=True,
)
def _early_exits(state: Compilation) -> None:
    state.exits = state.analyses.get(early_exits)


# ---- loops --------------------------------------------------------------------------------------


@_pass(
    "axis-order",
    "The work-item loops are nested so that the innermost goes along neighbours in memory.",
    f"loop permutation for locality; {_ALLEN}, chapter 9",
    strategies=(REGIONS, COROUTINES),
)
def _axis_order(state: Compilation) -> None:
    state.order = loop_order.axis_order(state.analyses, state.block)
    state.coalesced_order = state.order


@_pass(
    "grid-stride-loops",
    "A loop by the size of the grid becomes one that all threads are in, and the rest.",
    _SPLITTING,
)
def _grid_stride_loops(state: Compilation) -> None:
    if state.held:
        return
    split = grid_stride.split(state.analyses, state.together, state.block)
    if not split.remainders:
        return
    state.strided, state.remainders = split.uniform, split.remainders
    state.change(split.function)
    analyses = state.analyses
    staying = frozenset(analyses.get(early_exits)) - split.labels
    state.flow = analyses.get(uniformity.analyse, state.private, staying, state.lanes)


@_pass(
    "block-coalescing",
    "Blocks that follow one another along an axis are run as one wide block.",
    "thread coarsening; Magni, Dubach and O'Boyle (PACT 2014)",
)
def _coalesce_blocks(state: Compilation) -> None:
    if state.lanes is not None or state.remainders or state.cooperative:
        return
    state.coalesced = block_coalescing.axes(state.body, state.analyses, state.block)
    if state.coalesced:
        widest = block_coalescing.widest(state.block, state.coalesced)
        if state.is_on("axis-order"):
            state.coalesced_order = loop_order.axis_order(state.analyses, widest)
        state.change(block_coalescing.prepared(state.analyses, state.coalesced, state.block))


@_pass(
    "vector-divisions",
    "Divisions of integers become calls of functions that divide vectors by way of doubles.",
    "Warren, Hacker's Delight (2012), chapter 10, and compiler/mathematics/divisions.py",
)
def _vector_divisions(state: Compilation) -> None:
    varying = state.flow.varying
    state.declarations = integer_divisions.call_divisions(state.analyses, varying, state.target)


@_pass(
    "division-speculation",
    "Integer divisions that are the same for all lanes are made without their condition.",
    f"speculative code motion; {_ALLEN}, chapter 5; LLVM's vectoriser predicates them wrongly",
    strategies=(REGIONS,),
    required=True,
)
def _speculate_divisions(state: Compilation) -> None:
    axes = {state.order[-1], state.coalesced_order[-1]} if state.lanes is None else {"x"}
    state.helpers = integer_divisions.speculate(state.function, state.flow.divergent, axes)


# ---- where to split -----------------------------------------------------------------------------


@_pass(
    "warp-collectives",
    "Shuffles, votes and matches become a store, the end of a region, and a load.",
    "Han et al., COX: Exposing CUDA Warp-level Functions to CPUs (TACO 2022)",
    required=True,
)
def _split_collectives(state: Compilation) -> None:
    state.split_at_collectives = state.function.copy()
    state.collectives = warp_collectives.split(state.split_at_collectives, state.flow)


@_pass(
    "kernel-vectorization",
    "A kernel without barriers, whose threads leave loops at different times, is written on "
    "masked vectors as a whole.",
    _KARRENBERG,
)
def _vectorize_kernel(state: Compilation) -> None:
    if state.lanes is not None or state.remainders:
        return
    vectorizer = plan.Vectorizer(
        state.body, state.own_memory, state.geometry, state.loop_orders.live()
    )
    unwanted = state.loop_orders.auto_vectorized()
    state.vectors = vectorizer.plan_kernel(unwanted, state.flow, state.together)
    state.flow = state.together if state.vectors.stays_scalar else state.flow


@_pass(
    "loop-interchange",
    "Uniform loops are interchanged with the work-item loop where that is the cheapest order.",
    f"loop interchange; {_ALLEN}, chapter 5; pocl's b-loops",
)
def _interchange_loops(state: Compilation) -> None:
    found = state.loop_orders.interchanged()
    state.interchanged = [label for label in found if label not in state.held]


@_pass(
    "guard-fission",
    "Regions begin at bounds checks and end behind what these guard.",
    "loop fission, so that a check becomes the bounds of a loop",
)
def _split_at_guards(state: Compilation) -> None:
    if state.has_ranges and not state.keeps_states:
        state.at_guards = fission.guard_places(state.analyses, state.flow, state.held)
        if barriers(state.function) and not state.held:
            function, places = fission.with_guards_apart(state.analyses, state.flow)
            state.at_guards += [label for label in places if label not in state.at_guards]
            state.change(function)
            state.split_at_collectives = function.copy()


@_pass(
    "strip-mining",
    "Uniform loops that carry values run for strips of threads whose values fit registers.",
    f"strip-mine and interchange; {_ALLEN}, chapter 9",
)
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


@_pass(
    "region-vectorization",
    "Regions with loops that threads leave at different times are written on masked vectors.",
    _KARRENBERG,
)
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
        may_split=state.may_split,
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


@_pass(
    "region-fission",
    "The kernel is split at its barriers, and at the places found above.",
    f"parallel regions; {_POCL}",
    required=True,
)
def _split_into_regions(state: Compilation) -> None:
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


_pass(
    "rematerialization",
    "Cheap values are computed again in a later region instead of kept in a context array.",
    "Briggs, Cooper and Torczon, Rematerialization (PLDI 1992)",
)(None)


@_pass(
    "iteration-ranges",
    "Bounds checks at a region's start become the bounds of its work-item loop.",
    _SPLITTING,
)
def _iteration_ranges(state: Compilation) -> None:
    if state.vectors.regions is not None or state.lanes is not None:
        return
    assert state.regions is not None
    state.ranges = iteration_ranges.find(
        state.regions,
        state.flow.varying,
        state.analyses.get(ValueRanges),
        state.kernel_guards.guards,
        may_split=state.may_split,
    )


_pass(
    "index-set-splitting",
    "A region whose threads a bound sends two ways gets a loop for the inside and one around.",
    _SPLITTING,
)(None)

# ---- loops over threads -------------------------------------------------------------------------

_pass(
    "unroll-and-jam",
    "A region that waits for a sum in each iteration runs for four threads side by side.",
    f"unroll-and-jam; {_ALLEN}, chapter 8",
)(None)

_pass(
    "delinearization",
    "Loops over threads go in runs in which a row, a quotient of the thread's index, is the same.",
    "Grosser et al., Optimistic Delinearization of Parametrically Sized Arrays (ICS 2015)",
)(None)


@_pass(
    "work-item-loops",
    "Each region becomes a function, and the block function runs it in loops over threads.",
    f"work-item loops; {_POCL}",
    required=True,
)
def _work_item_loops(state: Compilation) -> None:
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
            _vector_bits(state.target),
            state.cooperative,
            state.vectors.vectorized,
            state.wide,
            state.lanes,
            state.collectives,
            state.off,
        )
    )
    state.parts.append(f"{text}\n\n{metadata.text()}")


@_pass(
    "coroutine-lowering",
    "Where threads may miss a barrier or wait for one another, each is a coroutine.",
    "LLVM's Coroutines; Moura and Ierusalimschy, Revisiting Coroutines (TOPLAS 2009)",
    strategies=(COROUTINES,),
    required=True,
)
def _lower_to_coroutines(state: Compilation) -> None:
    state.parts.append(lowering.write(state.body, state.block, state.cooperative))


# ---- which are on -------------------------------------------------------------------------------


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
