"""Blocks that follow one another along an axis, run as one wide block.

A block of 32 x 8 threads goes over eight rows, 32 elements of each; loops by hand go along whole
rows, and so does memory best. If a kernel's threads use their index along an axis in no other way
than `blockIdx * blockDim + threadIdx`, nobody can tell blocks that are coalesced from one block
whose threads are numbered on: thread 40 from block 7 of 32 threads on is thread 8 of block 8, and
7 * 32 + 40 is 8 * 32 + 8. The block function is then given how wide the block is, and its loops go
along all of it. Magni, Dubach and O'Boyle, "A Large-Scale Cross-Architecture Evaluation of Thread
Coarsening" (SC 2013), do the same within a thread.

It takes a kernel without barriers, shared arrays and memory of each thread's own, none of whose
threads may wait for another one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.affine import Form, Symbol, forms, number
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.strides import UNKNOWN, by_thread
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Function, Instruction, Operand
from haulage.compiler.simt.ir.types import PROMISES, bits_of
from haulage.compiler.simt.regions.parallel_regions import Regions
from haulage.targets.cpu import DYNAMIC_SHARED, PAUSE

# Threads of coalesced blocks along their axis: with a few rows their memory stays in the second
# level of the cache, and an index is far from what 32 bits can hold.
WIDEST = 4096

WIDTH = "%width"

# In functions that are called: by these a thread could wait for one of another block.
_WAITING_OR_AWAITED = re.compile(
    rf"\b(atomicrmw|cmpxchg|fence|volatile|load atomic|store atomic)\b|@{PAUSE}\b"
)
_AFFINE = frozenset(("zext", "sext", "getelementptr", "add", "sub", "mul", "shl"))


@dataclass(frozen=True)
class WideBlock:
    """Up to `blocks` blocks along `axis`, each of `size` threads along it, run as one."""

    axis: str
    size: int
    blocks: int

    @property
    def width(self) -> int:
        """The most threads along the axis."""
        return self.size * self.blocks

    def widened(self, block: tuple[int, int, int]) -> tuple[int, int, int]:
        """The size of the widest block."""
        x, y, z = (
            self.width if axis == self.axis else size
            for axis, size in zip(AXES, block, strict=True)
        )
        return x, y, z


def wide_block(axis: str, block: tuple[int, int, int]) -> WideBlock | None:
    """Blocks coalesced along an axis, None if there is room for one only."""
    size = block[AXES.index(axis)]
    blocks = WIDEST // size
    return WideBlock(axis, size, blocks) if blocks > 1 else None


def widest(block: tuple[int, int, int], axes: Iterable[str]) -> tuple[int, int, int]:
    """The size of a block of a size, were it as wide as can be along each of some axes."""
    x, y, z = (WIDEST if axis in axes else size for axis, size in zip(AXES, block, strict=True))
    return x, y, z


def axes(body: Body, analyses: Analyses, block: tuple[int, int, int]) -> tuple[str, ...]:
    """The axes along which blocks of one size can be coalesced."""
    function = body.function
    items = list(function.instructions())
    used = {name for item in items for name in item.uses}
    if (
        body.shared
        or body.private
        or barriers(function)
        or f"%{DYNAMIC_SHARED}" in used
        or any(_may_wait(item) for item in items)
        or any(item.opcode == "atomicrmw" and item.result in used for item in items)
        or _WAITING_OR_AWAITED.search(body.around)
    ):
        return ()
    # Along an axis that a kernel has no index for, threads would only repeat one another.
    return tuple(
        axis
        for axis, size in zip(AXES, block, strict=True)
        if f"%threadIdx.{axis}" in used and analyses.get(IndexUses, axis, size).are_sums
    )


def prepared(analyses: Analyses, axes: Iterable[str], block: tuple[int, int, int]) -> Function:
    """The function with indices as large as they are in blocks coalesced along one of `axes`, and
    without promises of LLVM that only held for indices of one block."""
    loose: set[str] = set()
    for axis in axes:
        loose |= analyses.get(IndexUses, axis, block[AXES.index(axis)]).loose
    changed = analyses.function.copy()
    for part in changed.blocks.values():
        part.body = [item.without(PROMISES) if item.result in loose else item for item in part.body]
    wide = {f"%threadIdx.{axis}": f"i32 range(i32 0, {WIDEST})" for axis in axes}
    changed.parameters = tuple(
        replace(each, type=wide.get(each.name, each.type)) for each in changed.parameters
    )
    return changed


def _may_wait(item: Instruction) -> bool:
    return item.callee == PAUSE or item.opcode in ("cmpxchg", "fence") or item.is_ordered


class IndexUses:
    """What a function does with its indices along one axis.

    `are_sums` is whether it is the same function of `blockIdx * size + threadIdx`, whatever the two
    are; `loose` are the values on the way to that sum whose promises may not hold in wide blocks.
    """

    def __init__(self, analyses: Analyses, axis: str, size: int) -> None:
        self._ranges = analyses.get(ValueRanges)
        self._forms = analyses.get(forms)
        self._thread, self._block = (Symbol(f"%{name}.{axis}", "i32") for name in _INDICES)
        self._size = {Symbol(f"%blockDim.{axis}", "i32"): number(size)}
        # The thread's index by the sum and the block's index.
        without_block = Form({(self._thread,): 1, (self._block,): -size})
        self._by_sum = {**self._size, self._thread: without_block}
        self.loose: set[str] = set()
        self.are_sums = all(map(self._allows, analyses.function.instructions()))

    def _is_partial(self, operand: Operand) -> bool:
        """Whether a value depends on the indices otherwise than by their sum."""
        form = self._forms.of(operand)
        return self._block in form.replaced(self._by_sum).symbols

    def _allows(self, item: Instruction) -> bool:
        """Whether an instruction takes the indices on their way to the sum, if it takes them."""
        if not any(map(self._is_partial, item.operands)):
            return True
        if item.result is None or item.opcode not in _AFFINE:
            return False
        result = Operand(item.type, item.result)
        if any(each.value == item.result for each in self._forms.of(result).symbols):
            return False
        if not self._is_partial(result):
            return True
        source = item.operands[0]
        form, bits = self._with_size(result), bits_of(item.type) or 64
        of_thread = any(self._thread in self._with_size(each).symbols for each in item.operands)
        pure = form.symbols <= {self._thread, self._block}
        exact = self._fits(form, bits) if of_thread else pure
        if item.opcode == "zext":
            # What is made of the block's index alone is a number of the kernel's own.
            known = form.constant >= 0 if of_thread else self._ranges.is_nonnegative(source.text)
            return known and bits_of(source.type) != 64
        if bits < 64 and item.opcode != "sext":
            # A cast is to find the number itself.
            return exact and (of_thread or "nsw" in item.flags)
        if not exact:
            self.loose.add(item.result)
        return True

    def _with_size(self, operand: Operand) -> Form:
        return self._forms.of(operand).replaced(self._size)

    def _fits(self, form: Form, bits: int) -> bool:
        """Whether a form does not wrap in wide blocks. With the block's index in it that cannot be
        told, as a grid may have very many blocks."""
        step, end = form.monomials.get((self._thread,), 0), 1 << bits - 1
        own = form.monomials.keys() <= {(), (self._thread,)}
        largest = step * WIDEST + form.constant
        return own and step >= 0 and -end <= form.constant and largest < end


_INDICES = ("threadIdx", "blockIdx")


def is_profitable(regions: Regions, axis: str) -> bool:
    """Whether a kernel is faster with blocks coalesced along an axis.

    Long loops suit memory. But a loop whose trip count LLVM knows is sometimes vectorised, or
    unrolled, where a longer one is not: with accesses by a stride that is known to nobody, or with
    a loop of the kernel's own within.
    """
    if len(regions.regions) > 1:
        return False
    strides, position = regions.analyses.get(by_thread), AXES.index(axis)
    return all(
        strides.of(item.address)[position] != UNKNOWN
        for item in regions.function.instructions()
        if item.opcode in ("load", "store")
    )
