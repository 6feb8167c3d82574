"""Which threads each region is run for: those that pass the kernel's guards and the region's own.

The kernel's guards stand at its start, and who does not pass them has ended: no region is run for
those threads, and no state has to be kept for them. Who does not pass a region's own guards has
nothing to do in that region.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from haulage.compiler.simt.analysis import control_flow, guards
from haulage.compiler.simt.analysis.affine import AvailableForms
from haulage.compiler.simt.analysis.guards import Guard, Guards
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd
from haulage.compiler.simt.regions.parallel_regions import Region, Regions

# Instructions of a region that are on both ways, up to which it is worth to have them twice.
_TWICE = 40


@dataclass(frozen=True)
class Clipping:
    """The guards of the kernel, of each region besides, and the instructions by result. `partings`
    are conditions by which the threads of a region are run in two loops."""

    of_kernel: tuple[Guard, ...]
    of_regions: tuple[tuple[Guard, ...], ...]
    partings: tuple[Guard | None, ...]
    items: Mapping[str, Instruction]


def none(regions: Regions) -> Clipping:
    """Every region is run for all threads."""
    count = len(regions.regions)
    return Clipping((), ((),) * count, (None,) * count, {})


def without_partings(clipped: Clipping, numbers: Set[int]) -> Clipping:
    """The same, but the regions of these numbers are not run in two loops."""
    partings = tuple(
        None if number in numbers else parting for number, parting in enumerate(clipped.partings)
    )
    return replace(clipped, partings=partings)


def without_own(clipped: Clipping, numbers: Iterable[int]) -> Clipping:
    """The same, but the regions of these numbers are run for all that pass the kernel's guards."""
    all_of_them = frozenset(numbers)
    own = tuple(
        () if number in all_of_them else guards for number, guards in enumerate(clipped.of_regions)
    )
    return replace(without_partings(clipped, all_of_them), of_regions=own)


def kernel_guards(function: Function, varying: Set[str], ranges: ValueRanges) -> Guards:
    """The guards at the kernel's start whose threads end there if they do not pass."""
    items = {name: item for name, (_, item) in function.definitions().items()}
    parameters = {each.name for each in function.parameters}
    forms = AvailableForms(items, varying, parameters, ranges)
    return guards.find(function, function.entry, forms, guards.returns_idly)


def clip(
    regions: Regions,
    varying: Set[str],
    ranges: ValueRanges,
    of_kernel: tuple[Guard, ...],
    *,
    parts: bool,
) -> Clipping:
    """The guards of all regions. `ranges` are those of its values; `parts` is whether
    regions may be run in two loops."""
    items = {name: item for name, (_, item) in regions.function.definitions().items()}
    parameters = {each.name for each in regions.function.parameters}
    given = {guard.condition for guard in of_kernel}
    found = []
    partings: list[Guard | None] = []
    for region in regions.regions:
        made = regions.made_in(region)
        loaded = {name for name in region.loaded if name not in varying and name not in made}
        forms = AvailableForms(items, varying, parameters | loaded, ranges)
        met = Guards() if regions.masked else _guards(regions, region, forms, made)
        own = met.guards
        if not region.number:
            own = tuple(guard for guard in own if guard.condition not in given)
        found.append(own)
        parting = met.parting if parts and not own else None
        if parting is not None and not _is_worth_parting(regions, region, parting):
            parting = None
        partings.append(parting)
    return Clipping(of_kernel, tuple(found), tuple(partings), items)


def blocks_of_way(function: Function, entry: str, parting: Guard, *, passes: bool) -> Set[str]:
    """Labels that threads of a region come to which pass a condition, or which do not."""
    successors: dict[str, tuple[str, ...]] = {}
    for label, block in function.blocks.items():
        targets = () if isinstance(block.terminator, RegionEnd) else block.successors
        if len(targets) == 2 and parting.condition in _operands(block):
            targets = targets[:1] if parting.outcome == passes else targets[1:]
        successors[label] = targets
    return control_flow.reachable_until(successors, (entry,), control_flow.EXIT)


def _operands(block: Block) -> tuple[str, ...]:
    return block.terminator.uses if isinstance(block.terminator, Instruction) else ()


def _is_worth_parting(regions: Regions, region: Region, parting: Guard) -> bool:
    """Whether to write a region, which leads to one other or to the end, for each way that a
    condition sends its threads."""
    function = regions.function
    some = blocks_of_way(function, region.entry, parting, passes=True)
    others = blocks_of_way(function, region.entry, parting, passes=False)
    twice = sum(len(function.blocks[label].body) for label in some & others)
    return len(region.exits) + region.returns == 1 and twice <= _TWICE


def _guards(regions: Regions, region: Region, forms: AvailableForms, made: Set[str]) -> Guards:
    def ends_idly(block: Block) -> bool:
        if not isinstance(block.terminator, RegionEnd):
            return guards.returns_idly(block)
        kept = regions.stored(made, [block.terminator.target])
        return not any(slot.varying for slot in kept)

    return guards.find(regions.function, region.entry, forms, ends_idly)
