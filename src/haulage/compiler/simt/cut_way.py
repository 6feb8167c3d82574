"""Writes a kernel that is cut: chooses where, and how its regions run.

First the kernel is made over so that more of it can be widened (`_prepare`), then the places to cut
at are found (`_places`), then it is cut and divided into regions, each with its bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from haulage.compiler.simt.analysis import early_exit, guards, single_thread, uniformity
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.analysis.warps import Warps
from haulage.compiler.simt.emit.block_function import Metadata
from haulage.compiler.simt.emit.loop_nest import looped_axes
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.model import Function
from haulage.compiler.simt.loops import (
    block_coalescing,
    coalescing_profit,
    divisions,
    grid_stride,
    power_of_two_remainders,
    strip_mining,
)
from haulage.compiler.simt.loops.axis_order import axis_order
from haulage.compiler.simt.loops.block_coalescing import Run
from haulage.compiler.simt.regions import (
    atomic_fission,
    exchanges,
    fission,
    guard_ends,
    guard_hoisting,
    guard_starts,
    iteration_ranges,
    loop_interchange,
    parallel_regions,
)
from haulage.compiler.simt.regions.parallel_regions import Regions
from haulage.compiler.simt.vectorize import plan
from haulage.compiler.simt.work_items import warp_loops, work_item_loops
from haulage.targets.base import Target


@dataclass(frozen=True)
class Facts:
    """What is known of a kernel: the names of its threads' own memory, how its threads part (those
    of a warp, if it has words of warps, which `lanes` tells), and where locks may be held."""

    private: frozenset[str]
    flow: Uniformity
    lanes: Warps | None
    held: frozenset[str]


@dataclass(frozen=True)
class Written:
    """The text, the kernel as it was cut, the number of its regions, declarations of what it calls,
    the order of its axes, and the runs of blocks that it can be run in."""

    text: str
    kernel: Body
    regions: int
    declared: list[str]
    order: str
    run: Run | None


def write(
    kernel: Body,
    target: Target,
    block: tuple[int, int, int],
    order: str,
    facts: Facts,
    *,
    scalar: bool,
    cooperative: bool,
) -> Written:
    """Write a kernel for blocks of one size, its axes nested in an order. If `scalar`, it is cut
    where it has to be, only: the other ways are measured by it."""
    return _Cutting(kernel, target, block, order, facts, scalar, cooperative).written()


@dataclass(frozen=True)
class _Places:
    """Headers and labels to cut at, those of them that are headers of loops to turn, and places in
    the bodies of blocks with atomic operations."""

    loops: list[str]
    turned: list[str]
    around: Mapping[str, tuple[int, ...]]


class _Cutting:
    def __init__(
        self,
        kernel: Body,
        target: Target,
        block: tuple[int, int, int],
        order: str,
        facts: Facts,
        scalar: bool,
        cooperative: bool,
    ) -> None:
        self._kernel = kernel
        self._target = target
        self._block = block
        self._order = order
        self._private = facts.private
        self._lanes = facts.lanes
        self._held = facts.held
        self._scalar = scalar
        self._cooperative = cooperative
        # How threads part, without those that have left, and with them.
        self._flow = facts.flow
        self._together = uniformity.analyse(kernel.function, facts.private)
        # Whether loops over the threads can have bounds.
        self._clips = not scalar and facts.lanes is None
        self._declared: list[str] = []
        # What is left of loops by the size of the grid, and where guards were lifted to.
        self._rests: dict[str, str] = {}
        self._lifted: list[str] = []
        # Axes along which blocks can be run together, and the order of the axes then.
        self._joined: tuple[str, ...] = ()
        self._along = order

    def written(self) -> Written:
        if not self._scalar:
            self._prepare()
        kernel, lanes, order = self._kernel, self._lanes, self._order
        split = kernel.function.copy()
        exchanged = exchanges.split(split, self._flow)
        rooms = self._private | {room.name for room in kernel.shared}
        shape = plan.Shape(self._block, looped_axes(self._block, order), _vector_bits(self._target))
        planned = plan.Plan()
        # Loops that all threads are in together need no lanes.
        if self._clips and not self._rests and fission.parted_loops(kernel.function, self._flow):
            planned = plan.without_cuts(kernel, self._together, rooms, shape)
            self._flow = self._together if planned.apart else self._flow
        ranges = ValueRanges(kernel.function)
        places = self._places(split, ranges)
        given = warp_loops.exchange_rooms(exchanged, lanes) if lanes is not None else ()
        rooms |= {room.name for room in given}
        if self._clips and planned.regions is None and not planned.apart:
            cut, planned = self._cut_with_lanes(split, places, rooms, shape)
        else:
            cut = fission.cut(split, places.loops, places.around)
        flow, clips, first = self._flow, self._clips and planned.regions is None, guards.Guards()
        if clips:
            first = iteration_ranges.kernel_guards(cut, flow.varying, ranges)
            flow = replace(flow, exiting=flow.exiting - first.labels)
        divided = planned.regions or parallel_regions.divide(cut, flow, rooms)
        clipped = planned.clipping or iteration_ranges.none(divided)
        if clips:
            parts = not kernel.may_fail
            clipped = iteration_ranges.clip(
                divided, flow.varying, ranges, first.guards, parts=parts
            )
        run = None
        if planned.regions is None:
            run = self._run(divided, flow, first, clipped.partings[0])
        order = self._along if run is not None else order
        metadata = Metadata(kernel.around, parallel=not self._scalar)
        cooperative = self._cooperative
        if lanes is None:
            text = work_item_loops.write(
                kernel,
                divided,
                clipped,
                self._block,
                order,
                metadata,
                cooperative,
                planned.lanes,
                run,
            )
        else:
            exchanging = replace(kernel, shared=(*kernel.shared, *given))
            text = warp_loops.write(exchanging, divided, lanes, exchanged, metadata, cooperative)
        text = f"{text}\n\n{metadata.text()}"
        return Written(text, kernel, len(divided.regions), self._declared, order, run)

    # ---- the kernel made over -------------------------------------------------------------------

    def _prepare(self) -> None:
        if not self._held:
            self._turn_loops_by_the_grid()
        if self._lanes is None and not self._rests and not self._cooperative:
            self._join_blocks()
        power_of_two_remainders.mask_remainders(self._kernel.function, self._flow.varying)
        self._declared = divisions.widen(self._kernel.function, self._flow.varying, self._target)
        if self._clips and not self._rests and barriers(self._kernel.function):
            self._lift_guards()

    def _turn_loops_by_the_grid(self) -> None:
        turned = grid_stride.turn(self._kernel.function, self._together, self._block)
        if not turned.rests:
            return
        self._rests = dict(turned.rests)
        self._kernel = replace(self._kernel, function=turned.function)
        arms = {
            label: arm
            for label, arm in early_exit.early_exits(turned.function).items()
            if label not in turned.labels
        }
        self._flow = uniformity.analyse(turned.function, self._private, arms, self._lanes)

    def _join_blocks(self) -> None:
        self._joined = block_coalescing.axes(self._kernel, self._block)
        if self._joined:
            function = self._kernel.function
            self._along = axis_order(function, block_coalescing.widest(self._block, self._joined))
            prepared = block_coalescing.prepared(function, self._joined, self._block)
            self._kernel = replace(self._kernel, function=prepared)

    def _lift_guards(self) -> None:
        function = self._kernel.function
        if _keeps_states(function, self._flow, ValueRanges(function)):
            return
        function, self._lifted = guard_hoisting.lift(function, self._flow, self._held)
        if self._lifted:
            self._kernel = replace(self._kernel, function=function)
            self._together = uniformity.analyse(function, self._private)
            arms = early_exit.early_exits(function)
            self._flow = uniformity.analyse(function, self._private, arms)

    # ---- where it is cut ------------------------------------------------------------------------

    def _places(self, split: Function, ranges: ValueRanges) -> _Places:
        if self._scalar:
            return _Places([], [], {})
        function, flow, inner = self._kernel.function, self._flow, self._inner
        turned = loop_interchange.loops_to_turn(
            function, flow, self._kernel.private, inner, self._block[inner]
        )
        turned = [label for label in turned if label not in self._held]
        loops = [*turned, *self._rests.values()]
        if self._clips and not _keeps_states(function, flow, ranges):
            starts = guard_starts.behind_branches(function, flow)
            starts = [label for label in starts if label not in self._held]
            behind = guard_ends.behind_guards(function, flow, frozenset(starts))
            behind = [label for label in behind if label not in self._held]
            loops = list(dict.fromkeys([*loops, *starts, *behind, *self._lifted]))
        return _Places(loops, turned, atomic_fission.around_atomics(split, flow, self._held))

    def _cut_with_lanes(
        self, split: Function, places: _Places, rooms: frozenset[str], shape: plan.Shape
    ) -> tuple[Function, plan.Plan]:
        kernel, flow = self._kernel, self._flow
        rare = frozenset((*self._rests, *single_thread.blocks_of_few(kernel.function)))
        chunked = strip_mining.chunked_loops(
            kernel.function, flow, places.turned, kernel.shared, self._inner
        )
        others = set(places.loops) - set(chunked)
        around = strip_mining.apart_from_rows(kernel.function, flow, chunked, others, self._inner)
        around = {label: found for label, found in around.items() if label not in self._held}
        return plan.cut_with_lanes(
            kernel, split, places.loops, places.around, around, rare, chunked, flow, rooms, shape
        )

    @property
    def _inner(self) -> int:
        """The number of the innermost axis."""
        return AXES.index(self._order[-1]) if self._lanes is None else 0

    def _run(
        self, divided: Regions, flow: Uniformity, first: guards.Guards, parting: guards.Guard | None
    ) -> Run | None:
        """The runs of blocks that are faster than blocks one by one."""
        axis = self._along[-1]
        if axis not in self._joined or divided.masked:
            return None
        inner = self._order[-1]
        if not coalescing_profit.is_worth_it(divided, axis, inner, flow.varying, first, parting):
            return None
        return block_coalescing.run_of(axis, self._block)


def _keeps_states(function: Function, flow: Uniformity, ranges: ValueRanges) -> bool:
    """Whether threads may leave otherwise than by the guards at the kernel's start."""
    if not flow.masks:
        return False
    first = iteration_ranges.kernel_guards(function, flow.varying, ranges)
    return bool(flow.exiting - first.labels)


def _vector_bits(target: Target) -> int:
    """Bits of the processor's vectors."""
    features = target.features.split(",")
    return 512 if "+avx512f" in features else 256 if "+avx2" in features else 128
