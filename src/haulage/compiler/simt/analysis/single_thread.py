"""What is done by threads with one index only: `if threadIdx.x == 0:`.

Others do not wait for a loop there, nor is it worth vectorising.
"""

from collections.abc import Set

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.affine import THREAD, forms
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Operand

_INDICES = frozenset((index,) for index in THREAD)


def single_thread_blocks(analyses: Analyses) -> frozenset[str]:
    """Labels of the blocks that only threads with one index along an axis come to."""
    equations = analyses.get(IndexEquations)
    starts: dict[str, str] = {}
    for label, block in analyses.function.blocks.items():
        outcome = equations.outcome_of_comparison(block.condition)
        if outcome is not None and len(set(block.successors)) == 2:
            starts[label] = block.successors[0 if outcome else 1]
    if not starts:
        return frozenset()
    before, closest = analyses.predecessors, analyses.dominators
    found: set[str] = set()
    for label, start in starts.items():
        inside = {place for place in closest if control_flow.dominates(closest, start, place)}
        # Come to from elsewhere it would be for others too.
        if set(before[start]) & closest.keys() <= inside | {label}:
            found |= inside
    return frozenset(found)


class IndexEquations:
    """The conditions of a function that have an outcome for threads with one index only."""

    def __init__(self, analyses: Analyses) -> None:
        self._items = analyses.items
        self._forms = analyses.get(forms)

    def outcome_of_comparison(self, condition: str | None) -> bool | None:
        """That outcome of `t == n` or `t != n`; None of anything else."""
        item = self._items.get(condition or "")
        if item is None or item.opcode != "icmp" or item.predicate not in ("eq", "ne"):
            return None
        return item.predicate == "eq" if any(map(self._is_index, item.operands)) else None

    def outcome(self, condition: str, varying: Set[str]) -> bool | None:
        """That outcome of `t == n - 1` or `t == 0 and i > 0`, where `n` is not in `varying`."""
        item = self._items.get(condition)
        if item is None or item.type != "i1":
            return None
        if item.opcode == "icmp":
            others = [each.text for each in item.operands if not self._is_index(each)]
            uniform = len(others) == 1 and others[0] not in varying
            return self.outcome_of_comparison(condition) if uniform else None
        if item.opcode == "xor" and item.operands[1].number == 1:
            inner = self.outcome(item.operands[0].text, varying)
            return None if inner is None else not inner
        if item.opcode in ("and", "or") or (
            item.opcode == "select" and item.operands[2].number == 0
        ):
            both = item.opcode != "or"
            return both if both in (self.outcome(each, varying) for each in item.uses) else None
        return None

    def _is_index(self, operand: Operand) -> bool:
        """Whether a value is a thread's index along one axis plus a constant."""
        monomials = self._forms.of(operand).monomials
        symbols = monomials.keys() - {()}
        return len(symbols) == 1 and symbols <= _INDICES and monomials[next(iter(symbols))] == 1
