"""Parallel regions, and what is live from one to the next (pocl: Jääskeläinen et al., 2015).

A region is all that can be reached from an entry (the body's start, or the target of a region's
end) without passing the end of a region. What is made in one and used in another is kept in a slot
of the context: one for the block if it is uniform, one per thread otherwise; or it is computed
again (`rematerialization.py`).
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.exits import return_code
from haulage.compiler.simt.analysis.guards import has_effect
from haulage.compiler.simt.analysis.interleaving import Interleaving
from haulage.compiler.simt.analysis.liveness import Liveness
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd
from haulage.compiler.simt.regions.rematerialization import Rematerialization


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


@dataclass(frozen=True)
class Regions:
    """A body in regions, with the analyses of its function. `live[label]` are the slots that the
    region loads which begins there; `masked` whether threads may have left before a region, so that
    each thread's state must be kept."""

    analyses: Analyses
    regions: tuple[Region, ...]
    slots: dict[str, Slot]
    live: dict[str, frozenset[str]]
    masked: bool

    @property
    def function(self) -> Function:
        return self.analyses.function

    def made_in(self, region: Region) -> set[str]:
        """The results of a region's instructions."""
        blocks = (self.function.blocks[label] for label in region.labels)
        return {item.result for block in blocks for item in block.instructions() if item.result}

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
    inside = {
        label: () if targets[label] else successors
        for label, successors in analyses.successors.items()
    }
    interleaving = Interleaving(analyses, storage, varying)
    regions = []
    for number, entry in enumerate([function.entry, *entries]):
        labels = tuple(control_flow.reverse_postorder(inside, entry))
        blocks = [function.blocks[label] for label in labels]
        stays = any(item.stays for block in blocks for item in block.instructions())
        computed = again.get(entry, set())
        exits = tuple(dict.fromkeys(to for label in labels if (to := targets[label])))
        codes = {code for block in blocks if (code := return_code(block)) is not None}
        made = {item.result for block in blocks for item in block.instructions()}
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
