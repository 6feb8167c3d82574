"""In which order loops are nested, those over the threads of a block among them.

Threads may run in any order between two barriers, so every order is right, and the choice is one of
cost (`analysis/strides.py`): Allen and Kennedy, "Optimizing Compilers for Modern
Architectures" (2001), chapter 9.

The axes of a block: with `i, j = cuda.grid(2)` and `a[i, j]` threads that are neighbours along x
are a row apart, so the loop along y belongs inside.

A loop that all threads are in together can be kept inside of the loops over threads, so that each
thread goes through it alone. It can be interchanged with them: then its iterations read memory that
lies side by side, and what it carries is in context arrays, an element for each thread. Or it is
strip-mined, run for as many threads as registers hold values for (`vectorize/`), which has the
advantages of both unless it has to gather: a thread had better go through a row of its own alone.
A short loop with a known trip count is unrolled by LLVM, and the loop over threads is the innermost
one all the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, prod

from haulage.compiler.mathematics.definitions import is_division, is_mathematics
from haulage.compiler.simt.analysis import AXES, control_flow, induction
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.strides import (
    ACCESS_COST,
    ARITHMETIC_COST,
    ITERATIONS,
    MATHEMATICS_COST,
    VECTOR_BYTES,
    WORD_BYTES,
    Stride,
    ThreadCosts,
    by_iteration,
    by_thread,
    cost_alone,
    cost_in_turn,
    cost_of_fetch,
    cost_wide,
    is_access,
    latency_of,
    size_of_access,
)
from haulage.compiler.simt.analysis.uniformity import Uniformity, divergent_loops
from haulage.compiler.simt.ir.model import Instruction
from haulage.compiler.simt.regions.parallel_regions import is_arithmetic
from haulage.forks import cached_property

# Of the nests with a given innermost axis the one in which the next axes follow as they do in
# arrays that are indexed by the axes in turn.
DEFAULT_ORDER = "zyx"
_NESTS = {"x": DEFAULT_ORDER, "y": "zxy", "z": "xyz"}

# Iterations of a loop that threads leave one by one, such as a search.
_FEW = 3
_DEEPEST = 4
# Instructions up to which LLVM unrolls a loop wholly.
_UNROLLED = 150
# The latency of a sum of integers, which LLVM makes in parts.
_OF_A_SUM = 1.0
# Threads that run side by side where an iteration waits for the one before it
# (`unroll_and_jam.py`), and the instructions beyond which their copies would not find registers,
# nor LLVM the time.
JAMMED = 4
MOST_JAMMED = 80
# Starting a loop over threads, and asking for each thread whether it has left, in cycles.
_REGION = 0.3
_STATE = 1.5
# What a strip has of a row at most, in bytes: where a row is written, all of it had better be.
_STRIP = 8 * VECTOR_BYTES
# So much cheaper another order has to be than that of the program.
_WORTH = 0.9

# What an iteration holds besides what lives longer; more if it calls mathematics.
_SHORT_LIVED = 3
_MATHEMATICS = 12


def axis_order(analyses: Analyses, sizes: tuple[int, int, int]) -> str:
    """The axes in the order in which to nest their loops, outermost first, for one block size."""
    used = {name for item in analyses.function.instructions() for name in item.uses}
    long = [axis for axis in AXES if sizes[AXES.index(axis)] > 1] or ["x"]
    candidates = [axis for axis in long if f"%threadIdx.{axis}" in used] or long
    if len(candidates) == 1:
        return _NESTS[candidates[0]]
    threads = ThreadCosts(analyses)

    def cost(axis: str) -> float:
        position = AXES.index(axis)
        return sum(
            ITERATIONS ** min(sum(label in loop.labels for loop in analyses.loops), _DEEPEST)
            * sum(threads.on_vectors(item, position, sizes[position]) for item in block.body)
            for label, block in analyses.function.blocks.items()
        )

    # Of equals x, whose threads are neighbours in a program's mind.
    return _NESTS[min(candidates, key=cost)]


@dataclass(frozen=True)
class _Repeated:
    """An instruction of a loop: how often an iteration makes it, how far its address moves from one
    iteration of the innermost loop around it to the next, and whether it moves at all."""

    item: Instruction
    times: int
    step: Stride
    moves: bool


class LoopOrders:
    """Which loops without a barrier are interchanged with the loop over threads, or strip-mined.

    `private` is the memory that each thread has of its own, `may_jam` whether a few threads may run
    side by side (`unroll_and_jam.py`), `position` the number of the innermost axis of the block,
    `threads` how many are along it.
    """

    def __init__(
        self,
        analyses: Analyses,
        flow: Uniformity,
        private: tuple[Storage, ...],
        may_jam: bool,
        position: int,
        threads: int,
    ) -> None:
        self._analyses = analyses
        self._blocks = analyses.function.blocks
        self._flow = flow
        self._position = position
        self._threads = threads
        self._may_jam = may_jam
        self._costs = ThreadCosts(analyses, private)
        self._unrolled = self._unrolled_loops()
        # Those that all threads go round together.
        with_barrier = {label for label, _, _ in barriers(analyses.function)}
        self._together = {
            loop.header: loop
            for loop in analyses.loops
            if threads > 1 and loop.header not in flow.divergent and not loop.labels & with_barrier
        }

    def interchanged(self) -> list[str]:
        """Headers of the loops that come to stand outside of the loop over threads. No loop that
        stays is in them, but for those that LLVM unrolls."""
        found: list[str] = []
        settled: set[str] = set()
        for loop in self._analyses.loops:
            if loop.header in self._unrolled and loop.header in self._together:
                continue
            if loop.header in self._together and not loop.labels & settled:
                repeated = list(self._repeated(loop))
                if self._interchanged(loop, repeated) < _WORTH * self._kept(loop, repeated):
                    found.append(loop.header)
            settled |= loop.labels
        return found

    def strips(self) -> list[str]:
        """The headers of the loops to strip-mine."""
        found: list[str] = []
        settled = set(self._flow.exiting)
        for loop in reversed(self._together.values()):
            inner = self._inner(loop)
            if loop.labels & settled or loop.header in self._unrolled:
                continue
            if any(each.header in self._flow.divergent for each in inner):
                continue
            if not any(map(self._carried, inner)):
                continue
            repeated = list(self._repeated(loop))
            other = min(_WORTH * self._kept(loop, repeated), self._interchanged(loop, repeated))
            if self._in_strips(repeated) < other:
                settled |= loop.labels
                found.append(loop.header)
        return found

    def live(self) -> dict[str, int]:
        """By the header of each loop how many values of a thread are live in an iteration."""
        found: dict[str, int] = {}
        for loop in self._analyses.loops:
            carried = sum(map(self._carried, self._inner(loop)))
            items = [item for label in loop.labels for item in self._blocks[label].body]
            calls = any(
                is_mathematics(item.callee) and not is_division(item.callee) for item in items
            )
            short = _MATHEMATICS if calls else _SHORT_LIVED
            found[loop.header] = carried + len(self._used(loop)) + short
        return found

    def auto_vectorized(self) -> set[str]:
        """Headers of the divergent loops of which LLVM vectorises the iterations of one thread, if
        what is done outside of loops, then by one thread after the other, costs less."""
        divergent = divergent_loops(self._analyses, self._flow)
        found: set[str] = set()
        for loop in self._analyses.loops:
            repeated = list(self._repeated(loop))
            if (
                loop.header in divergent
                and self._has_wide_iterations(loop, repeated)
                and self._outside <= self._trips(loop) * self._kept(loop, repeated)
            ):
                found.add(loop.header)
        return found

    # ---- what an iteration costs a thread ---------------------------------------------------

    def _kept(self, loop: Loop, repeated: list[_Repeated]) -> float:
        if self._has_wide_iterations(loop, repeated):
            return sum(each.times * cost_wide(each.item, VECTOR_BYTES) for each in repeated)
        exits, latency = loop.labels & self._flow.exiting, self._latency(loop)
        is_innermost = len(self._inner(loop)) == 1
        jams = self._may_jam and is_innermost and len(repeated) <= MOST_JAMMED
        if jams and not loop.labels & self._flow.divergent:
            latency /= JAMMED
        cost = sum(each.times * cost_in_turn(each.item, each.step) for each in repeated)
        return max(cost, latency) + self._outside / (_FEW if exits else self._trips(loop))

    def _has_wide_iterations(self, loop: Loop, repeated: list[_Repeated]) -> bool:
        """Whether LLVM vectorises the loop itself."""
        return (
            len(self._inner(loop)) == 1
            and induction.is_counted(self._analyses, loop)
            and self._latency(loop) <= _OF_A_SUM
            and self._carries_sums(loop)
            and not self._stays(repeated)
            and all(map(_is_consecutive, repeated))
        )

    def _carries_sums(self, loop: Loop) -> bool:
        """Whether what an iteration takes over from the one before is counters and what is made of
        itself, such as sums, but nothing that was something else there."""
        stepping = induction.recurrences(self._analyses.function, loop)
        phis = self._blocks[loop.header].phis
        for phi in phis:
            following = induction.entering(phi, loop, first=False)
            made = self._analyses.items.get(following.text) if following else None
            if phi.result not in stepping and (
                made is None or made in phis or phi.result not in made.uses
            ):
                return False
        return True

    def _interchanged(self, loop: Loop, repeated: list[_Repeated]) -> float:
        known, position, threads = self._analyses.items, self._position, self._threads
        used = [known[name] for name in self._used(loop) if name in known]
        kept = sum(not is_arithmetic(item) for item in used)
        context = ACCESS_COST * (2 * self._carried(loop) + kept)
        common = [each for each in repeated if not self._varies(each.item)]
        own = [each for each in repeated if self._varies(each.item)]
        cost = _REGION + sum(each.times * cost_alone(each.item) for each in common) / threads
        in_turn = sum(each.times * self._costs.in_turn(each.item, position) for each in own)
        in_turn += context
        if loop.labels & self._flow.exiting:
            return cost + in_turn + _STATE
        if self._stays(repeated):
            return cost + in_turn
        on_vectors = sum(
            each.times * self._costs.on_vectors(each.item, position, threads) for each in own
        )
        on_vectors += 2 * context / min(threads, VECTOR_BYTES // WORD_BYTES)
        return cost + min(in_turn, on_vectors)

    def _in_strips(self, repeated: list[_Repeated]) -> float:
        cost = 0.0
        for each in repeated:
            item, threads = each.item, self._threads
            if not self._varies(item) or (item.opcode == "load" and not each.moves):
                cost += each.times * cost_wide(item, threads)
                continue
            on_vectors = self._costs.on_vectors(item, self._position, threads, by_llvm=False)
            if item.opcode == "store" and threads * (size_of_access(item) or 0) > _STRIP:
                on_vectors += cost_of_fetch(item, each.step)
            cost += each.times * on_vectors
        return cost

    def _varies(self, item: Instruction) -> bool:
        """Whether an instruction is made for each thread, and not once for all."""
        return item.address is not None or item.result in self._flow.varying

    def _repeated(self, loop: Loop) -> Iterator[_Repeated]:
        inner = self._inner(loop)
        strides = {each: self._analyses.get(by_iteration, each) for each in inner}
        for label in loop.labels:
            around = [each for each in inner if label in each.labels]
            times = prod(map(self._trips, around[:-1]))
            for item in self._blocks[label].body:
                steps = {each: strides[each].of(item.address)[0] for each in around}
                moves = any(
                    steps[each] != 0 for each in around if each.header not in self._unrolled
                )
                yield _Repeated(item, times, steps[around[0]], moves)

    @cached_property
    def _outside(self) -> float:
        """What it costs that what a thread does outside of loops is not done on vectors."""
        looped = {label for loop in self._analyses.loops for label in loop.labels}
        lost = sum(
            self._costs.in_turn(item, self._position)
            - self._costs.on_vectors(item, self._position, self._threads)
            for label in self._blocks.keys() - looped
            for item in self._blocks[label].body
            if item.result in self._flow.varying
        )
        return max(0.0, lost)

    def _latency(self, loop: Loop) -> float:
        """How long one thread's iteration has to wait for the one before it."""
        phis = self._blocks[loop.header].phis
        recurrences = induction.recurrences(self._analyses.function, loop)
        ready = {phi.result: 0.0 for phi in phis if phi.result and phi.result not in recurrences}
        inside = {
            label: [each for each in self._blocks[label].successors if each in loop.labels]
            for label in loop.labels
        }
        for label in control_flow.reverse_postorder(inside, loop.header):
            for item in self._blocks[label].instructions():
                before = [ready[name] for name in item.uses if name in ready]
                if item.result is not None and item.result not in ready and before:
                    ready[item.result] = max(before) + latency_of(item)
        carried = (
            ready.get(value, 0.0)
            for phi in phis
            if phi.result in ready
            for value, label in phi.incoming
            if label in loop.labels
        )
        return max(carried, default=0.0)

    # ---- about loops ------------------------------------------------------------------------

    def _inner(self, loop: Loop) -> list[Loop]:
        """The loops in a loop, inner ones first, and it itself."""
        return [each for each in self._analyses.loops if each.labels <= loop.labels]

    def _trips(self, loop: Loop) -> int:
        count = induction.trip_count(self._analyses.function, loop)
        return ITERATIONS if count is None else count + 1

    def _carried(self, loop: Loop) -> int:
        """How many values of each thread a loop carries."""
        return sum(phi.result in self._flow.varying for phi in self._blocks[loop.header].phis)

    def _used(self, loop: Loop) -> set[str]:
        """The varying values from outside of a loop that it computes with."""
        blocks = [self._blocks[label] for label in loop.labels]
        made = self._analyses.function.results(loop.labels)
        return {
            name
            for block in blocks
            for item in block.body
            if item.opcode not in ("getelementptr", "load", "store")
            for name in item.uses
            if name in self._flow.varying and name not in made
        }

    @staticmethod
    def _stays(repeated: list[_Repeated]) -> bool:
        """Whether LLVM does not vectorise a loop over threads around these."""
        return any(each.item.stays or each.item.opcode == "fence" for each in repeated)

    def _unrolled_loops(self) -> set[str]:
        """Headers of the loops that LLVM unrolls."""
        function, loops = self._analyses.function, self._analyses.loops
        # What is made from counters and constants folds away, and addresses are parts of accesses.
        folded = {name for loop in loops for name in induction.recurrences(function, loop)}
        sizes = dict.fromkeys(self._blocks, 0.0)
        for label in self._analyses.order:
            for item in self._blocks[label].body:
                inputs = [each.text for each in item.operands if each.is_local]
                if item.result and item.address is None and folded.issuperset(inputs):
                    folded.add(item.result)
                elif item.opcode not in ("getelementptr", "sext", "zext", "trunc"):
                    calls = is_mathematics(item.callee)
                    sizes[label] += MATHEMATICS_COST / ARITHMETIC_COST if calls else 1
        found: set[str] = set()
        for loop in loops:
            count = induction.trip_count(function, loop)
            size = inf if count is None else (count + 1) * sum(sizes[each] for each in loop.labels)
            if size <= _UNROLLED:
                found.add(loop.header)
            sizes |= dict.fromkeys(loop.labels, 0.0)
            sizes[loop.header] = size if size <= _UNROLLED else inf
        return found


