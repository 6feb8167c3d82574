"""What the loops of a region do, to tell whether lanes are worth it."""

from collections.abc import Mapping
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import is_division, is_mathematics
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Block, Instruction
from haulage.compiler.simt.vectorize.layout import Layout, Region
from haulage.compiler.simt.vectorize.likely import LikelySteps
from haulage.compiler.simt.vectorize.operations import BYTES, parse
from haulage.compiler.simt.vectorize.shapes import Shapes
from haulage.compiler.simt.vectorize.widening import is_one_by_one

# The instructions of a function such as exp, roughly.
_MATHEMATICS = 20


@dataclass(frozen=True)
class Work:
    """Of the instructions in loops: how many are arithmetic on vectors; how many are accesses that
    lanes make at places of their own (`apart`, of these `scattered` are stores), or next to one
    another (`together`); how many take one lane after the other (`one_by_one`). `parts` is whether
    lanes go different ways in a loop, other than out of it; `nested` whether they leave a loop at
    different times within another such loop; `follows_loads` whether an address depends on what an
    earlier turn loaded."""

    arithmetic: int
    apart: int
    scattered: int
    together: int
    one_by_one: int
    parts: bool
    nested: bool
    follows_loads: bool


def work_of(
    blocks: Mapping[str, Block], layout: Layout, shapes: Shapes, likely: LikelySteps
) -> Work:
    """Count the work of a region."""
    loops = [region for region in layout.all_regions() if region.is_loop]
    looped = {label for region in loops for label in region.labels}
    # Who divides until something is found takes a turn or hundreds: most lanes would wait.
    searched = {
        label for region in loops if len(_exits(blocks, region)) > 1 for label in region.labels
    }
    arithmetic = apart = scattered = together = one_by_one = 0
    parts = False
    addresses: set[str] = set()
    for label in looped:
        for item in blocks[label].body:
            if item.opcode not in ("load", "store"):
                if item.result is None or shapes.of(item.result) is not None:
                    continue
                searching = label in searched and is_division(item.callee)
                if searching or is_one_by_one(parse(item)):
                    one_by_one += 1
                else:
                    arithmetic += _MATHEMATICS if is_mathematics(item.callee) else 1
                continue
            operation = parse(item)
            if operation is None:
                continue
            step = likely.of(operation.operands[-1][1], label)
            if step == BYTES[operation.type]:
                together += 1
            elif step != 0:
                apart += 1
                scattered += item.opcode == "store"
                addresses.add(operation.operands[-1][1])
        inside = layout.region_of[label].labels
        targets = set(blocks[label].successors)
        parts = parts or (len(targets) > 1 and targets <= inside and shapes.branches(label) is None)
    nested = any(_is_nested(region, shapes) for region in loops)
    follows = _follow(blocks, looped, addresses)
    return Work(arithmetic, apart, scattered, together, one_by_one, parts, nested, follows)


def _exits(blocks: Mapping[str, Block], region: Region) -> list[str]:
    """The blocks from which threads can leave a loop, without ways that hardly any thread goes."""
    return [
        label
        for label in region.labels
        if not region.labels.issuperset(blocks[label].successors)
        and not (isinstance(end := blocks[label].terminator, Instruction) and end.is_foretold)
    ]


def _is_nested(region: Region, shapes: Shapes) -> bool:
    around = region.parent
    while region.header in shapes.split and around is not None:
        if around.is_loop and around.header in shapes.split:
            return True
        around = around.parent
    return False


def _follow(blocks: Mapping[str, Block], looped: set[str], addresses: set[str]) -> bool:
    """Whether one of the addresses is made from what was loaded in an earlier turn of a loop."""
    items: dict[str, Instruction] = {
        item.result: item
        for label in looped
        for item in blocks[label].instructions()
        if item.result
    }
    needs = {
        name: [value for value, _ in item.incoming] if item.is_phi else list(item.uses)
        for name, item in items.items()
    }
    needs = {name: [each for each in those if each in items] for name, those in needs.items()}
    loads = [name for name, item in items.items() if item.opcode == "load"]
    behind = control_flow.reachable_until(control_flow.invert(needs), loads, control_flow.EXIT)
    phis = [name for name, item in items.items() if item.is_phi and name in behind]
    return bool(
        addresses
        & control_flow.reachable_until(control_flow.invert(needs), phis, control_flow.EXIT)
    )
