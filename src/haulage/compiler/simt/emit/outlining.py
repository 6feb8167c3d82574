"""Takes the states of a big block function out of it: each becomes a function of its own.

LLVM goes over a whole function for each loop that it widens, so hundreds of loops in one function
take minutes. Small kernels stay in one region, as LLVM keeps more in registers there.
"""

import re
from collections.abc import Iterable, Sequence

from haulage.compiler.simt.emit.block_function import Typed, argument_list, parameter_list
from haulage.compiler.simt.ir.reader import read_instruction
from haulage.compiler.simt.regions.parallel_regions import Regions

# Loops times instructions; up to here LLVM takes less than half a second for one function.
_MOST_WORK = 20_000

_WORD = r'(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
_NAME = re.compile(f"%{_WORD}")
_DEFINED = re.compile(f"(?m)^(?:  (%{_WORD}) = |({_WORD}):$)")


def is_worth_it(regions: Regions) -> bool:
    """Whether a cut body is so big that its states should be functions."""
    instructions = sum(
        sum(len(regions.function.blocks[label].body) for label in region.labels)
        + 2 * len(region.loaded)
        + len(region.steps)
        for region in regions.regions
    )
    return len(regions.regions) * instructions > _MOST_WORK


def values(parameters: Iterable[Typed], lines: Iterable[str]) -> dict[str, str]:
    """The types, with attributes, of what the states of a block function can name: its parameters,
    and the rooms that its first `lines` make."""
    known = {name: kind for kind, name in parameters}
    for line in lines:
        if line.startswith("  %"):
            made = read_instruction(line.strip())
            assert made.result is not None
            # Nobody has the address of a slot but those who are given it.
            is_slot = made.result.endswith('/room"')
            known[made.result] = f"{made.type} noalias" if is_slot else made.type
    return known


def outline(lines: Sequence[str], known: dict[str, str]) -> tuple[str, list[str]]:
    """(the function of a state, the lines that call it in the block function).

    `lines` begin with the state's label and go to their end without another way out than branches
    to labels of the block function.
    """
    label = lines[0].removesuffix(":")
    text = "\n".join(lines)
    made = {value or f"%{block}" for value, block in _DEFINED.findall(text)}
    free = [name for name in dict.fromkeys(_NAME.findall(text)) if name not in made]
    given = [(known[name], name) for name in free if name in known]
    outside = [name for name in free if name not in known]
    leaving = [
        line
        for number, name in enumerate(outside)
        for line in (f"{name[1:]}:", f"  ret i32 {number}")
    ]
    function = [
        f"define internal i32 @haulage.{label}({parameter_list(given)}) noinline {{",
        "state.start:",
        f"  br label %{label}",
        text,
        *leaving,
        "}",
    ]
    arguments = argument_list([(kind.split(" ", 1)[0], name) for kind, name in given])
    cases = " ".join(f"i32 {number}, label {name}" for number, name in enumerate(outside[1:], 1))
    calling = [
        f"{label}:",
        f"  %way.{label} = call i32 @haulage.{label}({arguments})",
        f"  switch i32 %way.{label}, label {outside[0]} [ {cases} ]",
    ]
    return "\n".join(function), calling
