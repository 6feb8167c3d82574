"""Which regions of a kernel are vectorised, by how much, and where it is split for that."""

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field, replace
from math import prod

from haulage.compiler.mathematics.definitions import is_division, is_mathematics
from haulage.compiler.simt.analysis import AXES, control_flow, guards
from haulage.compiler.simt.analysis.affine import index_forms
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.control_flow import EXIT, Loop
from haulage.compiler.simt.analysis.guards import Guards
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.strides import COMMON, by_thread, size_of_access
from haulage.compiler.simt.analysis.uniformity import Uniformity, divergent_loops
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.emit.region_function import RegionFunctions
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.compiler.simt.ir.types import BINARY
from haulage.compiler.simt.regions import fission, parallel_regions
from haulage.compiler.simt.regions.parallel_regions import Region, Regions
from haulage.compiler.simt.vectorize.builder import (
    BYTES,
    elementwise,
    has_vector_form,
    is_scalarized,
)
from haulage.compiler.simt.vectorize.function import VectorizedRegion, can_vectorize
from haulage.compiler.simt.vectorize.shapes import Irreducible

# Two vectors of each value keep the processor's pipelines busier than one (LLVM's interleaving).
_VECTORS = 2
# As many as multiply-adds are on their way at once, where nothing else is done; fewer where lanes
# leave loops at different times, as all wait for the last one.
_MOST_VECTORS = 8
_MOST_OF_DIVERGENT = 4
_FEWEST_LANES = 8

# The instructions of a function such as exp, roughly.
_MATHEMATICS = 20
# Gathers and scatters take as long as accesses one after the other; so much arithmetic has to come
# with each that it is worth to have it for many lanes at once.
_ARITHMETIC_PER_ACCESS = 8
# A scalarised instruction takes longer than in a loop of its own.
_ARITHMETIC_PER_SCALARIZED = 16


@dataclass(frozen=True)
class Geometry:
    """A block's size (x, y, z), the axes of its loops, outermost first, and the bits of the
    processor's vectors."""

    block: tuple[int, int, int]
    axes: tuple[str, ...]
    vector_bits: int


@dataclass(frozen=True)
class Plan:
    """The regions of a kernel, and those of them that are vectorised. `stays_scalar` is whether
    threads are faster one after the other, so that no loop should be interchanged with that over
    them."""

    regions: Regions | None = None
    vectorized: Mapping[int, VectorizedRegion] = field(default_factory=dict)
    stays_scalar: bool = False

    def headers(self) -> set[str]:
        """The headers of the loops in vectorised regions."""
        return {loop.header for each in self.vectorized.values() for loop in each.order.loops}


