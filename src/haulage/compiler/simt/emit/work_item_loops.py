"""Runs each parallel region in work-item loops, which go over the threads of a block
(Jääskeläinen et al., "pocl: A Performance-Portable OpenCL Implementation", 2015).

The region's function runs in the innermost of them, which LLVM's loop vectoriser then widens. What
lives over a barrier of the grid is in the frame; what the threads have in common is copied there
when the block waits, so that it is in registers while it does not.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod

from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.guards import Bound, Guard
from haulage.compiler.simt.analysis.strides import WORD_BYTES, is_access, size_of_access
from haulage.compiler.simt.compilation import Compilation, vector_bits
from haulage.compiler.simt.emit import quotient_runs, unroll_and_jam
from haulage.compiler.simt.emit.block_function import clear
from haulage.compiler.simt.emit.loop_nest import (
    COUNT,
    COUNT_DEFINITION,
    BoundsWriter,
    Index,
    Nest,
    Ranges,
    linear_index,
    loop_nest,
    looped_axes,
    whole,
)
from haulage.compiler.simt.emit.region_function import DONE
from haulage.compiler.simt.emit.state_machine import StateMachine
from haulage.compiler.simt.emit.warp_loops import WarpLoops
from haulage.compiler.simt.ir.builder import Typed
from haulage.compiler.simt.ir.model import Function, value_name
from haulage.compiler.simt.loops.block_coalescing import WIDTH
from haulage.compiler.simt.loops.loop_order import JAMMED
from haulage.compiler.simt.regions.parallel_regions import Region, Slot
from haulage.compiler.simt.vectorize.function import declarations, run_strips

# The most vectors of a short loop.
MOST_VECTORS = 4


def write(state: Compilation) -> str:
    """LLVM text of `@haulage.block` and its regions."""
    loops = WorkItemLoops(state) if state.lanes is None else WarpLoops(state)
    return "\n\n".join(loops.texts())


class WorkItemLoops(StateMachine):
    """The block function whose groups are blocks."""

    def __init__(self, state: Compilation) -> None:
        block, wide = state.block, state.wide
        # How many threads there are at most along each axis.
        self.sizes = block if wide is None else wide.widened(block)
        self.axes = looped_axes(self.sizes, state.order)
        self.inner = AXES.index(self.axes[-1])
        # The functions of regions for a few threads, by the numbers of the regions.
        self.jammed: dict[int, Function | None] = dict.fromkeys(self._to_be_jammed(state))
        # The bytes of the widest elements that regions access.
        self.widest: dict[int, int] = {}
        super().__init__(state, prod(self.sizes))
        self.vectorized = state.vectors.vectorized
        self.divided = {each.number: self._divisions(each) for each in self.regions.regions}
        self.block_sizes = {
            f"%blockDim.{axis}": str(size) for axis, size in zip(AXES, block, strict=True)
        }
        # The threads that pass the kernel's guards.
        self.everyone: Ranges = whole(self.sizes)
        if wide is not None:
            self.everyone = {**self.everyone, wide.axis: ("0", WIDTH)}

    def _to_be_jammed(self, state: Compilation) -> list[int]:
        assert state.regions is not None
        if not state.is_on("unroll-and-jam") or self.sizes[self.inner] < JAMMED:
            return []
        return [
            region.number
            for region in state.regions.regions
            if region.number not in state.vectors.vectorized
            and unroll_and_jam.is_worth_it(state.body_of_regions, state.regions, region)
        ]

    def _divisions(self, region: Region) -> tuple[quotient_runs.Division, ...]:
        """The divisions of a region by which its loop over threads goes in runs."""
        if (
            not self.state.is_on("delinearization")
            or self.regions.masked
            or region.is_uniform
            or region.number in (self.jammed.keys() | self.vectorized.keys())
            or self.sizes[self.inner] < quotient_runs.SHORTEST
        ):
            return ()
        return quotient_runs.divisions(self.regions, region, self.inner)

    def texts(self) -> list[str]:
        vectorized = [each.function() for each in self.vectorized.values()]
        texts = [*itertools.chain(*map(declarations, vectorized)), *super().texts()]
        if any(f"@{COUNT}(" in text for text in texts):
            texts.insert(0, COUNT_DEFINITION)
        return texts

    def functions(self) -> list[Function]:
        made: list[Function] = []
        for region in self.regions.regions:
            k = region.number
            if k in self.vectorized:
                made.append(self.vectorized[k].function())
                continue
            made.append(self.region_functions.function(region))
            sizes = map(size_of_access, filter(is_access, made[-1].instructions()))
            self.widest[k] = max(filter(None, sizes), default=WORD_BYTES)
            if k in self.jammed:
                self.jammed[k] = unroll_and_jam.jammed(made[-1], self.axes[-1])
            if found := self.divided[k]:
                made.append(quotient_runs.of_run(made[-1], found, self.axes[-1]))
        return made + [each for each in self.jammed.values() if each is not None]

    # ---- storage, start and barriers of the grid ------------------------------------------------

    @property
    def words(self) -> list[str]:
        return [*super().words, *(["%leader"] if self.regions.masked else [])]

    def allocate_context(self) -> None:
        for slot in self.regions.slots.values():
            name, lasts = value_name(slot.value, "context"), slot.value in self.lasting
            each = slot.varying or self.regions.masked
            kind = f"[{self.threads} x {slot.type}]" if each else slot.type
            if lasts and each:
                self.place(name, kind)
            else:
                self.b.allocate(kind, 64, name)
                if lasts:
                    self.place(value_name(slot.value, "kept"), kind)
        if self.regions.masked:
            self.place("%states", f"[{self.threads} x i32]")

    @contextmanager
    def groups(self) -> Iterator[None]:
        b, guards, anybody = self.b, self.regions.kernel_guards, ""
        if guards:
            bounds = self._bounds({})
            start = self.everyone
            self.everyone = bounds.ranges(guards, start, self.sizes)
            anybody = bounds.not_empty(self.everyone, start)
        if self.frame is not None:
            self.frame.resume(b, [(k, f"%resume.{k}") for k in self.waits])
        self.clear_words()
        if guards and self.regions.masked:
            # Who does not pass the kernel's guards has left.
            clear(b, "%states", DONE, 4 * self.threads)
        if guards:
            b.branch(anybody, "%region.0", self.ended)
        else:
            b.jump("%region.0")
        yield
        for k, end in self.waits.items():
            assert self.frame is not None
            live = self.regions.live[end.target]
            common = [
                slot
                for slot in self.regions.slots.values()
                if slot.value in live and not (slot.varying or self.regions.masked)
            ]
            b.block(f"%wait.{k}")
            self._copy(common, "context", "kept")
            self.frame.wait(b, k, end.place)
            b.block(f"%resume.{k}")
            self._copy(common, "kept", "context")
            b.jump(f"%region.{k}")

    def _copy(self, slots: list[Slot], source: str, target: str) -> None:
        """Copy what all threads have in common from one of its places to another."""
        for slot in slots:
            value = self.b.load(slot.type, value_name(slot.value, source))
            self.b.store(slot.type, value, value_name(slot.value, target))

    # ---- regions --------------------------------------------------------------------------------

    def run(self, region: Region, given: list[Typed], loaded: Mapping[str, str]) -> None:
        b, k = self.b, region.number
        if k in self.vectorized:
            run_strips(
                b,
                self.state.block,
                self.axes,
                self.vectorized[k].width,
                self.everyone if self.regions.kernel_guards else None,
                lambda index, linear, lanes: self.call(
                    region,
                    index,
                    linear,
                    [*self._told(region, given), *(("i32", lane) for lane in lanes)],
                ),
            )
        else:
            self._loop_if_any(region, given, loaded)

    def _told(
        self, region: Region, given: list[Typed], failed: Mapping[str, str] | None = None
    ) -> list[Typed]:
        """What a region is `given`, with the outcomes of its guards: a thread passes all but those
        of which another outcome is given, in `failed`."""
        guards = self.region_functions.guards(region)
        told = ((failed or {}).get(each.condition, _text(each.outcome)) for each in guards)
        return [*given, *(("i1", holds) for holds in told)]

    def _loop(
        self,
        region: Region,
        ranges: Ranges,
        given: list[Typed],
        loaded: Mapping[str, str],
        usual: Ranges | None = None,
    ) -> None:
        """Run a region for the threads of some ranges; `given` with the outcomes of its guards.
        In most blocks the ranges are the `usual` ones, if there are such."""
        found = self.divided[region.number]
        if not found:
            self._loop_over_all(region, ranges, given, usual)
            return
        b = self.b
        b.either(
            quotient_runs.are_long(self._bounds(loaded), b, found),
            b.names("rows", "single", "after"),
            lambda: self._loop_over_runs(region, ranges, given, loaded, found),
            lambda: self._loop_over_all(region, ranges, given, usual),
        )

    def _loop_over_runs(
        self,
        region: Region,
        ranges: Ranges,
        given: list[Typed],
        loaded: Mapping[str, str],
        found: Sequence[quotient_runs.Division],
    ) -> None:
        """Run a region for the threads of some ranges in runs with the same quotients."""
        b, run = self.b, list[Typed]()

        def run_end(index: Index, end: str) -> str:
            names = {f"%threadIdx.{axis}": at for axis, at in zip(AXES, index, strict=True)}
            bounds = self._bounds(loaded, names)
            stop, values = quotient_runs.begin(bounds, b, found, index[self.inner], end)
            run.extend(values)
            return stop

        notes = [() for _ in self.axes[1:]]
        inner = self.metadata.thread_loop(self.sizes[self.inner])
        with loop_nest(self.b, self.sizes, self.axes, ranges, [*notes, inner], run_end) as nest:
            access = self.metadata.access() if region.is_parallel else ()
            callee = f"haulage.region.{region.number}{quotient_runs.SUFFIX}"
            self.call(region, nest.index, nest.linear, [*given, *run], callee=callee, access=access)

    def _loop_over_all(
        self, region: Region, ranges: Ranges, given: list[Typed], usual: Ranges | None
    ) -> None:
        """Run a region for the threads of some ranges, in one loop along the innermost axis, or, if
        it is short, in another one where they are the usual ones."""
        axis, jammed = self.axes[-1], region.number in self.jammed
        if usual is None or usual[axis] == ranges[axis] or jammed or not self._is_short(region):
            self._nest(region, ranges, given)
            return
        b = self.b
        # The usual ranges have all that are passed by the threads of a block.
        count, most = (
            b.binary("sub", "i32", end, first) for first, end in (ranges[axis], usual[axis])
        )
        b.either(
            b.compare("eq", "i32", count, most),
            b.names("usually", "seldom", "after"),
            lambda: self._nest(region, {**ranges, axis: usual[axis]}, given),
            lambda: self._nest(region, ranges, given),
        )

    def _nest(self, region: Region, ranges: Ranges, given: list[Typed]) -> None:
        """The same, in one nest of loops."""
        metadata, jammed = self.metadata, self.jammed.get(region.number)
        bounds = self._inner_bounds(region)
        # Vectors may not divide a number of threads that is known, as in `if t < 63`.
        masked = any(not (each.form.terms or each.form.products) for each in bounds)
        inner = metadata.thread_loop(self.sizes[self.inner], masked=masked)
        notes = [() for _ in self.axes[1:]]
        with loop_nest(self.b, self.sizes, self.axes, ranges, [*notes, inner]) as nest:
            if jammed is not None:
                self._call_several(region, nest, given, jammed)
            else:
                access = metadata.access() if region.is_parallel else ()
                self.call(region, nest.index, nest.linear, given, access=access)

    def _loop_if_any(
        self,
        region: Region,
        given: list[Typed],
        loaded: Mapping[str, str],
    ) -> None:
        """Run a region for the threads that pass its own guards. If nobody does, what all have in
        common is still to be computed, by the first thread."""
        own = region.guards
        x, y, z = (self.everyone[axis][0] for axis in AXES)
        if not own:
            if region.is_uniform and not self.regions.masked:
                linear = linear_index(self.b, self.sizes, self.axes, (x, y, z))
                self.call(region, (x, y, z), linear, self._told(region, given))
            else:
                usual = whole(self.sizes) if self.regions.kernel_guards else None
                self._loop(region, self.everyone, self._told(region, given), loaded, usual)
            return
        b, bounds = self.b, self._bounds(loaded)
        ranges = bounds.ranges(own, self.everyone, self.sizes)
        inside = [replace(each, bounds=self._inside(each)) for each in own]
        usual = None
        if self.regions.kernel_guards or inside != [*own]:
            known = [each for each in inside if each.bounds]
            usual = bounds.ranges(known, whole(self.sizes), self.sizes)

        def run_first() -> None:
            linear = linear_index(b, self.sizes, self.axes, (x, y, z))
            failed = {
                guard.condition: _text(not guard.outcome)
                if guard.bounds
                else bounds.value(guard.condition)
                for guard in own
            }
            self.call(region, (x, y, z), linear, self._told(region, given, failed))

        b.either(
            bounds.not_empty(ranges, self.everyone),
            b.names("some", "nobody", "after"),
            lambda: self._loop(region, ranges, self._told(region, given), loaded, usual),
            run_first,
        )

    def _bounds(
        self, loaded: Mapping[str, str], names: Mapping[str, str] | None = None
    ) -> BoundsWriter:
        """Writes bounds where the builder is; `loaded` has the names of uniform values, `names`
        those of the thread's indices."""
        known = {**self.block_sizes, **(names or {})}
        return BoundsWriter(self.b, self.regions.analyses.items, known, loaded)

    def _call_several(
        self, region: Region, nest: Nest, given: list[Typed], jammed: Function
    ) -> None:
        """Call a region's function for a few threads, if so many are left in the innermost loop, or
        else for one."""
        b, copies = self.b, JAMMED
        last = b.binary("add", "i32", nest.innermost.index, str(copies - 1), "nuw", "nsw")
        (_, several), (_, single) = b.either(
            b.compare("ult", "i32", last, nest.end),
            b.names("several", "single", "met"),
            lambda: self.call(region, nest.index, nest.linear, given, callee=jammed.name),
            lambda: self.call(region, nest.index, nest.linear, given),
        )
        nest.innermost.step = b.phi("i32", ((str(copies), several), ("1", single)), "step")

    def _inner_bounds(self, region: Region) -> list[Bound]:
        """The bounds of a region along the innermost axis."""
        bounds = [bound for each in region.guards for bound in each.bounds]
        return [bound for bound in bounds if bound.axis == self.inner]

    def _inside(self, guard: Guard) -> tuple[Bound, ...]:
        """The bounds of a guard that are about a thread's place in its block only, as in `t < d`.
        By others, which have parameters of the kernel, most blocks lie inside as a whole."""
        items = self.regions.analyses.items
        return tuple(
            bound
            for bound in guard.bounds
            if not bound.form.products and all(term.value in items for term, _ in bound.form.terms)
        )

    def _is_short(self, region: Region) -> bool:
        """Whether the loop along the innermost axis is one for vectors, and for so few that it is
        worth to have one whose trip count LLVM knows. It also makes no vectors of more lanes than
        that: 64 of bytes, say, for 16 threads, whose loop would never run."""
        bits = 8 * self.widest[region.number] * self.sizes[self.inner]
        if bits > MOST_VECTORS * vector_bits(self.state.target):
            return False
        if unroll_and_jam.kept_loops(self.regions.function, region):
            return False
        # Bytes of the threads' own arrays are far apart, and not worth vectors.
        return not (self.body.private or any(each.equation for each in self._inner_bounds(region)))


def _text(holds: bool) -> str:
    return str(holds).lower()
