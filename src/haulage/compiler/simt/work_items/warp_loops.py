"""Writes a body that was split at warp collectives, or at barriers of lanes, as a block function.

One warp after another runs as far as the next barrier of the block. In between its regions follow
one another as in `work_item_loops.py`, in loops over the lanes of one warp: so each warp goes its
own way, and what lives between two of its own region ends is small enough for registers. Behind a
barrier of the block each warp goes on where it came to; `%resume` keeps that, one state for each
warp. What lives over such a barrier has a context array for all warps, other context arrays are
used by each warp anew.
"""

from collections.abc import Mapping

from haulage.compiler.simt.analysis.kernel import Body, Storage
from haulage.compiler.simt.analysis.warps import Warps
from haulage.compiler.simt.coroutines.cooperative_grid import Frame
from haulage.compiler.simt.emit.block_function import (
    Metadata,
    allocate_private,
    allocate_shared,
    block_parameters,
    private_addresses,
)
from haulage.compiler.simt.emit.loop_nest import Index, index_of
from haulage.compiler.simt.emit.region_call import (
    Thread,
    call_region,
    context_arguments,
    follow_leader,
    keep_largest_fault,
)
from haulage.compiler.simt.emit.region_function import DONE, RESULT, RegionFunctions
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function, RegionEnd, value_name
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.regions import iteration_ranges
from haulage.compiler.simt.regions.exchanges import Exchange
from haulage.compiler.simt.regions.parallel_regions import Region, Regions
from haulage.compiler.simt.work_items import warp_collectives
from haulage.forks import cached_property


def collective_storage(collectives: Mapping[str, Exchange], warps: Warps) -> tuple[Storage, ...]:
    """The memory through which lanes exchange values, which every region is given."""
    found = warp_collectives.storage(collectives.values(), warps.size)
    return tuple(Storage(name, nbytes, 64) for name, nbytes in sorted(found.items()))


def write(
    body: Body,
    regions: Regions,
    warps: Warps,
    collectives: Mapping[str, Exchange],
    metadata: Metadata,
    cooperative: bool,
) -> str:
    """LLVM text of `@haulage.block` and its regions; `collectives` by the labels of the regions
    behind them, `cooperative` as in `work_item_loops.py`. The memory of collectives is among
    `body.shared`."""
    functions = RegionFunctions(body, regions, iteration_ranges.unbounded(regions))
    writer = _BlockFunction(functions, warps, collectives, metadata, cooperative)
    made = [
        *warp_collectives.functions(collectives.values()),
        *map(functions.function, regions.regions),
        writer.function(),
    ]
    types = [] if writer.frame is None else [writer.frame.text()]
    return "\n\n".join([*types, *map(definition, made)])


