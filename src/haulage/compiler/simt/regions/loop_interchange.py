"""Which loops that all threads go round together are turned outside the loop over the threads.

With `for k in range(n): total += a[i, k] * b[k, j]` and threads that are neighbours along j, the
loop over the threads belongs inside: it reads neighbouring memory. With `total += a[i, k]` and a
thread for each row it does not: each turn would gather from as many rows as there are threads, and
the next turn, one element on, would find none of their lines in the cache any more. There each
thread had better go through its row. And a short loop whose turns are known is unrolled by LLVM:
the loop over the threads is the innermost one all the same, and what lives from turn to turn stays
in registers.
"""

from collections.abc import Iterable

from haulage.compiler.mathematics.definitions import PREFIX
from haulage.compiler.simt.analysis import control_flow, induction
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.strides import (
    SCATTERED,
    UNKNOWN,
    Stride,
    StrideAnalysis,
    Strides,
    by_thread,
    size_of_access,
)
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Function, Instruction

# Lanes of a vector of 32-bit numbers.
_LANES = 16

# What one thread's part of a turn takes, in cycles, by a rough measure.
_ARITHMETIC = 0.25
_MATHEMATICS = 8.0
_COMMON_ACCESS = 0.05
_ACCESS = 0.5
# An access by lanes that are apart, and one for which each of them needs a line of its own.
_GATHER = 1.5
_LINE = 4.0

# What a turn waits for if it uses what the turn before it made.
_LOAD_LATENCY = 5.0
_FLOAT_LATENCY = 4.0
_MATHEMATICS_LATENCY = 40.0

# Instructions up to which LLVM unrolls a loop wholly; its own limit is 300.
_UNROLLED = 200


def loops_to_turn(
    function: Function,
    flow: Uniformity,
    private: Iterable[Storage],
    position: int,
    threads: int,
) -> list[str]:
    """Headers of the loops without a barrier that are turned outside the loop over the threads.

    `position` is the number of the innermost axis of the block, `threads` how many are along it.
    All threads go round these loops together, and no loop that is left is in them.
    """
    successors = {label: block.successors for label, block in function.blocks.items()}
    with_barrier = {label for label, _, _ in barriers(function)}
    loops = control_flow.natural_loops(successors, function.entry)
    costs = _Costs(function, private, position, min(threads, _LANES)) if loops else None
    headers: list[str] = []
    settled: set[str] = set()
    sizes: dict[str, int] = {}
    for loop in loops:
        if loop.labels & settled or loop.labels & with_barrier or loop.header in flow.divergent:
            settled |= loop.labels
            continue
        assert costs is not None
        size = sum(sizes.get(label, len(function.blocks[label].body)) for label in loop.labels)
        count = induction.trip_count(function, loop)
        if count is not None and size * count <= _UNROLLED:
            # LLVM unrolls it, and the loop over the threads is the innermost one all the same.
            sizes |= dict.fromkeys(loop.labels, 0) | {loop.header: size * count}
            continue
        settled |= loop.labels
        if costs.are_less_turned(loop):
            headers.append(loop.header)
    return headers


class _Costs:
    """What loops cost inside and outside of the loop over the threads."""

    def __init__(
        self, function: Function, private: Iterable[Storage], position: int, lanes: int
    ) -> None:
        self._function = function
        self._position = position
        self._lanes = lanes
        self._by_thread = StrideAnalysis(function, by_thread(private))

    def are_less_turned(self, loop: control_flow.Loop) -> bool:
        """Whether a loop costs no more if the loop over the threads is inside of it."""
        by_turn = StrideAnalysis(self._function, strides_by_turn(self._function, loop), loop.labels)
        turned = kept = 0.0
        for label in loop.labels:
            for item in self._function.blocks[label].body:
                turned += _cost(item, self._by_thread, self._position, self._lanes)
                kept += _cost(item, by_turn, 0, 1)
        return turned <= max(kept, self._latency(loop))

    def _latency(self, loop: control_flow.Loop) -> float:
        """How long one thread's turn has to wait for the turn before it."""
        steps = induction.recurrences(self._function, loop)
        phis = self._function.blocks[loop.header].phis
        through = {phi.result: 0.0 for phi in phis if phi.result and phi.result not in steps}
        order = control_flow.reverse_postorder(
            {label: _inside(self._function, loop, label) for label in loop.labels}, loop.header
        )
        for label in order:
            for item in self._function.blocks[label].instructions():
                if item.result is None or item.result in through:
                    continue
                before = [through[name] for name in _sources(item) if name in through]
                if before:
                    through[item.result] = max(before) + _latency(item)
        return max(
            (
                through.get(value, 0.0)
                for phi in phis
                if phi.result in through
                for value, label in phi.incoming
                if label in loop.labels
            ),
            default=0.0,
        )


def _cost(item: Instruction, strides: StrideAnalysis, position: int, lanes: int) -> float:
    if item.opcode == "call" and (item.callee or "").startswith(PREFIX):
        return _MATHEMATICS / lanes
    if item.opcode not in ("load", "store"):
        return _ARITHMETIC / lanes
    stride: Stride = strides.of(item.address)[position]
    if stride == 0:
        return _COMMON_ACCESS
    if stride == UNKNOWN:
        return _LINE if item.opcode == "load" else 2 * _LINE
    if isinstance(stride, int) and abs(stride) == size_of_access(item):
        return _ACCESS / lanes
    return _GATHER if lanes > 1 else _ACCESS


def _inside(function: Function, loop: control_flow.Loop, label: str) -> tuple[str, ...]:
    return tuple(name for name in function.blocks[label].successors if name in loop.labels)


def _sources(item: Instruction) -> Iterable[str]:
    return (value for value, _ in item.incoming) if item.is_phi else item.uses


def _latency(item: Instruction) -> float:
    if item.opcode == "load":
        return _LOAD_LATENCY
    if item.opcode == "call" and (item.callee or "").startswith(PREFIX):
        return _MATHEMATICS_LATENCY
    if item.opcode in ("phi", "getelementptr", "zext", "sext", "trunc"):
        return 0.0
    if item.opcode == "select":
        return 1.0
    return _FLOAT_LATENCY if item.type in ("float", "double", "half") else 1.0


def strides_by_turn(function: Function, loop: control_flow.Loop) -> dict[str, Strides]:
    """How the phis of a loop's header change from turn to turn, as far as that is by steps."""
    found = {phi.result: SCATTERED for phi in function.blocks[loop.header].phis if phi.result}
    for name, recurrence in induction.recurrences(function, loop).items():
        stride = UNKNOWN if recurrence.step is None else recurrence.step
        found[name] = stride, stride, stride
    return found
