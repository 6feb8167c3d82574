"""What is done by threads with one index only: `if threadIdx.x == 0:`.

Others do not wait for a loop there, nor is it worth vectorising.
"""

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.affine import THREAD, forms
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.types import bits_of

# A parameter that is an index of the thread, and the number that it is compared with if that is a
# constant.
Index = tuple[str, int | None]


def single_thread_blocks(analyses: Analyses) -> frozenset[str]:
    """Labels of the blocks that only threads with one index along an axis come to."""
    return frozenset().union(*analyses.get(blocks_of_index).values())


def blocks_of_index(analyses: Analyses) -> dict[Index, set[str]]:
    """For each index that branches ask for: the blocks that only threads that have it come to."""
    before, closest = analyses.predecessors, analyses.dominators
    found: dict[Index, set[str]] = {}
    for label, block in analyses.function.blocks.items():
        if block.condition is None or len(set(block.successors)) == 1:
            continue
        for outcome, start in zip((True, False), block.successors, strict=True):
            for index in _indices(analyses, block.condition, outcome):
                inside = {each for each in closest if control_flow.dominates(closest, start, each)}
                # Come to from elsewhere it would be for others too.
                if set(before[start]) & closest.keys() <= inside | {label}:
                    found.setdefault(index, set()).update(inside)
    return found


def _indices(analyses: Analyses, condition: str, outcome: bool) -> set[Index]:
    """The indices that a thread has for which a condition has an outcome."""
    item = analyses.items.get(condition)
    if item is None:
        return set()
    if item.opcode == "icmp" and item.predicate == ("eq" if outcome else "ne"):
        # Of narrower numbers several indices are one.
        bits = bits_of(item.operands[0].type) or 0
        one, other = (analyses.get(forms).of(each) for each in item.operands)
        return {
            (index.value, None if right.symbols else right.constant - left.constant)
            for left, right in ((one, other), (other, one))
            for index in THREAD
            if left.monomials.keys() - {()} == {(index,)}
            and left.monomials[(index,)] == 1
            and bits >= (bits_of(index.type) or 0)
        }
    is_and = item.opcode == "and" or (item.opcode == "select" and item.operands[2].number == 0)
    if not is_and or not outcome or item.type != "i1":
        return set()
    return set().union(*(_indices(analyses, each, outcome) for each in item.uses))
