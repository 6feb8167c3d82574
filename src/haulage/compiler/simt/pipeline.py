"""Runs the passes of `passes.py` over one kernel, for one size of block."""

from dataclasses import dataclass, replace
from math import prod

from haulage.backends.cpu_driver.waiting import WAITS
from haulage.compiler.simt import passes
from haulage.compiler.simt.analysis import kernel, locks, uniformity
from haulage.compiler.simt.compilation import AUTO, COROUTINES, REGIONS, SCALAR, Block, Compilation
from haulage.compiler.simt.coroutines import cooperative_grid, lowering, spin_loops
from haulage.compiler.simt.emit import entry, unroll_and_jam
from haulage.compiler.simt.emit.block_function import HEAP_DECLARATIONS, heap_bytes
from haulage.compiler.simt.ir import writer
from haulage.compiler.simt.loops import loop_order, scalar_promotion
from haulage.compiler.simt.regions import fission
from haulage.targets.base import Target
from haulage.targets.cpu import DYNAMIC_SHARED, YIELD
from haulage.targets.cpu_lanes import WARP_ROOM

STRATEGIES = (AUTO, REGIONS, SCALAR, COROUTINES)

# Without one of these no thread sees what another block, or the host, writes while both run.
_SEEING_OTHERS = ("atomicrmw", "cmpxchg", "fence", "volatile", "load atomic", YIELD)


class CannotSplit(Exception):
    """The kernel has barriers that perhaps not all threads reach, whose numbers are `places`, or
    its threads wait for writes of one another."""

    def __init__(self, places: list[int]) -> None:
        what = f"barriers {places} stand in divergent flow" if places else "threads wait for writes"
        super().__init__(what)
        self.places = places


@dataclass(frozen=True)
class Transformed:
    """The module's text, the strategy that was taken, and how many regions and bytes it has.

    `regions` is 0 for coroutines; `order` has the grid's axes, that along which blocks follow one
    another last; `shared_bytes` and `local_bytes` are per block and per thread, `block_bytes` what
    a block may take that waits for its grid; `uses_dynamic_shared` whether the address of the
    launch's dynamic shared memory is needed; `jammed` whether a few threads run side by side
    somewhere (`unroll_and_jam.py`). `promotable` are the addresses of the arrays whose elements
    registers could hold if these overlapped no others (`scalar_promotion.py`), and `choosing` is
    the entry that looks whether they do.
    """

    llvm: str
    strategy: str
    regions: int
    order: str
    shared_bytes: int
    local_bytes: int
    block_bytes: int
    uses_dynamic_shared: bool
    jammed: bool
    promotable: tuple[str, ...] = ()
    choosing: str = ""


def transform(
    text: str,
    target: Target,
    block: Block,
    strategy: str,
    cooperative: bool = False,
    off: frozenset[str] = frozenset(),
    recorded: dict[str, str] | None = None,
) -> Transformed:
    """Make the module for one block size (x, y, z) from the cleaned-up text of a kernel's module.

    `cooperative` kernels are made as `cooperative_grid.py` says; others may have no barrier of the
    grid. The scalar strategy, by which the others are measured, has the required passes only, and
    is meant to be optimised without vectorising. `off` are passes that do not run; `recorded` is
    given the text of the kernel after each one that does.

    Raises:
        CannotSplit: the strategy is "regions" and that cannot be done.
        NotInlined: a function that calls itself has a barrier or a shared array.
    """
    if strategy == SCALAR:
        off = frozenset(passes.optional())
    body = kernel.read(text, target)
    state = Compilation(body, target, block, strategy, cooperative, off)
    own = state.own_memory | {f"%{DYNAMIC_SHARED}"}
    promotable = None if cooperative else scalar_promotion.find(state.analyses, own)
    choosing = ""
    if promotable is not None:
        choosing = entry.choosing_by_arrays(body, promotable, target)
    _look_for_waits(state)
    _run(state, recorded)
    _choose(state)
    if state.taken == COROUTINES:
        alone = lowering.without_collectives(text, target)
        if alone != text:
            return transform(alone, target, block, COROUTINES, cooperative, off, recorded)
    _run(state, recorded)
    finished = _finished(state, any(word in text for word in _SEEING_OTHERS))
    if promotable is None:
        return finished
    addresses = tuple(array.data for array in promotable.arrays)
    return replace(finished, promotable=addresses, choosing=choosing)


