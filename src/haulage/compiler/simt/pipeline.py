"""Runs the passes of `passes.py` over one kernel, for one size of block.

A `Compilation` holds what passes hand on: the kernel, what is known of its threads, where it is to
be split, its regions and how each is run. Each pass is a function that changes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from haulage.backends.cpu_driver.waiting import WAITS
from haulage.compiler.simt import passes
from haulage.compiler.simt.analysis import (
    AXES,
    guards,
    kernel,
    locks,
    uniformity,
    warps,
)
from haulage.compiler.simt.analysis.exits import EarlyExit, early_exits
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.single_thread import single_thread_blocks
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.analysis.warps import Warps
from haulage.compiler.simt.coroutines import cooperative_grid, lowering, spin_loops
from haulage.compiler.simt.emit import entry
from haulage.compiler.simt.emit.block_function import HEAP_DECLARATIONS, Metadata, heap_bytes
from haulage.compiler.simt.emit.loop_nest import looped_axes
from haulage.compiler.simt.ir import writer
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
    guard_fission,
    iteration_ranges,
    parallel_regions,
)
from haulage.compiler.simt.regions.iteration_ranges import IterationRanges
from haulage.compiler.simt.regions.parallel_regions import Regions
from haulage.compiler.simt.vectorize import plan
from haulage.compiler.simt.work_items import unroll_and_jam, warp_collectives, work_item_loops
from haulage.compiler.simt.work_items.state_machine import Schedule
from haulage.compiler.simt.work_items.warp_collectives import Collective
from haulage.targets.base import Target
from haulage.targets.cpu import DYNAMIC_SHARED, YIELD
from haulage.targets.cpu_lanes import WARP_ROOM

AUTO, REGIONS, SCALAR, COROUTINES = "auto", "regions", "scalar", "coroutines"
STRATEGIES = (AUTO, REGIONS, SCALAR, COROUTINES)

# Passes that only make loops over threads faster: the scalar strategy, by which others are
# measured, has none of them.
# fmt: off
_FOR_VECTORS = frozenset((
    "privatized-reductions", "axis-order", "grid-stride-loops", "block-coalescing",
    "vector-divisions", "kernel-vectorization", "loop-interchange", "guard-fission",
    "strip-mining", "region-vectorization", "iteration-ranges", "index-set-splitting",
    "unroll-and-jam",
))
# fmt: on

# The passes before it is known whether threads are to be coroutines.
_FIRST = ("block-atomics", "privatized-reductions", "early-exits")

# Without one of these no thread sees what another block, or the host, writes while both run.
_SEEING_OTHERS = ("atomicrmw", "cmpxchg", "fence", "volatile", "load atomic", YIELD)

Block = tuple[int, int, int]


class CannotSplit(Exception):
    """The kernel has barriers that perhaps not all threads reach, whose numbers are `places`, or
    its threads wait for writes of one another."""

    def __init__(self, places: list[int]) -> None:
        what = f"barriers {places} stand in divergent flow" if places else "threads wait for writes"
        super().__init__(what)
        self.places = places


@dataclass(frozen=True)
class Transformed:
    """The module's text, the strategy that was taken, and how many regions and bytes it has.

    `regions` is 0 for coroutines; `order` has the grid's axes, that along which blocks follow one
    another last; `shared_bytes` and `local_bytes` are per block and per thread, `block_bytes` what
    a block may take that waits for its grid; `uses_dynamic_shared` whether the address of the
    launch's dynamic shared memory is needed; `jammed` whether a few threads run side by side
    somewhere (`unroll_and_jam.py`).
    """

    llvm: str
    strategy: str
    regions: int
    order: str
    shared_bytes: int
    local_bytes: int
    block_bytes: int
    uses_dynamic_shared: bool
    jammed: bool


@dataclass
class Compilation:
    """One kernel on its way through the passes.

    `body` is the kernel as it is now; `block` the size of a block, `strategy` the one that was
    asked for, `off` the passes that do not run, `recorded` where the text after each is kept.
    """

    text: str
    target: Target
    block: Block
    strategy: str
    cooperative: bool
    off: frozenset[str]
    recorded: dict[str, str] | None
    body: Body

    # What is known of its threads. `flow` is how they diverge, without those that have left;
    # `together` with them; `lanes` which of them are a warp, if it has words of warps.
    exits: Mapping[str, EarlyExit] = field(default_factory=dict)
    lanes: Warps | None = None
    flow: Uniformity = field(init=False)
    together: Uniformity = field(init=False)
    # Labels of the blocks in which a thread may hold a lock; whether threads wait for one another.
    held: frozenset[str] = frozenset()
    waits: bool = False
    divergent_barriers: list[int] = field(default_factory=list)

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
    strips: Mapping[str, int] = field(default_factory=dict)
    around_strips: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    # The regions, and how they run.
    vectors: plan.Plan = field(default_factory=plan.Plan)
    split: Function | None = None
    kernel_guards: guards.Guards = field(default_factory=guards.Guards)
    regions: Regions | None = None
    ranges: IterationRanges | None = None
    wide: WideBlock | None = None
    parts: list[str] = field(default_factory=list)
    taken: str = ""

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
    def has_ranges(self) -> bool:
        """Whether loops over threads can have bounds."""
        return self.is_on("iteration-ranges") and self.lanes is None

    @property
    def may_split(self) -> bool:
        """Whether regions may run in several loops over threads."""
        return self.is_on("index-set-splitting") and not self.body.may_fail

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

    def change(self, function: Function) -> None:
        """Put another function in the kernel's place."""
        self.body = replace(self.body, function=function)

    def keeps_states(self) -> bool:
        """Whether threads may leave otherwise than by the guards at the kernel's start."""
        if not self.flow.masks:
            return False
        ranges = self.analyses.get(ValueRanges)
        first = iteration_ranges.kernel_guards(self.function, self.flow.varying, ranges)
        return bool(self.flow.exiting - first.labels)


