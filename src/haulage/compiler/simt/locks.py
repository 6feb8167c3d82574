"""Where a thread may hold a lock that others of its block wait for.

    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    total[0] += x[i]
    cuda.atomic.exch(lock, 0, 0)

One thread after the other does this, from one barrier to the next, so each finds the lock free. At
a cut in between the first would wait for the others, and these for its lock. Programs ask for
barriers; all other cuts have to stand where nothing is held.
"""

from collections.abc import Iterable, Set

from haulage.compiler.simt import graph
from haulage.compiler.simt.barriers import BLOCK_WIDE
from haulage.compiler.simt.model import Block, Function, Instruction
from haulage.compiler.simt.written import ANYWHERE, Roots


def held(function: Function) -> frozenset[str]:
    """Labels of the blocks at whose start a thread may hold something: a loop that waits is before
    them and a write to what it waits for behind them, with no barrier of the block in between."""
    successors = {label: block.successors for label, block in function.blocks.items()}
    roots = Roots(function)
    found: set[str] = set()
    inner: set[str] = set()
    for loop in graph.natural_loops(successors, function.entry):
        awaited = _awaited(_instructions(function, loop.labels - inner), roots)
        inner |= loop.labels
        if awaited:
            exits = {to for label in loop.labels for to in successors[label]} - loop.labels
            found |= _reached(function, exits) & _writers(function, awaited, roots)
    return frozenset(found)


def _awaited(items: list[Instruction], roots: Roots) -> set[str]:
    """The roots of the memory that the `items` of a loop ask for, in the same way in each turn, and
    by whose answer they go one way or another."""
    phis = {item.result for item in items if item.is_phi and item.result}
    found: set[str] = set()
    for asking in items:
        if not asking.stays or asking.result is None:
            continue
        places = roots.of(asking.operands[0]) if asking.operands else {ANYWHERE}
        # Who writes what it has made of what it read does not wait: it goes on if nobody else did.
        read = {item.result for item in items if item.result and roots.read_by(item) & places}
        changing = _made_from(items, phis | read - {asking.result})
        answers = _made_from(items, {asking.result})
        if not changing.intersection(asking.operands) and any(
            len(item.targets) > 1 and answers.intersection(item.operands) for item in items
        ):
            found |= places
    return found


def _made_from(items: Iterable[Instruction], names: set[str]) -> set[str]:
    """Results of `items` that are made from one of `names`, these included."""
    found = set(names)
    grew = True
    while grew:
        made = {item.result for item in items if item.result and found.intersection(item.operands)}
        grew = not made <= found
        found |= made
    return found


def _reached(function: Function, starts: Set[str]) -> set[str]:
    """Labels that can be come to from `starts`, them included, without a barrier of the block."""
    onward = {
        label: () if _has_barrier(block) else block.successors
        for label, block in function.blocks.items()
    }
    return graph.reachable_until(onward, starts, graph.EXIT)


def _writers(function: Function, places: Set[str], roots: Roots) -> set[str]:
    """Labels from whose start a write to `places` can be come to without a barrier of the block."""
    writing = {
        label
        for label, block in function.blocks.items()
        if any(_may_meet(roots.written_by(item), places) for item in _before_barrier(block))
    }
    backwards: dict[str, list[str]] = {label: [] for label in function.blocks}
    for label, block in function.blocks.items():
        for target in () if _has_barrier(block) else block.successors:
            backwards[target].append(label)
    return graph.reachable_until(backwards, writing, graph.EXIT)


def _may_meet(written: Set[str], places: Set[str]) -> bool:
    return bool(written & places or (written and ANYWHERE in written | places))


def _before_barrier(block: Block) -> Iterable[Instruction]:
    for item in block.body:
        if item.callee in BLOCK_WIDE:
            return
        yield item


def _has_barrier(block: Block) -> bool:
    return any(item.callee in BLOCK_WIDE for item in block.body)


def _instructions(function: Function, labels: Set[str]) -> list[Instruction]:
    return [item for label in labels for item in function.blocks[label].instructions()]
