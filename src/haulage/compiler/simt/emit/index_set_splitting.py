"""Writes the loops in which a region is run whose threads a condition sends two ways.

Those that pass it are a box, a range of each axis: all of an image but its border, say. The others
are what is left of the block's box around it, in slabs: for each axis what is before the inner box
and what is behind it, as wide as the inner one along the axes before it. So the region is written
twice only, in one nest of loops for the box and in one that goes over slab after slab.
"""

from collections.abc import Callable

from haulage.compiler.simt.analysis.guards import Guard
from haulage.compiler.simt.emit.loop_nest import LoopNest
from haulage.compiler.simt.emit.ranges import BoundsWriter, Ranges
from haulage.compiler.simt.ir.axes import AXES


def parted(
    number: int,
    parting: Guard,
    writer: BoundsWriter,
    everyone: Ranges,
    sizes: tuple[int, int, int],
    axes: tuple[str, ...],
    run: Callable[[LoopNest, bool], list[str]],
    note: str,
) -> tuple[list[str], str]:
    """(lines that run region `number` for those of `everyone` that pass `parting`, then for the
    others; the label that they end in).

    `run` writes the region in a nest of loops, whose threads pass or not; `note` is added to the
    branch of the loop over slabs.
    """
    k = number
    some = writer.ranges((parting,), everyone, sizes)
    outermost = tuple(axis for axis in AXES if axis not in axes)
    slabs = writer.around(some, everyone, (*outermost, *axes))
    anybody = writer.not_empty(some, everyone)
    nest = LoopNest(f"{k}.some", f"some.{k}", sizes, axes, some, False)
    lines = [
        *writer.lines,
        f"  br i1 {anybody}, label %some.{k}, label %slabs.{k}",
        f"some.{k}:",
        *run(nest, True),
        f"  br label %slabs.{k}",
        f"slabs.{k}:",
    ]
    if len(slabs) > 1:
        lines += [
            f"  br label %slab.{k}",
            f"slab.{k}:",
            f"  %slab.number.{k} = phi i32 [ 0, %slabs.{k} ], [ %slab.after.{k}, %slab.end.{k} ]",
        ]
    writer.lines.clear()
    others = writer.chosen(f"%slab.number.{k}", slabs)
    anybody = writer.not_empty(others, everyone)
    nest = LoopNest(f"{k}.others", f"others.{k}", sizes, axes, others, False)
    lines += [
        *writer.lines,
        f"  br i1 {anybody}, label %others.{k}, label %slab.end.{k}",
        f"others.{k}:",
        *run(nest, False),
        f"  br label %slab.end.{k}",
        f"slab.end.{k}:",
    ]
    if len(slabs) == 1:
        return lines, f"slab.end.{k}"
    lines += [
        f"  %slab.after.{k} = add nuw nsw i32 %slab.number.{k}, 1",
        f"  %slab.more.{k} = icmp ult i32 %slab.after.{k}, {len(slabs)}",
        f"  br i1 %slab.more.{k}, label %slab.{k}, label %all.next.{k}{note}",
        f"all.next.{k}:",
    ]
    return lines, f"all.next.{k}"