def transform(
    text: str,
    target: Target,
    block: Block,
    strategy: str,
    cooperative: bool = False,
    off: frozenset[str] = frozenset(),
    recorded: dict[str, str] | None = None,
) -> Transformed:
    """Make the module for one block size (x, y, z) from the cleaned-up text of a kernel's module.

    `cooperative` kernels are made as `cooperative_grid.py` says; others may have no barrier of the
    grid. The scalar strategy is meant to be optimised without vectorising. `off` are passes that do
    not run; `recorded` is given the text of the kernel after each one that does.

    Raises:
        CannotSplit: the strategy is "regions" and that cannot be done.
        NotInlined: a function that calls itself has a barrier or a shared array.
    """
    if strategy == SCALAR:
        off = off | _FOR_VECTORS
    state = Compilation(
        text, target, block, strategy, cooperative, off, recorded, kernel.read(text, target)
    )
    _look_for_waits(state)
    _run(state, *_FIRST)
    _choose(state)
    if state.taken == COROUTINES:
        alone = lowering.without_collectives(text, target)
        if alone != text:
            return transform(alone, target, block, COROUTINES, cooperative, off, recorded)
        _run(state, "axis-order", "coroutine-lowering")
    else:
        _run(state, *_FOR_REGIONS)
    return _finished(state)


def _run(state: Compilation, *names: str) -> None:
    """Run some passes, in the order in which they are declared."""
    for name in names:
        if not state.is_on(name):
            continue
        _RUN[name](state)
        if state.recorded is not None:
            state.recorded[name] = _shown(state)


