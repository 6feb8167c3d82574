"""Loops in which a thread waits for a write of another one, found before LLVM optimises them.

    while flag[i] == 0:
        pass

Nothing in such a turn changes what the next one does, unless another thread writes `flag[i]`. So
there, on the way back to the loop's head, the thread has to let others go on: a call of
`haulage.yield` is put there. LLVM knows nothing of it, so that it reads `flag[i]` anew in each
turn; CUDA's compiler may read it once.

A turn waits if it reads the same memory as the turn before (or tries to change it in the same way),
goes one way or another by what it finds, and is no step forward of the thread's own. Such steps are

- an access at another place than in the turn before, as in a search or a walk along a list,
- a compare-and-swap of what was read just before: it fails only if another thread succeeded,
- a plain store to what is asked for, and an addition to it by whose answer the loop ends,
- a barrier of the block, where the others go on anyway,
- a turn of a loop that counts its turns and does something in them.

A loop may have such turns and others, as in a search backwards that looks at one place until there
is something: only the way back from those that wait has the call.
"""

import re
from collections.abc import Iterable, Set

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BLOCK_WIDE
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import (
    UnderlyingObjects,
    is_idempotent,
    may_alias,
)
from haulage.compiler.simt.coroutines.spin_progress import Edge, Turns
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.targets.cpu import YIELD

_CALL = f"call void @{YIELD}()"
_SWITCH = re.compile(r"(?m)^( +switch [^\n\[]*\[)\n((?:[^\]\n]*\n)*?) *\]")
_LABEL = re.compile(r'("[^"]*"|[-a-zA-Z$._0-9]+):')
_TARGET = re.compile(r'label %("[^"]*"|[-a-zA-Z$._0-9]+)')
_COMPARED = re.compile(r"cmpxchg (?:weak )?(?:volatile )?ptr [^,]+, \S+ ([^,]+),")
_ADDED = re.compile(r"atomicrmw (?:volatile )?(\w+) ptr [^,]+, \S+ (\S+)")
_ACCESSES = frozenset(("load", "store", "atomicrmw", "cmpxchg", "call"))


def has_loops(text: str) -> bool:
    """Whether a function of a module's text may have a loop: a branch to what stands before it."""
    seen: set[str] = set()
    for line in text.splitlines():
        if line.startswith("define"):
            seen = set()
        elif found := _LABEL.match(line):
            seen.add(found[1])
        elif "label %" in line and not seen.isdisjoint(_TARGET.findall(line)):
            return True
    return False


def marked(text: str, name: str) -> str | None:
    """A module's text with calls of `haulage.yield` where threads of the function `name` wait; None
    if they do nowhere.

    Every value and block of the function has a name.
    """
    # Only switches are written over several lines.
    text = _SWITCH.sub(lambda found: found[1] + " ".join(found[2].split()) + " ]", text)
    edges = waiting_edges(reader.read(text, name))
    if not edges:
        return None
    lines = reader.definition(text, name)
    written = "\n".join(_with_calls(lines, edges))
    return f"{text.replace(chr(10).join(lines), written)}\ndeclare void @{YIELD}() nounwind\n"


def waiting_edges(function: Function) -> list[Edge]:
    """The edges back to the head of a loop on which a thread has waited for another."""
    successors = {label: block.successors for label, block in function.blocks.items()}
    loops = control_flow.natural_loops(successors, function.entry)
    if not loops:
        return []
    memory = _Memory(function)
    edges: list[Edge] = []
    found: set[str] = set()
    for loop in loops:
        inner = set().union(*(each.labels for each in loops if each.labels < loop.labels))
        edges += _Loop(function, loop, inner, memory).waiting(found)
    return edges


