"""Writes the function of one region: what one thread does between two cuts.

`{ i32, i32 } @haulage.region.K(...)` gives the number of the region to go on with, or -1 at the
end, and the fault that ended the thread, or 0. It has the body's parameters, then the rooms, the
thread's linear number in its block, and what it is given of the slots. Where threads may have left
(`early_exit.py`) it has the states of the threads too: it runs only if the thread's state is its
own number, and leaves the next one there.
"""

from dataclasses import dataclass

from haulage.compiler.simt.analysis.capture import rooms_kept
from haulage.compiler.simt.analysis.exit_codes import fault_lines, return_code
from haulage.compiler.simt.analysis.guards import Guard
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit.block_function import parameter_list
from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Block, RegionEnd, value_name
from haulage.compiler.simt.loops.block_atomics import expanded
from haulage.compiler.simt.regions.iteration_ranges import Clipping
from haulage.compiler.simt.regions.parallel_regions import Region, Regions, Slot

DONE = -1


@dataclass(frozen=True)
class SlotParameter:
    """A parameter of a region: a uniform slot's value ("in") or address ("out"), or the address of
    a varying slot's first element ("slot"). In masked regions uniform slots have an element for
    each thread too: stores to one address under a mask would keep LLVM from widening."""

    type: str
    value: str
    role: str


