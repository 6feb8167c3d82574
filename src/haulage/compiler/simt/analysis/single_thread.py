"""What is done by threads with one index only: `if threadIdx.x == 0:`.

Others do not wait for a loop there, nor is it worth to have it for many of them at once.
"""

import re
from collections.abc import Mapping, Set

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Function, Instruction

_COMPARED = re.compile(r"= icmp (eq|ne) ")
_BOTH = re.compile(r"select i1 [^,]+, i1 [^,]+, i1 false")
_ADDED = re.compile(r"= add [^%]*%[^,]+, -?\d+$")
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
    before = control_flow.invert(successors)
    closest = control_flow.immediate_dominators(successors, function.entry)
    found: set[str] = set()
    for label, start in starts.items():
        inside = {place for place in closest if control_flow.dominates(closest, start, place)}
        # Come to from elsewhere it would be for others too.
        if set(before[start]) & closest.keys() <= inside | {label}:
            found |= inside
    return frozenset(found)


def asks_for_one_index(
    condition: str, items: Mapping[str, Instruction], varying: Set[str]
) -> bool | None:
    """The outcome of a condition that only threads with one index along an axis can come to, if
    there is one: of `t == n - 1` or `t == 0 and i > 0`, where `n` is the same for all threads."""
    item = items.get(condition)
    if item is None:
        return None
    if item.opcode == "icmp":
        found = _COMPARED.search(item.text)
        indices = [name for name in item.uses if _is_index(name, items)]
        others = set(item.uses) - set(indices)
        if found is None or len(indices) != 1 or others & varying:
            return None
        return found[1] == "eq"
    if item.opcode == "xor" and item.text.endswith(", true"):
        asked = asks_for_one_index(item.uses[0], items, varying)
        return None if asked is None else not asked
    if item.opcode in ("and", "or") or (item.opcode == "select" and _BOTH.search(item.text)):
        both = item.opcode != "or"
        asked_each = [asks_for_one_index(name, items, varying) for name in item.uses]
        return both if both in asked_each else None
    return None


def _way_of_few(terminator: object, items: dict[str, Instruction]) -> str | None:
    """Where a branch sends threads with one index, if that is what it asks for."""
    if not isinstance(terminator, Instruction) or len(set(terminator.targets)) != 2:
        return None
    condition = items.get(terminator.uses[0]) if terminator.uses else None
    found = _COMPARED.search(condition.text) if condition is not None else None
    if condition is None or found is None:
        return None
    if not any(_is_index(name, items) for name in condition.uses):
        return None
    return terminator.targets[0 if found[1] == "eq" else 1]


def _is_index(name: str, items: Mapping[str, Instruction]) -> bool:
    while name in items and items[name].uses:
        if items[name].opcode not in _CASTS and not _ADDED.search(items[name].text):
            return False
        name = items[name].uses[0]
    return name.startswith("%threadIdx.")
