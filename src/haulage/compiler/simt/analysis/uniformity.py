"""Which values are uniform, the same in all threads of a block, and which blocks are divergent.

The rule of sync dependence as in Karrenberg and Hack, "Improving Performance of OpenCL on CPUs"
(CC 2012), and LLVM's `UniformityInfo`: a value varies if something it is made from does, or if
different ones are merged where threads that diverged meet. A load from one address gives all
threads one value, unless the memory may be written between the same two barriers
(`memory_dependence.py`).

The lanes of a warp have more in common than a block. They follow one another, so what is made of
the higher bits of a thread's number is the same in all of them: `threadIdx.x // 32`, `threadIdx.x <
64`. So are a lane's answer that all asked for and the result of a vote.
"""

import itertools
from collections.abc import Iterable, Set
from dataclasses import dataclass
from math import prod

from haulage.compiler.mathematics.definitions import PURE
from haulage.compiler.simt.analysis import control_flow, memory_dependence
from haulage.compiler.simt.analysis.affine import THREAD, Form, forms
from haulage.compiler.simt.analysis.barriers import BARRIERS, BLOCK_WIDE, WAVE_BARRIERS, barriers
from haulage.compiler.simt.analysis.exits import early_exits
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand
from haulage.targets.cpu import WAVE_BARRIER, WAVE_SIZE
from haulage.targets.cpu_lanes import COLLECTIVES

THREAD_INDEX = frozenset(("%threadIdx.x", "%threadIdx.y", "%threadIdx.z"))
# The number of a thread's lane, by which the writers of regions give it its elements.
LANE = "%thread"
# Comparisons with a multiple of the warp's size, and with one less than that.
_BELOW = frozenset(("ult", "uge", "slt", "sge"))
_ABOVE = frozenset(("ugt", "ule", "sgt", "sle"))


