"""Atomic operations become plain ones: on memory that no other thread of the system sees, and, in
arrays that a kernel only adds to, on a private copy (privatised reductions).

One thread of the system runs all threads of a block, so a read-modify-write of the block's shared
memory, or of a thread's own, is a load, an operation and a store. What is left of the instruction
is that LLVM must not widen it: two threads of the block may mean the same element, and the loop
over the threads says of its accesses that they are apart. So it stays an atomic instruction for the
analyses, marked by a flag, and `expanded` makes plain ones of it where it is written.

`atomic.add(h, k, v)`, its result unused, takes a lock of the bus each time, and cores that add to
the same cache line wait for one another. If a kernel does nothing else with an array, nobody can
tell when its threads add: the blocks of one chunk of a launch may add to a copy that nobody else
sees, by plain operations, which is added to the array when they are done. This is what programs for
GPUs do by hand in shared memory. The same holds for the other operations whose order is of no
account. `emit/entry.py` makes the copies, if the array is small, and merges them.

It has to be certain that no thread of the kernel waits for what another one added, or reads it: so
there is no other atomic operation in any array, no fence, and nothing is read or written but
arrays of the kernel's arguments, which are compared with the copied one when the kernel runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from haulage.compiler import llvm
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import (
    ANYWHERE,
    DERIVING,
    UnderlyingObjects,
    uses_of_address,
)
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function, Instruction, Operand, Parameter, value_name
from haulage.compiler.simt.ir.writer import definition
from haulage.targets.cpu import PAUSE, host

# Flags of an atomic instruction that is a few plain ones, and of one that adds to a private copy of
# an array, if there is one.
PLAIN, PRIVATIZED = "plain", "privatized"

# Bytes of an element of each LLVM type that can be added to.
SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8}

# Operation: by what copies are merged, and what such a copy begins with, as LLVM writes it; the
# latter is None if it depends on the type.
_MERGED: dict[str, tuple[str, str | None]] = {
    "add": ("add", "0"),
    "sub": ("add", "0"),
    "fadd": ("fadd", "-0.0"),
    "fsub": ("fadd", "-0.0"),
    "and": ("and", "-1"),
    "or": ("or", "0"),
    "xor": ("xor", "0"),
    "umax": ("umax", "0"),
    "umin": ("umin", "-1"),
    "max": ("max", None),
    "min": ("min", None),
}
# More arrays than this are not copied.
_MOST = 4


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


# ---- privatised reductions -----------------------------------------------------------------------


@dataclass(frozen=True)
class Array:
    """The names of an array among the body's parameters, as Numba takes it apart."""

    items: str
    itemsize: str
    data: str
    shape: tuple[str, ...]
    strides: tuple[str, ...]


@dataclass(frozen=True)
class Reduction:
    """An array of elements of an LLVM type that is only added to, by `operation` in the end.

    A private copy begins with `identity` in each element; `copy` is the name of the parameter with
    its address, null if there is none. `others` are what the kernel reads and writes besides.
    """

    array: Array
    type: str
    operation: str
    identity: str
    copy: str
    others: tuple[Array, ...]


def find_reductions(analyses: Analyses, storage: frozenset[str]) -> tuple[Reduction, ...]:
    """The arrays of a body that are only added to; `storage` are names of the block's own memory,
    and its threads'."""
    arrays = {array.data: array for array in arrays_of(analyses.function)}
    added: dict[str, set[tuple[str, str]]] = {}
    touched: set[str] = set()
    for item in analyses.function.instructions():
        places = places_of(analyses, item)
        if not places or places <= storage:
            continue
        if not places <= arrays.keys():
            return ()
        kind = _added(analyses, item) if len(places) == 1 else None
        if kind is not None:
            (data,) = places
            added.setdefault(data, set()).add(kind)
        elif item.stays:
            return ()
        else:
            touched |= places
    chosen = [
        data
        for data, kinds in added.items()
        if len(kinds) == 1
        and data not in touched
        and _is_only_an_address(analyses, data)
        and analyses.users.keys().isdisjoint(arrays[data].strides)
    ][:_MOST]
    found = []
    for number, data in enumerate(chosen):
        # What is added to in the same way may be the same array: copies are merged in any order.
        alike = {other for other in chosen if added[other] == added[data]}
        others = tuple(arrays[each] for each in arrays if each in (touched | added.keys()) - alike)
        ((operation, kind_of_element),) = added[data]
        merged, identity = _MERGED[operation]
        if identity is None:
            half = 1 << 8 * SIZES[kind_of_element] - 1
            identity = str(-half if operation == "max" else half - 1)
        copy = f"%privatized.{number}"
        found.append(Reduction(arrays[data], kind_of_element, merged, identity, copy, others))
    return tuple(found)


