"""Writes the loop over strips of a block's threads, for each of which a vectorised region runs once
(strip-mining)."""

from collections.abc import Callable
from math import prod

from haulage.compiler.simt.emit.loop_bounds import Ranges
from haulage.compiler.simt.emit.loop_nest import Index
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.builder import Builder

# What a region came to: the next region, and the fault; None where nobody asks.
Outcome = tuple[str | None, str | None]


def run_strips(
    builder: Builder,
    sizes: tuple[int, int, int],
    axes: tuple[str, ...],
    width: int,
    ranges: Ranges | None,
    run: Callable[[Index, str, tuple[str, ...]], Outcome],
    *,
    faults: bool,
) -> Outcome:
    """Run a region for `width` threads after the other; returns what they came to.

    `run` writes it for a strip, by the index of its first thread, the linear index of that, and the
    lanes that are in `ranges`: the first one and the one behind the last. With `ranges`, the first
    index and the one behind the last for each axis, strips without any such lane are passed over.
    """
    with builder.loop("strip", prod(sizes), kind="i32", step=width) as loop:
        header = builder.current
        next_before = "" if ranges is None else loop.carry("i32", "0", "next.old")
        fault_before = loop.carry("i32", "0", "fault.old") if faults else ""
        rest = loop.index
        indices = dict.fromkeys(AXES, "0")
        for axis in reversed(axes):
            size = str(sizes[AXES.index(axis)])
            indices[axis] = builder.binary("urem", "i32", rest, size)
            rest = builder.binary("udiv", "i32", rest, size)
        linear = builder.cast("zext", "i32", loop.index, "i64", "thread")
        lanes: tuple[str, ...] = ()
        inside, latch = builder.name("strip.some"), builder.name("strip.latch")
        if ranges is not None:
            first, end, some = _lanes_within(builder, indices, axes, width, ranges)
            lanes = first, end
            builder.branch(some, inside, latch)
            builder.block(inside)
        following, fault = run((indices["x"], indices["y"], indices["z"]), linear, lanes)
        if faults:
            assert fault is not None
            fault = builder.extremum("umax", "i32", fault_before, fault)
        if ranges is not None:
            assert following is not None
            last = builder.current
            builder.jump(latch)
            builder.block(latch)
            # A strip that was passed over leaves what the one before it came to.
            following = builder.phi("i32", [(following, last), (next_before, header)])
            loop.set(next_before, following)
            if fault is not None:
                fault = builder.phi("i32", [(fault, last), (fault_before, header)])
        if fault is not None:
            loop.set(fault_before, fault)
    return following, fault


def _lanes_within(
    builder: Builder, indices: dict[str, str], axes: tuple[str, ...], width: int, ranges: Ranges
) -> tuple[str, str, str]:
    """(the first lane in the range of the fastest axis, the one behind the last, whether any lane
    of the strip is in all ranges)."""
    *outer, fastest = axes
    index, (first, end) = indices[fastest], ranges[fastest]
    low = builder.call("i32", "llvm.usub.sat.i32", (("i32", first), ("i32", index)))
    high = builder.call("i32", "llvm.usub.sat.i32", (("i32", end), ("i32", index)))
    high = builder.extremum("umin", "i32", high, str(width))
    some = builder.compare("ult", "i32", low, high)
    for axis in outer:
        first, end = ranges[axis]
        above = builder.compare("uge", "i32", indices[axis], first)
        below = builder.compare("ult", "i32", indices[axis], end)
        some = builder.binary("and", "i1", some, builder.binary("and", "i1", above, below))
    return low, high, some
