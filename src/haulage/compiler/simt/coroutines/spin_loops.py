"""Spin loops, in which a thread waits for a write of another one, found before LLVM optimises them.

    while flag[i] == 0:
        pass

Nothing in such an iteration changes what the next one does, unless another thread writes `flag[i]`.
So there, on the edge back to the loop's header, the thread has to let others go on: a call of
`haulage.yield` is put there. LLVM knows nothing of it, so that it reads `flag[i]` anew in each
iteration; CUDA's compiler may read it once.

An iteration waits if it reads the same memory as the one before (or tries to change it in the same
way), goes one way or another by what it finds, and makes no progress of the thread's own. Such
progress is

- an access at another place than in the iteration before, as in a search or a walk along a list,
- a compare-and-swap of what was read just before: it fails only if another thread succeeded,
- a plain store to what is awaited, and an addition to it by whose answer the loop ends,
- a barrier of the block, where the others go on anyway,
- an iteration of a loop that counts its iterations and does something in them.

A loop may have such iterations and others, as in a search backwards that looks at one place until
there is something: only the edge back from those that wait has the call. Kernels for GPUs need no
such thing, as their threads make progress by themselves since Volta (Sorensen et al., "Specifying
and Testing GPU Workgroup Progress Models", OOPSLA 2021).
"""

import itertools
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.affine import forms
from haulage.compiler.simt.analysis.barriers import BLOCK_WIDE
from haulage.compiler.simt.analysis.control_flow import Loop, reachable_until
from haulage.compiler.simt.analysis.exits import Edge
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import (
    READING,
    UnderlyingObjects,
    are_congruent,
    is_idempotent,
    may_alias,
)
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand
from haulage.compiler.simt.ir.writer import definition
from haulage.forks import cached_property
from haulage.targets.cpu import YIELD

_ACCESSES = READING | {"store", "call"}
_ADDITIONS = frozenset(("add", "sub", "fadd", "fsub"))
# Conditions that several branches of a loop go by, as those of `range` do, are told apart, so many
# of them.
_MOST_CONDITIONS = 4
# A number that no program has.
_ANY = 1 << 200


def has_loops(text: str) -> bool:
    """Whether a function of a module's text may have a loop: a branch to what stands before it."""
    seen: set[str] = set()
    for line in text.splitlines():
        if line.startswith("define"):
            seen = set()
        elif line[:1] not in ("", " ") and ":" in line:
            seen.add(line.split(":", 1)[0])
        elif "label %" in line:
            targets = (part.split(",", 1)[0].strip(" ]") for part in line.split("label %")[1:])
            if not seen.isdisjoint(targets):
                return True
    return False


def marked(text: str, name: str) -> str | None:
    """A module's text with calls of `haulage.yield` where threads of the function `name` wait; None
    if they do nowhere.

    Every value and block of the function has a name.
    """
    function = reader.read(text, name)
    edges = waiting_edges(Analyses(function))
    if not edges:
        return None
    for number, edge in enumerate(edges):
        _insert_yield(function, edge, f"%{YIELD}.{number}")
    head, *rest = reader.definition(text, name)
    written = definition(function).split("\n")[1:]
    text = text.replace("\n".join([head, *rest]), "\n".join([head, *written]))
    return f"{text}\ndeclare void @{YIELD}() nounwind\n"


def _insert_yield(function: Function, edge: Edge, label: str) -> None:
    """Split an edge, at which the thread lets others go on."""
    source, target = (function.blocks[each] for each in edge)
    call = Builder.call("void", YIELD, ())
    function.blocks[label] = Block(label, [], [call], Builder.jump(target.label))
    assert isinstance(source.terminator, Instruction)
    targets = tuple(label if to == target.label else to for to in source.terminator.targets)
    source.terminator = replace(source.terminator, targets=targets)
    for number, phi in enumerate(target.phis):
        # A switch may have gone here more than once, of which one is left.
        incoming = dict(zip(phi.sources, phi.operands, strict=True))
        sources = [
            (value.text, label if at == source.label else at) for at, value in incoming.items()
        ]
        target.phis[number] = Builder.phi(phi.type, sources, name=phi.result or "")


def waiting_edges(analyses: Analyses) -> list[Edge]:
    """The edges back to the header of a loop on which a thread has waited for another."""
    edges: list[Edge] = []
    found: set[str] = set()
    for loop in analyses.loops:
        edges += _SpinLoop(analyses, loop).waiting(found)
    return edges