class Vectorizer:
    """Plans for a kernel; `own_memory` are the names of the memory that every region has, `live`
    how many values of a thread are live in an iteration of each loop, by its header. With
    `rematerializes` regions compute cheap values again."""

    def __init__(
        self,
        body: Body,
        own_memory: frozenset[str],
        geometry: Geometry,
        live: Mapping[str, int],
        *,
        rematerializes: bool = True,
    ) -> None:
        self._rematerializes = rematerializes
        self._body = body
        self._own_memory = own_memory
        self._geometry = geometry
        self._live = live

    def plan_kernel(self, unwanted: Set[str], present: Uniformity, together: Uniformity) -> Plan:
        """The plan for a kernel without barriers: it is vectorised as a whole, if it has divergent
        loops and loops that are worth it, or none and reads rows that its threads look up.
        `unwanted` are the headers of divergent loops that are no reason to vectorise it,
        `together` is the uniformity of values with those of threads that have left."""
        function = self._body.function
        analyses, position = Analyses(function), AXES.index(self._geometry.axes[-1])
        wanted = {loop.header for loop in analyses.loops}
        if barriers(function):
            return Plan()
        if not wanted and _looks_up_rows(analyses, position):
            wanted.add(function.entry)
        elif divergent_loops(analyses, present) <= unwanted:
            return Plan()
        return self._plan(fission.split(function, []), wanted, (), together)

    def plan_regions(
        self,
        split: Function,
        loops: list[str],
        strips: Collection[str],
        around_strips: Mapping[str, tuple[int, ...]],
        unwanted: Set[str],
        present: Uniformity,
    ) -> tuple[Function, Plan]:
        """A kernel's function, which is `split` at the collectives of lanes, split at the headers
        `loops` too; and the plan for it: divergent loops are vectorised.

        It is not split at those of the loops that are to be strip-mined, `strips`, if they can be
        vectorised, but perhaps around them (`around_strips`). `unwanted` are the headers of
        divergent loops that are no reason to vectorise their region.
        """
        divergent = divergent_loops(Analyses(self._body.function), present) - unwanted
        nests = {loop.header: loop.labels for loop in Analyses(split).loops}
        while strips:
            mined = frozenset[str]().union(*(nests[header] for header in strips))
            kept = [header for header in loops if header not in mined]
            function = fission.split(split, kept, around_strips)
            plan = self._plan(function, {*divergent.difference(kept), *strips}, strips, present)
            found = plan.headers()
            if found.issuperset(strips):
                return function, plan
            strips = [header for header in strips if header in found]
        function = fission.split(split, loops)
        return function, self._plan(function, divergent.difference(loops), (), present)

    def _plan(
        self, function: Function, wanted: Set[str], strips: Collection[str], present: Uniformity
    ) -> Plan:
        """The plan for a function that is split; `wanted` are the headers of the loops to
        vectorise, those to strip-mine, `strips`, among them."""
        if not wanted:
            return Plan()
        analyses = Analyses(function)
        ranges = analyses.get(ValueRanges)
        # Without guards as bounds where some lanes would have to test them.
        for first in (guards.of_kernel(function, present.varying, ranges), Guards()):
            staying = replace(present, exiting=present.exiting - first.labels)
            divided = parallel_regions.divide(
                analyses, staying, self._own_memory, rematerializes=self._rematerializes
            )
            if first.guards and divided.masked:
                continue
            clipped = parallel_regions.with_guards(divided, present.varying, ranges, first.guards)
            # Lanes are masked by guards of their own region.
            unclipped = parallel_regions.without_own_guards(clipped, range(len(divided.regions)))
            possible = self._vectorize(unclipped, wanted, strips)
            found = {number: each for number, each in possible.items() if is_profitable(each)}
            if not found:
                return Plan(stays_scalar=bool(possible))
            if not first.guards or all(each.is_along_rows for each in found.values()):
                return Plan(parallel_regions.without_own_guards(clipped, found), found)
        return Plan()

    def _vectorize(
        self, divided: Regions, wanted: Set[str], strips: Collection[str]
    ) -> dict[int, VectorizedRegion]:
        """The regions that can be vectorised, of those with loops of which `wanted` has the
        header."""
        functions = RegionFunctions(self._body, divided)
        found: dict[int, VectorizedRegion] = {}
        for region in divided.regions:
            loops = _loops(divided.function, region)
            headers = {loop.header for loop in loops}
            if not wanted.isdisjoint((region.entry, *headers)):
                in_strips = not headers.isdisjoint(strips)
                vectorized = self._vectorize_region(functions, region, loops, in_strips)
                if vectorized is not None:
                    found[region.number] = vectorized
        return found

    def _vectorize_region(
        self, functions: RegionFunctions, region: Region, loops: list[Loop], in_strips: bool
    ) -> VectorizedRegion | None:
        """A region, with its own `loops`, on vectors, or None if it cannot be vectorised.

        `in_strips` is whether all threads go round one of them together, and it is strip-mined.
        """
        if not can_vectorize(functions, region):
            return None
        blocks = functions.regions.function.blocks
        looped = {label for loop in loops for label in loop.labels} or region.labels
        items = [item for label in looped for item in blocks[label].instructions()]
        if any(item.opcode == "fence" or item.stays or _is_foreign(item) for item in items):
            # Lanes cannot wait for one another while they are in the same loop.
            return None
        block, axes = self._geometry.block, self._geometry.axes
        of_vector = self._geometry.vector_bits // (8 * _common_bytes(items))
        least = _VECTORS * of_vector
        lanes = of_vector * self._vectors(loops, in_strips)
        while lanes > max(prod(block), _FEWEST_LANES):
            lanes //= 2
        if len(axes) > 1:
            # In a strip of one row neighbours are side by side in memory.
            of_row = lanes
            while block[AXES.index(axes[-1])] % of_row:
                of_row //= 2
            is_narrow = not in_strips and any(map(_is_narrow, items))
            if of_row >= (_FEWEST_LANES if is_narrow else least):
                lanes = of_row
            elif in_strips:
                return None
            else:
                lanes = min(lanes, least)
        try:
            return VectorizedRegion(functions, region, block, axes, max(lanes, _FEWEST_LANES))
        except Irreducible:
            return None

    def _vectors(self, loops: list[Loop], in_strips: bool) -> int:
        """How many vectors of each value the processor's registers hold in the loops."""
        vectors = _MOST_VECTORS if in_strips else _MOST_OF_DIVERGENT
        # A loop under masks waits for what it computes, and spilling costs it less than that.
        registers = 16 if in_strips and self._geometry.vector_bits == 256 else 32
        live = max((self._live.get(loop.header, 0) for loop in loops), default=registers)
        while vectors > _VECTORS and vectors * live > registers:
            vectors //= 2
        return vectors


