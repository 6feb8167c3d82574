"""For which loops that wait (`spin_loops.py`) the threads of a block have to run by turns.

Where they run one after the other, from one barrier to the next, a thread may wait for another
block, which goes on meanwhile, but not for another thread of its own. That does not happen

- with locks that each thread sets free again behind taking them:

      while cuda.atomic.cas(lock, 0, 0, 1) != 0:
          pass
      total[0] += x[i]
      cuda.atomic.exch(lock, 0, 0)

  Here each finds the lock free. At a cut in between the first would wait for the others, and these
  for its lock: so nothing is cut where a lock may be held.
- if one thread of the block waits, and the same one does all that others wait for, such as the
  first one of each block that waits for blocks before it.
"""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from math import prod

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BARRIERS, BLOCK_WIDE
from haulage.compiler.simt.analysis.memory_dependence import ANYWHERE, Roots, may_meet, zero_added
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.targets.cpu import YIELD

_SWAP = re.compile(r"cmpxchg (?:volatile )?ptr [^,]+, \S+ (-?\d+), ")
_EXCHANGE = re.compile(r"atomicrmw (?:volatile )?xchg ptr [^,]+, \S+ (-?\d+) ")
_STORE = re.compile(r"store (?:volatile )?\S+ (-?\d+), ptr ")
_SUCCESS = re.compile(r"extractvalue [^%]*(%\S+), 1$")
_COMPARED = re.compile(r"icmp (eq|ne) \S+ (%[^,]+), (-?\d+)$")
_BRANCH = re.compile(r"br i1 ([^,]+), label ([^,]+), label ([^,\s]+)")
_BOTH = re.compile(r"(?:select i1 (%[^,]+), i1 (%[^,]+), i1 false|and i1 (%[^,]+), (%\S+))$")
# fmt: off
_PLAIN = frozenset((
    "getelementptr", "sext", "zext", "trunc", "add", "sub", "mul", "and", "or", "xor", "shl",
    "select", "icmp", "srem", "urem", "sdiv", "udiv",
))
# fmt: on
_INDEX = re.compile(r"icmp (eq|ne) i32 %threadIdx\.([xyz]), (\d+)$")


def held(function: Function) -> frozenset[str]:
    """Labels of the blocks at whose start a thread may hold something: a loop that waits is before
    them and a write to what it waits for behind them, with no barrier of the block in between."""
    successors = {label: block.successors for label, block in function.blocks.items()}
    roots = Roots(function)
    found: set[str] = set()
    for loop in _waiting(function):
        awaited = _asked(function, loop, roots)
        exits = {to for label in loop.labels for to in successors[label]} - loop.labels
        found |= _reached(function, exits) & _writers(function, awaited, roots)
    return frozenset(found)


def are_contended(function: Function, block: tuple[int, int, int]) -> bool:
    """Whether a thread may wait for another one of its block, of this size (x, y, z)."""
    loops = _waiting(function)
    if not loops or prod(block) == 1:
        return False
    roots = Roots(function)
    guards = _Guards(function, block)
    return not all(
        guards.is_alone_in(loop, _asked(function, loop, roots), roots)
        or _is_own_lock(function, loop, roots)
        for loop in loops
    )


def _waiting(function: Function) -> list[control_flow.Loop]:
    """The innermost loops around the places where threads let others go on."""
    successors = {label: block.successors for label, block in function.blocks.items()}
    loops = control_flow.natural_loops(successors, function.entry)
    found: dict[str, control_flow.Loop] = {}
    for label, block in function.blocks.items():
        if any(item.callee == YIELD for item in block.body):
            around = next((loop for loop in loops if label in loop.labels), None)
            if around is not None:
                found[around.header] = around
    return list(found.values())


def _asked(function: Function, loop: control_flow.Loop, roots: Roots) -> set[str]:
    """The roots of the memory that is read in a loop and written by threads."""
    read = {root for item in _asking(function, loop) for root in _places(item, roots)}
    written = {
        root
        for block in function.blocks.values()
        for item in block.body
        for root in roots.written_by(item)
    }
    return read if ANYWHERE in read | written else read & written


