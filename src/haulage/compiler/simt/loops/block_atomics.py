"""Atomic operations on memory that no other thread of the system sees.

One thread of the system runs all threads of a block, so a read-modify-write of the block's shared
memory, or of a thread's own, is a load, an operation and a store. What is left of the instruction
is that LLVM must not widen it: two threads of the block may mean the same element, and the loop
over the threads says of its accesses that they are apart. So the instruction stays one for the
analyses, `stays` among them, and only its text changes.
"""

import re
from dataclasses import replace

from haulage.compiler.simt.analysis.memory_dependence import Roots
from haulage.compiler.simt.ir.model import NAME, Function, Instruction, value_name

_ORDER = r'(?:syncscope\("[^"]*"\) )?(?:monotonic|acquire|release|acq_rel|seq_cst)'
READ_MODIFY_WRITE = re.compile(
    rf"= atomicrmw (?:volatile )?(?P<operation>\w+) ptr (?P<place>{NAME}), "
    rf"(?P<type>\w+) (?P<value>.+?) {_ORDER}, (?P<align>align \d+)"
)
_COMPARE = re.compile(
    rf"= cmpxchg (?:weak )?(?:volatile )?ptr (?P<place>{NAME}), (?P<type>\w+) (?P<wanted>.+?), "
    rf"\w+ (?P<value>.+?) {_ORDER} \w+, (?P<align>align \d+)"
)

_PLAIN = {name: name for name in ("add", "sub", "and", "or", "xor")}
# Nobody can rely on the order in which threads add to a sum.
_PLAIN |= {"fadd": "fadd reassoc", "fsub": "fsub reassoc"}
_COMPARED = {"max": "sgt", "min": "slt", "umax": "ugt", "umin": "ult"}
# LLVM's own for floats, which takes a NaN for a missing value.
_COMPARED_FLOATS = {"fmax": "ogt", "fmin": "olt"}


def in_rooms(function: Function, rooms: frozenset[str]) -> None:
    """Write the read-modify-writes of `rooms`, names of the block's own memory, as plain ones."""
    roots = Roots(function)
    for block in function.blocks.values():
        block.body = [_plain(item, roots, rooms) for item in block.body]


def _plain(item: Instruction, roots: Roots, rooms: frozenset[str]) -> Instruction:
    pattern, write = _WRITTEN.get(item.opcode, (None, None))
    found = pattern.search(item.text) if pattern else None
    if found is None or write is None or not roots.of(found["place"]) <= rooms:
        return item
    assert item.result is not None
    return replace(item, text="\n  ".join(write(item.result, found)))


def _read_modify_write(old: str, found: re.Match[str]) -> list[str]:
    kind, where = found["type"], f"ptr {found['place']}, {found['align']}"
    lines, new = changed(found["operation"], kind, old, found["value"])
    return [f"{old} = load {kind}, {where}", *lines, f"store {kind} {new}, {where}"]


def changed(operation: str, kind: str, old: str, value: str) -> tuple[list[str], str]:
    """Lines that work out what an `atomicrmw` writes, and the name or text of that.

    Raises:
        ValueError: LLVM has no such operation, or none that the words make.
    """
    new, test, other = (value_name(old, part) for part in ("new", "test", "other"))
    if operation == "xchg":
        return [], value
    if operation in _PLAIN:
        return [f"{new} = {_PLAIN[operation]} {kind} {old}, {value}"], new
    if operation in _COMPARED:
        return [
            f"{test} = icmp {_COMPARED[operation]} {kind} {old}, {value}",
            f"{new} = select i1 {test}, {kind} {old}, {kind} {value}",
        ], new
    if operation in _COMPARED_FLOATS:
        missing = value_name(old, "missing")
        return [
            f"{test} = fcmp {_COMPARED_FLOATS[operation]} {kind} {old}, {value}",
            f"{missing} = fcmp uno {kind} {value}, {value}",
            f"{other} = or i1 {test}, {missing}",
            f"{new} = select i1 {other}, {kind} {old}, {kind} {value}",
        ], new
    if operation == "uinc_wrap":
        return [
            f"{other} = add {kind} {old}, 1",
            f"{test} = icmp uge {kind} {old}, {value}",
            f"{new} = select i1 {test}, {kind} 0, {kind} {other}",
        ], new
    if operation == "udec_wrap":
        beyond, nought = value_name(old, "beyond"), value_name(old, "nought")
        return [
            f"{other} = sub {kind} {old}, 1",
            f"{beyond} = icmp ugt {kind} {old}, {value}",
            f"{nought} = icmp eq {kind} {old}, 0",
            f"{test} = or i1 {beyond}, {nought}",
            f"{new} = select i1 {test}, {kind} {value}, {kind} {other}",
        ], new
    raise ValueError(f"atomicrmw {operation} is not among what kernels can do")


def _compare_and_swap(pair: str, found: re.Match[str]) -> list[str]:
    kind = found["type"]
    old, same, new, half = (value_name(pair, part) for part in ("old", "same", "new", "half"))
    where = f"ptr {found['place']}, {found['align']}"
    both = f"{{ {kind}, i1 }}"
    return [
        f"{old} = load {kind}, {where}",
        f"{same} = icmp eq {kind} {old}, {found['wanted']}",
        f"{new} = select i1 {same}, {kind} {found['value']}, {kind} {old}",
        f"store {kind} {new}, {where}",
        f"{half} = insertvalue {both} poison, {kind} {old}, 0",
        f"{pair} = insertvalue {both} {half}, i1 {same}, 1",
    ]


_WRITTEN = {
    "atomicrmw": (READ_MODIFY_WRITE, _read_modify_write),
    "cmpxchg": (_COMPARE, _compare_and_swap),
}
