"""How the values of a loop change from iteration to iteration, and how many iterations it makes.

LLVM's ScalarEvolution calls these add recurrences and trip counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from haulage.compiler.simt.analysis.affine import AffineForms, symbol
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.ir.model import Function, Instruction, Operand


@dataclass(frozen=True)
class Recurrence:
    """What a phi of a loop's header is in the next iteration: `following`, by which number it is
    more, None if that is the same in each but not known here."""

    following: str
    step: int | None


def recurrences(function: Function, loop: Loop) -> Mapping[str, Recurrence]:
    """The phis of a loop's header that change by the same number in each iteration."""
    items = {
        item.result: item
        for label in loop.labels
        for item in function.blocks[label].instructions()
        if item.result is not None
    }
    forms = AffineForms(items)
    found: dict[str, Recurrence] = {}
    for phi in function.blocks[loop.header].phis:
        following = entering(phi, loop, first=False)
        if following is None or following.text not in items or phi.result is None:
            continue
        change = forms.of(following).plus(symbol(phi.result, phi.type), -1)
        if not any(each.value in items for each in change.symbols):
            step = None if change.symbols else change.constant
            found[phi.result] = Recurrence(following.text, step)
    return found


def trip_count(function: Function, loop: Loop) -> int | None:
    """How many iterations a loop with one exit makes, or one less, if that can be read from it."""
    exits = [
        function.blocks[label].condition
        for label in loop.labels
        if not loop.labels.issuperset(function.blocks[label].successors)
    ]
    for phi in function.blocks[loop.header].phis:
        if phi.result in exits and {each.text for each in phi.operands} <= {"true", "false"}:
            # LLVM's way to count to two.
            return 1
    items = (item for label in loop.labels for item in function.blocks[label].body)
    condition = next((item for item in items if item.result in exits), None)
    if len(exits) != 1 or condition is None or condition.opcode != "icmp":
        return None
    counter, bound = condition.operands
    stepping = recurrences(function, loop)
    for phi in function.blocks[loop.header].phis:
        recurrence, start = stepping.get(phi.result or ""), entering(phi, loop, first=True)
        if recurrence is None or not recurrence.step or start is None or start.number is None:
            continue
        if bound.number is not None and counter.text in (phi.result, recurrence.following):
            return max(1, (bound.number - start.number) // recurrence.step)
    return None


def entering(phi: Instruction, loop: Loop, *, first: bool) -> Operand | None:
    """What a phi of the loop's header is in the first iteration, or in later ones, if that is one
    value."""
    sources = zip(phi.operands, phi.sources, strict=True)
    values = {value for value, label in sources if (label in loop.labels) != first}
    return values.pop() if len(values) == 1 else None
