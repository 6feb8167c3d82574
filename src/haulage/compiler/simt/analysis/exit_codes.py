"""Which ends of a kernel (`compiler/ends.py`) can be reached from where; sets of them are masks.

They are read from the codes that a body returns, along the ways on which these come to its `ret`.
"""

import re
from collections.abc import Iterable

from haulage.compiler.ends import LEFT, code_of, number_of
from haulage.compiler.simt.analysis import control_flow, skipped_barriers
from haulage.compiler.simt.analysis.barriers import block_barriers
from haulage.compiler.simt.ir.model import Block, Function, Instruction

# The bit of all faults, and that of codes which are worked out as the kernel runs.
FAULT = 1 << 32
UNKNOWN = 1 << 33
ALL = (UNKNOWN << 1) - 1

_SELECT = re.compile(r"= select i1 (\S+), i32 (\S+), i32 (\S+?)(?:,|$)")


def missed(function: Function) -> dict[str, int]:
    """For each block with a barrier of the block: the ends whose threads that may miss, and faults.

    Those are the ends which can be reached from it and to which threads can come that went round it
    and then did something which others can see. Whether one did is known only as the kernel runs
    (`roll.py`). A barrier with nothing else under its condition and behind it misses threads at all
    ends but `LEFT` that went round it, whatever they did.
    """
    places = ways(function)
    if not places:
        return {}
    definitions = function.definitions()
    predecessors = function.predecessors()
    seen_in = {
        label
        for label, block in function.blocks.items()
        if any(skipped_barriers.is_seen(function, item) for item in block.body)
    }
    all_but_left = ALL & ~(1 << LEFT)
    found: dict[str, int] = {}
    for label, edges in places.items():
        reached = ends_in(function, _reachable(function, [label]), label, definitions)
        if is_alone(function, label) or reached & UNKNOWN:
            found[label] = all_but_left
        else:
            seen = _seen_behind(function, label, edges, seen_in, definitions, predecessors)
            found[label] = reached & seen & all_but_left | FAULT
    return found


def ways(function: Function) -> dict[str, set[skipped_barriers.Edge]]:
    """For each block with a barrier of the block, in order: the edges on which threads that it may
    miss go round it."""
    places = dict.fromkeys(label for label, _, _ in block_barriers(function))
    if not places:
        return {}
    found = skipped_barriers.ways_round(_without_leaving(function), function.entry, set(places))
    return {label: found[label] for label in places}


def _without_leaving(function: Function) -> dict[str, list[str]]:
    """The graph without the ways that lead to `LEFT` or to a fault only."""
    gone: set[skipped_barriers.Edge] = set()
    last: list[str] = []
    waiting: list[tuple[str, str]] = []
    done: set[tuple[str, str]] = set()
    definitions = function.definitions()
    for label, block in function.blocks.items():
        code = return_code(block)
        if code is not None and not _is_leaving(code):
            last.append(label)
            waiting.append((label, code))
    while waiting:
        label, code = waiting.pop()
        if (label, code) in done:
            continue
        done.add((label, code))
        where, made = definitions.get(code, ("", None))
        if made is None or where != label or not made.is_phi:
            continue
        for value, source in made.incoming:
            if _is_leaving(value):
                gone.add((source, label))
            else:
                waiting.append((source, value))
    successors = {
        label: [target for target in block.successors if (label, target) not in gone]
        for label, block in function.blocks.items()
    }
    staying = control_flow.reachable_until(control_flow.invert(successors), last, control_flow.EXIT)
    return {
        label: [target for target in targets if target in staying]
        for label, targets in successors.items()
        if label in staying or label == function.entry
    }


def _is_leaving(code: str) -> bool:
    return not code.startswith("%") and number_of(int(code)) in (LEFT, None)


def ends_in(
    function: Function,
    region: Iterable[str],
    start: str,
    definitions: dict[str, tuple[str, Instruction]],
) -> int:
    """The ends that threads come to which are at the block `start` and pass blocks of `region` only
    (with those where they come from, for the codes that they bring); `definitions` are the
    function's."""
    passed = set(region)
    found = 0
    for label in passed:
        code = return_code(function.blocks[label])
        if code is not None:
            found |= _ends_of(code, passed - {start}, passed, definitions, set())
    return found


def all_ends(function: Function) -> int:
    """The ends of a function."""
    return ends_in(function, function.blocks, function.entry, function.definitions())


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
    return control_flow.reachable_until(successors, starts, control_flow.EXIT)


def is_alone(function: Function, label: str) -> bool:
    """Whether nothing but a barrier is done in a block and behind it."""
    result = function.parameters[0].name
    done = [
        item
        for other in _reachable(function, [label])
        for item in function.blocks[other].body
        # What a kernel returns, which is nothing.
        if result not in item.uses
    ]
    return len(done) == 1


def _seen_behind(
    function: Function,
    barrier: str,
    edges: set[skipped_barriers.Edge],
    seen_in: set[str],
    definitions: dict[str, tuple[str, Instruction]],
    predecessors: dict[str, list[str]],
) -> int:
    """The ends that threads come to which took one of `edges` and then, without coming to the block
    `barrier`, were in one of the blocks `seen_in`, where something is done that others can see."""
    every = set(function.blocks)
    found = 0
    # Backwards: a block, the value in it that will be the code, whether something is seen behind.
    waiting = [
        (label, code, False)
        for label, block in function.blocks.items()
        if (code := return_code(block)) is not None
    ]
    done = set(waiting)
    while waiting:
        label, code, seen = waiting.pop()
        if label == barrier:
            continue
        seen = seen or label in seen_in
        sources = [(source, code) for source in predecessors[label]]
        if definitions.get(code, ("",))[0] == label and definitions[code][1].is_phi:
            sources = [(source, value) for value, source in definitions[code][1].incoming]
        for source, value in sources:
            if seen and (source, label) in edges:
                found |= _ends_of(value, set(), every, definitions, set())
            state = (source, value, seen)
            if state not in done:
                done.add(state)
                waiting.append(state)
    return found


def fault_lines(code: str, name: str) -> tuple[str, list[str]]:
    """(the fault of a code, 0 if it is an end's; lines that work it out under `name`)."""
    if not code.startswith("%"):
        return ("0" if number_of(int(code)) is not None else code), []
    at = f'%"{name[1:].strip(chr(34))}.ends"'
    return name, [
        f"  {at} = icmp uge i32 {code}, {code_of(1)}",
        f"  {name} = select i1 {at}, i32 0, i32 {code}",
    ]