def arrays_of(function: Function) -> Iterator[Array]:
    """The arrays among the parameters: for Numba two pointers, two sizes, data, shape, strides."""
    names = [parameter.name for parameter in function.parameters]
    bare = [name.strip('%"') for name in names]
    for index, name in enumerate(bare):
        stem = name.removesuffix(".4")
        if stem == name or bare[max(0, index - 4) : index] != [f"{stem}.{n}" for n in range(4)]:
            continue
        behind = bare[index + 1 :]
        count = next((n for n, each in enumerate(behind) if each != f"{stem}.5.{n}"), len(behind))
        if behind[count : 2 * count] == [f"{stem}.6.{axis}" for axis in range(count)]:
            shape = tuple(names[index + 1 :][:count])
            strides = tuple(names[index + 1 + count :][:count])
            yield Array(names[index - 2], names[index - 1], names[index], shape, strides)


def places_of(analyses: Analyses, item: Instruction) -> set[str]:
    """The objects that an instruction reads or writes."""
    if item.opcode == "fence":
        return set() if 'syncscope("singlethread")' in item.ordering else {ANYWHERE}
    if item.callee == PAUSE:
        # Who lets others go first may wait for them.
        return {ANYWHERE}
    objects = analyses.get(UnderlyingObjects)
    # What a kernel returns, which is nothing, is written by each thread.
    return (objects.read_by(item) | objects.written_by(item)) - {"%.ret"}


def _added(analyses: Analyses, item: Instruction) -> tuple[str, str] | None:
    """(the operation, the type) of an addition whose result nobody uses."""
    if item.opcode != "atomicrmw" or item.result in analyses.users:
        return None
    kind = item.operands[1].type
    return (item.predicate, kind) if item.predicate in _MERGED and kind in SIZES else None


def _is_only_an_address(analyses: Analyses, data: str) -> bool:
    """Whether addresses made from `data` are used for nothing but atomic operations."""
    uses = uses_of_address(analyses, data)
    return all(item.opcode == "atomicrmw" or item.opcode in DERIVING for item, _ in uses)


def mark_reductions(analyses: Analyses, reductions: tuple[Reduction, ...]) -> str:
    """Let the atomic operations of `reductions` add to private copies, if there are any.

    Gives the LLVM text of the functions that do so.
    """
    if not reductions:
        return ""
    objects, function = analyses.get(UnderlyingObjects), analyses.function
    copies = {each.array.data: each.copy for each in reductions}
    written: dict[str, str] = {}
    for block in function.blocks.values():
        for index, item in enumerate(block.body):
            if item.opcode != "atomicrmw":
                continue
            (data, *more) = objects.at(item.operands[0])
            if more or data not in copies:
                continue
            name = copy_function(item)
            written[name] = definition(_adding(name, item))
            block.body[index] = replace(
                item,
                result=None,
                flags=(*item.flags, PRIVATIZED),
                operands=(*item.operands, Operand("ptr", copies[data]), Operand("ptr", data)),
            )
    parameters = (Parameter("ptr noalias", copy) for copy in copies.values())
    function.parameters = (*function.parameters, *parameters)
    return "\n\n".join(written.values())


def _adding(name: str, item: Instruction) -> Function:
    """The function that does an atomic operation on `%place` in the array at `%data`, or a plain
    one on the element of its `%copy` if there is one."""
    kind = item.operands[1].type
    pointers = [("ptr", "%copy"), ("ptr", "%data"), ("ptr", "%place")]
    b = Builder(name, [*pointers, (kind, "%value")], attributes="alwaysinline")
    b.block("%start")
    b.branch(b.compare("ne", "ptr", "%copy", "null"), "%private", "%shared")
    b.block("%private")
    place = b.cast("ptrtoint", "ptr", "%place", "i64")
    data = b.cast("ptrtoint", "ptr", "%data", "i64")
    address = b.at("i8", "%copy", b.binary("sub", "i64", place, data))
    added = item.changed(ordering="monotonic", metadata=(), flags=())
    value = Operand(kind, "%value")
    b.extend(plain(added.changed(operands=(Operand("ptr", address), value))))
    b.ret()
    b.block("%shared")
    b.add(added.changed(result="", operands=(Operand("ptr", "%place"), value)))
    b.ret()
    return b.function
