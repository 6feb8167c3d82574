"""The turns of a loop: what they make from what, and which ways they can take."""

import itertools
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Function, Instruction

# A step from one block to the next.
Edge = tuple[str, str]

_CONDITION = re.compile(r"br i1 ([^,]+), label ([^,]+), label ([^,\s]+)")
_WITH_LITERAL = re.compile(r"icmp (eq|ne) \S+ %[^,]+, (-?\d+)$")
_LITERAL = re.compile(r"-?\d+")
# Conditions that several branches of a loop ask for, as those of `range` do, are told apart, so
# many of them.
_MOST_CONDITIONS = 4
# A number that no program has.
_ANY = 1 << 200


@dataclass(frozen=True)
class Changes:
    """On which edges a value of the loop's head changes, and on which of them by itself."""

    edges: frozenset[Edge]
    by_itself: frozenset[Edge]


class Turns:
    """The turns of one loop of a function; `inner` has the labels of loops within it."""

    def __init__(self, function: Function, loop: control_flow.Loop, inner: Set[str]) -> None:
        self._function, self._loop = function, loop
        self.items: dict[str, Instruction] = {}
        self.where: dict[str, str] = {}
        self._uses: dict[str, list[str]] = {}
        for label in loop.labels:
            for item in function.blocks[label].instructions():
                if item.result:
                    self.where[item.result] = label
                    self.items[item.result] = item
                    for name in item.uses:
                        self._uses.setdefault(name, []).append(item.result)
        self.edges: set[Edge] = {
            (label, target)
            for label in loop.labels
            for target in function.blocks[label].successors
            if target in loop.labels
        }
        self._cases = self._cases_of(loop.labels - inner)
        self._ways: dict[tuple[frozenset[str], frozenset[Edge]], list[set[str]]] = {}

    def made_from(self, names: Iterable[str]) -> set[str]:
        """The loop's values that are made from some, these included."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._uses.get(name, ())
        return found

    def _cases_of(self, labels: Set[str]) -> list[set[Edge]]:
        """The edges that a turn cannot take, for each way in which the conditions can turn out that
        several branches at `labels` ask for."""
        asked: dict[str, list[tuple[Edge, Edge]]] = {}
        for label in sorted(labels):
            end = self._function.blocks[label].terminator
            found = _CONDITION.search(end.text) if isinstance(end, Instruction) else None
            if found and found[2] != found[3]:
                arms = (label, found[2]), (label, found[3])
                asked.setdefault(found[1], []).append(arms)
        repeated = [arms for arms in asked.values() if len(arms) > 1][:_MOST_CONDITIONS]
        return [
            {arm[not way] for way, arms in zip(ways, repeated, strict=True) for arm in arms}
            for ways in itertools.product((False, True), repeat=len(repeated))
        ]

    def ways(self, blocks: Set[str], edges: Set[Edge]) -> list[set[str]]:
        """`_way` for each of the cases in which there is one."""
        asked = frozenset(blocks), frozenset(edges)
        if asked not in self._ways:
            found = [self._way(blocks, edges | case) for case in self._cases]
            self._ways[asked] = [labels for labels in found if labels]
        return self._ways[asked]

    def _way(self, blocks: Set[str], edges: Set[Edge]) -> set[str]:
        """Labels of the turns that pass none of some blocks and edges; empty if there are none."""
        left = {
            (source, target)
            for source, target in self.edges - edges
            if source not in blocks and target not in blocks
        }
        header = self._loop.header
        while True:
            onward: dict[str, list[str]] = {label: [] for label in self._loop.labels}
            for source, target in left:
                onward[source].append(target)
            behind = control_flow.reachable_until(onward, onward[header], control_flow.EXIT)
            if header not in behind:
                return set()
            labels = behind & control_flow.reachable_until(
                control_flow.invert(onward), [header], control_flow.EXIT
            )
            left = {edge for edge in left if labels.issuperset(edge)}
            never = self._never_taken(labels, left)
            if not never:
                return labels
            left -= never

    def _never_taken(self, labels: Set[str], edges: Set[Edge]) -> set[Edge]:
        """The edges that no turn takes in which there are no others than `edges`: what such turns
        hand on may be always the same, such as that nothing has changed."""
        phis = [phi for label in labels for phi in self._function.blocks[label].phis]
        known: dict[str, int | None] = {}
        grew = True
        while grew:
            before = dict(known)
            for phi in phis:
                assert phi.result is not None
                given = {
                    self._number(value, known)
                    for value, source in phi.incoming
                    if (source, self.where[phi.result]) in edges
                } - {_ANY}
                if given:
                    known[phi.result] = next(iter(given)) if len(given) == 1 else None
            grew = known != before
        found: set[Edge] = set()
        for label in labels:
            end = self._function.blocks[label].terminator
            asked = _CONDITION.search(end.text) if isinstance(end, Instruction) else None
            number = self._number(asked[1], known) if asked else None
            if asked and number in (0, 1) and asked[2] != asked[3]:
                found.add((label, asked[3 if number else 2]))
        return found & edges

    def _number(self, value: str, known: Mapping[str, int | None]) -> int | None:
        """The number that a value always is, where phis are `known` ones; `_ANY` if it can still be
        any, as nothing is known yet, and None if it differs."""
        if not value.startswith("%"):
            literal = {"false": 0, "true": 1}.get(value)
            return int(value) if literal is None and _LITERAL.fullmatch(value) else literal
        item = self.items.get(value)
        if item is None:
            return None
        if item.is_phi:
            return known.get(value, _ANY)
        if len(item.uses) == 1:
            number = self._number(item.uses[0], known)
            if number is None or number == _ANY:
                return number
            if item.opcode in ("zext", "freeze"):
                return number
            if compared := _WITH_LITERAL.search(item.text):
                return int((number == int(compared[2])) == (compared[1] == "eq"))
            if item.opcode == "xor" and item.text.endswith(", true"):
                return 1 - number
        return None

    def changes(self, phi: Instruction) -> Changes:
        """How a phi of the header changes."""
        assert phi.result is not None
        inside = self._loop.labels
        before: set[str] = set()
        waiting = [phi.result]
        while waiting:
            name = waiting.pop()
            item = self.items.get(name)
            if name in before or item is None or not item.is_phi:
                continue
            before.add(name)
            outer = item is phi
            waiting += [value for value, source in item.incoming if not outer or source in inside]
        same = {phi.result}
        grew = True
        while grew:
            more = {
                name
                for name in before - same
                if any(value in same for value, _ in self.items[name].incoming)
            }
            grew, same = bool(more), same | more
        made = self.made_from([phi.result])
        edges: dict[Edge, bool] = {}
        for name in same:
            for value, source in self.items[name].incoming:
                if source in inside and value not in same:
                    edge = (source, self.where[name])
                    edges[edge] = edges.get(edge, False) or value in made
        return Changes(frozenset(edges), frozenset(edge for edge, own in edges.items() if own))
