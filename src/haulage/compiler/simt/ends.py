"""Which ends of a kernel (`compiler/ends.py`) can be reached from where; sets of them are masks.

They are read from the codes that a body returns, along the ways on which these come to its `ret`.
"""

import re
from collections.abc import Iterable

from haulage.compiler.ends import LEFT, code_of, number_of
from haulage.compiler.simt import graph
from haulage.compiler.simt.model import Block, Function, Instruction

# The bit of all faults, and that of codes which are worked out as the kernel runs.
FAULT = 1 << 32
UNKNOWN = 1 << 33
ALL = (UNKNOWN << 1) - 1

_SELECT = re.compile(r"= select i1 (\S+), i32 (\S+), i32 (\S+?)(?:,|$)")


def missed_at(function: Function, label: str) -> int:
    """The ends whose threads are missed at a barrier in the block `label`: those which can be
    reached from it, if something is done on the way there from any place before it; and faults.

    A condition under which there is a barrier and nothing else until the end parts no ends: all
    but `LEFT`.
    """
    if _is_alone(function, label):
        return ALL & ~(1 << LEFT)
    ends = ends_in(function, _reachable(function, [label]), label) & ~(1 << LEFT) | FAULT
    if ends & UNKNOWN:
        return ALL & ~(1 << LEFT)
    before = _before(function, label)
    for number, quiet in _quiet_before(function).items():
        if quiet & before:
            ends &= ~(1 << number)
    return ends


def ends_in(function: Function, region: Iterable[str], start: str) -> int:
    """The ends that threads come to which are at the block `start` and pass blocks of `region` only
    (with those where they come from, for the codes that they bring)."""
    passed = set(region)
    definitions = function.definitions()
    found = 0
    for label in passed:
        code = return_code(function.blocks[label])
        if code is not None:
            found |= _ends_of(code, passed - {start}, passed, definitions, set())
    return found


def all_ends(function: Function) -> int:
    """The ends of a function."""
    return ends_in(function, function.blocks, function.entry)


def return_code(block: Block) -> str | None:
    """What the block's `ret` gives back, or None if it has none."""
    end = block.terminator
    if not isinstance(end, Instruction) or end.opcode != "ret":
        return None
    return end.text.split(" ", 2)[2].strip()


def _ends_of(
    code: str,
    entered: set[str],
    passed: set[str],
    definitions: dict[str, tuple[str, Instruction]],
    seen: set[str],
) -> int:
    """The ends of the codes that a value can be; phis in blocks `entered` come from `passed`."""
    if not code.startswith("%"):
        number = number_of(int(code))
        return FAULT if number is None else 1 << number
    if code in seen:
        return 0
    seen = seen | {code}
    if code not in definitions:
        return UNKNOWN
    label, made = definitions[code]
    if made.is_phi:
        sources = [
            value for value, source in made.incoming if label not in entered or source in passed
        ]
    elif select := _SELECT.search(made.text):
        sources = [select[2], select[3]]
    else:
        return UNKNOWN
    found = 0
    for value in sources:
        found |= _ends_of(value, entered, passed, definitions, seen)
    return found


def _reachable(function: Function, starts: list[str]) -> set[str]:
    successors = {label: block.successors for label, block in function.blocks.items()}
    return graph.reachable_until(successors, starts, graph.EXIT)


def _is_alone(function: Function, label: str) -> bool:
    """Whether nothing but a barrier is done in a block and behind it."""
    result = function.parameters[0].name
    done = [
        item
        for other in _reachable(function, [label])
        for item in function.blocks[other].body
        # What a kernel returns, which is nothing.
        if result not in item.operands
    ]
    return len(done) == 1


def _before(function: Function, label: str) -> set[str]:
    """The blocks from which `label` can be reached by at least one step."""
    predecessors = function.predecessors()
    return graph.reachable_until(predecessors, predecessors[label], graph.EXIT)


def _quiet_before(function: Function) -> dict[int, set[str]]:
    """For each end the blocks from which threads can come to it and do nothing that others see."""
    result = function.parameters[0].name
    predecessors = function.predecessors()
    definitions = function.definitions()
    found: dict[int, set[str]] = {}
    # Blocks, with the value in them that will be the code.
    waiting = [(label, code) for label, code in _returning(function)]
    seen = set(waiting)
    while waiting:
        label, code = waiting.pop()
        block = function.blocks[label]
        if any(_is_seen(item) for item in block.body if result not in item.operands):
            continue
        before = [(source, code) for source in predecessors[label]]
        if not code.startswith("%"):
            number = number_of(int(code))
            if number is not None:
                found.setdefault(number, set()).add(label)
        elif definitions.get(code, ("",))[0] == label and definitions[code][1].is_phi:
            before = [(source, value) for value, source in definitions[code][1].incoming]
        new = set(before) - seen
        seen |= new
        waiting += new
    return found


def _returning(function: Function) -> list[tuple[str, str]]:
    """(label, code) of each block that returns."""
    codes = ((label, return_code(block)) for label, block in function.blocks.items())
    return [(label, code) for label, code in codes if code is not None]


def _is_seen(item: Instruction) -> bool:
    """Whether an instruction does something that another thread can see."""
    if item.opcode in ("store", "atomicrmw", "cmpxchg"):
        return True
    callee = item.callee or ""
    return item.opcode == "call" and (
        not callee.startswith("llvm.") or callee.startswith("llvm.mem")
    )


def fault_lines(code: str, name: str) -> tuple[str, list[str]]:
    """(the fault of a code, 0 if it is an end's; lines that work it out under `name`)."""
    if not code.startswith("%"):
        return ("0" if number_of(int(code)) is not None else code), []
    at = f'%"{name[1:].strip(chr(34))}.ends"'
    return name, [
        f"  {at} = icmp uge i32 {code}, {code_of(1)}",
        f"  {name} = select i1 {at}, i32 0, i32 {code}",
    ]
