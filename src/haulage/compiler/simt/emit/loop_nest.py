"""Writes the nest of loops over a block's threads in which a region runs: the work-item loops.

Arrays of the threads are laid out in the order of the loops: neighbours in the innermost loop are
neighbours in memory. What a program can see of a thread, its indices and its warp, does not depend
on that order.
"""

from collections.abc import Callable
from math import prod

from haulage.compiler.simt.analysis.guards import Guard
from haulage.compiler.simt.emit.loop_bounds import BoundsWriter, Ranges
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.builder import Builder, MetadataPairs

Index = tuple[str, str, str]


class LoopNest:
    """Loops along `axes`, outermost first, of a block of `sizes` threads, opened at the builder's
    place and closed by `close`.

    `ranges` has for each axis the first index and the one behind the last; none may be empty.
    `index` are threadIdx.x, .y and .z inside, `linear` the thread's linear index (an i64). With
    `faults` the largest fault of all threads is carried along.
    """

    def __init__(
        self,
        builder: Builder,
        sizes: tuple[int, int, int],
        axes: tuple[str, ...],
        ranges: Ranges,
        *,
        faults: bool = False,
    ) -> None:
        self._builder = builder
        self._axes = axes
        self._ranges = ranges
        self._fault = builder.name("fault.now") if faults else None
        # (header, latch, index, next index) for each axis.
        self._loops: list[tuple[str, str, str, str]] = []
        carried = "0"
        indices = dict.fromkeys(AXES, "0")
        for axis in axes:
            before = builder.current
            header, latch, following = (
                builder.name(f"{part}.{axis}") for part in ("loop", "latch", "next")
            )
            builder.jump(header)
            builder.block(header)
            start = ranges[axis][0]
            index = builder.phi("i32", [(start, before), (following, latch)], f"thread.{axis}")
            if self._fault is not None:
                incoming = [(carried, before), (self._fault, latch)]
                carried = builder.phi("i32", incoming, f"fault.{axis}")
            indices[axis] = index
            self._loops.append((header, latch, index, following))
        self._carried = carried
        self.index: Index = (indices["x"], indices["y"], indices["z"])
        self.linear = linear_index(builder, sizes, axes, self.index)

    @property
    def innermost(self) -> tuple[str, str]:
        """The index of the innermost loop, and the one behind its last."""
        return self._loops[-1][2], self._ranges[self._axes[-1]][1]

    def close(
        self,
        fault: str | None,
        metadata: MetadataPairs,
        outer: Callable[[], MetadataPairs] = tuple,
        step: str = "1",
    ) -> str | None:
        """Go on with the next thread, or behind the loops; returns the largest fault.

        `fault` is the thread's. `metadata` is attached to the innermost loop, what `outer` returns
        to each other one; the innermost loop goes on by `step`.
        """
        builder = self._builder
        if self._fault is not None:
            assert fault is not None
            builder.extremum("umax", "i32", self._carried, fault, self._fault)
        for axis, loop in zip(reversed(self._axes), reversed(self._loops), strict=True):
            header, latch, index, following = loop
            behind = builder.name(f"out.{axis}")
            builder.jump(latch)
            builder.block(latch)
            builder.binary("add", "i32", index, step, "nuw", "nsw", name=following)
            more = builder.compare("ult", "i32", following, self._ranges[axis][1], f"more.{axis}")
            builder.branch(more, header, behind, metadata)
            builder.block(behind)
            step = "1"
            if loop is not self._loops[0]:
                metadata = outer()
        return self._fault


def linear_index(
    builder: Builder, sizes: tuple[int, int, int], axes: tuple[str, ...], index: Index
) -> str:
    """The linear index of a thread in its block, an i64, of its indices."""
    total = "0"
    counts = [sizes[AXES.index(axis)] for axis in axes]
    for position, axis in enumerate(axes):
        # How many threads follow one another in one step of the axis.
        weight = str(prod(counts[position + 1 :]))
        part = builder.binary("mul", "i32", index[AXES.index(axis)], weight, "nuw", "nsw")
        total = builder.binary("add", "i32", total, part, "nuw", "nsw")
    return builder.cast("zext", "i32", total, "i64", "thread")


def index_of(builder: Builder, sizes: tuple[int, int, int], linear: str) -> Index:
    """The indices of the thread with a linear index, an i32, in the order x, y, z."""
    columns, rows = str(sizes[0]), str(sizes[1])
    row = builder.binary("udiv", "i32", linear, columns)
    x = builder.binary("urem", "i32", linear, columns)
    y = builder.binary("urem", "i32", row, rows)
    return x, y, builder.binary("udiv", "i32", row, rows)


def looped_axes(sizes: tuple[int, int, int], order: str) -> tuple[str, ...]:
    """The axes of `order` (outermost first) that need a loop; the last if none does."""
    axes = tuple(axis for axis in order if sizes[AXES.index(axis)] > 1)
    return axes or (order[-1],)


def split_index_set(
    builder: Builder,
    bounds: BoundsWriter,
    condition: Guard,
    everyone: Ranges,
    sizes: tuple[int, int, int],
    axes: tuple[str, ...],
    run: Callable[[Ranges, bool], object],
    metadata: MetadataPairs,
) -> None:
    """Run a region for those of `everyone` that pass a condition, then for the others (Griebl,
    Feautrier and Lengauer, "Index Set Splitting", 2000).

    Those that pass are a box, a range of each axis: all of an image but its border, say. The others
    are slabs around it: for each axis what is before the box and what is behind it, as wide as the
    box along the axes before. So the region is written twice only, in one nest of loops for the box
    and in one that goes over slab after slab.

    `run` writes the region for ranges of threads, which pass or not; `metadata` is attached to the
    loop over slabs.
    """
    box = bounds.ranges((condition,), everyone, sizes)
    outermost = tuple(axis for axis in AXES if axis not in axes)
    slabs = bounds.around(box, everyone, (*outermost, *axes))

    def run_some(ranges: Ranges, label: str, behind: str, passing: bool) -> None:
        inside = builder.name(label)
        builder.branch(bounds.not_empty(ranges, everyone), inside, behind)
        builder.block(inside)
        run(ranges, passing)
        builder.jump(behind)
        builder.block(behind)

    before = builder.name("slabs")
    run_some(box, "box", before, True)
    header, end, number = builder.name("slab"), builder.name("slab.end"), builder.name("slab.k")
    following = builder.name("slab.next")
    if len(slabs) > 1:
        builder.jump(header)
        builder.block(header)
        builder.phi("i32", [("0", before), (following, end)], number)
    run_some(bounds.chosen(number, slabs), "border", end, False)
    if len(slabs) > 1:
        behind = builder.name("slabs.end")
        builder.binary("add", "i32", number, "1", "nuw", "nsw", name=following)
        more = builder.compare("ult", "i32", following, str(len(slabs)), "slab.more")
        builder.branch(more, header, behind, metadata)
        builder.block(behind)
