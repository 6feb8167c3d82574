"""Writes the function of one parallel region: what one thread does between two region ends.

`{ i32, i32 } @haulage.region.K(...)` returns the number of the region to go on with, or -1 at the
end, and the fault that ended the thread, or 0. It has the body's parameters, then the addresses of
shared and private arrays, the thread's linear index in its block, and what it is given of the
context. Where threads may have left for good (`exits.py`) it has the states of the threads
too: it runs only if the thread's state is its own number, and leaves the next one there.
"""

from dataclasses import dataclass

from haulage.compiler.simt.analysis.exits import fault_of
from haulage.compiler.simt.analysis.guards import Guard
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.memory_dependence import captured
from haulage.compiler.simt.ir.builder import Builder, Typed
from haulage.compiler.simt.ir.model import Block, Function, RegionEnd, value_name
from haulage.compiler.simt.loops.atomics import expanded
from haulage.compiler.simt.regions.parallel_regions import Region, Regions, Slot
from haulage.compiler.simt.regions.ssa_updater import SSAUpdater

DONE = -1
RESULT = "{ i32, i32 }"


@dataclass(frozen=True)
class ContextParameter:
    """What a region is given of a value that lives across regions, by its `role`: "live-in" is a
    uniform value itself, "live-out" where to store it, "context" the array of a varying one, with
    an element for each thread. In masked regions uniform values are stored to context arrays too:
    stores to one address under a mask would keep LLVM from widening."""

    type: str
    value: str
    role: str


