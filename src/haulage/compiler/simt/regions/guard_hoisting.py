"""Hoists what threads with one index do amid the work of others to where all threads are together.

    if i < n:                                   if i < n:
        tile[t + 1] = x[i]                          tile[t + 1] = x[i]
        if t == 0:                becomes       if i < n and t == 0:
            tile[0] = x[i - 1]                      tile[0] = x[i - 1]
        ...                                     if i < n:
                                                    ...

With splits between them each is a region with guards of its own. Amid the rest the store, which
goes to one place in a whole vector, would be a scatter under a mask. A thread does the same things
in the same order; others of its block may come in between, as they may without a barrier.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from haulage.compiler.mathematics.definitions import DIVISIONS
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BARRIERS
from haulage.compiler.simt.analysis.guards import has_effect
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.single_thread import IndexEquations
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.compiler.simt.regions.guard_fission import begins_behind_barrier, waits_at_once
from haulage.compiler.simt.regions.rematerialization import is_arithmetic


def hoist(analyses: Analyses, flow: Uniformity, held: Set[str]) -> tuple[Function, list[str]]:
    """(the function with the guards hoisted, labels of the blocks to split in front of). Nothing is
    hoisted from where a thread may hold a lock: at blocks in `held` (`locks.py`)."""
    result = analyses.function.copy()
    equations = analyses.get(IndexEquations)
    splits: list[str] = []
    for label in analyses.function.blocks:
        block = result.blocks[label]
        outcome = equations.outcome(block.condition or "", flow.varying)
        guarded = None if outcome is None else _guarded(result, block, outcome)
        if guarded is None or guarded.label in held or guarded.meeting in held:
            continue
        outer = None
        if label in flow.divergent:
            outer = _outer(result, guarded, flow.divergent)
            if outer is None:
                continue
        elif guarded.meeting in flow.divergent or begins_behind_barrier(block):
            continue
        splits += _hoist(result, guarded, outer, len(splits))
    return result, splits


@dataclass(frozen=True)
class _Guarded:
    """The block `label` whose branch sends threads with one index to `arm`; all blocks of it are
    `inside`, and who has done it meets the others at `meeting`."""

    label: str
    arm: str
    meeting: str
    inside: frozenset[str]


@dataclass(frozen=True)
class _Outer:
    """The block `label` whose branch leads to `arm` and, by the blocks `path`, to a guard, or else
    straight to `end`."""

    label: str
    arm: str
    end: str
    path: tuple[str, ...]


def _guarded(function: Function, block: Block, outcome: bool) -> _Guarded | None:
    if len(set(block.successors)) != 2:
        return None
    arm, meeting = block.successors if outcome else block.successors[::-1]
    closest = control_flow.immediate_dominators(function.successors(), function.entry)
    inside = frozenset(place for place in closest if control_flow.dominates(closest, arm, place))
    places = [function.blocks[label] for label in inside]
    items = [item for place in places for item in place.instructions()]
    if (
        block.label in inside
        or {target for place in places for target in place.successors} - inside != {meeting}
        or function.predecessors()[arm] != [block.label]
        or function.blocks[meeting].phis
        or function.blocks[arm].phis
        or any(item.callee in BARRIERS for item in items)
        or not all(place.successors for place in places)
        or not any(map(has_effect, items))
    ):
        return None
    return _Guarded(block.label, arm, meeting, inside)


def _outer(function: Function, guarded: _Guarded, divergent: Set[str]) -> _Outer | None:
    """The one branch on which it depends who comes to a guard."""
    successors, before = function.successors(), function.predecessors()
    path = [guarded.label]
    while len(before[path[0]]) == 1:
        source = before[path[0]][0]
        if source not in divergent:
            break
        if len(successors[source]) != 1 or source in path:
            return None
        path.insert(0, source)
    if len(before[path[0]]) != 1 or any(function.blocks[each].phis for each in path):
        return None
    label = before[path[0]][0]
    if label in divergent or function.blocks[label].condition is None:
        return None
    if len(set(successors[label])) != 2:
        return None
    (end,) = set(successors[label]) - {path[0]}
    if control_flow.immediate_postdominators(successors)[label] != end or end in divergent:
        return None
    if set(before[guarded.meeting]) - guarded.inside != {guarded.label}:
        return None
    return _Outer(label, path[0], end, tuple(path)) if _move_up(function, label, path) else None


def _move_up(function: Function, label: str, path: Sequence[str]) -> bool:
    """Move what is made on the path and used behind it to the block `label`; False, and nothing is
    moved, where that cannot be."""
    made = {item.result: item for each in path for item in function.blocks[each].body}
    behind = {
        name
        for place, block in function.blocks.items()
        for item in block.instructions()
        if place not in path or item is block.terminator
        for name in item.uses
    }
    moved: set[str] = set()
    waiting = [name for name in made if name in behind and name]
    while waiting:
        name = waiting.pop()
        if name not in moved:
            item = made[name]
            # A division that is not asked for could be one by zero.
            if not is_arithmetic(item) or item.opcode in DIVISIONS:
                return False
            moved.add(name)
            waiting += [operand for operand in item.uses if operand in made]
    target = function.blocks[label].body
    for each in path:
        block = function.blocks[each]
        target += [item for item in block.body if item.result in moved]
        block.body = [item for item in block.body if item.result not in moved]
    return True


def _hoist(function: Function, guarded: _Guarded, outer: _Outer | None, number: int) -> list[str]:
    """Hoist one guard; returns the labels to split in front of."""
    block = function.blocks[guarded.label]
    end = block.terminator
    assert isinstance(end, Instruction)
    conditions = _Conditions(function, f"%few.{number}")
    guard = Block(f"%few.{number}")
    mine = conditions.again(end.uses[0], guard)
    if outer is None:
        guard.terminator = end.renamed({end.uses[0]: mine})
        _insert(function, guarded.label, guard)
        waits = waits_at_once(function.blocks[guarded.meeting])
        following = [] if waits else [guarded.meeting]
    else:
        mine = conditions.wanted(mine, end.targets[0] == guarded.arm, guard)
        following = [_join_outer(function, guarded, outer, guard, mine, conditions)]
    block.terminator = build.jump(guard.label)
    return [guard.label, *following]


def _join_outer(
    function: Function,
    guarded: _Guarded,
    outer: _Outer,
    guard: Block,
    mine: str,
    conditions: "_Conditions",
) -> str:
    """Put the block `guard` where both arms of the outer branch meet; returns the label of the
    block behind what it guards, which leads to what is left of the outer branch's arm."""
    start = function.blocks[outer.label]
    asked = start.terminator
    assert isinstance(asked, Instruction)
    rest = Block(f"{guard.label}.over")
    condition = asked.uses[0]
    here = conditions.again(condition, guard)
    here = conditions.wanted(here, asked.targets[0] == outer.arm, guard)
    both = conditions.name()
    guard.body.append(build.select(both, here, "i1", mine, "false"))
    guard.terminator = build.branch(both, guarded.arm, rest.label)
    later = conditions.again(condition, rest)
    rest.terminator = asked.renamed({condition: later, outer.arm: guarded.meeting})
    _retarget(start, outer.end, guard.label)
    for place in guarded.inside:
        _retarget(function.blocks[place], guarded.meeting, rest.label)
    last = function.blocks[outer.end]
    last.phis = [_from(phi, outer.label, rest.label) for phi in last.phis]
    _insert(function, guarded.label, guard, rest)
    return rest.label


