"""Writes the function that the CPU device calls: it runs a range of blocks of one launch.

`i64 haulage_entry(ptr launch, i64 first, i64 last)` runs blocks [first, last) in the order of their
numbers and gives the largest of their faults, 0 for none. `launch` points to the
grid's and the block's sizes (three 32-bit numbers each), the bytes of dynamic shared memory, and
from byte 32 on to the kernel's arguments, packed as C would.

Arrays that a kernel only adds to (`loops/atomics.py`) are privatised here: a call copies an array
if that is small enough to stay in the caches of a core and has no more elements than there are
threads to add to it, and if no other array that the kernel uses overlaps it.

A kernel whose loops keep values in arrays that registers could hold (`scalar_promotion.py`) has two
such functions. Its entry compares where the arrays of the launch lie, and calls one of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from haulage.compiler.argument_block import argument_offsets
from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit.block_function import (
    HEAP_ALIGN,
    heap_allocate,
    heap_bytes,
    heap_free,
    private_align,
    user_parameters,
)
from haulage.compiler.simt.ir.builder import Builder, Loop, Typed
from haulage.compiler.simt.ir.model import Function
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.loops.atomics import SIZES, Array, Reduction
from haulage.compiler.simt.loops.block_coalescing import WIDTH, WideBlock
from haulage.compiler.simt.loops.scalar_promotion import Promotable
from haulage.targets.base import DYNAMIC_SHARED_ALIGN, Target

ENTRY = "haulage_entry"
# Those of a kernel's two bodies: one for launches that pass a test, and one for all.
TESTED, GENERAL = f"{ENTRY}.tested", f"{ENTRY}.general"
_ARGUMENTS_AT = 32

# What a private copy may take, so that it stays in the caches of a core.
_COPIED_BYTES = 64 * 1024


_PARAMETERS: tuple[Typed, ...] = (
    ("ptr noalias readonly", "%launch"),
    ("i64", "%first"),
    ("i64", "%last"),
)


def open_entry() -> Builder:
    """The entry's beginning, which reads the sizes of the grid and of dynamic shared memory."""
    b = Builder(ENTRY, _PARAMETERS, "i64", linkage="")
    b.block("%start")
    for number, axis in enumerate(AXES):
        size = b.load("i32", b.at("i8", "%launch", 4 * number), name=f"%gridDim.{axis}")
        b.cast("zext", "i32", size, "i64", f"%gridDim.{axis}.wide")
    nbytes = b.load("i32", b.at("i8", "%launch", 24))
    b.cast("zext", "i32", nbytes, "i64", "%dynamicSharedBytes")
    return b


def close_entry(b: Builder, fault: str) -> None:
    """End the entry with the largest fault."""
    b.ret("i64", b.cast("zext", "i32", fault, "i64"))


def load_arguments(b: Builder, body: Body, made: Sequence[str] = ()) -> None:
    """Read the user's arguments but those named `made`."""
    user = [each for each in user_parameters(body, attributes=False) if each[1] not in made]
    offsets, _ = argument_offsets(tuple(kind for kind, _ in user))
    for (kind, name), offset in zip(user, offsets, strict=True):
        b.load(kind, b.at("i8", "%launch", _ARGUMENTS_AT + offset), name=name)


def block_arguments(body: Body, index: Mapping[str, str]) -> list[Typed]:
    """What the block function of any strategy is called with first; `index` has the block's."""
    return [
        *(("i32", index[axis]) for axis in AXES),
        *(("i32", f"%gridDim.{axis}") for axis in AXES),
        ("ptr", "%dynamicShared"),
        ("i64", "%dynamicSharedBytes"),
        *user_parameters(body, attributes=False),
    ]


def block_indices(b: Builder, block: str, order: str = "zyx") -> dict[str, str]:
    """The indices, each an i32, of the block with a linear number, which counts along the axes of
    `order`, fastest last."""
    slow, middle, fast = tuple(order)
    rows = b.binary("udiv", "i64", block, f"%gridDim.{fast}.wide")
    wide = {
        fast: b.binary("urem", "i64", block, f"%gridDim.{fast}.wide"),
        middle: b.binary("urem", "i64", rows, f"%gridDim.{middle}.wide"),
        slow: b.binary("udiv", "i64", rows, f"%gridDim.{middle}.wide"),
    }
    return {axis: b.cast("trunc", "i64", wide[axis], "i32") for axis in AXES}