class RegionFunctions:
    """Writes the functions of all regions of one body."""

    def __init__(self, body: Body, regions: Regions) -> None:
        self.body = body
        self.regions = regions
        self.numbers = {region.entry: region.number for region in regions.regions}
        self.items = regions.analyses.items
        shared = [array.name for array in body.shared]
        self._captured = captured(regions.analyses, shared, regions.slots)
        self.made_in = {region.number: regions.made_in(region) for region in regions.regions}

    def behind(self, *reasons: str) -> dict[int, RegionEnd]:
        """The numbers of the regions behind ends for some reasons, with those ends."""
        ends = [block.terminator for block in self.regions.function.blocks.values()]
        return {
            self.numbers[end.target]: end
            for end in ends
            if isinstance(end, RegionEnd) and end.reason in reasons
        }

    def stored(self, region: Region) -> list[Slot]:
        """The slots that the region may write: live behind one of its ends and made in it."""
        return self.regions.stored(self.made_in[region.number], region.exits)

    def guards(self, region: Region) -> tuple[Guard, ...]:
        """The conditions whose outcome the region is told, as its last parameters."""
        first = () if region.number else self.regions.kernel_guards
        return (*first, *region.guards)

    def context_parameters(self, region: Region) -> list[ContextParameter]:
        """What the region is given of the context."""
        loaded = [self.regions.slots[name] for name in region.loaded]
        stored = self.stored(region)
        given = [(slot.type, slot.value, "live-in") for slot in loaded if not slot.varying]
        given += [("ptr", slot.value, "live-out") for slot in stored if not slot.varying]
        both = dict.fromkeys(slot.value for slot in [*loaded, *stored] if slot.varying)
        given += [("ptr noalias", value, "context") for value in both]
        return [ContextParameter(*each) for each in given]

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
    """Writes the function of one region."""

    def __init__(self, functions: RegionFunctions, region: Region) -> None:
        self._functions, self._region = functions, region
        self._regions = functions.regions
        name, parameters = f"haulage.region.{region.number}", functions.parameters(region)
        self._builder = Builder(name, parameters, RESULT, "alwaysinline")
        # What values are called here that the region starts with.
        self._names: dict[str, str] = {}
        # (label, next region, fault) of each block that goes to the end.
        self._results: list[tuple[str, str, str]] = []
        # By such a label, what all threads have in common behind it, by the slots' values.
        self._common: dict[str, dict[str, str]] = {}

    def function(self) -> Function:
        builder, region = self._builder, self._region
        builder.block("%region.start")
        if self._regions.masked:
            self._check_state()
        arrived = self._arrive()
        made = self._functions.made_in[region.number]
        again = made & {*region.loaded, *region.recomputed}
        for guard in self._functions.guards(region):
            if guard.condition not in again:
                arrived[guard.condition] = value_name(guard.condition, "guard")
        begin = builder.current
        builder.jump(region.entry)
        self._names = {name: new for name, new in arrived.items() if name not in again}
        for label in region.labels:
            self._block(self._regions.function.blocks[label])
        self._end()
        values = {name: (self._functions.items[name].type, arrived[name]) for name in sorted(again)}
        SSAUpdater(builder.function.blocks, begin, values)
        return builder.function

    def _check_state(self) -> None:
        """Find the thread's state, and go on only if it is this region's; nobody has left before
        the first one."""
        builder, number = self._builder, self._region.number
        state = builder.element("i32", "%states", "%thread", "inbounds", name="%state.at")
        if number:
            now = builder.load("i32", state, name="%state.now")
            here = builder.compare("eq", "i32", now, str(number), name="%state.here")
            builder.branch(here, "%region.begin", "%region.end")
            self._results.append(("%region.start", str(DONE), "0"))
            builder.block("%region.begin")

    def _arrive(self) -> dict[str, str]:
        """Load and recompute what the region starts with; returns the names it has there."""
        builder, region = self._builder, self._region
        names: dict[str, str] = {}
        for name in region.loaded:
            slot = self._regions.slots[name]
            names[name] = arrived = value_name(name, "live-in")
            if slot.varying:
                at = self._element(slot, "context", value_name(name, "at"))
                if slot.type == "i1":
                    byte = builder.load("i8", at, name=value_name(name, "byte"))
                    builder.cast("trunc", "i8", byte, "i1", name=arrived)
                else:
                    builder.load(slot.type, at, name=arrived)
        for step in region.steps:
            assert step.result is not None
            if step.result in names:
                # Of too many steps for its own sake, but on the way to an address.
                continue
            arrived = value_name(step.result, "live-in")
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
        builder, names = self._builder, self._names
        builder.block(block.label)
        for phi in block.phis:
            inside = [each for each in phi.incoming if each[1] in self._region.labels]
            incoming = [(names.get(value, value), label) for value, label in inside]
            builder.phi(phi.type, incoming, phi.result or "")
        for item in block.body:
            builder.extend(expanded(item.with_uses(names)))
        end = block.terminator
        if isinstance(end, RegionEnd):
            self._store_context(end.target)
            self._leave(self._functions.numbers[end.target], "0")
            return
        assert end is not None
        code = block.returned
        if code is None:
            builder.add(end.renamed(names))
            return
        fault = names.get(code, code)
        if self._functions.body.has_ends:
            # The code of an end is no fault.
            fault, computed = fault_of(fault, value_name(block.label, "fault"))
            builder.extend(computed)
        self._leave(DONE, fault)

    def _leave(self, following: int, fault: str) -> None:
        self._results.append((self._builder.current, str(following), fault))
        self._builder.jump("%region.end")

    def _store_context(self, target: str) -> None:
        for slot in self._functions.stored(self._region):
            if slot.value not in self._regions.live[target]:
                continue
            value, kind = self._names.get(slot.value, slot.value), slot.type
            if not (slot.varying or self._regions.masked):
                self._common.setdefault(self._builder.current, {})[slot.value] = value
                continue
            address = self._element(
                slot, "context" if slot.varying else "live-out", self._builder.name("to")
            )
            if kind == "i1":
                # A bit in a byte, as in memory anyway: LLVM widens no accesses of single bits.
                kind = "i8"
                value = self._builder.cast("zext", "i1", value, kind)
            self._builder.store(kind, value, address)

    def _store_common(self) -> None:
        """At the end, store what all threads have in common.

        That is done whichever exit a thread takes, with anything where nobody needs it: a slot that
        kept what it was on some paths would be carried from thread to thread, and LLVM vectorises
        no such loop.
        """
        builder = self._builder
        for slot in self._functions.stored(self._region):
            ways = [
                (self._common.get(label, {}).get(slot.value, "poison"), label)
                for label, _, _ in self._results
            ]
            if any(value != "poison" for value, _ in ways):
                last = builder.phi(slot.type, ways)
                builder.store(slot.type, last, value_name(slot.value, "live-out"))

    def _end(self) -> None:
        builder = self._builder
        builder.block("%region.end")
        if not self._results:
            # Every path ends in `unreachable`.
            builder.unreachable()
            return
        following = [(state, label) for label, state, _ in self._results]
        faults = [(fault, label) for label, _, fault in self._results]
        next_region = builder.phi("i32", following, "%region.next")
        fault = builder.phi("i32", faults, "%region.fault")
        self._store_common()
        if self._regions.masked:
            builder.store("i32", next_region, "%state.at")
        pair = builder.insert(RESULT, "poison", ("i32", next_region), 0, "%region.pair")
        both = builder.insert(RESULT, pair, ("i32", fault), 1, "%region.both")
        builder.ret(RESULT, both)
