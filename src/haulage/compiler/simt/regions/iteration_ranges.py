"""The bounds of each region's work-item loop: the guards that its threads have to pass.

The kernel's guards stand at its start, and who does not pass them has ended: no region is run for
those threads, and no state has to be kept for them. Who does not pass a region's own guards has
nothing to do in that region.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from haulage.compiler.simt.analysis import guards
from haulage.compiler.simt.analysis.affine import AvailableForms
from haulage.compiler.simt.analysis.guards import Guard, Guards
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd
from haulage.compiler.simt.regions.parallel_regions import Region, Regions


@dataclass(frozen=True)
class IterationRanges:
    """The guards of the kernel, of each region besides, and the instructions by result."""

    of_kernel: tuple[Guard, ...]
    of_regions: tuple[tuple[Guard, ...], ...]
    items: Mapping[str, Instruction]


def unbounded(regions: Regions) -> IterationRanges:
    """Every region runs for all threads."""
    return IterationRanges((), ((),) * len(regions.regions), {})


def without_own(ranges: IterationRanges, numbers: Iterable[int]) -> IterationRanges:
    """The same, but the regions of these numbers run for all that pass the kernel's guards."""
    numbers = frozenset(numbers)
    own = tuple(() if k in numbers else guards for k, guards in enumerate(ranges.of_regions))
    return replace(ranges, of_regions=own)


def kernel_guards(function: Function, varying: Set[str], ranges: ValueRanges) -> Guards:
    """The guards at the kernel's start whose threads end there if they do not pass."""
    parameters = {each.name for each in function.parameters}
    forms = AvailableForms(function.items(), varying, parameters, ranges)
    return guards.find(function, function.entry, forms, guards.returns_idly)


def find(
    regions: Regions,
    varying: Set[str],
    ranges: ValueRanges,
    of_kernel: tuple[Guard, ...],
) -> IterationRanges:
    """The guards of all regions. `ranges` are those of the function's values, `of_kernel` the
    kernel's guards."""
    items = regions.analyses.items
    parameters = {each.name for each in regions.function.parameters}
    given = {guard.condition for guard in of_kernel}
    of_regions: list[tuple[Guard, ...]] = []
    for region in regions.regions:
        made = regions.made_in(region)
        loaded = {name for name in region.loaded if name not in varying and name not in made}
        forms = AvailableForms(items, varying, parameters | loaded, ranges)
        own = () if regions.masked else _guards(regions, region, forms, made)
        if not region.number:
            own = tuple(guard for guard in own if guard.condition not in given)
        of_regions.append(own)
    return IterationRanges(of_kernel, tuple(of_regions), items)


def _guards(
    regions: Regions, region: Region, forms: AvailableForms, made: Set[str]
) -> tuple[Guard, ...]:
    def ends_idly(block: Block) -> bool:
        if not isinstance(block.terminator, RegionEnd):
            return guards.returns_idly(block)
        kept = regions.stored(made, [block.terminator.target])
        return not any(slot.varying for slot in kept)

    return guards.find(regions.function, region.entry, forms, ends_idly).guards
