"""Privatised reductions: arrays that a kernel only adds to.

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

from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import ANYWHERE, UnderlyingObjects
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function, Instruction, Operand, Parameter
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.loops import block_atomics
from haulage.targets.cpu import PAUSE

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


def find(analyses: Analyses, storage: frozenset[str]) -> tuple[Reduction, ...]:
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
    made = {data}
    waiting = [data]
    while waiting:
        for item in analyses.users.get(waiting.pop(), ()):
            if item.opcode == "atomicrmw":
                continue
            if item.opcode not in ("getelementptr", "phi", "select", "freeze"):
                return False
            if item.result is not None and item.result not in made:
                made.add(item.result)
                waiting.append(item.result)
    return True


def mark(analyses: Analyses, reductions: tuple[Reduction, ...]) -> str:
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
            name = block_atomics.copy_function(item)
            written[name] = definition(_adding(name, item))
            block.body[index] = replace(
                item,
                result=None,
                flags=(*item.flags, block_atomics.PRIVATIZED),
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
    b.extend(block_atomics.plain(added.changed(operands=(Operand("ptr", address), value))))
    b.ret()
    b.block("%shared")
    b.add(added.changed(result="", operands=(Operand("ptr", "%place"), value)))
    b.ret()
    return b.function
