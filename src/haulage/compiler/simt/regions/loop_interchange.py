"""Which uniform loops are interchanged with the work-item loop, so that they stand outside of it.

With `for k in range(n): total += a[i, k] * b[k, j]` and threads that are neighbours along j, the
work-item loop belongs inside: it reads neighbouring memory. With `total += a[i, k]` and a thread
for each row it does not: each iteration would gather from as many rows as there are threads, and
the next, one element on, would find none of their lines in the cache any more. There each thread
had better go through its row. And a short loop with a known trip count is unrolled by LLVM: the
work-item loop is the innermost one all the same, and what is carried stays in registers.

Allen and Kennedy, "Optimizing Compilers for Modern Architectures" (2001), chapter 9; between
barriers threads may run in any order, so an interchange is always legal.
"""

from collections.abc import Iterable

from haulage.compiler.mathematics.definitions import is_mathematics
from haulage.compiler.simt.analysis import control_flow, induction
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.strides import (
    SCATTERED,
    UNKNOWN,
    StrideAnalysis,
    Strides,
    by_thread,
    size_of_access,
)
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Function, Instruction

# Lanes of a vector of 32-bit numbers.
_LANES = 16

# What one thread's part of an iteration takes, in cycles, by a rough measure.
_ARITHMETIC = 0.25
_MATHEMATICS = 8.0
_COMMON_ACCESS = 0.05
_ACCESS = 0.5
# An access by lanes that are apart, and one for which each of them needs a line of its own.
_GATHER = 1.5
_LINE = 4.0

# What an iteration waits for if it uses what the one before it made.
_LOAD_LATENCY = 5.0
_FLOAT_LATENCY = 4.0
_MATHEMATICS_LATENCY = 40.0

# Instructions up to which LLVM unrolls a loop wholly; its own limit is 300.
_UNROLLED = 200


def loops_to_interchange(
    analyses: Analyses,
    flow: Uniformity,
    private: Iterable[Storage],
    position: int,
    threads: int,
) -> list[str]:
    """Headers of the loops without a barrier that come to stand outside of the work-item loop.

    `position` is the number of the innermost axis of the block, `threads` how many are along it.
    The loops are uniform, and no loop that stays is in them.
    """
    function, loops = analyses.function, analyses.loops
    if not loops:
        return []
    with_barrier = {label for label, _, _ in barriers(function)}
    costs = _Costs(analyses, private, position, min(threads, _LANES))
    headers: list[str] = []
    settled: set[str] = set()
    sizes: dict[str, int] = {}
    for loop in loops:
        if loop.labels & settled or loop.labels & with_barrier or loop.header in flow.divergent:
            settled |= loop.labels
            continue
        size = sum(sizes.get(label, len(function.blocks[label].body)) for label in loop.labels)
        count = induction.trip_count(function, loop)
        if count is not None and size * count <= _UNROLLED:
            # LLVM unrolls it, and the work-item loop is the innermost one all the same.
            sizes |= dict.fromkeys(loop.labels, 0) | {loop.header: size * count}
            continue
        settled |= loop.labels
        if costs.favour_interchange(loop):
            headers.append(loop.header)
    return headers


class _Costs:
    """What loops cost inside and outside of the work-item loop."""

    def __init__(
        self, analyses: Analyses, private: Iterable[Storage], position: int, lanes: int
    ) -> None:
        self._analyses = analyses
        self._function = analyses.function
        self._position = position
        self._lanes = lanes
        self._by_thread = StrideAnalysis(analyses, by_thread(private))

    def favour_interchange(self, loop: Loop) -> bool:
        """Whether a loop costs no more if the work-item loop is inside of it."""
        known = strides_by_iteration(self._function, loop)
        by_iteration = StrideAnalysis(self._analyses, known, loop.labels)
        interchanged = kept = 0.0
        for label in loop.labels:
            for item in self._function.blocks[label].body:
                interchanged += _cost(item, self._by_thread, self._position, self._lanes)
                kept += _cost(item, by_iteration, 0, 1)
        return interchanged <= max(kept, self._latency(loop))

    def _latency(self, loop: Loop) -> float:
        """How long one thread's iteration has to wait for the one before it."""
        blocks = {label: self._function.blocks[label] for label in loop.labels}
        phis = blocks[loop.header].phis
        recurrences = induction.recurrences(self._function, loop)
        ready = {phi.result: 0.0 for phi in phis if phi.result and phi.result not in recurrences}
        inside = {
            label: [each for each in block.successors if each in blocks]
            for label, block in blocks.items()
        }
        for label in control_flow.reverse_postorder(inside, loop.header):
            for item in blocks[label].instructions():
                before = [ready[name] for name in item.uses if name in ready]
                if item.result is not None and item.result not in ready and before:
                    ready[item.result] = max(before) + _latency(item)
        carried = (
            ready.get(value, 0.0)
            for phi in phis
            if phi.result in ready
            for value, label in phi.incoming
            if label in blocks
        )
        return max(carried, default=0.0)


def _cost(item: Instruction, strides: StrideAnalysis, position: int, lanes: int) -> float:
    if is_mathematics(item.callee):
        return _MATHEMATICS / lanes
    if item.opcode not in ("load", "store"):
        return _ARITHMETIC / lanes
    stride = strides.of(item.address)[position]
    if stride == 0:
        return _COMMON_ACCESS
    if stride == UNKNOWN:
        return _LINE if item.opcode == "load" else 2 * _LINE
    if isinstance(stride, int) and abs(stride) == size_of_access(item):
        return _ACCESS / lanes
    return _GATHER if lanes > 1 else _ACCESS


def _latency(item: Instruction) -> float:
    if item.opcode == "load":
        return _LOAD_LATENCY
    if is_mathematics(item.callee):
        return _MATHEMATICS_LATENCY
    if item.opcode in ("phi", "getelementptr", "zext", "sext", "trunc"):
        return 0.0
    if item.opcode == "select":
        return 1.0
    return _FLOAT_LATENCY if item.type in ("float", "double", "half") else 1.0


def strides_by_iteration(function: Function, loop: Loop) -> dict[str, Strides]:
    """How the phis of a loop's header change from iteration to iteration, as far as by steps."""
    found = {phi.result: SCATTERED for phi in function.blocks[loop.header].phis if phi.result}
    for name, recurrence in induction.recurrences(function, loop).items():
        stride = UNKNOWN if recurrence.step is None else recurrence.step
        found[name] = stride, stride, stride
    return found