def _asking(function: Function, loop: control_flow.Loop) -> list[Instruction]:
    return [
        item
        for label in loop.labels
        for item in function.blocks[label].body
        if item.opcode in ("load", "atomicrmw", "cmpxchg")
    ]


def _places(item: Instruction, roots: Roots) -> set[str]:
    return roots.of(item.uses[0]) if item.uses else {ANYWHERE}


# ---- locks -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Taking:
    """A try to take a lock: the number that a free one has, and where control goes without it."""

    free: str
    fails: str


def _is_own_lock(function: Function, loop: control_flow.Loop, roots: Roots) -> bool:
    """Whether a loop waits for a lock that is set free by the thread that took it, and only then,
    with no barrier in between."""
    asking = _asking(function, loop)
    address = asking[0].uses[0] if asking and asking[0].uses else None
    if address is None:
        return False
    place, places = _expression(function, address), roots.of(address)
    if ANYWHERE in places or any(
        not item.uses or _expression(function, item.uses[0]) != place for item in asking
    ):
        return False
    taking: dict[str, _Taking] = {}
    freeing: dict[str, str] = {}
    for label, block in function.blocks.items():
        for item in block.body:
            touched = roots.written_by(item) or roots.read_by(item)
            if not may_meet(touched, places):
                continue
            taken = _taking(function, block, item)
            freed = (_STORE if item.opcode == "store" else _EXCHANGE).search(item.text)
            to = item.uses[-1] if item.opcode == "store" else item.uses[0]
            if _expression(function, to) != place or label in taking or label in freeing:
                return False
            if taken is not None:
                taking[label] = taken
            elif freed is not None:
                freeing[label] = freed[1]
            else:
                return False
    numbers = {each.free for each in taking.values()} | set(freeing.values())
    return len(numbers) == 1 and _is_freed_when_taken(function, taking, freeing)


def _taking(function: Function, block: Block, item: Instruction) -> _Taking | None:
    """What an instruction is that tries to take a lock, at whose success the block's end looks."""
    end = block.terminator
    branch = _BRANCH.search(end.text) if isinstance(end, Instruction) else None
    definitions = {each.result: each for each in block.body}
    condition = definitions.get(branch[1]) if branch else None
    if branch is None or condition is None:
        return None
    if swap := _SWAP.search(item.text):
        success = _SUCCESS.search(condition.text)
        return _Taking(swap[1], branch[3]) if success and success[1] == item.result else None
    compared = _COMPARED.search(condition.text)
    if _EXCHANGE.search(item.text) and compared and compared[2] == item.result:
        return _Taking(compared[3], branch[3 if compared[1] == "eq" else 2])
    return None


def _is_freed_when_taken(
    function: Function, taking: Mapping[str, _Taking], freeing: Mapping[str, str]
) -> bool:
    """Whether a thread comes to none of the blocks `freeing` but by a success of those `taking`,
    each time, and to no barrier in between."""
    without: dict[str, tuple[str, ...]] = {}
    taken: dict[str, tuple[str, ...]] = {}
    for label, block in function.blocks.items():
        without[label] = taken[label] = block.successors
        if label in taking:
            without[label] = (taking[label].fails,)
            taken[label] = ()
        if label in freeing:
            taken[label] = ()
    starts = {to for label in freeing for to in function.blocks[label].successors}
    free = control_flow.reachable_until(without, {function.entry} | starts, control_flow.EXIT)
    successes = {
        to for label, each in taking.items() for to in function.blocks[label].successors
    } - {each.fails for each in taking.values()}
    inside = control_flow.reachable_until(taken, successes, control_flow.EXIT)
    waits = any(item.callee in BARRIERS for label in inside for item in function.blocks[label].body)
    return not waits and not free & freeing.keys()


