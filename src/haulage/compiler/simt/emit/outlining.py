"""Takes blocks of a big function out of it: they become a function of their own (as LLVM's
`CodeExtractor` does it).

LLVM goes over a whole function for each loop that it widens, so hundreds of loops in one function
take minutes. Small kernels stay in one function, as LLVM keeps more in registers there.
"""

from collections.abc import Collection, Mapping, Sequence

from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, value_name
from haulage.compiler.simt.regions.parallel_regions import Regions

# Loops times instructions; up to here LLVM takes less than half a second for one function.
_MOST_WORK = 20_000


def is_worth_it(regions: Regions) -> bool:
    """Whether a kernel is so big that its work-item loops should be functions."""
    instructions = sum(
        sum(len(regions.function.blocks[label].body) for label in region.labels)
        + 2 * len(region.loaded)
        + len(region.steps)
        for region in regions.regions
    )
    return len(regions.regions) * instructions > _MOST_WORK


def types_of(function: Function, unaliased: Collection[str] = ()) -> dict[str, str]:
    """The types, with attributes, of a function's parameters and results; nobody has the addresses
    `unaliased` but those who are given them."""
    types = {each.name: each.type for each in function.parameters}
    for item in function.instructions():
        if item.result is not None:
            types[item.result] = item.type
    return types | {name: f"{types[name]} noalias" for name in unaliased}


def outline(
    function: Function, labels: Sequence[str], name: str, types: Mapping[str, str]
) -> Function:
    """Make a function of the blocks `labels`, the first of which is the only one that is entered;
    a call of it takes their place.

    No value that is made in them may be used outside, and no phi stand where they lead to. `types`
    are those of the values that they may use.
    """
    blocks = {label: function.blocks[label] for label in labels}
    items = [item for block in blocks.values() for item in block.instructions()]
    made = {item.result for item in items}
    used = dict.fromkeys(value for item in items for value in item.uses if value not in made)
    targets = (target for block in blocks.values() for target in block.successors)
    exits = list(dict.fromkeys(target for target in targets if target not in blocks))

    outlined = Builder(name, [(types[value], value) for value in used], "i32", "noinline")
    outlined.block("%outlined.start")
    outlined.jump(labels[0])
    outlined.function.blocks.update(blocks)
    for number, label in enumerate(exits):
        outlined.block(label)
        outlined.ret("i32", str(number))

    calling = Builder("", ())
    calling.block(labels[0])
    arguments = [(types[value].split(" ", 1)[0], value) for value in used]
    way = calling.call("i32", name, arguments, value_name(labels[0], "exit"))
    calling.switch("i32", way, exits[0], list(enumerate(exits))[1:])
    kept: dict[str, Block] = {}
    for label, block in function.blocks.items():
        if label not in blocks:
            kept[label] = block
        elif label == labels[0]:
            kept |= calling.function.blocks
    function.blocks = kept
    return outlined.function
