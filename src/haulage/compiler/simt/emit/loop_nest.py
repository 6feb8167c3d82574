"""Writes the nest of loops over a block's threads in which a region runs, the work-item loops, and
their bounds: the range of each axis that the threads make up which pass a region's guards.

Arrays of the threads are laid out in the order of the loops: neighbours in the innermost loop are
neighbours in memory. What a program can see of a thread, its indices and its warp, does not depend
on that order.

With a guard as `affine form < 0` or `= 0` that depends on one index t, the range is computed in
numbers in which the form does not wrap, of 64 bits or else of 128, and clamped to the block's size.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod

from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.affine import Symbol
from haulage.compiler.simt.analysis.guards import FAR, Bound, Guard
from haulage.compiler.simt.ir.builder import Builder, Loop, MetadataPairs
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.compiler.simt.ir.types import PROMISES

Index = tuple[str, str, str]

# For each axis the first index and the one behind the last, as LLVM values.
Ranges = Mapping[str, tuple[str, str]]


def whole(sizes: tuple[int, int, int]) -> Ranges:
    """The ranges of all threads of a block."""
    return {axis: ("0", str(size)) for axis, size in zip(AXES, sizes, strict=True)}


@dataclass
class Nest:
    """Inside of a nest of loops over threads: `index` are threadIdx.x, .y and .z, `linear` the
    thread's linear index (an i64), `innermost` is the innermost loop, `end` behind its last
    index."""

    index: Index
    linear: str
    innermost: Loop
    end: str


@contextmanager
def loop_nest(
    builder: Builder,
    sizes: tuple[int, int, int],
    axes: tuple[str, ...],
    ranges: Ranges,
    metadata: Sequence[MetadataPairs],
    run_end: Callable[[Index, str], str] | None = None,
) -> Iterator[Nest]:
    """Loops along `axes`, outermost first, of a block of `sizes` threads; none of the `ranges` may
    be empty, and `metadata` is attached to each loop.

    With `run_end` the innermost loop goes over runs of threads, one after the other: it writes
    where the run of a thread with an index ends, at the latest at an end.
    """
    indices = dict.fromkeys(AXES, "0")
    with ExitStack() as loops:
        for axis, pairs in zip(axes, metadata, strict=True):
            first, end = ranges[axis]
            if run_end is not None and axis == axes[-1]:
                runs, last = loops.enter_context(builder.repeat("run")), end
                first = indices[axis] = runs.carry("i32", first, "run.first")
                end = run_end((indices["x"], indices["y"], indices["z"]), last)
                runs.set(first, end)
                loops.callback(_go_on, builder, runs, end, last)
            loop = builder.loop(f"loop.{axis}", end, kind="i32", first=first, metadata=pairs)
            innermost = loops.enter_context(loop)
            indices[axis] = innermost.index
        index = (indices["x"], indices["y"], indices["z"])
        yield Nest(index, linear_index(builder, sizes, axes, index), innermost, end)


def _go_on(builder: Builder, runs: Loop, end: str, last: str) -> None:
    """At the end of a run: whether another one follows."""
    runs.more = builder.compare("ult", "i32", end, last)


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


COUNT = "haulage.count.below"

# The numbers t from 0 to below a size (2^10 at most) for which t times a slope is below an end. The
# slope is not negative. What is too large for a division of 64 bits is tried one by one.
COUNT_DEFINITION = f"""define internal i32 @{COUNT}(i128 %slope, i128 %end, i32 %size) {{
start:
  %any = icmp sgt i128 %end, 0
  br i1 %any, label %some, label %none
none:
  ret i32 0
some:
  %flat = icmp eq i128 %slope, 0
  br i1 %flat, label %all, label %few
all:
  ret i32 %size
few:
  %both = or i128 %slope, %end
  %large = icmp ugt i128 %both, {2**62 - 1}
  br i1 %large, label %next, label %small
small:
  %slope.64 = trunc i128 %slope to i64
  %end.64 = trunc i128 %end to i64
  %last = sub i64 %end.64, 1
  %before = udiv i64 %last, %slope.64
  %count = add i64 %before, 1
  %wide = zext i32 %size to i64
  %less = call i64 @llvm.umin.i64(i64 %count, i64 %wide)
  %found = trunc i64 %less to i32
  ret i32 %found
next:
  %t = phi i32 [ 0, %few ], [ %t.after, %more ]
  %t.wide = zext i32 %t to i128
  %product = mul i128 %slope, %t.wide
  %below = icmp slt i128 %product, %end
  %inside = icmp ult i32 %t, %size
  %on = and i1 %below, %inside
  br i1 %on, label %more, label %reached
more:
  %t.after = add i32 %t, 1
  br label %next
reached:
  ret i32 %t
}}"""


class BoundsWriter:
    """Writes ranges in one place of the block function, where `builder` is.

    `items` are the body's instructions by result, `names` what its parameters that are not called
    as in the body have for names, `loaded` the names of values that came from the context.
    """

    def __init__(
        self,
        builder: Builder,
        items: Mapping[str, Instruction],
        names: Mapping[str, str],
        loaded: Mapping[str, str],
    ) -> None:
        self._builder = builder
        self._items = items
        self._names = dict(names)
        self._loaded = loaded

    def ranges(self, guards: Sequence[Guard], start: Ranges, sizes: tuple[int, int, int]) -> Ranges:
        """The part of the ranges `start` that passes the guards; it may be empty."""
        found: dict[str, tuple[str, str]] = dict(start)
        for guard in guards:
            for bound in guard.bounds:
                axis, size = AXES[bound.axis], sizes[bound.axis]
                low, high = self._of_bound(bound, size)
                first, end = found[axis]
                found[axis] = self._larger(first, low), self._smaller(end, high, size)
            if not guard.bounds:
                first, end = found["x"]
                passed, stopped = (end, first) if guard.outcome else (first, end)
                asked = self.value(guard.condition)
                found["x"] = first, self._builder.select(asked, "i32", passed, stopped, "bound")
        return found

    def not_empty(self, ranges: Ranges, start: Ranges) -> str:
        """An i1: whether there is a thread in the ranges, given that there is one in `start`."""
        checks = [
            self._builder.compare("ult", "i32", first, end, "bound")
            for axis, (first, end) in ranges.items()
            if (first, end) != start[axis]
        ]
        result = checks[0] if checks else "true"
        for check in checks[1:]:
            result = self._builder.binary("and", "i1", result, check, name="bound")
        return result

    def _of_bound(self, bound: Bound, size: int) -> tuple[str, str]:
        """The first index that a bound lets pass, and the one behind the last."""
        form, rest, axis, kind = bound.form, str(bound.form.constant), bound.axis, f"i{bound.bits}"

        def made(opcode: str, left: str, right: str) -> str:
            return self._builder.binary(opcode, kind, left, right, name="bound")

        for term, factor in form.terms:
            value = self._widened(term, kind)
            if term.value == bound.far:
                value = self._builder.extremum("smax", kind, value, str(-FAR), "bound")
                value = self._builder.extremum("smin", kind, value, str(FAR), "bound")
            rest = made("add", rest, made("mul", value, str(factor)))
        if form.products:
            # The term of a product is not negative.
            ((term, scaled),) = form.products
            step, times = scaled.steps[axis], self._widened(term, kind)
            rest = made("add", rest, made("mul", times, str(scaled.constant)))
            slope = made("mul", times, str(abs(step)))
        else:
            step = form.steps[axis]
            slope = str(abs(step))
        if bound.equation:
            # t = -rest, or t = rest.
            place = made("sub", "0", rest) if step > 0 else rest
            ends = place, made("add", place, "1")
            first, behind = (self._count_below(kind, end, "1", size) for end in ends)
            return first, behind
        if step > 0:
            # t * slope < -rest.
            return "0", self._count_below(kind, made("sub", "0", rest), slope, size)
        # t * slope > rest: all but those below rest + 1.
        return self._count_below(kind, made("add", rest, "1"), slope, size), str(size)

    def _count_below(self, kind: str, end: str, slope: str, size: int) -> str:
        """How many of the indices t below a size have t * slope < end, numbers of a kind; a slope
        that is known is a power of two."""
        builder = self._builder
        if not slope.isdigit():
            arguments = ("i128", slope), ("i128", end), ("i32", str(size))
            return builder.call("i32", COUNT, arguments, "bound")
        if slope != "1":
            end = builder.binary("add", kind, end, str(int(slope) - 1), name="bound")
            power = str(int(slope).bit_length() - 1)
            end = builder.binary("ashr", kind, end, power, name="bound")
        from_0 = builder.extremum("smax", kind, end, "0", "bound")
        inside = builder.extremum("smin", kind, from_0, str(size), "bound")
        return builder.cast("trunc", kind, inside, "i32", "bound")

    def _widened(self, term: Symbol, kind: str) -> str:
        """A uniform value as a number of a kind."""
        value = self.value(term.value)
        if term.type == kind:
            return value
        cast = "sext" if term.signed else "zext"
        return self._builder.cast(cast, term.type, value, kind, "bound")

    def _larger(self, one: str, other: str) -> str:
        """The larger of two indices."""
        if "0" in (one, other):
            return other if one == "0" else one
        return self._builder.extremum("umax", "i32", one, other, "bound")

    def _smaller(self, one: str, other: str, size: int) -> str:
        """The smaller of two ends, of which none is beyond the size."""
        if str(size) in (one, other):
            return other if one == str(size) else one
        return self._builder.extremum("umin", "i32", one, other, "bound")

    def set_value(self, value: str, made: str) -> None:
        """Say what a value is here, so that it is not computed."""
        self._names[value] = made

    def value(self, value: str) -> str:
        """A uniform value, computed here if it is not at hand."""
        if not value.startswith("%"):
            return value
        if value in self._names:
            return self._names[value]
        item = self._items.get(value)
        if item is None:
            return value
        name = self._builder.name("bound")
        if value in self._loaded:
            # What the kernel would not have used may be poison.
            operand = Operand(item.type, self._loaded[value])
            moved = Instruction("freeze", item.type, name, (operand,))
        else:
            operands = {used: self.value(used) for used in item.uses}
            # Its promises hold only where the kernel itself would carry it out.
            moved = item.without(PROMISES).with_uses(operands)
            moved = moved.changed(result=name, metadata=())
        self._names[value] = self._builder.add(moved)
        return self._names[value]
