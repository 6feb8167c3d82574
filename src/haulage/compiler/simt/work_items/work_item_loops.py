"""Writes a kernel as a block function: each parallel region in work-item loops, which go over the
threads of the block (Jääskeläinen et al., "pocl: A Performance-Portable OpenCL Implementation",
2015).

The block function is a state machine over the regions. The region's function, which is always
inlined, runs for every thread; LLVM's loop vectoriser then widens that loop. Where to go next is
the same for all threads, so the last thread's answer is taken. If some may have left for good,
their state is -1; one of the others, the leader, says where they are and what they have in common.
"""

from collections.abc import Mapping, Set
from math import prod

from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.coroutines.cooperative_grid import Frame
from haulage.compiler.simt.emit.block_function import (
    Metadata,
    allocate_private,
    allocate_shared,
    block_parameters,
    clear,
    private_addresses,
)
from haulage.compiler.simt.emit.loop_bounds import (
    COUNT,
    COUNT_DEFINITION,
    BoundsWriter,
    Ranges,
    whole,
)
from haulage.compiler.simt.emit.loop_nest import (
    Index,
    LoopNest,
    linear_index,
    looped_axes,
)
from haulage.compiler.simt.emit.region_call import (
    Thread,
    call_region,
    context_arguments,
    follow_leader,
    keep_largest_fault,
)
from haulage.compiler.simt.emit.region_function import DONE, RESULT, RegionFunctions
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.builder import Builder, MetadataPairs, Typed
from haulage.compiler.simt.ir.model import Function, RegionEnd, value_name
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.loops.block_coalescing import WIDTH, Run
from haulage.compiler.simt.regions.iteration_ranges import IterationRanges
from haulage.compiler.simt.regions.parallel_regions import Region, Regions, Slot
from haulage.compiler.simt.vectorize.function import VectorizedRegion, declarations
from haulage.compiler.simt.vectorize.scalar_regions import scattered
from haulage.compiler.simt.vectorize.strip_loop import Outcome, run_strips
from haulage.compiler.simt.work_items import unroll_and_jam
from haulage.forks import cached_property


def write(
    body: Body,
    regions: Regions,
    ranges: IterationRanges,
    block: tuple[int, int, int],
    order: str,
    metadata: Metadata,
    cooperative: bool,
    vectorized: Mapping[int, VectorizedRegion],
    run: Run | None = None,
    off: Set[str] = frozenset(),
) -> str:
    """LLVM text of `@haulage.block` and its regions for one block size (x, y, z), with the loops
    over its axes in an order (outermost first); `cooperative` if it has a frame, as
    `cooperative_grid.py` says. `vectorized` are the regions that run on vectors. With a `run` the
    function runs as many blocks as it is told. `off` are the passes that are switched off."""
    sizes = block if run is None else run.widened(block)
    inner = looped_axes(sizes, order)[-1]
    jams: frozenset[int] = frozenset()
    may_jam = metadata.is_parallel and "unroll-and-jam" not in off
    if may_jam and sizes[AXES.index(inner)] >= unroll_and_jam.COPIES:
        jams = frozenset(
            region.number
            for region in regions.regions
            if region.number not in vectorized and unroll_and_jam.is_worth_it(body, regions, region)
        )
    functions = RegionFunctions(body, regions, ranges)
    texts: list[str] = []
    jammed: dict[int, Function] = {}
    for region in regions.regions:
        if region.number in vectorized:
            function = vectorized[region.number].function()
            texts += [*declarations(function), definition(function)]
            continue
        function = functions.function(region)
        texts.append(definition(function))
        if region.number in jams:
            together = unroll_and_jam.jammed(function, inner)
            if together is not None:
                jammed[region.number] = together
    texts += map(definition, jammed.values())
    writer = _BlockFunction(
        functions, block, order, metadata, cooperative, vectorized, run, jammed, off
    )
    written = writer.function()
    if writer.frame is not None:
        texts.append(writer.frame.text())
    texts.append(definition(written))
    if any(item.callee == COUNT for item in written.instructions()):
        texts.insert(0, COUNT_DEFINITION)
    return "\n\n".join(texts)