class _Memory:
    """Which memory the instructions of a function access, and who writes what others read."""

    def __init__(self, function: Function) -> None:
        self.items = {name: item for name, (_, item) in function.definitions().items()}
        self.roots = UnderlyingObjects(Analyses(function))
        self._own = {name for name, item in self.items.items() if item.opcode == "alloca"}
        self._written = [
            self.roots.written_by(item) - self._own
            for block in function.blocks.values()
            for item in block.body
            if not self.adds_nothing(item)
        ]

    def asked(self, item: Instruction) -> set[str]:
        """The roots of memory that an instruction reads and threads may write meanwhile, if there
        is any. Who reads by an atomic operation expects that, whatever this kernel writes."""
        if item.opcode not in ("load", "atomicrmw", "cmpxchg") or not item.uses:
            return set()
        places = self.roots.of(item.uses[0])
        if places <= self._own:
            return set()
        written = item.stays or any(may_alias(each, places) for each in self._written)
        return places if written else set()

    def adds_nothing(self, item: Instruction) -> bool:
        """`is_idempotent` of an instruction here."""
        return item.opcode == "atomicrmw" and is_idempotent(item, self.items)


class _Loop:
    def __init__(
        self, function: Function, loop: control_flow.Loop, inner: Set[str], memory: _Memory
    ) -> None:
        self._function, self._loop, self._memory = function, loop, memory
        self._turns = Turns(function, loop, inner)
        self._items, self._made_from = self._turns.items, self._turns.made_from
        self._counters = {
            phi.result: self._turns.changes(phi)
            for phi in function.blocks[loop.header].phis
            if phi.result
        }

    def waiting(self, found: set[str]) -> list[Edge]:
        """The edges on which a turn ends that waited. The names of the answers that it waited for
        are added to `found`; those that are there already are waited for in a loop within."""
        barriers = {
            label
            for label in self._loop.labels
            if any(item.callee in BLOCK_WIDE for item in self._function.blocks[label].body)
        }
        asks = {
            name: places
            for name, item in self._items.items()
            for places in (self._memory.asked(item),)
            if places and name not in found
        }
        if not asks or not self._turns.ways(barriers, set()):
            return []
        counted = self._counted(self._made_from(asks))
        # Most loops count their turns, and end here.
        if not self._turns.ways(barriers, counted):
            return []
        edges: dict[Edge, None] = {}
        for name, places in asks.items():
            gone = counted | self._moves(name)
            for labels in self._turns.ways(barriers | self._steps(name, places), gone):
                if self._turns.where[name] in labels and self._decides(name, labels, gone):
                    found.add(name)
                    ends = {(label, self._loop.header) for label in labels} & self._turns.edges
                    edges.update(dict.fromkeys(sorted(ends - gone)))
        return list(edges)

    def _counted(self, answers: Set[str]) -> set[Edge]:
        """The edges on which numbers change that end the loop, whatever `answers` are, if there is
        something done in its turns."""
        ends = {
            name
            for label in self._loop.labels
            for block in [self._function.blocks[label]]
            if set(block.successors) - self._loop.labels
            if isinstance(block.terminator, Instruction)
            for name in block.terminator.uses
        } - answers
        found: set[Edge] = set()
        for name, changes in self._counters.items():
            made = self._made_from([name])
            if made & ends and self._works(made):
                found |= changes.edges
        return found

    def _works(self, made: set[str]) -> bool:
        """Whether something is stored in the loop, or accessed at one of the values `made`."""
        return any(
            item.opcode == "store" or (item.opcode in _ACCESSES and made.intersection(item.uses))
            for label in self._loop.labels
            for item in self._function.blocks[label].body
            if not (item.callee or "").startswith("llvm.")
        )

    def _moves(self, name: str) -> set[Edge]:
        """The edges on which an access moves to another place, or asks for something else."""
        item = self._items[name]
        waiting = [item.uses[0]]
        compared = _COMPARED.search(item.text)
        if compared is not None:
            waiting.append(compared[1])
        found: set[Edge] = set()
        seen: set[str] = set()
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self._counters:
                found |= self._counters[value].edges
            elif value in self._items:
                waiting += self._items[value].uses
        return found

    def _steps(self, name: str, places: Set[str]) -> set[str]:
        """Labels of the blocks in which the thread goes a step forward, for one that asks at
        `places`."""
        found: set[str] = set()
        asking = self._items[name]
        undone = self._is_undone(asking)
        for label in self._loop.labels:
            for item in self._function.blocks[label].body:
                if item.opcode == "cmpxchg" and self._swaps_what_it_read(item):
                    found.add(label)
                elif item.opcode == "store" and not item.stays:
                    if may_alias(self._memory.roots.written_by(item), places):
                        found.add(label)
                elif (
                    not undone
                    and self._adds(item)
                    and may_alias(self._memory.roots.written_by(item), places)
                ) or self._ends_by_adding(item):
                    found.add(label)
        return found

    def _swaps_what_it_read(self, item: Instruction) -> bool:
        compared = _COMPARED.search(item.text)
        if compared is None:
            return False
        places = self._memory.roots.of(item.uses[0])
        read = [
            name
            for name, other in self._items.items()
            if other.opcode in ("load", "atomicrmw", "cmpxchg")
            and other.uses
            and self._memory.roots.of(other.uses[0]) & places
        ]
        return compared[1] in self._made_from(read)

    def _adds(self, item: Instruction) -> bool:
        added = _ADDED.search(item.text) if item.opcode == "atomicrmw" else None
        return (
            added is not None
            and added[1] in ("add", "sub", "fadd", "fsub")
            and not self._memory.adds_nothing(item)
        )

    def _ends_by_adding(self, item: Instruction) -> bool:
        """Whether an addition is made by whose answer the loop ends, as with numbers that threads
        take from a counter."""
        if not self._adds(item) or item.result is None or self._is_undone(item):
            return False
        made = self._made_from([item.result])
        return any(
            made.intersection(block.terminator.uses)
            for label in self._loop.labels
            for block in [self._function.blocks[label]]
            if set(block.successors) - self._loop.labels
            if isinstance(block.terminator, Instruction)
        )

    def _is_undone(self, item: Instruction) -> bool:
        """Whether an addition is followed by another write of the same place in the loop."""
        return self._adds(item) and any(
            other is not item
            and other.opcode in ("atomicrmw", "store")
            and other.uses
            and self._same_place(other.uses[-1 if other.opcode == "store" else 0], item)
            for label in self._loop.labels
            for other in self._function.blocks[label].body
        )

    def _same_place(self, address: str, item: Instruction) -> bool:
        return self._expression(address) == self._expression(item.uses[0])

    def _expression(self, name: str, depth: int = 8) -> object:
        """A value as what it is made by and from, to compare it with others."""
        item = self._memory.items.get(name)
        if item is None or depth == 0 or item.is_phi or item.opcode in _ACCESSES:
            return name
        made = item.text.split(" = ", 1)[1]
        parts = tuple(self._expression(each, depth - 1) for each in item.uses)
        for each in item.uses:
            made = made.replace(each, "%", 1)
        return made, parts

    def _decides(self, name: str, labels: Set[str], gone: Set[Edge]) -> bool:
        """Whether the answer `name` alone decides where a turn goes that passes `labels` and no
        edge in `gone`, not a value that the thread itself changes from turn to turn."""
        evolving = [
            counter
            for counter, changes in self._counters.items()
            if any({source, target} <= labels for source, target in changes.by_itself - gone)
        ]
        deciding = self._made_from([name]) - self._made_from(evolving)
        return any(
            len(set(end.targets)) > 1 and deciding.intersection(end.uses)
            for label in labels
            for end in [self._function.blocks[label].terminator]
            if isinstance(end, Instruction)
        )


def _with_calls(lines: list[str], edges: Iterable[Edge]) -> list[str]:
    """The lines of a function with a call on each of some edges."""
    names = {edge: f"%{YIELD}.{number}" for number, edge in enumerate(edges)}
    written: list[str] = []
    made: list[str] = []
    current = ""
    for line in lines:
        if line and line[0] not in " ;}" and not line.startswith("define"):
            current = "%" + line.split(":", 1)[0]
        for (source, target), name in names.items():
            if current == source and line.startswith(("  br ", "  switch ")):
                line = re.sub(rf"label {re.escape(target)}(?=[,\s]|$)", f"label {name}", line)
            elif current == target and " = phi " in line:
                line = line.replace(f", {source} ]", f", {name} ]")
                # The branch may have had two ways here, of which one is left.
                while line.count(f", {name} ]") > 1:
                    line = re.sub(rf"\[ [^\[\]]*, {re.escape(name)} \], ", "", line, count=1)
        written.append(line)
    for (_, target), name in names.items():
        made += [f"{name[1:]}:", f"  {_CALL}", f"  br label {target}"]
    return [*written[:-1], *made, written[-1]]


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
