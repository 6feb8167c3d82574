"""Writes the function of one parallel region: what one thread does between two region ends.

`{ i32, i32 } @haulage.region.K(...)` returns the number of the region to go on with, or -1 at the
end, and the fault that ended the thread, or 0. It has the body's parameters, then the addresses of
shared and private arrays, the thread's linear index in its block, and what it is given of the
context. Where threads may have left for good (`early_exit.py`) it has the states of the threads
too: it runs only if the thread's state is its own number, and leaves the next one there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from haulage.compiler.simt.analysis.exit_codes import fault_of, return_code
from haulage.compiler.simt.analysis.guards import Guard
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.memory_dependence import captured
from haulage.compiler.simt.ir.builder import Builder, Typed
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd, value_name
from haulage.compiler.simt.loops.block_atomics import expanded
from haulage.compiler.simt.regions.iteration_ranges import IterationRanges
from haulage.compiler.simt.regions.parallel_regions import Region, Regions, Slot

DONE = -1
RESULT = "{ i32, i32 }"


@dataclass(frozen=True)
class ContextParameter:
    """What a region is given of a value that lives across regions: a uniform value ("in") or where
    to store it ("out"), or the context array of a varying one ("slot"), with an element for each
    thread. In masked regions uniform values are stored to context arrays too: stores to one address
    under a mask would keep LLVM from widening."""

    type: str
    value: str
    role: str


class RegionFunctions:
    """Writes the functions of all regions of one body."""

    def __init__(self, body: Body, regions: Regions, ranges: IterationRanges) -> None:
        self.body = body
        self.regions = regions
        self.ranges = ranges
        self.numbers = {region.entry: region.number for region in regions.regions}
        self.items = regions.function.items()
        shared = [array.name for array in body.shared]
        self._captured = captured(Analyses(regions.function), shared, regions.slots)
        self.made_in = {region.number: regions.made_in(region) for region in regions.regions}

    def behind(self, *reasons: str) -> dict[int, RegionEnd]:
        """The numbers of the regions behind ends for some reasons, with those ends."""
        ends = [block.terminator for block in self.regions.function.blocks.values()]
        return {
            self.numbers[end.target]: end
            for end in ends
            if isinstance(end, RegionEnd) and end.reason in reasons
        }

    def live_behind(self, ends: Iterable[RegionEnd]) -> frozenset[str]:
        """The values that live over some of the ends of regions."""
        return frozenset(name for end in ends for name in self.regions.live[end.target])

    def stored(self, region: Region) -> list[Slot]:
        """The slots that the region may write: live behind one of its ends and made in it."""
        return self.regions.stored(self.made_in[region.number], region.exits)

    def guards(self, region: Region) -> tuple[Guard, ...]:
        """The conditions whose outcome the region is told, as its last parameters."""
        own = self.ranges.of_regions[region.number]
        return own if region.number else self.ranges.of_kernel + own

    def context_parameters(self, region: Region) -> list[ContextParameter]:
        """What the region is given of the context."""
        loaded = [self.regions.slots[name] for name in region.loaded]
        stored = self.stored(region)
        both = dict.fromkeys(slot.value for slot in [*loaded, *stored] if slot.varying)
        return [
            *(ContextParameter(each.type, each.value, "in") for each in loaded if not each.varying),
            *(ContextParameter("ptr", each.value, "out") for each in stored if not each.varying),
            *(ContextParameter("ptr noalias", name, "slot") for name in both),
        ]

    def parameters(self, region: Region) -> list[Typed]:
        """Types and names of the parameters of the region's function."""
        body = self.body
        states = [("ptr noalias", "%states")] if self.regions.masked else []
        return [
            *((parameter.type, parameter.name) for parameter in body.function.parameters),
            *(
                ("ptr" if array.name in self._captured else "ptr noalias", array.name)
                for array in body.shared
            ),
            *(("ptr", array.name) for array in body.private),
            ("i64", "%thread"),
            *(
                (each.type, value_name(each.value, each.role))
                for each in self.context_parameters(region)
            ),
            *states,
            *(("i1", value_name(guard.condition, "guard")) for guard in self.guards(region)),
        ]

    def function(self, region: Region) -> Function:
        """The function of one region."""
        return _Writer(self, region).function()