def _shown(state: Compilation) -> str:
    """The kernel as it is now, as text."""
    if state.parts:
        return "\n\n".join(state.parts)
    found = {
        "axes, outermost first": state.order if state.order != loop_order.DEFAULT_ORDER else "",
        "blocks coalesced along": ", ".join(state.coalesced),
        "privatized": ", ".join(each.array.data for each in state.privatized),
        "remainders of grid-stride loops": ", ".join(state.remainders),
        "interchanged loops": ", ".join(state.interchanged),
        "split at": ", ".join(state.at_guards),
        "strips": ", ".join(state.strips),
        "vectorized regions": ", ".join(map(str, state.vectors.vectorized)),
    }
    notes = [f"; {what}: {value}" for what, value in found.items() if value]
    return "\n".join([*notes, writer.listing(state.split or state.function)])


def _look_for_waits(state: Compilation) -> None:
    """Find whether threads wait for one another, and where they may hold locks, before their atomic
    operations become plain ones."""
    waiting = spin_loops.has_yields(state.function)
    analyses = state.analyses
    state.held = locks.held(analyses)
    contended = waiting and locks.are_contended(analyses, state.block)
    state.waits = waiting and (state.cooperative or contended)
    if waiting and not state.waits and state.strategy != COROUTINES:
        state.change(spin_loops.without_yields(state.function))
    if waiting:
        # Who waits for another block expects that blocks begin with x the fastest axis.
        state.off |= {"axis-order", "privatized-reductions"}
    if state.cooperative:
        state.off |= {"privatized-reductions"}


def _block_atomics(state: Compilation) -> None:
    block_atomics.mark_plain(state.analyses, state.own_memory | {f"%{DYNAMIC_SHARED}"})
    state.analyses.invalidate()


def _privatize(state: Compilation) -> None:
    own = state.own_memory | {f"%{DYNAMIC_SHARED}"}
    state.privatized = privatization.find(state.analyses, own)
    state.copies = privatization.mark(state.analyses, state.privatized)
    state.analyses.invalidate()


def _early_exits(state: Compilation) -> None:
    state.exits = state.analyses.get(early_exits)


def _choose(state: Compilation) -> None:
    """Choose between regions and coroutines.

    Raises:
        CannotSplit: regions were asked for, and cannot be.
    """
    analyses, private, exits = state.analyses, state.private, frozenset(state.exits)
    state.flow = analyses.get(uniformity.analyse, private, exits, None)
    state.lanes = warps.warps_of(state.function, state.block, state.target.warp_size)
    if state.lanes is not None:
        state.flow = analyses.get(uniformity.analyse, private, exits, state.lanes)
    state.divergent_barriers = fission.divergent_barriers(analyses, private, exits, state.lanes)
    unable = bool(state.divergent_barriers) or state.waits
    if state.strategy == REGIONS and unable:
        raise CannotSplit(state.divergent_barriers)
    state.taken = SCALAR if state.strategy == SCALAR else REGIONS
    if state.strategy == COROUTINES or unable:
        state.taken = COROUTINES
    else:
        state.together = analyses.get(uniformity.analyse, private, frozenset(), None)


def _axis_order(state: Compilation) -> None:
    state.order = loop_order.axis_order(state.analyses, state.block)
    state.coalesced_order = state.order


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


def _coalesce_blocks(state: Compilation) -> None:
    if state.lanes is not None or state.remainders or state.cooperative:
        return
    state.coalesced = block_coalescing.axes(state.body, state.analyses, state.block)
    if state.coalesced:
        widest = block_coalescing.widest(state.block, state.coalesced)
        if state.is_on("axis-order"):
            state.coalesced_order = loop_order.axis_order(state.analyses, widest)
        state.change(block_coalescing.prepared(state.analyses, state.coalesced, state.block))


def _vector_divisions(state: Compilation) -> None:
    varying = state.flow.varying
    state.declarations = integer_divisions.call_divisions(state.analyses, varying, state.target)
    state.analyses.invalidate()


def _speculate_divisions(state: Compilation) -> None:
    if state.taken == SCALAR:
        return
    axes = {state.order[-1], state.coalesced_order[-1]} if state.lanes is None else {"x"}
    state.helpers = integer_divisions.speculate(state.function, state.flow.divergent, axes)
    state.analyses.invalidate()