class _BlockFunction:
    def __init__(
        self,
        functions: RegionFunctions,
        warps: Warps,
        collectives: Mapping[str, Exchange],
        metadata: Metadata,
        cooperative: bool,
    ) -> None:
        self.body: Body = functions.body
        self.regions = functions.regions
        self.region_functions = functions
        self.warps = warps
        self.collectives = collectives
        self.metadata = metadata
        self.frame = Frame(self.body, warps.threads) if cooperative else None
        parameters = block_parameters(self.body) if self.frame is None else self.frame.parameters()
        self.b = Builder("haulage.block", parameters, "i32", "noinline", stem="block")
        # The warp that runs: its number, its first thread, how many it has, and their mask.
        self.warp = self.first = self.threads = self.there = ""

    def function(self) -> Function:
        b = self.b
        b.block("%block.start")
        self._allocate()
        b.jump("%round")
        b.block("%round")
        with b.loop("warp", self.warps.count, "%round.over", kind="i32") as loop:
            furthest = loop.carry("i32", str(DONE), "furthest") if self._stops else ""
            self.warp = loop.index
            self._find_warp()
            resume = self._resume()
            for region in self.regions.regions:
                self._region(region)
            b.block("%warp.stopped")
            if self._stops:
                stop = b.load("i32", "%stop")
                b.store("i32", stop, resume)
                furthest = loop.set(furthest, b.extremum("smax", "i32", furthest, stop))
        self._end_round(furthest)
        b.block("%done")
        fault = b.load("i32", "%fault") if self.body.may_fail else "0"
        b.ret("i32", fault)
        return b.function

    # ---- storage and rounds ---------------------------------------------------------------------

    def _allocate(self) -> None:
        """Make or find all storage, and clear what begins with 0; a block that waited for its grid
        goes on with a round."""
        b, body, frame, warps = self.b, self.body, self.frame, self.warps
        fault = ["%fault"] if body.may_fail else []
        b.allocate("ptr", name="%ret")
        if self._stops:
            b.allocate("i32", name="%stop")
        if frame is None:
            for name in fault:
                b.allocate("i32", name=name)
            allocate_shared(b, body, warps.threads)
            allocate_private(b, body, warps.threads)
        else:
            frame.fixed(b, fault)
        of_warps, lanes = f"[{warps.count} x i32]", warps.count * warps.size
        cleared = ["%leaders"] if self.regions.masked else []
        cleared += ["%resume"] if self._stops else []
        lasting = dict.fromkeys(cleared, of_warps)
        if self.regions.masked:
            lasting["%states.all"] = f"[{lanes} x i32]"
        for slot in self.regions.slots.values():
            each, name = slot.varying or self.regions.masked, value_name(slot.value, "all")
            if slot.value in self._lasting:
                lasting[name] = f"[{lanes if each else warps.count} x {slot.type}]"
            else:
                b.allocate(f"[{warps.size if each else 1} x {slot.type}]", 64, name)
        for name, kind in lasting.items():
            if frame is None:
                b.allocate(kind, 64, name)
            else:
                frame.place(b, name, kind)
        if frame is not None:
            frame.resume(b, [(state, "%round") for state in self._grid_stops])
        for name in fault:
            b.store("i32", "0", name)
        for name in cleared:
            b.store(of_warps, "zeroinitializer", name)

    @property
    def _is_partial(self) -> bool:
        return self.warps.threads % self.warps.size != 0

    @cached_property
    def _stops(self) -> dict[int, RegionEnd]:
        """The regions behind barriers of the block or the grid, where warps wait for each other."""
        return self.region_functions.behind("barrier", "grid")

    @cached_property
    def _grid_stops(self) -> dict[int, int]:
        """The regions behind barriers of the grid, with the barriers' fault numbers."""
        return {k: end.place for k, end in self.region_functions.behind("grid").items()}

    @cached_property
    def _lasting(self) -> frozenset[str]:
        """The values that live over a barrier of the block."""
        return self.region_functions.live_behind(self._stops.values())

    def _find_warp(self) -> None:
        """Find the warp's threads, its part of all storage and its leader."""
        b, warp, size = self.b, self.warp, self.warps.size
        self.first = b.binary("mul", "i32", warp, str(size), "nuw", "nsw", name="warp.first")
        self.there = "-1"
        self.threads = str(size)
        if self._is_partial:
            rest = b.binary("sub", "i32", str(self.warps.threads), self.first, "nuw", "nsw")
            self.threads = b.extremum("smin", "i32", rest, str(size), "warp.threads")
            absent = b.binary("sub", "i32", str(size), self.threads, "nuw", "nsw")
            if size == 64:
                absent = b.cast("zext", "i32", absent, "i64")
            self.there = b.binary("lshr", f"i{size}", "-1", absent, name="warp.there")
        for slot in self.regions.slots.values():
            offset = "0"
            if slot.value in self._lasting:
                offset = self.first if slot.varying or self.regions.masked else warp
            whole, own = (value_name(slot.value, part) for part in ("all", "context"))
            b.at(slot.type, whole, offset, own, "i32")
        if self.regions.masked:
            b.at("i32", "%states.all", self.first, "%states", "i32")
            b.at("i32", "%leaders", warp, "%leader", "i32")

    def _resume(self) -> str:
        """Let the warp go on where it stopped; returns where that is kept."""
        b = self.b
        if not self._stops:
            b.jump("%region.0")
            return ""
        resume = b.at("i32", "%resume", self.warp, by="i32")
        state = b.load("i32", resume)
        b.store("i32", str(DONE), "%stop")
        cases = [(number, f"%region.{number}") for number in (0, *self._stops)]
        b.switch("i32", state, "%warp.stopped", cases)
        return resume

    def _end_round(self, furthest: str) -> None:
        """Behind the last warp: wait for the grid, begin another round, or end the block."""
        b = self.b
        if not self._stops:
            b.jump("%done")
            return
        cases = [(state, f"%grid.{state}") for state in self._grid_stops]
        b.switch("i32", furthest, "%round", [(DONE, "%done"), *cases])
        for state, place in self._grid_stops.items():
            assert self.frame is not None
            b.block(f"%grid.{state}")
            self.frame.wait(b, state, place)

    # ---- regions --------------------------------------------------------------------------------

    def _region(self, region: Region) -> None:
        """Run a region for all lanes of the warp, behind its collective, and go on."""
        b, body, k = self.b, self.body, region.number
        masked = self.regions.masked
        b.block(f"%region.{k}")
        collective = self.collectives.get(region.entry)
        if collective is not None:
            there = self._lanes_at(k) if collective.kind == "match" else "-1"
            leader = b.cast("zext", "i32", b.load("i32", "%leader"), "i64") if masked else "0"
            warp_collectives.answer(b, collective, leader, there)
        given, _ = context_arguments(b, self.region_functions, region, "context")
        given += [("ptr", "%states")] if masked else []
        access = self.metadata.access() if region.is_parallel else ()
        note = self.metadata.lane_loop(self.warps.size)
        state = worst = ""
        with b.loop("lane", self.threads, kind="i32", metadata=note) as loop:
            lane = b.cast("zext", "i32", loop.index, "i64")
            first = b.cast("zext", "i32", self.first, "i64")
            in_block = b.binary("add", "i64", first, lane, "nuw", "nsw")
            private = private_addresses(b, body, in_block)
            thread = Thread(self._index(loop.index), lane, private)
            callee = f"haulage.region.{k}"
            both = call_region(b, body, self.warps.block, callee, thread, given, access)
            if not masked:
                state = b.extract(RESULT, both, 0)
            if body.may_fail:
                worst = loop.carry("i32", "0", "fault")
                fault = b.extract(RESULT, both, 1)
                worst = loop.set(worst, b.extremum("umax", "i32", worst, fault))
        if body.may_fail:
            keep_largest_fault(b, worst)
        self._go_on(region, state)

    def _lanes_at(self, k: int) -> str:
        """The mask of the lanes that came to region `k`."""
        if not self.regions.masked:
            return self.there
        b, size = self.b, self.warps.size
        vector = f"<{size} x i32>"
        states = b.freeze(vector, b.load(vector, "%states", 64))
        is_here = b.compare("eq", vector, states, b.splat(size, "i32", str(k)))
        mask = b.cast("bitcast", f"<{size} x i1>", is_here, f"i{size}")
        return b.binary("and", f"i{size}", mask, self.there)

    def _index(self, lane: str) -> Index:
        """A thread's x, y and z."""
        b, block, size = self.b, self.warps.block, self.warps.size
        linear = b.binary("add", "i32", self.first, lane, "nuw", "nsw")
        if block[1:] == (1, 1):
            return linear, "0", "0"
        if not self.warps.follow_x:
            return index_of(b, block, linear)
        # A warp lies in one row.
        column, y, z = index_of(b, (block[0] // size, block[1], block[2]), self.warp)
        start = b.binary("mul", "i32", column, str(size), "nuw", "nsw")
        return b.binary("add", "i32", start, lane, "nuw", "nsw"), y, z

    def _go_on(self, region: Region, state: str) -> None:
        """Go on with another region, whose number is `state`, or where the warp's leader is; stop
        in front of barriers of the block, and at the end."""
        b, k = self.b, region.number
        states = [self.region_functions.numbers[label] for label in region.exits]
        ended = f"%ended.{k}"
        ends = not states or region.returns or self.regions.masked
        if self.regions.masked and states:
            state = follow_leader(b, self.threads, ended)
        cases = [
            (each, f"%stop.{k}.{each}" if each in self._stops else f"%region.{each}")
            for each in states
        ]
        default = ended if ends else cases.pop(0)[1]
        if cases:
            b.switch("i32", state, default, cases)
        else:
            b.jump(default)
        stops = [(f"%stop.{k}.{each}", each) for each in states if each in self._stops]
        for label, each in [*stops, *([(ended, DONE)] if ends else [])]:
            b.block(label)
            if self._stops:
                b.store("i32", str(each), "%stop")
            b.jump("%warp.stopped")
