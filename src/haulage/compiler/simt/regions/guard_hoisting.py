"""Lifts what threads with one index do amid the work of others to where all threads are together.

    if i < n:                                   if i < n:
        tile[t + 1] = x[i]                          tile[t + 1] = x[i]
        if t == 0:                becomes       if i < n and t == 0:
            tile[0] = x[i - 1]                      tile[0] = x[i - 1]
        ...                                     if i < n:
                                                    ...

With cuts between them each is a region with guards of its own. Amid the rest the store, which goes
to one place in a whole vector, would be a scatter under a mask. A thread does the same things in
the same order; others of its block may come in between, as they may without a barrier.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BARRIERS
from haulage.compiler.simt.analysis.guards import has_effect
from haulage.compiler.simt.analysis.single_thread import asks_for_one_index
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.compiler.simt.regions.guard_starts import begins_behind_barrier
from haulage.compiler.simt.regions.rematerialization import is_arithmetic

# A division that is not asked for could be one by zero.
_DIVISIONS = frozenset(("udiv", "sdiv", "urem", "srem"))


def lift(function: Function, flow: Uniformity, held: Set[str]) -> tuple[Function, list[str]]:
    """(the function with the guards lifted, labels of the blocks to cut at). Nothing is lifted from
    where a thread may hold a lock: at blocks in `held` (`locks.py`)."""
    result = function.copy()
    cuts: list[str] = []
    for label in list(result.blocks):
        block = result.blocks[label]
        found = _found(result, block, flow.varying)
        if found is None or found.label in held or found.meeting in held:
            continue
        if label not in flow.divergent:
            outer = None
            if found.meeting in flow.divergent or begins_behind_barrier(block):
                continue
        else:
            outer = _outer(result, block, found, flow.divergent)
            if outer is None:
                continue
        cuts += _lifted(result, found, outer, len(cuts))
    return result, cuts


@dataclass(frozen=True)
class _Few:
    """A branch that sends threads with one index to `arm`; all blocks of it are `inside`, and who
    has done it meets the others at `meeting`."""

    label: str
    arm: str
    meeting: str
    inside: frozenset[str]


@dataclass(frozen=True)
class _Outer:
    """The branch of the block `label` that leads to `arm` and, on the way, to a branch of few, or
    else straight to `end`. `way` are the blocks from one branch to the other."""

    label: str
    arm: str
    end: str
    way: tuple[str, ...]


def _found(function: Function, block: Block, varying: Set[str]) -> _Few | None:
    end = block.terminator
    if not isinstance(end, Instruction) or len(set(end.targets)) != 2 or len(end.uses) != 1:
        return None
    definitions = function.definitions()
    items = {name: item for name, (_, item) in definitions.items()}
    outcome = asks_for_one_index(end.uses[0], items, varying)
    if outcome is None:
        return None
    arm, meeting = end.targets if outcome else end.targets[::-1]
    successors = {label: each.successors for label, each in function.blocks.items()}
    closest = control_flow.immediate_dominators(successors, function.entry)
    inside = frozenset(place for place in closest if control_flow.dominates(closest, arm, place))
    exits = {target for place in inside for target in successors[place]} - inside
    place = function.blocks[meeting]
    if (
        block.label in inside
        or exits != {meeting}
        or place.phis
        or function.predecessors()[arm] != [block.label]
        or function.blocks[arm].phis
    ):
        return None
    items_inside = [item for each in inside for item in function.blocks[each].instructions()]
    if any(item.callee in BARRIERS for item in items_inside):
        return None
    if any(not successors[each] for each in inside) or not any(map(has_effect, items_inside)):
        return None
    return _Few(block.label, arm, meeting, inside)


def _outer(function: Function, block: Block, few: _Few, divergent: Set[str]) -> _Outer | None:
    """The one branch on which it depends who comes to a branch of few."""
    successors = {label: each.successors for label, each in function.blocks.items()}
    before = function.predecessors()
    way = [block.label]
    while len(before[way[0]]) == 1:
        source = before[way[0]][0]
        if source not in divergent:
            break
        if len(successors[source]) != 1 or source in way:
            return None
        way.insert(0, source)
    if len(before[way[0]]) != 1 or any(function.blocks[each].phis for each in way):
        return None
    label = before[way[0]][0]
    end = function.blocks[label].terminator
    if label in divergent or not isinstance(end, Instruction) or len(set(end.targets)) != 2:
        return None
    (last,) = set(end.targets) - {way[0]}
    if control_flow.immediate_postdominators(successors)[label] != last or last in divergent:
        return None
    if set(before[few.meeting]) - few.inside - {block.label} or len(end.uses) != 1:
        return None
    return _Outer(label, way[0], last, tuple(way)) if _hoist(function, label, way) else None


def _hoist(function: Function, label: str, way: Iterable[str]) -> bool:
    """Move what is made on the `way` and used behind it to the block `label`; False, and nothing is
    moved, where that cannot be."""
    made = {item.result: item for each in way for item in function.blocks[each].body if item.result}
    behind = {
        name
        for place, block in function.blocks.items()
        for item in block.instructions()
        if place not in way or item is block.terminator
        for name in (*item.uses, *(value for value, _ in item.incoming))
    }
    moved: set[str] = set()
    waiting = [name for name in made if name in behind]
    while waiting:
        name = waiting.pop()
        if name not in moved:
            item = made[name]
            if not is_arithmetic(item) or item.opcode in _DIVISIONS:
                return False
            moved.add(name)
            waiting += [operand for operand in item.uses if operand in made]
    target = function.blocks[label].body
    for each in way:
        block = function.blocks[each]
        target += [item for item in block.body if item.result in moved]
        block.body = [item for item in block.body if item.result not in moved]
    return True


def _lifted(function: Function, few: _Few, outer: _Outer | None, number: int) -> list[str]:
    """Lift one; returns the labels to cut at."""
    block = function.blocks[few.label]
    end = block.terminator
    assert isinstance(end, Instruction)
    conditions = _Conditions(function, f"%few.{number}")
    asking = Block(f"%few.{number}")
    mine = conditions.again(end.uses[0], asking)
    if outer is None:
        asking.terminator = end.renamed({end.uses[0]: mine})
        _insert(function, few.label, asking)
        waits = _waits_at_once(function.blocks[few.meeting])
        following = [] if waits else [few.meeting]
    else:
        mine = conditions.wanted(mine, end.targets[0] == few.arm, asking)
        following = [_behind_outer(function, few, outer, asking, mine, conditions)]
    block.terminator = build.jump(asking.label)
    return [asking.label, *following]


def _behind_outer(
    function: Function,
    few: _Few,
    outer: _Outer,
    asking: Block,
    mine: str,
    conditions: "_Conditions",
) -> str:
    """Let `asking` come behind both ways of the outer branch; returns the label of the block behind
    it, which leads to what is left of the outer branch's way."""
    start = function.blocks[outer.label]
    asked = start.terminator
    assert isinstance(asked, Instruction)
    going_on = Block(f"{asking.label}.over")
    condition = asked.uses[0]
    here = conditions.again(condition, asking)
    here = conditions.wanted(here, asked.targets[0] == outer.arm, asking)
    both = conditions.name()
    asking.body.append(build.select(both, here, "i1", mine, "false"))
    asking.terminator = build.branch(both, few.arm, going_on.label)
    later = conditions.again(condition, going_on)
    going_on.terminator = asked.renamed({condition: later, outer.arm: few.meeting})
    _retarget(start, outer.end, asking.label)
    for place in few.inside:
        _retarget(function.blocks[place], few.meeting, going_on.label)
    last = function.blocks[outer.end]
    last.phis = [_from(phi, outer.label, going_on.label) for phi in last.phis]
    _insert(function, few.label, asking, going_on)
    return going_on.label


class _Conditions:
    """Writes conditions once more, where they are asked for, with names of their own: so they are
    known for guards of the region."""

    def __init__(self, function: Function, stem: str) -> None:
        self._items = {name: item for name, (_, item) in function.definitions().items()}
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


def _waits_at_once(block: Block) -> bool:
    effects = [item for item in block.body if has_effect(item)]
    return bool(effects) and effects[0].callee in BARRIERS


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
