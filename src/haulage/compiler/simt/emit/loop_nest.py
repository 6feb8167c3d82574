"""Writes the nest of loops over a block's threads in which a region runs: the work-item loops.

Arrays of the threads are laid out in the order of the loops: neighbours in the innermost loop are
neighbours in memory. What a program can see of a thread, its indices and its warp, does not depend
on that order.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod

from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.guards import Guard
from haulage.compiler.simt.emit.loop_bounds import BoundsWriter, Ranges
from haulage.compiler.simt.ir.builder import Builder, Loop, MetadataPairs

Index = tuple[str, str, str]


class LoopNest:
    """Loops along `axes`, outermost first, of a block of `sizes` threads, opened at the builder's
    place and closed by `close`.

    `ranges` has for each axis the first index and the one behind the last; none may be empty.
    `metadata` is attached to each loop. `index` are threadIdx.x, .y and .z inside, `linear` the
    thread's linear index (an i64), `innermost` is the innermost loop, `end` behind its last index.
    With `faults` the largest fault of all threads is carried along.
    """

    def __init__(
        self,
        builder: Builder,
        sizes: tuple[int, int, int],
        axes: tuple[str, ...],
        ranges: Ranges,
        metadata: Sequence[MetadataPairs],
        *,
        faults: bool = False,
    ) -> None:
        self._builder = builder
        self._open = ExitStack()
        # The largest fault so far, in each loop.
        self._faults: list[tuple[Loop, str]] = []
        largest = "0"
        indices = dict.fromkeys(AXES, "0")
        for axis, pairs in zip(axes, metadata, strict=True):
            first, self.end = ranges[axis]
            loop = builder.loop(f"loop.{axis}", self.end, kind="i32", first=first, metadata=pairs)
            self.innermost = self._open.enter_context(loop)
            indices[axis] = self.innermost.index
            if faults:
                largest = self.innermost.carry("i32", largest, f"fault.{axis}")
                self._faults.append((self.innermost, largest))
        self.index: Index = (indices["x"], indices["y"], indices["z"])
        self.linear = linear_index(builder, sizes, axes, self.index)

    def close(self, fault: str | None = None) -> str | None:
        """End the loops; returns the largest fault, of a thread's `fault`."""
        largest = None
        if self._faults and fault is not None:
            largest = self._builder.extremum("umax", "i32", self._faults[-1][1], fault, "fault.now")
            for loop, name in self._faults:
                loop.set(name, largest)
        self._open.close()
        return largest


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

    def run_some(ranges: Ranges, hint: str, passing: bool) -> None:
        with builder.when(bounds.not_empty(ranges, everyone), hint):
            run(ranges, passing)

    box = bounds.ranges((condition,), everyone, sizes)
    outermost = tuple(axis for axis in AXES if axis not in axes)
    slabs = bounds.around(box, everyone, (*outermost, *axes))
    run_some(box, "box", True)
    if len(slabs) == 1:
        run_some(slabs[0], "border", False)
        return
    with builder.loop("slab", len(slabs), kind="i32", metadata=metadata) as loop:
        run_some(bounds.chosen(loop.index, slabs), "border", False)
