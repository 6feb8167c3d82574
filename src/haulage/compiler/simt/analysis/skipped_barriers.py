"""Who goes round the barriers of a block, and what is done behind that.

A thread goes round a barrier where a branch parts: it takes an arm that does not come to the
barrier before both arms meet again, and the other arm does. What it does from there, up to where it
comes to that barrier after all, it did without having waited.
"""

import re

from haulage.compiler.mathematics.definitions import PREFIX
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.targets.cpu import YIELD

# A step from one block to the next.
Edge = tuple[str, str]

_CONDITION = re.compile(r"br i1 (\S+), label")


def ways_round(
    successors: control_flow.Successors, entry: str, places: set[str]
) -> dict[str, set[Edge]]:
    """For each of the blocks `places`, which have a barrier, the edges on which threads go round.

    `successors` is the graph of those threads that the barriers may miss.
    """
    found: dict[str, set[Edge]] = {label: set() for label in places}
    meeting = control_flow.immediate_postdominators(successors)
    loops = control_flow.natural_loops(successors, entry)
    before = control_flow.reachable_until(
        control_flow.invert(successors), places & successors.keys(), control_flow.EXIT
    )
    for label in before:
        arms = set(successors[label])
        if len(arms) < 2:
            continue
        around = next((loop.labels for loop in loops if label in loop.labels), frozenset())
        # In a loop that neither arm leaves, what counts is this turn.
        once = {**successors, label: ()} if arms <= around else successors
        stop = meeting.get(label, control_flow.EXIT)
        come_to = {arm: control_flow.reachable_until(once, [arm], stop) & places for arm in arms}
        parted = set().union(*come_to.values())
        for arm, reached in come_to.items():
            for place in parted - reached:
                found[place].add((label, arm))
    return found


def is_seen(function: Function, item: Instruction) -> bool:
    """Whether an instruction does something that another thread can see.

    What a kernel returns, which is nothing, is not.
    """
    if function.parameters[0].name in item.uses:
        return False
    if item.opcode in ("store", "atomicrmw", "cmpxchg"):
        return True
    callee = item.callee or ""
    return (
        item.opcode == "call"
        and callee != YIELD
        and (not callee.startswith(("llvm.", PREFIX)) or callee.startswith("llvm.mem"))
    )


def condition(branch: Instruction) -> str:
    """The LLVM value that a branch with two arms goes by."""
    found = _CONDITION.search(branch.text)
    assert found is not None, branch.text
    return found[1]
