"""What is done by threads with one index only: `if threadIdx.x == 0:`.

Others do not wait for a loop there, nor is it worth to have it for many of them at once.
"""

import re

from haulage.compiler.simt import graph
from haulage.compiler.simt.model import Function, Instruction

_COMPARED = re.compile(r"= icmp (eq|ne) ")
_CASTS = frozenset(("sext", "zext", "trunc"))


def blocks_of_few(function: Function) -> frozenset[str]:
    """Labels of the blocks that only threads with one index along an axis come to."""
    items = {name: item for name, (_, item) in function.definitions().items()}
    starts = {
        label: start
        for label, block in function.blocks.items()
        for start in (_way_of_few(block.terminator, items),)
        if start is not None
    }
    if not starts:
        return frozenset()
    successors = {label: block.successors for label, block in function.blocks.items()}
    before = graph.invert(successors)
    closest = graph.immediate_dominators(successors, function.entry)
    found: set[str] = set()
    for label, start in starts.items():
        inside = {place for place in closest if graph.dominates(closest, start, place)}
        # Come to from elsewhere it would be for others too.
        if set(before[start]) & closest.keys() <= inside | {label}:
            found |= inside
    return frozenset(found)


def _way_of_few(terminator: object, items: dict[str, Instruction]) -> str | None:
    """Where a branch sends threads with one index, if that is what it asks for."""
    if not isinstance(terminator, Instruction) or len(set(terminator.targets)) != 2:
        return None
    condition = items.get(terminator.operands[0]) if terminator.operands else None
    found = _COMPARED.search(condition.text) if condition is not None else None
    if condition is None or found is None:
        return None
    if not any(_is_index(name, items) for name in condition.operands):
        return None
    return terminator.targets[0 if found[1] == "eq" else 1]


def _is_index(name: str, items: dict[str, Instruction]) -> bool:
    while name in items and items[name].opcode in _CASTS and items[name].operands:
        name = items[name].operands[0]
    return name.startswith("%threadIdx.")
