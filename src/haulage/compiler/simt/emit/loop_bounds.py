"""Writes the bounds of work-item loops: the range of each axis that the threads make up which pass
a region's guards.

With a guard as `affine form < 0` or `= 0` that depends on one index t, the range is computed in
128-bit numbers, in which no form of 64-bit values wraps, and clamped to the block's size.
"""

from collections.abc import Mapping, Sequence

from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.affine import Form
from haulage.compiler.simt.analysis.guards import Bound, Guard
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.compiler.simt.ir.types import PROMISES

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

# For each axis the first index and the one behind the last, as LLVM values.
Ranges = Mapping[str, tuple[str, str]]


def whole(sizes: tuple[int, int, int]) -> Ranges:
    """The ranges of all threads of a block."""
    return {axis: ("0", str(size)) for axis, size in zip(AXES, sizes, strict=True)}


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
                axis = AXES[bound.axis]
                low, high = self._of_bound(bound, sizes[bound.axis])
                first, end = found[axis]
                found[axis] = self._larger(first, low), self._smaller(end, high)
            if not guard.bounds:
                first, end = found["x"]
                passed, stopped = (end, first) if guard.outcome else (first, end)
                asked = self.value(guard.condition)
                found["x"] = first, self._builder.select(asked, "i32", passed, stopped, "bound")
        return found

    def around(self, inner: Ranges, outer: Ranges, axes: Sequence[str]) -> list[Ranges]:
        """The part of the ranges `outer` that is not in `inner`, which were made of them: ranges
        that have no thread in common, some of which may be empty. `axes` are all three."""
        found: list[Ranges] = []
        middle = dict(outer)
        for axis in axes:
            first, end = outer[axis]
            begin, behind = inner[axis]
            if begin != first:
                begin = self._extremum("umin", begin, end)
                found.append({**middle, axis: (first, begin)})
            if behind != end:
                # The inner range may be empty.
                behind = self._extremum("umax", begin, behind)
                found.append({**middle, axis: (behind, end)})
            middle[axis] = (begin, behind)
        return found

    def chosen(self, number: str, some: Sequence[Ranges]) -> Ranges:
        """Of some ranges those with a number, an i32."""
        found = dict(some[0])
        for other, ranges in enumerate(some[1:], 1):
            if any(found[axis] != ranges[axis] for axis in AXES):
                asked = self._builder.compare("ult", "i32", number, str(other), "bound")
                for axis in AXES:
                    (first, end), (begin, behind) = found[axis], ranges[axis]
                    found[axis] = (
                        self._chosen(asked, first, begin),
                        self._chosen(asked, end, behind),
                    )
        return found

    def _chosen(self, condition: str, one: str, other: str) -> str:
        if one == other:
            return one
        return self._builder.select(condition, "i32", one, other, "bound")

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

    def _of_bound(self, bound: Bound, size: int) -> tuple[str | None, str | None]:
        """(first index or None, the one behind the last or None) that a bound lets pass."""
        rest = self._rest(bound.form)
        if bound.form.products:
            return self._of_product(bound.form, bound.axis, rest, size)
        step = bound.form.steps[bound.axis]
        if bound.equation:
            # t = -rest, or t = rest.
            place = self._wide("sub", "0", rest) if step > 0 else rest
            behind = self._wide("add", place, "1")
            return self._clamped(place, size), self._clamped(behind, size)
        bits = abs(step).bit_length() - 1
        if step > 0:
            # t < -rest / step, rounded up.
            below = self._wide("sub", str(step - 1), rest)
            return None, self._clamped(self._shifted(below, bits), size)
        # t > rest / step, rounded down.
        above = self._wide("add", self._shifted(rest, bits), "1")
        return self._clamped(above, size), None

    def _of_product(
        self, form: Form, axis: int, rest: str, size: int
    ) -> tuple[str | None, str | None]:
        """As `_of_bound`, for a form with a product whose term is not negative."""
        ((term, scaled),) = form.products
        step = scaled.steps[axis]
        factor = self._builder.cast("zext", term.type, self.value(term.value), "i128", "bound")
        own = self._wide("mul", factor, str(scaled.constant))
        rest = self._wide("add", rest, own)
        slope = self._wide("mul", factor, str(abs(step)))
        # t * slope < -rest, or t * slope > rest, so all but those below rest + 1.
        end = self._wide("sub", "0", rest) if step > 0 else self._wide("add", rest, "1")
        arguments = ("i128", slope), ("i128", end), ("i32", str(size))
        count = self._builder.call("i32", COUNT, arguments, "bound")
        return (None, count) if step > 0 else (count, None)

    def _shifted(self, value: str, bits: int) -> str:
        return self._wide("ashr", value, str(bits)) if bits else value

    def _rest(self, form: Form) -> str:
        """The form without the thread's index, an i128."""
        total = str(form.constant)
        for term, factor in form.terms:
            cast = "sext" if term.signed else "zext"
            wide = self._builder.cast(cast, term.type, self.value(term.value), "i128", "bound")
            total = self._wide("add", total, self._wide("mul", wide, str(factor)))
        return total

    def _clamped(self, value: str, size: int) -> str:
        """An i128 clamped to [0, size], as an i32."""
        builder = self._builder
        negative = builder.compare("slt", "i128", value, "0", "bound")
        from_0 = builder.select(negative, "i128", "0", value, "bound")
        large = builder.compare("sgt", "i128", from_0, str(size), "bound")
        inside = builder.select(large, "i128", str(size), from_0, "bound")
        return builder.cast("trunc", "i128", inside, "i32", "bound")

    def _wide(self, opcode: str, left: str, right: str) -> str:
        return self._builder.binary(opcode, "i128", left, right, name="bound")

    def _extremum(self, which: str, one: str, other: str) -> str:
        return self._builder.extremum(which, "i32", one, other, "bound")

    def _larger(self, one: str, other: str | None) -> str:
        if other is None or one == "0":
            return other or one
        return self._extremum("umax", one, other)

    def _smaller(self, one: str, other: str | None) -> str:
        # A range ends at the size of the block at most, as what is clamped does.
        if other is None or one.isdigit():
            return other or one
        return self._extremum("umin", one, other)

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