def _run(state: Compilation, recorded: dict[str, str] | None) -> None:
    """Run the passes for the strategy that is taken so far."""
    for each in passes.PASSES:
        if each.run is None or state.taken not in each.strategies or not state.is_on(each.name):
            continue
        if each.run(state):
            state.analyses.invalidate(each.keeps)
        if recorded is not None:
            recorded[each.name] = _shown(state)


def _shown(state: Compilation) -> str:
    """The kernel as it is now, as text."""
    if state.parts:
        return "\n\n".join(state.parts)
    found = {
        "axes, outermost first": state.order if state.order != loop_order.DEFAULT_ORDER else "",
        "blocks coalesced along": ", ".join(state.coalesced),
        "privatized": ", ".join(each.array.data for each in state.privatized),
        "remainders of grid-stride loops": ", ".join(state.remainders),
        "interchanged loops": ", ".join(state.interchanged),
        "split at": ", ".join(state.at_guards),
        "strips": ", ".join(state.strips),
        "vectorized regions": ", ".join(map(str, state.vectors.vectorized)),
    }
    notes = [f"; {what}: {value}" for what, value in found.items() if value]
    return "\n".join([*notes, writer.listing(state.split or state.function)])


def _look_for_waits(state: Compilation) -> None:
    """Find whether threads wait for one another, and where they may hold locks, before their atomic
    operations become plain ones."""
    waiting = spin_loops.has_yields(state.function)
    analyses = state.analyses
    state.held = locks.held(analyses)
    contended = waiting and locks.are_contended(analyses, state.block)
    state.waits = waiting and (state.cooperative or contended)
    if waiting and not state.waits and state.strategy != COROUTINES:
        state.change(spin_loops.without_yields(state.function))
    if waiting:
        # Who waits for another block expects that blocks begin with x the fastest axis.
        state.off |= {"axis-order", "privatized-reductions"}
    if state.cooperative:
        state.off |= {"privatized-reductions"}


def _choose(state: Compilation) -> None:
    """Choose between regions and coroutines.

    Raises:
        CannotSplit: regions were asked for, and cannot be.
    """
    analyses, private, exits = state.analyses, state.private, frozenset(state.exits)
    state.flow = analyses.get(uniformity.analyse, private, exits, None)
    state.lanes = uniformity.warps_of(state.function, state.block, state.target.warp_size)
    if state.lanes is not None:
        state.flow = analyses.get(uniformity.analyse, private, exits, state.lanes)
    divergent = fission.divergent_barriers(analyses, private, exits, state.lanes)
    unable = bool(divergent) or state.waits
    if state.strategy == REGIONS and unable:
        raise CannotSplit(divergent)
    if state.strategy == COROUTINES or unable:
        state.taken = COROUTINES
    else:
        state.taken = SCALAR if state.strategy == SCALAR else REGIONS
        state.together = analyses.get(uniformity.analyse, private, frozenset(), None)


def _finished(state: Compilation, sees_others: bool) -> Transformed:
    """The module of all that was made; `sees_others` is whether threads may see what another block,
    or the host, writes while they run."""
    body, block, parts = state.body, state.block, state.parts
    threads = prod(block)
    if state.taken == COROUTINES or state.cooperative or heap_bytes(body, threads):
        parts.insert(0, HEAP_DECLARATIONS)
    if state.cooperative:
        start = cooperative_grid.write_entry(body)
    else:
        start = entry.write(body, threads, state.order, state.privatized, state.wide)
    if sees_others:
        parts.append(f"define void @{WAITS}() {{\n  ret void\n}}")
    module = "\n\n".join(
        [
            body.around,
            *state.declarations,
            writer.definition(start),
            state.copies,
            *state.helpers,
            *parts,
        ]
    )
    return Transformed(
        _without_repeated_declarations(module),
        state.taken,
        0 if state.regions is None else len(state.regions.regions),
        loop_order.DEFAULT_ORDER if state.cooperative else state.order,
        sum(room.nbytes for room in body.shared if room.name != f"%{WARP_ROOM}"),
        sum(room.nbytes for room in body.private),
        cooperative_grid.block_bytes(body, block) if state.cooperative else 0,
        f"%{DYNAMIC_SHARED}" in state.analyses.users,
        unroll_and_jam.is_in(module),
    )


def _without_repeated_declarations(module: str) -> str:
    """The module with each function declared once; the first declaration stands."""
    seen: set[str] = set()
    kept, *others = f"\n{module}\n".split("\ndeclare ")
    parts = [kept[1:]]
    for part in others:
        line, _, behind = part.partition("\n")
        name = line.split("@", 1)[1].split("(", 1)[0]
        parts.append(behind if name in seen else f"declare {part}")
        seen.add(name)
    return "\n".join(parts)
