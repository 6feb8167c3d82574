"""Writes a cut body as a block function: for each region, a loop over the threads of the block.

The block function is a machine whose states are the regions. In each state the region's function,
which is always inlined, runs for every thread; LLVM's loop vectoriser then widens that loop. Where
to go next is the same for all threads, so the last thread's answer is taken. If some may have left
for good, their state is -1; one of the others, the leader, says where they are and what they
have in common.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from math import prod

from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.coroutines.frames import Frame
from haulage.compiler.simt.emit import leader, outlining
from haulage.compiler.simt.emit.block_function import (
    Metadata,
    block_parameters,
    open_block,
    private_pointers,
    private_rooms,
    shared_rooms,
)
from haulage.compiler.simt.emit.index_set_splitting import parted
from haulage.compiler.simt.emit.loop_nest import LoopNest, looped_axes
from haulage.compiler.simt.emit.ranges import COUNT, COUNT_DEFINITION, BoundsWriter, Ranges, whole
from haulage.compiler.simt.emit.region_call import region_call
from haulage.compiler.simt.emit.region_function import DONE, RegionFunctions
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.model import RegionEnd, value_name
from haulage.compiler.simt.loops.block_coalescing import WIDTH, Run
from haulage.compiler.simt.regions.iteration_ranges import Clipping, without_partings
from haulage.compiler.simt.regions.parallel_regions import Region, Regions, Slot
from haulage.compiler.simt.vectorize.chunks import ChunkLoop
from haulage.compiler.simt.vectorize.function import LaneFunction
from haulage.compiler.simt.vectorize.scalar_regions import scattered
from haulage.compiler.simt.work_items import unroll_and_jam
from haulage.forks import cached_property


def write(
    body: Body,
    regions: Regions,
    clipping: Clipping,
    block: tuple[int, int, int],
    order: str,
    metadata: Metadata,
    cooperative: bool,
    lanes: Mapping[int, LaneFunction],
    run: Run | None = None,
) -> str:
    """LLVM text of `@haulage.block` and its regions for one block size (x, y, z), with the loops
    over its axes in an order (outermost first); `cooperative` if it has a frame, as `frames.py`
    says. `lanes` are the functions of the regions that run for a chunk of threads at a time. With a
    `run` the function runs as many blocks as it is told."""
    sizes = block if run is None else run.widened(block)
    inner = looped_axes(sizes, order)[-1]
    jams: frozenset[int] = frozenset()
    if metadata.is_parallel and sizes[AXES.index(inner)] >= unroll_and_jam.COPIES:
        jams = frozenset(
            region.number
            for region in regions.regions
            if region.number not in lanes and unroll_and_jam.is_worth_it(body, regions, region)
        )
    clipping = without_partings(clipping, jams)
    functions = RegionFunctions(body, regions, clipping)
    texts = [(lanes.get(region.number) or functions).text(region) for region in regions.regions]
    several = {
        region.number: together
        for region, text in zip(regions.regions, texts, strict=True)
        if region.number in jams
        and (together := unroll_and_jam.jammed(text, unroll_and_jam.function_name(region), inner))
        is not None
    }
    machine = _Machine(
        body,
        regions,
        clipping,
        functions,
        block,
        order,
        metadata,
        cooperative,
        lanes,
        run,
        frozenset(several),
    )
    text = "\n\n".join([*texts, *several.values(), machine.block_function()])
    return f"{COUNT_DEFINITION}\n\n{text}" if f"@{COUNT}(" in text else text


@dataclass(frozen=True)
class _Machine:
    body: Body
    regions: Regions
    clipping: Clipping
    functions: RegionFunctions
    block: tuple[int, int, int]
    order: str
    metadata: Metadata
    cooperative: bool
    lanes: Mapping[int, LaneFunction]
    run: Run | None
    # Numbers of the regions that have a function for a few threads at once.
    several: Set[int]

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """How many threads there are at most along each axis."""
        return self.block if self.run is None else self.run.widened(self.block)

    @property
    def threads(self) -> int:
        return prod(self.sizes)

    def block_function(self) -> str:
        frame = Frame(self.body, self.threads) if self.cooperative else None
        lines = ["  %ret = alloca ptr"]
        if frame is None:
            parameters = block_parameters(self.body)
            if self.run is not None:
                parameters.append((f"i32 range(i32 1, {self.run.width + 1})", WIDTH))
            opening = open_block(parameters)
            lines += [f"  {name} = alloca i32" for name in self._words]
            lines += shared_rooms(self.body, self.threads)
            lines += private_rooms(self.body, self.threads)
        else:
            parameters = frame.parameters()
            opening = frame.open()
            lines += frame.fixed(self._words)
        lines += self._slot_rooms(frame)
        lines += self._start(frame)
        apart = outlining.is_worth_it(self.regions)
        known = outlining.values(parameters, lines) if apart else {}
        functions: list[str] = []
        for region in self.regions.regions:
            state = self._state(region)
            if apart:
                function, state = outlining.outline(state, known)
                functions.append(function)
            lines += state
        lines.append("done:")
        result = "0"
        if self.body.may_fail:
            lines.append("  %result = load i32, ptr %fault")
            result = "%result"
        lines += [f"  ret i32 {result}", "}"]
        types = [frame.text()] if frame is not None else []
        return "\n\n".join([*types, *functions, "\n".join([*opening, *lines])])

    @property
    def _words(self) -> list[str]:
        """Where the largest fault and the leader are kept, if there may be any."""
        fault = ["%fault"] if self.body.may_fail else []
        return [*fault, "%leader"] if self.regions.masked else fault

    def _slot_rooms(self, frame: Frame | None) -> list[str]:
        """Lines that make the rooms of the slots and of the threads' states. Those of values that
        live over a barrier of the grid are in the frame; what the threads have in common is copied
        there when the block waits, so that it is in registers while it does not."""
        lasting = self._lasting
        places: list[str] = []
        copies: list[str] = []
        rooms: list[str] = []
        for slot in self.regions.slots.values():
            name = value_name(slot.value, "room")
            each = slot.varying or self.regions.masked
            room = f"[{self.threads} x {slot.type}]" if each else slot.type
            if frame is not None and each and slot.value in lasting:
                places.append(frame.place(name, room))
                continue
            rooms.append(f"  {name} = alloca {room}, align 64")
            if frame is not None and slot.value in lasting:
                copies.append(frame.place(value_name(slot.value, "kept"), room))
        if self.regions.masked:
            states = f"[{self.threads} x i32]"
            if frame is None:
                rooms.append(f"  %states = alloca {states}, align 64")
            else:
                places.append(frame.place("%states", states))
        return [*places, *copies, *rooms]

    def _grid_waits(self, frame: Frame) -> list[str]:
        """Lines that wait for the grid in front of each region behind a barrier of it, and those
        that go on with the region."""
        lines: list[str] = []
        for label, place in self._grid_barriers.items():
            k = self.functions.numbers[label]
            slots = [
                slot
                for slot in self.regions.slots.values()
                if slot.value in self.regions.live[label]
                and not (slot.varying or self.regions.masked)
            ]
            lines.append(f"grid.{k}:")
            for slot in slots:
                lines += self._copied(slot, "room", "kept", f"grid.{k}")
            lines += [*frame.wait(k, place), f"grid.{k}.on:"]
            for slot in slots:
                lines += self._copied(slot, "kept", "room", f"grid.{k}.on")
            lines.append(f"  br label %state.{k}")
        return lines

    @staticmethod
    def _copied(slot: Slot, source: str, target: str, stem: str) -> list[str]:
        """Lines that copy what all threads have in common from one of its places to another."""
        value = value_name(slot.value, stem)
        return [
            f"  {value} = load {slot.type}, ptr {value_name(slot.value, source)}",
            f"  store {slot.type} {value}, ptr {value_name(slot.value, target)}",
        ]

    @cached_property
    def _lasting(self) -> frozenset[str]:
        """The slots that live over a barrier of the grid."""
        return frozenset(name for label in self._grid_barriers for name in self.regions.live[label])

    def _state(self, region: Region) -> list[str]:
        k = region.number
        lines = [f"state.{k}:"]
        given = leader.slots_of(self.functions, region, lines)
        if k in self.lanes:
            return lines + self._run_chunks(region, given)
        own = self.clipping.of_regions[k]
        everyone, _, _ = self._everyone
        parting = self.clipping.partings[k]
        if parting is not None:
            both, last = parted(
                k,
                parting,
                self._bounds_writer(region),
                everyone,
                self.sizes,
                looped_axes(self.sizes, self.order),
                lambda nest, passing: self._run(region, nest, given, passing=passing),
                self.metadata.kept_loop(),
            )
            return [*lines, *both, *self._go_on(region, last, str(k))]
        nest = LoopNest(
            str(k),
            f"some.{k}" if own else f"state.{k}",
            self.sizes,
            looped_axes(self.sizes, self.order),
            everyone,
            self.body.may_fail,
        )
        if own:
            writer = self._bounds_writer(region)
            nest = replace(nest, ranges=writer.ranges(own, everyone, self.sizes))
            anybody = writer.not_empty(nest.ranges, everyone)
            lines += [
                *writer.lines,
                f"  br i1 {anybody}, label %some.{k}, label %nobody.{k}",
                f"some.{k}:",
            ]
        if k in self.several:
            lines += nest.opening()
            nest = replace(nest, step=f"%step.{k}")
            lines += self._call_some(region, nest, given)
            lines += nest.closing(self.metadata.thread_loop(nest.innermost_size))
        else:
            lines += self._run(region, nest, given, passing=True)
        if not own:
            return lines + self._go_on(region, nest.last_label, str(k))
        # If nobody passes, what all have in common is still to be worked out.
        first = tuple(everyone[axis][0] for axis in AXES)
        lines += [
            f"  br label %after.{k}",
            f"nobody.{k}:",
            *nest.thread_number((first[0], first[1], first[2]), f"none.{k}"),
            *self._call(
                region, (first[0], first[1], first[2]), f"none.{k}", given, passing=False, note=""
            ),
            f"  br label %after.{k}",
            f"after.{k}:",
            f"  %next.all.{k} = phi i32 [ %next.{k}, %{nest.last_label} ], "
            f"[ %next.none.{k}, %nobody.{k} ]",
        ]
        if self.body.may_fail:
            lines.append(
                f"  %fault.now.all.{k} = phi i32 [ %fault.now.{k}, %{nest.last_label} ], "
                f"[ %fault.this.none.{k}, %nobody.{k} ]"
            )
        return lines + self._go_on(region, f"after.{k}", f"all.{k}")

    def _call_some(self, region: Region, nest: LoopNest, given: list[tuple[str, str]]) -> list[str]:
        """Lines that run a region for a few threads, if so many are left in the innermost loop, or
        else for one; they make `%step.K`, how many that were."""
        k = region.number
        axis = nest.innermost
        several = self._call(
            region,
            nest.thread(),
            f"{k}.some",
            given,
            passing=True,
            note="",
            function=unroll_and_jam.function_name(region),
        )
        return [
            f"  %some.last.{k} = add nuw nsw i32 %{axis}.{k}, {unroll_and_jam.COPIES - 1}",
            f"  %some.there.{k} = icmp ult i32 %some.last.{k}, {nest.ranges[axis][1]}",
            f"  br i1 %some.there.{k}, label %several.{k}, label %single.{k}",
            f"several.{k}:",
            f"  %thread.{k}.some = add i64 %thread.{k}, 0",
            *several,
            f"  br label %met.{k}",
            f"single.{k}:",
            f"  %thread.{k}.one = add i64 %thread.{k}, 0",
            *self._call(region, nest.thread(), f"{k}.one", given, passing=True, note=""),
            f"  br label %met.{k}",
            f"met.{k}:",
            f"  %step.{k} = phi i32 [ {unroll_and_jam.COPIES}, %several.{k} ], [ 1, %single.{k} ]",
            f"  %next.{k} = phi i32 "
            f"[ %next.{k}.some, %several.{k} ], [ %next.{k}.one, %single.{k} ]",
        ]

    def _run(
        self, region: Region, nest: LoopNest, given: list[tuple[str, str]], *, passing: bool
    ) -> list[str]:
        """Lines that run a region for the threads of a nest."""
        note = self.metadata.access() if region.is_parallel else ""
        column = self._is_of_a_column(region)
        apart = region.number in self._scattered and region.number not in self.several
        widened = not (apart or column)
        outer = self.metadata.loop_not_widened if column else None
        return [
            *nest.opening(),
            *self._call(region, nest.thread(), nest.number, given, passing=passing, note=note),
            *nest.closing(self.metadata.thread_loop(nest.innermost_size, widened=widened), outer),
        ]

    def _bounds_writer(self, region: Region) -> BoundsWriter:
        """What writes the ranges of a region's threads."""
        loaded = {
            given.value: value_name(given.value, f"in.{region.number}")
            for given in self.functions.slot_parameters(region)
            if given.role == "in"
        }
        return BoundsWriter(self.clipping.items, self._sizes, loaded, str(region.number))

    def _run_chunks(self, region: Region, given: list[tuple[str, str]]) -> list[str]:
        """Lines that run a region for a chunk of threads after the other."""
        k = region.number
        axes = looped_axes(self.block, self.order)
        width = self.lanes[k].width
        ranges = self._everyone[0] if self.clipping.of_kernel else None
        loop = ChunkLoop(k, f"state.{k}", self.block, axes, self.body.may_fail, width, ranges)
        return [
            *loop.opening(),
            *self._call(region, loop.thread(), str(k), given, passing=True, note=""),
            *loop.closing(),
            *self._go_on(region, loop.last_label, loop.suffix),
        ]

    @property
    def _sizes(self) -> dict[str, str]:
        sizes = zip(AXES, self.block, strict=True)
        return {f"%blockDim.{axis}": str(size) for axis, size in sizes}

    @cached_property
    def _scattered(self) -> frozenset[int]:
        """The regions that are better run for one thread after the other."""
        position = AXES.index(looped_axes(self.sizes, self.order)[-1])
        return scattered(self.body, self.regions, self.clipping, position)

    def _is_of_a_column(self, region: Region) -> bool:
        """Whether a region is run for one index along the innermost axis, so that the next threads
        are those of another row."""
        innermost = AXES.index(looped_axes(self.sizes, self.order)[-1])
        bounds = [
            bound for guard in self.clipping.of_regions[region.number] for bound in guard.bounds
        ]
        return any(bound.equation and bound.axis == innermost for bound in bounds)

    @cached_property
    def _everyone(self) -> tuple[Ranges, list[str], str]:
        """The ranges of the threads that pass the kernel's guards, the lines that make them, and
        whether there is anybody."""
        start = whole(self.sizes)
        if self.run is not None:
            start = {**start, self.run.axis: ("0", WIDTH)}
        writer = BoundsWriter(self.clipping.items, self._sizes, {}, "kernel")
        ranges = writer.ranges(self.clipping.of_kernel, start, self.sizes)
        anybody = writer.not_empty(ranges, start)
        return ranges, writer.lines, anybody

    def _start(self, frame: Frame | None) -> list[str]:
        """Lines from the block function's rooms to its first state, or to that which is due."""
        _, bounds, anybody = self._everyone
        guarded = bool(self.clipping.of_kernel)
        lines = list(bounds) if guarded else []
        if frame is not None:
            numbers = map(self.functions.numbers.__getitem__, self._grid_barriers)
            lines += frame.resume([(k, f"%grid.{k}.on") for k in numbers])
        lines += [f"  store i32 0, ptr {name}" for name in self._words]
        if guarded and self.regions.masked:
            # Who does not pass the kernel's guards has left.
            nbytes = 4 * self.threads
            clear = f"@llvm.memset.p0.i64(ptr %states, i8 {DONE}, i64 {nbytes}, i1 false)"
            lines.append(f"  call void {clear}")
        go = "  br label %state.0"
        if guarded:
            go = f"  br i1 {anybody}, label %state.0, label %done"
        lines.append(go)
        return lines + (self._grid_waits(frame) if frame is not None else [])

    def _call(
        self,
        region: Region,
        thread: tuple[str, str, str],
        suffix: str,
        given: list[tuple[str, str]],
        *,
        passing: bool,
        note: str,
        function: str | None = None,
    ) -> list[str]:
        """Lines that run a region for one thread, whose number is `%thread.SUFFIX`, or another
        `function` of it. If it is not `passing` the region's own guards, it is told so."""
        own = (*self.clipping.of_regions[region.number], self.clipping.partings[region.number])
        private, pointers = private_pointers(self.body, f"%thread.{suffix}", f".{suffix}")
        told = [
            ("i1", str(guard.outcome == (passing or guard not in own)).lower())
            for guard in self.functions.guards(region)
        ]
        states = [("ptr", "%states")] if self.regions.masked else []
        number = region.number
        within: list[tuple[str, str]] = []
        if number in self.lanes and self.clipping.of_kernel:
            within = [("i32", f"%from.{number}"), ("i32", f"%to.{number}")]
        arguments = [*given, *states, *told, *within]
        lines = [
            *private,
            region_call(
                self.body, self.block, number, thread, pointers, arguments, note, suffix, function
            ),
        ]
        if not self.regions.masked:
            lines.append(f"  %next.{suffix} = extractvalue {{ i32, i32 }} %both.{suffix}, 0")
        if self.body.may_fail:
            lines.append(f"  %fault.this.{suffix} = extractvalue {{ i32, i32 }} %both.{suffix}, 1")
        return lines

    @cached_property
    def _grid_barriers(self) -> dict[str, int]:
        """Labels of the regions behind barriers of the grid, with the barriers' fault numbers."""
        ends = [block.terminator for block in self.regions.function.blocks.values()]
        return {
            end.target: end.place
            for end in ends
            if isinstance(end, RegionEnd) and end.reason == "grid"
        }

    def _way_to(self, state: int) -> str:
        """The label by which a state is entered."""
        waits = self.regions.regions[state].entry in self._grid_barriers
        return f"%grid.{state}" if waits else f"%state.{state}"

    def _go_on(self, region: Region, before: str, suffix: str) -> list[str]:
        """Lines that go to the next state, from the block `before`; what the region's threads came
        to has names that end in `suffix`."""
        k = region.number
        lines: list[str] = []
        if self.body.may_fail:
            lines += leader.largest_fault(k, f"%fault.now.{suffix}")
        states = [self.functions.numbers[label] for label in region.exits]
        if not states:
            return [*lines, "  br label %done"]
        if len(states) == 1 and not region.returns and not self.regions.masked:
            return [*lines, f"  br label {self._way_to(states[0])}"]
        if self.regions.masked:
            lines += leader.follow(k, before, self.threads, "done")
        ends = region.returns or self.regions.masked
        default = "%done" if ends else self._way_to(states.pop())
        cases = " ".join(f"i32 {state}, label {self._way_to(state)}" for state in states)
        return [*lines, f"  switch i32 %next.{suffix}, label {default} [ {cases} ]"]