def write(
    body: Body,
    threads: int,
    order: str,
    reductions: Sequence[Reduction] = (),
    wide: WideBlock | None = None,
) -> Function:
    """The entry for blocks of `threads` threads, with private copies of `reductions`, for a block
    function that is given a block, or several as a `wide` one.

    The blocks of a launch are numbered along the axes as `order` names them, fastest last, so that
    blocks that follow one another read neighbouring memory if the threads do.
    """
    b = open_entry()
    b.allocate("i8", DYNAMIC_SHARED_ALIGN, "%dynamicShared", ("i64", "%dynamicSharedBytes"))
    load_arguments(b, body, [reduction.copy for reduction in reductions])
    memory = f"[{_COPIED_BYTES} x i8]"
    copies = [b.allocate(memory, 64, f"{reduction.copy}.copy") for reduction in reductions]
    counts = [_open_copy(b, *each, threads) for each in zip(reductions, copies, strict=True)]
    private, nbytes = "null", heap_bytes(body, threads)
    if nbytes:
        align = max(private_align(body), int(HEAP_ALIGN))
        private = heap_allocate(b, str(align), str(nbytes), owned=True)
    fault = _rows(b, body, order, private, wide)
    for each in zip(reductions, copies, counts, strict=True):
        _merge_copy(b, *each)
    if nbytes:
        heap_free(b, private)
    close_entry(b, fault)
    return b.function


def choosing(b: Builder, holds: str, target: Target) -> str:
    """The text of a module with the entry that is begun in `b`, which goes on in the entry `TESTED`
    of another one if a test of the launch holds, or else in `GENERAL`."""
    arguments = [(kind.split(" ", 1)[0], name) for kind, name in _PARAMETERS]
    b.branch(holds, "%tested", "%general")
    for label, callee in (("%tested", TESTED), ("%general", GENERAL)):
        b.block(label)
        b.ret("i64", b.call("i64", callee, arguments))
    declared = "\n".join(f"declare i64 @{name}(ptr, i64, i64)" for name in (TESTED, GENERAL))
    layout = f'target datalayout = "{target.data_layout}"\ntarget triple = "{target.triple}"'
    return f"{layout}\n\n{declared}\n\n{definition(b.function)}\n"


def choosing_by_arrays(body: Body, promotable: Promotable, target: Target) -> str:
    """The text of a module with the entry that goes on in `TESTED` if the promotable arrays of the
    launch overlap no other ones."""
    b = open_entry()
    load_arguments(b, body)
    extents = {array.data: _extent(b, array) for array in promotable.accessed}
    holds = "true"
    for one, other in promotable.pairs:
        is_apart = _are_apart(b, extents[one.data], extents[other.data])
        holds = b.binary("and", "i1", holds, is_apart)
    return choosing(b, holds, target)


# ---- the loops over blocks ----------------------------------------------------------------------


def _rows(b: Builder, body: Body, order: str, private: str, wide: WideBlock | None) -> str:
    """Run the blocks row by row of the grid's fastest axis; returns the largest fault.

    A loop over the blocks' numbers would divide twice for each block, and nothing that only the
    other two indices decide would stay in registers.
    """
    slow, middle, fast = tuple(order)
    start = block_indices(b, "%first", order)
    with b.repeat("row") as rows:
        first = rows.carry("i64", "%first", "row.first")
        fault = rows.carry("i32", "0", "row.fault")
        begin = rows.carry("i32", start[fast], "row.begin")
        index = {
            axis: rows.carry("i32", start[axis], f"blockIdx.{axis}") for axis in (middle, slow)
        }
        left = b.cast("zext", "i32", b.binary("sub", "i32", f"%gridDim.{fast}", begin), "i64")
        last = b.extremum("umin", "i64", b.binary("add", "i64", first, left), "%last")
        with b.repeat("blocks") as blocks:
            block = blocks.carry("i64", first, "block")
            worst = blocks.carry("i32", fault, "fault")
            index[fast] = blocks.carry("i32", begin, f"blockIdx.{fast}")
            arguments = [*block_arguments(body, index), ("ptr", private)]
            step = count = "1"
            if wide is not None:
                left = b.binary("sub", "i64", last, block, "nuw", "nsw")
                count = b.extremum("umin", "i64", left, str(wide.blocks))
                step = b.cast("trunc", "i64", count, "i32", "count")
                width = b.binary("mul", "i32", step, str(wide.size), "nuw", "nsw", name=WIDTH)
                arguments.append(("i32", width))
            this = b.call("i32", "haulage.block", arguments)
            worst = blocks.set(worst, b.extremum("umax", "i32", worst, this))
            blocks.set(index[fast], b.binary("add", "i32", index[fast], step, "nuw"))
            after = blocks.set(block, b.binary("add", "i64", block, count, "nuw", "nsw"))
            blocks.more = b.compare("ult", "i64", after, last)
        rows.set(first, last)
        rows.set(fault, worst)
        rows.set(begin, "0")
        after = b.binary("add", "i32", index[middle], "1", "nuw")
        is_full = b.compare("eq", "i32", after, f"%gridDim.{middle}")
        rows.set(index[middle], b.select(is_full, "i32", "0", after))
        carry = b.cast("zext", "i1", is_full, "i32")
        rows.set(index[slow], b.binary("add", "i32", index[slow], carry, "nuw"))
        rows.more = b.compare("ult", "i64", last, "%last")
    return worst


