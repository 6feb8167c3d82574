"""Atomic operations on memory that no other thread of the system sees become plain ones.

One thread of the system runs all threads of a block, so a read-modify-write of the block's shared
memory, or of a thread's own, is a load, an operation and a store. What is left of the instruction
is that LLVM must not widen it: two threads of the block may mean the same element, and the loop
over the threads says of its accesses that they are apart. So it stays an atomic instruction for the
analyses, marked by a flag, and `expanded` makes plain ones of it where it is written.
"""

from dataclasses import replace
from functools import cache

from haulage.compiler import llvm
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import UnderlyingObjects
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Instruction, value_name
from haulage.targets.cpu import host

# Flags of an atomic instruction that is a few plain ones, and of one that adds to a private copy of
# an array (`privatization.py`), if there is one.
PLAIN, PRIVATIZED = "plain", "privatized"


def mark_plain(analyses: Analyses, storage: frozenset[str]) -> bool:
    """Mark the read-modify-writes of `storage`, names of the block's own memory, as plain ones;
    whether there are any."""
    objects, found = analyses.get(UnderlyingObjects), False
    for block in analyses.function.blocks.values():
        for place, item in enumerate(block.body):
            if item.opcode in ("atomicrmw", "cmpxchg") and objects.at(item.operands[0]) <= storage:
                block.body[place] = replace(item, flags=(*item.flags, PLAIN))
                found = True
    return found


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
    return plain(item) if PLAIN in item.flags else [item]


def plain(item: Instruction) -> list[Instruction]:
    """A load, an operation and a store in the place of an atomic instruction."""
    assert item.result is not None
    places = [replace(each, text=f"%given.{n}") for n, each in enumerate(item.operands)]
    alone = item.changed(result="%atomic", operands=tuple(places), flags=(), metadata=())
    given = tuple(f"{each.type} {each.text}" for each in places)
    steps, result = _lowered(alone.text, item.type, given)
    names = {step.result: value_name(item.result, step.result[1:]) for step in steps if step.result}
    names |= {f"%given.{n}": each.text for n, each in enumerate(item.operands)}
    return [step.renamed({**names, result: item.result}) for step in steps]


@cache
def _lowered(text: str, kind: str, parameters: tuple[str, ...]) -> tuple[list[Instruction], str]:
    """What LLVM makes of an atomic instruction of a type where there is one thread only, and the
    name of its result there."""
    function = f"define {kind} @plain({', '.join(parameters)}) {{\n{text}\nret {kind} %atomic\n}}"
    module = llvm.parse(function)
    llvm.run_passes(module, host(), "lower_atomic", "instruction_namer")
    (block,) = reader.read(str(module), "plain").blocks.values()
    assert isinstance(block.terminator, Instruction)
    # Nobody can rely on the order in which threads add to a sum.
    steps = [
        step.changed(flags=("reassoc",)) if step.opcode in ("fadd", "fsub") else step
        for step in block.body
    ]
    return steps, block.terminator.operands[0].text
