"""Short loops over a thread's own arrays, and around shuffles, are unrolled before all else.

An array that is only accessed at known places is so many values, which LLVM keeps apart (SROA) and
which need no memory: a matrix of 4 x 4 in `local.array` is 16 numbers in registers. The places of
`for i in range(4): ... a[i]` are known once the loop is unrolled. The compilers for GPUs do the
same, since a thread's own memory is slow there.

A reduction or a scan by shuffles (`while step > 0: value += shfl_down_sync(mask, value, step)`)
makes five or six iterations. Each is then a shuffle by a constant, which is a permutation of
registers, and no value has to be kept in memory from one iteration to the next.

LLVM unrolls by what a processor's loops cost, and knows nothing of the loop over the threads that
is to come. So the loops are chosen here, and marked for its unroller: those whose turns are counted
by constants, or by each other, and that the place of an access depends on.
"""

import re
from collections.abc import Iterable, Mapping
from math import prod

from haulage.compiler import llvm
from haulage.compiler.mathematics.definitions import is_known
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BLOCK_WIDE
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.compiler.simt.ir.types import size_of
from haulage.targets.base import Target
from haulage.targets.cpu_lanes import COLLECTIVES

_PRIVATE = re.compile(r"= alloca \[(\d+) x i8\]")
_LOOP_NOTE = re.compile(r", !llvm\.loop !\d+")
_DEFINED = re.compile(r"(?m)^(define .*\))([^)\n]*\{)$")

# The bytes of an array up to which it could be in registers, most of it.
_LARGEST = 512
# What an unrolled loop may come to, in instructions; and turns that are taken for those of a loop
# whose number of them is not there to read.
_MOST = 6000
_TURNS = 64
# Instructions of a loop with exchanges between lanes; LLVM's own limit ends those of long ones.
_LONGEST_COLLECTIVE = 60
# The instructions of a function such as exp, roughly.
_MATHEMATICS = 20
# A loop whose turns another one counts is unrolled in the round after that.
_DEEPEST = 4

# An address, or a condition, is known in an unrolled loop if it is made by these from what is.
# fmt: off
_PLAIN = frozenset((
    "getelementptr", "add", "sub", "mul", "shl", "ashr", "lshr", "and", "or", "xor", "select",
    "icmp", "sext", "zext", "trunc", "freeze", "sdiv", "udiv", "srem", "urem",
))
# fmt: on


def has_private_arrays(text: str) -> bool:
    """Whether a module's text has arrays of a thread's own."""
    return _PRIVATE.search(text) is not None


def keep_loops(text: str) -> str:
    """A module's text in which LLVM makes no calls of memset or memcpy out of loops, if it has
    arrays of a thread's own: those would be accesses of an array as a whole."""
    if not has_private_arrays(text):
        return text
    return _DEFINED.sub(r'\1 "no-builtin-memset" "no-builtin-memcpy"\2', text)


def unrolled(text: str, name: str, target: Target) -> str:
    """A module's text in which short loops over private arrays of the function `name` are unrolled
    and these arrays gone; the text itself where that does not come about.

    Every value and block of the function has a name.
    """
    text = _with_unrolled_collectives(text, name, target)
    if not has_private_arrays(text):
        return text
    made = text
    for _ in range(_DEEPEST):
        function = reader.read(made, name)
        loops = _wanted(function)
        if not loops:
            break
        made = _with_unrolled(loops, made, name, function, target)
    if _arrays(made) == _arrays(text):
        return text
    return _optimised(made, target)


def _with_unrolled(
    loops: list[control_flow.Loop], text: str, name: str, function: Function, target: Target
) -> str:
    """The text with some of a function's loops unrolled."""
    module = llvm.parse(_marked(text, name, function, loops))
    llvm.run_passes(module, target, "loop_unroll", "sroa", "instruction_combine", "simplify_cfg")
    # Comparisons with several constants, one behind the other, have become a switch.
    llvm.run_passes(module, target, "lower_switch", "instruction_namer")
    return str(module)


def _optimised(text: str, target: Target) -> str:
    # What is left of the notes would keep LLVM from unrolling later.
    module = llvm.parse(_LOOP_NOTE.sub("", text))
    llvm.optimise(module, target, 2, widen=False)
    llvm.run_passes(module, target, "lower_switch", "instruction_namer")
    return str(module)


