"""The bounds of each region's work-item loop: the guards that its threads have to pass.

The kernel's guards stand at its start, and who does not pass them has ended: no region is run for
those threads, and no state has to be kept for them. Who does not pass a region's own guards has
nothing to do in that region.

A region that all threads leave one way or another, as one that is an iteration of a loop and, in
the last of them, what follows the loop, is unswitched where the threads' common answer is known
before they start: it runs in one of two loops over the threads. In a loop over both LLVM threads
jumps, after which the loop has two latches and is not vectorised; it unswitches small loops only.
"""

from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from haulage.compiler.mathematics.definitions import is_mathematics
from haulage.compiler.simt.analysis import control_flow, guards
from haulage.compiler.simt.analysis.affine import AvailableForms
from haulage.compiler.simt.analysis.guards import Guard, Guards
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd
from haulage.compiler.simt.regions.parallel_regions import Region, Regions

# Instructions up to which LLVM unswitches loops itself, or a few less.
_LEFT_TO_LLVM = 45
# Instructions that a call of mathematics is as long as.
_MATHEMATICS = 40


@dataclass(frozen=True)
class IterationRanges:
    """The guards of the kernel, of each region besides, and the instructions by result;
    `unswitched` has the conditions that regions are unswitched on."""

    of_kernel: tuple[Guard, ...]
    of_regions: tuple[tuple[Guard, ...], ...]
    items: Mapping[str, Instruction]
    unswitched: Mapping[int, Guard] = field(default_factory=dict)


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
    given = {guard.condition for guard in of_kernel}
    of_regions: list[tuple[Guard, ...]] = []
    for region in regions.regions:
        own = (
            ()
            if regions.masked
            else _guards(regions, region, _forms(regions, region, varying, ranges))
        )
        if not region.number:
            own = tuple(guard for guard in own if guard.condition not in given)
        of_regions.append(own)
    return IterationRanges(of_kernel, tuple(of_regions), regions.function.items())


def unswitched(
    regions: Regions,
    varying: Set[str],
    ranges: ValueRanges,
    found: IterationRanges,
    vectorized: Container[int] = (),
) -> IterationRanges:
    """The same as `found`, and the conditions that regions are unswitched on, but for those that
    are `vectorized`."""
    conditions: dict[int, Guard] = {}
    for region in regions.regions:
        if regions.masked or region.number in vectorized:
            continue
        ways = len(region.exits) + region.returns
        if ways > 1 and _size(regions.function, region) > _LEFT_TO_LLVM:
            asked = _deciding(regions.function, region, _forms(regions, region, varying, ranges))
            own = (*found.of_kernel, *found.of_regions[region.number])
            if asked is not None and all(guard.condition != asked for guard in own):
                conditions[region.number] = Guard(asked, outcome=True)
    return replace(found, unswitched=conditions)


def _forms(
    regions: Regions, region: Region, varying: Set[str], ranges: ValueRanges
) -> AvailableForms:
    """The forms of values in what is at hand where a region begins.

    Of what a region starts with and makes anew, only that is known by its name in the region which
    is made anew where the region ends.
    """
    function = regions.function
    blocks = [function.blocks[label] for label in region.labels]
    last = [block for block in blocks if isinstance(block.terminator, RegionEnd)]
    renewed = {*region.loaded, *region.recomputed} & regions.made_in(region)
    renewed -= {item.result for block in last for item in block.instructions()} - varying
    known = {name: item for name, item in function.items().items() if name not in renewed}
    parameters = {each.name for each in function.parameters}
    loaded = {name for name in region.loaded if name not in varying} - renewed
    return AvailableForms(known, varying, parameters | loaded, ranges)


def _guards(regions: Regions, region: Region, forms: AvailableForms) -> tuple[Guard, ...]:
    made = regions.made_in(region)

    def ends_idly(block: Block) -> bool:
        if not isinstance(block.terminator, RegionEnd):
            return guards.returns_idly(block)
        kept = regions.stored(made, [block.terminator.target])
        return not any(slot.varying for slot in kept)

    return guards.find(regions.function, region.entry, forms, ends_idly).guards


def _size(function: Function, region: Region) -> int:
    """How many instructions a region is, by a rough measure."""
    items = (item for label in region.labels for item in function.blocks[label].body)
    return sum(_MATHEMATICS if is_mathematics(item.callee) else 1 for item in items)


def _deciding(function: Function, region: Region, forms: AvailableForms) -> str | None:
    """The condition by which a region's threads all go on one way or another, if there is one that
    can be evaluated before they start."""
    blocks = {label: function.blocks[label] for label in region.labels}
    following = {
        label: () if isinstance(block.terminator, RegionEnd) else block.successors
        for label, block in blocks.items()
    }

    def ends(start: str) -> set[str]:
        reached = control_flow.reachable_until(following, (start,), control_flow.EXIT)
        return {label for label in reached if not following[label]}

    for block in blocks.values():
        asked = block.condition
        if asked is None or asked in forms.varying or not forms.can_evaluate(asked):
            continue
        one, other = block.successors
        if ends(one).isdisjoint(ends(other)):
            return asked
    return None