class RegionFunctions:
    """Writes the functions of all regions of one body."""

    def __init__(self, body: Body, regions: Regions, clipping: Clipping) -> None:
        self.body = body
        self.regions = regions
        self.clipping = clipping
        self.numbers = {region.entry: region.number for region in regions.regions}
        self._definitions = regions.function.definitions()
        names = [room.name for room in body.shared]
        self._kept = rooms_kept(regions.function, names, regions.slots)
        self.made_in = {region.number: regions.made_in(region) for region in regions.regions}

    def stored(self, region: Region) -> list[Slot]:
        """The slots that the region may write: live behind one of its cuts and made in it."""
        return self.regions.stored(self.made_in[region.number], region.exits)

    def guards(self, region: Region) -> tuple[Guard, ...]:
        """The conditions that the region is told the outcome of, as its last parameters."""
        own = self.clipping.of_regions[region.number]
        parting = self.clipping.partings[region.number]
        told = own if parting is None else (*own, parting)
        return told if region.number else self.clipping.of_kernel + told

    def slot_parameters(self, region: Region) -> list[SlotParameter]:
        """What the region is given of the slots."""
        loaded = [self.regions.slots[name] for name in region.loaded]
        stored = self.stored(region)
        values = [SlotParameter(slot.type, slot.value, "in") for slot in loaded if not slot.varying]
        outs = [SlotParameter("ptr", slot.value, "out") for slot in stored if not slot.varying]
        both = dict.fromkeys(slot.value for slot in [*loaded, *stored] if slot.varying)
        arrays = [SlotParameter("ptr noalias", name, "slot") for name in both]
        return values + outs + arrays

    def parameters(self, region: Region) -> list[tuple[str, str]]:
        """Types and names of the parameters of the region's function."""
        return [
            *((parameter.type, parameter.name) for parameter in self.body.function.parameters),
            *(
                ("ptr" if room.name in self._kept else "ptr noalias", room.name)
                for room in self.body.shared
            ),
            *(("ptr", room.name) for room in self.body.private),
            ("i64", "%thread"),
            *(
                (given.type, value_name(given.value, given.role))
                for given in self.slot_parameters(region)
            ),
            *([("ptr noalias", "%states")] if self.regions.masked else []),
            *(("i1", value_name(guard.condition, "guard")) for guard in self.guards(region)),
        ]

    def text(self, region: Region) -> str:
        """LLVM text of one region's function."""
        made = self.made_in[region.number]
        arriving = {*region.loaded, *region.recomputed}
        in_memory = {name: self._definitions[name][1].type for name in sorted(arriving & made)}
        lines = [
            f"define internal {{ i32, i32 }} @haulage.region.{region.number}"
            f"({parameter_list(self.parameters(region))}) alwaysinline {{",
            "region.start:",
        ]
        lines += [
            f"  {value_name(name, 'mem')} = alloca {kind}" for name, kind in in_memory.items()
        ]
        lines += self._mask(region)
        names = self._arrivals(region, lines)
        names |= {
            guard.condition: value_name(guard.condition, "guard")
            for guard in self.guards(region)
            if guard.condition not in in_memory
        }
        lines += [
            f"  store {kind} {names.pop(name)}, ptr {value_name(name, 'mem')}"
            for name, kind in in_memory.items()
        ]
        lines.append(f"  br label {region.entry}")
        results = [("%region.start", str(DONE), "0")] if self._is_masked(region) else []
        memory = _InMemory(in_memory, names)
        inside = set(region.labels)
        for label in region.labels:
            block = self.regions.function.blocks[label]
            lines.append(f"{label[1:]}:")
            lines += self._block_lines(region, block, memory, inside, results)
        lines += self._region_end(results)
        return "\n".join([*lines, "}"])

    def _is_masked(self, region: Region) -> bool:
        # Nobody has left before the first region.
        return self.regions.masked and region.number > 0

    def _mask(self, region: Region) -> list[str]:
        """Find the thread's state; go on only if it is this region's."""
        if not self.regions.masked:
            return []
        lines = ["  %state.at = getelementptr inbounds i32, ptr %states, i64 %thread"]
        if self._is_masked(region):
            lines += [
                "  %state.now = load i32, ptr %state.at",
                f"  %state.here = icmp eq i32 %state.now, {region.number}",
                "  br i1 %state.here, label %region.begin, label %region.end",
                "region.begin:",
            ]
        return lines

    def _arrivals(self, region: Region, lines: list[str]) -> dict[str, str]:
        """Load and work out what the region starts with; gives the names it has there."""
        names: dict[str, str] = {}
        for name in region.loaded:
            slot = self.regions.slots[name]
            arrived = value_name(slot.value, "in")
            if slot.varying:
                address = value_name(slot.value, "at")
                lines.append(
                    f"  {address} = getelementptr inbounds {slot.type}, "
                    f"ptr {value_name(slot.value, 'slot')}, i64 %thread"
                )
                lines.append(f"  {arrived} = load {slot.type}, ptr {address}")
            names[name] = arrived
        for step in region.steps:
            assert step.result is not None
            if step.result in names:
                # Of too many steps for its own sake, but on the way to an address.
                continue
            arrived = value_name(step.result, "in")
            lines.append("  " + step.renamed({**names, step.result: arrived}).text)
            names[step.result] = arrived
        wanted = {*region.loaded, *region.recomputed}
        made = self.made_in[region.number]
        # Steps on the way to a recomputed value may be made in the region too, under their own
        # name.
        return {name: new for name, new in names.items() if name in wanted or name not in made}

    def _block_lines(
        self,
        region: Region,
        block: Block,
        memory: "_InMemory",
        inside: set[str],
        results: list[tuple[str, str, str]],
    ) -> list[str]:
        lines: list[str] = []
        after_phis: list[str] = []
        for phi in block.phis:
            sources = tuple(
                (memory.loaded_at_end(value, label), label)
                for value, label in phi.incoming
                if label in inside
            )
            lines.append("  " + build.phi(phi.result or "", phi.type, sources).text)
            after_phis += memory.store(phi.result)
        lines += after_phis
        for item in block.body:
            before, names = memory.load(item.uses)
            lines += before
            lines += ["  " + each.text for each in expanded(item.with_uses(names))]
            lines += memory.store(item.result)
        for successor in block.successors:
            if successor in inside and not isinstance(block.terminator, RegionEnd):
                for phi in self.regions.function.blocks[successor].phis:
                    for value, label in phi.incoming:
                        if label == block.label:
                            lines += memory.load_at_end(value, label)
        if isinstance(block.terminator, RegionEnd):
            lines += self._stores(region, block.terminator.target, memory)
            results.append((block.label, str(self.numbers[block.terminator.target]), "0"))
            lines.append("  br label %region.end")
            return lines
        assert block.terminator is not None
        before, names = memory.load(block.terminator.uses)
        lines += before
        code = return_code(block)
        if code is not None:
            code = names.get(code, code)
            if self.body.has_ends:
                fault, counted = fault_lines(code, value_name(block.label, "fault"))
                lines += counted
                code = fault
            results.append((block.label, str(DONE), code))
            lines.append("  br label %region.end")
        else:
            lines.append("  " + block.terminator.renamed(names).text)
        return lines

    def _stores(self, region: Region, target: str, memory: "_InMemory") -> list[str]:
        lines: list[str] = []
        for slot in self.stored(region):
            if slot.value not in self.regions.live[target]:
                continue
            before, names = memory.load((slot.value,))
            lines += before
            value = names.get(slot.value, slot.value)
            address = value_name(slot.value, "slot" if slot.varying else "out")
            if slot.varying or self.regions.masked:
                element = memory.fresh(slot.value)
                lines.append(
                    f"  {element} = getelementptr inbounds {slot.type}, ptr {address}, i64 %thread"
                )
                address = element
            lines.append(f"  store {slot.type} {value}, ptr {address}")
        return lines

    def _region_end(self, results: list[tuple[str, str, str]]) -> list[str]:
        lines = ["region.end:"]
        if not results:
            # Every way ends in `unreachable`.
            return [*lines, "  unreachable"]
        following = ", ".join(f"[ {state}, {label} ]" for label, state, _ in results)
        faults = ", ".join(f"[ {code}, {label} ]" for label, _, code in results)
        return [
            *lines,
            f"  %region.next = phi i32 {following}",
            f"  %region.fault = phi i32 {faults}",
            *(["  store i32 %region.next, ptr %state.at"] if self.regions.masked else []),
            "  %region.pair = insertvalue { i32, i32 } poison, i32 %region.next, 0",
            "  %region.both = insertvalue { i32, i32 } %region.pair, i32 %region.fault, 1",
            "  ret { i32, i32 } %region.both",
        ]