class _Writer:
    """Writes the function of one region.

    A value that the region both starts with and makes again is demoted to the stack (as LLVM's
    pass `reg2mem` does it), which `mem2reg` undoes when the function is inlined.
    """

    def __init__(self, functions: RegionFunctions, region: Region) -> None:
        self._functions = functions
        self._regions = functions.regions
        self._region = region
        number = region.number
        self._builder = Builder(
            f"haulage.region.{number}", functions.parameters(region), RESULT, "alwaysinline"
        )
        self._inside = frozenset(region.labels)
        # Nobody has left before the first region.
        self._is_masked = self._regions.masked and number > 0
        made = functions.made_in[number]
        arriving = {*region.loaded, *region.recomputed}
        self._demoted = {name: functions.items[name].type for name in sorted(arriving & made)}
        self._names: dict[str, str] = {}
        self._count = 0
        # (label, next region, fault) of each block that goes to the end.
        self._results: list[tuple[str, str, str]] = []

    def function(self) -> Function:
        builder, region = self._builder, self._region
        builder.block("%region.start")
        for name, kind in self._demoted.items():
            builder.allocate(kind, name=value_name(name, "mem"))
        self._check_state()
        arrived = self._arrive()
        for guard in self._functions.guards(region):
            if guard.condition not in self._demoted:
                arrived[guard.condition] = value_name(guard.condition, "guard")
        for name, kind in self._demoted.items():
            builder.store(kind, arrived.pop(name), value_name(name, "mem"))
        self._names = arrived
        builder.jump(region.entry)
        for label in region.labels:
            self._block(self._regions.function.blocks[label])
        self._end()
        return builder.function

    def _check_state(self) -> None:
        """Find the thread's state; go on only if it is this region's."""
        builder = self._builder
        if not self._regions.masked:
            return
        state = builder.element("i32", "%states", "%thread", "inbounds", name="%state.at")
        if self._is_masked:
            now = builder.load("i32", state, name="%state.now")
            number = str(self._region.number)
            here = builder.compare("eq", "i32", now, number, name="%state.here")
            builder.branch(here, "%region.begin", "%region.end")
            self._results.append(("%region.start", str(DONE), "0"))
            builder.block("%region.begin")

    def _arrive(self) -> dict[str, str]:
        """Load and recompute what the region starts with; returns the names it has there."""
        builder, region = self._builder, self._region
        names: dict[str, str] = {}
        for name in region.loaded:
            slot = self._regions.slots[name]
            names[name] = arrived = value_name(name, "in")
            if slot.varying:
                at = self._element(slot, "slot", value_name(name, "at"))
                builder.load(slot.type, at, name=arrived)
        for step in region.steps:
            assert step.result is not None
            if step.result in names:
                # Of too many steps for its own sake, but on the way to an address.
                continue
            arrived = value_name(step.result, "in")
            names[step.result] = builder.add(step.renamed({**names, step.result: arrived}))
        made = self._functions.made_in[region.number]
        wanted = {*region.loaded, *region.recomputed}
        # Steps on the way to a recomputed value may be made in the region too, under their own
        # name.
        return {name: new for name, new in names.items() if name in wanted or name not in made}

    def _element(self, slot: Slot, role: str, name: str) -> str:
        """The address of the thread's element of a context array."""
        array = value_name(slot.value, role)
        return self._builder.element(slot.type, array, "%thread", "inbounds", name=name)

    def _block(self, block: Block) -> None:
        builder = self._builder
        builder.block(block.label)
        for phi in block.phis:
            incoming = [
                (self._at_end(value, label), label)
                for value, label in phi.incoming
                if label in self._inside
            ]
            builder.phi(phi.type, incoming, phi.result or "")
        for phi in block.phis:
            self._spill(phi.result)
        for item in block.body:
            builder.extend(expanded(item.with_uses(self._reload(item))))
            self._spill(item.result)
        end = block.terminator
        if isinstance(end, RegionEnd):
            self._store_context(end.target)
            self._leave(block.label, self._functions.numbers[end.target], "0")
            return
        assert end is not None
        self._reload_for_phis(block)
        names = self._reload(end)
        code = return_code(block)
        if code is None:
            builder.add(end.renamed(names))
        else:
            self._leave(block.label, DONE, self._fault(names.get(code, code), block.label))

    def _leave(self, label: str, following: int, fault: str) -> None:
        self._results.append((label, str(following), fault))
        self._builder.jump("%region.end")

    def _fault(self, code: str, label: str) -> str:
        """The fault of a code that a thread ends with; 0 if it is that of an end."""
        if not self._functions.body.has_ends:
            return code
        fault, computed = fault_of(code, value_name(label, "fault"))
        self._builder.extend(computed)
        return fault

    def _store_context(self, target: str) -> None:
        for slot in self._functions.stored(self._region):
            if slot.value not in self._regions.live[target]:
                continue
            value = self._now(slot.value)
            role = "slot" if slot.varying else "out"
            address = value_name(slot.value, role)
            if slot.varying or self._regions.masked:
                address = self._element(slot, role, self._fresh(slot.value))
            self._builder.store(slot.type, value, address)

    def _end(self) -> None:
        builder = self._builder
        builder.block("%region.end")
        if not self._results:
            # Every path ends in `unreachable`.
            builder.add(Instruction("unreachable", "void"))
            return
        following = [(state, label) for label, state, _ in self._results]
        faults = [(fault, label) for label, _, fault in self._results]
        next_region = builder.phi("i32", following, "%region.next")
        fault = builder.phi("i32", faults, "%region.fault")
        if self._regions.masked:
            builder.store("i32", next_region, "%state.at")
        pair = builder.insert(RESULT, "poison", ("i32", next_region), 0, "%region.pair")
        both = builder.insert(RESULT, pair, ("i32", fault), 1, "%region.both")
        builder.ret(RESULT, both)

    # ---- demoted values ---------------------------------------------------------------------

    def _fresh(self, name: str) -> str:
        self._count += 1
        return value_name(name, f"use.{self._count}")

    def _now(self, name: str) -> str:
        """What a value is called here; it is loaded if it is on the stack."""
        kind = self._demoted.get(name)
        if kind is None:
            return self._names.get(name, name)
        return self._builder.load(kind, value_name(name, "mem"), name=self._fresh(name))

    def _reload(self, item: Instruction) -> dict[str, str]:
        """The new names of what an instruction uses."""
        used = dict.fromkeys(item.uses)
        return {
            name: self._now(name) for name in used if name in self._demoted or name in self._names
        }

    def _spill(self, result: str | None) -> None:
        """Store a result if it is one of a value on the stack."""
        if result in self._demoted:
            self._builder.store(self._demoted[result], result, value_name(result, "mem"))

    def _at_end(self, value: str, label: str) -> str:
        """What the value that a phi takes from the block `label` is called at its end."""
        if value in self._demoted:
            return value_name(value, f"end.{label[1:].strip(chr(34))}")
        return self._names.get(value, value)

    def _reload_for_phis(self, block: Block) -> None:
        """Load at the end of a block what phis behind it take of the stack."""
        if not self._demoted:
            return
        taken = dict.fromkeys(
            value
            for successor in block.successors
            for phi in self._regions.function.blocks[successor].phis
            for value, label in phi.incoming
            if label == block.label and value in self._demoted
        )
        for value in taken:
            kind, name = self._demoted[value], self._at_end(value, block.label)
            self._builder.load(kind, value_name(value, "mem"), name=name)