# ---- privatised reductions ----------------------------------------------------------------------


def _open_copy(b: Builder, reduction: Reduction, copy: str, threads: int) -> str:
    """Begin a private copy of an array if that is worth it and allowed, whose address, or null, is
    `reduction.copy`; returns how many elements it has."""
    array, size = reduction.array, SIZES[reduction.type]
    nbytes = b.binary("mul", "i64", array.items, str(size))
    extent = array.data, b.element("i8", array.data, nbytes)
    blocks = b.binary("sub", "i64", "%last", "%first")
    adding = b.binary("mul", "i64", blocks, str(threads))
    copied = b.compare("ule", "i64", array.items, str(_COPIED_BYTES // size))
    for condition in (
        b.compare("eq", "i64", array.itemsize, str(size)),
        b.compare("ule", "i64", array.items, adding),
        *(_are_apart(b, extent, _extent(b, other)) for other in reduction.others),
    ):
        copied = b.binary("and", "i1", copied, condition)
    b.select(copied, "ptr", copy, "null", reduction.copy)
    count = b.select(copied, "i64", array.items, "0")
    with _each(b, "copy.start", count) as loop:
        b.store(reduction.type, reduction.identity, b.at(reduction.type, copy, loop.index))
    return count


def _extent(b: Builder, array: Array) -> tuple[str, str]:
    """Where an array begins, and where it ends."""
    low, high = "0", array.itemsize
    for size, stride in zip(array.shape, array.strides, strict=True):
        span = b.binary("mul", "i64", b.binary("sub", "i64", size, "1"), stride)
        low = b.binary("add", "i64", low, b.extremum("smin", "i64", span, "0"))
        high = b.binary("add", "i64", high, b.extremum("smax", "i64", span, "0"))
    return b.element("i8", array.data, low), b.element("i8", array.data, high)


def _are_apart(b: Builder, one: tuple[str, str], other: tuple[str, str]) -> str:
    """Whether two extents have no byte in common."""
    is_before = b.compare("ule", "ptr", one[1], other[0])
    is_behind = b.compare("ule", "ptr", other[1], one[0])
    return b.binary("or", "i1", is_before, is_behind)


def _merge_copy(b: Builder, reduction: Reduction, copy: str, count: str) -> None:
    """Add what was added to a copy to its array."""
    kind, bits = reduction.type, f"i{8 * SIZES[reduction.type]}"
    with _each(b, "copy.merge", count) as loop:
        value = b.load(kind, b.at(kind, copy, loop.index))
        untouched = b.cast("bitcast", kind, reduction.identity, bits)
        is_changed = b.compare("ne", bits, b.cast("bitcast", kind, value, bits), untouched)
        with b.when(is_changed, "copy.add"):
            address = b.element(kind, reduction.array.data, loop.index)
            b.atomic(reduction.operation, kind, address, value, "monotonic")


@contextmanager
def _each(b: Builder, hint: str, count: str) -> Iterator[Loop]:
    """A loop over `count` elements, which may be none."""
    with b.when(b.compare("ne", "i64", count, "0"), f"{hint}.any"), b.loop(hint, count) as loop:
        yield loop