class _InMemory:
    """Values that a region both starts with and makes again: kept in memory inside the region."""

    def __init__(self, types: dict[str, str], names: dict[str, str]) -> None:
        self._types = types
        self._names = names
        self._at_end: dict[tuple[str, str], str] = {}
        self._loaded: set[str] = set()
        self._count = 0

    def fresh(self, name: str) -> str:
        self._count += 1
        return value_name(name, f"use.{self._count}")

    def load(self, operands: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
        """Lines that load what is in memory of `operands`, and the names all of them have now."""
        lines: list[str] = []
        names: dict[str, str] = {}
        for name in operands:
            if name in names:
                continue
            if name in self._types:
                names[name] = self.fresh(name)
                lines.append(
                    f"  {names[name]} = load {self._types[name]}, ptr {value_name(name, 'mem')}"
                )
            elif name in self._names:
                names[name] = self._names[name]
        return lines, names

    def store(self, result: str | None) -> list[str]:
        """The line that keeps `result` in memory, if that is where it lives."""
        if result is None or result not in self._types:
            return []
        return [f"  store {self._types[result]} {result}, ptr {value_name(result, 'mem')}"]

    def loaded_at_end(self, value: str, label: str) -> str:
        """The name that a phi's source `value` has at the end of the block `label`."""
        if value in self._types:
            return self._at_end.setdefault((value, label), self.fresh(value))
        return self._names.get(value, value)

    def load_at_end(self, value: str, label: str) -> list[str]:
        """The line at the end of `label` that loads what `loaded_at_end` named; once."""
        if value not in self._types:
            return []
        name = self.loaded_at_end(value, label)
        if name in self._loaded:
            return []
        self._loaded.add(name)
        return [f"  {name} = load {self._types[value]}, ptr {value_name(value, 'mem')}"]