def _is_consecutive(each: _Repeated) -> bool:
    """Whether an instruction accesses one element after the other, or none, or always one."""
    return not is_access(each.item) or each.step in (0, size_of_access(each.item))


def splits_around(
    analyses: Analyses,
    flow: Uniformity,
    strips: Iterable[str],
    splits: Iterable[str],
    position: int,
) -> dict[str, tuple[int, ...]]:
    """Where to split, block by block, in front of the loops `strips` and behind them, so that what
    is around them stays out of strips: if there are accesses to places of each thread's own, for
    which lanes are slower than threads one after the other.

    `splits` are the labels that the function is split at anyway.
    """
    blocks, successors = analyses.function.blocks, analyses.successors
    stops = flow.divergent | flow.exiting | set(splits)
    stops |= {label for label, _, _ in barriers(analyses.function)}
    nests = [loop.labels for loop in analyses.loops if not loop.labels & stops]
    found: dict[str, tuple[int, ...]] = {}
    inside: set[str] = set()
    for header in strips:
        # Inner loops come first.
        nest = next((labels for labels in reversed(nests) if header in labels), frozenset())
        inside |= nest
        for label in successors.keys() - nest - flow.divergent:
            end = blocks[label].terminator
            uniform = isinstance(end, Instruction) and flow.varying.isdisjoint(end.uses)
            if uniform and nest.intersection(successors[label]):
                found[label] = (*found.get(label, ()), len(blocks[label].body))
        leaves = {target for label in nest for target in successors[label]}
        for label in leaves - nest - flow.divergent:
            found[label] = (0, *found.get(label, ()))
    strides = analyses.get(by_thread)
    items = [item for label in blocks.keys() - inside for item in blocks[label].body]
    if all(
        strides.of(item.address)[position] in (0, size_of_access(item))
        for item in items
        if is_access(item)
    ):
        return {}
    # In the order of the blocks, so that the same kernel is always split alike.
    return {label: found[label] for label in blocks if label in found}
