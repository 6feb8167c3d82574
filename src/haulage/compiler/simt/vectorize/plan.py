"""Which regions of a kernel are vectorised, by how much, and where it is split for that."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from math import prod

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.guards import Guards
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.emit.region_function import RegionFunctions
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.compiler.simt.ir.types import BINARY
from haulage.compiler.simt.loops.strip_mining import all_stay_near
from haulage.compiler.simt.regions import fission, iteration_ranges, parallel_regions
from haulage.compiler.simt.regions.iteration_ranges import IterationRanges
from haulage.compiler.simt.regions.parallel_regions import Region, Regions
from haulage.compiler.simt.vectorize.builder import BYTES, elementwise
from haulage.compiler.simt.vectorize.cost_model import is_profitable
from haulage.compiler.simt.vectorize.function import VectorizedRegion, can_vectorize
from haulage.compiler.simt.vectorize.linear_order import Irreducible

# Two vectors of each value keep the processor's pipelines busier than one (LLVM's interleaving).
_VECTORS = 2
# As many as multiply-adds are on their way at once, where nothing else is done.
_MOST_VECTORS = 8
_FEWEST_LANES = 8


@dataclass(frozen=True)
class Geometry:
    """A block's size (x, y, z), the axes of its loops, outermost first, and the bits of the
    processor's vectors."""

    block: tuple[int, int, int]
    axes: tuple[str, ...]
    vector_bits: int


@dataclass(frozen=True)
class Plan:
    """The regions of a kernel, those of them that are vectorised, and the threads that regions run
    for. `stays_scalar` is whether threads are faster one after the other, so that no loop should be
    interchanged with that over them."""

    regions: Regions | None = None
    ranges: IterationRanges | None = None
    vectorized: Mapping[int, VectorizedRegion] = field(default_factory=dict)
    stays_scalar: bool = False

    def headers(self) -> set[str]:
        """The headers of the loops in vectorised regions."""
        if self.regions is None:
            return set()
        regions = [self.regions.regions[number] for number in self.vectorized]
        return {loop.header for region in regions for loop in _loops(self.regions.function, region)}


