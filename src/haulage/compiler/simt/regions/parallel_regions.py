"""Parallel regions, and what is live from one to the next (pocl: Jääskeläinen et al., 2015).

A region is all that can be reached from an entry (the body's start, or the target of a region's
end) without passing the end of a region. What is made in one and used in another is kept in a slot
of the context: one for the block if it is uniform, one per thread otherwise; or it is computed
again where the region starts (Briggs, Cooper and Torczon, "Rematerialization", PLDI 1992; pocl does
the same). A stored address makes every access through it a gather; computed again from the thread's
index it stays an address that LLVM can see through. A value qualifies if it is arithmetic on
parameters and on uniform values, which are kept once, not per thread.

A region is run for the threads that pass its guards (`analysis/guards.py`).
"""

from collections.abc import Container, Iterable, Set
from dataclasses import dataclass, replace

from haulage.compiler.mathematics.definitions import DIVIDING, SPECULATED
from haulage.compiler.simt.analysis import control_flow, guards
from haulage.compiler.simt.analysis.affine import AvailableForms
from haulage.compiler.simt.analysis.guards import Guard, has_effect
from haulage.compiler.simt.analysis.interleaving import Interleaving
from haulage.compiler.simt.analysis.liveness import Liveness
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd

# Sums and products of floats are left out: contracted in one region and not in another they would
# give one value two roundings. So is `freeze`, which may choose anew.
# fmt: off
_ARITHMETIC = frozenset((
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "sext", "zext", "trunc", "getelementptr", "icmp", "select", "sitofp", "uitofp", "fptosi",
    "fptoui", "fptrunc", "fpext", "fneg", "fcmp", "bitcast",
))
# fmt: on
_INTRINSICS = ("llvm.smax.", "llvm.smin.", "llvm.umax.", "llvm.umin.", "llvm.abs.")

# Beyond so many steps a value that is no address is cheaper to load than to compute.
_MOST_STEPS = 24


@dataclass(frozen=True)
class Slot:
    """A place in the context, for a value that is live across the end of a region."""

    value: str
    type: str
    varying: bool


@dataclass(frozen=True)
class Region:
    """One region: its entry, its blocks (entry first), and what it finds when it starts.

    `loaded` come from slots; `recomputed` are computed again first, by the instructions `steps`;
    `exits` are the entries of the regions that follow; `returns` whether it can end the thread;
    `guards` are what threads have to pass that have anything to do in it;
    `is_parallel` whether LLVM may be told that no thread's accesses depend on another's, after
    which it asks no more what depends on what; `is_uniform` whether all threads do the same, and
    only values come of it, so that one of them is enough.
    """

    number: int
    entry: str
    labels: tuple[str, ...]
    loaded: tuple[str, ...]
    recomputed: tuple[str, ...]
    steps: tuple[Instruction, ...]
    exits: tuple[str, ...]
    returns: bool
    is_parallel: bool
    is_uniform: bool
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Regions:
    """A body in regions, with the analyses of its function. `live[label]` are the slots that the
    region loads which begins there; `masked` whether threads may have left before a region, so that
    each thread's state must be kept. Who does not pass the `kernel_guards` has ended at the start:
    no region is run for those threads, and no state is kept for them."""

    analyses: Analyses
    regions: tuple[Region, ...]
    slots: dict[str, Slot]
    live: dict[str, frozenset[str]]
    masked: bool
    kernel_guards: tuple[Guard, ...] = ()

    @property
    def function(self) -> Function:
        return self.analyses.function

    def made_in(self, region: Region) -> set[str]:
        """The results of a region's instructions."""
        return self.function.results(region.labels)

    def stored(self, made: Set[str], exits: Iterable[str]) -> list[Slot]:
        """The slots of values in `made` that are live in one of the regions `exits`."""
        live = {name for label in exits for name in self.live[label]}
        return [slot for name, slot in self.slots.items() if name in live and name in made]


def divide(
    analyses: Analyses,
    uniformity: Uniformity,
    storage: frozenset[str],
    *,
    rematerializes: bool = True,
) -> Regions:
    """Divide a function whose regions end somewhere (`fission.split`) into these.

    `uniformity` is that of the function before it was split; `storage` are the names of its shared
    and private memory, which every region has at hand. Without `rematerializes` all that a region
    needs is kept for it.
    """
    function = analyses.function
    targets = {label: _target(block) for label, block in function.blocks.items()}
    entries = [each for each in targets.values() if each is not None]
    varying = uniformity.varying
    available = {parameter.name for parameter in function.parameters} | storage
    rematerialization = Rematerialization(function, varying, available, enabled=rematerializes)
    live, again = _settle(analyses, varying, rematerialization, entries, storage)
    definitions = analyses.definitions
    slots = {
        name: Slot(name, definitions[name][1].type, name in varying)
        for name in sorted(set().union(*live.values()))
    }
    inside = function.within(function.blocks)
    interleaving = Interleaving(analyses, storage, varying)
    regions = []
    for number, entry in enumerate([function.entry, *entries]):
        labels = tuple(control_flow.reverse_postorder(inside, entry))
        blocks = [function.blocks[label] for label in labels]
        stays = any(item.stays for block in blocks for item in block.instructions())
        computed = again.get(entry, set())
        exits = tuple(dict.fromkeys(to for label in labels if (to := targets[label])))
        codes = {code for block in blocks if (code := block.returned) is not None}
        made = function.results(labels)
        kept = {name for label in exits for name in live[label]}
        regions.append(
            Region(
                number,
                entry,
                labels,
                tuple(sorted(live.get(entry, ()))),
                tuple(sorted(computed)),
                tuple(rematerialization.steps(computed)),
                exits,
                bool(codes),
                not stays and not interleaving.changes_order(labels),
                varying.isdisjoint(codes | (made & kept))
                and not any(has_effect(item) for block in blocks for item in block.body),
            )
        )
    live_in = {entry: frozenset(names) for entry, names in live.items()}
    return Regions(analyses, tuple(regions), slots, live_in, uniformity.masks and bool(entries))


