"""Atomic operations on memory that no other thread of the system sees become plain ones.

One thread of the system runs all threads of a block, so a read-modify-write of the block's shared
memory, or of a thread's own, is a load, an operation and a store. What is left of the instruction
is that LLVM must not widen it: two threads of the block may mean the same element, and the loop
over the threads says of its accesses that they are apart. So it stays an atomic instruction for the
analyses, marked by a flag, and `expanded` makes plain ones of it where it is written.
"""

from dataclasses import replace

from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import UnderlyingObjects
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Instruction, value_name

# Flags of an atomic instruction that is a few plain ones, and of one that adds to a private copy of
# an array (`privatization.py`), if there is one.
PLAIN, PRIVATIZED = "plain", "privatized"

_ARITHMETIC: dict[str, tuple[str, tuple[str, ...]]] = {
    name: (name, ()) for name in ("add", "sub", "and", "or", "xor")
}
# Nobody can rely on the order in which threads add to a sum.
_ARITHMETIC |= {name: (name, ("reassoc",)) for name in ("fadd", "fsub")}
_COMPARED = {"max": "sgt", "min": "slt", "umax": "ugt", "umin": "ult"}
# LLVM's own for floats, which takes a NaN for a missing value.
_COMPARED_FLOATS = {"fmax": "ogt", "fmin": "olt"}


def mark_plain(analyses: Analyses, storage: frozenset[str]) -> None:
    """Mark the read-modify-writes of `storage`, names of the block's own memory, as plain ones."""
    objects = analyses.get(UnderlyingObjects)
    for block in analyses.function.blocks.values():
        block.body = [
            replace(item, flags=(*item.flags, PLAIN))
            if item.opcode in ("atomicrmw", "cmpxchg") and objects.at(item.operands[0]) <= storage
            else item
            for item in block.body
        ]


def copy_function(item: Instruction) -> str:
    """The name of the function that an atomic operation on a privatised array calls."""
    return f"haulage.privatized.{item.predicate}.{item.operands[1].type}"


def expanded(item: Instruction) -> list[Instruction]:
    """The instructions that are written for one; their results' names belong to its own."""
    if PRIVATIZED in item.flags:
        at, added, copy, data = item.operands
        pointers = [("ptr", each.text) for each in (copy, data, at)]
        arguments = [*pointers, (added.type, added.text)]
        return [Builder.call("void", copy_function(item), arguments)]
    if PLAIN not in item.flags:
        return [item]
    assert item.result is not None
    address = item.operands[0].text
    if item.opcode == "cmpxchg":
        return _compare_and_swap(item, item.result, address)
    value = item.operands[1]
    steps, new = changed(item.predicate, value.type, item.result, value.text)
    return [
        Builder.load(value.type, address, item.align, name=item.result),
        *steps,
        Builder.store(value.type, new, address, item.align),
    ]


def changed(operation: str, kind: str, old: str, value: str) -> tuple[list[Instruction], str]:
    """Instructions that work out what an `atomicrmw` writes, and the name or text of that.

    Raises:
        ValueError: LLVM has no such operation, or none that the words make.
    """
    new, test, other = (value_name(old, part) for part in ("new", "test", "other"))
    if operation == "xchg":
        return [], value
    if operation in _ARITHMETIC:
        opcode, flags = _ARITHMETIC[operation]
        return [Builder.binary(opcode, kind, old, value, *flags, name=new)], new
    if operation in _COMPARED:
        return [
            Builder.compare(_COMPARED[operation], kind, old, value, name=test),
            Builder.select(test, kind, old, value, name=new),
        ], new
    if operation in _COMPARED_FLOATS:
        missing = value_name(old, "missing")
        return [
            Builder.compare(_COMPARED_FLOATS[operation], kind, old, value, name=test),
            Builder.compare("uno", kind, value, value, name=missing),
            Builder.binary("or", "i1", test, missing, name=other),
            Builder.select(other, kind, old, value, name=new),
        ], new
    if operation == "uinc_wrap":
        return [
            Builder.binary("add", kind, old, "1", name=other),
            Builder.compare("uge", kind, old, value, name=test),
            Builder.select(test, kind, "0", other, name=new),
        ], new
    if operation == "udec_wrap":
        beyond, nought = value_name(old, "beyond"), value_name(old, "nought")
        return [
            Builder.binary("sub", kind, old, "1", name=other),
            Builder.compare("ugt", kind, old, value, name=beyond),
            Builder.compare("eq", kind, old, "0", name=nought),
            Builder.binary("or", "i1", beyond, nought, name=test),
            Builder.select(test, kind, value, other, name=new),
        ], new
    raise ValueError(f"atomicrmw {operation} is not among what kernels can do")


def _compare_and_swap(item: Instruction, pair: str, address: str) -> list[Instruction]:
    _, wanted, value = item.operands
    kind = value.type
    old, same, new, half = (value_name(pair, part) for part in ("old", "same", "new", "half"))
    return [
        Builder.load(kind, address, item.align, name=old),
        Builder.compare("eq", kind, old, wanted.text, name=same),
        Builder.select(same, kind, value.text, old, name=new),
        Builder.store(kind, new, address, item.align),
        Builder.insert(item.type, "poison", (kind, old), 0, name=half),
        Builder.insert(item.type, half, ("i1", same), 1, name=pair),
    ]