class Vectorizer:
    """Plans for a kernel; `own_memory` are the names of the memory that every region has. With
    `rematerializes` regions compute cheap values again."""

    def __init__(
        self,
        body: Body,
        own_memory: frozenset[str],
        geometry: Geometry,
        *,
        rematerializes: bool = True,
    ) -> None:
        self._rematerializes = rematerializes
        self._body = body
        self._own_memory = own_memory
        self._geometry = geometry

    def plan_kernel(self, together: Uniformity) -> Plan:
        """The plan for a kernel without barriers: it is vectorised as a whole, if it has loops that
        are worth it. `together` is the uniformity of its values."""
        function = self._body.function
        if barriers(function):
            return Plan()
        whole = parallel_regions.divide(fission.split(function, []), together, self._own_memory)
        ranges = iteration_ranges.unbounded(whole)
        found = self._vectorize(whole, ranges, None, {}).get(0)
        if found is None:
            return Plan()
        position = AXES.index(self._geometry.axes[-1])
        if found.work.consecutive and not all_stay_near(
            Analyses(function), self._body.shared, position
        ):
            # Rows of memory are best read for the whole block, iteration by iteration.
            return Plan()
        if not is_profitable(found.work):
            return Plan(stays_scalar=True)
        return Plan(whole, ranges, {0: found})

    def plan_regions(
        self,
        split: Function,
        loops: list[str],
        strips: Mapping[str, int],
        around_strips: Mapping[str, tuple[int, ...]],
        rare: Set[str],
        present: Uniformity,
    ) -> tuple[Function, Plan]:
        """A kernel's function, which is `split` where lanes exchange values, split at the headers
        `loops` too; and the plan for it.

        It is not split at those of the loops that are to be strip-mined, `strips`, if they can be
        vectorised, but perhaps around them (`around_strips`). `rare` are the headers of loops that
        hardly any thread comes to.
        """
        kept = [header for header in loops if header not in strips]
        function = fission.split(split, kept, around_strips)
        plan = self._plan(function, {*kept, *rare}, strips, present)
        if plan.headers() >= strips.keys():
            return function, plan
        function = fission.split(split, loops)
        return function, self._plan(function, {*rare, *loops}, {}, present)

    def _plan(
        self, function: Function, done: Set[str], strips: Mapping[str, int], present: Uniformity
    ) -> Plan:
        """The plan for a function that is split, if divergent loops are left, or loops to
        strip-mine. `done` are the headers of those that it is split at, or that hardly any thread
        comes to."""
        divergent = fission.divergent_loops(Analyses(self._body.function), present)
        left = {*(divergent - done), *strips}
        if not left:
            return Plan()
        ranges = Analyses(function).get(ValueRanges)
        guards = iteration_ranges.kernel_guards(function, present.varying, ranges)
        for first in (guards, Guards()):
            plan = self._plan_with(function, left, strips, present, ranges, first)
            if plan is not None:
                return plan
        return Plan()

    def _plan_with(
        self,
        function: Function,
        left: Set[str],
        strips: Mapping[str, int],
        present: Uniformity,
        ranges: ValueRanges,
        first: Guards,
    ) -> Plan | None:
        """The plan with the kernel's guards `first` as bounds; None if some lanes would have to
        test them."""
        staying = replace(present, exiting=present.exiting - first.labels)
        divided = parallel_regions.divide(
            function, staying, self._own_memory, rematerializes=self._rematerializes
        )
        if first.guards and divided.masked:
            return None
        clipped = iteration_ranges.find(divided, present.varying, ranges, first.guards)
        # Lanes are masked by guards of their own region.
        unclipped = iteration_ranges.without_own(clipped, range(len(divided.regions)))
        found = self._vectorize(divided, unclipped, left, strips)
        found = {number: each for number, each in found.items() if is_profitable(each.work)}
        if first.guards and not all(each.is_along_rows for each in found.values()):
            return None
        if not found:
            return Plan()
        return Plan(divided, iteration_ranges.without_own(clipped, found), found)

    def _vectorize(
        self,
        divided: Regions,
        ranges: IterationRanges,
        left: Set[str] | None,
        strips: Mapping[str, int],
    ) -> dict[int, VectorizedRegion]:
        """The regions that can be vectorised, of those with loops of which `left` has the header,
        if that is given. `strips` has for each loop to strip-mine how many values are live in it.
        """
        functions = RegionFunctions(self._body, divided, ranges)
        found: dict[int, VectorizedRegion] = {}
        for region in divided.regions:
            loops = _loops(divided.function, region)
            headers = {loop.header for loop in loops}
            if left is not None and headers.isdisjoint(left):
                continue
            live = [count for header, count in strips.items() if header in headers]
            looped = {label for loop in loops for label in loop.labels}
            vectorized = self._vectorize_region(functions, region, looped, max(live, default=0))
            if vectorized is not None:
                found[region.number] = vectorized
        return found

    def _vectorize_region(
        self, functions: RegionFunctions, region: Region, looped: set[str], live: int
    ) -> VectorizedRegion | None:
        """A region on vectors, or None if it cannot be vectorised.

        A region without a loop of its own is left to LLVM. `live` is how many values of each thread
        are live in a loop that all threads go round together, and that is to be strip-mined; 0 if
        there is none.
        """
        if not looped or not can_vectorize(functions, region):
            return None
        blocks = functions.regions.function.blocks
        items = [item for label in looped for item in blocks[label].instructions()]
        if any(item.opcode == "fence" or item.stays or _is_foreign(item) for item in items):
            # Lanes cannot wait for one another while they are in the same loop.
            return None
        block, axes = self._geometry.block, self._geometry.axes
        of_vector = self._geometry.vector_bits // (8 * _common_bytes(items))
        lanes = of_vector * (self._vectors(live) if live else _VECTORS)
        while lanes > max(prod(block), _FEWEST_LANES):
            lanes //= 2
        if live and len(axes) > 1:
            row = block[AXES.index(axes[-1])]
            while row % lanes:
                lanes //= 2
            if lanes < _VECTORS * of_vector:
                return None
        try:
            return VectorizedRegion(functions, region, block, axes, max(lanes, _FEWEST_LANES))
        except Irreducible:
            return None

    def _vectors(self, live: int) -> int:
        """How many vectors of each value fit into the processor's registers."""
        registers = 16 if self._geometry.vector_bits == 256 else 32
        vectors = _MOST_VECTORS
        while vectors > _VECTORS and vectors * live > registers:
            vectors //= 2
        return vectors


def _loops(function: Function, region: Region) -> list[control_flow.Loop]:
    """A region's own loops."""
    labels = set(region.labels)
    inside = {
        label: [each for each in function.blocks[label].successors if each in labels]
        if isinstance(function.blocks[label].terminator, Instruction)
        else []
        for label in region.labels
    }
    return control_flow.natural_loops(inside, region.entry)


def _is_foreign(item: Instruction) -> bool:
    return item.opcode == "call" and elementwise(item.callee) is None


def _common_bytes(items: list[Instruction]) -> int:
    """The size of the numbers that most is done with."""
    sizes = [BYTES[item.type] for item in items if item.type in ("half", "float", "double")]
    if not sizes:
        sizes = [BYTES[item.type] for item in items if item.opcode in BINARY and item.type in BYTES]
    return max(4, max(sizes, key=lambda size: (sizes.count(size), size), default=4))
