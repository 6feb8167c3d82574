"""Writes a cut body whose warps exchange values, or wait for their lanes, as a block function.

One warp after another runs as far as the next barrier of the block. In between it is a machine like
that of `work_item_loops.py`, for the lanes of one warp: so each warp goes its own way, and what
lives between two of its own cuts is small enough for registers. Behind a barrier of the block each
warp goes on where it came to; `%resume` keeps that, one state for each warp. What lives over such a
barrier has a slot for each warp or thread of the block, other slots are used by each warp anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from haulage.compiler.simt.analysis.kernel import Body, Storage
from haulage.compiler.simt.analysis.warps import Warps
from haulage.compiler.simt.coroutines.frames import Frame
from haulage.compiler.simt.emit import leader
from haulage.compiler.simt.emit.block_function import (
    Metadata,
    attached,
    block_parameters,
    open_block,
    private_pointers,
    private_rooms,
    shared_rooms,
)
from haulage.compiler.simt.emit.leader import region_call
from haulage.compiler.simt.emit.region_function import DONE, RegionFunctions
from haulage.compiler.simt.ir.model import RegionEnd, value_name
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.regions import iteration_ranges
from haulage.compiler.simt.regions.exchanges import Exchange
from haulage.compiler.simt.regions.parallel_regions import Region, Regions, Slot
from haulage.compiler.simt.work_items import exchange_code
from haulage.forks import cached_property


def exchange_rooms(exchanges: Mapping[str, Exchange], warps: Warps) -> tuple[Storage, ...]:
    """The rooms that the regions exchange values through, which every region is given."""
    found = exchange_code.rooms(exchanges.values(), warps.size)
    return tuple(Storage(name, nbytes, 64) for name, nbytes in sorted(found.items()))


def write(
    body: Body,
    regions: Regions,
    warps: Warps,
    exchanges: Mapping[str, Exchange],
    metadata: Metadata,
    cooperative: bool,
) -> str:
    """LLVM text of `@haulage.block` and its regions; `exchanges` by the labels of the regions
    behind them, `cooperative` as in `work_item_loops.py`. The rooms of exchanges are among
    `body.shared`."""
    functions = RegionFunctions(body, regions, iteration_ranges.none(regions))
    machine = _Machine(body, regions, functions, warps, exchanges, metadata, cooperative)
    return "\n\n".join(
        [
            *exchange_code.functions(exchanges.values()),
            *(definition(functions.function(region)) for region in regions.regions),
            machine.block_function(),
        ]
    )


@dataclass(frozen=True)
class _Machine:
    body: Body
    regions: Regions
    functions: RegionFunctions
    warps: Warps
    exchanges: Mapping[str, Exchange]
    metadata: Metadata
    cooperative: bool

    def block_function(self) -> str:
        threads = self.warps.threads
        frame = Frame(self.body, threads) if self.cooperative else None
        fault = ["%fault"] if self.body.may_fail else []
        lines = ["  %ret = alloca ptr", "  %stop = alloca i32"]
        if frame is None:
            opening = open_block(block_parameters(self.body))
            lines += [f"  {name} = alloca i32" for name in fault]
            lines += shared_rooms(self.body, threads)
            lines += private_rooms(self.body, threads)
        else:
            opening = frame.open()
            lines += frame.fixed(fault)
        cleared: dict[str, str] = {}
        if self.regions.masked:
            cleared["%leaders"] = f"[{self.warps.count} x i32]"
        if self._stops:
            cleared["%resume"] = f"[{self.warps.count} x i32]"
        lasting = dict(cleared)
        if self.regions.masked:
            lasting["%states.room"] = f"[{self._lanes} x i32]"
        for slot in self.regions.slots.values():
            is_lasting = slot.value in self._lasting
            name = value_name(slot.value, "all")
            room = f"[{self._slot_count(slot, is_lasting)} x {slot.type}]"
            if is_lasting:
                lasting[name] = room
            else:
                lines.append(f"  {name} = alloca {room}, align 64")
        for name, room in lasting.items():
            made = f"  {name} = alloca {room}, align 64"
            lines.append(made if frame is None else frame.place(name, room))
        if frame is not None:
            lines += frame.resume([(state, "%round") for state in self._grid_stops])
        lines += [f"  store i32 0, ptr {name}" for name in fault]
        lines += [f"  store {room} zeroinitializer, ptr {name}" for name, room in cleared.items()]
        lines += self._next_warp()
        for region in self.regions.regions:
            lines += self._state(region)
        lines += self._warp_stopped(frame)
        lines.append("done:")
        result = "0"
        if self.body.may_fail:
            lines.append("  %result = load i32, ptr %fault")
            result = "%result"
        lines += [f"  ret i32 {result}", "}"]
        types = [frame.text()] if frame is not None else []
        return "\n\n".join([*types, "\n".join([*opening, *lines])])

    @property
    def _lanes(self) -> int:
        """Lanes of all warps, those of the last one that are no threads too."""
        return self.warps.count * self.warps.size

    @property
    def _partial(self) -> bool:
        return self.warps.threads % self.warps.size != 0

    @cached_property
    def _stops(self) -> dict[int, RegionEnd]:
        """The regions behind barriers of the block or the grid, where warps wait for each other."""
        ends = [block.terminator for block in self.regions.function.blocks.values()]
        return {
            self.functions.numbers[end.target]: end
            for end in ends
            if isinstance(end, RegionEnd) and end.reason in ("barrier", "grid")
        }

    @cached_property
    def _grid_stops(self) -> dict[int, int]:
        """The regions behind barriers of the grid, with the barriers' fault numbers."""
        stops = self._stops.items()
        return {state: end.place for state, end in stops if end.reason == "grid"}

    @cached_property
    def _lasting(self) -> frozenset[str]:
        """The slots that live over a barrier of the block."""
        return frozenset(
            name for end in self._stops.values() for name in self.regions.live[end.target]
        )

    def _slot_count(self, slot: Slot, lasting: bool) -> int:
        each = slot.varying or self.regions.masked
        if lasting:
            return self._lanes if each else self.warps.count
        return self.warps.size if each else 1

    def _next_warp(self) -> list[str]:
        """Lines that begin a round over the warps, and let one go on where it stopped."""
        size, block = self.warps.size, self.warps.block
        lines = [
            "  br label %round",
            "round:",
            "  br label %warp",
            "warp:",
            "  %w = phi i32 [ 0, %round ], [ %w.after, %warp.stopped ]",
            f"  %w.furthest = phi i32 [ {DONE}, %round ], [ %w.furthest.now, %warp.stopped ]",
            f"  %w.first = mul nuw nsw i32 %w, {size}",
            "  %w.first.wide = zext i32 %w.first to i64",
        ]
        if self.warps.follow_x and block[1:] != (1, 1):
            across = block[0] // size
            lines += [
                f"  %w.column = urem i32 %w, {across}",
                f"  %w.row = udiv i32 %w, {across}",
                f"  %w.x = mul nuw nsw i32 %w.column, {size}",
                f"  %w.y = urem i32 %w.row, {block[1]}",
                f"  %w.z = udiv i32 %w.row, {block[1]}",
            ]
        if self._partial:
            lines += [
                f"  %w.rest = sub nuw nsw i32 {self.warps.threads}, %w.first",
                f"  %w.threads = call i32 @llvm.smin.i32(i32 %w.rest, i32 {size})",
                f"  %w.is.whole = icmp eq i32 %w.threads, {size}",
                "  %w.threads.wide = zext i32 %w.threads to i64",
                "  %w.above = shl i64 -1, %w.threads.wide",
                "  %w.below = xor i64 %w.above, -1",
                "  %w.there.wide = select i1 %w.is.whole, i64 -1, i64 %w.below",
                f"  %w.there = {'freeze' if size == 64 else 'trunc'} i64 %w.there.wide"
                f"{'' if size == 64 else f' to i{size}'}",
            ]
        for slot in self.regions.slots.values():
            whole, own = (value_name(slot.value, part) for part in ("all", "room"))
            offset = "0"
            if slot.value in self._lasting:
                each = slot.varying or self.regions.masked
                offset = "%w.first" if each else "%w"
            lines.append(f"  {own} = getelementptr inbounds {slot.type}, ptr {whole}, i32 {offset}")
        if self.regions.masked:
            lines += [
                "  %states = getelementptr inbounds i32, ptr %states.room, i32 %w.first",
                "  %leader = getelementptr inbounds i32, ptr %leaders, i32 %w",
            ]
        if not self._stops:
            return [*lines, "  br label %state.0"]
        cases = " ".join(f"i32 {state}, label %state.{state}" for state in (0, *self._stops))
        return [
            *lines,
            "  %resume.at = getelementptr inbounds i32, ptr %resume, i32 %w",
            "  %resume.now = load i32, ptr %resume.at",
            f"  store i32 {DONE}, ptr %stop",
            f"  switch i32 %resume.now, label %warp.stopped [ {cases} ]",
        ]

    def _warp_stopped(self, frame: Frame | None) -> list[str]:
        """Lines that go on with the next warp, or from the last to the next round."""
        lines = ["warp.stopped:"]
        if self._stops:
            lines += [
                "  %w.stop = load i32, ptr %stop",
                "  store i32 %w.stop, ptr %resume.at",
                "  %w.furthest.now = call i32 @llvm.smax.i32(i32 %w.furthest, i32 %w.stop)",
            ]
        else:
            lines.append("  %w.furthest.now = add i32 %w.furthest, 0")
        lines += [
            "  %w.after = add nuw nsw i32 %w, 1",
            f"  %w.more = icmp ult i32 %w.after, {self.warps.count}",
            "  br i1 %w.more, label %warp, label %round.over",
            "round.over:",
        ]
        if not self._stops:
            return [*lines, "  br label %done"]
        cases = " ".join(
            [
                f"i32 {DONE}, label %done",
                *(f"i32 {state}, label %grid.{state}" for state in self._grid_stops),
            ]
        )
        lines.append(f"  switch i32 %w.furthest.now, label %round.on [ {cases} ]")
        for state, place in self._grid_stops.items():
            assert frame is not None
            lines += [f"grid.{state}:", *frame.wait(state, place)]
        return [*lines, "round.on:", "  br label %round"]

    def _state(self, region: Region) -> list[str]:
        k = region.number
        lines = [f"state.{k}:"]
        exchange = self.exchanges.get(region.entry)
        before = f"state.{k}"
        if exchange is not None:
            there = self._there(k, lines) if exchange.kind == "match" else "-1"
            stem = f"exchange.{k}"
            lines += [f"  br label %{stem}", f"{stem}:"]
            asked = self._asked(k, lines)
            lines += exchange_code.answer(exchange, stem, asked, there)
            before = f"state.{k}.answered"
            lines += [f"  br label %{before}", f"{before}:"]
        given = leader.slots_of(self.functions, region, lines)
        lines += self._open_loop(k, before)
        index = self._index(k, lines)
        lines += [
            f"  %thread.{k} = zext i32 %lane.{k} to i64",
            f"  %in.block.{k} = add nuw nsw i64 %w.first.wide, %thread.{k}",
        ]
        private, pointers = private_pointers(self.body, f"%in.block.{k}", f".{k}")
        lines += private
        given += [("ptr", "%states")] if self.regions.masked else []
        note = attached(self.metadata.access()) if region.is_parallel else ""
        lines.append(region_call(self.body, self.warps.block, k, index, pointers, given, note))
        if not self.regions.masked:
            lines.append(f"  %next.{k} = extractvalue {{ i32, i32 }} %both.{k}, 0")
        lines += self._close_loop(k)
        lines += self._go_on(region)
        return lines

    def _asked(self, k: int, lines: list[str]) -> str:
        """The number of a lane that is there, an i64."""
        if not self.regions.masked:
            return "0"
        lines += [
            f"  %asks.{k}.lane = load i32, ptr %leader",
            f"  %asks.{k} = zext i32 %asks.{k}.lane to i64",
        ]
        return f"%asks.{k}"

    def _there(self, k: int, lines: list[str]) -> str:
        """The mask of the lanes that came to region `k`."""
        size = self.warps.size
        there = "%w.there" if self._partial else "-1"
        if not self.regions.masked:
            return there
        vector = f"<{size} x i32>"
        states = ", ".join([f"i32 {k}"] * size)
        lines += [
            f"  %there.{k}.loaded = load {vector}, ptr %states, align 64",
            f"  %there.{k}.states = freeze {vector} %there.{k}.loaded",
            f"  %there.{k}.each = icmp eq {vector} %there.{k}.states, <{states}>",
            f"  %there.{k}.mask = bitcast <{size} x i1> %there.{k}.each to i{size}",
            f"  %there.{k} = and i{size} %there.{k}.mask, {there}",
        ]
        return f"%there.{k}"

    def _open_loop(self, k: int, before: str) -> list[str]:
        lines = [
            f"  br label %lanes.{k}",
            f"lanes.{k}:",
            f"  %lane.{k} = phi i32 [ 0, %{before} ], [ %lane.after.{k}, %lanes.on.{k} ]",
        ]
        if self.body.may_fail:
            lines.append(
                f"  %fault.lane.{k} = phi i32 [ 0, %{before} ], [ %fault.now.{k}, %lanes.on.{k} ]"
            )
        return lines

    def _index(self, k: int, lines: list[str]) -> tuple[str, str, str]:
        """The thread's x, y and z."""
        block = self.warps.block
        x, y, z = (f"%{axis}.{k}" for axis in "xyz")
        if self.warps.follow_x:
            alone = block[1:] == (1, 1)
            first = "%w.first" if alone else "%w.x"
            lines.append(f"  {x} = add nuw nsw i32 {first}, %lane.{k}")
            return (x, "0", "0") if alone else (x, "%w.y", "%w.z")
        lines += [
            f"  %linear.{k} = add nuw nsw i32 %w.first, %lane.{k}",
            f"  {x} = urem i32 %linear.{k}, {block[0]}",
            f"  %rows.{k} = udiv i32 %linear.{k}, {block[0]}",
            f"  {y} = urem i32 %rows.{k}, {block[1]}",
            f"  {z} = udiv i32 %rows.{k}, {block[1]}",
        ]
        return x, y, z

    def _close_loop(self, k: int) -> list[str]:
        lines: list[str] = []
        if self.body.may_fail:
            lines += [
                f"  %fault.this.{k} = extractvalue {{ i32, i32 }} %both.{k}, 1",
                f"  %fault.now.{k} = call i32 @llvm.umax.i32"
                f"(i32 %fault.lane.{k}, i32 %fault.this.{k})",
            ]
        size = self.warps.size
        last = "%w.threads" if self._partial else str(size)
        return [
            *lines,
            f"  br label %lanes.on.{k}",
            f"lanes.on.{k}:",
            f"  %lane.after.{k} = add nuw nsw i32 %lane.{k}, 1",
            f"  %lane.more.{k} = icmp ult i32 %lane.after.{k}, {last}",
            f"  br i1 %lane.more.{k}, label %lanes.{k}, label %lanes.over.{k}"
            f"{attached(self.metadata.lane_loop(size))}",
            f"lanes.over.{k}:",
        ]

    def _go_on(self, region: Region) -> list[str]:
        k = region.number
        lines: list[str] = []
        if self.body.may_fail:
            lines += leader.largest_fault(k, f"%fault.now.{k}")
        states = [self.functions.numbers[label] for label in region.exits]
        ends = not states or region.returns or self.regions.masked
        if self.regions.masked and states:
            last = "%w.threads" if self._partial else self.warps.size
            lines += leader.follow(k, f"lanes.over.{k}", last, f"ended.{k}")
        if states and ends:
            cases = " ".join(f"i32 {state}, label {self._way(k, state)}" for state in states)
            lines.append(f"  switch i32 %next.{k}, label %ended.{k} [ {cases} ]")
        elif len(states) > 1:
            cases = " ".join(f"i32 {state}, label {self._way(k, state)}" for state in states[1:])
            lines.append(f"  switch i32 %next.{k}, label {self._way(k, states[0])} [ {cases} ]")
        else:
            lines.append(f"  br label {self._way(k, states[0]) if states else f'%ended.{k}'}")
        for state in states:
            if state in self._stops:
                lines += self._stop(f"stop.{k}.{state}", state)
        return [*lines, *(self._stop(f"ended.{k}", DONE) if ends else [])]

    def _way(self, k: int, state: int) -> str:
        """The label by which region `k` goes on to a state."""
        return f"%stop.{k}.{state}" if state in self._stops else f"%state.{state}"

    def _stop(self, label: str, state: int) -> list[str]:
        kept = [f"  store i32 {state}, ptr %stop"] if self._stops else []
        return [f"{label}:", *kept, "  br label %warp.stopped"]
