"""Accesses of neighbouring elements, and what has to be so that one instruction can make several.

An address of 4 bytes and the one behind it are one access of 8 bytes if the first is a multiple of
8. Of an array no more is known than that its elements lie at multiples of their size; whether it
begins at a multiple of 16, and its sizes are such that rows do too, a kernel can see when it runs.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from haulage.compiler.gpu.accesses import ANYWHERE, Access, Accesses
from haulage.compiler.simt.ir.model import Instruction
from haulage.compiler.simt.ir.types import split_list

# The bytes that one instruction accesses at most, and so what addresses are multiples of.
WIDEST = 16
# Those from which on a second version of a kernel is worth anything.
_SMALLEST = 4
# Instructions that an access must be worth, so that a kernel is there twice for it; and turns that
# are taken for those of a loop.
_WORTH = 16
_TURNS = 8
_SIZES = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}
_ROW = re.compile(r"\[(\d+) x (.+)\]")
_FOREVER = 64
# An address but for a constant: itself, or what it is counted from, an index, bytes of an element.
_Key = tuple[str] | tuple[str, str, int]
# A block, what is done there, with which type, and where.
_Group = tuple[str, str, str, _Key]


@dataclass(frozen=True)
class Neighbours:
    """Accesses that can become fewer: `alignments` has, by the place of each, what its address is a
    multiple of if all arguments in `pointers` are multiples of 16, and each argument in `integers`
    of the number behind it."""

    alignments: dict[tuple[str, int], int]
    pointers: frozenset[str]
    integers: dict[str, int]


def neighbours(accesses: Accesses) -> Neighbours | None:
    """The accesses of neighbouring elements of a kernel's arrays, if there are enough."""
    finder = _Finder(accesses)
    groups: dict[_Group, list[tuple[int, Access]]] = defaultdict(list)
    for access in (*accesses.loads, *accesses.writes):
        kind = _type(access.item)
        if kind in _SIZES and not access.item.stays and ANYWHERE not in access.roots:
            key, offset = finder.split(access.item.uses[-1])
            group = access.place.label, access.item.opcode, str(kind), key
            groups[group].append((offset, access))
    alignments: dict[tuple[str, int], int] = {}
    pointers: set[str] = set()
    integers: dict[str, int] = {}
    saved = 0
    for (label, _, kind, key), members in groups.items():
        size = _SIZES[kind]
        offsets = {offset for offset, _ in members}
        aligned, needed = finder.alignment(key, size)
        # What all threads access at one place is one access anyway.
        if key[0] in accesses.parameters and len(key) == 1:
            continue
        if not any(_is_run(offset, size, aligned, offsets) for offset in offsets):
            continue
        is_repeated = any(label in loop.labels for loop in accesses.loops)
        saved += len(members) * (_TURNS if is_repeated else 1) // 2
        for offset, access in members:
            place = access.place.label, access.place.index
            alignments[place] = min(aligned, offset & -offset) if offset else aligned
            pointers |= access.roots
        integers.update(dict.fromkeys(needed, WIDEST // size))
    if saved * _WORTH < len(accesses.items):
        return None
    return Neighbours(alignments, frozenset(pointers), integers) if alignments else None


def _is_run(start: int, size: int, aligned: int, offsets: set[int]) -> bool:
    """Whether enough elements begin there to be worth an access of their own."""
    nbytes = max(2 * size, _SMALLEST)
    return (
        aligned >= nbytes
        and start % nbytes == 0
        and all(offset in offsets for offset in range(start, start + nbytes, size))
    )


def _type(item: Instruction) -> str | None:
    """What is loaded or stored; None of other accesses."""
    if item.opcode == "load":
        return item.type
    if item.opcode == "store" and item.uses:
        return item.operands[0].type
    return None


def _size(kind: str) -> int | None:
    """Bytes from one element of an LLVM type to the next; None of what is not known."""
    row = _ROW.fullmatch(kind)
    if row is not None:
        one = _size(row[2])
        return None if one is None else int(row[1]) * one
    if kind[:1] == "{":
        # Numbers, such as the two of a complex one.
        sizes = {_SIZES.get(each) for each in split_list(kind[1:-1])}
        one = sizes.pop() if len(sizes) == 1 else None
        return None if one is None else len(split_list(kind[1:-1])) * one
    return _SIZES.get(kind)


class _Finder:
    """Takes addresses apart: what they are counted from, and how many bytes on."""

    def __init__(self, accesses: Accesses) -> None:
        self._items = accesses.items
        self._kinds = {each.name: each.type for each in accesses.function.parameters}

    def split(self, address: str) -> tuple[_Key, int]:
        """(what an address is made of but for a constant, that in bytes)."""
        offset = 0
        while True:
            step = self._step(address)
            if step is None:
                return (address,), offset
            base, index, size = step
            if not index.startswith("%"):
                offset += int(index) * size
                address = base
                continue
            counted, constant = self._counted(index)
            return (base, counted, size), offset + constant * size

    def _step(self, address: str) -> tuple[str, str, int] | None:
        """(base, index, bytes of an element) of an address that is made of these."""
        item = self._items.get(address)
        if item is None or item.opcode != "getelementptr":
            return None
        size = _size(item.source_type)
        base, *indices = item.operands
        if size is None or len(indices) != 1 or not base.is_local:
            return None
        (index,) = indices
        return (base.text, index.text, size) if index.is_local or index.number is not None else None

    def _counted(self, index: str) -> tuple[str, int]:
        """(value, constant) whose sum an index is."""
        item = self._items.get(index)
        is_sum = item is not None and (
            item.opcode == "add" or (item.opcode == "or" and "disjoint" in item.flags)
        )
        if item is None or not is_sum or not item.operands[0].is_local:
            return index, 0
        term = item.operands[1].number
        return (index, 0) if term is None else (item.operands[0].text, term)

    def alignment(self, key: _Key, size: int) -> tuple[int, set[str]]:
        """(what an address is a multiple of, numbers among the arguments) if these are multiples
        too; `WIDEST` at most."""
        needed = set(self._integers(key))
        aligned = self._alignment(key, size, needed)
        for name in sorted(needed):
            if self._alignment(key, size, needed - {name}) == aligned:
                needed.remove(name)
        return aligned, needed

    def _alignment(self, key: _Key, size: int, multiples: set[str]) -> int:
        self._multiples = {name: (WIDEST // size).bit_length() - 1 for name in multiples}
        self._seen: dict[str, int] = {}
        return min(1 << self._address_zeros(key), WIDEST)

    def _address_zeros(self, key: _Key) -> int:
        if len(key) == 1:
            return self._pointer_zeros(key[0])
        base, index, step = key
        zeros = self._zeros(index) + (step & -step).bit_length() - 1
        return min(self._pointer_zeros(base), zeros)

    def _pointer_zeros(self, name: str) -> int:
        """How many of an address's lowest bits are zero."""
        if name in self._kinds:
            return WIDEST.bit_length() - 1
        step = self._step(name)
        if step is not None:
            base, index, size = step
            more = self._zeros(index) + (size & -size).bit_length() - 1
            return min(self._pointer_zeros(base), more)
        return self._of_choices(name, self._pointer_zeros)

    def _zeros(self, name: str) -> int:
        """How many of a number's lowest bits are zero."""
        if not name.startswith("%"):
            number = int(name) if name.lstrip("-").isdigit() else 1
            return (number & -number).bit_length() - 1 if number else _FOREVER
        if name in self._kinds:
            return self._multiples.get(name, 0)
        item = self._items[name]
        if item.opcode == "shl":
            return self._zeros(item.operands[0].text) + (item.operands[1].number or 0)
        if item.opcode in ("mul", "add", "sub", "or", "sext", "zext"):
            zeros = [self._zeros(operand.text) for operand in item.operands]
            return sum(zeros) if item.opcode == "mul" else min(zeros)
        return self._of_choices(name, self._zeros)

    def _of_choices(self, name: str, zeros: Callable[[str], int]) -> int:
        """The fewest of the values of a phi."""
        if name in self._seen:
            return self._seen[name]
        item = self._items.get(name)
        if item is None or not item.is_phi:
            return 0
        # A value that comes back to itself by steps has as many as these.
        self._seen[name] = _FOREVER
        found = min(zeros(value) for value, _ in item.incoming)
        self._seen[name] = found
        return found

    def _integers(self, key: _Key) -> Iterator[str]:
        """The arguments that are numbers and that an address is made from."""
        waiting = [part for part in key if isinstance(part, str)]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self._kinds:
                if self._kinds[name].split(" ")[0] == "i64":
                    yield name
                continue
            item = self._items.get(name)
            if item is not None and item.opcode not in ("load", "call"):
                waiting += item.uses