def _with_unrolled_collectives(text: str, name: str, target: Target) -> str:
    """The text with the innermost loops unrolled in which lanes exchange values a few times."""
    if not any(f"@{callee}(" in text for callee in COLLECTIVES):
        return text
    function = reader.read(text, name)
    loops = _collective_loops(function)
    if not loops:
        return text
    return _optimised(_with_unrolled(loops, text, name, function, target), target)


def _collective_loops(function: Function) -> list[control_flow.Loop]:
    """The innermost loops with an exchange between lanes, and no barrier of the block, whose trip
    count depends on constants alone and that are short."""
    facts = _Facts(function)
    found = []
    for loop in facts.loops:
        items = [item for label in loop.labels for item in function.blocks[label].body]
        if not any(item.callee in COLLECTIVES for item in items):
            continue
        if any(item.callee in BLOCK_WIDE for item in items):
            continue
        inner = any(other.labels < loop.labels for other in facts.loops)
        short = sum(map(_length, items)) <= _LONGEST_COLLECTIVE
        if not inner and short and _counted_by(loop, facts) == set():
            found.append(loop)
    return found


def _arrays(text: str) -> int:
    return len(_PRIVATE.findall(text))


class _Facts:
    """What is asked about a function, worked out once: its values, its loops, and these by the phis
    of their headers."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.items = function.items()
        self.loops = control_flow.Graph(function.successors(), function.entry).loops
        self.loop_of = {
            phi.result: loop for loop in self.loops for phi in function.blocks[loop.header].phis
        }

    def loops_behind(self, start: Iterable[str], ends: Iterable[str] = ()) -> set[str] | None:
        """Headers of the loops that some values depend on, if they are made from nothing but
        constants, these loops' counters and `ends`; else None."""
        known = set(ends)
        waiting, seen, found = list(start), set(known), set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            item = self.items.get(name)
            if item is None:
                return None
            if item.is_phi:
                loop = self.loop_of.get(name)
                if loop is None:
                    return None
                found.add(loop.header)
            elif item.opcode not in _PLAIN:
                return None
            waiting.extend(item.uses)
        return found


def _wanted(function: Function) -> list[control_flow.Loop]:
    """The loops to unroll next."""
    facts = _Facts(function)
    by_header = {loop.header: loop for loop in facts.loops}
    needs = {loop.header: _counted_by(loop, facts) for loop in facts.loops}
    wanted: set[str] = set()
    for array in [name for name, item in facts.items.items() if _is_small_array(item)]:
        behind = _loops_of_accesses(array, facts)
        if behind is not None:
            wanted |= _with_needs(behind, needs) or set()
    chosen = [by_header[header] for header in wanted]
    chosen = [loop for loop in chosen if not _has_words(function, loop)]
    bounds = {loop.header: _bound(loop, facts) for loop in facts.loops}
    turns = {
        header: bound
        if bound is not None
        else max((bounds[each] or 1 for each in needs[header] or ()), default=_TURNS)
        for header, bound in bounds.items()
    }
    while chosen and not all(_fits(function, loop, chosen, turns) for loop in chosen):
        chosen = [loop for loop in chosen if _fits(function, loop, chosen, turns)]
    # A loop whose turns another counts is one of known turns once that is unrolled.
    return [loop for loop in chosen if not needs[loop.header]]


def _is_small_array(item: Instruction) -> bool:
    size = size_of(item.source_type) if item.opcode == "alloca" else None
    return size is not None and item.source_type.endswith(" x i8]") and size <= _LARGEST


def _with_needs(headers: set[str], needs: dict[str, set[str] | None]) -> set[str] | None:
    """Loops and those that count their turns; None if there is one without a known count."""
    found: set[str] = set()
    waiting = list(headers)
    while waiting:
        header = waiting.pop()
        if header in found:
            continue
        found.add(header)
        counted = needs[header]
        if counted is None:
            return None
        waiting.extend(counted)
    return found


def _counted_by(loop: control_flow.Loop, facts: _Facts) -> set[str] | None:
    """The other loops whose counters decide how many turns a loop makes; None if anything else
    does."""
    conditions = _conditions(facts.function, loop)
    found = facts.loops_behind(conditions)
    return None if found is None or not conditions else found - {loop.header}


