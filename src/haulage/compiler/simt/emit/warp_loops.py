"""Runs each parallel region of a kernel with words of warps in loops over the lanes of one warp.

One warp after another runs as far as the next barrier of the block: so each goes its own way, and
what lives between two of its own region ends is small enough for registers. Behind a barrier of the
block each warp goes on where it came to; `%resume` keeps that, one state for each warp. What lives
over such a barrier has a context array for all warps, other context arrays are used by each warp
anew.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import LANE, LaneForms, Warps
from haulage.compiler.simt.compilation import Compilation
from haulage.compiler.simt.emit import warp_collectives
from haulage.compiler.simt.emit.loop_nest import Index, index_of, loop_nest
from haulage.compiler.simt.emit.region_function import DONE
from haulage.compiler.simt.emit.state_machine import StateMachine
from haulage.compiler.simt.ir.builder import Builder, Typed
from haulage.compiler.simt.ir.model import Function, Instruction, Operand, value_name
from haulage.compiler.simt.regions.parallel_regions import Region


class WarpLoops(StateMachine):
    """The block function whose groups are warps."""

    waits_at = ("barrier", "grid")
    ended = "%warp.ended"

    def __init__(self, state: Compilation) -> None:
        assert state.lanes is not None
        self.warps = state.lanes
        super().__init__(state, self.warps.threads)
        # The warp that runs: its number, its first thread, and the mask of its threads.
        self.warp = self.first = self.there = ""

    def functions(self) -> list[Function]:
        made = super().functions()
        if self.warps.follow_x:
            for function in made:
                _use_first_lane(function, self.warps)
        return made

    def allocate_context(self) -> None:
        b, masked = self.b, self.regions.masked
        count, size = self.warps.count, self.warps.size
        if self.waits:
            self.place("%resume", f"[{count} x i32]")
        if masked:
            self.place("%leaders", f"[{count} x i32]")
            self.place("%states.all", f"[{count * size} x i32]")
        for slot in self.regions.slots.values():
            lanes = size if slot.varying or masked else 1
            if slot.value in self.lasting:
                kind = f"[{count * lanes} x {slot.type}]"
                self.place(value_name(slot.value, "all"), kind)
            else:
                b.allocate(f"[{lanes} x {slot.type}]", 64, value_name(slot.value, "context"))

    # ---- warps ----------------------------------------------------------------------------------

    @contextmanager
    def groups(self) -> Iterator[None]:
        b, of_warps = self.b, f"[{self.warps.count} x i32]"
        if self.frame is not None:
            self.frame.resume(b, [(state, "%round") for state in self.grid_waits])
        self.clear_words()
        if self.regions.masked:
            b.store(of_warps, "zeroinitializer", "%leaders")
        if self.waits:
            b.store(of_warps, "zeroinitializer", "%resume")
        b.jump("%round")
        b.block("%round")
        with b.loop("warp", self.warps.count, "%round.over", kind="i32") as loop:
            self.warp = loop.index
            self._find_warp()
            stops: list[Typed] = []
            if self.waits:
                furthest = loop.carry("i32", str(DONE), "furthest")
                resume = b.at("i32", "%resume", self.warp, by="i32")
                state = b.load("i32", resume)
                cases = [(number, f"%region.{number}") for number in (0, *self.waits)]
                stops.append((str(DONE), b.current))
                b.switch("i32", state, "%warp.stopped", cases)
            else:
                b.jump("%region.0")
            yield
            stopping = [(str(k), f"%wait.{k}") for k in self.waits]
            for stopped in (*stopping, (str(DONE), self.ended)):
                b.block(stopped[1])
                b.jump("%warp.stopped")
                stops.append(stopped)
            b.block("%warp.stopped")
            if self.waits:
                stop = b.phi("i32", stops, "stop")
                b.store("i32", stop, resume)
                furthest = loop.set(furthest, b.extremum("smax", "i32", furthest, stop))
        if not self.waits:
            b.jump("%done")
            return
        cases = [(k, f"%grid.{k}") for k in self.grid_waits]
        b.switch("i32", furthest, "%round", [(DONE, "%done"), *cases])
        for k, end in self.grid_waits.items():
            assert self.frame is not None
            b.block(f"%grid.{k}")
            self.frame.wait(b, k, end.place)

    def _find_warp(self) -> None:
        """Find the warp's threads, its part of all storage and its leader."""
        b, warp, size, threads = self.b, self.warp, self.warps.size, self.warps.threads
        self.first = b.binary("mul", "i32", warp, str(size), "nuw", "nsw", name="warp.first")
        self.group_threads, self.there = str(size), "-1"
        if threads % size:
            rest = b.binary("sub", "i32", str(threads), self.first, "nuw", "nsw")
            self.group_threads = b.extremum("smin", "i32", rest, str(size), "warp.threads")
            absent = b.binary("sub", "i32", str(size), self.group_threads, "nuw", "nsw")
            if size == 64:
                absent = b.cast("zext", "i32", absent, "i64")
            self.there = b.binary("lshr", f"i{size}", "-1", absent, name="warp.there")
        for name, slot in self.regions.slots.items():
            if name not in self.lasting:
                continue
            offset = self.first if slot.varying or self.regions.masked else warp
            b.at(slot.type, value_name(name, "all"), offset, value_name(name, "context"), "i32")
        if self.regions.masked:
            b.at("i32", "%states.all", self.first, "%states", "i32")
            b.at("i32", "%leaders", warp, "%leader", "i32")

    # ---- regions --------------------------------------------------------------------------------

    def run(self, region: Region, given: list[Typed], loaded: Mapping[str, str]) -> None:
        b, size = self.b, self.warps.size
        collective = self.state.collectives.get(region.entry)
        if collective is not None:
            there = self._lanes_at(region.number) if collective.kind == "match" else "-1"
            leader = "0"
            if self.regions.masked:
                leader = b.cast("zext", "i32", b.load("i32", "%leader"), "i64")
            warp_collectives.answer(b, collective, leader, there)
        ranges = {"x": ("0", self.group_threads)}
        note = [self.metadata.lane_loop(size)]
        with loop_nest(b, (size, 1, 1), ("x",), ranges, note) as nest:
            lane = nest.innermost.index
            linear = b.binary("add", "i32", self.first, lane, "nuw", "nsw")
            self.call(
                region,
                self._index(linear, lane),
                nest.linear,
                given,
                in_block=b.cast("zext", "i32", linear, "i64"),
                access=self.metadata.access() if region.is_parallel else (),
            )

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

    def _index(self, linear: str, lane: str) -> Index:
        """The x, y and z of the thread with a linear index."""
        b, block, size = self.b, self.warps.block, self.warps.size
        if block[1:] == (1, 1):
            return linear, "0", "0"
        if not self.warps.follow_x:
            return index_of(b, block, linear)
        # A warp lies in one row.
        column, y, z = index_of(b, (block[0] // size, block[1], block[2]), self.warp)
        start = b.binary("mul", "i32", column, str(size), "nuw", "nsw")
        return b.binary("add", "i32", start, lane, "nuw", "nsw"), y, z


def _use_first_lane(function: Function, warps: Warps) -> None:
    """Make what all lanes have in common of the first lane's index instead of each lane's own, so
    that LLVM moves it, and the branches on it, out of the loop over the lanes: a warp then decides
    once on `threadIdx.x < 32`."""
    analyses = Analyses(function)
    lanes = LaneForms(analyses, warps)
    x, lane = "%threadIdx.x", value_name(LANE, "i32")
    first = {x: value_name(x, "first")}
    for label in analyses.order:
        block = function.blocks[label]
        made: list[Instruction] = []
        if label == function.entry:
            made.append(Builder.cast("trunc", "i64", LANE, "i32", lane))
            made.append(Builder.binary("sub", "i32", x, lane, "nuw", "nsw", name=first[x]))
        for item in block.body:
            result = item.result or ""
            made.append(item.with_uses(first) if result in lanes.common else item)
            made_of_first = all(
                each.text in first or lanes.is_common(each) for each in item.operands
            )
            if result and made_of_first and lanes.is_aligned(Operand(item.type, result)):
                first[result] = value_name(result, "first")
                made.append(item.renamed(first))
        block.body = made
