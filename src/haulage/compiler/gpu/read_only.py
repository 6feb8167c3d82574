"""Loads of arrays that a kernel never writes become loads of memory that stays as it is.

NVIDIA's GPUs have an instruction for these (`ld.global.nc`), which the assembler may move over
stores. An array that is only read may be the same memory as one that is written, though, as in
`scale[grid, block](x, x)`. What is written there by other threads at the same time may come or not
come, with any instruction: without a barrier between the two it is a race. So what has to hold is
that a thread's own loads stay in front of its own stores. They do where no store comes before the
load, and each one behind it cannot be made before the loaded value is there:

  - the store's value, address or condition is made from the loaded value,
  - or the value went into shared memory or to another lane, and a barrier of the block came after
    that,
  - or the store is all that a thread ever does to memory, so that a value that does not decide it
    does not matter.

Then nothing need be known of where arrays lie. For the other loads see `versions.py`.
"""

from collections.abc import Iterable, Iterator

from haulage.compiler.gpu.accesses import Access, Accesses, Place
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.model import Instruction

_NOTE = ", !invariant.load "


def settled_loads(accesses: Accesses) -> set[str]:
    """The names of loads for which that holds."""
    if not accesses.read_only or accesses.takes:
        return set()
    needs = _Needs(accesses)
    return {
        str(load.item.result) for load in accesses.read_only if _is_settled(load, accesses, needs)
    }


def marked(text: str, name: str, loads: Iterable[str]) -> str:
    """A module's text in which loads of the function `name` are noted as of memory that stays as
    it is."""
    wanted = set(loads)
    if not wanted:
        return text
    note = _free_note(text)
    lines = reader.definition(text, name)
    written = [
        f"{line}{_NOTE}!{note}"
        if " = load " in line and line.split(" = ", 1)[0].strip() in wanted
        else line
        for line in lines
    ]
    return text.replace("\n".join(lines), "\n".join(written)) + f"\n!{note} = !{{}}\n"


def _free_note(text: str) -> int:
    used = [int(line[1:].split(" ", 1)[0]) for line in text.split("\n") if _is_note(line)]
    return max(used, default=-1) + 1


def _is_note(line: str) -> bool:
    return line[:1] == "!" and line[1:2].isdigit()


def _is_settled(load: Access, accesses: Accesses, needs: "_Needs") -> bool:
    if any(accesses.reaches(write.place, load.place) for write in accesses.writes):
        return False
    behind = [write for write in accesses.writes if accesses.reaches(load.place, write.place)]
    others = [each.place for each in accesses.shared_writes] + accesses.tells
    is_repeated = any(_is_in_loop(write, accesses) for write in behind)
    if (
        len(behind) <= 1
        and not is_repeated
        and not any(accesses.reaches(load.place, each) for each in others)
    ):
        return True
    name = str(load.item.result)
    # One of several turns may decide one store, and another turn another.
    is_once = len(behind) == 1 or not _is_in_loop(load, accesses)
    return all(
        (is_once and name in needs.of(write)) or _is_handed_over(load, write, accesses, needs)
        for write in behind
    )


def _is_in_loop(access: Access, accesses: Accesses) -> bool:
    return any(access.place.label in loop.labels for loop in accesses.loops)


class _Needs:
    """What has to be known before a store can be made."""

    def __init__(self, accesses: Accesses) -> None:
        self._accesses = accesses
        function = accesses.function
        graph = control_flow.Graph(accesses.successors, function.entry)
        self._above, self._below = graph.dominators, graph.postdominators
        self._labels = {
            name: label
            for name, (label, _) in function.definitions().items()
            if label in self._above
        }
        self._known: dict[tuple[Place, bool], set[str]] = {}

    def of(self, write: Access, start: str | None = None) -> set[str]:
        """The values that decide what, where and whether something is written, in each turn of a
        loop that the store is in; or in those turns that come from the block `start`."""
        label = write.place.label
        loops = [loop for loop in self._accesses.loops if label in loop.labels]
        turns = {each for loop in loops for each in loop.labels}
        is_within = start in turns
        known = self._known.get((write.place, is_within))
        if known is None:
            conditions = () if turns else self._conditions_of(label)
            choices = {loop.header for loop in self._accesses.loops} & turns if is_within else turns
            known = self._behind([*write.item.uses, *conditions], choices, turns)
            self._known[write.place, is_within] = known
        return known

    def _behind(self, names: Iterable[str], choices: set[str], turns: set[str]) -> set[str]:
        """The values that others are made from, but for those of phis in blocks of `choices` and
        of selections in blocks of `turns`."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            item = self._accesses.items.get(name)
            if item is None:
                continue
            # What is chosen anew in each turn need not be this value in all of them.
            place = self._labels.get(name)
            if (item.is_phi and place in choices) or (item.opcode == "select" and place in turns):
                continue
            waiting.extend(item.uses)
            if item.is_phi and place is not None:
                waiting.extend(self._choices(place))
        return found

    def _choices(self, label: str) -> Iterator[str]:
        """What decides which of its values a phi of a block has."""
        loops = [loop for loop in self._accesses.loops if loop.header == label]
        labels = {each for loop in loops for each in loop.labels} or {self._above[label]}
        for each in labels:
            targets = self._accesses.successors[each]
            if len(targets) > 1 and (not loops or any(target not in labels for target in targets)):
                yield from self._condition(each)

    def _conditions_of(self, label: str) -> Iterator[str]:
        """What decides whether a block is come to."""
        upper = label
        while self._above[upper] != upper:
            upper = self._above[upper]
            if not (upper in self._below and control_flow.dominates(self._below, label, upper)):
                yield from self._condition(upper)

    def _condition(self, label: str) -> tuple[str, ...]:
        end = self._accesses.function.blocks[label].terminator
        assert isinstance(end, Instruction)
        return end.uses


def _is_handed_over(load: Access, write: Access, accesses: Accesses, needs: _Needs) -> bool:
    """Whether every way from a load to a store first passes a store of the loaded value to shared
    memory, or its way to another lane, and then a barrier of the block."""
    name = str(load.item.result)
    start = load.place.label
    handing = {
        each.place
        for each in (*accesses.shared_writes, *accesses.exchanges)
        if name in needs.of(each, start)
    }
    if not handing:
        return False
    met = [_meets(accesses, load.place, write.place, handing)]
    met += [_meets(accesses, place, write.place, accesses.barriers) for place in handing]
    return not any(met)


def _meets(accesses: Accesses, start: Place, goal: Place, stops: set[Place]) -> bool:
    """Whether control can come from `start` to `goal` without passing any of `stops`."""
    at_label: dict[str, list[int]] = {}
    for stop in stops:
        at_label.setdefault(stop.label, []).append(stop.index)
    waiting: list[tuple[str, int]] = [(start.label, start.index)]
    seen: set[str] = set()
    while waiting:
        label, index = waiting.pop()
        first = min((stop for stop in at_label.get(label, ()) if stop > index), default=None)
        if label == goal.label and index < goal.index and (first is None or goal.index < first):
            return True
        if first is None:
            for target in accesses.successors[label]:
                if target not in seen:
                    seen.add(target)
                    waiting.append((target, -1))
    return False