def _split_collectives(state: Compilation) -> None:
    state.split_at_collectives = state.function.copy()
    state.collectives = warp_collectives.split(state.split_at_collectives, state.flow)


def _vectorize_kernel(state: Compilation) -> None:
    if state.lanes is not None or state.remainders:
        return
    vectorizer = plan.Vectorizer(state.body, state.own_memory, state.geometry)
    alone = _loop_orders(state).alone()
    state.vectors = vectorizer.plan_kernel(alone, state.flow, state.together)
    state.flow = state.together if state.vectors.stays_scalar else state.flow


def _interchange_loops(state: Compilation) -> None:
    found = _loop_orders(state).interchanged()
    state.interchanged = [label for label in found if label not in state.held]


def _loop_orders(state: Compilation) -> LoopOrders:
    body, threads = state.body, state.block[state.inner]
    may_jam = not (body.may_fail or body.private or state.keeps_states())
    return state.analyses.get(LoopOrders, state.flow, body.private, may_jam, state.inner, threads)


def _split_at_guards(state: Compilation) -> None:
    if not state.has_ranges or state.keeps_states():
        return
    state.at_guards = guard_fission.places(state.analyses, state.flow, state.held)


def _strip_mine(state: Compilation) -> None:
    if not _is_undecided(state):
        return
    found = _loop_orders(state).strips()
    # A grid-stride loop goes over memory once, and that is read in one piece by all threads.
    kept = {*state.held, *state.strided}
    state.strips = {label: live for label, live in found.items() if label not in kept}
    others = set(_split_labels(state)) - set(state.strips)
    around = loop_order.splits_around(state.analyses, state.flow, state.strips, others, state.inner)
    state.around_strips = {label: at for label, at in around.items() if label not in state.held}


def _is_undecided(state: Compilation) -> bool:
    """Whether regions may be vectorised, as the whole kernel is not."""
    return state.lanes is None and state.vectors.regions is None and not state.vectors.stays_scalar


def _split_labels(state: Compilation) -> list[str]:
    """Labels of the blocks to split at."""
    return list(dict.fromkeys([*state.interchanged, *state.remainders, *state.at_guards]))


def _vectorize_regions(state: Compilation) -> None:
    if not _is_undecided(state):
        return
    rare = state.analyses.get(single_thread_blocks)
    vectorizer = plan.Vectorizer(
        state.body,
        _memory_of_regions(state),
        state.geometry,
        rematerializes=state.is_on("rematerialization"),
        may_split=state.may_split,
    )
    state.split, state.vectors = vectorizer.plan_regions(
        state.split_at_collectives,
        _split_labels(state),
        state.strips,
        state.around_strips,
        rare | _loop_orders(state).alone(),
        state.flow,
    )


def _memory_of_regions(state: Compilation) -> frozenset[str]:
    """Names of the memory that every region has at hand."""
    storage = warp_collectives.storage(state.collectives.values())
    return state.own_memory | {room.name for room in storage}


def _split_into_regions(state: Compilation) -> None:
    if state.vectors.regions is not None:
        state.regions, state.ranges = state.vectors.regions, state.vectors.ranges
        state.split = state.regions.function
        return
    if state.split is None:
        state.split = fission.split(state.split_at_collectives, _split_labels(state))
    ranges = state.analyses.get(ValueRanges)
    if state.has_ranges:
        varying = state.flow.varying
        state.kernel_guards = iteration_ranges.kernel_guards(state.split, varying, ranges)
        exiting = state.flow.exiting - state.kernel_guards.labels
        state.flow = replace(state.flow, exiting=exiting)
    state.regions = parallel_regions.divide(
        Analyses(state.split),
        state.flow,
        _memory_of_regions(state),
        rematerializes=state.is_on("rematerialization"),
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


def _work_item_loops(state: Compilation) -> None:
    assert state.regions is not None
    ranges = state.ranges or iteration_ranges.unbounded(state.regions)
    _choose_width(state)
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
            state.cooperative,
            state.vectors.vectorized,
            state.wide,
            state.lanes,
            state.collectives,
            state.off,
        )
    )
    state.parts.append(f"{text}\n\n{metadata.text()}")


