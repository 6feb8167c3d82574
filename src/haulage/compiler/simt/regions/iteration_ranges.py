"""The bounds of each region's work-item loop: the guards that its threads have to pass.

The kernel's guards stand at its start, and who does not pass them has ended: no region is run for
those threads, and no state has to be kept for them. Who does not pass a region's own guards has
nothing to do in that region. A region may also be split by a condition: index-set splitting
(Griebl, Feautrier and Lengauer, 2000).
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from haulage.compiler.simt.analysis import control_flow, guards
from haulage.compiler.simt.analysis.affine import AvailableForms
from haulage.compiler.simt.analysis.guards import Guard, Guards
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd
from haulage.compiler.simt.regions.parallel_regions import Region, Regions

# Instructions of a region that both sides of a split have, up to which it is worth the copies.
_MOST_COPIES = 40


@dataclass(frozen=True)
class IterationRanges:
    """The guards of the kernel, of each region besides, and the instructions by result. `splits`
    are, by the numbers of regions, conditions by which their threads run in loops of their own."""

    of_kernel: tuple[Guard, ...]
    of_regions: tuple[tuple[Guard, ...], ...]
    items: Mapping[str, Instruction]
    splits: Mapping[int, Guard] = field(default_factory=dict)


def unbounded(regions: Regions) -> IterationRanges:
    """Every region runs for all threads."""
    return IterationRanges((), ((),) * len(regions.regions), {})


def without_own(ranges: IterationRanges, numbers: Iterable[int]) -> IterationRanges:
    """The same, but the regions of these numbers run for all that pass the kernel's guards."""
    numbers = frozenset(numbers)
    own = tuple(() if k in numbers else guards for k, guards in enumerate(ranges.of_regions))
    splits = {k: split for k, split in ranges.splits.items() if k not in numbers}
    return replace(ranges, of_regions=own, splits=splits)


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
    *,
    may_split: bool,
) -> IterationRanges:
    """The guards of all regions. `ranges` are those of the function's values, `of_kernel` the
    kernel's guards."""
    items = regions.analyses.items
    parameters = {each.name for each in regions.function.parameters}
    given = {guard.condition for guard in of_kernel}
    of_regions: list[tuple[Guard, ...]] = []
    splits: dict[int, Guard] = {}
    for region in regions.regions:
        made = regions.made_in(region)
        loaded = {name for name in region.loaded if name not in varying and name not in made}
        forms = AvailableForms(items, varying, parameters | loaded, ranges)
        met = Guards() if regions.masked else _guards(regions, region, forms, made)
        own = met.guards
        if not region.number:
            own = tuple(guard for guard in own if guard.condition not in given)
        of_regions.append(own)
        if may_split and met.split and not own and _is_worth_splitting(regions, region, met.split):
            splits[region.number] = met.split
    return IterationRanges(of_kernel, tuple(of_regions), items, splits)


def _guards(regions: Regions, region: Region, forms: AvailableForms, made: Set[str]) -> Guards:
    def ends_idly(block: Block) -> bool:
        if not isinstance(block.terminator, RegionEnd):
            return guards.returns_idly(block)
        kept = regions.stored(made, [block.terminator.target])
        return not any(slot.varying for slot in kept)

    return guards.find(regions.function, region.entry, forms, ends_idly)


def _is_worth_splitting(regions: Regions, region: Region, split: Guard) -> bool:
    """Whether to write a region, which leads to one other or to the end, once for each side."""

    def labels(passes: bool) -> set[str]:
        """The blocks that threads of the region come to which pass, or which do not."""
        successors: dict[str, tuple[str, ...]] = {}
        for label in region.labels:
            block = regions.function.blocks[label]
            targets = () if isinstance(block.terminator, RegionEnd) else block.successors
            if block.condition == split.condition:
                targets = targets[:1] if split.outcome == passes else targets[1:]
            successors[label] = targets
        return control_flow.reachable_until(successors, (region.entry,))

    blocks = regions.function.blocks
    copies = sum(len(blocks[label].body) for label in labels(True) & labels(False))
    return len(region.exits) + region.returns == 1 and copies <= _MOST_COPIES
