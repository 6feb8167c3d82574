"""Recognises loops that go from a start to an end in equal steps, as LLVM leaves them.

Their condition stands at the end of a turn, and once before the first. Numba counts the turns of
`range(start, end, step)` when the loop begins: (end - start) / step, rounded up; where the step is
a power of two LLVM makes (end - start + step - 1) >> bits of it. In a `while` loop
the index itself is compared with the end.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import PREFIX
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.compiler.simt.loops.block_atomics import expanded

NAME = r'%(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
_VALUE = rf"({NAME}|-?\d+)"
_BIT = rf"({NAME}|true|false)"
_COMPARED = re.compile(rf"= icmp (samesign )?(\w+) i64 {_VALUE}, {_VALUE}(?:, !.*)?$")
_SUM = re.compile(rf"= add (?:nuw )?(?:nsw )?i64 {_VALUE}, {_VALUE}(?:, !.*)?$")
_PAIR = re.compile(rf"= \w+ (?:(?:nuw|nsw|exact) )*i64 {_VALUE}, {_VALUE}(?:, !.*)?$")
_SELECT = re.compile(rf"= select i1 {_BIT}, i1 {_BIT}, i1 {_BIT}(?:, !.*)?$")

# A StridedLoop's index, start, end, step, count, count_next and asked.
_Made = tuple[str, str, str, str, str | None, str | None, tuple[str, ...]]

_MOST_CHAIN = 4
_KEPT_APART = frozenset(("store", "atomicrmw", "cmpxchg", "fence", "alloca", "call", "invoke"))


@dataclass(frozen=True)
class StridedLoop:
    """A loop of `labels` for an index from `start`, below `end`, in steps of `step`.

    `guard` is the last block that all threads reach before it, `chain` the blocks from there to
    `header`; `latch` ends each turn, with `condition`, and `after` is where all go then. `index`
    and `count` are phis of the header, `asked` what tells whether there is a first turn, in order.
    `results` are, for each phi of `after`, the phi of the header or the outer value that it gets.
    """

    labels: frozenset[str]
    guard: str
    chain: tuple[str, ...]
    header: str
    latch: str
    after: str
    phis: tuple[Instruction, ...]
    index: str
    start: str
    end: str
    step: str
    condition: str
    count: str | None
    count_next: str | None
    asked: tuple[str, ...]
    results: Mapping[str, str]

    def sources(self, phi: Instruction) -> tuple[str, str]:
        """A header's phi at the first turn and at the next ones."""
        return _sources(phi, self.latch)


def results_of(item: Instruction) -> list[str]:
    """All names that an instruction defines; a plain atomic operation defines several."""
    return [each.result for each in expanded(item) if each.result is not None]


def find(function: Function, loop: control_flow.Loop, flow: Uniformity) -> StridedLoop | None:
    """The strided loop that an innermost loop of a function is, if it is one that threads leave at
    different times, and that they all come to together."""
    return _Finder(function, loop, flow).found()


