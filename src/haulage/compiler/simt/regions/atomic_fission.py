"""Where to cut around accesses that LLVM must not widen, so that it may widen the rest.

One atomic operation keeps the whole loop over the threads around it scalar. Between two barriers
threads may run in any order, so where all of them come to it together there may be a cut in front
of it and one behind it: the loop over the threads with the operation is then short.
"""

from collections.abc import Set

from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Function, Instruction

# A loop of its own over the threads, and what it keeps in slots for the others, costs about as much
# as so many instructions that are not widened.
_WORTH = 6


def around_atomics(
    function: Function, flow: Uniformity, held: Set[str]
) -> dict[str, tuple[int, int]]:
    """For each block that is worth it: the indices of its body to cut it at, the later one being
    behind the last of its atomic operations. Blocks in `held` have none (`locks.py`)."""
    found: dict[str, tuple[int, int]] = {}
    for block in function.blocks.values():
        staying = [index for index, item in enumerate(block.body) if _is_scalar(item)]
        if not staying or block.label in flow.divergent | held:
            continue
        first, last = staying[0], staying[-1]
        rest = [*block.body[:first], *block.body[last + 1 :]]
        # What all threads have in common is not worked out for each of them anyway.
        if sum(item.result is None or item.result in flow.varying for item in rest) >= _WORTH:
            found[block.label] = first, last + 1
    return found


def _is_scalar(item: Instruction) -> bool:
    return item.opcode in ("atomicrmw", "cmpxchg")
