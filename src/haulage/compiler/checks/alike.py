"""Finds the blocks of a launch of which the others only repeat what they do with shared memory.

What the threads of a block do with shared memory and at barriers follows in most kernels from their
indices, and not from what they read. Then the blocks do the same, but where a condition on the
block's index comes out differently, as at the end of an array. One block of each sort stands for
the others, which run without checks.

That threads differ by their indices alone is what GPUVerify (Betts et al., OOPSLA 2012) checks for
two arbitrary threads; here all threads of one block are run.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from haulage.compiler.checks.launch_values import OF_BLOCK, Launch, Sum
from haulage.compiler.simt.analysis.exits import stopping
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Block, Instruction, Operand
from haulage.targets.cpu_ir import SHARED_ADDRESS

# More blocks than these are not gone through, nor more sorts of them told apart.
_MOST_BLOCKS, _MOST_SORTS = 1 << 22, 64
_PURE = ("llvm.smin", "llvm.smax", "llvm.umin", "llvm.umax", "llvm.abs", SHARED_ADDRESS)
_MEMORY = ("load", "atomicrmw", "cmpxchg", "alloca")


class Alike:
    """What decides, in a kernel, on some of its calls."""

    def __init__(self, analyses: Analyses, calls: Sequence[tuple[str, Instruction]]) -> None:
        """`calls` has the block of each."""
        self._analyses = analyses
        self._stops = analyses.get(stopping)
        # None: that depends on what is read.
        self.conditions: list[Instruction] | None = self._found(calls)

    def _found(self, calls: Sequence[tuple[str, Instruction]]) -> list[Instruction] | None:
        """The comparisons with a block's index that decide on the calls."""
        items = self._analyses.items
        # Where it is, how, and of barriers of lanes which lanes; what is written does not matter.
        waiting = [each.text for _, call in calls for each in call.operands[1:3]]
        for label in {label for label, _ in calls}:
            waiting += self._deciding_on(label)
        seen, found = set[str](), []
        while waiting:
            name = waiting.pop()
            if name in seen or not name.startswith("%"):
                continue
            seen.add(name)
            if name in OF_BLOCK:
                return None
            item = items.get(name)
            if item is None:
                continue
            if item.opcode in _MEMORY or (
                item.callee is not None and not item.callee.startswith(_PURE)
            ):
                return None
            if item.opcode == "icmp" and self._depends_on_block(item):
                found.append(item)
                continue
            waiting += item.uses
            if item.is_phi:
                waiting += self._choosing(item)
        return found

    def _depends_on_block(self, item: Instruction) -> bool:
        seen, waiting = set[str](), [*item.uses]
        while waiting:
            name = waiting.pop()
            if name in OF_BLOCK:
                return True
            if name not in seen:
                seen.add(name)
                made = self._analyses.items.get(name)
                waiting += made.uses if made is not None else ()
        return False

    def _deciding_on(self, label: str) -> Iterator[str]:
        """The conditions by which threads come to a block, or come to it again."""
        blocks = self._analyses.function.blocks
        for block in blocks.values():
            if self._divides(block):
                comes = self._comes(block.label, lambda at: at == label, ())
                ends = self._comes(block.label, lambda at: not blocks[at].successors, (label,))
                if comes and ends:
                    yield block.condition or ""

    def _choosing(self, phi: Instruction) -> Iterator[str]:
        """The conditions by which a phi has one value or another."""
        label, _ = self._analyses.definitions[phi.result or ""]
        above = self._analyses.dominators[label]
        for block in self._analyses.function.blocks.values():
            if (
                self._divides(block)
                and self._analyses.dominates(above, block.label)
                and self._comes(block.label, lambda at: at == label, ())
            ):
                yield block.condition or ""

    def _divides(self, block: Block) -> bool:
        """Whether threads go on from a block in several ways, other than to a fault."""
        ways = [target for target in block.successors if target not in self._stops]
        return block.condition is not None and len(set(ways)) > 1

    def _comes(self, label: str, to: Callable[[str], bool], around: Sequence[str]) -> bool:
        """Whether a way leads from behind a block to some others, past those of `around`."""
        blocks = self._analyses.function.blocks
        waiting, seen = [label], set[str]()
        while waiting:
            for target in blocks[waiting.pop()].successors:
                if target in seen or target in around or target in self._stops:
                    continue
                if to(target):
                    return True
                seen.add(target)
                waiting.append(target)
        return False

    def sorts(
        self, launch: Launch, grid: tuple[int, int, int]
    ) -> tuple[tuple[int, int, int], ...] | None:
        """A block of each sort; None: all blocks may differ."""
        if self.conditions is None or np.prod(grid, dtype=float) > _MOST_BLOCKS:
            return None
        signs = []
        z, y, x = np.indices(grid[::-1], np.int64)
        indices = dict(zip(OF_BLOCK, (x.ravel(), y.ravel(), z.ravel()), strict=True))
        for each in self.conditions:
            label, _ = self._analyses.definitions[each.result or ""]
            for left, right, order in _compared(each):
                found = launch.difference(left, right, label)
                if found is None:
                    return None
                difference, high = found
                signs.append(_signs(difference, high, indices, order))
        if not signs:
            return ((0, 0, 0),)
        _, first = np.unique(np.stack(signs, axis=1), axis=0, return_index=True)
        if len(first) > _MOST_SORTS:
            return None
        width, height, _ = grid
        return tuple(
            (int(n) % width, int(n) // width % height, int(n) // (width * height)) for n in first
        )


def _compared(item: Instruction) -> Iterator[tuple[Operand, Operand, str]]:
    """The comparisons as signed numbers that decide how one comes out: that of unsigned ones
    depends on which are below 0, too."""
    left, right = item.operands
    yield left, right, item.predicate[-2:]
    if item.predicate[0] == "u" and "samesign" not in item.flags:
        for each in (left, right):
            yield each, Operand(each.type, "0"), "lt"


def _signs(
    difference: Sum, ends: dict[str, float], indices: dict[str, np.ndarray], order: str
) -> np.ndarray:
    """For each block how a comparison of a difference with 0 comes out: the same number for those
    for whose threads it comes out alike."""
    own = np.full(len(indices[OF_BLOCK[0]]), difference.constant, np.int64)
    low = high = 0
    for name, factor in difference.factors.items():
        if name in indices:
            own += factor * indices[name]
        else:
            most = int(factor * ends[name])
            low, high = low + min(0, most), high + max(0, most)
    below, above = own + high < 0, own + low > 0
    if order in ("lt", "ge"):
        above = own + low >= 0
    elif order in ("gt", "le"):
        below = own + high <= 0
    # Where threads differ, what the difference is says how.
    far = np.int64(1) << 62
    return np.where(below, -far, np.where(above, far, own))
