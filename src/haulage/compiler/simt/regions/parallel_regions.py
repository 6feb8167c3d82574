"""The regions of a cut body, and what lives from one to the next.

A region is all that can be reached from an entry (the body's start, or behind a cut) without
passing a cut. What is used behind a cut but made before it lives in a slot: one for the block if
all threads have the same value, one per thread otherwise; or it is worked out again (`recompute`).
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.interleaving import Interleaving
from haulage.compiler.simt.analysis.liveness import Liveness
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd
from haulage.compiler.simt.regions.rematerialization import Rematerialization


@dataclass(frozen=True)
class Slot:
    """Storage for a value that lives across a cut."""

    value: str
    type: str
    varying: bool


@dataclass(frozen=True)
class Region:
    """One region: its entry, its blocks (entry first), and what it finds when it starts.

    `loaded` come from slots; `recomputed` are worked out again first, by the instructions `steps`;
    `exits` are the labels behind the cuts that it ends in; `returns` whether it can end the thread;
    `is_parallel` whether LLVM may be told that no thread's accesses depend on another's, after
    which it asks no more what depends on what.
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


@dataclass(frozen=True)
class Regions:
    """A cut body in regions. `live[label]` are the slots that the region behind a cut loads;
    `masked` whether threads may have left before a region, so that each thread's state must be
    kept."""

    function: Function
    regions: tuple[Region, ...]
    slots: dict[str, Slot]
    live: dict[str, frozenset[str]]
    masked: bool

    def made_in(self, region: Region) -> set[str]:
        """The results of a region's instructions."""
        blocks = (self.function.blocks[label] for label in region.labels)
        return {item.result for block in blocks for item in block.instructions() if item.result}

    def stored(self, made: Set[str], exits: Iterable[str]) -> list[Slot]:
        """The slots of values in `made` that are needed behind one of the cuts `exits`."""
        live = {name for label in exits for name in self.live[label]}
        return [slot for name, slot in self.slots.items() if name in live and name in made]


def divide(function: Function, uniformity: Uniformity, rooms: frozenset[str]) -> Regions:
    """Divide a cut function into regions.

    `uniformity` is that of the function before it was cut; `rooms` are the names of its shared and
    private memory, which every region has at hand.
    """
    entries = [function.entry] + [
        block.terminator.target
        for block in function.blocks.values()
        if isinstance(block.terminator, RegionEnd)
    ]
    parameters = {parameter.name for parameter in function.parameters}
    recompute = Rematerialization(function, uniformity.varying, parameters | rooms)
    live, again = _settle(function, uniformity, recompute, entries[1:], rooms)
    definitions = function.definitions()
    slots = {
        name: Slot(name, definitions[name][1].type, name in uniformity.varying)
        for name in sorted({name for entry in entries[1:] for name in live[entry]})
    }
    inside = {
        label: () if isinstance(block.terminator, RegionEnd) else block.successors
        for label, block in function.blocks.items()
    }
    interleaving = Interleaving(function, rooms, uniformity.varying)
    regions = [
        _region(
            function, number, entry, live, recompute, again.get(entry, set()), inside, interleaving
        )
        for number, entry in enumerate(entries)
    ]
    kept = {entry: frozenset(live[entry]) for entry in entries[1:]}
    masked = uniformity.masks and len(regions) > 1
    return Regions(function, tuple(regions), slots, kept, masked)


def _settle(
    function: Function,
    uniformity: Uniformity,
    recompute: Rematerialization,
    entries: list[str],
    rooms: frozenset[str],
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """(what is loaded, what is worked out again) at each entry behind a cut.

    Working a value out again needs its leaves there, which can make more values live, so this goes
    on until nothing changes.
    """
    again: dict[str, set[str]] = {entry: set() for entry in entries}
    liveness = Liveness(Analyses(function))
    while True:
        changes = {
            entry: (values | rooms, recompute.leaves(values)) for entry, values in again.items()
        }
        live = liveness.live_in(entries, changes)
        found = False
        for entry in entries:
            wanted = {
                name for name in live[entry] if name in uniformity.varying and recompute.can(name)
            }
            found = found or bool(wanted)
            again[entry] |= wanted
        if not found:
            return live, again


def _region(
    function: Function,
    number: int,
    entry: str,
    live: dict[str, set[str]],
    recompute: Rematerialization,
    again: set[str],
    inside: control_flow.Successors,
    interleaving: Interleaving,
) -> Region:
    labels = control_flow.reverse_postorder(inside, entry)
    blocks = [function.blocks[label] for label in labels]
    exits = list(
        dict.fromkeys(b.terminator.target for b in blocks if isinstance(b.terminator, RegionEnd))
    )
    loaded = live[entry] if number else set()
    return Region(
        number,
        entry,
        tuple(labels),
        tuple(sorted(loaded)),
        tuple(sorted(again)),
        tuple(recompute.steps(again)),
        tuple(exits),
        any(_returns(block) for block in blocks),
        not any(item.stays for block in blocks for item in block.instructions())
        and not interleaving.changes_order(labels),
    )


def _returns(block: Block) -> bool:
    return isinstance(block.terminator, Instruction) and block.terminator.opcode == "ret"