class _BlockFunction:
    """Writes the block function; `jammed` are the functions of regions for a few threads."""

    def __init__(
        self,
        functions: RegionFunctions,
        block: tuple[int, int, int],
        order: str,
        metadata: Metadata,
        cooperative: bool,
        vectorized: Mapping[int, VectorizedRegion],
        run: Run | None,
        jammed: Mapping[int, Function],
        off: Set[str],
    ) -> None:
        self.body: Body = functions.body
        self.regions = functions.regions
        self.ranges = functions.ranges
        self.region_functions = functions
        self.block = block
        self.metadata = metadata
        self.vectorized = vectorized
        self.run = run
        self.jammed = jammed
        self.off = off
        # How many threads there are at most along each axis.
        self.sizes = block if run is None else run.widened(block)
        self.threads = prod(self.sizes)
        self.axes = looped_axes(self.sizes, order)
        self.frame = Frame(self.body, self.threads) if cooperative else None
        self.builder = Builder("haulage.block", self._parameters(), "i32", "noinline", stem="block")
        # The threads that pass the kernel's guards.
        self.everyone: Ranges = whole(self.sizes)
        if run is not None:
            self.everyone = {**self.everyone, run.axis: ("0", WIDTH)}

    def _parameters(self) -> list[Typed]:
        if self.frame is not None:
            return self.frame.parameters()
        parameters = block_parameters(self.body)
        if self.run is not None:
            parameters.append((f"i32 range(i32 1, {self.run.width + 1})", WIDTH))
        return parameters

    def function(self) -> Function:
        builder = self.builder
        builder.block("%block.start")
        self._allocate()
        self._start()
        for region in self.regions.regions:
            self._region(region)
        builder.block("%done")
        fault = "0"
        if self.body.may_fail:
            fault = builder.load("i32", "%fault", name="result")
        builder.ret("i32", fault)
        return builder.function

    # ---- storage and start ----------------------------------------------------------------------

    @cached_property
    def _words(self) -> list[str]:
        """Where the largest fault and the leader are kept, if there may be any."""
        fault = ["%fault"] if self.body.may_fail else []
        return [*fault, "%leader"] if self.regions.masked else fault

    def _allocate(self) -> None:
        """Make or find all storage: shared and private arrays, the context, the threads' states.

        What lives over a barrier of the grid is in the frame; what the threads have in common is
        copied there when the block waits, so that it is in registers while it does not.
        """
        builder, frame = self.builder, self.frame
        builder.allocate("ptr", name="%ret")
        if frame is None:
            for name in self._words:
                builder.allocate("i32", name=name)
            allocate_shared(builder, self.body, self.threads)
            allocate_private(builder, self.body, self.threads)
        else:
            frame.fixed(builder, self._words)
        for slot in self.regions.slots.values():
            name = value_name(slot.value, "context")
            each = slot.varying or self.regions.masked
            kind = f"[{self.threads} x {slot.type}]" if each else slot.type
            lasts = slot.value in self._lasting
            if lasts and each:
                self._place(name, kind)
            else:
                builder.allocate(kind, 64, name)
                if lasts:
                    self._place(value_name(slot.value, "kept"), kind)
        if self.regions.masked:
            self._place("%states", f"[{self.threads} x i32]")

    def _place(self, name: str, kind: str) -> None:
        """Make storage that lives as long as the block."""
        if self.frame is None:
            self.builder.allocate(kind, 64, name)
        else:
            self.frame.place(self.builder, name, kind)

    def _start(self) -> None:
        """Go to the first region, or to that which is due, unless nobody passes the guards."""
        builder, frame = self.builder, self.frame
        guards, anybody = self.ranges.of_kernel, ""
        if guards:
            bounds = BoundsWriter(builder, self.ranges.items, self._block_sizes, {})
            start = self.everyone
            self.everyone = bounds.ranges(guards, start, self.sizes)
            anybody = bounds.not_empty(self.everyone, start)
        if frame is not None:
            frame.resume(builder, [(k, f"%grid.{k}.on") for k in self._grid_barriers])
        for name in self._words:
            builder.store("i32", "0", name)
        if guards and self.regions.masked:
            # Who does not pass the kernel's guards has left.
            clear(builder, "%states", DONE, 4 * self.threads)
        if guards:
            builder.branch(anybody, "%region.0", "%done")
        else:
            builder.jump("%region.0")
        if frame is not None:
            self._wait_for_grid(frame)

    @property
    def _block_sizes(self) -> dict[str, str]:
        return {f"%blockDim.{axis}": str(size) for axis, size in zip(AXES, self.block, strict=True)}

    # ---- barriers of the grid -------------------------------------------------------------------

    @cached_property
    def _grid_barriers(self) -> dict[int, RegionEnd]:
        """The regions behind barriers of the grid, with the ends in front of them."""
        return self.region_functions.behind("grid")

    @cached_property
    def _lasting(self) -> frozenset[str]:
        """The values that live over a barrier of the grid."""
        return self.region_functions.live_behind(self._grid_barriers.values())

    def _wait_for_grid(self, frame: Frame) -> None:
        """Wait for the grid in front of each region behind a barrier of it, and go on there."""
        builder = self.builder
        for k, end in self._grid_barriers.items():
            live = self.regions.live[end.target]
            slots = [
                slot
                for slot in self.regions.slots.values()
                if slot.value in live and not (slot.varying or self.regions.masked)
            ]
            builder.block(f"%grid.{k}")
            self._copy(slots, "context", "kept")
            frame.wait(builder, k, end.place)
            builder.block(f"%grid.{k}.on")
            self._copy(slots, "kept", "context")
            builder.jump(f"%region.{k}")

    def _copy(self, slots: list[Slot], source: str, target: str) -> None:
        """Copy what all threads have in common from one of its places to another."""
        for slot in slots:
            value = self.builder.load(slot.type, value_name(slot.value, source))
            self.builder.store(slot.type, value, value_name(slot.value, target))

    # ---- regions --------------------------------------------------------------------------------

    def _region(self, region: Region) -> None:
        """Run a region for all of its threads, and go on to the next."""
        builder, k = self.builder, region.number
        builder.block(f"%region.{k}")
        given, loaded = context_arguments(builder, self.region_functions, region, "context")
        bounds = BoundsWriter(builder, self.ranges.items, self._block_sizes, loaded)
        outcome: Outcome = None, None
        if k in self.vectorized:
            outcome = self._run_strips(region, given)
        elif self.ranges.of_regions[k]:
            outcome = self._run_guarded(region, bounds, given)
        else:
            outcome = self._run(region, self.everyone, given)
        self._go_on(region, outcome)

    def _run(self, region: Region, ranges: Ranges, given: list[Typed]) -> Outcome:
        """Run a region for the threads of some ranges."""
        metadata, is_jammed = self.metadata, region.number in self.jammed
        column = not is_jammed and self._is_of_a_column(region)
        widened = is_jammed or not (column or region.number in self._scattered)
        inner = metadata.thread_loop(self.sizes[self._innermost], widened=widened)
        others = [metadata.loop_not_widened() if column else () for _ in self.axes[1:]]
        faults = self.body.may_fail
        nest = LoopNest(
            self.builder, self.sizes, self.axes, ranges, [*others, inner], faults=faults
        )
        if is_jammed:
            following, fault = self._call_several(region, nest, given)
        else:
            access = metadata.access() if region.is_parallel else ()
            following, fault = self._call(region, nest.index, nest.linear, given, access=access)
        return following, nest.close(fault)

    def _run_guarded(self, region: Region, bounds: BoundsWriter, given: list[Typed]) -> Outcome:
        """Run a region for the threads that pass its own guards. If nobody does, what all have in
        common is still to be computed, by the first thread."""
        builder = self.builder
        ranges = bounds.ranges(self.ranges.of_regions[region.number], self.everyone, self.sizes)
        anybody = bounds.not_empty(ranges, self.everyone)
        some, nobody, after = map(builder.name, ("some", "nobody", "after"))
        builder.branch(anybody, some, nobody)
        builder.block(some)
        outcome = self._run(region, ranges, given)
        last = builder.current
        builder.jump(after)
        builder.block(nobody)
        x, y, z = (self.everyone[axis][0] for axis in AXES)
        linear = linear_index(builder, self.sizes, self.axes, (x, y, z))
        other = self._call(region, (x, y, z), linear, given, passing=False)
        builder.jump(after)
        builder.block(after)
        following, fault = (
            None if one is None or two is None else builder.phi("i32", ((one, last), (two, nobody)))
            for one, two in zip(outcome, other, strict=True)
        )
        return following, fault

    def _call_several(self, region: Region, nest: LoopNest, given: list[Typed]) -> Outcome:
        """Call a region's function for a few threads, if so many are left in the innermost loop, or
        else for one."""
        builder = self.builder
        copies = unroll_and_jam.COPIES
        last = builder.binary("add", "i32", nest.innermost.index, str(copies - 1), "nuw", "nsw")
        several, single, met = map(builder.name, ("several", "single", "met"))
        builder.branch(builder.compare("ult", "i32", last, nest.end), several, single)
        outcomes: list[tuple[str, str]] = []
        for label, callee in ((several, self.jammed[region.number].name), (single, None)):
            builder.block(label)
            following, _ = self._call(region, nest.index, nest.linear, given, callee=callee)
            assert following is not None
            outcomes.append((following, label))
            builder.jump(met)
        builder.block(met)
        nest.innermost.step = builder.phi("i32", ((str(copies), several), ("1", single)), "step")
        return builder.phi("i32", outcomes), None

    def _run_strips(self, region: Region, given: list[Typed]) -> Outcome:
        """Run a vectorised region for one strip of threads after the other."""
        width = self.vectorized[region.number].width
        ranges = self.everyone if self.ranges.of_kernel else None
        return run_strips(
            self.builder,
            self.block,
            self.axes,
            width,
            ranges,
            lambda index, linear, lanes: self._call(region, index, linear, given, lanes=lanes),
            faults=self.body.may_fail,
        )

    @property
    def _innermost(self) -> int:
        """The number of the innermost axis."""
        return AXES.index(self.axes[-1])

    @cached_property
    def _scattered(self) -> frozenset[int]:
        """The regions that are better run for one thread after the other."""
        if "scalar-regions" in self.off:
            return frozenset()
        return scattered(self.body, self.regions, self.ranges, self._innermost)

    def _is_of_a_column(self, region: Region) -> bool:
        """Whether a region is run for one index along the innermost axis, so that the next threads
        are those of another row."""
        guards = self.ranges.of_regions[region.number]
        bounds = [bound for guard in guards for bound in guard.bounds]
        return any(bound.equation and bound.axis == self._innermost for bound in bounds)

    def _call(
        self,
        region: Region,
        index: Index,
        linear: str,
        given: list[Typed],
        *,
        passing: bool = True,
        access: MetadataPairs = (),
        callee: str | None = None,
        lanes: tuple[str, ...] = (),
    ) -> Outcome:
        """Call a region's function, or another one for it, for one thread. If that is not `passing`
        the region's own guards, it is told so."""
        builder, k = self.builder, region.number
        own = self.ranges.of_regions[k]
        arguments = list(given)
        if self.regions.masked:
            arguments.append(("ptr", "%states"))
        for guard in self.region_functions.guards(region):
            is_met = guard.outcome == (passing or guard not in own)
            arguments.append(("i1", str(is_met).lower()))
        arguments += [("i32", lane) for lane in lanes]
        private = private_addresses(builder, self.body, linear)
        thread = Thread(index, linear, private)
        callee = callee or f"haulage.region.{k}"
        both = call_region(builder, self.body, self.block, callee, thread, arguments, access)
        masked, may_fail = self.regions.masked, self.body.may_fail
        following = None if masked else builder.extract(RESULT, both, 0, "next")
        return following, builder.extract(RESULT, both, 1, "fault") if may_fail else None

    def _go_on(self, region: Region, outcome: Outcome) -> None:
        """Go to the next region, by what the region's threads came to."""
        builder = self.builder
        following, fault = outcome
        if self.body.may_fail:
            assert fault is not None
            keep_largest_fault(builder, fault)
        exits = [self.region_functions.numbers[label] for label in region.exits]
        labels = [f"%grid.{k}" if k in self._grid_barriers else f"%region.{k}" for k in exits]
        may_end = not exits or region.returns or self.regions.masked
        default = "%done" if may_end else labels.pop()
        if not labels:
            builder.jump(default)
            return
        if self.regions.masked:
            following = follow_leader(builder, str(self.threads), "%done")
        assert following is not None
        builder.switch("i32", following, default, list(zip(exits, labels, strict=False)))