def _is_narrow(item: Instruction) -> bool:
    """Whether it accesses numbers of one or two bytes, which x86-64 cannot gather or scatter."""
    kind = item.operands[0].type if item.opcode == "store" else item.type
    return item.opcode in ("load", "store") and BYTES.get(kind, 4) < 4


def _loops(function: Function, region: Region) -> list[Loop]:
    """A region's own loops."""
    return control_flow.Graph(function.within(region.labels), region.entry).loops


def _looks_up_rows(analyses: Analyses, position: int) -> bool:
    """Whether threads along the innermost axis read a row whose place they all load.

    LLVM, which does not know that no thread's store changes that, would load it for each thread
    again, and gather the row.
    """
    strides, items = analyses.get(by_thread), analyses.function.instructions()
    accesses = [item for item in items if item.address is not None]
    places = {
        item.result
        for item in accesses
        if item.opcode == "load"
        and strides.of(item.address)[position] == 0
        and strides.of(item.address) != COMMON
    }
    forms = analyses.get(index_forms, wraparound=False)
    return any(
        strides.of(item.address)[position] == size_of_access(item)
        and any(symbol.value in places for symbol in forms.of(item.address).symbols)
        for item in accesses
        if item.address is not None
    )


def _is_foreign(item: Instruction) -> bool:
    return item.opcode == "call" and elementwise(item.callee) is None


def _common_bytes(items: list[Instruction]) -> int:
    """The size of the numbers that most is done with."""
    sizes = [BYTES[item.type] for item in items if item.type in ("half", "float", "double")]
    if not sizes:
        sizes = [BYTES[item.type] for item in items if item.opcode in BINARY and item.type in BYTES]
    return max(4, max(sizes, key=lambda size: (sizes.count(size), size), default=4))


def is_profitable(region: VectorizedRegion) -> bool:
    """Whether lanes are faster than threads one after the other, by what the loops of a region
    do."""
    blocks, order, shapes = region.blocks, region.order, region.shapes
    looped = {label for loop in order.loops for label in loop.labels} or blocks.keys()
    # A search by division takes an iteration or hundreds: most lanes would wait.
    searching = {label for loop in order.loops if _exits(blocks, loop) > 1 for label in loop.labels}
    arithmetic = scattered = scalarized = 0
    gathered: list[str] = []
    parts = is_nested = False
    for label in looped:
        block, around = blocks[label], order.loops_around[label]
        for item in block.body:
            if item.opcode not in ("load", "store"):
                if item.result is None or shapes.of(item.result) is not None:
                    continue
                if is_scalarized(item) or (label in searching and is_division(item.callee)):
                    scalarized += 1
                else:
                    arithmetic += _MATHEMATICS if is_mathematics(item.callee) else 1
            elif has_vector_form(item):
                address = item.operands[-1].text
                if shapes.likely(address, label) not in (0, BYTES[item.accessed_type]):
                    gathered.append(address)
                    scattered += item.opcode == "store"
        is_inside = bool(around) and around[0].labels.issuperset(block.successors)
        parts = parts or (is_inside and shapes.is_divergent(label))
        is_nested = is_nested or sum(loop.header in shapes.divergent for loop in around) > 1
    if not (scalarized or scattered) and (
        (parts and not is_nested) or _follows_loads(blocks, looped, set(gathered))
    ):
        # Threads one after the other would wait for mispredicted branches, or for memory. In
        # divergent loops within one another most lanes wait themselves; so they do for the few
        # that write to places of their own, as an insertion or a stack does.
        return True
    least = _ARITHMETIC_PER_ACCESS * len(gathered) + _ARITHMETIC_PER_SCALARIZED * scalarized
    return arithmetic >= least


def _exits(blocks: Mapping[str, Block], loop: Loop) -> int:
    """From how many blocks threads can leave a loop, but for edges that hardly any takes."""
    return sum(
        not loop.labels.issuperset(block.successors)
        and not (isinstance(block.terminator, Instruction) and block.terminator.is_foretold)
        for block in map(blocks.__getitem__, loop.labels)
    )


def _follows_loads(blocks: Mapping[str, Block], looped: Set[str], addresses: set[str]) -> bool:
    """Whether one of the addresses is made from what was loaded in an earlier iteration."""
    items = Function((), {label: blocks[label] for label in looped}).items()
    users = control_flow.invert(
        {name: [each for each in item.uses if each in items] for name, item in items.items()}
    )

    def reached(opcode: str, among: set[str]) -> set[str]:
        starts = [name for name in among if items[name].opcode == opcode]
        return control_flow.reachable_until(users, starts, EXIT)

    return not addresses.isdisjoint(reached("phi", reached("load", set(items))))
