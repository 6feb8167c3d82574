"""Loads of memory that may be written between the same two barriers.

Each thread of a block reads such memory before or after another one writes it, as it happens; so
the threads need not get one value, even from one address. A kernel may rely on what *one* of them
gets: `old = x[0]`, `if t == 0: x[0] = old + 1`, and later `old` in thread 0 again.

Memory is told apart by where addresses come from: a parameter (an array that the kernel was given,
or a shared or private array of its own) or anywhere. Two arrays given to a kernel count as apart,
as what threads read from one and write to the other would be a data race if they were not.
"""

import re
from collections.abc import Set
from itertools import pairwise

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BARRIERS, barriers
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.targets.cpu_ir import SHARED_ADDRESS
from haulage.targets.messages import MESSAGE

# An address that may point anywhere.
ANYWHERE = "anywhere"

_WRITING = frozenset(("store", "atomicrmw", "cmpxchg"))
_SHARED = re.compile(rf"@{re.escape(SHARED_ADDRESS)}\(ptr [^@)]*(@[^)]+)\)")
_ADDED = re.compile(r"atomicrmw (?:volatile )?(\w+) ptr [^,]+, \S+ (\S+)")
_CONSTANT = re.compile(r"= (?:trunc|sext|zext) \S+ (-?\d+) to ")
# Additions of nothing, by which programs read.
_ADDITIONS = frozenset(("add", "sub", "or", "xor", "fadd", "fsub"))
_COPYING_CALLS = ("llvm.memset", "llvm.memcpy", "llvm.memmove")


def unsettled_loads(function: Function, kinds: frozenset[str] = BARRIERS) -> set[str]:
    """Names of loads whose memory may be written between the barriers of `kinds` around them."""
    roots = Roots(function)
    segments = _Segments(function, kinds)
    loads: dict[str, list[Instruction]] = {}
    writes: dict[str, set[str]] = {}
    for segment, items in segments.items.items():
        loads[segment] = [item for item in items if item.opcode == "load"]
        writes[segment] = {root for item in items for root in roots.written_by(item)}
    unsettled: set[str] = set()
    for segment, found in loads.items():
        if not found:
            continue
        written = set().union(*(writes[other] for other in segments.together(segment)))
        for load in found:
            read = roots.read_by(load)
            if written and (written & read or ANYWHERE in written | read):
                assert load.result is not None
                unsettled.add(load.result)
    return unsettled


def may_meet(written: Set[str], places: Set[str]) -> bool:
    """Whether memory with some roots may be, in part, memory with others."""
    return bool(written & places or (written and ANYWHERE in written | places))


class Roots:
    """Where the addresses of a function come from."""

    def __init__(self, function: Function) -> None:
        self._items = {name: item for name, (_, item) in function.definitions().items()}
        self._known: dict[str, set[str]] = {}

    def of(self, name: str) -> set[str]:
        """The parameters, arrays of the function, or `ANYWHERE`, that the address `name` may have
        been made from."""
        known = self._known.get(name)
        if known is not None:
            return known
        found: set[str] = set()
        seen: set[str] = set()
        stack = [name]
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            item = self._items.get(current)
            if item is None:
                found.add(current)
            elif item.opcode == "getelementptr":
                stack.append(item.uses[0])
            elif item.opcode == "alloca":
                found.add(current)
            elif shared := _SHARED.search(item.text):
                found.add(shared[1])
            elif item.opcode in ("phi", "select", "freeze"):
                # A constant address (null) is nobody's; an operand that is no address adds little.
                stack.extend(item.uses)
            else:
                found.add(ANYWHERE)
        self._known[name] = found
        return found

    def read_by(self, item: Instruction) -> set[str]:
        """The roots of the memory that an instruction reads, if that is all it does to memory."""
        if item.opcode == "load":
            return self.of(item.uses[0]) if item.uses else {ANYWHERE}
        if (item.callee or "").startswith(("llvm.memcpy", "llvm.memmove")):
            return set().union(*map(self.of, item.uses)) if item.uses else {ANYWHERE}
        return set()

    def written_by(self, item: Instruction) -> set[str]:
        """The roots of the memory that an instruction may write."""
        if item.opcode in _WRITING:
            return self._address_of_write(item)
        if item.opcode != "call":
            return set()
        callee = item.callee or ""
        if callee.startswith(_COPYING_CALLS):
            return self.of(item.uses[0]) if item.uses else {ANYWHERE}
        if callee.startswith("llvm.") or callee in (*BARRIERS, MESSAGE):
            return set()
        # What is given no address, as most of mathematics, writes to none that a kernel has.
        return {ANYWHERE} if "ptr " in item.text.split("(", 1)[1] else set()

    def _address_of_write(self, item: Instruction) -> set[str]:
        # A store's address is its last operand, a read-modify-write's its first.
        if not item.uses:
            return {ANYWHERE}
        address = item.uses[-1] if item.opcode == "store" else item.uses[0]
        return self.of(address)


class _Segments:
    """The parts of a function's blocks between barriers, and which run between the same two."""

    def __init__(self, function: Function, kinds: frozenset[str]) -> None:
        self.items: dict[str, list[Instruction]] = {}
        places: dict[str, list[int]] = {}
        for label, index, _ in barriers(function, kinds):
            places.setdefault(label, []).append(index)
        first: dict[str, str] = {}
        last: dict[str, str] = {}
        for block in function.blocks.values():
            bounds = [0, *places.get(block.label, []), len(block.body)]
            names = [f"{block.label}#{number}" for number in range(len(bounds) - 1)]
            for name, (start, end) in zip(names, pairwise(bounds), strict=True):
                self.items[name] = block.body[start:end]
            first[block.label], last[block.label] = names[0], names[-1]
        # Control passes from block to block, but over a barrier within a block it does not count.
        self._after: dict[str, tuple[str, ...]] = dict.fromkeys(self.items, ())
        for block in function.blocks.values():
            self._after[last[block.label]] = tuple(first[to] for to in block.successors)
        self._before = control_flow.invert(self._after)

    def together(self, segment: str) -> set[str]:
        """The segments that can be reached from `segment`, or reach it, without a barrier."""
        after = control_flow.reachable_until(self._after, [segment], control_flow.EXIT)
        before = control_flow.reachable_until(self._before, [segment], control_flow.EXIT)
        return after | before


def zero_added(item: Instruction, items: dict[str, Instruction]) -> bool:
    """Whether an atomic operation adds nothing, so that it only reads."""
    added = _ADDED.search(item.text)
    if added is None or added[1] not in _ADDITIONS:
        return False
    value = added[2].rstrip(",")
    if value in items:
        constant = _CONSTANT.search(items[value].text)
        value = constant[1] if constant else value
    return value in ("0", "0.000000e+00", "-0.000000e+00")
