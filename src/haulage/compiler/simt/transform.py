"""From a kernel's body to a module that runs blocks of one size; chooses the way to run them."""

import re
from dataclasses import dataclass, replace
from math import prod

from haulage.backends.cpu_driver.waiting import WAITS
from haulage.compiler.simt import cut_way
from haulage.compiler.simt.analysis import early_exit, kernel, locks, uniformity, warps
from haulage.compiler.simt.coroutines import cooperative_grid, intrinsics, lowering, yields
from haulage.compiler.simt.coroutines.isolated import expanded
from haulage.compiler.simt.emit import entry
from haulage.compiler.simt.emit.block_function import ROOM_DECLARATION, heap_bytes
from haulage.compiler.simt.loops import block_atomics, privatization
from haulage.compiler.simt.loops.axis_order import DEFAULT_ORDER, axis_order
from haulage.compiler.simt.regions import fission
from haulage.compiler.simt.work_items import unroll_and_jam
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
    """The module's text, the way that was taken, and how many regions and bytes it has.

    `regions` is 0 for coroutines; `order` has the grid's axes, that along which blocks follow one
    another last; `shared_bytes` and `local_bytes` are per block and per thread,
    `block_bytes` what a block may take that waits for its grid; `uses_dynamic_shared` whether the
    address of the launch's dynamic shared memory is needed; `jammed` whether a few threads run side
    by side somewhere (`unroll_and_jam.py`).
    """

    llvm: str
    way: str
    regions: int
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

    `cooperative` kernels are made as `cooperative_grid.py` says; others may have no barrier of the
    grid. The scalar way is meant to be optimised without widening.

    Raises:
        CannotCut: `way` is "cut" and that cannot be done.
        NotInlined: a function that calls itself has a barrier or a shared array.
    """
    body = kernel.read(text, target)
    waiting = yields.are_in(body.function)
    # Where locks of the block are held is seen before their atomic operations become plain ones.
    held = locks.held(body.function)
    waits = waiting and (cooperative or locks.are_contended(body.function, block))
    if waiting and not waits and way != COROUTINES:
        body = replace(body, function=yields.without(body.function))
    private = frozenset(room.name for room in body.private)
    rooms = private | {room.name for room in body.shared}
    of_block = rooms | {f"%{DYNAMIC_SHARED}"}
    block_atomics.mark_plain(body.function, of_block)
    added: tuple[privatization.Total, ...] = ()
    if way != SCALAR and not cooperative and not waiting:
        added = privatization.find(body.function, of_block)
    adding = privatization.mark(body.function, added)
    arms = early_exit.early_exits(body.function)
    present = uniformity.analyse(body.function, private, arms)
    lanes = warps.warps_of(body.function, block, target.warp_size)
    of_warp = present
    if lanes is not None:
        of_warp = uniformity.analyse(body.function, private, arms, lanes)
    divergent = fission.divergent_barriers(body.function, private, arms, present, of_warp)
    if way == CUT and (divergent or waits):
        raise CannotCut(divergent)
    count = 0
    declared: list[str] = []
    # Who waits for another block expects that blocks begin with x the fastest axis.
    order = DEFAULT_ORDER
    if way != SCALAR and not waiting:
        order = axis_order(body.function, block)
    run = None
    if way == COROUTINES or divergent or waits:
        taken = COROUTINES
        alone = expanded(text, target)
        if alone != text:
            return transform(alone, target, block, COROUTINES, cooperative)
        parts = [lowering.write(body, block, cooperative)]
    else:
        taken = SCALAR if way == SCALAR else CUT
        facts = cut_way.Facts(private, of_warp, lanes, held)
        written = cut_way.write(
            body, target, block, order, facts, scalar=way == SCALAR, cooperative=cooperative
        )
        body, count, declared = written.kernel, written.regions, written.declared
        order, run = written.order, written.run
        parts = [written.text]
    if taken == COROUTINES:
        parts.insert(0, intrinsics.DECLARATIONS)
        parts.insert(0, yields.DECLARATIONS)
    if taken == COROUTINES or cooperative or heap_bytes(body, prod(block)):
        parts.insert(0, intrinsics.HEAP_DECLARATIONS)
    parts.insert(0, ROOM_DECLARATION)
    if cooperative:
        start = cooperative_grid.write_entry(body, framed=taken != COROUTINES)
    else:
        start = entry.write(body, prod(block), order, added, run)
    if _SEES_OTHERS.search(text):
        parts.append(f"define void @{WAITS}() {{\n  ret void\n}}")
    module = "\n\n".join([body.around, *declared, start, adding, *parts])
    return Transformed(
        _without_repeated_declarations(module),
        taken,
        count,
        DEFAULT_ORDER if cooperative else order,
        sum(room.nbytes for room in body.shared if room.name != f"%{WARP_ROOM}"),
        sum(room.nbytes for room in body.private),
        cooperative_grid.block_bytes(body, block) if cooperative else 0,
        any(
            f"%{DYNAMIC_SHARED}" in item.uses
            for part in body.function.blocks.values()
            for item in part.instructions()
        ),
        unroll_and_jam.is_in(module),
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
