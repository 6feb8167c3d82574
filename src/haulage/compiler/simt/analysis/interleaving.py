"""Where LLVM's loop vectoriser would change the order of one thread's own accesses of memory.

In a loop whose accesses are declared parallel it takes no two of them for dependent, also not two
of one iteration. It keeps their order, but for one thing: of accesses that lie some constant step
apart (`x[2 * t]`, `x[2 * t + 1]`, the parts of complex numbers) it makes one wide access; loads
move up to the first of them, stores down to the last. A store on the way that may mean the same
memory is passed over: `x[2 * t] = 1`, `y[t] = x[k]`, `x[2 * t + 1] = 2` reads what was there before
the kernel, if `k` is `2 * t`. Regions with such accesses are not declared parallel; LLVM then looks
for itself what depends on what, with a test as the kernel runs if need be.

LLVM unrolls short loops before that, and what were turns is then one iteration of the loop over the
threads. So accesses in loops are looked at as if they were unrolled (`unrolled.py`).
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import ANYWHERE, UnderlyingObjects
from haulage.compiler.simt.analysis.strides import size_of, size_of_access
from haulage.compiler.simt.analysis.unrolled import Step, unrolled
from haulage.compiler.simt.ir.model import Function, Instruction

_VALUE = r'%"[^"]*"|%[-\w$.]+|-?\d+'
_PAIR = re.compile(rf"({_VALUE}), ({_VALUE})(?:, !.*)?$")
_ELEMENT = re.compile(
    r"getelementptr (?:(?:inbounds|nuw|nusw) )*(?P<type>\S.*?), "
    rf"ptr (?P<base>{_VALUE}), i\d+ (?P<index>{_VALUE})(?:, !.*)?$"
)
_ZERO_ARM = re.compile(r"\b0(?:, !.*)?$|, i\d+ 0, ")
_KEEPING = frozenset(("sext", "zext", "trunc", "freeze"))
_THREAD = re.compile(r"%threadIdx\.[xyz]$")
_BLOCK = re.compile(r"%blockDim\.[xyz]$")

# Values with factors, and a constant.
_Sum = tuple[dict[str, int], int]

# LLVM makes no wide access of more elements than this.
_WIDEST = 8
# Beyond so many pairs a region is taken for one with such accesses.
_MOST_PAIRS = 20_000


@dataclass(frozen=True)
class _Access:
    """An access: the memory it is in, its address as a sum, its bytes, and what those that may
    become one with it have in common."""

    is_store: bool
    roots: frozenset[str]
    terms: dict[str, int]
    offset: int
    nbytes: int
    family: frozenset[tuple[str, int]]


class Interleaving:
    """Finds such accesses in parts of one function.

    `rooms` are names of memory that nothing else overlaps: the block's own. `varying` are the
    values that can differ from thread to thread.
    """

    def __init__(self, function: Function, rooms: Set[str], varying: Set[str]) -> None:
        self._function = function
        self._rooms = rooms
        self._varying = varying
        self._roots = UnderlyingObjects(Analyses(function))
        self._items = {name: item for name, (_, item) in function.definitions().items()}
        self._origins: dict[str, str] = {}
        self._sums: dict[bool, dict[str, _Sum]] = {False: {}, True: {}}

    def changes_order(self, labels: Sequence[str]) -> bool:
        """Whether LLVM may move an access over another one that may mean the same memory; `labels`
        are the blocks of a region in the order in which they run."""
        items = (item for label in labels for item in self._function.blocks[label].body)
        if not any(item.opcode == "store" for item in items):
            return False
        listing = unrolled(self._function, labels)
        for step in listing.steps:
            if step.item.result is not None:
                self._items[step.item.result] = step.item
        self._origins |= listing.origins
        accesses: list[_Access] = []
        families: dict[object, list[int]] = {}
        for step in listing.steps:
            access = self._access(step)
            if access is None:
                continue
            index = len(accesses)
            accesses.append(access)
            if self._may_be_wide(access):
                if step.repeated or any(name in listing.looped for name, _ in access.family):
                    # Turns, and values that may be known once the loop is unrolled.
                    return True
                families.setdefault((access.is_store, access.family), []).append(index)
        return any(self._is_passed(accesses, members) for members in families.values())

    def _is_passed(self, accesses: list[_Access], members: list[int]) -> bool:
        """Whether members of a family would pass over an access that may mean the same."""
        first, last = members[0], members[-1]
        inside = set(members)
        moves_down = accesses[first].is_store
        passed = [
            index
            for index in range(first + 1, last)
            if index not in inside and (moves_down or accesses[index].is_store)
        ]
        if len(members) * len(passed) > _MOST_PAIRS:
            return True
        return any(
            (other > member) == moves_down and self._meet(accesses[member], accesses[other])
            for other in passed
            for member in members
        )

    def _access(self, step: Step) -> _Access | None:
        item = step.item
        if item.opcode not in ("load", "store") or not item.uses:
            return None
        address = item.uses[-1]
        terms, offset = self._sum(address, loose=False)
        family = frozenset(self._sum(address, loose=True)[0].items())
        roots = frozenset(self._roots.of(step.original.uses[-1]))
        size = size_of_access(item) or 0
        return _Access(item.opcode == "store", roots, terms, offset, size, family)

    def _may_be_wide(self, access: _Access) -> bool:
        """Whether neighbouring threads may be a constant step apart that is not the element."""
        return any(
            access.nbytes < abs(factor) <= _WIDEST * access.nbytes
            if _THREAD.match(name)
            else self._may_step(name)
            for name, factor in access.family
            if self._origins.get(name, name) in self._varying
        )

    def _may_step(self, name: str) -> bool:
        """Whether a value may change by a constant from thread to thread, once the size of the
        block is one; a product with anything else does not, nor does what was read."""
        item = self._items.get(name)
        if item is None:
            # A thread's own memory: a constant number of bytes from its neighbour's.
            return True
        if item.opcode != "mul":
            return item.opcode != "load"
        return any(self._is_of_block(operand) for operand in item.uses)

    def _is_of_block(self, name: str) -> bool:
        """Whether a value is made from the block's size and nothing else."""
        waiting, seen = [name], set()
        while waiting:
            current = waiting.pop()
            if current in seen or _BLOCK.match(current):
                continue
            seen.add(current)
            item = self._items.get(current)
            if item is None or item.opcode == "load" or not item.uses:
                return False
            waiting.extend(item.uses)
        return True

    def _meet(self, one: _Access, other: _Access) -> bool:
        """Whether two accesses of one thread may mean the same memory."""
        if one.terms == other.terms:
            low, high = sorted((one, other), key=lambda access: access.offset)
            return not low.nbytes or low.offset + low.nbytes > high.offset
        if ANYWHERE in one.roots | other.roots or one.roots & other.roots:
            return True
        # Two arrays that a kernel was given may be one.
        return not (one.roots <= self._rooms or other.roots <= self._rooms)

    def _sum(self, value: str, *, loose: bool) -> _Sum:
        """A value as a sum; if `loose`, without the wraparound of negative indices, of which LLVM
        may yet find that there is none."""
        if not value.startswith("%"):
            return {}, int(value)
        known = self._sums[loose]
        if value not in known:
            # A phi of a loop may be made from itself.
            known[value] = {value: 1}, 0
            item = self._items.get(value)
            if item is not None:
                known[value] = self._sum_of(item, loose) or ({value: 1}, 0)
        return known[value]

    def _sum_of(self, item: Instruction, loose: bool) -> _Sum | None:
        if item.opcode in _KEEPING:
            return self._sum(item.uses[0], loose=loose)
        if loose and item.opcode == "select" and _ZERO_ARM.search(item.text):
            return {}, 0
        if item.opcode == "getelementptr":
            found = _ELEMENT.search(item.text)
            size = size_of(found["type"]) if found else None
            if found is None or size is None:
                return None
            base = self._sum(found["base"], loose=loose)
            return _added(base, self._sum(found["index"], loose=loose), size)
        pair = _PAIR.search(item.text)
        if pair is None:
            return None
        left, right = pair[1], pair[2]
        if item.opcode == "add" or (item.opcode == "or" and " disjoint " in item.text):
            return _added(self._sum(left, loose=loose), self._sum(right, loose=loose), 1)
        if item.opcode == "sub":
            return _added(self._sum(left, loose=loose), self._sum(right, loose=loose), -1)
        if item.opcode in ("mul", "shl") and not right.startswith("%"):
            factor = int(right) if item.opcode == "mul" else 1 << int(right)
            return _added(({}, 0), self._sum(left, loose=loose), factor)
        return None


def _added(left: _Sum, right: _Sum, factor: int) -> _Sum:
    terms = dict(left[0])
    for name, times in right[0].items():
        terms[name] = terms.get(name, 0) + times * factor
    return {name: times for name, times in terms.items() if times}, left[1] + right[1] * factor
