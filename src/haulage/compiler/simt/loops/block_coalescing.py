"""Runs of blocks that follow one another along an axis, run as one wide block.

A block of 32 x 8 threads goes over eight rows, 32 elements of each; loops by hand go along whole
rows, and so does memory best. If a kernel's threads use their index along an axis in no other way
than `blockIdx * blockDim + threadIdx`, nobody can tell a run of blocks from one block whose threads
are numbered on: thread 40 of a run that begins with block 7 of 32 threads is thread 8 of block 8,
and 7 * 32 + 40 is 8 * 32 + 8. The block function is then given how wide the run is, and its loops
go along all of it.

It takes a kernel without barriers, shared arrays and memory of each thread's own, none of whose
threads may wait for another one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.compiler.simt.ir.types import size_of
from haulage.targets.cpu import DYNAMIC_SHARED, PAUSE

# Threads of a run along its axis: with a few rows a run's memory stays in the second level of the
# cache, and an index is far from what 32 bits can hold.
WIDEST = 4096

WIDTH = "%width"

_VALUE = r'%"[^"]*"|%[-\w$.]+|-?\d+'
_PAIR = re.compile(rf"({_VALUE}), ({_VALUE})(?:, !.*)?$")
_ELEMENT = re.compile(
    r"getelementptr (?:(?:inbounds|nuw|nusw) )*(?P<type>\S.*?), "
    rf"ptr (?P<base>{_VALUE}), i64 (?P<index>{_VALUE})(?:, !.*)?$"
)
_BITS = re.compile(r"i(\d+)$")
_NUMBER = re.compile(r"-?\d+")
_PROMISES = frozenset(("nuw", "nsw", "inbounds", "nusw"))
# By these a thread could wait for one of another block, or be waited for; atomic operations whose
# results are used are looked for by themselves.
_WAITING_OR_AWAITED = re.compile(r"\b(cmpxchg|fence|volatile|load atomic|store atomic)\b")


@dataclass(frozen=True)
class Run:
    """Runs along `axis` of up to `blocks` blocks, each of `size` threads along it."""

    axis: str
    size: int
    blocks: int

    @property
    def width(self) -> int:
        """The most threads of a run along its axis."""
        return self.size * self.blocks

    def widened(self, block: tuple[int, int, int]) -> tuple[int, int, int]:
        """The size of the widest run of blocks."""
        x, y, z = (
            self.width if axis == self.axis else size
            for axis, size in zip(AXES, block, strict=True)
        )
        return x, y, z


def run_of(axis: str, block: tuple[int, int, int]) -> Run | None:
    """Runs of blocks along an axis, None if there is no more than one block in one."""
    size = block[AXES.index(axis)]
    blocks = WIDEST // size
    return Run(axis, size, blocks) if blocks > 1 else None


def widest(block: tuple[int, int, int], axes: Iterable[str]) -> tuple[int, int, int]:
    """The size of a block of a size, were it a run along each of some axes."""
    x, y, z = (WIDEST if axis in axes else size for axis, size in zip(AXES, block, strict=True))
    return x, y, z


def axes(body: Body, block: tuple[int, int, int]) -> tuple[str, ...]:
    """The axes along which blocks of one size can be run together."""
    function = body.function
    items = [item for part in function.blocks.values() for item in part.instructions()]
    used = {name for item in items for name in item.uses}
    if (
        body.shared
        or body.private
        or barriers(function)
        or f"%{DYNAMIC_SHARED}" in used
        or any(_may_wait(item) for item in items)
        or any(item.opcode == "atomicrmw" and item.result in used for item in items)
        or re.search(rf"\batomicrmw\b|@{PAUSE}\b", body.around)
        or _WAITING_OR_AWAITED.search(body.around)
    ):
        return ()
    ranges = ValueRanges(function)
    sizes = zip(AXES, block, strict=True)
    # Along an axis that a kernel has no index for, threads would only repeat one another.
    return tuple(
        axis
        for axis, size in sizes
        if f"%threadIdx.{axis}" in used and _Sums(function, axis, size, ranges).are_whole
    )


def prepared(function: Function, axes: Iterable[str], block: tuple[int, int, int]) -> Function:
    """The function with indices as large as they are in a run along one of `axes`, and without
    promises of LLVM that only held for indices of one block."""
    ranges = ValueRanges(function)
    loose: set[str] = set()
    for axis in axes:
        loose |= _Sums(function, axis, block[AXES.index(axis)], ranges).loose
    changed = function.copy()
    for part in changed.blocks.values():
        part.body = [
            item.without(_PROMISES) if item.result in loose else item for item in part.body
        ]
    wide = {f"%threadIdx.{axis}": f"i32 range(i32 0, {WIDEST})" for axis in axes}
    changed.parameters = tuple(
        replace(each, type=wide.get(each.name, each.type)) for each in changed.parameters
    )
    return changed


def _may_wait(item: Instruction) -> bool:
    return item.callee == PAUSE or _WAITING_OR_AWAITED.search(item.text) is not None


@dataclass(frozen=True)
class _Form:
    """`thread` times the thread's index and `block` times the block's along an axis, plus
    `constant`, and plus anything else if it is not `pure`; modulo 2^`bits`."""

    thread: int
    block: int
    constant: int
    pure: bool
    bits: int

    @property
    def is_exact(self) -> bool:
        """Whether the number is one of its signed type, not wrapped, in a run. With the block's
        index in it that cannot be told, as a grid may have very many blocks."""
        end = 1 << self.bits - 1
        largest = self.thread * WIDEST + self.constant
        is_own = self.pure and not self.block
        return is_own and self.thread >= 0 and -end <= self.constant and largest < end


class _Sums:
    """What a function makes of its indices along one axis, on the way to their sum.

    `are_whole` is whether it uses them for nothing but sums with `size` times as much of the
    block's index as of the thread's; `loose` are the values on the way whose promises may not hold
    in a run.
    """

    def __init__(self, function: Function, axis: str, size: int, ranges: ValueRanges) -> None:
        self._size = size
        self._ranges = ranges
        self._block_size = {f"%blockDim.{axis}"}
        self._forms = {
            f"%threadIdx.{axis}": _Form(1, 0, 0, True, 32),
            f"%blockIdx.{axis}": _Form(0, 1, 0, True, 32),
        }
        self.loose: set[str] = set()
        successors = {label: part.successors for label, part in function.blocks.items()}
        order = control_flow.reverse_postorder(successors, function.entry)
        self.are_whole = all(
            self._take(item) for label in order for item in function.blocks[label].instructions()
        )

    def _take(self, item: Instruction) -> bool:
        """Note what an instruction makes; whether it is no other use of an index."""
        sources = [value for value, _ in item.incoming] if item.is_phi else item.uses
        if item.opcode in ("zext", "sext") and sources[0] in self._block_size:
            assert item.result is not None
            self._block_size.add(item.result)
        if not any(name in self._forms for name in sources):
            return True
        form = self._derive(item)
        if form is None or item.result is None:
            return False
        if form.block == self._size * form.thread:
            return True
        if not form.pure or (form.thread and not form.is_exact):
            self.loose.add(item.result)
        self._forms[item.result] = form
        return True

    def _derive(self, item: Instruction) -> _Form | None:
        if item.opcode in ("zext", "sext"):
            return self._cast(item)
        if item.opcode == "getelementptr":
            found = _ELEMENT.search(item.text)
            size = size_of(found["type"]) if found else None
            if found is None or size is None:
                return None
            base, index = self._of(found["base"], 64), self._of(found["index"], 64)
            return _added(base, index, size)
        bits = _BITS.match(item.type)
        pair = _PAIR.search(item.text)
        if bits is None or pair is None or item.opcode not in ("add", "sub", "mul", "shl"):
            return None
        left, right = self._of(pair[1], int(bits[1])), self._of(pair[2], int(bits[1]))
        if item.opcode in ("add", "sub"):
            form = _added(left, right, 1 if item.opcode == "add" else -1)
        else:
            factor = self._factor(pair[2]) if pair[1] in self._forms else self._factor(pair[1])
            if item.opcode == "shl":
                factor = 1 << int(pair[2]) if pair[2].isdigit() else None
            if factor is None:
                return None
            form = _scaled(left if pair[1] in self._forms else right, factor)
        if form.bits == 64 or form.block == self._size * form.thread:
            return form
        # A cast is to find the number itself.
        exact = form.is_exact if form.thread else form.pure and " nsw " in item.text
        return form if exact else None

    def _cast(self, item: Instruction) -> _Form | None:
        form, bits = self._forms[item.uses[0]], _BITS.match(item.type)
        if bits is None or form.bits == 64:
            return None
        # What is made of the block's index alone is a number of the kernel's own.
        positive = form.constant >= 0 if form.thread else self._ranges.is_nonnegative(item.uses[0])
        return replace(form, bits=int(bits[1])) if positive or item.opcode == "sext" else None

    def _of(self, value: str, bits: int) -> _Form:
        if _NUMBER.fullmatch(value):
            return _Form(0, 0, int(value), True, bits)
        return self._forms.get(value) or _Form(0, 0, 0, False, bits)

    def _factor(self, value: str) -> int | None:
        if value in self._block_size:
            return self._size
        return int(value) if _NUMBER.fullmatch(value) else None


def _added(left: _Form, right: _Form, factor: int) -> _Form:
    return _Form(
        left.thread + factor * right.thread,
        left.block + factor * right.block,
        left.constant + factor * right.constant,
        left.pure and right.pure,
        left.bits,
    )


def _scaled(form: _Form, factor: int) -> _Form:
    return _added(_Form(0, 0, 0, True, form.bits), form, factor)