def _expression(function: Function, name: str) -> object:
    """A value as what it is made by and from, to compare it with others."""
    items = {result: item for result, (_, item) in function.definitions().items()}

    def made(name: str, depth: int) -> object:
        item = items.get(name)
        if item is None or item.opcode not in _PLAIN or depth == 0:
            return name
        text = item.text.split(" = ", 1)[1]
        for each in item.uses:
            text = text.replace(each, "%", 1)
        return text, tuple(made(each, depth - 1) for each in item.uses)

    return made(name, 8)


# ---- one thread ------------------------------------------------------------------------------


class _Guards:
    """What only one thread of a block does."""

    def __init__(self, function: Function, block: tuple[int, int, int]) -> None:
        self._function = function
        axes = [axis for axis, size in zip("xyz", block, strict=True) if size > 1]
        self._axis = axes[0] if len(axes) == 1 else None
        self._items = {name: item for name, (_, item) in function.definitions().items()}
        self._closest: dict[str, str] = {}
        self._starts: dict[str, set[str]] = {}
        if self._axis is not None:
            self._find()

    def _find(self) -> None:
        blocks = self._function.blocks
        successors = {label: block.successors for label, block in blocks.items()}
        before = control_flow.invert(successors)
        self._closest = control_flow.immediate_dominators(successors, self._function.entry)
        for label, block in blocks.items():
            end = block.terminator
            branch = _BRANCH.search(end.text) if isinstance(end, Instruction) else None
            if branch is None or branch[2] == branch[3]:
                continue
            for way, target in ((True, branch[2]), (False, branch[3])):
                if before[target] == [label]:
                    for index in self._indices(branch[1], way):
                        self._starts.setdefault(index, set()).add(target)

    def _indices(self, condition: str, way: bool) -> set[str]:
        """The indices of which a thread has one if a condition turns out a way."""
        item = self._items.get(condition)
        if item is None:
            return set()
        found = _INDEX.search(item.text)
        if found is not None:
            is_it = found[2] == self._axis and (found[1] == "eq") == way
            return {found[3]} if is_it else set()
        both = _BOTH.search(item.text) if way else None
        return (
            {index for name in item.uses for index in self._indices(name, way)} if both else set()
        )

    def is_alone_in(self, loop: control_flow.Loop, asked: Set[str], roots: Roots) -> bool:
        """Whether one thread is in a loop, and it alone writes what is `asked` there. What nobody
        seems to write another thread may have by another name."""
        writers = {
            label
            for label, block in self._function.blocks.items()
            for item in block.body
            if may_meet(roots.written_by(item), asked) and not zero_added(item, self._items)
        }
        return bool(writers) and any(
            all(self._is_behind(starts, label) for label in {loop.header} | writers)
            for starts in self._starts.values()
        )

    def _is_behind(self, starts: Set[str], label: str) -> bool:
        return label in self._closest and any(
            control_flow.dominates(self._closest, start, label) for start in starts
        )


# ---- where a lock is held --------------------------------------------------------------------


def _reached(function: Function, starts: Set[str]) -> set[str]:
    """Labels that can be come to from `starts`, them included, without a barrier of the block."""
    onward = {
        label: () if _has_barrier(block) else block.successors
        for label, block in function.blocks.items()
    }
    return control_flow.reachable_until(onward, starts, control_flow.EXIT)


def _writers(function: Function, places: Set[str], roots: Roots) -> set[str]:
    """Labels from whose start a write to `places` can be come to without a barrier of the block."""
    writing = {
        label
        for label, block in function.blocks.items()
        if any(may_meet(roots.written_by(item), places) for item in _before_barrier(block))
    }
    backwards: dict[str, list[str]] = {label: [] for label in function.blocks}
    for label, block in function.blocks.items():
        for target in () if _has_barrier(block) else block.successors:
            backwards[target].append(label)
    return control_flow.reachable_until(backwards, writing, control_flow.EXIT)


def _before_barrier(block: Block) -> Iterable[Instruction]:
    for item in block.body:
        if item.callee in BLOCK_WIDE:
            return
        yield item


def _has_barrier(block: Block) -> bool:
    return any(item.callee in BLOCK_WIDE for item in block.body)