class _Finder:
    def __init__(self, function: Function, loop: control_flow.Loop, flow: Uniformity) -> None:
        self._function = function
        self._loop = loop
        self._flow = flow
        self._items = function.definitions()
        self._predecessors = function.predecessors()
        self._inside = {
            name
            for label in loop.labels
            for item in function.blocks[label].instructions()
            for name in results_of(item)
        }

    def found(self) -> StridedLoop | None:
        ends = self._ends()
        if ends is None or not all(map(self._may_turn, self._loop.labels)):
            return None
        latch, after, before = ends
        way = self._way(before, after)
        if way is None:
            return None
        guard, chain = way
        header = self._function.blocks[self._loop.header]
        terminator = self._function.blocks[latch].terminator
        assert isinstance(terminator, Instruction)
        condition = terminator.uses[0]
        goes_on = terminator.targets[0] == self._loop.header
        questions = self._conditions([guard, *chain])
        if questions is None or any(len(_sources(p, latch)) != 2 for p in header.phis):
            return None
        made = self._compared(condition, goes_on, header.phis, latch, questions)
        if made is None:
            made = self._counted(condition, goes_on, header.phis, latch, questions)
        if made is None:
            return None
        index, start, end, step, count, count_next, asked = made
        if count is not None and not self._is_alone(count, count_next, condition):
            return None
        if not self._is_alone(condition, None, None):
            return None
        in_chain = {
            name
            for label in chain
            for item in self._function.blocks[label].instructions()
            for name in results_of(item)
        }
        initial = {_sources(p, latch)[0] for p in header.phis if p.result != count}
        if (initial | {start, end}) & in_chain or {start, end, step} & self._inside:
            return None
        if step in self._flow.varying or end in self._flow.varying:
            return None
        results = self._results(after, latch, {guard, *chain}, header.phis, count)
        if results is None:
            return None
        return StridedLoop(
            self._loop.labels, guard, tuple(chain), header.label, latch, after, tuple(header.phis),
            index, start, end, step, condition, count, count_next, asked, results,
        )  # fmt: skip

    def _ends(self) -> tuple[str, str, str] | None:
        """(latch, the label behind, the label before), if there is one of each."""
        labels, header = self._loop.labels, self._loop.header
        latches = [label for label in self._predecessors[header] if label in labels]
        before = [label for label in self._predecessors[header] if label not in labels]
        leaving = [
            (label, target)
            for label in labels
            for target in self._function.blocks[label].successors
            if target not in labels
        ]
        if len(latches) != 1 or len(before) != 1 or len(leaving) != 1:
            return None
        latch, after = leaving[0]
        if latch != latches[0] or len(self._function.blocks[latch].successors) != 2:
            return None
        return latch, after, before[0]

    def _may_turn(self, label: str) -> bool:
        """Whether threads may go through a block turn by turn."""
        return not any(
            item.opcode == "fence"
            or (item.opcode == "call" and not (item.callee or "").startswith(("llvm.", PREFIX)))
            for item in self._function.blocks[label].body
        )

    def _way(self, before: str, after: str) -> tuple[str, list[str]] | None:
        """The block that all threads reach, and those from there to the loop, which lead nowhere
        else but behind it."""
        chain: list[str] = []
        current = before
        following = self._loop.header
        while True:
            block = self._function.blocks[current]
            if not isinstance(block.terminator, Instruction) or block.terminator.opcode != "br":
                return None
            if not set(block.successors) <= {following, after}:
                return None
            if current not in self._flow.divergent:
                return current, chain[::-1]
            if block.phis or len(self._predecessors[current]) != 1 or len(chain) == _MOST_CHAIN:
                return None
            if any(_is_kept_apart(item) for item in block.body):
                return None
            chain.append(current)
            following, current = current, self._predecessors[current][0]

    def _conditions(self, labels: list[str]) -> list[tuple[str, bool]] | None:
        """The conditions on the way to the loop, and their outcomes that lead there."""
        found = []
        following = [*labels[1:], self._loop.header]
        for label, target in zip(labels, following, strict=True):
            terminator = self._function.blocks[label].terminator
            assert isinstance(terminator, Instruction)
            if len(terminator.targets) == 1:
                continue
            if len(set(terminator.targets)) == 1 or not terminator.uses:
                return None
            found.append((terminator.uses[0], terminator.targets[0] == target))
        return found

    def _parts(self, condition: str, outcome: bool) -> tuple[list[tuple[str, bool]], list[str]]:
        """The conditions that all have an outcome of their own if `condition` has `outcome`, and
        what it is made from in order, itself last."""
        item = self._items.get(condition)
        found = _SELECT.search(item[1].text) if item else None
        if found is None or found[3 if outcome else 2] != ("false" if outcome else "true"):
            return [(condition, outcome)], [condition]
        parts, names = self._parts(found[1], outcome)
        others, made = self._parts(found[2 if outcome else 3], outcome)
        return parts + others, [*names, *made, condition]

    def _compared(
        self,
        condition: str,
        goes_on: bool,
        phis: list[Instruction],
        latch: str,
        questions: list[tuple[str, bool]],
    ) -> _Made | None:
        """A loop whose index is compared with its end."""
        below = self._below(condition, goes_on)
        for phi in phis:
            start, following = _sources(phi, latch)
            if below is None or below[0] != following or phi.result is None:
                continue
            step = self._step(phi.result, following)
            if step is None or [self._below(*each) for each in questions] != [(start, below[1])]:
                return None
            return phi.result, start, below[1], step, None, None, (questions[0][0],)
        return None

    def _counted(
        self,
        condition: str,
        goes_on: bool,
        phis: list[Instruction],
        latch: str,
        questions: list[tuple[str, bool]],
    ) -> _Made | None:
        """A loop whose turns were counted when it began."""
        count = next((p for p in phis if self._counts(p, latch, condition, goes_on)), None)
        if count is None or count.result is None:
            return None
        turns, count_next = _sources(count, latch)
        divided = self._rounded_up(turns)
        if divided is None:
            return None
        distance, step, made = divided
        pair = self._pair(distance, "sub")
        if pair is None:
            return None
        end, start = pair
        divided_up = [self._parts(*each) for each in questions]
        parts = [part for found, _ in divided_up for part in found]
        outcomes = [self._below(*part) for part in parts]
        if ("0", distance) not in outcomes:
            return None
        for part, outcome in zip(parts, outcomes, strict=True):
            if outcome not in (("0", distance), ("0", turns)) and self._not_0(*part) != turns:
                return None
        names = [name for _, made_from in divided_up for name in made_from]
        asked = tuple(dict.fromkeys((distance, *made, *names)))
        for phi in phis:
            begun, following = _sources(phi, latch)
            if phi.result and begun == start and self._step(phi.result, following) == step:
                return phi.result, start, end, step, count.result, count_next, asked
        return None

    def _counts(self, phi: Instruction, latch: str, condition: str, goes_on: bool) -> bool:
        """Whether a phi is the number of turns left, which the condition asks for."""
        _, following = _sources(phi, latch)
        if phi.type != "i64" or phi.result is None or self._step(phi.result, following) != "-1":
            return False
        return self._below(condition, goes_on) in (("1", phi.result), ("0", following))

    def _rounded_up(self, turns: str) -> tuple[str, str, tuple[str, ...]] | None:
        """(distance, step, the names on the way) of a quotient rounded up."""
        shifted = self._pair(turns, "lshr")
        if shifted is not None and shifted[1].isdigit():
            step = 1 << int(shifted[1])
            raised = self._pair(shifted[0], "add")
            if raised is None or raised[1] != str(step - 1):
                return None
            return raised[0], str(step), (shifted[0], turns)
        sum_ = self._pair(turns, "add")
        if sum_ is None:
            return None
        for quotient, more in (sum_, sum_[::-1]):
            pair = self._pair(quotient, "udiv")
            one = self._items.get(more)
            if pair is None or one is None or one[1].opcode != "zext" or not one[1].uses:
                continue
            asked = one[1].uses[0]
            compared = self._items.get(asked)
            found = _COMPARED.search(compared[1].text) if compared else None
            if found is None or found[2] != "ne" or found[4] != "0":
                continue
            if self._pair(found[3], "urem") == pair:
                return *pair, (quotient, found[3], asked, more, turns)
        return None

    def _pair(self, name: str, opcode: str) -> tuple[str, str] | None:
        item = self._items.get(name)
        if item is None or item[1].opcode != opcode:
            return None
        found = _PAIR.search(item[1].text)
        return (found[1], found[2]) if found else None

    def _step(self, phi: str, following: str) -> str | None:
        """What is added to a phi from turn to turn."""
        item = self._items.get(following)
        found = _SUM.search(item[1].text) if item else None
        if found is None or phi not in (found[1], found[2]) or found[1] == found[2]:
            return None
        return found[2] if found[1] == phi else found[1]

    def _below(self, condition: str, outcome: bool) -> tuple[str, str] | None:
        """(a, b) if that outcome of a condition says that a < b, as signed numbers."""
        item = self._items.get(condition)
        found = _COMPARED.search(item[1].text) if item else None
        if found is None:
            return None
        kind, left, right = found[2], found[3], found[4]
        if found[1] and kind[0] == "u":
            kind = "s" + kind[1:]
        if not outcome:
            kind = {"slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt"}.get(kind, "")
        if kind == "slt":
            # Below 1 from below: LLVM writes 0 < a both ways.
            return left, right
        if kind == "sgt":
            return right, left
        if kind == "sge" and right == "1":
            return "0", left
        if kind == "sle" and left == "1":
            return "0", right
        return None

    def _not_0(self, condition: str, outcome: bool) -> str | None:
        """The value that is not 0 if a condition has that outcome."""
        item = self._items.get(condition)
        found = _COMPARED.search(item[1].text) if item else None
        if found is None or found[4] != "0" or found[2] != ("ne" if outcome else "eq"):
            return None
        return found[3]

    def _is_alone(self, name: str, *but: str | None) -> bool:
        """Whether a value of the loop is used by nothing but the results `but` and branches."""
        return not any(
            name in item.uses and item.result is not None and item.result not in but
            for block in self._function.blocks.values()
            for item in block.instructions()
        )

    def _results(
        self,
        after: str,
        latch: str,
        earlier: set[str],
        phis: list[Instruction],
        count: str | None,
    ) -> dict[str, str] | None:
        """Where the phis behind the loop get their values, if it is from the loop's own."""
        found: dict[str, str] = {}
        for phi in self._function.blocks[after].phis:
            values = {value for value, label in phi.incoming if label in earlier}
            last = next(value for value, label in phi.incoming if label == latch)
            if len(values) != 1 or phi.result is None:
                return None
            (first,) = values
            if first == last and last not in self._inside:
                found[phi.result] = last
                continue
            own = [
                each.result
                for each in phis
                if _sources(each, latch) == (first, last) and each.result != count
            ]
            if not own or own[0] is None:
                return None
            found[phi.result] = own[0]
        outside = (
            b for label, b in self._function.blocks.items() if label not in self._loop.labels
        )
        for block in outside:
            for item in (*block.body, *block.instructions()):
                used = set(item.uses) & self._inside
                if used and not (item.is_phi and block.label == after):
                    return None
        return found


def _sources(phi: Instruction, latch: str) -> tuple[str, str]:
    """(a value from outside, the value from the latch) of a header's phi."""
    first = next(value for value, label in phi.incoming if label != latch)
    following = next(value for value, label in phi.incoming if label == latch)
    return first, following


def _is_kept_apart(item: Instruction) -> bool:
    if item.opcode == "call" and (item.callee or "").startswith(("llvm.", PREFIX)):
        return False
    return item.stays or item.opcode in _KEPT_APART
