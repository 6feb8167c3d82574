"""Writes the loop over strips of a block's threads, for each of which a vectorised region runs once
(strip-mining)."""

from math import prod

from haulage.compiler.simt.emit.loop_bounds import Ranges
from haulage.compiler.simt.emit.loop_nest import Index
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.builder import Builder


class StripLoop:
    """A loop in place of a `LoopNest`, with `width` threads in each iteration: `index` is that of
    the first of them, `linear` its linear index.

    With `ranges`, the first index and the one behind the last for each axis, it is for those
    threads only: `lanes` are the first lane in the range of the fastest axis and the one behind the
    last, and strips without any are passed over.
    """

    def __init__(
        self,
        builder: Builder,
        sizes: tuple[int, int, int],
        axes: tuple[str, ...],
        width: int,
        ranges: Ranges | None,
        *,
        faults: bool,
    ) -> None:
        self._builder = builder
        self._sizes = sizes
        self._width = width
        self.lanes: tuple[str, ...] = ()
        before = builder.current
        self._header, self._latch, self._after = map(
            builder.name, ("strips", "strip.latch", "strip.after")
        )
        builder.jump(self._header)
        builder.block(self._header)

        def carried(following: str, hint: str) -> str:
            return builder.phi("i32", [("0", before), (following, self._latch)], hint)

        self._first = carried(self._after, "strip")
        # The names of what the strip before came to, and of what this one comes to.
        self._next = self._fault = ("", "")
        if ranges is not None:
            following = builder.name("next.kept")
            self._next = carried(following, "next.old"), following
        self._has_faults = faults
        if faults:
            following = builder.name("fault.kept")
            self._fault = carried(following, "fault.old"), following
        rest = self._first
        indices = dict.fromkeys(AXES, "0")
        for axis in reversed(axes):
            size = str(sizes[AXES.index(axis)])
            indices[axis] = builder.binary("urem", "i32", rest, size)
            rest = builder.binary("udiv", "i32", rest, size)
        self.index: Index = (indices["x"], indices["y"], indices["z"])
        self.linear = builder.cast("zext", "i32", self._first, "i64", "thread")
        if ranges is not None:
            self.lanes = self._skip_empty(ranges, axes, indices)

    def _skip_empty(
        self, ranges: Ranges, axes: tuple[str, ...], indices: dict[str, str]
    ) -> tuple[str, str]:
        """Find the lanes in the ranges, and pass over a strip without any."""
        builder = self._builder
        *outer, fastest = axes
        index, (first, end) = indices[fastest], ranges[fastest]
        low = builder.call("i32", "llvm.usub.sat.i32", (("i32", first), ("i32", index)))
        high = builder.call("i32", "llvm.usub.sat.i32", (("i32", end), ("i32", index)))
        high = builder.extremum("umin", "i32", high, str(self._width))
        some = builder.compare("ult", "i32", low, high)
        for axis in outer:
            first, end = ranges[axis]
            above = builder.compare("uge", "i32", indices[axis], first)
            below = builder.compare("ult", "i32", indices[axis], end)
            some = builder.binary("and", "i1", some, builder.binary("and", "i1", above, below))
        inside = builder.name("strip.some")
        builder.branch(some, inside, self._latch)
        builder.block(inside)
        return low, high

    def close(self, following: str | None, fault: str | None) -> tuple[str | None, str | None]:
        """Go on with the next strip, or behind the loop; takes the next region and the fault that
        a strip came to, returns those of all."""
        builder, last = self._builder, self._builder.current
        if self._has_faults:
            assert fault is not None
            # Without ranges, this is what the next iteration gets.
            name = self._fault[1] if not self.lanes else None
            fault = builder.extremum("umax", "i32", self._fault[0], fault, name)
        builder.jump(self._latch)
        builder.block(self._latch)
        if self.lanes:
            assert following is not None
            following = self._kept(following, last, self._next)
            if fault is not None:
                fault = self._kept(fault, last, self._fault)
        builder.binary("add", "i32", self._first, str(self._width), "nuw", "nsw", name=self._after)
        more = builder.compare("ult", "i32", self._after, str(prod(self._sizes)))
        behind = builder.name("strips.out")
        builder.branch(more, self._header, behind)
        builder.block(behind)
        return following, fault

    def _kept(self, new: str, last: str, names: tuple[str, str]) -> str:
        """What a strip came to, or the one before it if it was passed over."""
        old, name = names
        return self._builder.phi("i32", [(new, last), (old, self._header)], name)
