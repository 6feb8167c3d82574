"""Which uniform loops are strip-mined: run for a chunk of threads at a time.

Interchanged with the work-item loop, a loop keeps what it carries in memory, an element for each
thread, and loads it in each iteration; for a chunk of a few vectors (`vectorize/`) it stays in
registers. That is as good in all other respects only if threads read what they share, or what is in
the cache anyway: of a row of memory a chunk takes but a part, and the next iteration another row.

Strip-mine and interchange: Allen and Kennedy, "Optimizing Compilers for Modern Architectures"
(2001), chapter 9.
"""

from collections.abc import Iterable, Set

from haulage.compiler.mathematics.definitions import is_mathematics
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import UnderlyingObjects
from haulage.compiler.simt.analysis.strides import StrideAnalysis, size_of_access
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.compiler.simt.regions.loop_interchange import strides_by_iteration

# Bytes from one iteration to the next that leave most of what is read in the nearest cache.
NEAR = 256

# What an iteration holds besides what lives longer; more if it calls mathematics.
_SHORT_LIVED = 3
_MATHEMATICS = 12


def loops_to_strip_mine(
    analyses: Analyses,
    flow: Uniformity,
    interchanged: Iterable[str],
    shared: Iterable[Storage],
    position: int,
) -> dict[str, int]:
    """Those of the loops `interchanged` that are better run for chunks of threads: by their
    headers, how many values of each thread live in an iteration.

    `position` is the number of the innermost axis of the block, `shared` the block's own memory.
    """
    wanted = set(interchanged)
    if not wanted:
        return {}
    function, accesses = analyses.function, _Accesses(analyses, shared, position)
    return {
        loop.header: _live_values(function, loop, flow.varying)
        for loop in analyses.loops
        if loop.header in wanted
        and not loop.labels & (flow.divergent | flow.exiting)
        and any(phi.result in flow.varying for phi in function.blocks[loop.header].phis)
        and accesses.stay_near(loop)
    }


class _Accesses:
    """How near to one another the accesses of a function are."""

    def __init__(self, analyses: Analyses, shared: Iterable[Storage], position: int) -> None:
        self._analyses = analyses
        self._function = analyses.function
        self._shared = {storage.name for storage in shared}
        self._position = position
        self._strides = analyses.get(StrideAnalysis)
        self._objects = analyses.get(UnderlyingObjects)

    def is_contiguous(self, item: Instruction) -> bool:
        """Whether neighbouring threads access neighbouring elements."""
        return self._strides.of(item.address)[self._position] == size_of_access(item)

    def is_common(self, item: Instruction) -> bool:
        """Whether neighbouring threads access one element."""
        return self._strides.of(item.address)[self._position] == 0

    def stay_near(self, loop: Loop) -> bool:
        """Whether all that an iteration's threads access is common to them, or a row that is in
        the cache."""
        by_iteration = None
        for label in loop.labels:
            for item in self._function.blocks[label].body:
                if item.address is None or item.opcode not in ("load", "store"):
                    continue
                if item.opcode == "load" and self.is_common(item):
                    continue
                if not self.is_contiguous(item):
                    return False
                if self._objects.of(item.address.text) <= self._shared:
                    continue
                known = strides_by_iteration(self._function, loop)
                by_iteration = by_iteration or StrideAnalysis(self._analyses, known, loop.labels)
                step = by_iteration.of(item.address)[0]
                if not isinstance(step, int) or abs(step) > NEAR:
                    return False
        return True


def _live_values(function: Function, loop: Loop, varying: Set[str]) -> int:
    """How many values of each thread an iteration needs registers for."""
    blocks = [function.blocks[label] for label in loop.labels]
    made = {item.result for block in blocks for item in block.instructions()}
    used = {
        name
        for block in blocks
        for item in block.body
        if item.opcode not in ("getelementptr", "load", "store")
        for name in item.uses
        if name in varying and name not in made
    }
    phis = [phi for phi in function.blocks[loop.header].phis if phi.result in varying]
    calls = any(is_mathematics(item.callee) for block in blocks for item in block.body)
    return len(phis) + len(used) + (_MATHEMATICS if calls else _SHORT_LIVED)


def splits_around(
    analyses: Analyses,
    flow: Uniformity,
    strips: Iterable[str],
    splits: Iterable[str],
    position: int,
) -> dict[str, tuple[int, ...]]:
    """Where to split, block by block, in front of the loops `strips` and behind them, so that what
    is around them stays out of chunks: if there are accesses to places of each thread's own, for
    which lanes are slower than threads one after the other.

    `splits` are the labels that the function is split at anyway.
    """
    function, successors = analyses.function, analyses.successors
    stops = {label for label, _, _ in barriers(function)} | set(splits)
    nests = [
        loop for loop in analyses.loops if not loop.labels & (stops | flow.divergent | flow.exiting)
    ]
    found: dict[str, tuple[int, ...]] = {}
    inside: set[str] = set()
    for header in strips:
        around = [loop for loop in nests if header in loop.labels]
        if not around:
            continue
        # Inner loops come first.
        outermost = around[-1]
        inside |= outermost.labels
        for label, targets in successors.items():
            end = function.blocks[label].terminator
            uniform = isinstance(end, Instruction) and flow.varying.isdisjoint(end.uses)
            enters = outermost.header in targets and label not in outermost.labels
            if enters and uniform and label not in flow.divergent:
                found[label] = (*found.get(label, ()), len(function.blocks[label].body))
        leaves = {target for label in outermost.labels for target in successors[label]}
        for label in leaves - outermost.labels - flow.divergent:
            found[label] = (0, *found.get(label, ()))
    accesses = _Accesses(analyses, (), position)
    outside = function.blocks.keys() - inside
    items = (item for label in outside for item in function.blocks[label].body)
    if all(
        accesses.is_common(item) or accesses.is_contiguous(item)
        for item in items
        if item.opcode in ("load", "store")
    ):
        return {}
    # In the order of the blocks, so that the same kernel is always split alike.
    return {label: found[label] for label in function.blocks if label in found}