@dataclass(frozen=True)
class Warps:
    """Warps of `size` lanes in blocks of `block` threads (x, y, z)."""

    size: int
    block: tuple[int, int, int]

    @property
    def follow_x(self) -> bool:
        """Whether the lanes of each warp differ in x only, and x is the lane's number plus a
        multiple of the warp's size."""
        return self.block[0] % self.size == 0 or self.block[1:] == (1, 1)

    @property
    def threads(self) -> int:
        return prod(self.block)

    @property
    def count(self) -> int:
        """Warps of a block; the last one may have fewer threads than lanes."""
        return -(-self.threads // self.size)

    def thread_index(self) -> frozenset[str]:
        """The parts of a thread's index that differ between lanes."""
        return frozenset(("%threadIdx.x",)) if self.follow_x else THREAD_INDEX


def warps_of(function: Function, block: tuple[int, int, int], size: int) -> Warps | None:
    """The warps that a body's threads exchange values in or wait for, or None if they don't;
    `size` is that of the kernel's warps. Those that wait for wavefronts go by these."""
    found = {
        function.blocks[label].body[index].callee
        for label, index, _ in barriers(function, WAVE_BARRIERS)
    }
    if not found:
        return None
    return Warps(WAVE_SIZE if WAVE_BARRIER in found else size, block)


@dataclass(frozen=True)
class Uniformity:
    """`varying`: names of values that can differ; `divergent`: labels that only some threads of a
    block may be at, at one time; `exiting`: those with the branch of an early exit, whose threads
    were not counted."""

    varying: frozenset[str]
    divergent: frozenset[str]
    exiting: frozenset[str] = frozenset()

    @property
    def masks(self) -> bool:
        """Whether a state has to be kept for each thread: some may have left."""
        return bool(self.exiting)


def analyse(
    analyses: Analyses,
    private: frozenset[str],
    exits: frozenset[str] = frozenset(),
    within: Warps | None = None,
) -> Uniformity:
    """The uniformity of a function, of the threads of a block or of those of a warp (`within`).

    `private` are the names of the memory that each thread has of its own. With `exits`, labels of
    early exits (`exits.py`), this is about the threads that have not left by them.
    """
    blocks, users = analyses.function.blocks, analyses.users
    leaving = {label: analyses.get(early_exits)[label].labels for label in exits}
    # Between barriers of warps one warp runs after another.
    settled_by = BARRIERS if within else BLOCK_WIDE
    index = within.thread_index() if within else THREAD_INDEX
    uniform = analyses.get(warp_uniform, within) if within else frozenset()
    branches = {block.terminator: label for label, block in blocks.items()}
    varying: set[str] = set()
    divergent: set[str] = set()
    exiting: set[str] = set()
    branching: dict[str, None] = {}

    def becomes_uniform(item: Instruction) -> bool:
        """Whether collectives give all lanes of a warp one value, or the index is divided away."""
        return item.result in uniform or (
            within is not None and is_uniform_collective(item, varying)
        )

    def vary(names: Iterable[str | None]) -> None:
        """Add values, and what is made from them."""
        waiting = [*names]
        while waiting:
            name = waiting.pop()
            if name is None or name in varying:
                continue
            varying.add(name)
            for item in users.get(name, ()):
                if item in branches:
                    branching[branches[item]] = None
                elif not becomes_uniform(item):
                    waiting.append(item.result)

    vary((*index, *private, *analyses.get(memory_dependence.clobbered_loads, settled_by)))
    vary(
        item.result
        for item in analyses.items.values()
        if _varies_by_itself(item) and not becomes_uniform(item)
    )
    handled: set[str] = set()
    while branching:
        label, _ = branching.popitem()
        block = blocks[label]
        if label in handled or len(block.successors) < 2:
            continue
        handled.add(label)
        if label in leaving:
            exiting.add(label)
            influenced = leaving[label]
        else:
            stop = analyses.postdominators.get(label, control_flow.EXIT)
            influenced = frozenset(
                control_flow.reachable_until(analyses.successors, block.successors, stop)
            )
            if stop != control_flow.EXIT:
                vary(_merged(analyses, blocks[stop], influenced | {label}))
        divergent |= influenced
        for each in influenced:
            vary(_merged(analyses, blocks[each], blocks.keys()))
        if label in influenced:
            # Threads leave this loop at different times: nothing in it is in step.
            vary(item.result for each in influenced for item in blocks[each].instructions())
    return Uniformity(frozenset(varying), frozenset(divergent), frozenset(exiting))


def divergent_loops(analyses: Analyses, flow: Uniformity) -> set[str]:
    """Headers of the loops that threads do not go round together, or leave at different times."""
    return {
        loop.header
        for loop in analyses.loops
        if loop.header in flow.divergent or loop.labels & flow.exiting
    }


def _merged(analyses: Analyses, block: Block, apart: Set[str]) -> set[str]:
    """The phis of a block to which threads bring different values out of the blocks `apart`."""
    found = set()
    for phi in block.phis:
        brought = [
            operand
            for operand, label in zip(phi.operands, phi.sources, strict=True)
            if label in apart
        ]
        if phi.result and not memory_dependence.are_congruent(analyses, brought):
            found.add(phi.result)
    return found


def _varies_by_itself(item: Instruction) -> bool:
    # What an unknown function gives may differ from call to call.
    is_unknown = item.opcode == "call" and not (item.callee or "").startswith(PURE)
    return is_unknown or item.stays


# ---- warps ---------------------------------------------------------------------------------------


def is_uniform_collective(item: Instruction, varying: Set[str]) -> bool:
    """Whether all lanes that come to the collective `item` get one answer from it."""
    callee = item.callee or ""
    if callee not in COLLECTIVES:
        return False
    asked = item.operands[-2].text
    if callee.startswith("haulage.shuffle."):
        return ".lane." in callee and asked not in varying
    mask = item.operands[1].text if callee.startswith("haulage.match.") else ""
    return asked not in varying and mask not in varying


def warp_uniform(analyses: Analyses, warps: Warps) -> frozenset[str]:
    """Values made of a thread's index that all lanes of a warp have in common nevertheless."""
    return LaneForms(analyses, warps).common


class LaneForms:
    """Which of a function's integers are the lane's number plus what the lanes of a warp have in
    common, a multiple of the warp's size. `common` are the values that such a number is made to
    without the part that lanes differ in."""

    def __init__(self, analyses: Analyses, warps: Warps) -> None:
        self._size = warps.size
        self._forms = analyses.get(forms)
        self._factors = {"%blockDim.x": warps.block[0]}
        self._common = {each.name for each in analyses.function.parameters}
        self._common -= {*warps.thread_index(), LANE}
        items = (analyses.function.blocks[label].body for label in analyses.order)
        found: set[str] = set()
        for item in itertools.chain(*items) if warps.follow_x else ():
            if item.result and self._drops_lane(item):
                found.add(item.result)
                self._common.add(item.result)
        self.common = frozenset(found)

    def is_common(self, operand: Operand) -> bool:
        """Whether a value is made of what all lanes have in common."""
        return all(each.value in self._common for each in self._forms.of(operand).symbols)

    def is_aligned(self, operand: Operand) -> bool:
        """Whether a value is the lane's number plus a common multiple of the warp's size."""
        form = self._forms.of(operand)
        rest = form.plus(Form({(THREAD[0],): 1}), -1)
        return form.exact and all(
            all(each.value in self._common for each in monomial)
            and factor * prod(self._factors.get(each.value, 1) for each in monomial) % self._size
            == 0
            for monomial, factor in rest.monomials.items()
        )

    def _drops_lane(self, item: Instruction) -> bool:
        """Whether the result is made of the part of a number that all lanes have in common."""
        if len(item.operands) != 2 or (number := item.operands[1].number) is None:
            return False
        if item.opcode in ("lshr", "ashr"):
            drops = 1 << number >= self._size
        elif item.opcode == "icmp" and item.predicate in _ABOVE:
            drops = (number + 1) % self._size == 0
        elif item.opcode in ("udiv", "and") or item.predicate in _BELOW:
            drops = number % self._size == 0
        else:
            return False
        return drops and self.is_aligned(item.operands[0])
