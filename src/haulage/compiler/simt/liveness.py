"""Which values are still needed where a block begins."""

from collections.abc import Mapping, Set

from haulage.compiler.simt.model import Block, Function


def live_in(
    function: Function, at_entry: Mapping[str, tuple[Set[str], Set[str]]] | None = None
) -> dict[str, set[str]]:
    """For each label the results that the block or one after it uses and that came before it.

    `at_entry` changes what is needed at some labels: (no longer needed, needed instead). Parameters
    are not counted. A phi's source is needed at the end of the block it comes from.
    """
    changes = at_entry or {}
    results = set(function.definitions())
    used, made = {}, {}
    for label, block in function.blocks.items():
        used[label], made[label] = _used_and_made(block, results)
    passed_to_phis = _phi_sources(function, results)
    live: dict[str, set[str]] = {label: set() for label in function.blocks}
    changed = True
    while changed:
        changed = False
        for label in reversed(function.blocks):
            block = function.blocks[label]
            after = set(passed_to_phis[label])
            for successor in block.successors:
                after |= live[successor]
            needed = used[label] | (after - made[label])
            if label in changes:
                dropped, instead = changes[label]
                needed = (needed - dropped) | instead
            if needed != live[label]:
                live[label] = needed
                changed = True
    return live


def _used_and_made(block: Block, results: set[str]) -> tuple[set[str], set[str]]:
    used: set[str] = set()
    made: set[str] = set()
    for item in block.instructions():
        if not item.is_phi:
            used |= {name for name in item.operands if name in results and name not in made}
        if item.result:
            made.add(item.result)
    return used, made


def _phi_sources(function: Function, results: set[str]) -> dict[str, set[str]]:
    """For each label the results that phis take when control comes from it."""
    sources: dict[str, set[str]] = {label: set() for label in function.blocks}
    for block in function.blocks.values():
        for phi in block.phis:
            for value, label in phi.incoming:
                if value in results:
                    sources[label].add(value)
    return sources
