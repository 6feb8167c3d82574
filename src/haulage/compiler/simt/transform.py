"""From a kernel's body to a module that runs blocks of one size; chooses the way to run them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from haulage.backends.cpu_driver.pool_run_ir import WAITS
from haulage.compiler.simt import (
    apart,
    atomics,
    body,
    chunked_loops,
    clipping,
    coroutines,
    cuts,
    divisions,
    entry,
    exchanges,
    few_threads,
    grids,
    guard_starts,
    guards,
    jam,
    leaving,
    lifted_guards,
    locks,
    loop_places,
    meetings,
    pieces,
    plan,
    powers_of_two,
    run_worth,
    runs,
    strided,
    suspending,
    thread_loops,
    totals,
    uniformity,
    warp_loops,
    warps,
)
from haulage.compiler.simt.alone import expanded
from haulage.compiler.simt.axis_order import DEFAULT_ORDER, axis_order
from haulage.compiler.simt.barriers import barriers
from haulage.compiler.simt.block_function import ROOM_DECLARATION, Metadata, heap_bytes
from haulage.compiler.simt.loop_nest import AXES, looped_axes
from haulage.compiler.simt.model import Function
from haulage.compiler.simt.nonnegative import nonnegative
from haulage.compiler.simt.uniformity import Uniformity
from haulage.targets.base import Target
from haulage.targets.cpu import DYNAMIC_SHARED
from haulage.targets.cpu_lanes import WARP_ROOM

AUTO, CUT, SCALAR, COROUTINES = "auto", "cut", "scalar", "coroutines"
WAYS = (AUTO, CUT, SCALAR, COROUTINES)


class CannotCut(Exception):
    """The body has barriers that perhaps not all threads reach; `places` are their numbers."""

    def __init__(self, places: list[int]) -> None:
        super().__init__(f"barriers {places} stand in divergent flow")
        self.places = places


@dataclass(frozen=True)
class Transformed:
    """The module's text, the way that was taken, and how many pieces and bytes it has.

    `pieces` is 0 for coroutines; `shared_bytes` and `local_bytes` are per block and per thread,
    `block_bytes` what a block may take that waits for its grid; `uses_dynamic_shared` whether the
    address of the launch's dynamic shared memory is needed; `jammed` whether a few threads run side
    by side somewhere (`jam.py`).
    """

    llvm: str
    way: str
    pieces: int
    shared_bytes: int
    local_bytes: int
    block_bytes: int
    uses_dynamic_shared: bool
    jammed: bool


# Without one of these no thread sees what another block, or the host, writes while both run.
_SEES_OTHERS = re.compile(r"\b(atomicrmw|cmpxchg|fence|volatile|load atomic)\b")


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
    private = frozenset(room.name for room in kernel.private)
    rooms = private | {room.name for room in kernel.shared}
    of_block = rooms | {f"%{DYNAMIC_SHARED}"}
    # Those of the block's own locks too, which are no atomic operations any more behind this.
    held = locks.held(kernel.function)
    atomics.in_rooms(kernel.function, of_block)
    added: tuple[totals.Total, ...] = ()
    if way != SCALAR and not cooperative:
        added = totals.find(kernel.function, of_block)
    adding = totals.mark(kernel.function, added)
    arms = leaving.leaving_arms(kernel.function)
    present = uniformity.analyse(kernel.function, private, arms)
    lanes = warps.warps_of(kernel.function, block, target.warp_size)
    of_warp = present
    if lanes is not None:
        of_warp = uniformity.analyse(kernel.function, private, arms, lanes)
    divergent = cuts.divergent_barriers(kernel.function, private, arms, present, of_warp)
    if way == CUT and divergent:
        raise CannotCut(divergent)
    count = 0
    declared: list[str] = []
    order = DEFAULT_ORDER if way == SCALAR else axis_order(kernel.function, block)
    run = None
    if way == COROUTINES or divergent:
        taken = COROUTINES
        alone = expanded(text, target)
        if alone != text:
            return transform(alone, target, block, COROUTINES, cooperative)
        parts = [coroutines.write(kernel, block, cooperative)]
    else:
        # The scalar way is what the others are measured by: it is cut where it has to be, only.
        taken = SCALAR if way == SCALAR else CUT
        rests: dict[str, str] = {}
        together = uniformity.analyse(kernel.function, private)
        if way != SCALAR and not held:
            turned = strided.turn(kernel.function, together, block)
            rests = dict(turned.rests)
        joined: tuple[str, ...] = ()
        if way != SCALAR and lanes is None and not (rests or cooperative):
            joined = runs.axes(kernel, block)
        along = order
        if joined:
            along = axis_order(kernel.function, runs.widest(block, joined))
            kernel = replace(kernel, function=runs.prepared(kernel.function, joined, block))
        if rests:
            kernel = replace(kernel, function=turned.function)
            arms = {
                label: arm
                for label, arm in leaving.leaving_arms(kernel.function).items()
                if label not in turned.labels
            }
            present = of_warp = uniformity.analyse(kernel.function, private, arms)
            if lanes is not None:
                of_warp = uniformity.analyse(kernel.function, private, arms, lanes)
        if way != SCALAR:
            powers_of_two.mask_remainders(kernel.function, of_warp.varying)
            declared = divisions.widen(kernel.function, of_warp.varying, target)
        clips = way != SCALAR and lanes is None
        lifted: list[str] = []
        if clips and not rests and barriers(kernel.function):
            known = nonnegative(kernel.function)
            if not _keeps_states(kernel.function, of_warp, known):
                function, lifted = lifted_guards.lift(kernel.function, of_warp, held)
        if lifted:
            kernel = replace(kernel, function=function)
            together = uniformity.analyse(function, private)
            present = of_warp = uniformity.analyse(
                function, private, leaving.leaving_arms(function)
            )
        split = kernel.function.copy()
        exchanged = exchanges.split(split, of_warp)
        loops: list[str] = []
        around: Mapping[str, tuple[int, ...]] = {}
        shape = plan.Shape(block, looped_axes(block, order), _vector_bits(target))
        planned = plan.Plan()
        # Loops that all threads are in together need no lanes.
        if clips and not rests and cuts.parted_loops(kernel.function, of_warp):
            planned = plan.without_cuts(kernel, together, rooms, shape)
            of_warp = together if planned.apart else of_warp
        if way != SCALAR:
            inner = AXES.index(order[-1]) if lanes is None else 0
            turned_loops = loop_places.loops_to_turn(
                kernel.function, of_warp, kernel.private, inner, block[inner]
            )
            turned_loops = [label for label in turned_loops if label not in held]
            loops = [*turned_loops, *rests.values()]
            around = apart.around_atomics(split, of_warp, held)
        known = nonnegative(kernel.function) if clips else frozenset()
        if clips and not _keeps_states(kernel.function, of_warp, known):
            starts = guard_starts.behind_branches(kernel.function, of_warp)
            starts = [label for label in starts if label not in held]
            loops += starts
            behind = meetings.behind_guards(kernel.function, of_warp, frozenset(starts))
            loops += [label for label in behind if label not in held]
            loops = list(dict.fromkeys([*loops, *lifted]))
        given = warp_loops.exchange_rooms(exchanged, lanes) if lanes is not None else ()
        exchanging = replace(kernel, shared=(*kernel.shared, *given))
        rooms |= {room.name for room in given}
        if clips and planned.pieces is None and not planned.apart:
            rare = frozenset((*rests, *few_threads.blocks_of_few(kernel.function)))
            chunked = chunked_loops.chunked_loops(
                kernel.function, of_warp, turned_loops, kernel.shared, inner
            )
            chunks_around = chunked_loops.apart_from_rows(
                kernel.function, of_warp, chunked, set(loops) - set(chunked), inner
            )
            chunks_around = {
                label: places for label, places in chunks_around.items() if label not in held
            }
            cut_function, planned = plan.cut_with_lanes(
                kernel,
                split,
                loops,
                around,
                chunks_around,
                rare,
                chunked,
                of_warp,
                rooms,
                shape,
            )
        else:
            cut_function = cuts.cut(split, loops, around)
        clips = clips and planned.pieces is None
        first = guards.Guards()
        if clips:
            first = clipping.kernel_guards(cut_function, of_warp.varying, known)
            of_warp = replace(of_warp, leaving=of_warp.leaving - first.labels)
        divided = planned.pieces or pieces.divide(cut_function, of_warp, rooms)
        count = len(divided.pieces)
        metadata = Metadata(kernel.around, parallel=way != SCALAR)
        clipped = planned.clipping or clipping.none(divided)
        if clips:
            clipped = clipping.clip(
                divided, of_warp.varying, known, first.guards, parts=not kernel.may_fail
            )
        if (
            along[-1] in joined
            and planned.pieces is None
            and not divided.masked
            and run_worth.is_worth_it(
                divided,
                along[-1],
                order[-1],
                of_warp.varying,
                first,
                clipped.partings[0],
            )
        ):
            run = runs.run_of(along[-1], block)
            order = along if run is not None else order
        if lanes is None:
            written = thread_loops.write(
                kernel, divided, clipped, block, order, metadata, cooperative, planned.lanes, run
            )
        else:
            written = warp_loops.write(exchanging, divided, lanes, exchanged, metadata, cooperative)
        parts = [written, metadata.text()]
    if taken == COROUTINES:
        parts.insert(0, suspending.DECLARATIONS)
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


def _keeps_states(function: Function, flow: Uniformity, known: frozenset[str]) -> bool:
    """Whether threads may leave otherwise than by the guards at the kernel's start."""
    if not flow.masks:
        return False
    first = clipping.kernel_guards(function, flow.varying, known)
    return bool(flow.leaving - first.labels)


def _vector_bits(target: Target) -> int:
    """Bits of the processor's vectors."""
    features = target.features.split(",")
    return 512 if "+avx512f" in features else 256 if "+avx2" in features else 128


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
