"""Whether a kernel is faster with blocks that follow one another run as one
(`block_coalescing.py`).

Long loops suit memory. But a loop whose number of turns LLVM knows is sometimes widened, or
unrolled, where a longer one is not: with accesses by a stride that is known to nobody, or with a
loop of the kernel's own within. And along a row a store under a mask keeps the next turn's loads
waiting, if they are near it in another page, as in `if inside: b[i, j] = a[i, j - 1]`.
"""

from collections.abc import Set

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.guards import Guard, Guards
from haulage.compiler.simt.analysis.strides import UNKNOWN, StrideAnalysis
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.model import Function, Instruction, RegionEnd
from haulage.compiler.simt.regions.iteration_ranges import blocks_of_way
from haulage.compiler.simt.regions.parallel_regions import Regions

_ORDERED = tuple(f" {sign}{test} " for sign in "su" for test in ("lt", "le", "gt", "ge"))
_JOINING = frozenset(("select", "and", "or", "xor"))


def is_worth_it(
    regions: Regions,
    axis: str,
    alone: str,
    varying: Set[str],
    settled: Guards,
    parting: Guard | None,
) -> bool:
    """Whether to run blocks along an axis as one. `alone` is the axis that a block by itself is run
    along, `settled` are the guards that loops are bounded by, `parting` is a condition that parts
    them, `varying` the values that differ from thread to thread."""
    if len(regions.regions) > 1:
        return False
    function = regions.function
    strides = StrideAnalysis(function)
    position = AXES.index(axis)
    addresses = [
        item.address
        for block in function.blocks.values()
        for item in block.body
        if item.opcode in ("load", "store")
    ]
    if any(strides.of(address)[position] == UNKNOWN for address in addresses):
        return False
    # Neighbours in memory are worth any mask.
    return axis != alone or not _masks_stores(function, varying, settled, parting)


def _masks_stores(
    function: Function, varying: Set[str], settled: Guards, parting: Guard | None
) -> bool:
    """Whether a store of most threads is under a bound on indices that no loop ends at."""
    told = {guard.condition for guard in settled.guards}
    labels: Set[str] = function.blocks.keys()
    if parting is not None:
        told.add(parting.condition)
        labels = blocks_of_way(function, function.entry, parting, passes=True)
    items = {name: item for name, (_, item) in function.definitions().items()}
    successors = {label: block.successors for label, block in function.blocks.items()}
    meeting = control_flow.immediate_postdominators(successors)
    for label, block in function.blocks.items():
        end = block.terminator
        if label in settled.labels or label not in labels:
            continue
        if isinstance(end, RegionEnd) or end is None or len(end.targets) < 2:
            continue
        if not any(_is_bound(name, items, varying, told) for name in end.uses):
            continue
        inside = control_flow.reachable_until(
            successors, block.successors, meeting.get(label, control_flow.EXIT)
        )
        if any(item.opcode == "store" for each in inside for item in function.blocks[each].body):
            return True
    return False


def _is_bound(
    condition: str, items: dict[str, Instruction], varying: Set[str], told: Set[str]
) -> bool:
    """Whether a condition has a comparison by order in it that differs from thread to thread."""
    waiting, seen = [condition], set(told)
    while waiting:
        name = waiting.pop()
        item = items.get(name)
        if name in seen or name not in varying or item is None:
            continue
        seen.add(name)
        if item.opcode == "icmp" and any(test in item.text for test in _ORDERED):
            return True
        if item.opcode in _JOINING:
            waiting.extend(item.uses)
    return False
