"""What is done by threads with one index only: `if threadIdx.x == 0:`.

Others do not wait for a loop there, nor is it worth vectorising.
"""

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.affine import THREAD, Form, forms
from haulage.compiler.simt.analysis.manager import Analyses

_INDICES = frozenset((index,) for index in THREAD)


def single_thread_blocks(analyses: Analyses) -> frozenset[str]:
    """Labels of the blocks that only threads with one index along an axis come to."""
    starts: dict[str, str] = {}
    for label, block in analyses.function.blocks.items():
        outcome = _outcome(analyses, block.condition)
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


def _outcome(analyses: Analyses, condition: str | None) -> bool | None:
    """What `t == n` or `t != n` is for the only thread that it may be so for; None of any other
    condition."""
    item = analyses.items.get(condition or "")
    if item is None or item.opcode != "icmp" or item.predicate not in ("eq", "ne"):
        return None
    is_of_index = any(_is_index(analyses.get(forms).of(each)) for each in item.operands)
    return item.predicate == "eq" if is_of_index else None


def _is_index(form: Form) -> bool:
    """Whether a value is a thread's index along one axis plus a constant."""
    symbols = form.monomials.keys() - {()}
    return len(symbols) == 1 and symbols <= _INDICES and form.monomials[next(iter(symbols))] == 1