def _choose_width(state: Compilation) -> None:
    """Coalesce blocks where that is faster."""
    axis = state.coalesced_order[-1]
    assert state.regions is not None
    if state.vectors.regions is not None or axis not in state.coalesced or state.regions.masked:
        return
    if block_coalescing.is_profitable(state.regions, axis):
        state.wide = block_coalescing.wide_block(axis, state.block)
    if state.wide is not None:
        state.order = state.coalesced_order


def _lower_to_coroutines(state: Compilation) -> None:
    state.parts.append(lowering.write(state.body, state.block, state.cooperative))


_RUN: dict[str, Callable[[Compilation], None]] = {
    "block-atomics": _block_atomics,
    "privatized-reductions": _privatize,
    "early-exits": _early_exits,
    "axis-order": _axis_order,
    "grid-stride-loops": _grid_stride_loops,
    "block-coalescing": _coalesce_blocks,
    "vector-divisions": _vector_divisions,
    "division-speculation": _speculate_divisions,
    "warp-collectives": _split_collectives,
    "kernel-vectorization": _vectorize_kernel,
    "loop-interchange": _interchange_loops,
    "guard-fission": _split_at_guards,
    "strip-mining": _strip_mine,
    "region-vectorization": _vectorize_regions,
    "region-fission": _split_into_regions,
    "iteration-ranges": _iteration_ranges,
    "work-item-loops": _work_item_loops,
    "coroutine-lowering": _lower_to_coroutines,
}

_FOR_REGIONS = tuple(
    each.name
    for each in passes.PASSES
    if each.name in _RUN and each.name not in (*_FIRST, "coroutine-lowering")
)


def _finished(state: Compilation) -> Transformed:
    """The module of all that was made."""
    body, block, parts = state.body, state.block, state.parts
    coroutines = state.taken == COROUTINES
    if coroutines or state.cooperative or heap_bytes(body, prod(block)):
        parts.insert(0, HEAP_DECLARATIONS)
    if state.cooperative:
        start = writer.definition(cooperative_grid.write_entry(body))
    else:
        start = writer.definition(
            entry.write(body, prod(block), state.order, state.privatized, state.wide)
        )
    if any(word in state.text for word in _SEEING_OTHERS):
        parts.append(f"define void @{WAITS}() {{\n  ret void\n}}")
    module = "\n\n".join(
        [
            body.around,
            *state.declarations,
            start,
            state.copies,
            *state.helpers,
            *parts,
        ]
    )
    return Transformed(
        _without_repeated_declarations(module),
        state.taken,
        0 if state.regions is None else len(state.regions.regions),
        loop_order.DEFAULT_ORDER if state.cooperative else state.order,
        sum(room.nbytes for room in body.shared if room.name != f"%{WARP_ROOM}"),
        sum(room.nbytes for room in body.private),
        cooperative_grid.block_bytes(body, block) if state.cooperative else 0,
        f"%{DYNAMIC_SHARED}" in state.analyses.users,
        unroll_and_jam.is_in(module),
    )


def _without_repeated_declarations(module: str) -> str:
    """The module with each function declared once; the first declaration stands."""
    seen: set[str] = set()
    kept, *others = f"\n{module}\n".split("\ndeclare ")
    parts = [kept[1:]]
    for part in others:
        line, _, behind = part.partition("\n")
        name = line.split("@", 1)[1].split("(", 1)[0]
        parts.append(behind if name in seen else f"declare {part}")
        seen.add(name)
    return "\n".join(parts)


def _vector_bits(target: Target) -> int:
    """Bits of the processor's vectors."""
    features = target.features.split(",")
    return 512 if "+avx512f" in features else 256 if "+avx2" in features else 128
