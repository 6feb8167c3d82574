"""From a kernel's body to a module that runs blocks of one size; chooses the way to run them."""

import re
from dataclasses import dataclass, replace
from math import prod

from haulage.backends.cpu_driver.waiting import WAITS
from haulage.compiler.simt import (
    atomics,
    body,
    coroutines,
    cut_way,
    cuts,
    entry,
    grids,
    jam,
    leaving,
    locks,
    suspending,
    totals,
    uniformity,
    warps,
    yields,
)
from haulage.compiler.simt.alone import expanded
from haulage.compiler.simt.axis_order import DEFAULT_ORDER, axis_order
from haulage.compiler.simt.block_function import ROOM_DECLARATION, heap_bytes
from haulage.targets.base import Target
from haulage.targets.cpu import DYNAMIC_SHARED, YIELD
from haulage.targets.cpu_lanes import WARP_ROOM

AUTO, CUT, SCALAR, COROUTINES = "auto", "cut", "scalar", "coroutines"
WAYS = (AUTO, CUT, SCALAR, COROUTINES)


class CannotCut(Exception):
    """The body has barriers that perhaps not all threads reach, whose numbers are `places`, or its
    threads wait for writes of one another."""

    def __init__(self, places: list[int]) -> None:
        what = f"barriers {places} stand in divergent flow" if places else "threads wait for writes"
        super().__init__(what)
        self.places = places


@dataclass(frozen=True)
class Transformed:
    """The module's text, the way that was taken, and how many pieces and bytes it has.

    `pieces` is 0 for coroutines; `order` has the grid's axes, that along which blocks follow one
    another last; `shared_bytes` and `local_bytes` are per block and per thread,
    `block_bytes` what a block may take that waits for its grid; `uses_dynamic_shared` whether the
    address of the launch's dynamic shared memory is needed; `jammed` whether a few threads run side
    by side somewhere (`jam.py`).
    """

    llvm: str
    way: str
    pieces: int
    order: str
    shared_bytes: int
    local_bytes: int
    block_bytes: int
    uses_dynamic_shared: bool
    jammed: bool


# Without one of these no thread sees what another block, or the host, writes while both run.
_SEES_OTHERS = re.compile(rf"\b(atomicrmw|cmpxchg|fence|volatile|load atomic|{YIELD})\b")


def transform(
    text: str, target: Target, block: tuple[int, int, int], way: str, cooperative: bool = False
) -> Transformed:
    """Make the module for one block size (x, y, z) from the cleaned-up text of a kernel's module.

    `cooperative` kernels are made as `grids.py` says; others may have no barrier of the grid. The
    scalar way is meant to be optimised without widening.

    Raises:
        CannotCut: `way` is "cut" and that cannot be done.
        NotInlined: a function that calls itself has a barrier or a shared array.
    """
    kernel = body.read(text, target)
    waiting = yields.are_in(kernel.function)
    # Where locks of the block are held is seen before their atomic operations become plain ones.
    held = locks.held(kernel.function)
    waits = waiting and (cooperative or locks.are_contended(kernel.function, block))
    if waiting and not waits and way != COROUTINES:
        kernel = replace(kernel, function=yields.without(kernel.function))
    private = frozenset(room.name for room in kernel.private)
    rooms = private | {room.name for room in kernel.shared}
    of_block = rooms | {f"%{DYNAMIC_SHARED}"}
    atomics.in_rooms(kernel.function, of_block)
    added: tuple[totals.Total, ...] = ()
    if way != SCALAR and not cooperative and not waiting:
        added = totals.find(kernel.function, of_block)
    adding = totals.mark(kernel.function, added)
    arms = leaving.leaving_arms(kernel.function)
    present = uniformity.analyse(kernel.function, private, arms)
    lanes = warps.warps_of(kernel.function, block, target.warp_size)
    of_warp = present
    if lanes is not None:
        of_warp = uniformity.analyse(kernel.function, private, arms, lanes)
    divergent = cuts.divergent_barriers(kernel.function, private, arms, present, of_warp)
    if way == CUT and (divergent or waits):
        raise CannotCut(divergent)
    count = 0
    declared: list[str] = []
    # Who waits for another block expects that blocks begin with x the fastest axis.
    order = DEFAULT_ORDER
    if way != SCALAR and not waiting:
        order = axis_order(kernel.function, block)
    run = None
    if way == COROUTINES or divergent or waits:
        taken = COROUTINES
        alone = expanded(text, target)
        if alone != text:
            return transform(alone, target, block, COROUTINES, cooperative)
        parts = [coroutines.write(kernel, block, cooperative)]
    else:
        taken = SCALAR if way == SCALAR else CUT
        facts = cut_way.Facts(private, of_warp, lanes, held)
        written = cut_way.write(
            kernel, target, block, order, facts, scalar=way == SCALAR, cooperative=cooperative
        )
        kernel, count, declared = written.kernel, written.pieces, written.declared
        order, run = written.order, written.run
        parts = [written.text]
    if taken == COROUTINES:
        parts.insert(0, suspending.DECLARATIONS)
        parts.insert(0, yields.DECLARATIONS)
    if taken == COROUTINES or cooperative or heap_bytes(kernel, prod(block)):
        parts.insert(0, suspending.HEAP_DECLARATIONS)
    parts.insert(0, ROOM_DECLARATION)
    if cooperative:
        start = grids.write_entry(kernel, framed=taken != COROUTINES)
    else:
        start = entry.write(kernel, prod(block), order, added, run)
    if _SEES_OTHERS.search(text):
        parts.append(f"define void @{WAITS}() {{\n  ret void\n}}")
    module = "\n\n".join([kernel.around, *declared, start, adding, *parts])
    return Transformed(
        _without_repeated_declarations(module),
        taken,
        count,
        DEFAULT_ORDER if cooperative else order,
        sum(room.nbytes for room in kernel.shared if room.name != f"%{WARP_ROOM}"),
        sum(room.nbytes for room in kernel.private),
        grids.block_bytes(kernel, block) if cooperative else 0,
        any(
            f"%{DYNAMIC_SHARED}" in item.operands
            for part in kernel.function.blocks.values()
            for item in part.instructions()
        ),
        jam.is_in(module),
    )


def _without_repeated_declarations(module: str) -> str:
    """The module with each function declared once; the first declaration stands."""
    seen: set[str] = set()
    lines: list[str] = []
    for line in module.splitlines():
        if line.startswith("declare "):
            name = line.split("@", 1)[1].split("(", 1)[0]
            if name in seen:
                continue
            seen.add(name)
        lines.append(line)
    return "\n".join(lines) + "\n"