def _target(block: Block) -> str | None:
    """Where control goes on behind a block that ends a region."""
    return block.terminator.target if isinstance(block.terminator, RegionEnd) else None


# ---- rematerialisation ---------------------------------------------------------------------------


class Rematerialization:
    """What can be computed again, and from which leaves, in one function.

    `available` are names that every region has anyway: parameters and the like. Nothing can if it
    is not `enabled`.
    """

    def __init__(
        self,
        function: Function,
        varying: Set[str],
        available: Set[str],
        *,
        enabled: bool = True,
    ) -> None:
        self._varying = varying
        self._available = available
        self._items: dict[str, Instruction] = {}
        self._position: dict[str, int] = {}
        self._possible: set[str] = set()
        self._can: dict[str, bool] = {}
        # Outside phis, which do not qualify, a value's operands come before it in this order.
        for label in control_flow.reverse_postorder(function.successors(), function.entry):
            for item in function.blocks[label].instructions():
                if item.result is None:
                    continue
                self._items[item.result] = item
                self._position[item.result] = len(self._position)
                if enabled and is_arithmetic(item) and all(map(self._is_available, item.uses)):
                    self._possible.add(item.result)

    def _is_available(self, name: str) -> bool:
        return name in self._available or name not in self._varying or name in self._possible

    def can(self, name: str) -> bool:
        """Whether the varying value `name` is better computed again than stored."""
        if name not in self._possible:
            return False
        known = self._can.get(name)
        if known is None:
            known = self._items[name].type == "ptr" or len(self.steps({name})) <= _MOST_STEPS
            self._can[name] = known
        return known

    def steps(self, names: Set[str]) -> list[Instruction]:
        """The instructions that compute `names` from leaves, each after those it needs."""
        needed, _ = self._closure(names)
        return [self._items[name] for name in sorted(needed, key=self._position.__getitem__)]

    def leaves(self, names: Set[str]) -> set[str]:
        """The uniform values that `names` are computed from."""
        return self._closure(names)[1]

    def _closure(self, names: Set[str]) -> tuple[set[str], set[str]]:
        needed: set[str] = set()
        leaves: set[str] = set()
        stack = list(names)
        while stack:
            name = stack.pop()
            if name in self._available or name in needed:
                continue
            if name not in self._varying:
                leaves.add(name)
                continue
            needed.add(name)
            stack.extend(self._items[name].uses)
        return needed, leaves


def is_arithmetic(item: Instruction) -> bool:
    """Whether an instruction may be made again, or earlier, wherever its operands are."""
    if item.opcode == "call":
        return item.callee is not None and item.callee.startswith(
            (*_INTRINSICS, *DIVIDING, SPECULATED)
        )
    return item.opcode in _ARITHMETIC


def _settle(
    analyses: Analyses,
    varying: Set[str],
    rematerialization: Rematerialization,
    entries: list[str],
    storage: frozenset[str],
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """(what is loaded, what is computed again) at each entry but the first.

    Computing a value again needs its leaves there, which can make more values live, so this goes on
    until nothing changes.
    """
    again: dict[str, set[str]] = {entry: set() for entry in entries}
    liveness = analyses.get(Liveness)
    while True:
        changes = {
            entry: (values | storage, rematerialization.leaves(values))
            for entry, values in again.items()
        }
        live = liveness.live_in(entries, changes)
        wanted = {
            entry: {name for name in live[entry] if name in varying and rematerialization.can(name)}
            for entry in entries
        }
        if not any(wanted.values()):
            return live, again
        for entry, names in wanted.items():
            again[entry] |= names


# ---- guards --------------------------------------------------------------------------------------


def with_guards(
    regions: Regions, varying: Set[str], ranges: ValueRanges, of_kernel: tuple[Guard, ...]
) -> Regions:
    """The regions with the guards of each. `ranges` are those of the function's values, `of_kernel`
    the kernel's guards."""
    items = regions.analyses.items
    parameters = {each.name for each in regions.function.parameters}
    given = {guard.condition for guard in of_kernel}
    guarded: list[Region] = []
    for region in regions.regions:
        made = regions.made_in(region)
        loaded = {name for name in region.loaded if name not in varying and name not in made}
        forms = AvailableForms(items, varying, parameters | loaded, ranges)
        own = () if regions.masked else _guards(regions, region, forms, made)
        if not region.number:
            own = tuple(guard for guard in own if guard.condition not in given)
        guarded.append(replace(region, guards=own))
    return replace(regions, regions=tuple(guarded), kernel_guards=of_kernel)


def _guards(
    regions: Regions, region: Region, forms: AvailableForms, made: Set[str]
) -> tuple[Guard, ...]:
    def ends_idly(block: Block) -> bool:
        if not isinstance(block.terminator, RegionEnd):
            return guards.returns_idly(block)
        kept = regions.stored(made, [block.terminator.target])
        return not any(slot.varying for slot in kept)

    return guards.find(regions.function, region.entry, forms, ends_idly).guards


def without_own_guards(regions: Regions, numbers: Container[int]) -> Regions:
    """The same, but the regions of these numbers run for all that pass the kernel's guards."""
    kept = (
        replace(region, guards=()) if region.number in numbers else region
        for region in regions.regions
    )
    return replace(regions, regions=tuple(kept))
