"""Arrays that a kernel only adds to: which they are.

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

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import ANYWHERE, UnderlyingObjects
from haulage.compiler.simt.ir.model import Function, Instruction, Operand, Parameter
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

_NO_PLACE = frozenset(("%.ret",))


@dataclass(frozen=True)
class Array:
    """The names of an array among the body's parameters, as Numba takes it apart."""

    items: str
    itemsize: str
    data: str
    shape: tuple[str, ...]
    strides: tuple[str, ...]


@dataclass(frozen=True)
class Total:
    """An array of elements of an LLVM type that is only added to, by `operation` in the end.

    A copy begins with `start` in each element; `room` is the name of the parameter with its
    address, null if there is none. `others` are what the kernel reads and writes besides.
    """

    array: Array
    type: str
    operation: str
    start: str
    room: str
    others: tuple[Array, ...]


def find(function: Function, rooms: frozenset[str]) -> tuple[Total, ...]:
    """The arrays of a body that are only added to; `rooms` are names of the block's own memory."""
    arrays = {array.data: array for array in _arrays(function)}
    roots = UnderlyingObjects(Analyses(function))
    items = [item for block in function.blocks.values() for item in block.instructions()]
    used = {name for item in items for name in item.uses}
    added: dict[str, set[tuple[str, str]]] = {}
    touched: set[str] = set()
    for item in items:
        places = _places(item, roots)
        if not places or places <= rooms:
            continue
        if not places <= arrays.keys():
            return ()
        kind = _added(item, used) if len(places) == 1 else None
        if kind is not None:
            (data,) = places
            added.setdefault(data, set()).add(kind)
        elif item.stays:
            return ()
        else:
            touched |= places
    chosen = [data for data, kinds in added.items() if len(kinds) == 1 and data not in touched]
    chosen = [data for data in chosen if _is_only_an_address(data, items)]
    chosen = [data for data in chosen if not used & set(arrays[data].strides)][:_MOST]
    totals = []
    for number, data in enumerate(chosen):
        # What is added to in the same way may be the same array: copies are merged in any order.
        alike = {other for other in chosen if added[other] == added[data]}
        others = [arrays[each] for each in arrays if each in (touched | added.keys()) - alike]
        ((operation, kind_of_element),) = added[data]
        merged, start = _MERGED[operation]
        if start is None:
            half = 1 << 8 * SIZES[kind_of_element] - 1
            start = str(-half if operation == "max" else half - 1)
        room = f"%total.{number}"
        totals.append(Total(arrays[data], kind_of_element, merged, start, room, tuple(others)))
    return tuple(totals)


def _arrays(function: Function) -> Iterable[Array]:
    """The arrays among the parameters: for Numba two pointers, two sizes, data, shape, strides."""
    names = [parameter.name for parameter in function.parameters]
    for index, name in enumerate(names):
        stem = re.fullmatch(r'%"?(.+)\.4"?', name)
        if stem is None or index < 4:
            continue
        parts = [each.strip('%"').removeprefix(stem[1]) for each in names[index - 4 :]]
        dimensions = 0
        while parts[5 + dimensions : 6 + dimensions] == [f".5.{dimensions}"]:
            dimensions += 1
        wanted = [f".6.{axis}" for axis in range(dimensions)]
        last = 5 + dimensions
        if parts[:5] == [".0", ".1", ".2", ".3", ".4"] and parts[last:][:dimensions] == wanted:
            shape = tuple(names[index + 1 :][:dimensions])
            strides = tuple(names[index + 1 + dimensions :][:dimensions])
            yield Array(names[index - 2], names[index - 1], name, shape, strides)


def _places(item: Instruction, roots: UnderlyingObjects) -> set[str]:
    """Where the memory that an instruction reads or writes begins."""
    if item.opcode == "fence":
        return set() if 'syncscope("singlethread")' in item.text else {ANYWHERE}
    if item.callee == PAUSE:
        # Who lets others go first may wait for them.
        return {ANYWHERE}
    return (roots.read_by(item) | roots.written_by(item)) - _NO_PLACE


def _added(item: Instruction, used: set[str]) -> tuple[str, str] | None:
    """(the operation, the type) of an addition whose result nobody uses."""
    if item.opcode != "atomicrmw" or item.result in used:
        return None
    kind = item.operands[1].type
    return (item.predicate, kind) if item.predicate in _MERGED and kind in SIZES else None


def _is_only_an_address(data: str, items: list[Instruction]) -> bool:
    """Whether addresses made from `data` are used for nothing but atomic operations."""
    made = {data}
    grown = True
    while grown:
        grown = False
        for item in items:
            if made.isdisjoint(item.uses) or item.opcode == "atomicrmw":
                continue
            if item.opcode not in ("getelementptr", "phi", "select", "freeze"):
                return False
            assert item.result is not None
            grown = grown or item.result not in made
            made.add(item.result)
    return True


def mark(function: Function, totals: tuple[Total, ...]) -> str:
    """Let the atomic operations on `totals` add to their copies, if there are any.

    Gives the LLVM text of the functions that do so.
    """
    if not totals:
        return ""
    roots = UnderlyingObjects(Analyses(function))
    by_data = {total.array.data: total for total in totals}
    written: dict[str, str] = {}
    for block in function.blocks.values():
        for index, item in enumerate(block.body):
            if item.opcode != "atomicrmw":
                continue
            (root, *more) = roots.of(item.operands[0].text)
            if more or root not in by_data:
                continue
            name = block_atomics.copy_function(item)
            written[name] = _function(name, item)
            block.body[index] = replace(
                item,
                result=None,
                flags=(*item.flags, block_atomics.PRIVATIZED),
                operands=(*item.operands, Operand("ptr", by_data[root].room), Operand("ptr", root)),
            )
    rooms = tuple(Parameter("ptr noalias", total.room) for total in totals)
    function.parameters = (*function.parameters, *rooms)
    return "\n\n".join(written.values())


def _function(name: str, item: Instruction) -> str:
    """The function that adds to the copy `%room` where `%place` is in the array at `%data`."""
    kind, operation, align = item.operands[1].type, item.predicate, f"align {item.align}"
    steps, new = block_atomics.changed(operation, kind, "%old", "%value")
    return "\n".join(
        [
            f"define internal void @{name}(ptr %room, ptr %data, ptr %place, {kind} %value) "
            "alwaysinline {",
            "  %is.copied = icmp ne ptr %room, null",
            "  br i1 %is.copied, label %copied, label %shared",
            "copied:",
            "  %to = ptrtoint ptr %place to i64",
            "  %from = ptrtoint ptr %data to i64",
            "  %offset = sub i64 %to, %from",
            "  %own = getelementptr inbounds i8, ptr %room, i64 %offset",
            f"  %old = load {kind}, ptr %own, {align}",
            *(f"  {step.text}" for step in steps),
            f"  store {kind} {new}, ptr %own, {align}",
            "  ret void",
            "shared:",
            f"  %before = atomicrmw {operation} ptr %place, {kind} %value monotonic, {align}",
            "  ret void",
            "}",
        ]
    )
