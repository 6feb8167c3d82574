"""How the values of a loop change from turn to turn, and how many turns it makes."""

import re
from collections.abc import Mapping

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Function, Instruction

_STEP = re.compile(r"= (?:add|sub) [^%]*(%\S+), (-?\d+|%\S+?)(?:, !.*)?$")
_BOUND = re.compile(r"= icmp \w+ [^%]*(%\S+), (-?\d+)(?:, !.*)?$")


def steps(function: Function, loop: control_flow.Loop) -> Mapping[str, tuple[str, int | None]]:
    """For each phi of a loop's header that changes by the same number in each turn: its next value,
    and the number, or None if it is not known here."""
    made = {item.result: item for label in loop.labels for item in function.blocks[label].body}
    found: dict[str, tuple[str, int | None]] = {}
    for phi in function.blocks[loop.header].phis:
        inside = {value for value, label in phi.incoming if label in loop.labels}
        item = made.get(next(iter(inside))) if len(inside) == 1 else None
        pair = _STEP.search(item.text) if item is not None else None
        if pair is None or item is None or pair[1] != phi.result or pair[2] in made:
            continue
        assert phi.result is not None
        assert item.result is not None
        sign = -1 if item.opcode == "sub" else 1
        found[phi.result] = (
            item.result,
            None if pair[2].startswith("%") else sign * int(pair[2]),
        )
    return found


def constant_turns(function: Function, loop: control_flow.Loop) -> int | None:
    """How often a loop with one exit goes round, or one time less, if that can be read from it."""
    exits = [
        function.blocks[label].terminator
        for label in loop.labels
        if any(target not in loop.labels for target in function.blocks[label].successors)
    ]
    if len(exits) != 1 or not isinstance(exits[0], Instruction) or not exits[0].uses:
        return None
    made = {item.result: item for label in loop.labels for item in function.blocks[label].body}
    condition = made.get(exits[0].uses[0])
    bound = _BOUND.search(condition.text) if condition is not None else None
    if bound is None:
        return None
    stepping = steps(function, loop)
    for phi in function.blocks[loop.header].phis:
        following, step = stepping.get(phi.result or "", ("", None))
        start = start_of(phi, loop)
        if not step or start is None or start.startswith("%"):
            continue
        if bound[1] in (phi.result, following):
            return max(1, (int(bound[2]) - int(start)) // step)
    return None


def start_of(phi: Instruction, loop: control_flow.Loop) -> str | None:
    """What a phi of the loop's header is in the first turn, if that is one value."""
    starts = {value for value, label in phi.incoming if label not in loop.labels}
    return starts.pop() if len(starts) == 1 else None