def _written(analyses: Analyses) -> set[str]:
    """The objects that a function writes, but for a thread's own."""
    objects = analyses.get(UnderlyingObjects)
    changing = (
        item for item in analyses.function.instructions() if not is_idempotent(item, analyses.items)
    )
    own = {name for name, item in analyses.items.items() if item.opcode == "alloca"}
    return {each for item in changing for each in objects.written_by(item)} - own


def _awaited(analyses: Analyses, item: Instruction) -> frozenset[str]:
    """The objects that an instruction reads and threads may write meanwhile, if there are any. Who
    reads by an atomic operation expects that, whatever this kernel writes."""
    if item.opcode not in READING or not item.operands[0].is_local:
        return frozenset()
    places = analyses.get(UnderlyingObjects).at(item.operands[0])
    made = (analyses.items.get(place) for place in places)
    is_own = all(each is not None and each.opcode == "alloca" for each in made)
    is_written = item.stays or may_alias(analyses.get(_written), places)
    return frozenset(places if is_written and not is_own else ())


class _SpinLoop:
    """The iterations of one loop: which paths they can take, and which of these wait."""

    def __init__(self, analyses: Analyses, loop: Loop) -> None:
        self._analyses, self._loop = analyses, loop
        blocks = analyses.function.blocks
        self._blocks = {label: block for label, block in blocks.items() if label in loop.labels}
        self._bodies = [
            (label, item) for label, block in self._blocks.items() for item in block.body
        ]
        # The loop's instructions, where they are, and the values that are made from each.
        defined = analyses.definitions.items()
        inside = {name: made for name, made in defined if made[0] in loop.labels}
        self._where = {name: label for name, (label, _) in inside.items()}
        self._items = {name: item for name, (_, item) in inside.items()}
        self._users = {
            name: [user.result for user in analyses.users.get(name, ()) if user.result in inside]
            for name in inside
        }
        self._edges: set[Edge] = {
            (label, target)
            for label, block in self._blocks.items()
            for target in block.successors
            if target in loop.labels
        }
        self._cases = self._cases_of_conditions()
        self._counters = self._changes()
        leaving = (block for block in self._blocks.values() if {*block.successors} - loop.labels)
        self._ends = _asked(leaving)

    def waiting(self, found: set[str]) -> list[Edge]:
        """The edges on which an iteration ends that waited. The names of the answers that it waited
        for are added to `found`; those that are there already are awaited in an inner loop."""
        reads: dict[frozenset[str], dict[str, str]] = {}
        for label, item in self._bodies:
            places = _awaited(self._analyses, item)
            if places and item.result and item.result not in found:
                reads.setdefault(places, {})[item.result] = label
        barriers = {label for label, item in self._bodies if item.callee in BLOCK_WIDE}
        counted = self._counted(self._made_from(itertools.chain(*reads.values())))
        # Most loops count their iterations, and end here.
        if not reads or not self._paths(barriers, counted):
            return []
        edges: dict[Edge, None] = {}
        for places, answers in reads.items():
            for labels in self._paths(barriers | self._progress(places), counted):
                ends = [self._blocks[label] for label in labels]
                asked = _asked(end for end in ends if len(set(end.successors)) > 1)
                evolving = self._evolving(labels, counted)
                waited = {
                    name
                    for name, label in answers.items()
                    if label in labels and asked & (self._made_from([name]) - evolving)
                }
                if waited:
                    found |= waited
                    back = {(label, self._loop.header) for label in labels} & self._edges
                    edges.update(dict.fromkeys(sorted(back - counted)))
        return list(edges)

    # ---- paths ------------------------------------------------------------------------------

    def _cases_of_conditions(self) -> list[set[Edge]]:
        """The edges that an iteration cannot take, for each way in which the conditions can turn
        out that several branches of the loop go by, but for those of inner loops."""
        inner = [each.labels for each in self._analyses.loops if each.labels < self._loop.labels]
        arms: dict[str, list[tuple[Edge, Edge]]] = {}
        for label in sorted(self._blocks.keys() - set().union(*inner)):
            block = self._blocks[label]
            if block.condition is not None and len(set(block.successors)) == 2:
                then, other = block.successors
                arms.setdefault(block.condition, []).append(((label, then), (label, other)))
        repeated = [each for each in arms.values() if len(each) > 1][:_MOST_CONDITIONS]
        return [
            {arm[not way] for way, each in zip(ways, repeated, strict=True) for arm in each}
            for ways in itertools.product((False, True), repeat=len(repeated))
        ]

    def _paths(self, blocks: Set[str], edges: Set[Edge]) -> list[set[str]]:
        """`_path` for each of the cases in which there is one."""
        found = (self._path(blocks, edges | case) for case in self._cases)
        return [labels for labels in found if labels]

    def _path(self, blocks: Set[str], edges: Set[Edge]) -> set[str]:
        """Labels of the iterations that pass none of some blocks and edges; empty if there are
        none."""
        left = {edge for edge in self._edges - edges if blocks.isdisjoint(edge)}
        header = self._loop.header
        while True:
            onward: dict[str, list[str]] = {label: [] for label in self._blocks}
            for source, target in left:
                onward[source].append(target)
            labels = reachable_until(onward, onward[header])
            labels &= reachable_until(control_flow.invert(onward), [header])
            if header not in labels:
                return set()
            left = {edge for edge in left if labels.issuperset(edge)}
            never = self._never_taken(labels, left)
            if not never:
                return labels
            left -= never

    def _never_taken(self, labels: Set[str], edges: Set[Edge]) -> set[Edge]:
        """The edges that no iteration takes in which there are no others than `edges`: what such
        iterations hand on may be always the same, such as that nothing has changed. This is
        conditional constant propagation (Wegman and Zadeck, 1991)."""
        handed = self._handed_on(edges)
        # What the loop began with counts where iterations may keep it.
        kept = {name for name in self._counters if name in reachable_until(handed, handed[name])}
        known: dict[str, int | None] = {}
        before: dict[str, int | None] = {"": None}
        while known != before:
            before = dict(known)
            for phi in (phi for label in labels for phi in self._blocks[label].phis):
                name = phi.result or ""
                given = {
                    self._number(operand, known)
                    for operand, source in zip(phi.operands, phi.sources, strict=True)
                    if (source, self._where[name]) in edges
                    or (name in kept and source not in self._blocks)
                } - {_ANY}
                if given:
                    known[name] = given.pop() if len(given) == 1 else None
        found: set[Edge] = set()
        for label in labels:
            end = self._blocks[label].terminator
            if self._blocks[label].condition is not None and isinstance(end, Instruction):
                number = self._number(end.operands[0], known)
                if number in (0, 1) and end.targets[0] != end.targets[1]:
                    # The arm that is not taken.
                    found.add((label, end.targets[1 if number else 0]))
        return found & edges

    def _number(self, operand: Operand, known: Mapping[str, int | None]) -> int | None:
        """The number that a value always is, where phis are `known` ones; `_ANY` if it can still be
        any, as nothing is known yet, and None if it differs."""
        if not operand.is_local:
            return operand.number
        item = self._items.get(operand.text)
        if item is None or item.is_phi:
            return known.get(operand.text, _ANY) if item is not None else None
        if len(item.uses) != 1:
            return None
        number = self._number(item.operands[0], known)
        if number is None or number == _ANY or item.opcode in ("zext", "freeze"):
            return number
        other = item.operands[-1].number
        if item.opcode == "icmp" and item.predicate in ("eq", "ne") and other is not None:
            return int((number == other) == (item.predicate == "eq"))
        return 1 - number if item.opcode == "xor" and item.type == "i1" and other == 1 else None

    # ---- values -----------------------------------------------------------------------------

    def _made_from(self, names: Iterable[str | None]) -> set[str]:
        """The loop's values that are made from some, these included (a forward slice)."""
        return reachable_until(self._users, (name for name in names if name))

    def _handed_on(self, edges: Set[Edge]) -> dict[str, list[str]]:
        """For each phi those that hand their value on to it unchanged, within an iteration or from
        the one before, on some edges."""
        phis = {name: item for name, item in self._items.items() if item.is_phi}
        return {
            name: [
                value
                for value, source in phi.incoming
                if value in phis and (source, self._where[name]) in edges
            ]
            for name, phi in phis.items()
        }

    def _changes(self) -> dict[str, dict[Edge, bool]]:
        """For each phi of the header the edges on which its value changes, and whether by
        itself."""
        from_phis = self._handed_on(self._edges)
        to_phis = control_flow.invert(from_phis)
        found: dict[str, dict[Edge, bool]] = {}
        for name in (phi.result or "" for phi in self._blocks[self._loop.header].phis):
            same = reachable_until(from_phis, [name]) & reachable_until(to_phis, [name])
            made = self._made_from([name])
            changes = found.setdefault(name, {})
            for each in same:
                for value, source in self._items[each].incoming:
                    if source in self._blocks and value not in same:
                        edge = source, self._where[each]
                        changes[edge] = value in made or changes.get(edge, False)
        return found

    # ---- progress ---------------------------------------------------------------------------

    def _counted(self, answers: Set[str]) -> set[Edge]:
        """The edges on which numbers change that end the loop, whatever `answers` are, if there is
        something done in its iterations."""
        found: set[Edge] = set()
        for name, changes in self._counters.items():
            made = self._made_from([name])
            if made & self._ends - answers and self._works(made):
                found |= changes.keys()
        return found

    def _works(self, made: set[str]) -> bool:
        """Whether something is stored in the loop, or accessed at one of the values `made`."""
        return any(
            item.opcode == "store" or (item.opcode in _ACCESSES and made.intersection(item.uses))
            for _, item in self._bodies
            if not (item.callee or "").startswith("llvm.")
        )

    def _evolving(self, labels: Set[str], gone: Set[Edge]) -> set[str]:
        """The values that a thread itself changes from one iteration to the next that passes
        `labels` and no edge in `gone`, and the numbers that it takes from a counter."""
        counters = (
            name
            for name, changes in self._counters.items()
            if any(own and {*edge} <= labels for edge, own in changes.items() if edge not in gone)
        )
        taken = (
            item.result for label, item in self._bodies if label in labels and self._adds(item)
        )
        return self._made_from([*counters, *taken])

    def _progress(self, places: Set[str]) -> set[str]:
        """Labels of the blocks in which a thread makes progress that waits for `places`."""
        return {
            label
            for label, item in self._bodies
            if (item.opcode == "cmpxchg" and self._swaps_what_it_read(item))
            or (item.opcode == "store" and not item.stays and self._leads_on(item, places))
            or (self._adds(item) and self._leads_on(item, places))
        }

    @cached_property
    def _varying(self) -> set[str]:
        """The values that may differ from one iteration to the next."""
        reads = (item.result for _, item in self._bodies if item.opcode in READING)
        return self._made_from([*self._counters, *reads])

    @cached_property
    def _deciding(self) -> list[Instruction]:
        """The reads that branches of the loop go by."""
        asked = _asked(self._blocks.values())
        reads = (item for _, item in self._bodies if item.opcode in READING)
        return [item for item in reads if asked & self._made_from([item.result])]

    def _leads_on(self, write: Instruction, places: Set[str]) -> bool:
        """Whether a write of `places` may change what the next iteration goes by. What each
        iteration writes anew, the same to the same address, does so where that is read only."""
        objects, known = self._analyses.get(UnderlyingObjects), self._analyses.get(forms)
        written = objects.written_by(write)
        if write.address is None or not may_alias(written, places):
            return False
        at = known.of(write.address)
        is_fixed = self._items.keys().isdisjoint(each.value for each in at.symbols)
        is_new = write.opcode != "store" or not self._varying.isdisjoint(write.uses)
        for address in (read.operands[0] for read in self._deciding):
            distance = known.of(address).plus(at, -1)
            is_apart = is_fixed and not distance.symbols and distance.constant
            is_read = not is_apart and may_alias(written, objects.at(address))
            if is_read and (is_new or are_congruent(self._analyses, (address, write.address))):
                return True
        return False

    def _swaps_what_it_read(self, item: Instruction) -> bool:
        objects = self._analyses.get(UnderlyingObjects)
        places = objects.at(item.operands[0])
        read = (
            other.result
            for _, other in self._bodies
            if other.opcode in READING and objects.at(other.operands[0]) & places
        )
        return item.operands[1].text in self._made_from(read)

    def _adds(self, item: Instruction) -> bool:
        """Whether an instruction is an addition, and nothing else in the loop writes that place."""
        if item.opcode != "atomicrmw" or item.predicate not in _ADDITIONS:
            return False
        return not is_idempotent(item, self._analyses.items) and not any(
            other is not item
            and other.opcode in ("atomicrmw", "store")
            and other.address is not None
            and are_congruent(self._analyses, (other.address, item.operands[0]))
            for _, other in self._bodies
        )


def _asked(blocks: Iterable[Block]) -> set[str]:
    """What the branches at the ends of blocks go by."""
    ends = (block.terminator for block in blocks)
    return {name for end in ends if isinstance(end, Instruction) for name in end.uses}


def has_yields(function: Function) -> bool:
    """Whether threads of a function let others go on somewhere."""
    return any(item.callee == YIELD for item in function.instructions())


def without_yields(function: Function) -> Function:
    """A function whose threads let nobody go on, but read memory anew there."""
    made = function.copy()
    fence = Instruction("fence", "void", ordering='syncscope("singlethread") seq_cst')
    for block in made.blocks.values():
        block.body = [fence if item.callee == YIELD else item for item in block.body]
    return made