class _Conditions:
    """Writes conditions once more, where they are asked for, with names of their own: so they are
    known for guards of the region."""

    def __init__(self, function: Function, stem: str) -> None:
        self._items = function.items()
        self._stem = stem
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"{self._stem}.{self._count}"

    def again(self, condition: str, block: Block) -> str:
        item = self._items.get(condition)
        if item is None or item.type != "i1" or not is_arithmetic(item):
            return condition
        name = self.name()
        names = {condition: name}
        if item.opcode not in ("icmp", "fcmp"):
            names |= {operand: self.again(operand, block) for operand in item.uses}
        block.body.append(item.renamed(names))
        return name

    def wanted(self, condition: str, outcome: bool, block: Block) -> str:
        """The condition, or its opposite, which is made in `block`."""
        if outcome:
            return condition
        name = self.name()
        block.body.append(build.binary(name, "xor", "i1", condition, "true"))
        return name


def _insert(function: Function, behind: str, *blocks: Block) -> None:
    ordered: dict[str, Block] = {}
    for label, block in function.blocks.items():
        ordered[label] = block
        if label == behind:
            ordered |= {each.label: each for each in blocks}
    function.blocks = ordered


def _retarget(block: Block, old: str, new: str) -> None:
    end = block.terminator
    assert isinstance(end, Instruction)
    block.terminator = end.renamed({old: new})


def _from(phi: Instruction, old: str, new: str) -> Instruction:
    return replace(phi, sources=tuple(new if label == old else label for label in phi.sources))
