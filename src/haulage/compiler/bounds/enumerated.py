"""Loops whose counters are the same few numbers in every launch, one after the other: `step //= 2`
from 128 on, `d *= 2` from 1. What two of them are together in each iteration is found by making the
iterations, as LLVM's ScalarEvolution does it to find how often such a loop is made.
"""

from collections.abc import Mapping

from haulage.compiler.simt.analysis import induction
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.exits import stopping
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.compiler.simt.ir.types import bits_of

# Values by their names.
State = Mapping[str, int]

_MOST_ITERATIONS = 64
_MOST_DEPTH = 50


def states(analyses: Analyses, loop: Loop, outside: State) -> list[dict[str, int]]:
    """What the phis of a loop's header are in each iteration, as far as they begin with constants,
    or with values of `outside`, and follow from one another; none if these are too many, or if
    there are no such phis."""
    return _states(analyses, loop, outside, {})


def _states(
    analyses: Analyses, loop: Loop, outside: State, known_of: dict[str, list[dict[str, int]]]
) -> list[dict[str, int]]:
    """`known_of`: what this gave for other loops, by their headers; more are added."""
    header = analyses.function.blocks[loop.header]
    outside = {**_of_loops_before(analyses, loop, outside, known_of), **outside}
    starts: dict[str, int] = {}
    following: dict[str, Operand] = {}
    for phi in header.phis:
        first = induction.entering(phi, loop, first=True)
        later = induction.entering(phi, loop, first=False)
        begin = None if first is None else evaluated(analyses, first, outside)
        if phi.result is not None and begin is not None and later is not None:
            starts[phi.result], following[phi.result] = begin, later
    found: list[dict[str, int]] = []
    state = starts
    while state:
        # A phi that does not follow from these is none of them, in no iteration.
        known = {**outside, **state}
        after = {name: evaluated(analyses, following[name], known) for name in state}
        unknown = {name for name, value in after.items() if value is None}
        if unknown:
            kept = {name: begin for name, begin in starts.items() if name not in unknown}
            starts, state, found = kept, kept, []
            continue
        found.append(dict(state))
        if _is_left(analyses, loop, known):
            return found
        if len(found) == _MOST_ITERATIONS:
            return []
        state = {name: value for name, value in after.items() if value is not None}
    return []


def _of_loops_before(
    analyses: Analyses, loop: Loop, outside: State, known_of: dict[str, list[dict[str, int]]]
) -> dict[str, int]:
    """What the phis of loops are that are over when a loop begins, and that it begins with."""
    found: dict[str, int] = {}
    for phi in analyses.function.blocks[loop.header].phis:
        first = induction.entering(phi, loop, first=True)
        waiting = [] if first is None else [first.text]
        met = set(waiting)
        for _ in range(_MOST_DEPTH):
            label, item = analyses.definitions.get(waiting.pop() if waiting else "", ("", None))
            if item is None:
                break
            other = analyses.innermost_loop(label)
            is_over = other is not None and loop.header not in other.labels
            if other is not None and is_over and analyses.dominates(other.header, loop.header):
                if other.header not in known_of:
                    has_end = len(exits(analyses, other)) == 1
                    made = _states(analyses, other, outside, known_of) if has_end else []
                    known_of[other.header] = made
                found |= known_of[other.header][-1] if known_of[other.header] else {}
            new = [each for each in item.uses if each not in found and each not in met]
            waiting += new
            met.update(new)
    return found


def exits(analyses: Analyses, loop: Loop) -> list[str]:
    """The blocks that ways out of a loop lead from, but for those to a fault."""
    stops = analyses.get(stopping)
    return [
        label
        for label in loop.labels
        for target in analyses.successors[label]
        if target not in loop.labels and target not in stops
    ]


def _is_left(analyses: Analyses, loop: Loop, known: State) -> bool:
    """Whether an iteration with some values of the phis is the last one."""
    latches = [each for each in analyses.predecessors[loop.header] if each in loop.labels]
    for label in loop.labels:
        block = analyses.function.blocks[label]
        inside = [target for target in block.successors if target in loop.labels]
        if block.condition is None or len(inside) != 1 or len(block.successors) != 2:
            continue
        if all(analyses.dominates(label, latch) for latch in latches):
            outcome = evaluated(analyses, Operand("i1", block.condition), known)
            if outcome is not None and block.successors[0 if outcome else 1] != inside[0]:
                return True
    return False


def evaluated(analyses: Analyses, operand: Operand, known: State, depth: int = 0) -> int | None:
    """The number that an integer is, as a signed one, if it follows from some values."""
    bits = bits_of(operand.type)
    if bits is None:
        return None
    if operand.number is not None:
        return operand.number
    if operand.text in known:
        return known[operand.text]
    item = analyses.items.get(operand.text)
    if item is None or depth > _MOST_DEPTH:
        return None
    if item.is_phi and len(set(item.operands)) == 1:
        return evaluated(analyses, item.operands[0], known, depth + 1)
    if not is_evaluated(item):
        return None
    parts = [evaluated(analyses, each, known, depth + 1) for each in item.operands]
    if None in parts:
        return None
    numbers = [part for part in parts if part is not None]
    return _result(item, numbers, bits)


def is_evaluated(item: Instruction) -> bool:
    """Whether an instruction's result follows from numbers for its operands."""
    return item.opcode in _OPERATIONS or item.opcode in _CASTS or item.opcode == "icmp"


def _result(item: Instruction, numbers: list[int], bits: int) -> int | None:
    width = bits_of(item.operands[0].type) or bits
    unsigned = [number % (1 << width) for number in numbers]
    if item.opcode == "icmp":
        left, right = numbers if item.predicate[0] != "u" else unsigned
        return int(_COMPARISONS[item.predicate[-2:]](left, right))
    if item.opcode in _CASTS:
        made = unsigned[0] if item.opcode == "zext" else numbers[0]
    else:
        operation = _OPERATIONS[item.opcode]
        values = unsigned if item.opcode in ("lshr", "udiv", "urem") else numbers
        if item.opcode in _DIVISIONS and values[1] == 0:
            return None
        if item.opcode in _SHIFTS and not 0 <= values[1] < bits:
            return None
        made = operation(*values)
    made %= 1 << bits
    return made - (1 << bits) if bits > 1 and made >> (bits - 1) else made


_CASTS = ("zext", "sext", "trunc", "freeze")
_DIVISIONS = ("udiv", "sdiv", "urem", "srem")
_SHIFTS = ("shl", "lshr", "ashr")
_OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "shl": lambda a, b: a << b,
    "lshr": lambda a, b: a >> b,
    "ashr": lambda a, b: a >> b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "udiv": lambda a, b: a // b,
    "urem": lambda a, b: a % b,
    # Towards zero.
    "sdiv": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "srem": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}
_COMPARISONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