def _loops_of_accesses(array: str, facts: _Facts) -> set[str] | None:
    """The loops that the places depend on at which an array is accessed, or None if something else
    is done with it, or the places depend on more."""
    found: set[str] = set()
    addresses = {array}
    grown = True
    while grown:
        grown = False
        for item in facts.function.instructions():
            if item.result in addresses or not addresses.intersection(item.uses):
                continue
            if item.opcode in ("getelementptr", "phi") and item.type == "ptr":
                assert item.result is not None
                addresses.add(item.result)
                grown = True
                behind = facts.loops_behind([item.result], [array])
                if behind is None:
                    return None
                found |= behind
            elif not _is_access(item, addresses):
                return None
    return found


def _is_access(item: Instruction, addresses: set[str]) -> bool:
    if item.opcode == "load":
        return not item.stays
    if item.opcode == "store":
        return (
            not item.stays
            and item.uses[-1] in addresses
            and (len(item.uses) < 2 or item.uses[0] not in addresses)
        )
    return item.callee is not None and item.callee.startswith(("llvm.lifetime.", "llvm.mem"))


def _has_words(function: Function, loop: control_flow.Loop) -> bool:
    """Whether a loop calls what is no mathematics: barriers and the like, which stay as they are
    written."""
    return any(
        item.opcode == "call"
        and not is_known(item.callee or "")
        and not (item.callee or "").startswith("llvm.")
        for label in loop.labels
        for item in function.blocks[label].body
    )


def _fits(
    function: Function,
    loop: control_flow.Loop,
    chosen: list[control_flow.Loop],
    turns: Mapping[str, int],
) -> bool:
    """Whether a loop with all that is unrolled in it is short enough."""
    inside = [each for each in chosen if each.labels <= loop.labels]
    total = 0
    for label in loop.labels:
        times = prod(turns[each.header] for each in inside if label in each.labels)
        total += times * sum(map(_length, function.blocks[label].body))
    return total <= _MOST


def _length(item: Instruction) -> int:
    return _MATHEMATICS if is_known(item.callee or "") else 1


def _bound(loop: control_flow.Loop, facts: _Facts) -> int | None:
    """About how many turns a loop makes: the number that its counter is compared with, if it is
    one."""
    conditions = (name for name in _conditions(facts.function, loop) if name in facts.items)
    tests = (facts.items[name] for name in conditions)
    bounds = (test.operands[1].number for test in tests if test.opcode == "icmp")
    return max((bound for bound in bounds if bound is not None and bound >= 0), default=None)


def _conditions(function: Function, loop: control_flow.Loop) -> list[str]:
    """What decides whether threads leave a loop."""
    return [
        name
        for label in loop.labels
        for block in [function.blocks[label]]
        if any(target not in loop.labels for target in block.successors)
        if isinstance(block.terminator, Instruction)
        for name in block.terminator.uses
    ]


def _marked(text: str, name: str, function: Function, loops: list[control_flow.Loop]) -> str:
    """The text with notes for LLVM which loops of a function to unroll, whole, and no others."""
    lines = reader.definition(text, name)
    successors = function.successors()
    wanted = {loop.header for loop in loops}
    latches: dict[str, bool] = {}
    for loop in control_flow.Graph(successors, function.entry).loops:
        for label in loop.labels:
            if loop.header in successors[label]:
                latches[label] = loop.header in wanted
    used = [int(number) for number in re.findall(r"(?m)^!(\d+) = ", text)]
    first = max(used, default=-1) + 1
    whole, never = first, first + 1
    notes = [
        f'!{whole} = !{{!"llvm.loop.unroll.full"}}',
        f'!{never} = !{{!"llvm.loop.unroll.disable"}}',
    ]
    written: list[str] = []
    current = ""
    for line in lines:
        if line and line[0] not in " ;}" and not line.startswith("define"):
            current = "%" + line.split(":", 1)[0]
        plain = _LOOP_NOTE.sub("", line)
        if plain.startswith("  br ") and current in latches:
            number = first + len(notes)
            notes.append(
                f"!{number} = distinct !{{!{number}, !{whole if latches[current] else never}}}"
            )
            plain += f", !llvm.loop !{number}"
        written.append(plain)
    return text.replace("\n".join(lines), "\n".join(written)) + "\n" + "\n".join(notes) + "\n"
