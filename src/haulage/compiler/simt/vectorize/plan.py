"""Which regions of a kernel run for a chunk of lanes at a time, and where it is cut for that."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.guards import Guards
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.emit.region_function import RegionFunctions
from haulage.compiler.simt.ir.model import Function, RegionEnd
from haulage.compiler.simt.loops.strip_mining import all_stay_near
from haulage.compiler.simt.regions import fission, iteration_ranges, parallel_regions
from haulage.compiler.simt.regions.iteration_ranges import IterationRanges
from haulage.compiler.simt.regions.parallel_regions import Region, Regions
from haulage.compiler.simt.vectorize.choice import is_worth_it, lane_function
from haulage.compiler.simt.vectorize.function import LaneFunction


@dataclass(frozen=True)
class Shape:
    """A block's size (x, y, z), the axes of its loops, outermost first, and the bits of the
    processor's vectors."""

    block: tuple[int, int, int]
    axes: tuple[str, ...]
    vector_bits: int


@dataclass(frozen=True)
class Plan:
    """A cut body, the regions that run for chunks of lanes, and the threads that regions run for.
    `apart` is whether its threads are faster one after the other, so that no loop should be made
    one that all are in."""

    regions: Regions | None = None
    clipping: IterationRanges | None = None
    lanes: Mapping[int, LaneFunction] = field(default_factory=dict)
    apart: bool = False

    def headers(self) -> set[str]:
        """The headers of the loops in regions that run on lanes."""
        if self.regions is None:
            return set()
        headers = (_headers(self.regions, self.regions.regions[number]) for number in self.lanes)
        return set().union(*headers)


def without_cuts(body: Body, together: Uniformity, rooms: frozenset[str], shape: Shape) -> Plan:
    """The plan for a kernel without barriers: all of it on lanes, if it has loops that are worth
    it. `together` is what all threads have in common, `rooms` the names of its memory."""
    if barriers(body.function):
        return Plan()
    whole = parallel_regions.divide(fission.split(body.function, []), together, rooms)
    lanes = _lanes(body, whole, iteration_ranges.unbounded(whole), shape).get(0)
    if lanes is None:
        return Plan()
    position = "xyz".index(shape.axes[-1])
    if lanes.work.together and not all_stay_near(Analyses(body.function), body.shared, position):
        # Rows of memory are best read for the whole block, turn by turn.
        return Plan()
    if not is_worth_it(lanes.work):
        return Plan(apart=True)
    return Plan(whole, iteration_ranges.unbounded(whole), {0: lanes})


def cut_with_lanes(
    body: Body,
    split: Function,
    loops: list[str],
    around: Mapping[str, tuple[int, ...]],
    chunks_around: Mapping[str, tuple[int, ...]],
    rare: Set[str],
    chunked: Mapping[str, int],
    present: Uniformity,
    rooms: frozenset[str],
    shape: Shape,
) -> tuple[Function, Plan]:
    """A kernel's function, which is `split` where lanes exchange values, cut at the headers `loops`
    and `around` atomic operations; and the plan for it.

    It is not cut at those of the loops that are to be run in chunks (`strip_mining.py`), if they
    can, but perhaps around them (`chunks_around`). `rare` are the headers of loops that hardly any
    thread makes a turn of.
    """
    kept = {header for header in loops if header not in chunked}
    both = {
        label: (*around.get(label, ()), *chunks_around.get(label, ()))
        for label in {**around, **chunks_around}
    }
    cut = fission.split(split, [header for header in loops if header in kept], both)
    planned = _of_loops_left(body, cut, kept | rare, chunked, present, rooms, shape)
    if planned.headers() >= chunked.keys():
        return cut, planned
    cut = fission.split(split, loops, around)
    return cut, _of_loops_left(body, cut, {*rare, *loops}, {}, present, rooms, shape)


def _of_loops_left(
    body: Body,
    cut: Function,
    done: Set[str],
    chunked: Mapping[str, int],
    present: Uniformity,
    rooms: frozenset[str],
    shape: Shape,
) -> Plan:
    """The plan for a function that is cut, if loops are left that threads part in, or that are to
    be run in chunks. `done` are the headers of those that it is cut at, or that hardly any thread
    makes a turn of."""
    left = {*(fission.divergent_loops(Analyses(body.function), present) - done), *chunked}
    if not left:
        return Plan()
    ranges = Analyses(cut).get(ValueRanges)
    first = iteration_ranges.kernel_guards(cut, present.varying, ranges)
    planned = _clipped_plan(body, cut, left, chunked, present, rooms, shape, ranges, first)
    if planned is None:
        nobody = Guards()
        planned = _clipped_plan(body, cut, left, chunked, present, rooms, shape, ranges, nobody)
    return planned or Plan()


def _clipped_plan(
    body: Body,
    cut: Function,
    left: Set[str],
    chunked: Mapping[str, int],
    present: Uniformity,
    rooms: frozenset[str],
    shape: Shape,
    ranges: ValueRanges,
    first: Guards,
) -> Plan | None:
    """The plan with the kernel's guards `first` as bounds; None if some lanes would have to ask."""
    staying = replace(present, exiting=present.exiting - first.labels)
    divided = parallel_regions.divide(cut, staying, rooms)
    if first.guards and divided.masked:
        return None
    clipped = iteration_ranges.find(
        divided, present.varying, ranges, first.guards, splits=not body.may_fail
    )
    # Lanes are masked by guards of their own region.
    nothing = iteration_ranges.without_own(clipped, range(len(divided.regions)))
    found = _lanes(body, divided, nothing, shape, left, chunked)
    lanes = {number: each for number, each in found.items() if is_worth_it(each.work)}
    if first.guards and not all(each.follows_rows for each in lanes.values()):
        return None
    if not lanes:
        return Plan()
    return Plan(divided, iteration_ranges.without_own(clipped, lanes), lanes)


def _lanes(
    body: Body,
    divided: Regions,
    clipped: IterationRanges,
    shape: Shape,
    left: Set[str] | None = None,
    chunked: Mapping[str, int] | None = None,
) -> dict[int, LaneFunction]:
    functions = RegionFunctions(body, divided, clipped)
    found: dict[int, LaneFunction] = {}
    for region in divided.regions:
        headers = _headers(divided, region)
        if left is not None and not headers & left:
            continue
        alive = [count for header, count in (chunked or {}).items() if header in headers]
        lanes = lane_function(
            functions, region, shape.block, shape.axes, shape.vector_bits, max(alive, default=0)
        )
        if lanes is not None:
            found[region.number] = lanes
    return found


def _headers(divided: Regions, region: Region) -> set[str]:
    """The headers of a region's own loops."""
    blocks = {label: divided.function.blocks[label] for label in region.labels}
    successors = {
        label: () if isinstance(block.terminator, RegionEnd) else block.successors
        for label, block in blocks.items()
    }
    return {loop.header for loop in control_flow.natural_loops(successors, region.entry)}
